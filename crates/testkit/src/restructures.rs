//! Whether a cut fell between a change of leaves and the moment at which its record was written.

use crate::{Outcome, Tally};

/// Splits and merges of leaves, and new pages of a turn of the ring, that only memory knows of yet.
#[derive(Debug, Default)]
pub(crate) struct Restructures {
    last: Tally,
    split: bool,
    merge: bool,
    turn: bool,
}

impl Restructures {
    /// From what a subject has done so far.
    pub(crate) fn since(now: Tally) -> Self {
        Self { last: now, ..Self::default() }
    }

    /// Takes note of what a subject has done by now. A MetaLog chunk that was written had all records from before.
    pub(crate) fn note(&mut self, now: Tally) {
        let written = now.meta_bytes > self.last.meta_bytes;
        self.split = now.splits > self.last.splits || self.split && !written;
        self.merge = now.leaf_merges > self.last.leaf_merges || self.merge && !written;
        self.turn = now.merged_in_turns > self.last.merged_in_turns || self.turn && !written;
        self.last = now;
    }

    /// The power went now.
    pub(crate) fn cut(&self, outcome: &mut Outcome) {
        if self.split {
            outcome.hit("split");
        }
        if self.merge {
            outcome.hit("merge");
        }
        if self.turn {
            outcome.hit("turn");
        }
    }
}
