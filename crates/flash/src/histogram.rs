//! Latencies in bounded memory: buckets of 1/64 of their value.
use crate::core::Nanos;

/// Buckets for each power of two.
const STEPS_LOG2: u32 = 6;

/// A histogram of durations with a relative error below 1/64.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_ns: u128,
    max_ns: Nanos,
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, ns: Nanos) {
        let bucket = bucket_of(ns);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Exact mean; 0 for none.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum_ns as f64 / self.total as f64 }
    }

    /// Exact longest.
    #[must_use]
    pub fn max_ns(&self) -> Nanos {
        self.max_ns
    }

    /// The duration that a share (0 to 1) of them does not exceed: the upper end of its bucket.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> Nanos {
        let mut left = share * self.total as f64;
        for (bucket, &count) in self.counts.iter().enumerate() {
            left -= count as f64;
            if left <= 0.0 && count > 0 {
                return upper_end(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

fn bucket_of(ns: Nanos) -> usize {
    let magnitude = (64 - ns.leading_zeros()).saturating_sub(STEPS_LOG2 + 1);
    ((magnitude as usize) << STEPS_LOG2) + usize::try_from(ns >> magnitude).expect("below 128")
}

fn upper_end(bucket: usize) -> Nanos {
    let magnitude = (bucket >> STEPS_LOG2).saturating_sub(1);
    let step = bucket - (magnitude << STEPS_LOG2);
    ((step as u64 + 1) << magnitude) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for ns in (0..2_000).chain((1..50).map(|shift| (1 << shift) + 12_345)) {
            let (bucket, end) = (bucket_of(ns), upper_end(bucket_of(ns)));
            assert!(end >= ns && end - ns <= ns / 64, "{ns} in the bucket that ends at {end}");
            if ns < 2_000 {
                assert!(bucket >= last);
                last = bucket;
            }
        }
    }

    #[test]
    fn quantiles_and_mean() {
        let mut histogram = Histogram::default();
        for ns in 1..=1_000_u64 {
            histogram.record(ns * 1_000);
        }
        assert_eq!((histogram.count(), histogram.mean_ns(), histogram.max_ns()), (1_000, 500_500.0, 1_000_000));
        for share in [0.5, 0.95, 0.99] {
            let (found, wanted) = (histogram.quantile_ns(share) as f64, share * 1e6);
            assert!((found / wanted - 1.0).abs() < 1.0 / 60.0, "{share}: {found}");
        }
        assert_eq!(Histogram::default().quantile_ns(0.5), 0);
    }
}
