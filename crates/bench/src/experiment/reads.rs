//! `bench reads`: gets, multi-gets and scans against raw loops that read the same blocks of the same file.
//!
//! All leaves are merged first, so that a read that misses the caches needs one leaf read and nothing else. A get that the
//! caches answer needs none: what the raw loop allows is its rate over the share of gets that miss. What the store reads beyond
//! one leaf for each miss is in nobody's favour: it stands in the table, as reads of the device. Rounds of all loops
//! alternate, so that a disk that speeds up or slows down does so for all; the median round counts.

use std::sync::Arc;

use super::Setting;
use crate::Result;
use crate::keys::Order;
use crate::measure::median;
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

/// The leaf reads that multi-gets need should reach this share of the raw loop's reads.
const MULTI_GET_SHARE: f64 = 0.75;

/// Bytes of a leaf.
const LEAF_BYTES: f64 = 4096.0;

/// Pairs of the scans.
const SCANS: [u64; 4] = [10, 100, 1_000, 100_000];

/// Records that the targets are for.
const RECORDS: u64 = 4_000_000;

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
    /// Reads of the device per second, in leaves: all that there were.
    device_reads: f64,
    /// Leaves per second that no cache had: the reads that the same work needs.
    misses: f64,
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
        let (records, rounds, operations) = setting.scale.pick((RECORDS, 5, 100_000), (20_000, 1, 640));
        Self { setting, records, memory_bytes: 8 << 20, rounds, operations }
    }

    /// Refuses a number of records for which there cannot be room, before anything is made.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check(&self) -> Result<()> {
        self.setting.check_room(&self.setting.plan("", self.memory_bytes), self.records)
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
        self.judge(&rounds, output)
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
        Ok(Measured::of(report))
    }

    fn judge(&self, rounds: &[Round], output: &mut Output) -> Result<()> {
        output.line(table(rounds))?;
        let stands_for = Setting::stands_for(self.records, RECORDS, "records");
        verdicts(rounds)
            .into_iter()
            .try_for_each(|verdict| output.verdict(&verdict.unless_too_small(stands_for.as_deref())))?;
        if rounds.iter().all(|round| round.queued.is_none()) {
            output.line("no io_uring here: multi-gets are not judged")?;
        }
        Ok(())
    }
}

impl Measured {
    fn of(report: PhaseReport) -> Self {
        let rate = report.operations_per_second;
        let misses = report.leaf_reads.saturating_sub(report.page_hits) as f64 / report.seconds;
        Self { rate, device_reads: rate * report.read_bytes_per_operation / LEAF_BYTES, misses, report }
    }

    /// What it needs of a raw loop's reads; not a number if the caches had everything.
    fn share_of(&self, raw: f64) -> f64 {
        if self.misses > 0.0 { self.misses / raw } else { f64::NAN }
    }
}

/// The medians, judged; of multi-gets only where there is a raw loop with several reads in flight.
fn verdicts(rounds: &[Round]) -> Vec<Verdict> {
    let get_share = median(rounds.iter().map(|round| round.get.share_of(round.plain)));
    let gets = Verdict::at_least("gets, 2 threads / what raw loops allow", get_share, GET_SHARE, "x");
    let queued: Vec<f64> = rounds.iter().filter_map(|round| Some(round.multi_get.share_of(round.queued?))).collect();
    if queued.is_empty() {
        return vec![gets];
    }
    let target = "leaf reads of multi-get:32 / raw reads at depth 32";
    let multi_gets = Verdict::at_least(target, median(queued.into_iter()), MULTI_GET_SHARE, "x");
    vec![gets, multi_gets]
}

fn table(rounds: &[Round]) -> String {
    let mut table = Table::new(&["loop", "operations/s", "misses/s", "device reads/s", "device bytes/op", "CPU us/op"]);
    let raw = |name: &str, rate: f64| {
        let rate = format!("{rate:.0}");
        [name.to_owned(), rate.clone(), rate.clone(), rate, "4096".into()]
    };
    table.row(raw("raw, 2 threads", median(rounds.iter().map(|round| round.plain))).into_iter().chain([String::new()]));
    table.row(row(rounds, |round| &round.get));
    let queued = median(rounds.iter().filter_map(|round| round.queued));
    table.row(raw("raw, depth 32", queued).into_iter().chain([String::new()]));
    table.row(row(rounds, |round| &round.multi_get));
    for nth in 0..SCANS.len() {
        let [name, rate, _, others @ ..] = row(rounds, |round| &round.scans[nth]);
        // Which leaves scans read is not counted.
        table.row([name, rate, "-".into()].into_iter().chain(others));
    }
    table.render()
}

fn row<'r>(rounds: &'r [Round], of: impl Fn(&'r Round) -> &'r Measured) -> [String; 6] {
    let median_of = |value: fn(&Measured) -> f64| median(rounds.iter().map(|round| value(of(round))));
    let threads = of(&rounds[0]).report.threads;
    [
        format!("{}, {threads} thread(s)", of(&rounds[0]).report.phase),
        format!("{:.0}", median_of(|measured| measured.rate)),
        format!("{:.0}", median_of(|measured| measured.misses)),
        format!("{:.0}", median_of(|measured| measured.device_reads)),
        format!("{:.0}", median_of(|measured| measured.report.read_bytes_per_operation)),
        format!("{:.1}", median_of(|measured| measured.report.cpu_us_per_operation)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    /// 90,000 leaves a second are asked for, of which the read cache has 10,000.
    fn round(read_bytes_per_operation: f64) -> Round {
        let measured = || Measured::of(PhaseReport { read_bytes_per_operation, ..example() });
        Round { plain: 100_000.0, get: measured(), queued: Some(160_000.0), multi_get: measured(), scans: Vec::new() }
    }

    #[test]
    fn who_reads_more_than_it_misses_gains_nothing() {
        for bytes in [2_000.0, 4_096.0, 40_960.0] {
            let shares: Vec<f64> = verdicts(&[round(bytes)]).iter().map(|verdict| verdict.measured).collect();
            assert_eq!(shares, [0.8, 0.5], "{bytes} bytes read for each get");
        }
    }

    #[test]
    fn misses_of_scans_are_not_known() {
        let mut round = round(4_096.0);
        round.scans = SCANS.iter().map(|_| Measured::of(PhaseReport { leaf_reads: 0, ..example() })).collect();
        let table = table(&[round]);
        let misses =
            |line: &str| line.split("  ").filter(|cell| !cell.is_empty()).nth(2).map(|cell| cell.trim().to_owned());
        let scans: Vec<_> = table.lines().rev().take(SCANS.len()).map(misses).collect();
        assert_eq!(scans, vec![Some("-".to_owned()); SCANS.len()], "{table}");
    }

    #[test]
    fn what_caches_answer_is_not_compared_with_reads() {
        let mut all_in_memory = round(0.0);
        all_in_memory.get = Measured::of(PhaseReport { leaf_reads: 5_000, ..example() });
        all_in_memory.queued = None;
        let verdicts = verdicts(&[all_in_memory]);
        assert_eq!((verdicts.len(), verdicts[0].outcome()), (1, "not run"));
    }
}
