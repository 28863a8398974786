//! How one memory budget is divided at opening (I6): a pure function. The [`Governor`](crate::governor::Governor) takes over from it.

use crate::{Design, MemoryShares, limits};

/// Parts of a memory budget, in bytes. Always: their sum is at most the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// The budget.
    pub(crate) budget_bytes: u64,
    /// Fixed shares, if memory does not follow the work.
    pub(crate) shares: Option<MemoryShares>,
    /// The merged filter.
    pub(crate) filter_bytes: u64,
    /// Groups of pages on their way to the device.
    pub(crate) sequencer_bytes: u64,
    /// Log rings.
    pub(crate) log_bytes: u64,
    /// Snapshots may keep this much.
    pub(crate) snapshot_bytes: u64,
    /// Whole clean pages, at first.
    pub(crate) read_cache_bytes: u64,
    /// Whole clean pages, at the least.
    pub(crate) read_cache_bytes_min: u64,
    /// Records that were read of pages, at the least; 0 without a record cache.
    pub(crate) record_cache_bytes_min: u64,
    /// Records that were read of pages, at the most.
    pub(crate) record_cache_bytes_max: u64,
    /// Leaf buffers until the index is there.
    pub(crate) buffer_bytes: u64,
    /// Leaf buffers at the most.
    pub(crate) buffer_bytes_max: u64,
    /// Whether buffers keep what was read by the record, so that reads fill them slowly: what they have not filled yet caches pages while
    /// nobody writes.
    pub(crate) lends_idle_buffers: bool,
    /// Log on the device at the most.
    pub(crate) log_limit_bytes: u64,
    /// Left free, for what comes between two looks of the governor.
    pub(crate) margin_bytes: u64,
}

/// What the options say of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The budget: at least [`MEMORY_BYTES_MIN`](crate::limits::MEMORY_BYTES_MIN).
    pub(crate) budget_bytes: u64,
    /// What leaves keep.
    pub(crate) design: Design,
    /// The merged filter's part of the budget, to a half.
    pub(crate) filter_share: f64,
    /// Whether somebody asked for that part: fixed shares divide what it leaves. Else theirs replaces it.
    pub(crate) filter_is_set: bool,
    /// Fixed shares, if memory does not follow the work.
    pub(crate) shares: Option<MemoryShares>,
    /// Whether records that were read are kept.
    pub(crate) record_cache: bool,
    /// Log on the device at the most; 0: what goes with the buffers.
    pub(crate) log_limit_bytes: u64,
}

/// Leaf buffers of less would make every other write merge a leaf.
pub(crate) const BUFFER_BYTES_MIN: u64 = 512 << 10;

/// A store whose index has outgrown the budget takes no more pairs, but what leaves this much is opened and takes deletes: what was written
/// with a budget is read with it.
pub(crate) const BUFFER_BYTES_OUTGROWN: u64 = BUFFER_BYTES_MIN / 2;

/// What the cache of pages needs for one beside its bytes, at most.
const CACHED_PAGE_BYTES: u64 = 512;

/// Leaf buffers take at most this part of the capacity. On a device that is full of leaves, bytes written for an operation go as leaves
/// over buffers: less here would cost more in them than it gives in space. More would not fit the log: see [`LOG_OVER_BUFFERS`]. All that
/// buffers hold may be dirty, so it counts wholly, and until it is merged it needs pages, too. What a small device so leaves of a large
/// budget has no changes in it: caches have it ([`MemoryPlan::beyond_buffers`]).
const CAPACITY_SHARE: u64 = 22;

/// Buffers that lend what they have not filled keep this part of what may move.
const KEPT_SHARE: u64 = 3;

/// The log is so many times as long as what buffers and filter hold, so that a checkpoint, at 4/5 of it, writes little compared with the
/// log. On small devices it ends at a fifth of the capacity, 4.4 times the buffers; what a checkpoint writes must stay below a quarter of
/// it (the page store's reserve).
const LOG_OVER_BUFFERS: u64 = 5;
const LOG_CAPACITY_SHARE: u64 = 5;
/// The least of that: a checkpoint's images are reserved a quarter of the log (`pages/reserve.rs`).
const LOG_OVER_BUFFERS_MIN: u64 = 4;

