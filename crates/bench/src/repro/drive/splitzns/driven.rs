//! `zonda-db-bench` on the modelled drive, in dilated time: what stock `db_bench` cannot do. Compactions by the rules of *Gear* and *LLC*
//! (section 5.1.3), and all workloads of table 2, with Zipf's law.
//!
//! A contender is a file system, a part of the drive's extensions and who compacts how. Each is loaded once for every setting, untimed, and
//! its drive cloned for every run. Rows are in the drive's time, as those of [`live`](super::live).

mod images;
mod program;
mod settings;

use std::sync::Arc;

use super::super::made::Maker;
use super::super::{DriveResults, DriveRow, Point, TOLD};
use super::live::{self, Live, OPS, Work};
use super::{CONVENTIONAL_PROFILE, PROFILE};
use crate::Result;
use crate::repro::Scale;
use crate::verdict::Verdict;
use images::Images;
use program::Program;
pub(super) use settings::Setting;

/// Who stores, and who compacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    /// The drive's `split`; nothing for the conventional drive.
    split: Option<&'static str>,
    /// Keys of the file system's name.
    keys: &'static str,
    /// `--policy` of `zonda-db-bench`.
    compaction: &'static str,
    /// More options of `RocksDB`.
    options: &'static str,
    /// Whether it gets the memory of the drive's ring as write buffers.
    has_ring_memory: bool,
}

const LDP_KEYS: &str = "policy=ldp&clean_threshold=20";
const SPLITZNS_KEYS: &str = "policy=splitzns&clean_threshold=20";
/// Zones of their own for the tables of each level, as the paper has it for Gear.
const LEVELS_KEYS: &str = "policy=levels&clean_threshold=20";

/// `LDP` with `RocksDB`'s own compactions: what the paper compares with.
pub(super) const LDP: Contender = Contender {
    name: "ldp, native",
    split: Some("all"),
    keys: LDP_KEYS,
    compaction: "native",
    options: "",
    has_ring_memory: false,
};
/// The same with the same rule from outside: what the way through `zonda-db-bench` costs.
pub(super) const MIN_OVERLAP: Contender = Contender { name: "ldp, min-overlap", compaction: "min-overlap", ..LDP };
pub(super) const GEAR: Contender = Contender { name: "gear", keys: LEVELS_KEYS, compaction: "gear", ..LDP };
pub(super) const LLC: Contender = Contender { name: "llc", keys: LEVELS_KEYS, compaction: "llc", ..LDP };
/// What `RocksDB` itself has of LLC.
pub(super) const LLC_ROUND_ROBIN: Contender =
    Contender { name: "llc-roundrobin", keys: LEVELS_KEYS, options: "compaction_pri=kRoundRobin", ..LDP };
/// The paper's `SplitZNS`, all parts.
pub(super) const SPLITZNS: Contender = Contender { name: "splitzns, native", keys: SPLITZNS_KEYS, ..LDP };

/// The competitors of section 5.1.3 beside what they are compared with.
pub(super) const COMPETITORS: [Contender; 6] = [LDP, MIN_OVERLAP, SPLITZNS, GEAR, LLC, LLC_ROUND_ROBIN];

/// So far the way through `zonda-db-bench` may be from `RocksDB`'s own.
const APART_PERCENT_MAX: f64 = 10.0;

/// A run on a loaded drive: steps of `zonda-db-bench`, and the rows that they make. Steps that only read have numbers of their own, which
/// the setting says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    name: &'static str,
    steps: &'static str,
    works: &'static [Work],
    /// Whether it loads an empty drive, in dilated time.
    is_on_empty: bool,
}

