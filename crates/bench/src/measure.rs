//! What one thread measures while it works, and how threads' measurements add up.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use zonda_rt::Time;
use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::workload::Kind;

/// The longest latency that is told apart, in nanoseconds: 10 minutes.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// Two digits: latencies are within 1 %, and a histogram stays at some 40 KiB, because measured memory includes it.
const LATENCY_DIGITS: u8 = 2;

/// Latencies of the operations of each kind. Travels as `Counted`, so that slices measured by other processes add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Counted", into = "Counted")]
pub struct Latencies([Option<Histogram<u64>>; Kind::ALL.len()]);

/// For each kind in the order of [`Kind::ALL`]: nanoseconds and how often. What a histogram told apart stays apart.
type Counted = Vec<Vec<(u64, u64)>>;

impl From<Latencies> for Counted {
    fn from(latencies: Latencies) -> Self {
        let counts = |counted: &Histogram<u64>| {
            counted.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
        };
        latencies.0.iter().map(|counted| counted.as_ref().map(counts).unwrap_or_default()).collect()
    }
}

impl From<Counted> for Latencies {
    fn from(kinds: Counted) -> Self {
        let mut latencies = Self::default();
        for (slot, counts) in latencies.0.iter_mut().zip(kinds) {
            for (nanos, times) in counts {
                slot.get_or_insert_with(histogram).saturating_record_n(nanos.max(1), times);
            }
        }
        latencies
    }
}

/// Percentiles of one kind's latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 90 of 100 are not longer.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
    /// 9,999 of 10,000.
    pub p9999: f64,
    /// The longest.
    pub max: f64,
}

impl Latencies {
    /// Counts one operation.
    pub fn record(&mut self, kind: Kind, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0[kind as usize].get_or_insert_with(histogram).saturating_record(nanos.max(1));
    }

    /// Adds what another thread counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_with(histogram).add(theirs).expect("all histograms have the same bounds");
            }
        }
    }

    /// Percentiles of the kinds that occurred, in the order of [`Kind::ALL`].
    #[must_use]
    pub fn percentiles(&self) -> Vec<(Kind, Percentiles)> {
        let occurred = Kind::ALL.into_iter().zip(&self.0);
        occurred.filter_map(|(kind, counted)| Some((kind, percentiles(counted.as_ref()?)))).collect()
    }

    /// Operations counted.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.0.iter().flatten().map(Histogram::len).sum()
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS).expect("the bounds are constants that fit")
}

fn percentiles(counted: &Histogram<u64>) -> Percentiles {
    let at = |quantile| counted.value_at_quantile(quantile) as f64 / 1_000.0;
    let max = counted.max() as f64 / 1_000.0;
    Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), p9999: at(0.9999), max }
}

/// The longest time in which no thread completed anything: the moment of the last completion, shared by all.
#[derive(Debug)]
pub struct LastCompletion(AtomicU64);

impl LastCompletion {
    /// Nothing completed yet; the first gap begins at `start`.
    #[must_use]
    pub fn new(start: Time) -> Self {
        Self(AtomicU64::new(start.as_nanos()))
    }

    /// An operation completed at `end`; returns how long nothing had. Costs one atomic maximum.
    pub fn gap_until(&self, end: Time) -> Duration {
        let before = self.0.fetch_max(end.as_nanos(), Ordering::Relaxed);
        end.since(Time(before))
    }
}

/// What one thread recorded in one phase.
#[derive(Clone, Debug)]
pub struct Recorder {
    start: Time,
    end: Time,
    latencies: Latencies,
    per_second: Vec<u64>,
    gap_longest: Duration,
}

impl Recorder {
    /// A recorder for a phase that began at `start`.
    #[must_use]
    pub fn new(start: Time) -> Self {
        Self { start, end: start, latencies: Latencies::default(), per_second: Vec::new(), gap_longest: Duration::ZERO }
    }

    /// An operation of `kind` ran from `begin` to `end`.
    pub fn record(&mut self, kind: Kind, begin: Time, end: Time, last: &LastCompletion) {
        self.latencies.record(kind, end.since(begin));
        self.gap_longest = self.gap_longest.max(last.gap_until(end));
        self.end = self.end.max(end);
        let second = usize::try_from(end.since(self.start).as_secs()).unwrap_or(usize::MAX);
        if self.per_second.len() <= second {
            self.per_second.resize(second + 1, 0);
        }
        self.per_second[second] += 1;
    }

