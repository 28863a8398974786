//! RocksDB on the drives of the ZNS paper (sections 5.2 and 5.3): stock `db_bench` through the plugin on the modelled flash, in dilated
//! time, behind a block interface with models of two file systems, and with zones.
//!
//! A point is one system: the drive is new, then it is written. For figures of writing `fillrandom` draws pairs of 58 % of the 28 %
//! drive's bytes (figure 9: of each drive's own), and `overwrite` as many again. For figures of reading one and a half times as many
//! are drawn, and reads follow. All of it is one process, because a modelled drive forgets what its flash has been through when it is
//! closed. Rates and latencies are in the drive's time. Figures share the points that they have in common.

use std::fs;

use serde_json::Value;

use super::made::Maker;
use super::printed::{Latency, Step};
use super::seeds::{CPU, MACHINE, VOID, void};
use super::stock::{On, Ran, Stock, in_memory};
use super::text::y_axis;
use super::{DriveResults, DriveRow, FAILED, Point, TOLD};
use crate::process::machine_ticks_not_nice;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::{BenchError, Result};

/// Thousands of operations a second.
pub(super) const RATE: &str = "k per s";
/// Written to flash for each byte that the drive was given, from the first on: collection, what fills up finished zones, and the rest of
/// mapping units that were written in part.
pub(super) const AMPLIFICATION: &str = "flash over drive bytes";
/// Moved by cleaning of the file store, for each byte that it was given.
pub(super) const CLEANED: &str = "cleaned over file bytes";
/// What the tree may owe to compactions before writes are slowed down and stopped: one of so many parts of the drive. RocksDB's defaults,
/// 64 and 256 GiB, are a twenty-third and a sixth of the paper's drive; the first would slow so small a tree down all the time.
const SLOWED_OF: u64 = 12;
/// See [`SLOWED_OF`].
const STOPPED_OF: u64 = 6;

/// Percentiles of reads in microseconds.
pub(super) const READ_P50: &str = "read P50 us";
/// See [`READ_P50`].
pub(super) const READ_P99: &str = "read P99 us";
/// See [`READ_P50`].
pub(super) const READ_P999: &str = "read P99.9 us";
/// Percentile of writes in microseconds.
pub(super) const WRITE_P99: &str = "write P99 us";

/// Columns of these figures.
pub(super) const COLUMNS: &[&str] =
    &[RATE, AMPLIFICATION, CLEANED, READ_P50, READ_P99, READ_P999, WRITE_P99, CPU, MACHINE, VOID];
/// How these figures came about.
pub(super) const HOW: &str = "dilated time, in the drive's";

/// Steps of a run.
pub(super) const FILL: &str = "fillrandom";
pub(super) const OVERWRITE: &str = "overwrite";
pub(super) const READ: &str = "readrandom";
pub(super) const MIXED: &str = "readwhilewriting";

/// Pair of the paper as it is stored: values of 800 bytes compressed to 400.
const KEY_BYTES: u64 = 20;
const VALUE_BYTES: u64 = 400;
/// The paper's readers; as many write, where it does not say.
const THREADS: u64 = 32;
/// The paper's drives in bytes, and the zones of the third.
const BYTES_28: u64 = 1_599_999_049_728;
const BYTES_7: u64 = 1_919_999_279_104;
const ZONES: u64 = 1900;
/// The bytes of all pairs that are drawn, of those of the 28 % drive. Distinct ones among n drawn are 63 % of n, among 2 n 86 %, and half
/// as many again may be held twice, in levels above the last or on the way: by that arithmetic up to 80 % of the drive, the paper's share.
const BYTES_PER_DRAW_PERCENT: u64 = 58;
/// Memtable, level 1 and ratio of levels at the paper's scale, where it does not say: those of the benchmark that its authors published
/// (`usenix_atc_2021_zns_eval` of zbdbench). Four tables of a zone are in level 1.
const WRITE_BUFFER_BYTES: u64 = 2 << 30;
/// See [`WRITE_BUFFER_BYTES`].
const LEVEL_BASE_BYTES: u64 = 4 << 30;
/// See [`WRITE_BUFFER_BYTES`].
const LEVEL_MULTIPLIER: u64 = 4;
/// `RocksDB`'s cache of blocks at the paper's scale. It goes with the drive's bytes, of which a model has a smaller part than of a zone's.
const CACHE_BYTES: u64 = 8 << 30;
/// What compactions read at once is not divided: dies and page sizes of the drive are not either, and with less each of them would wait for
/// one page of one die at a time.
const READAHEAD_BYTES_MIN: u64 = 256 << 10;
/// Size of a table at the paper's scale, but for `ZenFS`.
const TABLE_BYTES: u64 = 128 << 20;
/// The same for `ZenFS`: a table fills a zone but for the twentieth that is finished.
const ZONE_TABLE_BYTES: u64 = (1077 << 20) / 100 * 95;

