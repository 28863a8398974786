//! How one memory budget is divided (I6): a pure function, so that the numbers of a refusal are the numbers of the plan.

use crate::{Design, Error, Result};

/// Parts of a memory budget, in bytes. Always: their sum is the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// Inner nodes and leaf table.
    pub(crate) index_bytes: u64,
    /// Groups of pages on their way to the device.
    pub(crate) sequencer_bytes: u64,
    /// Log rings, one for each instance.
    pub(crate) log_bytes: u64,
    /// Kept for snapshots.
    pub(crate) snapshot_bytes: u64,
    /// Whole clean pages.
    pub(crate) read_cache_bytes: u64,
    /// Leaf buffers: what is left.
    pub(crate) buffer_bytes: u64,
}

/// Less than this and every other write would merge a leaf.
pub(crate) const BUFFER_BYTES_MIN: u64 = 512 << 10;

/// Leaf buffers take at most this part of the capacity, so that the log, four times as long, takes an eighth.
const CAPACITY_SHARE: u64 = 32;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl MemoryPlan {
    /// Divides `bytes`. `index_bytes_known` is what the index of an existing store takes; a growing one gets an eighth of the
    /// budget, which is enough for data of 15 times the budget (an index takes at most 0.8 % of its leaves).
    /// On a device of `capacity_bytes` buffers take no more than a 32nd of it, since the log must hold four times as much; the read
    /// cache gets what is over.
    ///
    /// # Errors
    /// `TooLittleMemory` if too little is left for leaf buffers.
    pub(crate) fn of(bytes: u64, design: Design, capacity_bytes: u64, index_bytes_known: u64) -> Result<Self> {
        let index_bytes = (bytes / 8).max(index_bytes_known);
        let sequencer_bytes = (bytes / 16).clamp(256 * KIB, 4 * MIB);
        let log_bytes = (bytes / 32).clamp(64 * KIB, 2 * MIB);
        let snapshot_bytes = bytes / 16;
        let read_cache_bytes = match design {
            Design::Adb => bytes / 8,
            Design::BTree => 0,
        };
        let taken = index_bytes + sequencer_bytes + log_bytes + snapshot_bytes + read_cache_bytes;
        let buffer_bytes = bytes.saturating_sub(taken);
        if buffer_bytes < BUFFER_BYTES_MIN {
            let bytes_needed = needed(index_bytes);
            return Err(Error::TooLittleMemory {
                bytes,
                buffer_bytes,
                buffer_bytes_min: BUFFER_BYTES_MIN,
                bytes_needed,
            });
        }
        let over = buffer_bytes.saturating_sub((capacity_bytes / CAPACITY_SHARE).max(BUFFER_BYTES_MIN));
        let (buffer_bytes, read_cache_bytes) = (buffer_bytes - over, read_cache_bytes + over);
        Ok(Self { index_bytes, sequencer_bytes, log_bytes, snapshot_bytes, read_cache_bytes, buffer_bytes })
    }
}

/// A budget that holds an index of `index_bytes`: the relative parts take 9/32 of it at most, the fixed ones are at their least or
/// shrink in proportion.
pub(crate) fn needed(index_bytes: u64) -> u64 {
    let fixed = index_bytes + BUFFER_BYTES_MIN + 320 * KIB;
    (fixed * 32 / 20).next_multiple_of(MIB)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::MEMORY_BYTES_MIN;

    fn sum(plan: &MemoryPlan) -> u64 {
        plan.index_bytes
            + plan.sequencer_bytes
            + plan.log_bytes
            + plan.snapshot_bytes
            + plan.read_cache_bytes
            + plan.buffer_bytes
    }

    #[test]
    fn the_least_budget_works_for_a_new_store() {
        for design in Design::ALL {
            let plan = MemoryPlan::of(MEMORY_BYTES_MIN, design, u64::MAX, 0).unwrap();
            assert!(plan.buffer_bytes >= BUFFER_BYTES_MIN, "{plan:?}");
        }
    }

    #[test]
    fn half_of_a_usual_budget_goes_to_buffers() {
        let plan = MemoryPlan::of(64 * MIB, Design::Adb, u64::MAX, 0).unwrap();
        assert!(plan.buffer_bytes >= 32 * MIB, "{plan:?}");
    }

    proptest! {
        #[test]
        fn parts_add_up_and_the_advised_budget_suffices(bytes in MEMORY_BYTES_MIN..1 << 36, capacity: u64, index in 0_u64..1 << 34) {
            match MemoryPlan::of(bytes, Design::Adb, capacity, index) {
                Ok(plan) => prop_assert_eq!(sum(&plan), bytes),
                Err(Error::TooLittleMemory { bytes_needed, .. }) => {
                    prop_assert!(bytes_needed > bytes);
                    prop_assert!(MemoryPlan::of(bytes_needed, Design::Adb, capacity, index).is_ok());
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}
