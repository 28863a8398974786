//! The pairs of one leaf range that a scan has not handed out yet.
//!
//! Page and records of the buffer are merged a few pairs at a time, from either end: a short scan pays for what it takes, not
//! for the leaf. Merged pairs lie in one buffer, so that a pair costs no allocation. Nothing is held; large values are read when their turn
//! comes, under the protection of the snapshot.

use std::{cmp::Ordering, collections::VecDeque, ops::Range as Indexes};

use crate::{
    leaf_page::LeafPage,
    record::{Kind, OwnedRecord, Record},
    scan::Range,
    tree::{Result, Tree},
    values::ValuePointer,
};

/// Pairs that are merged at once at first; twice as many each time.
const CHUNK_PAIRS_MIN: usize = 16;
/// Pairs that are merged at once at the most.
const CHUNK_PAIRS_MAX: usize = 256;

/// An end of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The least keys.
    Front,
    /// The greatest keys.
    Back,
}

impl End {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
}

/// What is left of a leaf range.
pub(crate) struct Run {
    /// The page's body; `None` if there is no page, or the records are all there is.
    body: Option<Vec<u8>>,
    /// Slots of the page that are not merged yet.
    slots: Indexes<usize>,
    /// The buffer's records, sorted; they win over the page's.
    records: Vec<OwnedRecord>,
    /// Records that are not merged yet.
    fresh: Indexes<usize>,
    /// Merged from the front, in order.
    front: Merged,
    /// Merged from the back, in order.
    back: Merged,
    chunk_pairs: usize,
    leaf_records: usize,
    /// Pairs are handed out without their values.
    keys_only: bool,
}

/// Pairs in order, their bytes one behind the other in the order in which they came.
#[derive(Default)]
struct Merged {
    bytes: Vec<u8>,
    pairs: VecDeque<Place>,
}

/// Where a pair lies in the bytes: its key up to `value`, its value up to `end`.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    value: usize,
    end: usize,
}

impl Merged {
    /// Adds a pair, whose key is `prefix` and `suffix` joined, behind or before the others.
    fn push(&mut self, end: End, (prefix, suffix): (&[u8], &[u8]), value: &[u8]) {
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

    fn pop(&mut self, end: End) -> Option<Place> {
        match end {
            End::Front => self.pairs.pop_front(),
            End::Back => self.pairs.pop_back(),
        }
    }

    fn pair(&self, at: Place) -> (&[u8], &[u8]) {
        (&self.bytes[at.start..at.value], &self.bytes[at.value..at.end])
    }
}

/// A pair that was taken; it can be looked at until the next one is.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    /// From which end it had been merged.
    merged: End,
    place: Place,
}

/// Where a record to be handed out next comes from.
struct Step<'a> {
    /// Whether the page's slot is used up.
    slot: bool,
    /// Whether the buffer's record is used up.
    record: bool,
    /// The record's key, in two parts.
    key: (&'a [u8], &'a [u8]),
    found: Record<'a>,
}

impl Run {
    /// The pairs of `body` and `records` that `range` holds.
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn new(body: Option<Vec<u8>>, records: Vec<OwnedRecord>, range: &Range) -> Result<Self> {
        let page = body.as_deref().map(LeafPage::decode).transpose()?;
        let slots = page.map_or(0..0, |page| {
            let slots = page.slots();
            range.indexes(slots.len(), |index, key| compare(page.prefix(), slots.key(index), key))
        });
        let fresh = range.indexes(records.len(), |index, key| records[index].0.as_slice().cmp(key));
        let leaf_records = page.map_or(0, |page| page.slots().len()).max(records.len());
        let (front, back) = (Merged::default(), Merged::default());
        Ok(Self {
            body,
            slots,
            records,
            fresh,
            front,
            back,
            chunk_pairs: CHUNK_PAIRS_MIN,
            leaf_records,
            keys_only: false,
        })
    }

    /// The same, without values if `keys_only`.
    pub(crate) fn keys_only(self, keys_only: bool) -> Self {
        Self { keys_only, ..self }
    }

    /// About how many pairs the whole leaf holds.
    pub(crate) fn leaf_records(&self) -> usize {
        self.leaf_records
    }

    /// The next pair from one end.
    ///
    /// # Errors
    /// Those of reading large values; the same call may be tried again.
    pub(crate) fn take(&mut self, tree: &Tree, end: End) -> Result<Option<Taken>> {
        if self.merged(end).pairs.is_empty() {
            self.merged(end).bytes.clear();
            self.merge_some(tree, end)?;
        }
        let mut taken = |merged| self.merged(merged).pop(end).map(|place| Taken { merged, place });
        Ok(taken(end).or_else(|| taken(end.other())))
    }

