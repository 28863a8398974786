//! Room on the device for what a writer is to do: helping reclaim, waiting for others that reclaim, and when to stop.
//!
//! Whoever waits holds no latch and no epoch guard. It is refused when the store says that nothing can be gained, or when for a long time
//! nobody made any progress; as long as somebody does, however slowly, it waits: on a busy machine a thread that reclaims may not run for
//! seconds.

use std::time::Duration;

use zonda_pages::{PageError, PageStore, Reclaimed};
use zonda_rt::atomic::Ordering;

use crate::{
    Step, TreeError,
    relocate::can_wait,
    tree::{Result, Tree, is_no_space},
    waits::Cause,
};

/// How long a writer lets others reclaim before it looks again.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);
/// Pauses before a writer gives up snapshots that keep zones from being reset.
const SNAPSHOT_PATIENCE: u32 = 50;
/// Pauses in which nobody reclaimed anything after which a writer that needs many zones at once does with what there are.
const PRESSED_PAUSES_MAX: u32 = 10;
/// Steps of reclaim for each page that it needs at the most, should they gain nothing.
const PRESSED_STEPS_PER_PAGE: u32 = 8;
/// Pauses in which nobody reclaimed anything or was about to, after which a merge in a full store is refused: what it would free is not
/// lost, and who deletes is not to wait.
const FULL_PAUSES_MAX: u32 = 10;
/// Bytes that a step of reclaim looks at, or more.
const RECLAIM_STEP_BYTES: u64 = 256 << 10;
/// Pauses in which nobody reclaimed anything after which a writer is refused: 10 s, and longer where the store waits for zones between
/// them.
const IDLE_PAUSES_MAX: u32 = 5_000;
/// Pauses after which it is refused although others make progress: a minute, or longer likewise.
const PAUSES_MAX: u32 = 30_000;

/// How long somebody has waited.
#[derive(Debug, Default)]
struct Patience {
    pauses: u32,
    /// Pauses since somebody reclaimed something.
    idle_pauses: u32,
    /// Those of them in which nobody was about to.
    vain_pauses: u32,
    /// Steps of reclaim by then.
    steps: u64,
}

impl Patience {
    /// One more pause behind a step of reclaim that did this, at the end of which there were `steps` steps; whether it was the last.
    fn is_over_after(&mut self, reclaimed: Reclaimed, steps: u64) -> bool {
        self.pauses += 1;
        if steps == self.steps {
            self.idle_pauses += 1;
            // A thread that has the turn may not run for a while.
            self.vain_pauses += u32::from(reclaimed != Reclaimed::Busy);
        } else {
            (self.idle_pauses, self.vain_pauses) = (0, 0);
        }
        self.steps = steps;
        self.idle_pauses >= IDLE_PAUSES_MAX || self.pauses >= PAUSES_MAX
    }
}

/// While it lives, no garbage is to be borne.
struct Unwanted<'a>(&'a dyn PageStore);

impl<'a> Unwanted<'a> {
    fn of(store: &'a dyn PageStore) -> Self {
        store.bear_garbage(false);
        Self(store)
    }
}

impl Drop for Unwanted<'_> {
    fn drop(&mut self) {
        self.0.bear_garbage(true);
    }
}