/// Overwriting.
pub(super) const OVERWRITE: Work = Work { name: "overwrite, driven", step: "overwrite", is_of_writes: true };
/// Reading right behind it.
pub(super) const READRANDOM: Work = Work { name: "readrandom, driven", step: "readrandom", is_of_writes: false };
/// Both.
pub(super) const BURST: Run = Run::new("burst", "overwrite,stats,readrandom:READS,stats", &[OVERWRITE, READRANDOM]);
/// Overwriting, and what is due for it.
pub(super) const OVERWRITE_SETTLING: Run =
    Run::new("overwrite settling", "overwrite,stats,waitforcompaction,stats", &[OVERWRITE]);
/// Loading: every key once, in random order, by all threads.
pub(super) const FILL_RANDOM: Run = Run {
    is_on_empty: true,
    ..Run::new("FillRandom", "fillshared,stats", &[Work { name: "FillRandom", step: "fillshared", is_of_writes: true }])
};
/// A workload of YCSB, alone.
macro_rules! ycsb {
    ($name:literal, $step:literal, $writes:literal) => {
        ycsb!($name, $step, "", $writes)
    };
    ($name:literal, $step:literal, $count:literal, $writes:literal) => {
        Run::new($name, concat!($step, $count, ",stats"), &[Work { name: $name, step: $step, is_of_writes: $writes }])
    };
}
pub(super) const YCSB_L: Run = ycsb!("YCSB-L", "ycsbl", true);
pub(super) const YCSB_A: Run = ycsb!("YCSB-A", "ycsba", true);
pub(super) const YCSB_B: Run = ycsb!("YCSB-B", "ycsbb", false);
pub(super) const YCSB_C: Run = ycsb!("YCSB-C", "ycsbc", ":READS", false);
pub(super) const YCSB_D: Run = ycsb!("YCSB-D", "ycsbd", false);
pub(super) const YCSB_E: Run = ycsb!("YCSB-E", "ycsbe", ":SCANS", false);
pub(super) const YCSB_F: Run = ycsb!("YCSB-F", "ycsbf", true);

impl Run {
    const fn new(name: &'static str, steps: &'static str, works: &'static [Work]) -> Self {
        Self { name, steps, works, is_on_empty: false }
    }

    /// Names of its workloads.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.works.iter().map(|work| work.name)
    }
}

/// A point for each setting, contender and run, in this order: so that no more drives are kept than are needed.
pub(super) fn points(settings: &[Setting], contenders: &[Contender], runs: &[Run]) -> Vec<Point> {
    let of = |setting: &Setting| {
        let of = |contender: &Contender| runs.iter().map(|run| (setting.clone(), *contender, *run)).collect::<Vec<_>>();
        contenders.iter().flat_map(of).collect::<Vec<_>>()
    };
    points_of(settings.iter().flat_map(of))
}

/// A point for each of these, in this order.
pub(super) fn points_of(all: impl Iterator<Item = (Setting, Contender, Run)>) -> Vec<Point> {
    let images = Arc::new(Images::default());
    let of = |(setting, contender, run): (Setting, Contender, Run)| {
        let id = format!("{} driven {} {} {}", super::super::LIVE, contender.name, run.name, setting.id());
        let (images, rocksdb) = (Arc::clone(&images), contender.rocksdb_options(&setting));
        let profile = if contender.split.is_some() { PROFILE } else { CONVENTIONAL_PROFILE };
        Point::new(id, Maker::Driver(profile), move |seed| one(&setting, &images, (&contender, &run), seed))
            .told(rocksdb)
    };
    all.map(of).collect()
}

/// In options: `RocksDB`'s 256 MiB at the setting's scale.
const BLOB_BYTES: &str = "{blob bytes}";

