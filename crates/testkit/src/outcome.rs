//! What a run did, and how it failed.

use std::{collections::BTreeMap, fmt};

use crate::Tally;

/// Of so many snapshots that are walked at least one may have been given up, of tiny budgets and large leaves.
const LOOKS_PER_GIVEN_UP: u64 = 10;

/// How a run went well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Client operations done.
    pub steps: u64,
    /// Power cuts survived, those during recovery included.
    pub cuts: u64,
    /// Flushes, resets and finishes of zones that failed while the power was on.
    pub failures: u64,
    /// Clean closes.
    pub closes: u64,
    /// Cuts by where they hit.
    pub hits: BTreeMap<&'static str, u64>,
    /// Writes refused because the device was full.
    pub refused: u64,
    /// Times that a snapshot was walked: at once, or some time after it was taken.
    pub looks: u64,
    /// Of these, snapshots that had been given up: nothing was compared.
    pub given_up: u64,
    /// Unsynced changes that came back after cuts, and that did not.
    pub survived: u64,
    /// See `survived`.
    pub lost: u64,
    /// What the subject did in all lives.
    pub done: Tally,
}

impl Outcome {
    /// A cut hit this point.
    pub(crate) fn hit(&mut self, point: &'static str) {
        *self.hits.entry(point).or_default() += 1;
    }

    /// Adds what another run did.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.cuts += other.cuts;
        self.failures += other.failures;
        self.closes += other.closes;
        self.refused += other.refused;
        self.looks += other.looks;
        self.given_up += other.given_up;
        self.survived += other.survived;
        self.lost += other.lost;
        self.count(other.done);
        for (point, hits) in &other.hits {
            *self.hits.entry(point).or_default() += hits;
        }
    }

    /// Says so if snapshots were given up so often that what those left show proves little: a store that gave all of them up would be
    /// right about everything else.
    ///
    /// # Errors
    /// How often.
    pub fn snapshots_show_something(&self) -> Result<(), String> {
        if self.looks > 0 && self.given_up * LOOKS_PER_GIVEN_UP <= self.looks {
            return Ok(());
        }
        Err(format!("{} of {} snapshots that were walked had been given up", self.given_up, self.looks))
    }

    /// Adds what one life of a subject did.
    pub(crate) fn count(&mut self, life: Tally) {
        self.done.splits += life.splits;
        self.done.leaf_merges += life.leaf_merges;
        self.done.merges += life.merges;
        self.done.merged_in_turns += life.merged_in_turns;
        self.done.checkpoints += life.checkpoints;
        self.done.zones_reset += life.zones_reset;
        self.done.meta_bytes += life.meta_bytes;
        self.done.relocated_bytes += life.relocated_bytes;
    }
}

/// How a run failed: at which step, and what was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Client operations done before.
    pub step: u64,
    /// What was wrong.
    pub what: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.what)
    }
}
