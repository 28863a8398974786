//! What tables and figures show of a row.

use serde::{Deserialize, Serialize};

use crate::measure::Percentiles;
use crate::profile::Component;
use crate::race::Row;
use crate::subject::PEERS;

/// One number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Thousands of operations per second.
    Kops,
    /// CPU time of the process per operation, in microseconds.
    Cpu,
    /// Bytes written per operation, the log left out as in the ZKV paper; checkpoints and journal are in.
    Written,
    /// Bytes of log written per operation.
    Log,
    /// Bytes of checkpoints and journal per operation, which [`Written`](Self::Written) contains.
    Checkpoint,
    /// Bytes of leaves moved by reclaim per operation.
    Relocated,
    /// Bytes of the value log per operation: new values and those that reclaim moved.
    Values,
    /// Bytes written per operation, everything included.
    WrittenAll,
    /// Bytes read per operation.
    Read,
    /// Leaf pages asked for per point read, those in the read cache included; of this project's stores.
    LeafReads,
    /// Device writes of 4 KiB per operation, the log left out.
    WriteIo,
    /// Device reads of 4 KiB per operation.
    ReadIo,
    /// Median latency in microseconds; of the writes where a phase has both, which tables say ([`of_kind`](Self::of_kind)).
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// 99.99th percentile.
    P9999,
    /// Longest time without a completion, in milliseconds.
    Gap,
    /// Slowest second over median second.
    SlowestSecond,
    /// The most memory that the process held in the step, in MiB.
    Rss,
    /// The same bytes as the process's own account counts them; the only ones that other engines have.
    ProcessWritten,
    /// Bytes read, by the process's own account.
    ProcessRead,
    /// Percent of the store's CPU time in a component, where the step was profiled.
    TimeIn(Component),
}

/// The unit of input and output in the paper's formulas.
const IO_BYTES: f64 = 4096.0;

