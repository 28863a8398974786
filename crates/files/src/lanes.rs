//! The zones that are open for writing, in lanes: one per share of the budget of active zones.

mod subzones;

use std::sync::Arc;
use std::time::Duration;

use zonda_rt::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use zonda_rt::{Condvar, Mutex, MutexGuard, now};
use zonda_space::{BLOCK_BYTES, Space, SpaceError, StreamId, StreamSet, Urgency, ZoneCounts, ZoneId, ZoneWriter};

use crate::claim::LAST_ZONES;
use crate::options::{DATA, JOURNAL, RELOCATED};
use crate::pace::NAP;
use crate::policy::{Choice, Decision, OpenZoneView, Rule, least_bad};
use crate::{FileError, FileId, FileTags, Lifetime, Result};

pub(crate) use subzones::SplitSteps;

/// Of a zone that anybody may use.
const FOR_ALL: u32 = u32::MAX;

/// A zone with a writer.
///
/// Owned by its lane and by the files that write to it. Life cycle: 1 open -> 2 full, failed or sealed: out of its lane, and
/// its writer is closed or gone.
#[derive(Debug)]
pub(crate) struct OpenZone {
    zone: ZoneId,
    generation: u64,
    first: FileId,
    lifetime: Lifetime,
    level: Option<u8>,
    opened: u64,
    /// The most zones that were free above the reserve at a time since it was opened, itself among them. Who has to leave so many would
    /// not have got it: its room is for those who have to leave fewer.
    spare: AtomicU32,
    writers: AtomicU32,
    remaining_blocks: AtomicU64,
    writer: Mutex<Option<ZoneWriter>>,
}

impl OpenZone {
    fn new(writer: ZoneWriter, (first, tags): (FileId, &FileTags), (opened, spare): (u64, u32)) -> Self {
        Self {
            zone: writer.zone(),
            generation: writer.generation(),
            first,
            lifetime: tags.lifetime,
            level: tags.level,
            opened,
            spare: AtomicU32::new(spare),
            writers: AtomicU32::new(0),
            remaining_blocks: AtomicU64::new(writer.remaining_blocks()),
            writer: Mutex::new(Some(writer)),
        }
    }

    /// The zone.
    pub(crate) fn zone(&self) -> ZoneId {
        self.zone
    }

    /// The number of its allocation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Exclusive use of its writer; held over a device write (I1).
    pub(crate) fn writer(&self) -> MutexGuard<'_, Option<ZoneWriter>> {
        self.writer.lock()
    }

    /// Notes how much room a writer left.
    pub(crate) fn note_remaining(&self, blocks: u64) {
        self.remaining_blocks.store(blocks, Ordering::Release);
    }

    /// Whether it is for one who has to leave so many free zones, where so many are free above the reserve beside it.
    fn is_for(&self, free_zones_kept: u32, spare_now: u32) -> bool {
        let spare_now = spare_now.saturating_add(1);
        free_zones_kept < self.spare.fetch_max(spare_now, Ordering::AcqRel).max(spare_now)
    }

    fn remaining_bytes(&self) -> u64 {
        self.remaining_blocks.load(Ordering::Acquire) * BLOCK_BYTES as u64
    }

    fn view(&self) -> OpenZoneView {
        OpenZoneView {
            zone: self.zone,
            first: self.first,
            lifetime: self.lifetime,
            level: self.level,
            remaining_bytes: self.remaining_bytes(),
            writers: self.writers.load(Ordering::Acquire),
            opened: self.opened,
        }
    }
}

/// A share of the budget and its open zones.
#[derive(Debug)]
struct Lane {
    stream: StreamId,
    streams: StreamSet,
    zones_max: u32,
    open: Vec<Arc<OpenZone>>,
    /// Zones that are being finished, or wait for that: each still holds a token.
    sealing: usize,
    /// Those of them that wait.
    waiting: Vec<Arc<OpenZone>>,
}

impl Lane {
    fn drop_full(&mut self) {
        self.open.retain(|zone| zone.remaining_bytes() > 0);
    }

