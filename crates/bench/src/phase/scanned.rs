//! What a scan must find: every record that existed when it began, in key order, from its start on, each with one of its values, and not
//! with the one that was loaded if an update had been acknowledged by then; and no more pairs than it was asked for.

use super::updated::{Freshness, Updated};
use crate::keys::KeySpace;
use crate::values::Values;
use crate::{BenchError, Result};

/// What is scanned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records<'a> {
    pub(super) keys: &'a KeySpace,
    pub(super) values: Values,
    pub(super) updated: &'a Updated,
    /// Whether others update them meanwhile.
    pub(super) beside_updates: bool,
}

impl Records<'_> {
    /// Those of the first `existing` that lie at `rank` of key order or behind it, with their ranks.
    fn due_from(&self, rank: u64, existing: u64) -> impl Iterator<Item = (u64, u64)> {
        let ranks = rank..self.keys.span(existing);
        ranks.map(move |rank| (rank, self.keys.index_at(rank))).filter(move |(_, index)| *index < existing)
    }
}

/// Buffers of [`Scanned`], kept from one scan to the next.
#[derive(Debug, Default)]
pub(super) struct ScanBuffers {
    key: Vec<u8>,
    value: Vec<u8>,
    /// Records of the next scan with an update that was acknowledged before; empty where nobody updates beside it.
    updated: Vec<u64>,
}

impl ScanBuffers {
    /// Before a scan of `pairs` pairs from record `from` on, of the first `existing`: fixes what it may find of those that others update
    /// meanwhile. Costs as much as [`Scanned::pair`] for each.
    pub(super) fn begin(&mut self, records: Records<'_>, (from, existing): (u64, u64), pairs: u64) {
        self.updated.clear();
        if records.beside_updates {
            let pairs = usize::try_from(pairs).unwrap_or(usize::MAX);
            let due = records.due_from(records.keys.rank_of(from), existing).map(|(_, index)| index).take(pairs);
            self.updated.extend(due.filter(|index| records.updated.before_reading(*index).was_updated()));
        }
    }
}

/// A scan under way. Records that were made since it began may be among its pairs, none that existed may be missing.
#[derive(Debug)]
pub(super) struct Scanned<'a> {
    records: Records<'a>,
    buffers: &'a mut ScanBuffers,
    /// Records that existed when it began.
    existing: u64,
    /// The record it starts at.
    from: u64,
    /// The lowest place in key order that the next pair may have.
    rank: u64,
}

impl<'a> Scanned<'a> {
    /// A scan from record `from`, of the first `existing` records, that [`ScanBuffers::begin`] was told of.
    pub(super) fn new(records: Records<'a>, buffers: &'a mut ScanBuffers, (from, existing): (u64, u64)) -> Self {
        Self { records, buffers, existing, from, rank: records.keys.rank_of(from) }
    }

    /// Takes the next pair.
    ///
    /// # Errors
    /// `Wrong` for a key out of order or of nobody, a record that was passed over, or a value that is no version of its record's
    /// or one that was replaced before.
    pub(super) fn pair(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let due = self.due();
        let index = match due {
            Some((_, index)) if self.is_key_of(index, key) => index,
            _ => self.records.keys.index_of(key).ok_or_else(|| self.wrong(format!("{key:02x?} is nobody's key")))?,
        };
        let rank = self.records.keys.rank_of(index);
        if rank < self.rank {
            return Err(self.wrong(format!("record {index} comes out of order")));
        }
        if let Some((due, missing)) = due
            && due < rank
        {
            return Err(self.wrong(format!("record {missing} is passed over")));
        }
        self.rank = rank + 1;
        let version = self.records.values.check(index, value, &mut self.buffers.value)?;
        self.freshness(index).check(index, version)
    }

    /// The scan ended after `seen` pairs of `wanted`, and says that they were `told`.
    ///
    /// # Errors
    /// `Wrong` if it ended early or late, or says what is not so.
    pub(super) fn end(&self, (told, seen): (u64, u64), wanted: u64) -> Result<()> {
        if seen > wanted || told != seen {
            return Err(self.wrong(format!("{seen} pairs of {wanted}, and it says {told}")));
        }
        match self.due() {
            Some((_, missing)) if seen < wanted => {
                Err(self.wrong(format!("record {missing} is missing at its end, after {seen} of {wanted} pairs")))
            }
            _ => Ok(()),
        }
    }

    /// Place and number of the next record that must come.
    fn due(&self) -> Option<(u64, u64)> {
        self.records.due_from(self.rank, self.existing).next()
    }

    /// What was to be found of record `index` when the scan began.
    fn freshness(&self, index: u64) -> Freshness {
        match self.records.beside_updates {
            // It may have been updated since.
            true => Freshness::of(self.buffers.updated.contains(&index)),
            false => self.records.updated.before_reading(index),
        }
    }

    fn is_key_of(&mut self, index: u64, key: &[u8]) -> bool {
        self.records.keys.key(index, &mut self.buffers.key);
        self.buffers.key == key
    }

