//! The records of one filter node: sorted, in one allocation that grows in small steps.
//!
//! Same layout as buffers and pages ([`Slots`]), with full keys: a pair of 8 B + 8 B costs 16 bytes while all pairs of a node
//! have one shape. Owner: a node of the filter, later a batch of the array; never changed once it is there.

use crate::{
    record::Record,
    slots::{HEADER_BYTES, SLOT_BYTES, Slots, SlotsMut, common_shape},
};

/// Allocations grow by this, so that little of a node is slack.
const STEP_BYTES: usize = 256;
/// What the allocator adds to an allocation, charged to the budget.
const ALLOCATOR_BYTES: usize = 16;

/// At least one record, sorted, with full keys.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    bytes: Box<[u8]>,
}

impl Records {
    /// Exactly these sorted records.
    pub(crate) fn of<'r>(records: impl Iterator<Item = Record<'r>> + Clone) -> Self {
        let slot_bytes = if common_shape(records.clone()).is_some() { 0 } else { SLOT_BYTES };
        let payload: usize = records.clone().map(|record| record.key.len() + record.value.len() + slot_bytes).sum();
        let mut len_bytes = HEADER_BYTES + payload;
        loop {
            let mut bytes = empty(len_bytes);
            if SlotsMut::init(&mut bytes).fill(records.clone()) {
                return Self { bytes };
            }
            len_bytes += STEP_BYTES;
        }
    }

    /// The records.
    pub(crate) fn slots(&self) -> Slots<'_> {
        Slots::new(&self.bytes)
    }

    /// Inserts or replaces; grows when it must.
    pub(crate) fn upsert(&mut self, record: &Record<'_>) {
        if SlotsMut::new(&mut self.bytes).upsert(record) {
            return;
        }
        let mut len_bytes = self.bytes.len() + record.key.len() + record.value.len();
        loop {
            let mut bytes = empty(len_bytes);
            if SlotsMut::init(&mut bytes).fill(self.slots().iter()) && SlotsMut::new(&mut bytes).upsert(record) {
                self.bytes = bytes;
                return;
            }
            len_bytes += STEP_BYTES;
        }
    }

    /// The records below index `at` and those from there on; both have some.
    pub(crate) fn split(&self, at: usize) -> (Self, Self) {
        let records = self.slots().iter();
        (Self::of(records.clone().take(at)), Self::of(records.skip(at)))
    }

    /// The least key.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.slots().key(0)
    }

    /// The greatest key.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.slots().key(self.slots().len() - 1)
    }

    /// Index of the first record at or above `key`.
    pub(crate) fn at_or_above(&self, key: &[u8]) -> usize {
        self.slots().search(key).unwrap_or_else(|at| at)
    }

    /// The records in `[low, high)`.
    pub(crate) fn between<'r>(
        &'r self,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = Record<'r>> + Clone {
        let end = high.map_or(self.slots().len(), |high| self.at_or_above(high));
        let begin = self.at_or_above(low).min(end);
        self.slots().iter().skip(begin).take(end - begin)
    }

    /// Bytes charged to the budget.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.bytes.len() + ALLOCATOR_BYTES) as u64
    }
}

fn empty(len_bytes: usize) -> Box<[u8]> {
    vec![0; len_bytes.next_multiple_of(STEP_BYTES)].into_boxed_slice()
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::record::Kind;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![prop::collection::vec(0_u8..4, 8), prop::collection::vec(any::<u8>(), 0..20)]
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![Just(Kind::Inline), Just(Kind::Pointer), Just(Kind::Tombstone)]
    }

    proptest! {
        #[test]
        fn behave_like_a_sorted_map(
            writes in prop::collection::vec((key(), kind(), prop::collection::vec(any::<u8>(), 0..80)), 1..120),
            low in key(), high in key(),
        ) {
            let mut model = BTreeMap::new();
            let mut records: Option<Records> = None;
            for (key, kind, value) in &writes {
                let value = if *kind == Kind::Tombstone { &[][..] } else { value };
                let record = Record { key, kind: *kind, value };
                match &mut records {
                    Some(records) => records.upsert(&record),
                    None => records = Some(Records::of(std::iter::once(record))),
                }
                model.insert(key.clone(), (*kind, value.to_vec()));
            }
            let records = records.expect("at least one write");
            let seen: BTreeMap<_, _> =
                records.slots().iter().map(|r| (r.key.to_vec(), (r.kind, r.value.to_vec()))).collect();
            prop_assert_eq!(&seen, &model);
            let between: Vec<_> = records.between(&low, Some(&high)).map(|record| record.key.to_vec()).collect();
            let expected: Vec<_> = model.keys().filter(|key| **key >= low && **key < high).cloned().collect();
            prop_assert_eq!(between, expected);
            if model.len() > 1 {
                let (left, right) = records.split(model.len() / 2);
                prop_assert_eq!(left.slots().len() + right.slots().len(), model.len());
                prop_assert!(left.last_key() < right.first_key());
            }
        }
    }

    #[test]
    fn pairs_of_one_shape_cost_sixteen_bytes() {
        let keys: Vec<[u8; 8]> = (0..120_u64).map(u64::to_be_bytes).collect();
        let records = Records::of(keys.iter().map(|key| Record { key, kind: Kind::Inline, value: key }));
        assert!(records.memory_bytes() <= 120 * 16 + 16 + 256 + 16, "{} bytes", records.memory_bytes());
    }
}
