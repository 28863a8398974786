//! How one memory budget is divided at opening (I6): a pure function. The [`Governor`](crate::governor::Governor) takes over from it.

use crate::Design;

/// Parts of a memory budget, in bytes. Always: their sum is at most the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// The budget.
    pub(crate) budget_bytes: u64,
    /// Groups of pages on their way to the device.
    pub(crate) sequencer_bytes: u64,
    /// Log rings.
    pub(crate) log_bytes: u64,
    /// Kept for snapshots.
    pub(crate) snapshot_bytes: u64,
    /// Whole clean pages.
    pub(crate) read_cache_bytes: u64,
    /// The merged filter.
    pub(crate) filter_bytes: u64,
    /// Leaf buffers until the index is there.
    pub(crate) buffer_bytes: u64,
    /// Leaf buffers at the most; the log holds four times as much.
    pub(crate) buffer_bytes_max: u64,
    /// Left free, for what comes between two looks of the governor.
    pub(crate) margin_bytes: u64,
}

/// Leaf buffers of less would make every other write merge a leaf.
pub(crate) const BUFFER_BYTES_MIN: u64 = 512 << 10;

/// Leaf buffers take at most this part of the capacity, so that the log, four times as long, takes an eighth.
const CAPACITY_SHARE: u64 = 32;

/// Memory of one log instance: two rings of 64 KiB.
const LOG_INSTANCE_BYTES: u64 = 128 << 10;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl MemoryPlan {
    /// Divides a budget of at least [`MEMORY_BYTES_MIN`](crate::limits::MEMORY_BYTES_MIN) for a store on a device of `capacity_bytes`. An eighth is kept for the
    /// index at first. The filter has its share, but leaves enough for leaf buffers.
    pub(crate) fn of(budget_bytes: u64, design: Design, filter_share: f64, capacity_bytes: u64) -> Self {
        let sequencer_bytes = (budget_bytes / 16).clamp(256 * KIB, 4 * MIB);
        let log_bytes = (budget_bytes / 32).clamp(LOG_INSTANCE_BYTES, 2 * MIB);
        let snapshot_bytes = budget_bytes / 16;
        let read_cache_bytes = match design {
            Design::Adb => budget_bytes / 8,
            Design::BTree => 0,
        };
        let margin_bytes = budget_bytes / 32;
        let taken = sequencer_bytes + log_bytes + snapshot_bytes + read_cache_bytes + margin_bytes;
        let left = budget_bytes.saturating_sub(taken);
        let spare = left.saturating_sub(budget_bytes / 8 + BUFFER_BYTES_MIN);
        let filter_bytes = share_of(budget_bytes, filter_share).min(spare);
        let left = left - filter_bytes;
        let buffer_bytes_max = left.min((capacity_bytes / CAPACITY_SHARE).max(BUFFER_BYTES_MIN));
        let buffer_bytes = left.saturating_sub(budget_bytes / 8).min(buffer_bytes_max);
        Self {
            budget_bytes,
            sequencer_bytes,
            log_bytes,
            snapshot_bytes,
            read_cache_bytes,
            filter_bytes,
            buffer_bytes,
            buffer_bytes_max,
            margin_bytes,
        }
    }

    /// Log instances that there is memory for.
    pub(crate) fn log_instances_max(&self) -> u32 {
        u32::try_from(self.log_bytes / LOG_INSTANCE_BYTES).unwrap_or(u32::MAX).max(1)
    }

    /// A budget of this kind in which `fixed_bytes`, of any size, leave enough for leaf buffers: what grows with a budget takes at
    /// most 9/32 of it, and what the filter takes.
    pub(crate) fn budget_needed(&self, fixed_bytes: u64) -> u64 {
        let filter_parts = (32 * self.filter_bytes).div_ceil(self.budget_bytes).min(16);
        ((fixed_bytes + BUFFER_BYTES_MIN + 256 * KIB) * 32 / (23 - filter_parts)).next_multiple_of(MIB)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of 0 to 0.5"
)]
fn share_of(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::MEMORY_BYTES_MIN;

    #[test]
    fn half_of_a_usual_budget_goes_to_buffers() {
        let plan = MemoryPlan::of(64 * MIB, Design::Adb, 0.0, u64::MAX);
        assert!(plan.buffer_bytes >= 32 * MIB, "{plan:?}");
    }

    proptest! {
        #[test]
        fn parts_fit_and_buffers_have_enough(
            bytes in MEMORY_BYTES_MIN..1 << 36, filter in 0.0..0.5, capacity: u64, tree: bool,
        ) {
            let plan = MemoryPlan::of(bytes, if tree { Design::BTree } else { Design::Adb }, filter, capacity);
            let fixed = plan.sequencer_bytes + plan.log_bytes + plan.snapshot_bytes + plan.read_cache_bytes + plan.margin_bytes;
            let fixed = fixed + plan.filter_bytes;
            prop_assert!(fixed + plan.buffer_bytes_max <= bytes, "{:?}", plan);
            prop_assert!((BUFFER_BYTES_MIN..=plan.buffer_bytes_max).contains(&plan.buffer_bytes), "{:?}", plan);
        }
    }
}
