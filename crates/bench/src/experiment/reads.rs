//! `bench reads`: gets, multi-gets and scans against raw loops that read the same blocks of the same file.
//!
//! All leaves are merged first, so that a read that misses the caches costs one leaf read and nothing else. A get that the
//! caches answer costs no read: what the raw loop allows is its rate over the share of gets that read. Rounds of all loops
//! alternate, so that a disk that speeds up or slows down does so for all; the median round counts.

use std::sync::Arc;

use super::Setting;
use crate::Result;
use crate::keys::Order;
use crate::output::Output;
use crate::phase::{DataSet, Phase};
use crate::place::Place;
use crate::progress::Progress;
use crate::raw::RawFile;
use crate::report::{PhaseReport, Table};
use crate::subject::Subject;
use crate::verdict::Verdict;
use crate::workload::Workload;

/// Threads that get one key after the other, and of the raw loops beside them.
const THREADS: usize = 2;

/// Keys of one multi-get, and reads in flight of the raw loop beside it.
const DEPTH: u32 = 32;

/// Gets should reach this share of what the raw loops allow.
const GET_SHARE: f64 = 0.95;

/// The device reads of multi-gets should reach this share of the raw loop's reads.
const MULTI_GET_SHARE: f64 = 0.75;

/// Bytes of a leaf.
const LEAF_BYTES: f64 = 4096.0;

/// Pairs of the scans.
const SCANS: [u64; 4] = [10, 100, 1_000, 100_000];

/// Reads in flight, compared with raw reads.
#[derive(Clone, Debug)]
pub struct Reads {
    setting: Setting,
    /// Records loaded.
    pub records: u64,
    /// Memory budget.
    pub memory_bytes: u64,
    /// Rounds; the median counts.
    pub rounds: usize,
    /// Raw reads and gets of a round.
    pub operations: u64,
}

/// One loop of the store in one round.
struct Measured {
    /// Operations per second.
    rate: f64,
    /// Reads of the device per second, in leaves.
    device_reads: f64,
    report: PhaseReport,
}

/// Everything measured in one round.
struct Round {
    plain: f64,
    get: Measured,
    queued: Option<f64>,
    multi_get: Measured,
    scans: Vec<Measured>,
}

impl Reads {
    /// The experiment at the setting's scale.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let (records, rounds, operations) = setting.scale.pick((4_000_000, 5, 100_000), (20_000, 1, 640));
        Self { setting, records, memory_bytes: 8 << 20, rounds, operations }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of store and file system.
    pub fn run(&self, output: &mut Output) -> Result<()> {
        output.command(self.setting.seed.0)?;
        let place = Place::temporary(&self.setting.directory)?;
        let (subject, mut data) = self.load(&place, output)?;
        let raw = RawFile::survey(place.path().expect("a temporary place is a file"))?;
        if !raw.direct {
            output.line("this file system has no direct I/O: reads come from the page cache, figures mean little")?;
        }
        let progress = output.progress("reads", self.rounds as u64);
        let mut rounds = Vec::new();
        for nth in 0..self.rounds {
            rounds.push(self.round(nth as u64, &subject, &mut data, &raw)?);
            progress.set(nth as u64 + 1);
        }
        drop(progress);
        subject.close()?;
        judge(&rounds, output)
    }

    /// Loads and merges everything.
    fn load(&self, place: &Place, output: &Output) -> Result<(Arc<dyn Subject>, DataSet)> {
        let mut data = DataSet::new(8, 8, self.records, Order::Random, self.setting.seed)?;
        let subject = self.setting.plan(place.uri(), self.memory_bytes).create()?;
        let progress = output.progress("load", self.records);
        Phase::new(Workload::load(), self.records, THREADS).run(
            &subject,
            &mut data,
            &self.setting.design,
            &progress,
        )?;
        subject.compact()?;
        subject.checkpoint()?;
        Ok((subject, data))
    }