    /// Adds what another thread recorded in the same phase.
    pub fn merge(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        self.end = self.end.max(other.end);
        self.gap_longest = self.gap_longest.max(other.gap_longest);
        self.per_second.resize(self.per_second.len().max(other.per_second.len()), 0);
        self.per_second.iter_mut().zip(&other.per_second).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// From the start of the phase to the last completion.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.end.since(self.start)
    }

    /// Latencies by kind.
    #[must_use]
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// The longest time without a completion.
    #[must_use]
    pub fn gap_longest(&self) -> Duration {
        self.gap_longest
    }

    /// Operations of each whole second, the last and broken one left out.
    #[must_use]
    pub fn whole_seconds(&self) -> &[u64] {
        self.per_second.split_last().map_or(&[], |(_, whole)| whole)
    }

    /// When the last operation completed, or the phase began.
    #[must_use]
    pub fn end(&self) -> Time {
        self.end
    }
}

/// Operations in the slowest second, as a share of those in the median one; `None` below three seconds.
#[must_use]
pub fn slowest_second_share(seconds: &[u64]) -> Option<f64> {
    let mut seconds = seconds.to_vec();
    seconds.sort_unstable();
    let median = *seconds.get(seconds.len() / 2).filter(|_| seconds.len() >= 3)?;
    (median > 0).then(|| seconds[0] as f64 / median as f64)
}

/// The middle one; the upper of two. Not a number of none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_histograms_count_everything() {
        let (mut one, mut two) = (Latencies::default(), Latencies::default());
        for micros in 1..=900 {
            one.record(Kind::Read, Duration::from_micros(micros));
        }
        for micros in 901..=1_000 {
            two.record(Kind::Read, Duration::from_micros(micros));
        }
        two.record(Kind::Insert, Duration::from_secs(4_000));
        one.merge(&two);
        assert_eq!(one.operations(), 1_001);
        let merged = one.percentiles();
        assert_eq!(merged.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [Kind::Insert, Kind::Read]);
        let read = merged[1].1;
        assert!((read.p50 - 500.0).abs() < 10.0 && (read.p99 - 990.0).abs() < 10.0, "{read:?}");
        assert!((read.max - 1_000.0).abs() < 10.0 && read.p999 <= read.p9999);
        let travelled: Latencies = serde_json::from_str(&serde_json::to_string(&one).unwrap()).unwrap();
        assert_eq!(travelled.percentiles(), one.percentiles());
    }

    fn second(number: u64) -> Time {
        Time(number * 1_000_000_000)
    }

    #[test]
    fn seconds_and_gaps_add_up_over_threads() {
        let last = LastCompletion::new(second(0));
        let (mut one, mut two) = (Recorder::new(second(0)), Recorder::new(second(0)));
        for (at, operations) in [(0, 10), (1, 4), (2, 10), (5, 1)] {
            for _ in 0..operations {
                one.record(Kind::Read, second(at), second(at), &last);
            }
        }
        two.record(Kind::Read, second(3), second(3), &last);
        two.record(Kind::Read, second(4), second(4), &last);
        one.merge(&two);
        assert_eq!((one.latencies().operations(), one.elapsed()), (27, Duration::from_secs(5)));
        // Seconds 0..5: 10, 4, 10, 1, 1; the sixth is not whole.
        assert_eq!(slowest_second_share(one.whole_seconds()), Some(0.25));
        assert_eq!(one.gap_longest(), Duration::from_secs(3));
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn too_few_seconds_have_no_share() {
        let mut recorder = Recorder::new(second(0));
        let last = LastCompletion::new(second(0));
        for at in 0..3 {
            recorder.record(Kind::Read, second(at), second(at), &last);
        }
        assert_eq!(slowest_second_share(recorder.whole_seconds()), None);
        recorder.record(Kind::Read, second(3), second(3), &last);
        assert_eq!(slowest_second_share(recorder.whole_seconds()), Some(1.0));
    }
}