    fn wrong(&self, what: String) -> BenchError {
        BenchError::Wrong { index: self.from, what: format!("starts a scan that goes wrong: {what}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Order;
    use zonda_rt::Seed;

    const EXISTING: u64 = 70;

    /// Pairs in key order of the first `EXISTING` of 100 records, from record 7 on.
    fn pairs(keys: &KeySpace, values: Values) -> Vec<(Vec<u8>, Vec<u8>)> {
        let ranks = keys.rank_of(7)..keys.span(100);
        let pair = |index| {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            keys.key(index, &mut key);
            values.fill(index, 3, &mut value);
            (key, value)
        };
        ranks.map(|rank| keys.index_at(rank)).filter(|index| *index < EXISTING).map(pair).collect()
    }

    fn check(keys: &KeySpace, values: Values, pairs: &[(Vec<u8>, Vec<u8>)], wanted: u64) -> Result<()> {
        let updated = Updated::new(100);
        check_updated(Records { keys, values, updated: &updated, beside_updates: false }, pairs, wanted, &mut |_| {})
    }

    /// `meanwhile` happens between the scan's beginning and its first pair.
    fn check_updated(
        records: Records<'_>,
        pairs: &[(Vec<u8>, Vec<u8>)],
        wanted: u64,
        meanwhile: &mut dyn FnMut(&Updated),
    ) -> Result<()> {
        let mut buffers = ScanBuffers::default();
        buffers.begin(records, (7, EXISTING), wanted);
        meanwhile(records.updated);
        let mut scanned = Scanned::new(records, &mut buffers, (7, EXISTING));
        for (key, value) in pairs {
            scanned.pair(key, value)?;
        }
        let seen = pairs.len() as u64;
        scanned.end((seen, seen), wanted)
    }

    #[test]
    fn whatever_a_scan_leaves_out_or_mixes_up_is_found() {
        for (order, key_bytes) in [(Order::Random, 8), (Order::Sorted, 8), (Order::Random, 20)] {
            let keys = KeySpace::new(key_bytes, 100, order, Seed(5)).unwrap();
            let values = Values::new(16, Seed(5));
            let right = pairs(&keys, values);
            assert!(right.len() > 3, "{order:?}: {}", right.len());
            let whole = right.len() as u64;
            assert!(check(&keys, values, &right, whole).is_ok());
            assert!(check(&keys, values, &right, whole + 10).is_ok(), "no more records");
            assert!(check(&keys, values, &right[..2], 2).is_ok());
            assert!(check(&keys, values, &right[..2], 3).is_err(), "ended early");
            assert!(check(&keys, values, &right[..3], 2).is_err(), "more than was asked for");
            assert!(check(&keys, values, &right[1..], whole).is_err(), "the first is missing");
            for gone in 1..right.len() {
                let mut pairs = right.clone();
                pairs.remove(gone);
                assert!(check(&keys, values, &pairs, whole).is_err(), "{gone} is missing");
            }
            let mut twice = right.clone();
            twice.insert(1, right[0].clone());
            let mut changed = right.clone();
            changed[2].1[5] ^= 1;
            let mut stranger = right.clone();
            stranger[1].0[key_bytes - 1] ^= 1;
            for wrong in [twice, changed, stranger] {
                assert!(check(&keys, values, &wrong, whole).is_err());
            }
        }
    }

    #[test]
    fn records_made_meanwhile_may_come() {
        let keys = KeySpace::new(8, 100, Order::Random, Seed(5)).unwrap();
        let (values, updated) = (Values::new(16, Seed(5)), Updated::new(100));
        let records = Records { keys: &keys, values, updated: &updated, beside_updates: false };
        let mut buffers = ScanBuffers::default();
        let mut scanned = Scanned::new(records, &mut buffers, (7, EXISTING));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut seen = 0;
        for index in (keys.rank_of(7)..keys.span(100)).map(|rank| keys.index_at(rank)).filter(|index| *index < 100) {
            keys.key(index, &mut key);
            values.fill(index, 0, &mut value);
            scanned.pair(&key, &value).unwrap();
            seen += 1;
        }
        assert!(scanned.end((seen, seen), seen).is_ok() && seen > 3);
        assert!(scanned.end((seen - 1, seen), seen).is_err(), "it says one less than it visited");
    }

    /// Of records 16, 32, 48 and so on it is followed whether they were updated.
    #[test]
    fn what_was_loaded_is_not_found_once_an_update_is_acknowledged() {
        let keys = KeySpace::new(8, 100, Order::Sorted, Seed(5)).unwrap();
        let values = Values::new(16, Seed(5));
        let mut pairs = pairs(&keys, values);
        values.fill(32, 0, &mut pairs[32 - 7].1);
        let whole = pairs.len() as u64;
        for beside_updates in [false, true] {
            let updated = Updated::new(100);
            let records = Records { keys: &keys, values, updated: &updated, beside_updates };
            assert!(check_updated(records, &pairs, whole, &mut |_| {}).is_ok(), "nobody updated it");
            let late = check_updated(records, &pairs, whole, &mut |updated| updated.acknowledged(32));
            assert_eq!(late.is_ok(), beside_updates, "an update since it began, where there are some");
            let said = check_updated(records, &pairs, whole, &mut |_| {}).unwrap_err().to_string();
            assert!(said.contains("loaded"), "{said}");
        }
    }
}
