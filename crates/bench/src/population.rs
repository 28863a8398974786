//! Which records exist while threads insert.

use zonda_rt::atomic::{AtomicU64, Ordering};

/// No insert in progress.
const IDLE: u64 = u64::MAX;

/// The records `0..existing()`, shared by all threads of a run.
///
/// A thread announces the lowest index that its insert may take before it takes one, and withdraws it when the put has
/// returned; the smallest announced index bounds what others may read. Always: every record below `existing()` has
/// been put. Cost: one load per thread.
#[derive(Debug)]
pub struct Population {
    next: AtomicU64,
    in_progress: Box<[AtomicU64]>,
}

impl Population {
    /// `records` records, and `threads` threads that may insert.
    #[must_use]
    pub fn new(records: u64, threads: usize) -> Self {
        let in_progress = (0..threads).map(|_| AtomicU64::new(IDLE)).collect();
        Self { next: AtomicU64::new(records), in_progress }
    }

    /// Records that any thread may read.
    pub fn existing(&self) -> u64 {
        // `next` first: an index below it was announced before, so the announcement, or its end, is seen.
        let next = self.next.load(Ordering::SeqCst);
        let pending = self.in_progress.iter().map(|slot| slot.load(Ordering::SeqCst)).min();
        pending.map_or(next, |pending| pending.min(next))
    }

    /// Takes the index of a new record for thread `thread`; [`inserted`](Self::inserted) must follow.
    pub fn begin_insert(&self, thread: usize) -> u64 {
        self.in_progress[thread].store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// The put of thread `thread` has returned.
    pub fn inserted(&self, thread: usize) {
        self.in_progress[thread].store(IDLE, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_exists_once_its_put_has_returned() {
        let population = Population::new(10, 2);
        assert_eq!((population.begin_insert(0), population.begin_insert(1)), (10, 11));
        assert_eq!(population.existing(), 10);
        population.inserted(1);
        assert_eq!(population.existing(), 10);
        population.inserted(0);
        assert_eq!(population.existing(), 12);
    }
}