/// A row for each workload, or none with a line why.
fn one(setting: &Setting, images: &Images, (contender, run): (&Contender, &Run), seed: u64) -> Result<Vec<DriveRow>> {
    let program = match Program::find() {
        Ok(program) => program,
        Err(missing) => {
            eprintln!("not run: {missing}");
            return Ok(Vec::new());
        }
    };
    let outcome = if contender.split.is_some() && !run.is_on_empty {
        let image = images.of(setting, contender, &program, seed)?;
        program::run(&program, setting, contender, (&image, &setting.steps(run.steps)), seed)?
    } else {
        // A conventional drive forgets what its flash has been through when it is closed: it is loaded and run in one.
        let directory = images::directory()?;
        let path = directory.path().join("drive");
        let load = if run.is_on_empty { "" } else { "fillrandom,waitforcompaction," };
        let steps = format!("{load}{}", setting.steps(run.steps));
        program::fresh(&program, setting, contender, (&path, &steps), seed)?
    };
    let of = |work: &Work| {
        let row = DriveRow {
            series: contender.name.to_owned(),
            x: setting.named(work.name),
            profile: super::super::LIVE.to_owned(),
            k: u32::try_from(setting.k).ok(),
            ..DriveRow::default()
        };
        let row = live::numbers(row, (setting.k, setting.subzone_bytes()), work, &outcome);
        row.option("setting", setting.id()).option(TOLD, contender.rocksdb_options(setting))
    };
    Ok(run.works.iter().map(of).collect())
}

impl Contender {
    /// The conventional drive of the same flash, with values in files of their own.
    pub(super) const fn conventional(name: &'static str, options: &'static str) -> Self {
        Self { name, split: None, keys: "fs=xfs-like", options, ..LDP }
    }

    /// The same under another name, with more options of `RocksDB`.
    pub(super) const fn with(self, name: &'static str, options: &'static str) -> Self {
        Self { name, options, ..self }
    }

    /// The same with the memory of the drive's ring as write buffers.
    pub(super) const fn with_ring_memory(self, name: &'static str) -> Self {
        Self { name, has_ring_memory: true, ..self }
    }

    /// The same with other keys of the file system's name.
    pub(super) const fn keyed(self, name: &'static str, keys: &'static str) -> Self {
        Self { name, keys, ..self }
    }

    /// The same with other parts of the drive.
    pub(super) const fn on(self, name: &'static str, split: &'static str) -> Self {
        Self { name, split: Some(split), ..self }
    }

    /// All that differ from the default, as `--options` has them.
    fn rocksdb_options(&self, setting: &Setting) -> String {
        let all = [setting.rocksdb_options(), self.more_options(setting)];
        all.into_iter().filter(|options| !options.is_empty()).collect::<Vec<_>>().join(";")
    }

    /// Those that only it or this setting has.
    pub(super) fn more_options(&self, setting: &Setting) -> String {
        // Two write buffers: RocksDB's default.
        let bytes = setting.memtable_bytes() + setting.ring_bytes() / 2;
        let memory = if self.has_ring_memory { format!("write_buffer_size={bytes}") } else { String::new() };
        let options = self.options.replace(BLOB_BYTES, &setting.blob_bytes().to_string());
        let all = [memory, setting.options.to_owned(), options];
        all.into_iter().filter(|more| !more.is_empty()).collect::<Vec<_>>().join(";")
    }
}

/// The words of a run, as one text.
#[cfg(test)]
pub(super) fn told(setting: &Setting, contender: &Contender) -> String {
    program::told(setting, contender)
}

/// Whether the program is here.
#[cfg(test)]
pub(super) fn has_tools() -> bool {
    Program::find().is_ok()
}

/// What may be shown: without the competitors, and why, where the way through `zonda-db-bench` is too far from `RocksDB`'s own.
pub(in super::super) fn printable(results: &DriveResults) -> (DriveResults, Option<String>) {
    let is_of_competitor = |row: &DriveRow| [GEAR.name, LLC.name].contains(&row.series.as_str());
    if !results.rows.iter().any(is_of_competitor) {
        return (results.clone(), None);
    }
    let of = |contender: Contender| results.valid(contender.name, OVERWRITE.name, OPS);
    let apart = match (of(MIN_OVERLAP), of(LDP)) {
        (Some(driven), Some(native)) => 100.0 * (driven / native - 1.0).abs(),
        _ => f64::NAN,
    };
    if apart <= APART_PERCENT_MAX {
        return (results.clone(), None);
    }
    let mut shown = results.clone();
    shown.rows.retain(|row| !is_of_competitor(row));
    let why =
        if apart.is_nan() { "is not known (a row is missing or void)".to_owned() } else { format!("is {apart:.1} %") };
    let text = format!(
        "gear and llc are not shown: overwriting, min-overlap through zonda-db-bench and RocksDB's own may be {APART_PERCENT_MAX} % apart, \
         and the difference {why}"
    );
    (shown, Some(text))
}

