//! Resets zones in which nothing is live: what removals left, and what cleaning emptied.
//!
//! Order (I3): 1 a zone is found dead -> 2 all removals and moves so far are durable -> 3 the zone is reset. Who has a file open
//! keeps its bytes live, so that nobody reads a dead zone.
//!
//! Whoever resets a zone or empties it has claimed it before, under `claiming`: so a thread may reset what is dead while others
//! copy, or reset too. What is found dead or alive under that lock, and claimed, is nobody else's.

use std::collections::BTreeSet;

use zonda_rt::try_spawn;
use zonda_space::{SpaceError, ZoneId, ZoneUse, ZoneView};

use crate::options::JOURNAL;
use crate::pace::NAP;
use crate::store::{Core, Counters};
use crate::{FileStore, Result};

/// How many zones are reset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resets {
    /// In all, one step.
    pub(crate) zones_max: usize,
    /// In flight together. A drive takes milliseconds for one, in which it could do others.
    pub(crate) at_once: usize,
}

/// In one thread, so that a test with a seed finds the same every time.
const ONE_AFTER_THE_OTHER: Resets = Resets { zones_max: usize::MAX, at_once: 1 };
/// For a writer, beside a thread that resets the others.
const ONE: Resets = Resets { zones_max: 1, at_once: 1 };
/// Beside writers.
const TOGETHER: Resets = Resets { zones_max: 8, at_once: 8 };

/// How many zones were reset, and why one was not: it keeps nobody from the others, and is tried again next time.
pub(crate) type Done = (u32, Option<SpaceError>);

impl FileStore {
    /// Resets what is dead, however much is free, so that no writer has to wait for that; beside whoever empties zones. Returns how many
    /// zones are free for it, a few at most; `None`: there was none.
    ///
    /// # Errors
    /// `Stopped`, `Space`.
    pub(crate) fn reset_in_background(&self) -> Result<Option<u32>> {
        let core = &self.core;
        if core.ground.blocks().is_some() {
            return Ok(None);
        }
        core.merge_dead()?;
        if core.dead_zones().is_empty() {
            return Ok(None);
        }
        match core.reset_dead(TOGETHER)? {
            (0, Some(error)) => Err(error.into()),
            (0, None) => Ok(None),
            (zones_freed, _) => Ok(Some(zones_freed)),
        }
    }
}

impl Core {
    /// Resets zones in which nothing is live, if no zone is free for a writer that leaves so many: before a policy is asked,
    /// which may have to make do with less without an empty zone.
    ///
    /// # Errors
    /// `Stopped`, `Space`.
    pub(crate) fn reset_dead_if_short(&self, free_zones_kept: u32) -> Result<()> {
        let is_short = || self.lanes.free_now() <= self.lanes.reserve_now() + free_zones_kept;
        if is_short() {
            self.merge_dead()?;
        }
        if !is_short() || self.dying_zones() == 0 {
            return Ok(());
        }
        self.waited(|| {
            // Who copies may have claimed what died meanwhile.
            let _no_naps = self.pace.hurry();
            while is_short() && self.dying_zones() > 0 {
                self.stop.check()?;
                if self.has_resettable() {
                    return self.reset_dead(self.resets()).map(|_| ());
                }
                self.space().wait_for_change(NAP);
            }
            Ok(())
        })
    }

    /// How who needs a zone resets. With eight at once each takes longer: a thread may, a writer waits for one.
    pub(crate) fn resets(&self) -> Resets {
        if self.has_cleaner() { ONE } else { ONE_AFTER_THE_OTHER }
    }

    /// Written zones in which nothing is live, and that nobody claimed; one that can be written no more if it was emptied.
    /// Subzones are merged by commits.
    pub(crate) fn dead_zones(&self) -> Vec<ZoneId> {
        let emptied = self.emptied.lock();
        let is_written = |view: &ZoneView| match view.state {
            ZoneUse::Sealed | ZoneUse::Partial => true,
            ZoneUse::ReadOnly => emptied.contains(&view.zone),
            _ => false,
        };
        let is_dead = |view: &&ZoneView| {
            let is_ours = view.stream.is_some_and(|stream| stream != JOURNAL);
            is_ours && view.live_bytes == 0 && !view.relocating && is_written(view)
        };
        self.space().view().iter().filter(is_dead).map(|view| view.zone).collect()
    }

    /// Zones in which nothing is live and that will be free when they were reset, by whomever; not those whose last reset failed.
    pub(crate) fn dying_zones(&self) -> usize {
        let unresettable = self.unresettable.lock();
        let is_dying = |view: &&ZoneView| {
            let is_ours = view.stream.is_some_and(|stream| stream != JOURNAL);
            let is_written = matches!(view.state, ZoneUse::Sealed | ZoneUse::Partial | ZoneUse::Changing);
            is_ours && view.live_bytes == 0 && is_written && !unresettable.contains(&view.zone)
        };
        self.space().view().iter().filter(is_dying).count()
    }

    /// Whether there is a dead zone whose last reset did not fail.
    fn has_resettable(&self) -> bool {
        let dead = self.dead_zones();
        let unresettable = self.unresettable.lock();
        dead.iter().any(|zone| !unresettable.contains(zone))
    }

