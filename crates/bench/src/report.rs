//! What a phase is reported as: one JSON object, one line of a table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::Percentiles;
use crate::profile::Profile;
use crate::size::{show_bytes, show_count};
use crate::subject::{MemoryBy, WrittenBytes};

/// One measured phase. Field names are a contract: `--json` writes this object as one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// `load`, or the name of the workload.
    pub phase: String,
    /// Preset of the store.
    pub design: String,
    /// What the store is on; contains `page cache` when reads and writes went through it.
    pub device: String,
    /// Threads that ran operations.
    pub threads: usize,
    /// Records in the store when the phase began.
    pub records: u64,
    /// Operations completed.
    pub operations: u64,
    /// From the start to the last completion.
    pub seconds: f64,
    /// `operations / seconds`.
    pub operations_per_second: f64,
    /// CPU time of the whole process, background threads included, per operation.
    pub cpu_us_per_operation: f64,
    /// Percentiles by kind of operation.
    pub latency_us: BTreeMap<String, Percentiles>,
    /// Bytes that the device layer wrote per operation.
    pub written_bytes_per_operation: f64,
    /// Bytes that the device layer read per operation.
    pub read_bytes_per_operation: f64,
    /// Bytes written in the phase, by cause.
    pub written_by: WrittenBytes,
    /// Zones reset in the phase.
    pub zones_reset: u64,
    /// The longest time in which no operation completed.
    pub longest_gap_ms: f64,
    /// Operations in the slowest second over those in the median second; `null` below three whole seconds.
    pub slowest_second_share: Option<f64>,
    /// The most memory that the store says it used since it was opened.
    pub memory_peak_bytes: u64,
    /// Where the store's memory was at the end, in bytes; left out by engines that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_by: Option<MemoryBy>,
    /// The most memory that the process held in this phase (since its start where the system cannot restart it).
    pub rss_peak_bytes: u64,
    /// Point reads that the store counted.
    pub gets: u64,
    /// Leaf pages that they asked for, those in the read cache included.
    pub leaf_reads: u64,
    /// Pages that the read cache had, for whoever asked; 0 in what was measured before this was kept.
    #[serde(default)]
    pub page_hits: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Which records the operations went to.
    pub distribution: String,
    /// Cross-check: bytes written per operation by `/proc/self/io`, where there is one.
    pub process_written_bytes_per_operation: Option<f64>,
    /// Cross-check: bytes read per operation by `/proc/self/io`, where there is one.
    pub process_read_bytes_per_operation: Option<f64>,
    /// Samples by part of the store, where the phase was profiled.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
}

impl PhaseReport {
    /// How far `/proc/self/io` is from the device layer's count of written bytes, as a share of the latter; `None`
    /// where one of them is missing or zero.
    #[must_use]
    pub fn written_disagreement(&self) -> Option<f64> {
        let counted = self.written_bytes_per_operation;
        let process = self.process_written_bytes_per_operation?;
        (counted > 0.0 && process > 0.0).then(|| (process - counted).abs() / counted)
    }
}

/// A table with aligned columns: the first column and those of [text](Self::with_text) to the left, the others to the right.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Which columns are text; none unless somebody said so.
    text: Vec<bool>,
}

