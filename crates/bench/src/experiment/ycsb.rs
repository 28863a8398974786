//! `bench ycsb` and the default suite: load, then workloads one after the other on the same store.

use std::path::PathBuf;

use zonda_rt::{Seed, now};

use super::Setting;
use super::room::{self, Wanted};
use crate::keys::Order;
use crate::output::Output;
use crate::phase::{DataSet, Phase};
use crate::place::Place;
use crate::report::PhaseReport;
use crate::subject::{Durability, StorePlan};
use crate::verdict::Verdict;
use crate::workload::Workload;
use crate::{BenchError, Distribution, Result, show_bytes, show_count};

/// A load and the workloads after it.
#[derive(Clone, Debug)]
pub struct Ycsb {
    /// Where the store is made; a temporary file when there is none.
    pub on: Option<String>,
    /// Directory of temporary stores.
    pub directory: PathBuf,
    /// Preset of the store.
    pub design: String,
    /// Share of the memory for a merged filter, where the preset's does not do.
    pub filter_share: Option<f64>,
    /// Other switches of the store, by name ([`SWITCHES`](crate::subject::SWITCHES)); of two with one name the later counts.
    pub switches: Vec<(String, String)>,
    /// Whether what leaves the filter reaches leaves in runs.
    pub batch_insertion: bool,
    /// Workloads in their order.
    pub workloads: Vec<Workload>,
    /// Replaces the workloads' own distributions.
    pub distribution: Option<Distribution>,
    /// Records loaded first.
    pub records: u64,
    /// Operations of each workload.
    pub operations: u64,
    /// Length of keys.
    pub key_bytes: usize,
    /// Length of values.
    pub value_bytes: usize,
    /// Memory budget of the store.
    pub memory_bytes: u64,
    /// Threads of every phase, the load included.
    pub threads: usize,
    /// Order of the load.
    pub order: Order,
    /// When a write counts as done.
    pub durability: Durability,
    /// Whether the store has a log.
    pub log: bool,
    /// Whether every value read is checked.
    pub verify: bool,
    /// Seed of the run.
    pub seed: u64,
}

impl Ycsb {
    /// Refuses numbers of records and operations for which there cannot be room, before anything is made.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check(&self) -> Result<()> {
        let plan = self.plan(self.on.as_deref().unwrap_or_default());
        let pair_bytes = self.key_bytes.saturating_add(self.value_bytes) as u64;
        let check = |option, records| room::check(Wanted { option, records, pair_bytes }, &plan, &self.directory);
        check(("--records", self.records), self.records)?;
        check(("--operations", self.operations), self.capacity()?)
    }

    /// Loads, runs the workloads, closes the store and reports every phase.
    ///
    /// # Errors
    /// The first error of store, device or check; `Usage` for senseless options.
    pub fn run(&self, output: &mut Output) -> Result<Vec<PhaseReport>> {
        let mut data = self.data()?;
        let place = Place::given_or_temporary(self.on.as_deref(), &self.directory)?;
        let subject = self.plan(place.uri()).create()?;
        output.line(self.title(&subject.device()))?;
        let mut reports = Vec::new();
        for phase in self.phases() {
            let progress = output.progress(&phase.workload.name, phase.operations);
            reports.push(phase.run(&subject, &mut data, &self.design, &progress)?);
        }
        subject.close()?;
        output.phases(&reports)?;
        Ok(reports)
    }

    fn title(&self, device: &str) -> String {
        let (records, memory) = (show_count(self.records), show_bytes(self.memory_bytes));
        let pair = format!("{} B + {} B", self.key_bytes, self.value_bytes);
        format!("{} on {device}: {records} pairs of {pair}, {memory} of memory, {} threads", self.design, self.threads)
    }

    /// Records that there are in the end.
    fn capacity(&self) -> Result<u64> {
        let inserting = self.workloads.iter().filter(|workload| workload.mix.inserts()).count() as u64;
        let capacity = self.operations.checked_mul(inserting).and_then(|inserts| inserts.checked_add(self.records));
        capacity.ok_or_else(|| BenchError::Usage {
            option: "--operations",
            given: self.operations.to_string(),
            expected: "fewer than 2^64 records in all".into(),
        })
    }

    fn data(&self) -> Result<DataSet> {
        DataSet::new(self.key_bytes, self.value_bytes, self.capacity()?, self.order, Seed(self.seed))
    }

    fn plan(&self, uri: &str) -> StorePlan {
        let mut plan = StorePlan::new(uri.to_owned(), self.memory_bytes, self.seed);
        plan.design.clone_from(&self.design);
        plan.log = self.log;
        if let Some(share) = self.filter_share {
            plan = plan.with("filter", &share.to_string());
        }
        if !self.batch_insertion {
            plan = plan.with("batch-insertion", "off");
        }
        for (switch, value) in &self.switches {
            plan = plan.with(switch, value);
        }
        plan
    }

    fn phases(&self) -> Vec<Phase> {
        let load = self.phase(Workload::load(), self.records);
        let workloads = self.workloads.iter().enumerate().map(|(nth, workload)| {
            // One that comes again asks for other records: what it asked for before is in memory.
            let again = self.workloads[..nth].iter().filter(|before| before.name == workload.name).count();
            let mut workload = workload.clone();
            workload.distribution = self.distribution.unwrap_or(workload.distribution);
            Phase { slice: u32::try_from(again).unwrap_or(u32::MAX), ..self.phase(workload, self.operations) }
        });
        std::iter::once(load).chain(workloads).collect()
    }

    fn phase(&self, workload: Workload, operations: u64) -> Phase {
        let mut phase = Phase::new(workload, operations, self.threads);
        phase.durability = self.durability;
        phase.verify = self.verify;
        phase
    }
}