/// What runs where.
#[derive(Clone, Debug)]
pub(super) struct System {
    /// Name in the legend.
    pub(super) name: String,
    /// `conv:` or `flash:` and the profile.
    drive: &'static str,
    /// Keys of the file system's name.
    keys: String,
    /// Size of a table at the paper's scale.
    table_bytes: u64,
    /// The drive after whose bytes pairs are counted.
    data_of: u64,
}

impl System {
    /// A file system on a conventional drive.
    pub(super) fn conventional(drive: &'static str, placement: &str, streams: bool) -> Self {
        let percent = if drive.ends_with("28op") { "28 %" } else { "7 %" };
        let (also, key) = if streams { (", streams", "&streams=on") } else { ("", "") };
        let name = format!("{placement}, {percent}{also}");
        Self { name, drive, keys: format!("fs={placement}{key}"), table_bytes: TABLE_BYTES, data_of: BYTES_28 }
    }

    /// A policy on zones.
    pub(super) fn zones(policy: &str, also: &str) -> Self {
        let keys = format!("policy={policy}{also}");
        let name = format!("{policy}, zones");
        let table_bytes = if policy.starts_with("liza") { ZONE_TABLE_BYTES } else { TABLE_BYTES };
        Self { name, drive: "flash:atc21-zns", keys, table_bytes, data_of: BYTES_28 }
    }

    fn profile(&self) -> &'static str {
        self.drive.split(':').next_back().unwrap_or_default()
    }

    /// Its drive with so many zones of so many times less, or as large a share of a conventional one.
    fn size(&self, (divisor, zones): (u64, u64)) -> String {
        let capacity = |bytes: u64| format!("capacity={}", (bytes / divisor / ZONES * zones) & !4095);
        match self.drive {
            "conv:atc21-28op" => capacity(BYTES_28),
            "conv:atc21-7op" => capacity(BYTES_7),
            _ => format!("zones={zones}"),
        }
    }

    /// The same under another name.
    pub(super) fn called(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// The same, the 7 % drive holding as large a share of its bytes as the 28 % drive of its own: the paper's benchmarks are scaled to 80
    /// % of each.
    pub(super) fn equally_full(self) -> Self {
        Self { name: format!("{}, as full", self.name), data_of: BYTES_7, ..self }
    }

    /// The same with tables of another size.
    pub(super) fn with_tables(self, table_bytes: u64) -> Self {
        Self { table_bytes, ..self }
    }
}

/// The four systems of figures 6 to 8.
pub(super) fn systems() -> Vec<System> {
    vec![
        System::conventional("conv:atc21-28op", "xfs-like", false),
        System::conventional("conv:atc21-28op", "f2fs-like", false),
        System::zones("f2fs-like", ""),
        System::zones("liza-zns", ""),
    ]
}

/// What is run behind the two writing steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Nothing.
    None,
    /// Reads, and reads beside writes.
    Unlimited,
    /// The same with so many bytes written a second, in the drive's time.
    Limited(u64),
}

/// A run of one system.
pub(super) fn point(scale: Scale, system: System, reads: Reads) -> Point {
    let id = match reads {
        Reads::None => format!("{}{WRITTEN}", system.name),
        Reads::Unlimited => format!("{}{READ_TOO}", system.name),
        Reads::Limited(rate) => format!("{}, {} MiB/s{WRITTEN}{READ_TOO}", system.name, rate >> 20),
    };
    let profile = system.profile();
    let set_up = SetUp::of(scale, &system, reads);
    let told = set_up.told();
    Point::new(id, Maker::Plugin(Some(profile)), move |seed| measure(&set_up, &system, reads, seed)).told(told)
}

/// How names of points end: with what a run is told and the seed they say all of it.
const WRITTEN: &str = ", written";
const READ_TOO: &str = ", read";

/// Whether a point is one of these, which other figures may have too.
pub(super) fn is_shared(point: &str) -> bool {
    point.ends_with(WRITTEN) || point.ends_with(READ_TOO)
}

/// What a run is told but for its seed and where its files are.
struct SetUp {
    scale: Scale,
    divisor: u64,
    k: u64,
    pairs: u64,
    /// Drive, size, time and file system, as keys of a name.
    drive: String,
    arguments: Vec<String>,
}