    fn take(&mut self, zone: ZoneId) -> Option<Arc<OpenZone>> {
        let at = self.open.iter().position(|open| open.zone == zone)?;
        Some(self.open.remove(at))
    }
}

/// All lanes. The lock is held while a zone is opened, which writes one block; not while one is finished, which may take long (but of a
/// split zone, where there is nothing to fill): only who needs its token waits.
#[derive(Debug)]
pub(crate) struct Lanes {
    space: Space,
    /// Whether tables may get subzones.
    splits: bool,
    /// Free zones that the journal needs for its next snapshot.
    journal_owed: Arc<AtomicU32>,
    lanes: Mutex<Vec<Lane>>,
    /// Signalled when `Lane::sealing` falls.
    sealed: Condvar,
    /// A thread panicked while it finished a zone: what is left of its token nobody knows.
    is_broken: AtomicBool,
    opened: AtomicU64,
    finished_unwritten: AtomicU64,
    finishing_nanos: AtomicU64,
    pub(crate) split_steps: SplitSteps,
}

/// A zone is being finished. Dropped without an [end](Self::end) by who panics.
struct Sealing<'a> {
    lanes: &'a Lanes,
    stream: StreamId,
}

impl<'a> Sealing<'a> {
    fn end(self) -> MutexGuard<'a, Vec<Lane>> {
        let lanes = self.count_off();
        std::mem::forget(self);
        lanes
    }

    /// Whoever waits for its token looks again.
    fn count_off(&self) -> MutexGuard<'a, Vec<Lane>> {
        let mut lanes = self.lanes.lanes.lock();
        lane_of(&mut lanes, self.stream).sealing -= 1;
        self.lanes.sealed.notify_all();
        lanes
    }
}

impl Drop for Sealing<'_> {
    fn drop(&mut self) {
        self.lanes.is_broken.store(true, Ordering::Release);
        drop(self.count_off());
    }
}

/// Who asks for a zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Which lane.
    pub(crate) stream: StreamId,
    /// The file.
    pub(crate) file: FileId,
    /// What it is.
    pub(crate) tags: &'a FileTags,
    /// Whether the last free zones may be taken.
    pub(crate) urgency: Urgency,
    /// Free zones that must be left.
    pub(crate) free_zones_kept: u32,
    /// A zone with less room than this may be finished.
    pub(crate) finish_below_bytes: u64,
}

/// A zone for the time that one file is written to it.
#[derive(Debug)]
pub(crate) struct Lease {
    zone: Arc<OpenZone>,
}

impl Lease {
    fn of(zone: Arc<OpenZone>) -> Self {
        zone.writers.fetch_add(1, Ordering::AcqRel);
        Self { zone }
    }