/// Seconds that the default suite may take.
const SUITE_SECONDS_MAX: f64 = 60.0;

/// Records that it loads then.
const SUITE_RECORDS: u64 = 4_000_000;

/// What `zonda bench` does with no more words: the ZKV paper's five workloads at a size for a laptop.
#[derive(Clone, Debug)]
pub struct Suite(Setting);

impl Suite {
    /// The suite in `setting`.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self(setting)
    }

    /// The run that the suite consists of.
    #[must_use]
    pub fn ycsb(&self) -> Ycsb {
        let scale = self.0.scale;
        Ycsb {
            on: None,
            directory: self.0.directory.clone(),
            design: self.0.design.clone(),
            filter_share: None,
            switches: Vec::new(),
            batch_insertion: true,
            workloads: Workload::zkv(),
            distribution: None,
            records: scale.pick(SUITE_RECORDS, 20_000),
            operations: scale.pick(100_000, 1_000),
            key_bytes: 8,
            value_bytes: 8,
            memory_bytes: 8 << 20,
            threads: 2,
            order: Order::Random,
            durability: Durability::Buffered,
            log: true,
            verify: true,
            seed: self.0.seed.0,
        }
    }

    /// Runs it and says how long it took.
    ///
    /// # Errors
    /// As [`Ycsb::run`].
    pub fn run(&self, output: &mut Output) -> Result<()> {
        output.command(self.0.seed.0)?;
        let start = now();
        let ycsb = self.ycsb();
        ycsb.run(output)?;
        let seconds = now().since(start).as_secs_f64();
        let stands_for = Setting::stands_for(ycsb.records, SUITE_RECORDS, "records");
        let whole = Verdict::at_most("whole suite", seconds, SUITE_SECONDS_MAX, "s");
        output.verdict(&whole.unless_too_small(stands_for.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;

    #[test]
    fn a_workload_that_comes_again_asks_for_other_records() {
        let mut ycsb = Suite::new(Setting::new(1, Scale::Tiny)).ycsb();
        ycsb.workloads = ["get", "update", "get", "get"].map(|name| name.parse().unwrap()).into();
        let slices: Vec<_> = ycsb.phases().iter().map(|phase| (phase.workload.name.clone(), phase.slice)).collect();
        let expected = [("load", 0), ("get", 0), ("update", 0), ("get", 1), ("get", 2)];
        assert_eq!(slices, expected.map(|(name, slice)| (name.to_owned(), slice)));
    }

    #[test]
    fn a_switch_counts_for_more_than_an_option_of_its_own() {
        let mut ycsb = Suite::new(Setting::new(1, Scale::Tiny)).ycsb();
        ycsb.batch_insertion = false;
        assert_eq!(ycsb.plan("mem:").switches["batch-insertion"], "off");
        ycsb.switches = vec![("batch-insertion".to_owned(), "on".to_owned())];
        assert_eq!(ycsb.plan("mem:").switches["batch-insertion"], "on");
    }
}