impl Table {
    /// A table under these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()], text: Vec::new() }
    }

    /// The same with the columns of these headings to the left: text, and no numbers.
    #[must_use]
    pub fn with_text(mut self, headings: &[&str]) -> Self {
        let is_text = |heading: &String| headings.contains(&heading.as_str());
        self.text = self.rows[0].iter().map(is_text).collect();
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text, a line per row.
    #[must_use]
    pub fn render(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in &self.rows {
            let is_left = |column: usize| column == 0 || self.text.get(column) == Some(&true);
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match is_left(column) {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        (0..columns).map(|column| width(column).unwrap_or(0)).collect()
    }
}

/// Rates, latencies and memory of all phases.
#[must_use]
pub fn rates_table(phases: &[PhaseReport]) -> String {
    let mut table = Table::new(&[
        "phase",
        "kind",
        "ops/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max ms",
        "gap ms",
        "cpu us/op",
        "memory peak",
        "rss peak",
    ]);
    for phase in phases {
        for (nth, (kind, latency)) in phase.latency_us.iter().enumerate() {
            let of_phase = if nth == 0 { phase_cells(phase) } else { Default::default() };
            let [name, rate, gap, cpu, memory, rss] = of_phase;
            let [p50, p99, p999] = [latency.p50, latency.p99, latency.p999].map(|us| format!("{us:.1}"));
            let max = format!("{:.1}", latency.max / 1_000.0);
            table.row([name, kind.clone(), rate, p50, p99, p999, max, gap, cpu, memory, rss]);
        }
    }
    table.render()
}

fn phase_cells(phase: &PhaseReport) -> [String; 6] {
    [
        phase.phase.clone(),
        show_count(round(phase.operations_per_second)),
        format!("{:.1}", phase.longest_gap_ms),
        format!("{:.2}", phase.cpu_us_per_operation),
        show_bytes(phase.memory_peak_bytes),
        show_bytes(phase.rss_peak_bytes),
    ]
}

/// Device bytes per operation, by cause.
#[must_use]
pub fn bytes_table(phases: &[PhaseReport]) -> String {
    let mut table = Table::new(&[
        "bytes/op",
        "written",
        "flush",
        "relocation",
        "log",
        "journal",
        "image",
        "values",
        "headers",
        "read",
        "zones reset",
        "device",
    ]);
    for phase in phases {
        let by = phase.written_by;
        let causes = [by.flush, by.relocation, by.log, by.journal, by.image, by.values, by.headers];
        let per_operation = |bytes: u64| format!("{:.1}", bytes as f64 / phase.operations.max(1) as f64);
        let mut cells = vec![phase.phase.clone(), format!("{:.1}", phase.written_bytes_per_operation)];
        cells.extend(causes.map(per_operation));
        cells.push(format!("{:.1}", phase.read_bytes_per_operation));
        cells.push(phase.zones_reset.to_string());
        cells.push(phase.device.clone());
        table.row(cells);
    }
    table.render()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative; the cast saturates"
)]
fn round(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> PhaseReport {
        let latency = Percentiles { p50: 1.0, p90: 2.0, p99: 3.0, p999: 4.0, p9999: 5.0, max: 6_000.0 };
        PhaseReport {
            phase: "zkv-b".into(),
            design: "zonda".into(),
            device: "file (O_DIRECT)".into(),
            threads: 2,
            records: 4_000_000,
            operations: 100_000,
            seconds: 0.5,
            operations_per_second: 200_000.0,
            cpu_us_per_operation: 4.25,
            latency_us: BTreeMap::from([("insert".into(), latency), ("read".into(), latency)]),
            written_bytes_per_operation: 100.0,
            read_bytes_per_operation: 4_096.0,
            written_by: WrittenBytes { flush: 9_000_000, log: 1_000_000, ..WrittenBytes::default() },
            zones_reset: 3,
            longest_gap_ms: 1.5,
            slowest_second_share: None,
            memory_peak_bytes: 8 << 20,
            memory_by: Some(MemoryBy { budget: 8 << 20, buffers: 4 << 20, ..MemoryBy::default() }),
            rss_peak_bytes: 12 << 20,
            gets: 50_000,
            leaf_reads: 45_000,
            page_hits: 5_000,
            seed: 1,
            distribution: "uniform".into(),
            process_written_bytes_per_operation: Some(102.0),
            process_read_bytes_per_operation: None,
            profile: Profile::default(),
        }
    }

    /// Scripts read these names: changing one is a breaking change.
    #[test]
    fn json_has_the_promised_fields() {
        let json = serde_json::to_value(example()).unwrap();
        let promised = [
            "phase",
            "design",
            "device",
            "threads",
            "records",
            "operations",
            "seconds",
            "operations_per_second",
            "cpu_us_per_operation",
            "latency_us",
            "written_bytes_per_operation",
            "read_bytes_per_operation",
            "written_by",
            "zones_reset",
            "longest_gap_ms",
            "slowest_second_share",
            "memory_peak_bytes",
            "rss_peak_bytes",
            "seed",
        ];
        for field in promised {
            assert!(json.get(field).is_some(), "{field}");
        }
        for field in ["p50", "p90", "p99", "p999", "p9999", "max"] {
            assert!(json["latency_us"]["read"][field].is_number(), "{field}");
        }
        for field in ["flush", "relocation", "log", "journal", "image", "values"] {
            assert!(json["written_by"][field].is_u64(), "{field}");
        }
    }

    #[test]
    fn tables_have_a_row_per_phase_and_kind() {
        let rates = rates_table(&[example(), example()]);
        assert_eq!(rates.lines().count(), 5);
        assert!(rates.contains("200,000") && rates.contains("8.0 MiB"), "{rates}");
        let bytes = bytes_table(&[example()]);
        assert!(bytes.contains("90.0") && bytes.contains("O_DIRECT"), "{bytes}");
        let lengths: Vec<_> = bytes.lines().map(|line| line.chars().count()).collect();
        assert_eq!(lengths[0].abs_diff(lengths[1]), "file (O_DIRECT)".len() - "file (O_DIRECT)".len());
    }

    #[test]
    fn text_stands_on_the_left_and_numbers_on_the_right() {
        let mut table = Table::new(&["name", "what", "bytes"]).with_text(&["what"]);
        table.row(["a", "short", "7"].map(str::to_owned));
        table.row(["b", "rather long", "12345"].map(str::to_owned));
        assert_eq!(table.render(), "name  what         bytes\na     short            7\nb     rather long  12345\n");
    }

    #[test]
    fn the_cross_check_is_a_share() {
        let mut phase = example();
        assert!((phase.written_disagreement().unwrap() - 0.02).abs() < 1e-9);
        phase.process_written_bytes_per_operation = None;
        assert_eq!(phase.written_disagreement(), None);
    }
}