/// The gate itself, as a line of its own.
pub(super) fn gate(results: &DriveResults) -> Option<Verdict> {
    let driven = results.valid(MIN_OVERLAP.name, OVERWRITE.name, OPS)?;
    let native = results.valid(LDP.name, OVERWRITE.name, OPS)?;
    let apart = 100.0 * (driven / native - 1.0).abs();
    Some(Verdict::at_most(
        "overwrite, min-overlap through zonda-db-bench off RocksDB's own",
        apart,
        APART_PERCENT_MAX,
        "%",
    ))
}

/// The setting of figures 13 to 15 and of the controls.
pub(super) fn usual(scale: Scale) -> Setting {
    Setting::of(scale, &Live::of(scale))
}

/// The setting of figures 9, 10, 16 and 17, which have many more runs: half as large.
pub(super) fn half(scale: Scale) -> Setting {
    Setting::of(scale, &Live::of_half(scale))
}

#[cfg(test)]
mod tests {
    use super::super::live::VOID;
    use super::*;

    fn results(rows: &[(&str, f64, f64)]) -> DriveResults {
        let mut results = DriveResults::new("splitzns-fig9", Scale::Laptop);
        let row = |(series, ops, void): &(&str, f64, f64)| {
            DriveRow::of(series, OVERWRITE.name).number(OPS, *ops).number(VOID, *void)
        };
        results.rows = rows.iter().map(row).collect();
        results
    }

    #[test]
    fn competitors_are_shown_only_where_the_way_through_the_driver_is_fair() {
        let shown = |native: (f64, f64), driven: (f64, f64)| {
            let rows = [("ldp, native", native.0, native.1), ("ldp, min-overlap", driven.0, driven.1)];
            let competitors = [("gear", 1.0, 0.0), ("llc", 1.0, 0.0), ("llc-roundrobin", 1.0, 0.0)];
            let (shown, why) = printable(&results(&[&rows[..], &competitors].concat()));
            assert_eq!(why.is_some(), shown.rows.len() == 3, "the three that RocksDB compacts itself stay");
            why.is_none()
        };
        assert!(shown((100.0, 0.0), (91.0, 0.0)) && shown((100.0, 0.0), (109.0, 0.0)));
        assert!(!shown((100.0, 0.0), (89.0, 0.0)) && !shown((100.0, 0.0), (111.0, 0.0)));
        assert!(!shown((100.0, 1.0), (100.0, 0.0)), "a void row proves nothing");
        let (_, why) = printable(&results(&[("gear", 1.0, 0.0)]));
        assert!(why.is_some_and(|why| why.contains("missing")));
        assert_eq!(printable(&results(&[("+RS", 1.0, 0.0)])).1, None);
    }

    #[test]
    fn the_ring_is_two_zones_of_write_buffer() {
        let setting = usual(Scale::Laptop);
        let ldp = LDP.rocksdb_options(&setting);
        let with_memory = LDP.with_ring_memory("more").rocksdb_options(&setting);
        let last = |options: &str| -> u64 {
            let found = options.rsplit(';').find_map(|pair| pair.strip_prefix("write_buffer_size="));
            found.unwrap().parse().unwrap()
        };
        assert_eq!(2 * (last(&with_memory) - last(&ldp)), (1 << 30) / 16);
        assert!(LLC_ROUND_ROBIN.rocksdb_options(&setting).ends_with(";compaction_pri=kRoundRobin"));
    }
}
