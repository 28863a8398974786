//! What a replay found.

use std::collections::BTreeMap;

use super::ReplayOptions;
use super::run::Counts;
use super::split::SplitReport;
use crate::policy::Rule;

/// Bins of a distribution of invalid shares: the last is what is wholly invalid, the others are equal parts of what is below.
pub const SHARES: usize = 21;
/// Stretches of the measured time, of equal numbers of samples.
const SPANS: usize = 5;

/// Zones by the share of their capacity that is invalid, over one or more samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InvalidShares {
    /// Empty zones.
    pub empty: u64,
    /// Zones that are not: by share.
    pub bins: [u64; SHARES],
}

impl InvalidShares {
    /// Counts a zone: empty, or with so many invalid bytes of so many that it holds.
    pub(super) fn add(&mut self, zone: Option<(u64, u64)>) {
        let Some((invalid, capacity)) = zone else {
            self.empty += 1;
            return;
        };
        let bins = SHARES as u64 - 1;
        let bin = if invalid >= capacity { bins } else { invalid.saturating_mul(bins) / capacity };
        self.bins[usize::try_from(bin).expect("21 bins")] += 1;
    }

    fn join(mut self, other: &Self) -> Self {
        self.empty += other.empty;
        self.bins.iter_mut().zip(other.bins).for_each(|(bin, more)| *bin += more);
        self
    }

    /// Samples of zones of which at least so many twentieths are invalid.
    #[must_use]
    pub fn at_least(&self, twentieths: usize) -> u64 {
        self.bins.iter().skip(twentieths).sum()
    }
}

/// Bytes of tables by the level that they are written for, or moved to without being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelBytes {
    /// Written for it.
    pub created_bytes: u64,
    /// Moved to it: a version edit took them from another level.
    pub moved_bytes: u64,
    /// Copied by cleaning while they were in it.
    pub copied_bytes: u64,
}

/// What was there at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) live_bytes: u64,
    pub(super) tables: u64,
    pub(super) split: Option<SplitReport>,
}

/// The figures of a replay: bytes and counts since the mark, or since the beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// The policy.
    pub policy: &'static str,
    /// Records of the trace.
    pub records: usize,
    /// Written by flushes and compactions.
    pub table_bytes: u64,
    /// Written to logs and other small files.
    pub log_bytes: u64,
    /// Copied by cleaning.
    pub copied_bytes: u64,
    /// Tables and copies over tables: the CAZA paper's write amplification.
    pub amplification: f64,
    /// Runs of cleaning.
    pub cleanings: u64,
    /// Of these, those that ended below the threshold, because no zone had enough to gain.
    pub cleanings_short: u64,
    /// Zones reset.
    pub resets: u64,
    /// Of these, those for which nothing had to be copied.
    pub resets_without_copy: u64,
    /// Bytes copied for each reset, in order of time.
    pub copied_per_reset: Vec<u64>,
    /// Left in zones that were finished.
    pub finished_unwritten_bytes: u64,
    /// Choices of a zone by rule and level.
    pub allocations: BTreeMap<(Rule, Option<u8>), u64>,
    /// Version edits that removed tables.
    pub compactions: u64,
    /// Zones that the tables of such an edit were in, on average.
    pub zones_per_compaction: f64,
    /// Bytes that such an edit made invalid in each zone that it touched, on average.
    pub invalidated_bytes_per_zone: f64,
    /// Bytes created and moved by level, from level 0 on.
    pub levels: Vec<LevelBytes>,
    /// Live at the end.
    pub live_bytes: u64,
    /// Tables at the end.
    pub tables: u64,
    /// Of subzones; `None` where the policy, or the want of tokens, splits no zones.
    pub split: Option<SplitReport>,
    /// The most that was live.
    pub peak_live_bytes: u64,
    /// Zones by their invalid share, in five spans of the measured time.
    pub invalid: [InvalidShares; SPANS],
}

impl ReplayReport {
    pub(super) fn new(
        options: &ReplayOptions,
        records: usize,
        counts: &Counts,
        (samples, end): (&[InvalidShares], End),
    ) -> Self {
        let mut invalid = [InvalidShares::default(); SPANS];
        for (at, sample) in samples.iter().enumerate() {
            let span = at * SPANS / samples.len();
            invalid[span] = invalid[span].join(sample);
        }
        let resets_without_copy = counts.copied_per_reset.iter().filter(|copied| **copied == 0).count() as u64;
        Self {
            policy: options.policy.name(),
            records,
            table_bytes: counts.table_bytes,
            log_bytes: counts.log_bytes,
            copied_bytes: counts.copied_bytes,
            amplification: 1.0 + ratio(counts.copied_bytes, counts.table_bytes),
            cleanings: counts.cleanings,
            cleanings_short: counts.cleanings_short,
            resets: counts.copied_per_reset.len() as u64,
            resets_without_copy,
            copied_per_reset: counts.copied_per_reset.clone(),
            finished_unwritten_bytes: counts.finished_unwritten_bytes,
            allocations: counts.allocations.clone(),
            compactions: counts.compactions,
            zones_per_compaction: ratio(counts.zones_of_inputs, counts.compactions),
            invalidated_bytes_per_zone: ratio(counts.invalidated_bytes, counts.zones_of_inputs),
            levels: counts.levels.clone(),
            live_bytes: end.live_bytes,
            tables: end.tables,
            split: end.split,
            peak_live_bytes: counts.peak_live_bytes,
            invalid,
        }
    }

    /// The share of resets that needed no copy.
    #[must_use]
    pub fn share_without_copy(&self) -> f64 {
        ratio(self.resets_without_copy, self.resets)
    }

    /// All spans together.
    #[must_use]
    pub fn invalid_in_all(&self) -> InvalidShares {
        self.invalid.iter().fold(InvalidShares::default(), InvalidShares::join)
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