    /// The zone.
    pub(crate) fn zone(&self) -> &OpenZone {
        &self.zone
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.zone.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Lanes {
    /// Lanes of a space without open zones. With `splits`, tables may get subzones, if the lane of tables has two tokens.
    pub(crate) fn new(space: Space, splits: bool) -> Self {
        let lane = |share: zonda_space::Share| Lane {
            stream: share.stream,
            streams: share.streams,
            zones_max: share.zones,
            open: Vec::new(),
            sealing: 0,
            waiting: Vec::new(),
        };
        let lanes: Vec<Lane> = space.shares().into_iter().map(lane).collect();
        let has_tokens = lanes.iter().any(|lane| lane.streams.contains(DATA) && lane.zones_max > 1);
        let (splits, lanes) = (splits && has_tokens, Mutex::new(lanes));
        let (opened, finished_unwritten, finishing_nanos) = Default::default();
        let (split_steps, journal_owed) = Default::default();
        let (sealed, is_broken) = (Condvar::new(), AtomicBool::new(false));
        Self {
            space,
            splits,
            journal_owed,
            lanes,
            sealed,
            is_broken,
            opened,
            finished_unwritten,
            finishing_nanos,
            split_steps,
        }
    }

    /// Where the journal says how many free zones its next snapshot needs.
    pub(crate) fn journal_owed(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.journal_owed)
    }

    /// Takes in a zone of an earlier life; gives it back if its lane is full, or if it may not hold all that the lane writes: a mount looks
    /// for logs and meta files only where the header of a zone says that they may be.
    ///
    /// Compactions have to leave `kept_from_compactions` free zones for what may be in this one; 0 if one has written to it: then it was
    /// for all when it was opened, or since.
    pub(crate) fn adopt(
        &self,
        writer: ZoneWriter,
        first: (FileId, &FileTags),
        kept_from_compactions: u32,
    ) -> Option<ZoneWriter> {
        let mut lanes = self.lanes.lock();
        let lane = lane_of(&mut lanes, writer.stream());
        let holds_all = lane.streams.iter().all(|stream| writer.holds().contains(stream));
        if lane.open.len() >= self.wide_max(lane) || writer.remaining_blocks() == 0 || !holds_all {
            return Some(writer);
        }
        // Which of them was one of the last, or of the reserve of flushes, is on no device: if one of these is taken, all that are open
        // are treated so.
        let is_for_tables = lane.streams.contains(DATA);
        let kept = if is_for_tables { kept_from_compactions } else { LAST_ZONES };
        let spare = match (self.spare_now() < kept, is_for_tables) {
            (false, _) => FOR_ALL,
            (true, false) => kept,
            // Flushes go on in it whatever their reserve is.
            (true, true) => kept.max(LAST_ZONES + 1),
        };
        lane.open.push(Arc::new(self.open_zone(writer, first, spare)));
        None
    }

    fn open_zone(&self, writer: ZoneWriter, first: (FileId, &FileTags), spare: u32) -> OpenZone {
        OpenZone::new(writer, first, (self.opened.fetch_add(1, Ordering::Relaxed), spare))
    }

    /// A zone with room, as `choose` has it of the open zones and whether another may be opened, and by which rule; `None` if a
    /// free zone would be needed and too few are free.
    ///
    /// # Errors
    /// `Space` other than for want of zones.
    pub(crate) fn place(
        &self,
        request: &Request<'_>,
        choose: &dyn Fn(&[OpenZoneView], bool) -> Decision,
    ) -> Result<Option<(Lease, Rule)>> {
        let mut lanes = self.lanes.lock();
        loop {
            if self.is_broken.load(Ordering::Acquire) {
                let cause = "a thread that finished a zone panicked, which is a bug".to_owned();
                return Err(FileError::Stopped { cause });
            }
            let lane = lane_of(&mut lanes, request.stream);
            lane.drop_full();
            let has_zone = self.may_open(request);
            let usable = if self.is_left_to_cleaning(lane, request) { &[] } else { lane.open.as_slice() };
            let is_cleaning = request.urgency == Urgency::Reserve;
            let may_use = |zone: &&Arc<OpenZone>| is_cleaning || self.may_use(zone, request.free_zones_kept);
            let views: Vec<OpenZoneView> = usable.iter().filter(may_use).map(|zone| zone.view()).collect();
            let has_token = lane.open.len() + lane.sealing < self.wide_max(lane);
            let may_open = has_token && has_zone;
            // A worse match is better than to waste a zone, but not than to let a split zone idle.
            if has_zone && !has_token && wants_new(choose, &views) && self.take_split_token(lane) {
                continue;
            }
            if views.is_empty() && !may_open {
                if lane.sealing == 0 {
                    return Ok(None);
                }
                match lane.waiting.pop() {
                    Some(zone) => lanes = self.seal(lanes, request.stream, &zone),
                    None => lanes = self.sealed.wait(lanes),
                }
                continue;
            }
            let Decision { choice, rule } = choose(&views, may_open);
            let (zone, rule) = match choice {
                Choice::Open(zone) => (Some(zone), rule),
                Choice::New if may_open => (None, rule),
                Choice::FinishThenNew(zone) if self.is_to_be_finished(request, &views, zone) => {
                    lanes = self.finish(lanes, request.stream, zone);
                    // Somebody else may have had the token meanwhile.
                    continue;
                }
                Choice::New | Choice::FinishThenNew(_) => (least_bad(request.tags, &views), Rule::Lifetime),
            };
            if let Some(open) = zone.and_then(|zone| lane.open.iter().find(|open| open.zone == zone)) {
                return Ok(Some((Lease::of(Arc::clone(open)), rule)));
            }
            match self.open_new(lane, request) {
                Ok(opened) => return Ok(Some((opened, rule))),
                // A worse match is better than none that can be opened.
                Err(_) if let Some(lease) = least_bad_of(lane, request, &views) => {
                    return Ok(Some((lease, Rule::Lifetime)));
                }
                // A zone that could not be finished before is just being reset.
                Err(error) if lacks_token(&error) && self.space.will_have_token(request.stream) => {
                    drop(lanes);
                    self.space.wait_for_change(NAP);
                    lanes = self.lanes.lock();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A worse match is better than to waste what a zone can still hold, unless that is little.
    fn is_to_be_finished(&self, request: &Request<'_>, views: &[OpenZoneView], zone: ZoneId) -> bool {
        let has_little = |view: &&OpenZoneView| view.zone == zone && view.remaining_bytes < request.finish_below_bytes;
        views.iter().any(|view| has_little(&view)) && self.may_open(request)
    }

    /// Where cleaning has no token of its own, its zone is its alone until it could open another: with what new data leaves of it no
    /// victim might be emptied, and nothing ever be freed.
    fn is_left_to_cleaning(&self, lane: &Lane, request: &Request<'_>) -> bool {
        request.urgency == Urgency::Foreground
            && lane.streams.contains(RELOCATED)
            && self.free_now() < self.reserve_now()
    }

    fn may_open(&self, request: &Request<'_>) -> bool {
        let kept = match request.urgency {
            Urgency::Foreground => self.reserve_now() + request.free_zones_kept,
            Urgency::Reserve => request.free_zones_kept,
        };
        self.free_now() > kept && self.counts().free > 0
    }

    fn counts(&self) -> ZoneCounts {
        self.space.zone_counts(JOURNAL)
    }

    /// Zones with nothing in them: free ones, and those that the next header that is written makes free.
    pub(crate) fn free_now(&self) -> u32 {
        let counts = self.counts();
        counts.free + counts.retired
    }

    /// Whether one who has to leave so many free zones may write to an open one.
    pub(crate) fn may_use(&self, zone: &OpenZone, free_zones_kept: u32) -> bool {
        zone.is_for(free_zones_kept, self.spare_now())
    }

    /// Free zones above the reserve.
    fn spare_now(&self) -> u32 {
        self.free_now().saturating_sub(self.reserve_now())
    }

    /// Free zones that cleaning and the journal may still need: what the journal has taken of the reserve it will give back, so
    /// that it is not at the cost of flushes. A journal whose next snapshot is longer than a zone needs more, beside the one of cleaning.
    pub(crate) fn reserve_now(&self) -> u32 {
        let counts = self.counts();
        let reserve = counts.reserve.saturating_sub(counts.of_stream.saturating_sub(1)).max(1);
        match self.journal_owed.load(Ordering::Relaxed) {
            0 | 1 => reserve,
            owed => reserve.max(owed.saturating_add(1)),
        }
    }

    fn open_new(&self, lane: &mut Lane, request: &Request<'_>) -> Result<Lease> {
        let counts = self.counts();
        let is_lent = request.urgency == Urgency::Foreground && counts.free <= counts.reserve;
        let urgency = if is_lent { Urgency::Reserve } else { request.urgency };
        // Asked before the zone is taken.
        let spare = match request.urgency {
            Urgency::Foreground => self.spare_now().max(request.free_zones_kept.saturating_add(1)),
            Urgency::Reserve => FOR_ALL,
        };
        let writer = self.space.open_zone(lane.stream, urgency)?;
        let open = Arc::new(self.open_zone(writer, (request.file, request.tags), spare));
        lane.open.push(Arc::clone(&open));
        Ok(Lease::of(open))
    }

    /// Finishes an open zone of a lane, with the lock given up meanwhile; the bytes that were left in it are lost until it is reset.
    fn finish<'a>(
        &'a self,
        mut lanes: MutexGuard<'a, Vec<Lane>>,
        stream: StreamId,
        zone: ZoneId,
    ) -> MutexGuard<'a, Vec<Lane>> {
        let lane = lane_of(&mut lanes, stream);
        let Some(open) = lane.take(zone) else { return lanes };
        lane.sealing += 1;
        self.seal(lanes, stream, &open)
    }

    /// Finishes a zone that is out of its lane and counts there as being finished.
    fn seal<'a>(
        &'a self,
        lanes: MutexGuard<'a, Vec<Lane>>,
        stream: StreamId,
        open: &OpenZone,
    ) -> MutexGuard<'a, Vec<Lane>> {
        drop(lanes);
        let sealing = Sealing { lanes: self, stream };
        let writer = open.writer().take();
        self.finished_unwritten.fetch_add(open.remaining_bytes(), Ordering::Relaxed);
        open.note_remaining(0);
        let began = now();
        if let Some(writer) = writer {
            self.space.seal(writer);
        }
        let nanos = u64::try_from(now().since(began).as_nanos()).unwrap_or(u64::MAX);
        self.finishing_nanos.fetch_add(nanos, Ordering::Relaxed);
        sealing.end()
    }

    /// What follows when a file is closed: a subzone is finished, and a zone that nobody writes and that is nearly full gives its
    /// token back. If somebody else `finishes`, it is left to [`finish_one`](Self::finish_one); returns whether it was. That is asked with
    /// the lanes locked: who says no more that it finishes, and looks then, finds whatever was left to it.
    pub(crate) fn release(
        &self,
        lease: Lease,
        stream: StreamId,
        (finish_below_bytes, finishes): (u64, &dyn Fn() -> bool),
    ) -> bool {
        if self.is_subzone(lease.zone.zone) {
            self.release_subzone(lease);
            return false;
        }
        let mut lanes = self.lanes.lock();
        let lane = lane_of(&mut lanes, stream);
        let zone = lease.zone.zone;
        let is_nearly_full = lease.zone.remaining_bytes() < finish_below_bytes;
        drop(lease);
        lane.drop_full();
        let is_idle = |open: &Arc<OpenZone>| open.zone == zone && open.writers.load(Ordering::Acquire) == 0;
        if !is_nearly_full || !lane.open.iter().any(is_idle) {
            return false;
        }
        if !finishes() {
            drop(self.finish(lanes, stream, zone));
            return false;
        }
        let left = lane.take(zone);
        lane.sealing += left.iter().len();
        lane.waiting.extend(left);
        true
    }

    /// Finishes a zone that was left when its file was closed; returns whether there was one.
    pub(crate) fn finish_one(&self) -> bool {
        let mut lanes = self.lanes.lock();
        let left = lanes.iter_mut().find_map(|lane| Some((lane.stream, lane.waiting.pop()?)));
        let Some((stream, zone)) = left else { return false };
        drop(self.seal(lanes, stream, &zone));
        true
    }

    /// Finishes an idle zone for cleaning: one in which nothing is live, so that it can be reset. Returns whether there
    /// was one.
    pub(crate) fn finish_dead(&self) -> bool {
        let lanes = self.lanes.lock();
        let is_dead = |open: &Arc<OpenZone>| {
            let idle = open.writers.load(Ordering::Acquire) == 0;
            idle && self.space.live_bytes(open.zone) == 0
        };
        let dead_of = |lane: &Lane| Some((lane.stream, lane.open.iter().find(|open| is_dead(open))?.zone));
        let Some((stream, zone)) = lanes.iter().find_map(dead_of) else { return false };
        drop(self.finish(lanes, stream, zone));
        true
    }

    /// All open zones.
    pub(crate) fn views(&self) -> Vec<OpenZoneView> {
        self.lanes.lock().iter().flat_map(|lane| lane.open.iter().map(|zone| zone.view())).collect()
    }

    /// Bytes that were left in zones that were finished before they were full.
    pub(crate) fn finished_unwritten_bytes(&self) -> u64 {
        self.finished_unwritten.load(Ordering::Relaxed)
    }

    /// Time that finishing zones took.
    pub(crate) fn finishing_time(&self) -> Duration {
        Duration::from_nanos(self.finishing_nanos.load(Ordering::Relaxed))
    }
}

fn wants_new(choose: &dyn Fn(&[OpenZoneView], bool) -> Decision, views: &[OpenZoneView]) -> bool {
    views.is_empty() || !matches!(choose(views, true).choice, Choice::Open(_))
}

fn lacks_token(error: &FileError) -> bool {
    matches!(error, FileError::Space(SpaceError::StreamFull { .. } | SpaceError::TokensHeld { .. }))
}

fn least_bad_of(lane: &Lane, request: &Request<'_>, views: &[OpenZoneView]) -> Option<Lease> {
    let zone = least_bad(request.tags, views)?;
    lane.open.iter().find(|open| open.zone == zone).map(|open| Lease::of(Arc::clone(open)))
}

fn lane_of(lanes: &mut [Lane], stream: StreamId) -> &mut Lane {
    let found = lanes.iter_mut().find(|lane| lane.streams.contains(stream));
    found.expect("the budget was made of all streams")
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use zonda_device::{Geometry, MemDevice};

    use super::*;
    use crate::policy::testing::zones;
    use crate::{FileKind, FilePath, FileStore, FileStoreOptions, StoreId};

    #[test]
    fn who_waits_for_a_token_hears_that_the_thread_that_has_it_panicked() {
        let device = MemDevice::new(Geometry::new(64 << 10, 24).with_limits(14, 14)).unwrap();
        let store = FileStore::format(Arc::new(device), StoreId(1), false, FileStoreOptions::default()).unwrap();
        let lanes = &store.core.lanes;
        lane_of(&mut lanes.lanes.lock(), DATA).sealing += 1;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _sealing = Sealing { lanes, stream: DATA };
            panic!("planted");
        }));
        assert!(panicked.is_err() && lane_of(&mut lanes.lanes.lock(), DATA).sealing == 0);
        let path = FilePath::parse("/a").unwrap();
        let mut writer = store.create(&path, FileTags::of(FileKind::Data)).unwrap();
        let refused = writer.append(&[1; 4096]).and_then(|_| writer.sync()).unwrap_err();
        assert!(matches!(&refused, FileError::Stopped { cause } if cause.contains("panicked")), "{refused}");
    }

    #[test]
    fn a_zone_is_finished_if_little_would_be_wasted_and_another_may_be_opened() {
        let device = MemDevice::new(Geometry::new(64 << 10, 24).with_limits(6, 6)).unwrap();
        let store = FileStore::format(Arc::new(device), StoreId(1), false, FileStoreOptions::default()).unwrap();
        let lanes = &store.core.lanes;
        let mut views = zones(&[Lifetime::Short, Lifetime::Long]);
        views[0].remaining_bytes = 4096;
        let tags = FileTags::of(FileKind::Data);
        let (stream, file, urgency) = (DATA, FileId(1), Urgency::Foreground);
        let request = Request { stream, file, tags: &tags, urgency, free_zones_kept: 0, finish_below_bytes: 4097 };
        let is_finished = |request: &Request<'_>, zone| lanes.is_to_be_finished(request, &views, ZoneId(zone));
        assert!(is_finished(&request, 0));
        assert!(!is_finished(&Request { finish_below_bytes: 4096, ..request }, 0), "so much is room, not waste");
        assert!(!is_finished(&request, 1), "another zone has little left");
        assert!(!is_finished(&request, 2), "it is not open");
        // The journal has one of 24.
        let spare = 23 - lanes.reserve_now();
        assert!(is_finished(&Request { free_zones_kept: spare - 1, ..request }, 0));
        assert!(
            !is_finished(&Request { free_zones_kept: spare, ..request }, 0),
            "no zone could be opened for its token"
        );
        let moved = Request { urgency: Urgency::Reserve, free_zones_kept: spare, ..request };
        assert!(is_finished(&moved, 0), "cleaning has the reserve");
    }
}
