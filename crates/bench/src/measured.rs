//! What a phase, or a slice of one, measured: adds up over slices and travels between processes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::{Latencies, slowest_second_share};
use crate::phase::Phase;
use crate::process::StorageBytes;
use crate::profile::Profile;
use crate::report::PhaseReport;
use crate::subject::{MemoryBy, WrittenBytes};

/// Measurements of one slice, or of several one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Operations completed.
    pub operations: u64,
    /// From the start to the last completion; time between slices is not counted.
    pub seconds: f64,
    /// Latencies by kind of operation.
    pub latencies: Latencies,
    /// Operations of each whole second.
    pub whole_seconds: Vec<u64>,
    /// The longest time in which no operation completed.
    pub gap_longest_ms: f64,
    /// What the operations cost.
    pub used: Used,
    /// The most memory that the store says it used since it was opened.
    pub memory_peak_bytes: u64,
    /// Where the store's memory was at the end, if it says.
    #[serde(default)]
    pub memory_by: Option<MemoryBy>,
    /// The most memory that the process held.
    pub rss_peak_bytes: u64,
    /// Records in the store at the beginning.
    pub records: u64,
    /// What the store is on.
    pub device: String,
    /// Where the time went, if it was sampled.
    #[serde(default)]
    pub profile: Profile,
}

/// What operations cost: differences of counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Bytes that the device layer wrote.
    pub device_written_bytes: u64,
    /// Bytes that the device layer read.
    pub device_read_bytes: u64,
    /// What they were written for.
    pub written: WrittenBytes,
    /// Zones reset.
    pub zones_reset: u64,
    /// Point reads.
    pub gets: u64,
    /// Leaf pages that point reads asked for, those in the read cache included.
    pub leaf_reads: u64,
    /// Pages that the read cache had.
    #[serde(default)]
    pub page_hits: u64,
    /// CPU time of the whole process.
    pub cpu: Duration,
    /// What `/proc/self/io` counted, where there is one.
    pub process: Option<StorageBytes>,
}

impl Measured {
    /// Adds the slice that was measured after this one.
    pub fn add(&mut self, next: &Self) {
        self.operations += next.operations;
        self.seconds += next.seconds;
        self.latencies.merge(&next.latencies);
        self.whole_seconds.extend_from_slice(&next.whole_seconds);
        self.gap_longest_ms = self.gap_longest_ms.max(next.gap_longest_ms);
        self.used.add(&next.used);
        self.memory_peak_bytes = self.memory_peak_bytes.max(next.memory_peak_bytes);
        self.memory_by = next.memory_by;
        self.rss_peak_bytes = self.rss_peak_bytes.max(next.rss_peak_bytes);
        self.profile.add(&next.profile);
    }

    /// The report of `phase`, of which this is the whole.
    #[must_use]
    pub fn report(&self, phase: &Phase, design: &str, seed: u64) -> PhaseReport {
        let used = &self.used;
        PhaseReport {
            phase: phase.workload.name.clone(),
            design: design.to_owned(),
            device: self.device.clone(),
            threads: phase.threads,
            records: self.records,
            operations: self.operations,
            seconds: self.seconds,
            operations_per_second: if self.seconds > 0.0 { self.operations as f64 / self.seconds } else { 0.0 },
            cpu_us_per_operation: self.per_operation(used.cpu.as_secs_f64() * 1e6),
            latency_us: self.latency_us(),
            written_bytes_per_operation: self.per_operation(used.device_written_bytes as f64),
            read_bytes_per_operation: self.per_operation(used.device_read_bytes as f64),
            written_by: used.written,
            zones_reset: used.zones_reset,
            longest_gap_ms: self.gap_longest_ms,
            slowest_second_share: slowest_second_share(&self.whole_seconds),
            memory_peak_bytes: self.memory_peak_bytes,
            memory_by: self.memory_by,
            rss_peak_bytes: self.rss_peak_bytes,
            gets: used.gets,
            leaf_reads: used.leaf_reads,
            page_hits: used.page_hits,
            seed,
            distribution: phase.distribution.to_string(),
            process_written_bytes_per_operation: used.process.map(|bytes| self.per_operation(bytes.written as f64)),
            process_read_bytes_per_operation: used.process.map(|bytes| self.per_operation(bytes.read as f64)),
            profile: self.profile.clone(),
        }
    }

    fn per_operation(&self, amount: f64) -> f64 {
        if self.operations == 0 { 0.0 } else { amount / self.operations as f64 }
    }

    fn latency_us(&self) -> BTreeMap<String, crate::measure::Percentiles> {
        let named = |(kind, percentiles): (crate::Kind, _)| (kind.name().to_owned(), percentiles);
        self.latencies.percentiles().into_iter().map(named).collect()
    }
}

impl Used {
    fn add(&mut self, next: &Self) {
        self.device_written_bytes += next.device_written_bytes;
        self.device_read_bytes += next.device_read_bytes;
        self.written = self.written.plus(&next.written);
        self.zones_reset += next.zones_reset;
        self.gets += next.gets;
        self.leaf_reads += next.leaf_reads;
        self.page_hits += next.page_hits;
        self.cpu += next.cpu;
        self.process = self.process.zip(next.process).map(|(mine, theirs)| StorageBytes {
            read: mine.read + theirs.read,
            written: mine.written + theirs.written,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Kind, Workload};

    fn slice(operations: u64, gap_longest_ms: f64) -> Measured {
        let mut latencies = Latencies::default();
        (0..operations).for_each(|_| latencies.record(Kind::Read, Duration::from_micros(operations)));
        let used = Used { device_read_bytes: 4096 * operations, cpu: Duration::from_micros(10), ..Used::default() };
        Measured {
            operations,
            seconds: 2.0,
            latencies,
            whole_seconds: vec![operations, 2 * operations],
            gap_longest_ms,
            used,
            memory_peak_bytes: operations,
            memory_by: Some(MemoryBy { budget: 100, buffers: operations, ..MemoryBy::default() }),
            rss_peak_bytes: 7,
            records: operations,
            device: "file".into(),
            profile: Profile::default(),
        }
    }

    #[test]
    fn slices_add_up() {
        let mut whole = slice(10, 3.0);
        whole.add(&slice(30, 1.0));
        let text = serde_json::to_string(&whole).unwrap();
        let whole: Measured = serde_json::from_str(&text).unwrap();
        let report = whole.report(&Phase::new(Workload::named("get").unwrap(), 40, 2), "adb", 1);
        assert_eq!((report.operations, report.seconds, report.records), (40, 4.0, 10));
        assert_eq!((report.operations_per_second, report.read_bytes_per_operation), (10.0, 4096.0));
        assert_eq!((report.longest_gap_ms, report.slowest_second_share), (3.0, Some(10.0 / 30.0)));
        assert_eq!((report.memory_peak_bytes, report.cpu_us_per_operation), (30, 0.5));
        assert_eq!(report.memory_by.map(|memory| memory.buffers), Some(30), "where it was at the end");
        assert!((report.latency_us["read"].p50 - 30.0).abs() < 1.0);
    }
}