impl SetUp {
    fn of(scale: Scale, system: &System, reads: Reads) -> Self {
        // A zone or superblock holds one program of every die at least, so that the drive has fewer of them rather than smaller ones.
        let (divisor, zones) = scale.pick((170, 40), (170, 400), (24, ZONES));
        let k = scale.pick(1, 6, 10);
        let time = if scale == Scale::Tiny { "time=untimed".to_owned() } else { format!("k={k}") };
        let (size, share) = (system.size((divisor, zones)), |bytes: u64| bytes / divisor / ZONES * zones);
        let drive = format!("{}?scale=1/{divisor}&{size}&{time}&{}", system.drive, system.keys);
        let less = scale.pick(32, 1, 1);
        let pairs = share(system.data_of) / 100 * BYTES_PER_DRAW_PERCENT / (KEY_BYTES + VALUE_BYTES) / less;
        let draws = if reads == Reads::None { pairs } else { pairs * 3 / 2 };
        let mut arguments = arguments(system, (divisor, zones), less, k);
        arguments.push(format!("--num={pairs}"));
        arguments.push(format!("--writes={}", draws / THREADS));
        arguments.push(format!("--soft_pending_compaction_bytes_limit={}", share(BYTES_28) / SLOWED_OF));
        arguments.push(format!("--hard_pending_compaction_bytes_limit={}", share(BYTES_28) / STOPPED_OF));
        arguments.push(format!("--reads={}", scale.pick(2_000, 400_000, 4_000_000) / THREADS));
        let steps = match reads {
            Reads::None => "fillrandom,overwrite",
            Reads::Unlimited => "fillrandom,readrandom,readwhilewriting",
            // The limit would hold for `fillrandom` too.
            Reads::Limited(_) => "readrandomwriterandom,readwhilewriting",
        };
        arguments.push(format!("--benchmarks={steps}"));
        if let Reads::Limited(rate) = reads {
            arguments.push("--readwritepercent=1".to_owned());
            arguments.push(format!("--benchmark_write_rate_limit={}", rate / k));
        }
        Self { scale, divisor, k, pairs, drive, arguments }
    }

    /// All of it: rows of other set-ups are of no use for this one.
    fn told(&self) -> String {
        format!("{} {}", self.drive, self.arguments.join(" "))
    }
}

fn measure(set_up: &SetUp, system: &System, reads: Reads, seed: u64) -> Result<Vec<DriveRow>> {
    let Some(stock) = Stock::find() else { return Ok(Vec::new()) };
    // What the drive holds, in memory: a host's disk would hold up the drive's time with its own.
    let directory = match set_up.scale {
        Scale::Tiny | Scale::Laptop => in_memory()?,
        Scale::Paper => tempfile::tempdir().map_err(|source| BenchError::io("make a directory for a drive", source))?,
    };
    let data = directory.path().join("drive");
    let uri = format!("zonda://{}&seed={seed}&data={}", set_up.drive, data.display());
    let arguments: Vec<String> =
        set_up.arguments.iter().cloned().chain(std::iter::once(format!("--seed={seed}"))).collect();
    let (busy, ticks) = machine_ticks_not_nice();
    let ran = stock.run(&On::Zones(uri), &arguments, &mut || {})?;
    let (busy_now, ticks_now) = machine_ticks_not_nice();
    let machine = 100.0 * busy_now.saturating_sub(busy) as f64 / (ticks_now - ticks).max(1) as f64;
    let written = fs::metadata(&data).map_or(0, |data| data.len());
    let x = |step: &str| match reads {
        Reads::Limited(_) => format!("{step}, limited"),
        _ => step.to_owned(),
    };
    let is_shown = |step: &&Step| !matches!(reads, Reads::Limited(_)) || step.name == MIXED;
    let k = set_up.k as f64;
    let row = |step: &Step| numbers(DriveRow::of(&system.name, &x(&step.name)), step, &ran, (k, machine));
    let rows: Vec<DriveRow> =
        ran.steps.iter().filter(is_shown).map(row).map(|row| row.option("drive file bytes", written)).collect();
    if let Some(failed) = &ran.failed {
        eprintln!("{}: {failed}", system.name);
        let row = DriveRow::of(&system.name, &x(FILL)).option(FAILED, failed.as_str());
        return Ok(vec![row.option(TOLD, set_up.told())]);
    }
    Ok(rows.into_iter().map(|row| with_set_up(row, system, set_up)).collect())
}

