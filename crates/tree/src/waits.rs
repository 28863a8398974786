//! What writers wait for, counted: how often, how long in all, and the longest once. A second that is slow shows here by its cause.
//!
//! Causes nest: who evicts a buffer may reclaim for it. Cost: two looks at the clock for something that does I/O or sleeps.

use std::time::Duration;

use zonda_rt::{
    Time,
    atomic::{AtomicU64, Ordering},
};

/// Something that a writer does or waits for before its record is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A checkpoint, because log or MetaLog are over their limits.
    Checkpoint,
    /// Merging buffers that are over their memory.
    Evict,
    /// Moving what left the filter into leaves, and evicting from it.
    Filter,
    /// Reclaiming, because zones are short and nobody else is at it.
    Reclaim,
    /// Zones that others make free.
    Zones,
}

const CAUSES: usize = 5;

/// Waits for one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// How often.
    pub times: u64,
    /// How long in all, in microseconds.
    pub total_us: u64,
    /// The longest, in microseconds.
    pub longest_us: u64,
}

/// What writers waited for since the store was opened. They nest: eviction may reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStats {
    /// Checkpoints, because log or MetaLog were over their limits.
    pub checkpoint: Waited,
    /// Buffers merged because they were over their memory.
    pub evict: Waited,
    /// The merged filter's batches.
    pub filter: Waited,
    /// Steps of reclaim that writers did themselves.
    pub reclaim: Waited,
    /// Zones that others made free.
    pub zones: Waited,
}

#[derive(Default)]
struct Counter {
    times: AtomicU64,
    total_us: AtomicU64,
    longest_us: AtomicU64,
}

/// Counters by cause.
#[derive(Default)]
pub(crate) struct Waits([Counter; CAUSES]);

impl Waits {
    /// Does `work` and counts how long it took.
    pub(crate) fn during<T>(&self, cause: Cause, work: impl FnOnce() -> T) -> T {
        let began = zonda_rt::now();
        let result = work();
        self.since(began, cause);
        result
    }

    /// Counts what began at `began` and ends now.
    pub(crate) fn since(&self, began: Time, cause: Cause) {
        self.note(cause, zonda_rt::now().since(began));
    }

    fn note(&self, cause: Cause, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let counter = &self.0[cause as usize];
        counter.times.fetch_add(1, Ordering::Relaxed);
        counter.total_us.fetch_add(us, Ordering::Relaxed);
        counter.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    /// The counters.
    pub(crate) fn stats(&self) -> WaitStats {
        WaitStats {
            checkpoint: self.of(Cause::Checkpoint),
            evict: self.of(Cause::Evict),
            filter: self.of(Cause::Filter),
            reclaim: self.of(Cause::Reclaim),
            zones: self.of(Cause::Zones),
        }
    }

    fn of(&self, cause: Cause) -> Waited {
        let counter = &self.0[cause as usize];
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Waited { times: load(&counter.times), total_us: load(&counter.total_us), longest_us: load(&counter.longest_us) }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_times_total_and_longest() {
        let waits = Waits::default();
        waits.note(Cause::Zones, Duration::from_micros(30));
        waits.note(Cause::Zones, Duration::from_micros(12));
        assert_eq!(waits.during(Cause::Evict, || 7), 7);
        let stats = waits.stats();
        assert_eq!(stats.zones, Waited { times: 2, total_us: 42, longest_us: 30 });
        assert_eq!((stats.evict.times, stats.checkpoint), (1, Waited::default()));
    }
}
