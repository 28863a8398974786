//! A contest in this process.

use std::sync::Arc;

use super::{Contest, ContestPlan, Engines, Step};
use crate::experiment::fit;
use crate::measured::Measured;
use crate::phase::DataSet;
use crate::profile::Profile;
use crate::progress::Progress;
use crate::subject::Subject;
use crate::{BenchError, Result};

/// A store and its records.
pub struct LocalContest {
    subject: Arc<dyn Subject>,
    data: DataSet,
}

impl std::fmt::Debug for LocalContest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalContest").field("data", &self.data).finish_non_exhaustive()
    }
}

impl LocalContest {
    /// Makes the store, empty.
    ///
    /// # Errors
    /// The store's; `Usage` for data that cannot be.
    pub fn new(plan: &ContestPlan, engines: Engines) -> Result<Self> {
        let data = plan.data.data(plan.store.seed)?;
        let store = match plan.live_percent {
            None => plan.store.clone(),
            Some(percent) => fit::fitted(plan, percent)?,
        };
        Ok(Self { subject: (engines.create)(&store)?, data })
    }
}

impl Contest for LocalContest {
    fn run(&mut self, step: &Step, nth: u32, slices: u32) -> Result<Measured> {
        let phase = step.slice(nth, slices)?;
        let mut measure = || phase.measure(&self.subject, &mut self.data, &Progress::hidden());
        if !step.profiled {
            return measure();
        }
        let (mut measured, profile) = Profile::of(measure)?;
        measured.profile = profile;
        Ok(measured)
    }

    fn finish(&mut self) -> Result<u64> {
        let pairs = self.data.verify_all(&self.subject)?;
        let findings = self.subject.check()?;
        if let Some(finding) = findings.first() {
            let what = format!("is not to blame: the check found {} faults, the first: {finding}", findings.len());
            return Err(BenchError::Wrong { index: 0, what });
        }
        self.subject.close()?;
        Ok(pairs)
    }
}
