//! `bench large`: twenty million small pairs with forty mebibytes: memory, reads per get, reopening, checkpoint bytes.

use std::sync::Arc;

use zonda_rt::now;

use super::child::KillAt;
use super::{ChildProgram, ChildTask, Setting};
use crate::keys::Order;
use crate::output::Output;
use crate::phase::{DataSet, Phase};
use crate::place::Place;
use crate::process::cpu_time;
use crate::report::PhaseReport;
use crate::subject::{StorePlan, Subject};
use crate::verdict::Verdict;
use crate::workload::Workload;
use crate::{BenchError, Result, show_bytes};

/// The process may hold this much beyond the store's budget.
const RSS_EXTRA_BYTES: u64 = 16 << 20;

/// Inner nodes and leaf table over live leaf bytes.
const INDEX_SHARE_MAX: f64 = 0.008;

/// Leaf reads per get (I8).
const LEAF_READS_PER_GET_MAX: f64 = 1.0;

/// Seconds to reopen after a clean close.
const REOPEN_CLEAN_SECONDS_MAX: f64 = 2.0;

/// Seconds to reopen after a kill.
const REOPEN_KILLED_SECONDS_MAX: f64 = 10.0;

/// Bytes of checkpoints per operation of the load.
const CHECKPOINT_BYTES_PER_OPERATION_MAX: f64 = 20.0;

/// Records that the targets are for.
const RECORDS: u64 = 20_000_000;

/// The large load.
#[derive(Clone, Debug)]
pub struct Large {
    setting: Setting,
    /// How to start the child that is killed.
    pub program: ChildProgram,
    /// Records loaded.
    pub records: u64,
    /// Memory budget.
    pub memory_bytes: u64,
    /// Gets after the load.
    pub gets: u64,
    /// Updates that the child does before it is killed.
    pub updates: u64,
    /// Threads of load and gets.
    pub threads: usize,
}

/// The open store and what is in it.
struct Loaded {
    subject: Arc<dyn Subject>,
    data: DataSet,
}