/// Of a run that writes so many times less memtables and levels are as much smaller, so that it has some.
fn arguments(system: &System, (divisor, zones): (u64, u64), less: u64, k: u64) -> Vec<String> {
    let scaled = |bytes: u64| (bytes / divisor).max(16 << 10);
    vec![
        format!("--threads={THREADS}"),
        format!("--key_size={KEY_BYTES}"),
        format!("--value_size={VALUE_BYTES}"),
        "--compression_type=none".to_owned(),
        "--histogram=1".to_owned(),
        "--max_background_jobs=8".to_owned(),
        "--use_direct_reads=true".to_owned(),
        "--use_direct_io_for_flush_and_compaction=true".to_owned(),
        format!("--write_buffer_size={}", scaled(WRITE_BUFFER_BYTES / less).max(64 << 10)),
        format!("--target_file_size_base={}", scaled(system.table_bytes)),
        format!("--max_bytes_for_level_base={}", scaled(LEVEL_BASE_BYTES / less)),
        format!("--max_bytes_for_level_multiplier={LEVEL_MULTIPLIER}"),
        format!("--compaction_readahead_size={}", scaled(2 << 20).max(READAHEAD_BYTES_MIN)),
        format!("--cache_size={}", scaled(CACHE_BYTES / ZONES * zones)),
        format!("--delayed_write_rate={}", (16 << 20) / k),
    ]
}

/// A step's numbers in the drive's time, of dilation and the machine's share; bytes are of the whole run.
fn numbers(row: DriveRow, step: &Step, ran: &Ran, (k, machine): (f64, f64)) -> DriveRow {
    let bytes = |name: &str| ran.report.as_ref().and_then(|report| report.get(name)?.as_f64());
    let over =
        |more: &str, of: &str| bytes(more).zip(bytes(of)).filter(|(_, of)| *of > 0.0).map(|(more, of)| more / of);
    let latency = |of: Option<Latency>, pick: fn(Latency) -> f64| of.map(|latency| pick(latency) / k);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let cpu = 100.0 * ran.cpu_seconds / ran.seconds.max(f64::MIN_POSITIVE) / cores;
    let causes = ["flash_rounding_bytes", "flash_collection_bytes", "flash_padding_bytes"];
    let beside_host: Option<f64> = causes.iter().map(|cause| over(cause, "flash_host_bytes")).sum();
    row.number(RATE, step.per_second * k / 1e3)
        .number(AMPLIFICATION, beside_host.map(|more| 1.0 + more))
        .number(CLEANED, over("copied_bytes", "written_bytes"))
        .number(READ_P50, latency(step.reads, |it| it.p50))
        .number(READ_P99, latency(step.reads, |it| it.p99))
        .number(READ_P999, latency(step.reads, |it| it.p999))
        .number(WRITE_P99, latency(step.writes, |it| it.p99))
        .number(CPU, cpu)
        .number(MACHINE, machine)
        .number(VOID, void(cpu, machine))
}

fn with_set_up(row: DriveRow, system: &System, set_up: &SetUp) -> DriveRow {
    let text = |value: &str| Value::from(value.to_owned());
    let mut row = row.option("drive", text(system.drive)).option("keys", text(&system.keys));
    system.profile().clone_into(&mut row.profile);
    row.k = u32::try_from(set_up.k).ok();
    row.option("scale", set_up.divisor)
        .option("pairs", set_up.pairs)
        .option("table bytes", system.table_bytes / set_up.divisor)
        .option(TOLD, set_up.told())
}

/// A number of a row that is not void; not a number for others.
pub(super) fn number(results: &DriveResults, system: &str, x: &str, column: &str) -> f64 {
    results.valid(system, x, column).unwrap_or(f64::NAN)
}

/// One system over another; not a number where one is missing or void.
pub(super) fn ratio(results: &DriveResults, x: &str, column: &str, systems: (&str, &str)) -> f64 {
    results.ratio(x, column, systems)
}

/// Bars of a column: steps by system.
pub(super) fn bars(results: &DriveResults, systems: &[System], xs: &[&str], column: &str) -> Chart {
    let value = |system: &System, x: &str| results.valid(&system.name, x, column);
    let series =
        |system: &System| Series { name: system.name.clone(), values: xs.iter().map(|x| value(system, x)).collect() };
    Chart {
        title: format!("RocksDB on flash: {column}"),
        x_label: String::new(),
        y_label: y_axis(column),
        kind: Kind::Bars,
        log: column != RATE && column != AMPLIFICATION,
        labels: xs.iter().map(|&x| x.to_owned()).collect(),
        series: systems.iter().map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points keep their names when a set-up changes.
    #[test]
    fn rows_of_another_set_up_are_not_taken() {
        let of = |scale| SetUp::of(scale, &System::zones("liza-zns", ""), Reads::None);
        let point = point(Scale::Laptop, System::zones("liza-zns", ""), Reads::None);
        let row = |told: Option<String>| {
            let mut row = DriveRow::of("liza-zns, zones", FILL);
            row.point.clone_from(&point.id);
            told.map_or(row.clone(), |told| row.option(TOLD, told))
        };
        assert!(point.may_have(&row(Some(of(Scale::Laptop).told()))));
        assert!(!point.may_have(&row(Some(of(Scale::Paper).told()))));
        assert!(!point.may_have(&row(None)), "of before rows said it");
    }
}
