//! `bench kill`: a loading process is killed again and again, and nothing that it acknowledged may be lost.
//!
//! This shows process death: the operating system keeps what it was given. Power loss is simulated by the testkit.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use zonda_rt::Rng;

use super::child::KillAt;
use super::{ChildProgram, ChildTask, Setting};
use crate::output::Output;
use crate::phase::DataSet;
use crate::place::Place;
use crate::subject::Subject;
use crate::verdict::Verdict;
use crate::{BenchError, Result};

/// Room for records of one store; more than any machine loads in the time given.
const RECORDS_MAX: u64 = 1 << 28;

/// Kills that the targets are for.
const KILLS: u64 = 200;

/// Real `kill -9` of a loading child.
#[derive(Clone, Debug)]
pub struct Kill {
    setting: Setting,
    /// How to start the child.
    pub program: ChildProgram,
    /// Kills in all.
    pub kills: u64,
    /// Kills before a new store is begun, which bounds what each check has to read.
    pub kills_per_store: u64,
    /// A child lives at most this long, at random.
    pub delay_ms_max: u64,
    /// Operations between two syncs of the child; each store takes the next.
    pub sync_every: [u64; 2],
    /// Memory budget.
    pub memory_bytes: u64,
}

/// What all kills together found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KillReport {
    /// Children killed.
    pub kills: u64,
    /// Of these, killed while the store was being opened.
    pub kills_while_opening: u64,
    /// Records acknowledged by a sync, over all stores.
    pub acknowledged: u64,
    /// Kills after which an acknowledged record was missing or wrong.
    pub lost: u64,
    /// Times the store did not open afterwards.
    pub failed_opens: u64,
    /// What `check` found, and times that it could not look.
    pub findings: u64,
    /// Times the store did not close afterwards.
    pub failed_closes: u64,
}

impl KillReport {
    /// What must not be, and how often it was.
    fn wrongs(&self) -> [(&'static str, u64); 4] {
        [
            ("times acknowledged records were lost or wrong", self.lost),
            ("failed opens", self.failed_opens),
            ("findings of check", self.findings),
            ("failed closes", self.failed_closes),
        ]
    }
}

impl Kill {
    /// The experiment at the setting's scale.
    #[must_use]
    pub fn new(setting: Setting, program: ChildProgram) -> Self {
        let (kills, delay_ms_max) = setting.scale.pick((KILLS, 250), (3, 40));
        Self { setting, program, kills, kills_per_store: 20, delay_ms_max, sync_every: [500, 1], memory_bytes: 8 << 20 }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of the bench itself; what the store does wrong is counted, described and reported, and in the end an error too.
    pub fn run(&self, output: &mut Output) -> Result<()> {
        output.command(self.setting.seed.0)?;
        let mut rng = self.setting.seed.derive("kill").rng();
        let mut report = KillReport::default();
        let progress = output.progress("kill", self.kills);
        while report.kills < self.kills {
            self.one_store(&mut rng, &mut report, output, &progress)?;
        }
        drop(progress);
        output.object(&report)?;
        output.line(format!(
            "{} kills, {} of them before the first sync of the child; {} records acknowledged",
            report.kills, report.kills_while_opening, report.acknowledged
        ))?;
        // One that is lost is lost, of however many; that none was says little of a few.
        let stands_for = Setting::stands_for(report.kills, KILLS, "kills");
        for (what, count) in report.wrongs() {
            let verdict = Verdict::at_most(format!("{what}, of {} kills", report.kills), count as f64, 0.0, "");
            let stands_for = stands_for.as_deref().filter(|_| count == 0);
            output.verdict(&verdict.unless_too_small(stands_for))?;
        }
        let wrong = report.wrongs().iter().any(|(_, count)| *count > 0);
        if wrong { Err(BenchError::NotHeld(format!("{report:?}"))) } else { Ok(()) }
    }

    fn one_store(
        &self,
        rng: &mut Rng,
        report: &mut KillReport,
        output: &mut Output,
        progress: &crate::progress::Progress,
    ) -> Result<()> {
        let place = Place::temporary(&self.setting.directory)?;
        let mut task = self.task(place.uri(), report.kills / self.kills_per_store.max(1));
        // The store exists before the first child, which may be killed before it has made one.
        task.store.create()?.close()?;
        for _ in 0..self.kills_per_store.min(self.kills - report.kills) {
            let said = task.start(&self.program)?.kill(self.moment(rng))?;
            report.kills += 1;
            report.kills_while_opening += u64::from(said.synced.is_none());
            let acknowledged = said.synced.unwrap_or(task.records);
            report.acknowledged += acknowledged - task.records;
            task.records = acknowledged;
            if let Err(wrong) = check(&task, report) {
                output.line(format!("after kill {}: {wrong}", report.kills))?;
                break;
            }
            progress.set(report.kills);
        }
        Ok(())
    }

    fn task(&self, uri: &str, store: u64) -> ChildTask {
        ChildTask {
            store: self.setting.plan(uri, self.memory_bytes),
            create: false,
            capacity: RECORDS_MAX,
            records: 0,
            operations: RECORDS_MAX / self.kills_per_store.max(1),
            sync_every: self.sync_every[usize::from(store % 2 == 1)],
            update: false,
        }
    }

    /// Every fourth kill hits the opening, on average.
    fn moment(&self, rng: &mut Rng) -> KillAt {
        let delay = Duration::from_micros(rng.below(self.delay_ms_max.max(1) * 1_000));
        if rng.below(4) == 0 { KillAt::SinceStart(delay / 8) } else { KillAt::SinceSynced(delay) }
    }
}

/// Reopens the store, reads all of it and walks its structure; counts and returns what is wrong.
fn check(task: &ChildTask, report: &mut KillReport) -> Result<()> {
    let subject = task.store.open().inspect_err(|_| report.failed_opens += 1)?;
    read_all(&task.data()?, &subject).inspect_err(|_| report.lost += 1)?;
    let findings = subject.check().inspect_err(|_| report.findings += 1)?;
    report.findings += findings.len() as u64;
    subject.close().inspect_err(|_| report.failed_closes += 1)
}

fn read_all(data: &DataSet, subject: &Arc<dyn Subject>) -> Result<()> {
    data.verify_all(subject).map(drop)
}