impl Large {
    /// The experiment at the setting's scale.
    #[must_use]
    pub fn new(setting: Setting, program: ChildProgram) -> Self {
        let scale = setting.scale;
        let (records, memory_bytes) = scale.pick((RECORDS, 40 << 20), (100_000, 8 << 20));
        let (gets, updates) = scale.pick((200_000, 1_000_000), (2_000, 5_000));
        Self { setting, program, records, memory_bytes, gets, updates, threads: 2 }
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
    /// Those of the store and the child; `Wrong` for a wrong or lost pair.
    pub fn run(&self, output: &mut Output) -> Result<()> {
        output.command(self.setting.seed.0)?;
        let place = Place::temporary(&self.setting.directory)?;
        let plan = self.setting.plan(place.uri(), self.memory_bytes);
        let data = DataSet::new(8, 8, self.records, Order::Random, self.setting.seed)?;
        let mut store = Loaded { subject: plan.create()?, data };
        let load = self.phase(Workload::load(), self.records, &mut store, output)?;
        self.judge_load(&load, &store.subject, output)?;
        let leaf_reads = self.leaf_reads_per_get(&mut store, output)?;
        self.judge(output, Verdict::at_most("leaf reads per get", leaf_reads, LEAF_READS_PER_GET_MAX, ""))?;
        let Loaded { subject, data } = store;
        subject.close()?;
        drop(subject);
        self.reopen_clean(&plan, output)?;
        self.reopen_killed(&plan, &data, output)
    }

    /// A target, unless there are fewer records than it is for.
    fn judge(&self, output: &mut Output, verdict: Verdict) -> Result<()> {
        let stands_for = Setting::stands_for(self.records, RECORDS, "records");
        output.verdict(&verdict.unless_too_small(stands_for.as_deref()))
    }

    fn phase(
        &self,
        workload: Workload,
        operations: u64,
        store: &mut Loaded,
        output: &mut Output,
    ) -> Result<PhaseReport> {
        let progress = output.progress(&workload.name, operations);
        let phase = Phase::new(workload, operations, self.threads);
        let report = phase.run(&store.subject, &mut store.data, &self.setting.design, &progress)?;
        drop(progress);
        output.phases(std::slice::from_ref(&report))?;
        Ok(report)
    }

    fn judge_load(&self, load: &PhaseReport, subject: &Arc<dyn Subject>, output: &mut Output) -> Result<()> {
        let now = subject.counters()?;
        let index = now.inner_bytes + now.leaf_table_bytes;
        output.line(format!(
            "live leaves {}, inner nodes {}, leaf table {}, memory in use {}",
            show_bytes(now.leaf_bytes),
            show_bytes(now.inner_bytes),
            show_bytes(now.leaf_table_bytes),
            show_bytes(now.memory_bytes),
        ))?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let share = index as f64 / now.leaf_bytes.max(1) as f64;
        let per_operation = load.written_by.checkpoint() as f64 / load.operations.max(1) as f64;
        let bound = mib(self.memory_bytes + RSS_EXTRA_BYTES);
        self.judge(output, Verdict::at_most("peak RSS during the load", mib(load.rss_peak_bytes), bound, "MiB"))?;
        self.judge(output, Verdict::at_most("inner nodes and leaf table / leaf bytes", share, INDEX_SHARE_MAX, ""))?;
        let bound = CHECKPOINT_BYTES_PER_OPERATION_MAX;
        self.judge(output, Verdict::at_most("checkpoint bytes per operation", per_operation, bound, "B"))
    }

    fn leaf_reads_per_get(&self, store: &mut Loaded, output: &mut Output) -> Result<f64> {
        let before = store.subject.counters()?;
        self.phase(Workload::named("get")?, self.gets, store, output)?;
        let after = store.subject.counters()?;
        let gets = (after.gets - before.gets).max(1);
        Ok((after.leaf_reads - before.leaf_reads) as f64 / gets as f64)
    }

    fn reopen_clean(&self, plan: &StorePlan, output: &mut Output) -> Result<()> {
        let (subject, seconds) = reopen(plan, output)?;
        subject.close()?;
        self.judge(output, Verdict::at_most("reopen after a clean close", seconds, REOPEN_CLEAN_SECONDS_MAX, "s"))
    }

    /// A child updates records at random and is killed after so many; the store is reopened and read as a whole.
    fn reopen_killed(&self, plan: &StorePlan, data: &DataSet, output: &mut Output) -> Result<()> {
        let task = ChildTask {
            store: plan.clone(),
            create: false,
            capacity: self.records,
            records: data.records(),
            operations: u64::MAX,
            sync_every: (self.updates / 20).max(1),
            update: true,
        };
        let said = task.start(&self.program)?.kill(KillAt::Synced(self.updates))?;
        if said.ended {
            return Err(BenchError::Child("came to an end of its own, and was to be killed".into()));
        }
        let synced = said.synced.ok_or_else(|| BenchError::Child("ended before it had synced anything".into()))?;
        let (subject, seconds) = reopen(plan, output)?;
        output.line(format!("child killed after {synced} updates of its own"))?;
        self.judge(output, Verdict::at_most("reopen after a kill", seconds, REOPEN_KILLED_SECONDS_MAX, "s"))?;
        let pairs = data.verify_updated(&subject, &task.acknowledged(synced)?)?;
        output.line(format!("all {pairs} pairs read and right, every acknowledged update among them"))?;
        subject.close()
    }
}

/// Opens the store; says how long that took, and how much CPU time, which a busy machine does not stretch.
fn reopen(plan: &StorePlan, output: &mut Output) -> Result<(Arc<dyn Subject>, f64)> {
    let (start, cpu_start) = (now(), cpu_time());
    let subject = plan.open()?;
    let (seconds, cpu) = (now().since(start).as_secs_f64(), cpu_time().saturating_sub(cpu_start));
    output.line(format!("reopened in {seconds:.2} s, of which {:.2} s are CPU time", cpu.as_secs_f64()))?;
    Ok((subject, seconds))
}