    fn round(&self, nth: u64, subject: &Arc<dyn Subject>, data: &mut DataSet, raw: &RawFile) -> Result<Round> {
        let seed = self.setting.seed.derive(&format!("round {nth}"));
        // Each round draws keys of its own: the same ones again would be found in caches.
        let slice = 1 + u32::try_from(nth).expect("a few rounds");
        let mut measure = |workload: &str, operations: u64, threads| {
            let phase = Phase::new(Workload::named(workload)?, operations.max(1), threads);
            self.measure(subject, data, Phase { slice, ..phase })
        };
        Ok(Round {
            plain: raw.plain_loops(THREADS, self.operations, seed)?,
            get: measure("get", self.operations, THREADS)?,
            queued: raw.queue_loop(DEPTH, self.operations, seed)?,
            multi_get: measure(&format!("multi-get:{DEPTH}"), self.operations / u64::from(DEPTH), 1)?,
            scans: SCANS
                .iter()
                .map(|pairs| measure(&format!("scan:{pairs}"), self.operations.min(20_000) / (2 + pairs / 50), 1))
                .collect::<Result<_>>()?,
        })
    }

    fn measure(&self, subject: &Arc<dyn Subject>, data: &mut DataSet, phase: Phase) -> Result<Measured> {
        let report = phase.run(subject, data, &self.setting.design, &Progress::hidden())?;
        let rate = report.operations_per_second;
        Ok(Measured { rate, device_reads: rate * report.read_bytes_per_operation / LEAF_BYTES, report })
    }
}

/// Prints the medians, and judges them.
fn judge(rounds: &[Round], output: &mut Output) -> Result<()> {
    let get_share = median(rounds.iter().map(|round| round.get.device_reads / round.plain));
    let queued = rounds.iter().filter_map(|round| Some(round.multi_get.device_reads / round.queued?));
    let multi_get_share = median(queued);
    output.line(table(rounds))?;
    output.verdict(&Verdict::at_least("gets, 2 threads / what raw loops allow", get_share, GET_SHARE, "x"))?;
    if multi_get_share.is_nan() {
        return output.line("no io_uring here: multi-gets are not judged");
    }
    let target = "device reads of multi-get:32 / raw reads at depth 32";
    output.verdict(&Verdict::at_least(target, multi_get_share, MULTI_GET_SHARE, "x"))
}

fn table(rounds: &[Round]) -> String {
    let mut table = Table::new(&["loop", "operations/s", "device reads/s", "device bytes/op", "CPU us/op"]);
    let raw = |name: &str, rate: f64| [name.to_owned(), format!("{rate:.0}"), format!("{rate:.0}"), "4096".into()];
    table.row(raw("raw, 2 threads", median(rounds.iter().map(|round| round.plain))).into_iter().chain([String::new()]));
    table.row(row(rounds, |round| &round.get));
    let queued = median(rounds.iter().filter_map(|round| round.queued));
    table.row(raw("raw, depth 32", queued).into_iter().chain([String::new()]));
    table.row(row(rounds, |round| &round.multi_get));
    for nth in 0..SCANS.len() {
        table.row(row(rounds, |round| &round.scans[nth]));
    }
    table.render()
}

fn row<'r>(rounds: &'r [Round], of: impl Fn(&'r Round) -> &'r Measured) -> [String; 5] {
    let median_of = |value: fn(&Measured) -> f64| median(rounds.iter().map(|round| value(of(round))));
    let threads = of(&rounds[0]).report.threads;
    [
        format!("{}, {threads} thread(s)", of(&rounds[0]).report.phase),
        format!("{:.0}", median_of(|measured| measured.rate)),
        format!("{:.0}", median_of(|measured| measured.device_reads)),
        format!("{:.0}", median_of(|measured| measured.report.read_bytes_per_operation)),
        format!("{:.1}", median_of(|measured| measured.report.cpu_us_per_operation)),
    ]
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
