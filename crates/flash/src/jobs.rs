//! Commands that are done when several things are: resets, finishes, flushes.
use std::collections::HashMap;

use crate::core::{Attribution, Nanos};
use crate::model::Answer;

#[derive(Clone, Copy, Debug)]
struct Job {
    token: u64,
    submitted: Nanos,
    left: u64,
}

/// Jobs on their way, by number. Numbers are never used again.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: HashMap<u64, Job>,
    begun: u64,
}

impl Jobs {
    /// A new job of `left` things; at least one.
    pub(crate) fn begin(&mut self, token: u64, submitted: Nanos, left: u64) -> u64 {
        assert!(left > 0, "a job of nothing would never be answered");
        self.begun += 1;
        self.jobs.insert(self.begun, Job { token, submitted, left });
        self.begun
    }

    /// One thing of a job is done; the answer if it was the last.
    pub(crate) fn one_done(&mut self, number: u64, at: Nanos) -> Option<Answer> {
        let job = self.jobs.get_mut(&number)?;
        job.left -= 1;
        if job.left > 0 {
            return None;
        }
        let job = self.jobs.remove(&number)?;
        let attribution = Attribution { cell_ns: at - job.submitted, ..Attribution::default() };
        Some(Answer { token: job.token, at, attribution })
    }
}
