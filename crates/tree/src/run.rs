//! The pairs of one leaf range that a scan has not handed out yet.
//!
//! Page and records of the buffer are merged a few pairs at a time, from either end: a short scan pays for what it takes, not
//! for the leaf. Nothing is held; large values are read when their turn comes, under the protection of the snapshot.

use std::{cmp::Ordering, collections::VecDeque, ops::Range as Indexes};

use crate::{
    leaf_page::LeafPage,
    record::{Kind, OwnedRecord, Record},
    scan::{Pair, Range},
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
    front: VecDeque<Pair>,
    /// Merged from the back, in order.
    back: VecDeque<Pair>,
    chunk_pairs: usize,
    leaf_records: usize,
    /// Pairs are handed out without their values.
    keys_only: bool,
}

/// Where a record to be handed out next comes from.
struct Step {
    /// Whether the page's slot is used up.
    slot: bool,
    /// Whether the buffer's record is used up.
    record: bool,
    /// The pair; `None` for a deleted key.
    pair: Option<Pair>,
    is_large: bool,
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
        let (front, back) = (VecDeque::new(), VecDeque::new());
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
    pub(crate) fn take(&mut self, tree: &Tree, end: End) -> Result<Option<Pair>> {
        if self.merged(end).is_empty() {
            self.merge_some(tree, end)?;
        }
        Ok(match end {
            End::Front => self.front.pop_front().or_else(|| self.back.pop_front()),
            End::Back => self.back.pop_back().or_else(|| self.front.pop_back()),
        })
    }

    fn merged(&mut self, end: End) -> &mut VecDeque<Pair> {
        match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        }
    }

    /// Merges some pairs at an end; none if all are merged. Stops behind a large value.
    fn merge_some(&mut self, tree: &Tree, end: End) -> Result<()> {
        let body = self.body.take();
        let merged = self.merge_with(tree, body.as_deref(), end);
        self.body = body;
        merged
    }

    fn merge_with(&mut self, tree: &Tree, body: Option<&[u8]>, end: End) -> Result<()> {
        let page = body.map(LeafPage::decode).transpose()?;
        while self.merged(end).len() < self.chunk_pairs && !(self.slots.is_empty() && self.fresh.is_empty()) {
            let Step { slot, record, pair, is_large } = self.step(tree, page, end)?;
            drop_one(&mut self.slots, slot, end);
            drop_one(&mut self.fresh, record, end);
            match (end, pair) {
                (End::Front, Some(pair)) => self.front.push_back(pair),
                (End::Back, Some(pair)) => self.back.push_front(pair),
                (_, None) => {}
            }
            if is_large {
                return Ok(());
            }
        }
        self.chunk_pairs = (2 * self.chunk_pairs).min(CHUNK_PAIRS_MAX);
        Ok(())
    }

    /// Looks at what is next at an end. At least one source is not used up.
    fn step(&self, tree: &Tree, page: Option<LeafPage<'_>>, end: End) -> Result<Step> {
        let slot = page.zip(next_of(&self.slots, end)).map(|(page, index)| (page.prefix(), page.slots().record(index)));
        let fresh = next_of(&self.fresh, end).map(|index| &self.records[index]);
        let order = match (&slot, fresh) {
            (Some((prefix, old)), Some((key, _, _))) => compare(prefix, old.key, key),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        // Of the back the greater one comes first.
        let order = if end == End::Back && slot.is_some() && fresh.is_some() { order.reverse() } else { order };
        let (key, record) = match (slot, fresh) {
            (Some((prefix, old)), _) if order.is_lt() => ([prefix, old.key].concat(), old),
            (_, Some((key, kind, value))) => (key.clone(), Record { key, kind: *kind, value }),
            _ => unreachable!("a source is left"),
        };
        let is_large = record.kind == Kind::Pointer && !self.keys_only;
        let pair = match record.kind {
            Kind::Inline | Kind::Pointer if self.keys_only => Some((key, Vec::new())),
            _ => tree.pair(key, &record)?,
        };
        Ok(Step { slot: order.is_le(), record: order.is_ge(), pair, is_large })
    }
}

impl Tree {
    /// A key and what a record maps it to; `None` if that is nothing.
    fn pair(&self, key: Vec<u8>, record: &Record<'_>) -> Result<Option<Pair>> {
        let value = match record.kind {
            Kind::Tombstone => return Ok(None),
            Kind::Inline => record.value.to_vec(),
            Kind::Pointer => {
                let _guard = self.epoch.pin();
                self.values.read(&key, &ValuePointer::decode(record.value)?)?
            }
        };
        Ok(Some((key, value)))
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
