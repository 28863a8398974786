//! Operations that have, or may get, a sequence number and whose effect is not applied yet.

use zonda_rt::atomic::{AtomicU64, Ordering::SeqCst};
use zonda_rt::{Spin, spin_wait, thread_ordinal};

/// A value with a cache line (two, because they are fetched in pairs) of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);

/// Operations that may be in flight at a time; more wait for a slot.
const SLOTS: usize = 64;

/// A slot that nobody holds: the neutral element of the minimum.
const FREE: u64 = u64::MAX;

/// The slots of a log.
///
/// A slot holds a lower bound of the sequence number that its operation can get. Why [`low_water`](Self::low_water) is
/// right: an operation stores its bound, then draws its number, then applies its effect, then frees the slot; the scan
/// reads the next number *first*. A number below that was drawn before, so its slot was taken before: the scan either
/// sees its bound, or finds the slot freed, hence the effect applied. All accesses are sequentially consistent.
pub(super) struct InFlightSlots {
    slots: Box<[Padded<AtomicU64>]>,
}

/// The right to draw a sequence number; dropping it says that the effect is applied (or never will be).
///
/// A thread holds at most one: with all slots taken by threads that wait for a second one, nobody would go on.
pub(crate) struct InFlight<'a> {
    slot: &'a AtomicU64,
    index: usize,
}

impl InFlightSlots {
    pub(super) fn new() -> Self {
        let free = |_| Padded(AtomicU64::new(FREE));
        Self { slots: (0..SLOTS).map(free).collect() }
    }

    /// Takes a slot. Cost: one load of the counter and one compare-and-swap on a line that is usually the thread's own.
    pub(super) fn begin(&self, next_sequence: &AtomicU64) -> InFlight<'_> {
        let bound = next_sequence.load(SeqCst);
        let home = thread_ordinal();
        let mut spin = Spin::new();
        loop {
            for offset in 0..SLOTS {
                let index = (home + offset) % SLOTS;
                let slot = &self.slots[index].0;
                if slot.compare_exchange(FREE, bound, SeqCst, SeqCst).is_ok() {
                    return InFlight { slot, index };
                }
            }
            spin_wait(&mut spin);
        }
    }

    /// Whether every slot was free at some moment of the call: who took one before it has applied its effect.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| slot.0.load(SeqCst) == FREE)
    }

    /// A number such that every operation with a lower one is applied.
    pub(super) fn low_water(&self, next_sequence: &AtomicU64) -> u64 {
        let next = next_sequence.load(SeqCst);
        self.slots.iter().fold(next, |low, slot| low.min(slot.0.load(SeqCst)))
    }
}

impl InFlight<'_> {
    /// Which slot: spreads operations over log instances, the same one for a thread that is alone.
    pub(super) fn index(&self) -> usize {
        self.index
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.slot.store(FREE, SeqCst);
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_water_is_the_least_bound_or_the_next_number() {
        let next = AtomicU64::new(10);
        let slots = InFlightSlots::new();
        assert_eq!(slots.low_water(&next), 10);
        let first = slots.begin(&next);
        next.store(12, SeqCst);
        let second = slots.begin(&next);
        next.store(15, SeqCst);
        assert_eq!(slots.low_water(&next), 10);
        drop(first);
        assert_eq!(slots.low_water(&next), 12);
        drop(second);
        assert_eq!(slots.low_water(&next), 15);
    }
}