    /// Resets dead zones, all removals and moves being durable. Goes on past zones that fail until one is free.
    pub(crate) fn reset_dead(&self, resets: Resets) -> Result<Done> {
        let (mut tried, mut failed) = (BTreeSet::new(), None);
        loop {
            let dead = self.claim_dead(resets.zones_max, &tried);
            if dead.is_empty() {
                return Ok((0, failed));
            }
            let committed = self.commit_to(self.names.last());
            if committed.is_err() {
                dead.iter().for_each(|&zone| self.space().end_relocation(zone));
            }
            committed?;
            tried.extend(dead.iter().copied());
            let (zones_freed, error) = self.reset_claimed(&dead, resets.at_once);
            failed = error.or(failed);
            if zones_freed > 0 {
                return Ok((zones_freed, failed));
            }
        }
    }

    fn reset_claimed(&self, dead: &[ZoneId], at_once: usize) -> Done {
        let (mut zones_freed, mut failed) = (0, None);
        for zones in dead.chunks(at_once) {
            for (zone, outcome) in zones.iter().zip(self.reset_at_once(zones)) {
                let is_free = outcome.as_ref().is_ok_and(|now| !matches!(now, ZoneUse::ReadOnly | ZoneUse::Offline));
                zones_freed += u32::from(is_free);
                match outcome {
                    Ok(_) => {
                        self.unresettable.lock().remove(zone);
                        self.count_reset(self.emptied.lock().remove(zone), is_free);
                    }
                    Err(error) => {
                        self.space().end_relocation(*zone);
                        self.unresettable.lock().insert(*zone);
                        failed = Some(error);
                    }
                }
            }
        }
        (zones_freed, failed)
    }

    fn count_reset(&self, was_copied: bool, is_free: bool) {
        let Counters { resets_with_copy, resets_without_copy, .. } = &self.counters;
        Counters::add(if was_copied { resets_with_copy } else { resets_without_copy }, is_free.into());
    }

    fn claim_dead(&self, zones_max: usize, tried: &BTreeSet<ZoneId>) -> Vec<ZoneId> {
        let _claiming = self.claiming.lock();
        let mut dead = self.dead_zones();
        dead.retain(|zone| !tried.contains(zone));
        dead.truncate(zones_max);
        dead.retain(|&zone| self.space().begin_relocation(zone));
        dead
    }

    /// Resets zones, each in a thread of its own but for the first.
    fn reset_at_once(&self, zones: &[ZoneId]) -> Vec<std::result::Result<ZoneUse, SpaceError>> {
        let in_thread = |zone: ZoneId| {
            let space = self.space().clone();
            try_spawn("zonda-reset", move || space.reset(zone)).map_err(|_| zone)
        };
        let threads: Vec<_> = zones.iter().skip(1).map(|&zone| in_thread(zone)).collect();
        let first = zones.first().map(|&zone| self.space().reset(zone));
        let others = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panicked| panic!("{panicked}")),
            // No thread is to be had.
            Err(zone) => self.space().reset(zone),
        });
        first.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice};
    use zonda_rt::DeviceCall;

    use super::*;
    use crate::{FileKind, FilePath, FileStoreOptions, FileTags, StoreId};

    fn path(number: u32) -> FilePath {
        FilePath::parse(&format!("/{number}")).unwrap()
    }

    fn put(store: &FileStore, number: u32) {
        let mut writer = store.create(&path(number), FileTags::of(FileKind::Flushed)).unwrap();
        writer.append(&[7; 30_000]).unwrap();
        writer.close().unwrap();
        store.sync_names().unwrap();
    }

    /// Cleaning goes on although there would be zones enough if those that are dead were reset.
    #[test]
    fn zones_whose_reset_fails_are_not_counted_on() {
        let faulty = Faulty::new(MemDevice::new(Geometry::new(64 << 10, 24).with_limits(6, 6)).unwrap(), 1);
        let options = FileStoreOptions { write_buffer_bytes: 16 << 10, ..FileStoreOptions::default() };
        let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options).unwrap();
        (0..10).for_each(|number| put(&store, number));
        // They die in the order in which they came: zone after zone, the last of them in part.
        let mut numbers = (0..10).cycle();
        while !store.core.is_short_of_zones(0) {
            put(&store, numbers.next().unwrap());
        }
        assert_eq!(store.clean_in_background().unwrap(), None, "what is dead will soon be free");
        for zone in store.core.dead_zones() {
            let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Error(ErrorKind::Media));
            faulty.inject(Fault { call, zone: Some(zone), when: FaultWhen::From(1), effect });
        }
        assert!(store.reset_in_background().is_err());
        assert_eq!(store.clean_in_background().unwrap(), Some(0), "it was not freed");
        faulty.heal();
        while store.reset_in_background().unwrap().is_some() {}
        assert!(store.core.unresettable.lock().is_empty());
        let mut read = vec![0; 30_000];
        for number in 0..10 {
            assert_eq!(store.open(&path(number)).unwrap().read_at(0, &mut read).unwrap(), 30_000);
        }
        assert_eq!(store.check().unwrap().findings, []);
    }
}
