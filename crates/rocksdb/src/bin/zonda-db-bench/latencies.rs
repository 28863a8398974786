//! Latencies of a step, and how they are printed: as `db_bench` does, for those who read both.

use std::time::Duration;

/// Every single one, in nanoseconds: steps have few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    pub(crate) fn push(&mut self, latency: Duration) {
        self.0.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// `Microseconds per NAME` with percentiles, or nothing if there are none.
    pub(crate) fn lines(mut self, name: &str) -> String {
        self.0.sort_unstable();
        let Some(most) = self.0.len().checked_sub(1) else { return String::new() };
        let of = |permyriad: usize| self.0[most * permyriad / 10_000] as f64 / 1000.0;
        format!(
            "Microseconds per {name}:\nCount: {}\nPercentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2}\n",
            self.0.len(),
            of(5000),
            of(7500),
            of(9900),
            of(9990),
            of(9999)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted() {
        let mut latencies = Latencies::default();
        (1..=1000).rev().for_each(|micros| latencies.push(Duration::from_micros(micros)));
        let lines = latencies.lines("write");
        assert!(lines.contains("P50: 500.00 ") && lines.contains("P99: 990.00 P99.9: 999.00"), "{lines}");
        assert!(lines.starts_with("Microseconds per write:\n") && Latencies::default().lines("read").is_empty());
    }
}