impl Metric {
    /// Heading of its column.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Kops => "kops/s",
            Self::Cpu => "cpu us/op",
            Self::Written => "written B/op",
            Self::Log => "log B/op",
            Self::Checkpoint => "checkpoint B/op",
            Self::Relocated => "relocated B/op",
            Self::Values => "values B/op",
            Self::WrittenAll => "all written B/op",
            Self::Read => "read B/op",
            Self::LeafReads => "leaf reads/get",
            Self::WriteIo => "write I/O per op",
            Self::ReadIo => "read I/O per op",
            Self::P50 => "p50 us",
            Self::P90 => "p90 us",
            Self::P99 => "p99 us",
            Self::P999 => "p99.9 us",
            Self::P9999 => "p99.99 us",
            Self::Gap => "gap ms",
            Self::SlowestSecond => "slowest s/median",
            Self::Rss => "rss MiB",
            Self::ProcessWritten => "process written B/op",
            Self::ProcessRead => "process read B/op",
            Self::TimeIn(Component::InnerNodes) => "inner nodes %",
            Self::TimeIn(Component::MappingTable) => "mapping table %",
            Self::TimeIn(Component::Leaf) => "leaf %",
            Self::TimeIn(Component::Device) => "device %",
            Self::TimeIn(Component::Rest) => "rest %",
        }
    }

    /// Digits after the point in tables.
    pub(super) fn digits(self) -> usize {
        match self {
            Self::WriteIo | Self::ReadIo | Self::LeafReads => 3,
            Self::Cpu | Self::SlowestSecond => 2,
            _ => 1,
        }
    }

    /// The number, where the row has it.
    #[must_use]
    pub fn of(self, row: &Row) -> Option<f64> {
        let report = &row.report;
        let by = &report.written_by;
        let per_operation = |bytes: u64| bytes as f64 / report.operations.max(1) as f64;
        let without_log = report.written_bytes_per_operation - per_operation(by.log);
        Some(match self {
            Self::Kops => report.operations_per_second / 1_000.0,
            Self::Cpu => report.cpu_us_per_operation,
            Self::Written => without_log,
            Self::Log => per_operation(by.log),
            Self::Checkpoint => per_operation(by.checkpoint()),
            Self::Relocated => per_operation(by.relocation),
            Self::Values => per_operation(by.values),
            Self::WrittenAll => report.written_bytes_per_operation,
            Self::Read => report.read_bytes_per_operation,
            // Engines of others do not count theirs.
            Self::LeafReads if report.gets == 0 || PEERS.contains(&report.design.as_str()) => return None,
            Self::LeafReads => report.leaf_reads as f64 / report.gets as f64,
            Self::WriteIo => without_log / IO_BYTES,
            Self::ReadIo => report.read_bytes_per_operation / IO_BYTES,
            Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::P9999 => return self.percentile(latency(row)?.1),
            Self::Gap => report.longest_gap_ms,
            Self::SlowestSecond => return report.slowest_second_share,
            Self::Rss => report.rss_peak_bytes as f64 / f64::from(1 << 20),
            Self::ProcessWritten => return report.process_written_bytes_per_operation,
            Self::ProcessRead => return report.process_read_bytes_per_operation,
            Self::TimeIn(component) => return report.profile.percent(component),
        })
    }

    /// Which of the kinds of operations in the row the number is of; `None` where it is of all that there are.
    #[must_use]
    pub fn of_kind(self, row: &Row) -> Option<&'static str> {
        let is_of_one = Self::PERCENTILES.contains(&self) && row.report.latency_us.len() > 1;
        is_of_one.then(|| latency(row).map(|(kind, _)| kind)).flatten()
    }

    fn percentile(self, latency: &Percentiles) -> Option<f64> {
        match self {
            Self::P50 => Some(latency.p50),
            Self::P90 => Some(latency.p90),
            Self::P99 => Some(latency.p99),
            Self::P999 => Some(latency.p999),
            Self::P9999 => Some(latency.p9999),
            _ => None,
        }
    }

    /// The percentiles that figures of latency have on their x axis.
    pub(super) const PERCENTILES: [Self; 5] = [Self::P50, Self::P90, Self::P99, Self::P999, Self::P9999];
}

/// The kind that a phase is about, and its latency: writes where there are some, else what there is.
fn latency(row: &Row) -> Option<(&'static str, &Percentiles)> {
    let by_kind = &row.report.latency_us;
    ["insert", "update", "modify", "read", "scan"].into_iter().find_map(|kind| Some((kind, by_kind.get(kind)?)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::tests::example;

    pub(crate) fn row(x: &str, series: &str, phase: &str) -> Row {
        let mut report = example();
        phase.clone_into(&mut report.phase);
        Row { x: x.into(), series: series.into(), scale_down: 1, memory_bytes: 8 << 20, report }
    }

    #[test]
    fn the_log_is_shown_apart() {
        let row = row("", "zonda", "zkv-b");
        assert_eq!((Metric::Log.of(&row), Metric::Written.of(&row)), (Some(10.0), Some(90.0)));
        assert_eq!((Metric::WrittenAll.of(&row), Metric::ReadIo.of(&row)), (Some(100.0), Some(1.0)));
        assert_eq!((Metric::Kops.of(&row), Metric::LeafReads.of(&row)), (Some(200.0), Some(0.9)));
        assert_eq!((Metric::P999.of(&row), Metric::SlowestSecond.of(&row)), (Some(4.0), None));
        let mut peer = row;
        peer.report.design = "rocksdb".to_owned();
        assert_eq!(Metric::LeafReads.of(&peer), None, "it does not count them");
    }

    #[test]
    fn a_latency_of_one_kind_of_several_says_which() {
        let mut row = row("", "zonda", "zkv-b");
        assert_eq!((Metric::P99.of_kind(&row), Metric::Gap.of_kind(&row)), (Some("insert"), None));
        row.report.latency_us.remove("insert");
        assert_eq!(Metric::P99.of_kind(&row), None, "there is but one");
    }
}
