//! Pairs of a leaf range that were read before their turn, because there are large values among them.

use std::collections::VecDeque;

use super::End;

/// Pairs in order with large values among them, their bytes one behind the other in the order in which they came.
#[derive(Default)]
pub(super) struct Fetched {
    bytes: Vec<u8>,
    pairs: VecDeque<Place>,
}

/// Where a pair lies in the bytes: its key up to `value`, its value up to `end`.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    start: usize,
    value: usize,
    end: usize,
}

impl Fetched {
    /// Adds a pair, whose key is `prefix` and `suffix` joined, behind or before the others.
    pub(super) fn push(&mut self, end: End, (prefix, suffix): (&[u8], &[u8]), value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(suffix);
        let value_start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let place = Place { start, value: value_start, end: self.bytes.len() };
        match end {
            End::Front => self.pairs.push_back(place),
            End::Back => self.pairs.push_front(place),
        }
    }

    /// Takes the next one from `end`.
    pub(super) fn pop(&mut self, end: End) -> Option<Place> {
        match end {
            End::Front => self.pairs.pop_front(),
            End::Back => self.pairs.pop_back(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    pub(super) fn pair(&self, at: Place) -> (&[u8], &[u8]) {
        (&self.bytes[at.start..at.value], &self.bytes[at.value..at.end])
    }
}