/// Memory of one log instance with the largest ring: the ring, and its copy on the way to the device.
const LOG_INSTANCE_BYTES: u64 = log_instance_bytes(limits::LOG_RING_BYTES_MAX);

const fn log_instance_bytes(ring_bytes: u32) -> u64 {
    2 * ring_bytes as u64
}

/// Left free of large budgets: what grows between two looks of the governor grows with the work, hardly with the budget.
const MARGIN_BYTES: u64 = 512 << 10;

/// Snapshots may keep this part of the budget.
const SNAPSHOT_SHARE: u64 = 16;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl MemoryPlan {
    /// Divides a budget for a store on a device of `capacity_bytes`. An eighth is kept for the index at first. The filter has its
    /// share, but leaves enough for leaf buffers.
    pub(crate) fn of(wanted: Wanted, capacity_bytes: u64) -> Self {
        let Wanted { budget_bytes, design, filter_share, shares, record_cache, .. } = wanted;
        let keeps_records = record_cache && design == Design::Adb && shares.is_none();
        let cache_bytes_min = budget_bytes / 128;
        // With two caches each keeps half as much always, but something.
        let half_min = (cache_bytes_min / 2).max(16 * KIB);
        let log_bytes = (budget_bytes / 32).clamp(LOG_INSTANCE_BYTES, 2 * MIB);
        let margin_bytes = (budget_bytes / 32).min(MARGIN_BYTES + budget_bytes / 128);
        let left = budget_bytes.saturating_sub(log_bytes + margin_bytes);
        let plan = Self {
            budget_bytes,
            shares,
            filter_bytes: share_of(budget_bytes, filter_share),
            sequencer_bytes: (budget_bytes / 64).clamp(256 * KIB, 4 * MIB),
            log_bytes,
            snapshot_bytes: budget_bytes / SNAPSHOT_SHARE,
            read_cache_bytes: budget_bytes / 32,
            read_cache_bytes_min: if keeps_records { half_min } else { cache_bytes_min },
            record_cache_bytes_min: if keeps_records { half_min } else { 0 },
            record_cache_bytes_max: if keeps_records { budget_bytes } else { 0 },
            buffer_bytes: 0,
            buffer_bytes_max: (capacity_bytes / CAPACITY_SHARE).max(BUFFER_BYTES_MIN),
            lends_idle_buffers: design == Design::BfTree && shares.is_none(),
            log_limit_bytes: (capacity_bytes / LOG_CAPACITY_SHARE).max(LOG_OVER_BUFFERS * BUFFER_BYTES_MIN),
            margin_bytes,
        };
        let plan = match (shares, design) {
            (Some(shares), _) if wanted.filter_is_set => plan.with_shares_beside_filter(shares, left),
            (Some(shares), _) => plan.with_shares(shares, left),
            // Whole clean pages are buffers there.
            (None, Design::BTree | Design::BfTree) => Self { read_cache_bytes: 0, read_cache_bytes_min: 0, ..plan },
            (None, _) => plan,
        };
        let others = plan.sequencer_bytes + plan.read_cache_bytes_min + plan.record_cache_bytes_min;
        let spare = left.saturating_sub(others + budget_bytes / 8 + BUFFER_BYTES_MIN);
        let plan = Self { filter_bytes: plan.filter_bytes.min(spare), ..plan };
        let taken = plan.filter_bytes + others;
        let buffer_bytes_max = left.saturating_sub(taken).min(plan.buffer_bytes_max);
        let beyond = left.saturating_sub(taken + budget_bytes / 8 + buffer_bytes_max);
        // Fixed shares stay what they are: what buffers cannot have of theirs nobody has.
        let is_beyond = plan.shares.is_none() && plan.buffers_are_caches();
        // A cache that is lent memory later is made for more than none: how many locks it has is decided here.
        let for_loans = if plan.lends_idle_buffers { budget_bytes / 32 } else { 0 };
        let read_cache_bytes = if is_beyond { beyond.max(for_loans) } else { plan.read_cache_bytes };
        let plan = Self { read_cache_bytes, ..plan };
        let at_first = left.saturating_sub(taken + read_cache_bytes + budget_bytes / 8).max(BUFFER_BYTES_MIN);
        let of_buffers = (LOG_OVER_BUFFERS * buffer_bytes_max).min(plan.log_limit_bytes);
        let log_limit_bytes = of_buffers + LOG_OVER_BUFFERS * plan.filter_bytes;
        Self { buffer_bytes: at_first.min(buffer_bytes_max), buffer_bytes_max, log_limit_bytes, ..plan }
            .with_log_limit(wanted.log_limit_bytes)
    }

    /// The same with a log of at most so many bytes, if that is not 0: buffers hold no more than a quarter of it less what the filter
    /// holds, and it is raised to four times the least that both hold.
    fn with_log_limit(self, bytes: u64) -> Self {
        if bytes == 0 {
            return self;
        }
        let fit = (bytes / LOG_OVER_BUFFERS_MIN).saturating_sub(self.filter_bytes);
        let buffer_bytes_max = self.buffer_bytes_max.min(fit.max(BUFFER_BYTES_MIN));
        let log_limit_bytes = bytes.max(LOG_OVER_BUFFERS_MIN * (buffer_bytes_max + self.filter_bytes));
        Self { buffer_bytes: self.buffer_bytes.min(buffer_bytes_max), buffer_bytes_max, log_limit_bytes, ..self }
    }

    /// The same with a log that its device has room for, if it has room for the least: filter and buffers hold no more than a quarter
    /// of it.
    pub(crate) fn with_log_room(self, bytes: u64) -> Self {
        if self.log_limit_bytes <= bytes {
            return self;
        }
        let fit = (bytes / LOG_OVER_BUFFERS_MIN).saturating_sub(BUFFER_BYTES_MIN);
        Self { filter_bytes: self.filter_bytes.min(fit), ..self }.with_log_limit(bytes)
    }

    /// Divides among buffers and flusher, as the shares say, what the filter leaves of `left`.
    fn with_shares_beside_filter(self, shares: MemoryShares, left: u64) -> Self {
        let filter_bytes = self.filter_bytes;
        let others = self.with_shares(MemoryShares { filter: 0, ..shares }, left.saturating_sub(filter_bytes));
        Self { filter_bytes, ..others }
    }

    /// Divides `left` as the shares say; the flusher has the sequencers and the read cache.
    fn with_shares(self, shares: MemoryShares, left: u64) -> Self {
        let all = u64::from(shares.filter) + u64::from(shares.buffers) + u64::from(shares.flusher);
        let part =
            |share: u32| u64::try_from(u128::from(left) * u128::from(share) / u128::from(all.max(1))).unwrap_or(left);
        let read_cache_bytes = part(shares.flusher).saturating_sub(self.sequencer_bytes);
        Self {
            filter_bytes: part(shares.filter),
            read_cache_bytes,
            read_cache_bytes_min: read_cache_bytes.min(self.read_cache_bytes_min),
            buffer_bytes_max: self.buffer_bytes_max.min(part(shares.buffers).max(BUFFER_BYTES_MIN)),
            ..self
        }
    }

    /// The same for leaves of `leaf_bytes`: a cache of pages, if there is one that memory moves to and from, has room for two always. In
    /// less it could not show what it is worth, or would never seem full.
    pub(crate) fn with_leaves_of(self, leaf_bytes: u32) -> Self {
        let two_pages = 2 * (u64::from(leaf_bytes) + CACHED_PAGE_BYTES);
        let moves = self.shares.is_none() && self.read_cache_bytes_min > 0;
        let least = if moves { self.read_cache_bytes_min.max(two_pages) } else { self.read_cache_bytes_min };
        Self { read_cache_bytes_min: least, read_cache_bytes: self.read_cache_bytes.max(least), ..self }
    }

    /// The same with another budget, at most the one it was made for. What has its size from opening on keeps it; fixed shares become
    /// smaller alike, and so does what snapshots may keep.
    pub(crate) fn with_budget(self, bytes: u64) -> Self {
        let part = |of: u64| match self.shares {
            Some(_) => u64::try_from(u128::from(of) * u128::from(bytes) / u128::from(self.budget_bytes)).unwrap_or(of),
            None => of,
        };
        Self {
            budget_bytes: bytes,
            snapshot_bytes: self.snapshot_bytes.min(bytes / SNAPSHOT_SHARE),
            read_cache_bytes: part(self.read_cache_bytes).max(self.read_cache_bytes_min),
            buffer_bytes_max: part(self.buffer_bytes_max).max(BUFFER_BYTES_MIN),
            ..self
        }
    }

    /// Whether what was only read is in leaf buffers too: designs without a cache of pages beside them, but for what is
    /// [beyond](Self::beyond_buffers) these.
    pub(crate) fn buffers_are_caches(&self) -> bool {
        self.read_cache_bytes_min == 0
    }

    /// What of `movable_bytes` leaf buffers cannot have on a device of this capacity.
    pub(crate) fn beyond_buffers(&self, movable_bytes: u64) -> u64 {
        movable_bytes.saturating_sub(self.buffer_bytes_max.max(BUFFER_BYTES_MIN))
    }

    /// What of `movable_bytes` leaf buffers that hold `buffer_bytes` lend to a cache of pages. They keep what lets them grow until they are
    /// looked at again, and a ring that is large enough for huge pages on these.
    pub(crate) fn lent_by_buffers(&self, movable_bytes: u64, buffer_bytes: u64) -> u64 {
        let kept_bytes = buffer_bytes + movable_bytes / KEPT_SHARE;
        if self.lends_idle_buffers { movable_bytes.saturating_sub(kept_bytes) } else { 0 }
    }

    /// Log instances with rings of so many bytes that there is memory for.
    pub(crate) fn log_instances_max(&self, ring_bytes: u32) -> u32 {
        u32::try_from(self.log_bytes / log_instance_bytes(ring_bytes)).unwrap_or(u32::MAX).max(1)
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
        let (design, shares) = (Design::Adb, None);
        let wanted = Wanted {
            budget_bytes: 64 * MIB,
            design,
            filter_share: 0.0,
            filter_is_set: false,
            shares,
            record_cache: true,
            log_limit_bytes: 0,
        };
        let plan = MemoryPlan::of(wanted, u64::MAX);
        assert!(plan.buffer_bytes >= 32 * MIB, "{plan:?}");
    }

    #[test]
    fn two_leaves_of_any_size_fit_a_cache_that_memory_moves_to() {
        let plan = |design, shares, leaf_bytes| {
            let wanted = Wanted {
                budget_bytes: 4 * MIB,
                design,
                filter_share: 0.0,
                filter_is_set: false,
                shares,
                record_cache: true,
                log_limit_bytes: 0,
            };
            let before = MemoryPlan::of(wanted, u64::MAX);
            (before, before.with_leaves_of(leaf_bytes))
        };
        let (before, after) = plan(Design::Adb, None, 4096);
        assert_eq!(before, after);
        let (before, after) = plan(Design::Adb, None, 32 << 10);
        assert!(
            before.read_cache_bytes_min < 64 * KIB && after.read_cache_bytes_min >= 64 * KIB,
            "{before:?}, {after:?}"
        );
        assert!(after.read_cache_bytes >= after.read_cache_bytes_min);
        for (design, shares) in [(Design::BTree, None), (Design::Adb, Some(MemoryShares::ZKV))] {
            let (before, after) = plan(design, shares, 32 << 10);
            assert_eq!(before, after);
        }
    }

    #[test]
    fn a_filter_that_is_asked_for_replaces_its_share() {
        let plan = |filter_share, filter_is_set| {
            let (design, shares) = (Design::Adb, Some(MemoryShares::ZKV));
            let (record_cache, log_limit_bytes) = (true, 0);
            let budget_bytes = 64 * MIB;
            let wanted =
                Wanted { budget_bytes, design, filter_share, filter_is_set, shares, record_cache, log_limit_bytes };
            MemoryPlan::of(wanted, u64::MAX)
        };
        let (paper, without, quarter) = (plan(0.125, false), plan(0.0, true), plan(0.25, true));
        let flusher = |plan: MemoryPlan| plan.sequencer_bytes + plan.read_cache_bytes;
        assert!(paper.filter_bytes > 7 * MIB && paper.filter_bytes <= 8 * MIB, "{paper:?}");
        assert_eq!((without.filter_bytes, quarter.filter_bytes), (0, 16 * MIB));
        for (other, parts) in [(without, 8.0 / 7.0), (quarter, 6.0 / 7.0)] {
            #[expect(clippy::cast_precision_loss, reason = "some MiB")]
            let times = flusher(other) as f64 / flusher(paper) as f64;
            assert!((times - parts).abs() < 0.02, "{times}, not {parts}: {other:?}");
            assert_eq!(other.buffer_bytes_max > paper.buffer_bytes_max, parts > 1.0, "{other:?}");
        }
    }

    /// However large the numbers are in which somebody says the shares.
    #[test]
    fn shares_count_by_their_proportion() {
        let plan = |times| {
            let MemoryShares { filter, buffers, flusher } = MemoryShares::ZKV;
            let shares = MemoryShares { filter: times * filter, buffers: times * buffers, flusher: times * flusher };
            let wanted = Wanted {
                budget_bytes: 64 * MIB,
                design: Design::Adb,
                filter_share: 0.0,
                filter_is_set: false,
                shares: Some(shares),
                record_cache: true,
                log_limit_bytes: 0,
            };
            MemoryPlan { shares: None, ..MemoryPlan::of(wanted, u64::MAX) }
        };
        for times in [10, 1_000_000, u32::MAX / 4] {
            assert_eq!(plan(times), plan(1), "{times}");
        }
    }

    /// On a device on which buffers cannot have all of their share.
    #[test]
    fn a_flusher_without_a_share_caches_nothing() {
        for design in Design::ALL {
            let wanted = Wanted {
                budget_bytes: 64 * MIB,
                design,
                filter_share: 0.0,
                filter_is_set: false,
                shares: Some(MemoryShares { filter: 0, buffers: 1, flusher: 0 }),
                record_cache: true,
                log_limit_bytes: 0,
            };
            let plan = MemoryPlan::of(wanted, 64 * MIB);
            assert!(plan.buffer_bytes_max < 4 * MIB, "{plan:?}");
            assert_eq!((plan.read_cache_bytes, plan.read_cache_bytes_min), (0, 0), "{plan:?}");
            let following = MemoryPlan::of(Wanted { shares: None, ..wanted }, 64 * MIB);
            let is_beyond = matches!(design, Design::BTree | Design::BfTree);
            assert_eq!(following.read_cache_bytes > 32 * MIB, is_beyond, "{following:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_fit_and_buffers_have_enough(
            bytes in MEMORY_BYTES_MIN..1 << 36, filter in 0.0..0.5, capacity: u64, design in 0..Design::ALL.len(), fixed: bool, record_cache: bool,
            filter_is_set: bool, log_limit_bytes in prop_oneof![Just(0), 1..1_u64 << 34], room_bytes in 0..1_u64 << 34,
        ) {
            let design = Design::ALL[design];
            let shares = fixed.then_some(MemoryShares::ZKV);
            let wanted = Wanted { budget_bytes: bytes, design, filter_share: filter, filter_is_set, shares, record_cache, log_limit_bytes };
            let plan = MemoryPlan::of(wanted, capacity);
            let cache_bytes = if fixed { plan.read_cache_bytes } else { plan.read_cache_bytes_min };
            let caches_bytes = cache_bytes + plan.record_cache_bytes_min;
            let others = plan.filter_bytes + plan.sequencer_bytes + plan.log_bytes + caches_bytes + plan.margin_bytes;
            prop_assert!(others + plan.buffer_bytes_max <= bytes + BUFFER_BYTES_MIN, "{:?}", plan);
            prop_assert!(plan.log_limit_bytes >= 4 * (plan.buffer_bytes_max + plan.filter_bytes), "a checkpoint fits its reserve: {:?}", plan);
            prop_assert!(plan.log_limit_bytes >= log_limit_bytes, "{:?}", plan);
            prop_assert!((BUFFER_BYTES_MIN..=plan.buffer_bytes_max).contains(&plan.buffer_bytes), "{:?}", plan);
            let least = 4 * BUFFER_BYTES_MIN;
            let fits = plan.with_log_room(least + room_bytes);
            prop_assert!(fits.log_limit_bytes <= least + room_bytes, "{:?}", fits);
            prop_assert!(fits.log_limit_bytes >= 4 * (fits.buffer_bytes_max + fits.filter_bytes), "{:?}", fits);
            prop_assert!((BUFFER_BYTES_MIN..=fits.buffer_bytes_max).contains(&fits.buffer_bytes), "{:?}", fits);
        }
    }
}