    /// The pair that was taken last.
    pub(crate) fn pair(&self, taken: Taken) -> (&[u8], &[u8]) {
        match taken.merged {
            End::Front => self.front.pair(taken.place),
            End::Back => self.back.pair(taken.place),
        }
    }

    fn merged(&mut self, end: End) -> &mut Merged {
        match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        }
    }

    /// Merges some pairs at an end; none if all are merged. Stops behind a large value.
    fn merge_some(&mut self, tree: &Tree, end: End) -> Result<()> {
        let (body, records) = (self.body.take(), std::mem::take(&mut self.records));
        let merged = self.merge_with(tree, body.as_deref(), &records, end);
        (self.body, self.records) = (body, records);
        merged
    }

    fn merge_with(&mut self, tree: &Tree, body: Option<&[u8]>, records: &[OwnedRecord], end: End) -> Result<()> {
        let page = body.map(LeafPage::decode).transpose()?;
        while self.merged(end).pairs.len() < self.chunk_pairs && !(self.slots.is_empty() && self.fresh.is_empty()) {
            let Step { slot, record, key, found } = self.step(page, records, end);
            let is_large = found.kind == Kind::Pointer && !self.keys_only;
            match found.kind {
                Kind::Tombstone => {}
                _ if self.keys_only => self.merged(end).push(end, key, &[]),
                Kind::Inline => self.merged(end).push(end, key, found.value),
                Kind::Pointer => {
                    let value = tree.value_of(key, found.value)?;
                    self.merged(end).push(end, key, &value);
                }
            }
            drop_one(&mut self.slots, slot, end);
            drop_one(&mut self.fresh, record, end);
            if is_large {
                return Ok(());
            }
        }
        self.chunk_pairs = (2 * self.chunk_pairs).min(CHUNK_PAIRS_MAX);
        Ok(())
    }

    /// Looks at what is next at an end. At least one source is not used up.
    fn step<'a>(&self, page: Option<LeafPage<'a>>, records: &'a [OwnedRecord], end: End) -> Step<'a> {
        let slot = page.zip(next_of(&self.slots, end)).map(|(page, index)| (page.prefix(), page.slots().record(index)));
        let fresh = next_of(&self.fresh, end).map(|index| &records[index]);
        let order = match (&slot, fresh) {
            (Some((prefix, old)), Some((key, _, _))) => compare(prefix, old.key, key),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        // Of the back the greater one comes first.
        let order = if end == End::Back && slot.is_some() && fresh.is_some() { order.reverse() } else { order };
        let (key, found): ((&[u8], &[u8]), _) = match (slot, fresh) {
            (Some((prefix, old)), _) if order.is_lt() => ((prefix, old.key), old),
            (_, Some((key, kind, value))) => ((key, &[]), Record { key, kind: *kind, value }),
            _ => unreachable!("a source is left"),
        };
        Step { slot: order.is_le(), record: order.is_ge(), key, found }
    }
}

impl Tree {
    /// The large value of a key that `pointer` points to.
    fn value_of(&self, (prefix, suffix): (&[u8], &[u8]), pointer: &[u8]) -> Result<Vec<u8>> {
        let _guard = self.epoch.pin();
        self.values.read(&[prefix, suffix].concat(), &ValuePointer::decode(pointer)?)
    }
}

/// Compares `prefix` and `suffix`, joined, with `key`.
fn compare(prefix: &[u8], suffix: &[u8], key: &[u8]) -> Ordering {
    match key.split_at_checked(prefix.len()) {
        Some((start, rest)) => prefix.cmp(start).then_with(|| suffix.cmp(rest)),
        // A prefix that goes on behind the whole key is above it.
        None => prefix[..key.len()].cmp(key).then(Ordering::Greater),
    }
}

fn next_of(left: &Indexes<usize>, end: End) -> Option<usize> {
    match end {
        _ if left.is_empty() => None,
        End::Front => Some(left.start),
        End::Back => Some(left.end - 1),
    }
}

fn drop_one(left: &mut Indexes<usize>, used: bool, end: End) {
    match end {
        End::Front => left.start += usize::from(used),
        End::Back => left.end -= usize::from(used),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::compare;

    proptest! {
        #[test]
        fn joined_keys_compare_as_if_they_were_one(
            prefix in prop::collection::vec(0_u8..3, 0..4),
            suffix in prop::collection::vec(0_u8..3, 0..4),
            key in prop::collection::vec(0_u8..3, 0..8),
        ) {
            let joined = [prefix.as_slice(), &suffix].concat();
            prop_assert_eq!(compare(&prefix, &suffix, &key), joined.as_slice().cmp(&key));
        }
    }
}