impl Tree {
    /// Calls `attempt` again while it finds no zone and reclaim can make one, or others may, but not for ever. Log and MetaLog keep what
    /// they could not write, so trying again is right. No latch and no epoch guard may be held. Recovery, which is alone, waits for nobody,
    /// and whoever reclaims himself only for a moment.
    ///
    /// # Errors
    /// Those of `attempt` and of reclaim; `Poisoned` once the store is.
    pub(crate) fn with_room<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut patience = Patience::default();
        // Reclaim that goes on and never gives a zone is left some time, too.
        for _ in 0..PAUSES_MAX {
            match attempt() {
                Err(error) if is_no_space(&error) => {
                    let reclaimed = self.reclaim()?;
                    let gained =
                        reclaimed == Reclaimed::Progress || self.press_snapshots() || self.checkpoint_for_zones()?;
                    if gained {
                        continue;
                    }
                    // Others may have failed meanwhile; then nobody makes room any more.
                    self.poison.check()?;
                    let is_alone = self.recovering.load(Ordering::Acquire)
                        || reclaimed == Reclaimed::Inside && patience.vain_pauses >= FULL_PAUSES_MAX;
                    let mut is_over = || self.waits.during(Cause::Zones, || self.pause(&mut patience, reclaimed));
                    if is_alone || is_over() {
                        return Err(error);
                    }
                }
                outcome => return outcome,
            }
        }
        attempt()
    }

    /// Waits a moment, in which another thread may reclaim, behind a step of reclaim that did this; whether that was the last.
    fn pause(&self, patience: &mut Patience, reclaimed: Reclaimed) -> bool {
        zonda_rt::sleep(PAUSE);
        patience.is_over_after(reclaimed, self.reclaim_steps())
    }

    /// Waits until `pages` pages may be placed, helping with reclaim meanwhile. No latch and no epoch guard may be held.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn admit(&self, pages: u32) -> Result<()> {
        let (mut patience, mut busy_since) = (Patience::default(), None);
        let outcome = loop {
            if self.store.is_short() && self.may_reclaim() {
                self.waits.during(Cause::Reclaim, || self.reclaim_while_short())?;
            }
            // Recovery never waits: reclaim of values waits for recovery itself.
            if self.recovering.load(Ordering::Acquire) {
                return Ok(());
            }
            match self.store.admit(pages) {
                Err(PageError::Busy) => {
                    busy_since.get_or_insert_with(zonda_rt::now);
                    if let Err(error) = self.wait_for_room(&mut patience, pages) {
                        break Err(error);
                    }
                }
                outcome => break outcome.map_err(TreeError::from),
            }
        };
        busy_since.into_iter().for_each(|began| self.waits.since(began, Cause::Zones));
        outcome
    }

    fn reclaim_while_short(&self) -> Result<()> {
        while self.store.is_short() && self.may_reclaim() {
            if self.reclaim_step()? == Step::Idle && !self.checkpoint_for_zones()? {
                break;
            }
        }
        Ok(())
    }

    /// Reclaims until there are zones for `pages` pages at once, or nothing is left to be gained.
    ///
    /// # Errors
    /// Those of reclaim.
    pub(crate) fn reclaim_for(&self, pages: u32) -> Result<()> {
        if pages == 0 || self.store.press_for(pages) {
            return Ok(());
        }
        let reclaimed = self.waits.during(Cause::Reclaim, || {
            let steps = || self.reclaim_steps();
            let (mut idle_pauses, mut left) = (0, pages.saturating_mul(PRESSED_STEPS_PER_PAGE));
            while !self.store.press_for(pages) && self.may_reclaim() && idle_pauses < PRESSED_PAUSES_MAX && left > 0 {
                left -= 1;
                let before = steps();
                if self.reclaim_step()? == Step::Idle && !self.checkpoint_for_zones()? {
                    zonda_rt::sleep(PAUSE);
                    idle_pauses = if steps() == before { idle_pauses + 1 } else { 0 };
                }
            }
            Ok(())
        });
        self.store.press_for(0);
        reclaimed
    }

    /// Gets back the zones of which half is dead or more, as far as readers, snapshots, damage and room let it: all that are so now, if
    /// nobody writes.
    ///
    /// # Errors
    /// `Closed`, `Poisoned`; those of the device.
    pub(crate) fn reclaim_garbage(&self) -> Result<()> {
        let _unwanted = Unwanted::of(&*self.store);
        let (mut patience, usage) = (Patience::default(), self.store.usage());
        let held = usage.capacity_bytes / u64::from(usage.zones.max(1)) * u64::from(usage.zones - usage.free_zones);
        // Writers may make as much as is got back: so many steps look at all that is here twice.
        for _ in 0..2 * held / RECLAIM_STEP_BYTES + 1_024 {
            self.check_writable()?;
            // What moved is in filter and buffers now, though nobody may write. What cannot be merged now waits there.
            let reclaimed = self.reclaim().and_then(|reclaimed| match self.make_memory_room() {
                Err(error) if !can_wait(&error) => Err(error),
                _ => Ok(reclaimed),
            });
            let is_over = match reclaimed {
                Ok(Reclaimed::Progress) => false,
                Ok(Reclaimed::Idle) => true,
                Ok(reclaimed) => self.pause(&mut patience, reclaimed) || patience.vain_pauses >= FULL_PAUSES_MAX,
                Err(error) if can_wait(&error) => true,
                Err(error) => return Err(error),
            };
            if is_over {
                break;
            }
        }
        Ok(())
    }

    /// Steps of reclaim, by whomever, that gained something.
    pub(crate) fn reclaim_steps(&self) -> u64 {
        self.counters.reclaim_steps.load(Ordering::Relaxed)
    }

    /// Whether reclaim may write address records. Every commit of it fills a block of MetaLog at least, which only a checkpoint gives back,
    /// and there is none before recovery ends: it keeps to the segment that its session began, so that the next opening finds zones too
    /// (I9).
    fn may_reclaim(&self) -> bool {
        !self.recovering.load(Ordering::Acquire) || !self.meta.has_outgrown_a_segment()
    }

    /// What a writer of so many pages does that was told to wait: helps, gives up snapshots that stand in the way after a while, and
    /// refuses after a long one. A merge in a full store, which may have nothing to gain, waits for who reclaims at the moment only.
    fn wait_for_room(&self, patience: &mut Patience, pages: u32) -> Result<()> {
        // Others may have failed meanwhile; then nobody makes room any more.
        self.check_writable()?;
        let reclaimed = self.reclaim()?;
        if reclaimed == Reclaimed::Progress {
            return Ok(());
        }
        let usage = self.store.usage();
        let live_bytes = usage.live_page_bytes + usage.live_value_bytes;
        let may_be_vain = pages == 0 && live_bytes > usage.usable_bytes;
        if patience.pauses >= SNAPSHOT_PATIENCE && !may_be_vain {
            self.press_snapshots();
        }
        // Another thread reclaims, or finds out how much is live; the store itself does not always wait.
        let is_over = self.pause(patience, reclaimed);
        let is_vain = may_be_vain && patience.vain_pauses >= FULL_PAUSES_MAX;
        if !(is_over || is_vain) {
            return Ok(());
        }
        Err(TreeError::from(PageError::NoSpace {
            live_bytes,
            usable_bytes: usage.usable_bytes,
            free_zones: usage.free_zones,
            reserve_bytes: usage.reserve_bytes,
        }))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Durability, Engine, TreeOptions,
        testing::{MemOptions, MemStore},
    };

    /// An engine with 5,000 separated values, none in filter or buffers, that reclaim is to move.
    fn with_values_to_move(filter_bytes: u64) -> Engine {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions {
            filter_bytes,
            buffer_bytes: 32 << 10,
            value_inline_bytes_max: 0,
            log_limit_bytes: 64 << 20,
            ..TreeOptions::default()
        };
        let engine = Engine::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("an empty store");
        for number in 0..5_000_u64 {
            engine.put(&number.to_be_bytes(), b"value", Durability::Buffered).expect("room");
        }
        engine.compact(&mut |_, _| {}).expect("room");
        store.move_values();
        engine
    }

    /// Whether filter and buffers have what is theirs; all values are where they are looked for.
    fn is_within_memory(engine: &Engine) -> bool {
        engine.check(&mut |_, _| (), &mut |problem| panic!("{problem}")).expect("a whole store");
        for number in 0..5_000_u64 {
            let mut value = Vec::new();
            assert!(engine.get_into(&number.to_be_bytes(), &mut value).expect("readable") && value == b"value");
        }
        let filter = engine.tree.filter.as_ref();
        !engine.tree.pool.is_far_over() && filter.is_none_or(|filter| !filter.is_full())
    }

    #[test]
    fn values_that_reclaim_moves_stay_within_the_memory_of_filter_and_buffers() {
        for filter_bytes in [0, 64 << 10] {
            let engine = with_values_to_move(filter_bytes);
            while engine.reclaim_step().expect("a whole store") == Step::Progress {}
            assert!(
                !is_within_memory(&engine),
                "the background has nothing to do, filter {filter_bytes}: {:?}",
                engine.stats()
            );
            while engine.buffer_step().expect("a whole store") == Step::Progress {}
            assert!(is_within_memory(&engine), "the background, filter {filter_bytes}: {:?}", engine.stats());

            let engine = with_values_to_move(filter_bytes);
            engine.tree.reclaim_garbage().expect("a whole store");
            assert!(is_within_memory(&engine), "who compacts, filter {filter_bytes}: {:?}", engine.stats());
        }
    }

    #[test]
    fn who_waits_is_patient_while_others_reclaim_but_not_for_ever() {
        let pauses_until_over = |steps: &dyn Fn(u32) -> u64| {
            let mut patience = Patience::default();
            (1..).find(|&pause| patience.is_over_after(Reclaimed::Waiting, steps(pause))).expect("some day")
        };
        assert_eq!(pauses_until_over(&|_| 0), IDLE_PAUSES_MAX);
        // Somebody reclaims something once in a thousand pauses, and stops.
        assert_eq!(pauses_until_over(&|pause| u64::from(pause.min(9_000) / 1_000)), 9_000 + IDLE_PAUSES_MAX);
        assert_eq!(pauses_until_over(&|pause| u64::from(pause / 100)), PAUSES_MAX);
    }
    #[test]
    fn what_is_in_vain_does_not_wait_but_for_who_has_the_turn() {
        let mut patience = Patience::default();
        for _ in 0..100 {
            assert!(!patience.is_over_after(Reclaimed::Busy, 0));
        }
        assert_eq!(patience.vain_pauses, 0);
        (0..3).for_each(|_| _ = patience.is_over_after(Reclaimed::Idle, 0));
        assert_eq!((patience.vain_pauses, patience.idle_pauses), (3, 103));
        patience.is_over_after(Reclaimed::Idle, 1);
        assert_eq!((patience.vain_pauses, patience.idle_pauses), (0, 0));
    }
}
