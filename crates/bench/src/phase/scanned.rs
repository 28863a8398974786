//! What a scan must find: every record that existed when it began, in key order, from its start on, each with one of its values.

use crate::keys::KeySpace;
use crate::values::Values;
use crate::{BenchError, Result};

/// Buffers of [`Scanned`], kept from one scan to the next.
#[derive(Debug, Default)]
pub(super) struct ScanBuffers {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A scan under way. Records that were made since it began may be among its pairs, none that existed may be missing.
#[derive(Debug)]
pub(super) struct Scanned<'a> {
    keys: &'a KeySpace,
    values: Values,
    buffers: &'a mut ScanBuffers,
    /// Records that existed when it began.
    existing: u64,
    /// The record it starts at.
    from: u64,
    /// The lowest place in key order that the next pair may have.
    rank: u64,
}

impl<'a> Scanned<'a> {
    /// A scan from record `from`, of the first `existing` records.
    pub(super) fn new(
        (keys, values): (&'a KeySpace, Values),
        buffers: &'a mut ScanBuffers,
        (from, existing): (u64, u64),
    ) -> Self {
        Self { keys, values, buffers, existing, from, rank: keys.rank_of(from) }
    }

    /// Takes the next pair.
    ///
    /// # Errors
    /// `Wrong` for a key out of order or of nobody, a record that was passed over, or a value that is no version of its record's.
    pub(super) fn pair(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let due = self.due();
        let index = match due {
            Some((_, index)) if self.is_key_of(index, key) => index,
            _ => self.keys.index_of(key).ok_or_else(|| self.wrong(format!("{key:02x?} is nobody's key")))?,
        };
        let rank = self.keys.rank_of(index);
        if rank < self.rank {
            return Err(self.wrong(format!("record {index} comes out of order")));
        }
        if let Some((due, missing)) = due
            && due < rank
        {
            return Err(self.wrong(format!("record {missing} is passed over")));
        }
        self.rank = rank + 1;
        self.values.check(index, value, &mut self.buffers.value).map(drop)
    }

    /// The scan ended after `seen` pairs of `wanted`.
    ///
    /// # Errors
    /// `Wrong` if it ended early.
    pub(super) fn end(&self, seen: u64, wanted: u64) -> Result<()> {
        match self.due() {
            Some((_, missing)) if seen < wanted => {
                Err(self.wrong(format!("record {missing} is missing at its end, after {seen} of {wanted} pairs")))
            }
            _ => Ok(()),
        }
    }

    /// Place and number of the next record that must come.
    fn due(&self) -> Option<(u64, u64)> {
        let ranks = self.rank..self.keys.span(self.existing);
        ranks.map(|rank| (rank, self.keys.index_at(rank))).find(|(_, index)| *index < self.existing)
    }

    fn is_key_of(&mut self, index: u64, key: &[u8]) -> bool {
        self.keys.key(index, &mut self.buffers.key);
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
        let mut buffers = ScanBuffers::default();
        let mut scanned = Scanned::new((keys, values), &mut buffers, (7, EXISTING));
        for (key, value) in pairs {
            scanned.pair(key, value)?;
        }
        scanned.end(pairs.len() as u64, wanted)
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
        let values = Values::new(16, Seed(5));
        let mut buffers = ScanBuffers::default();
        let mut scanned = Scanned::new((&keys, values), &mut buffers, (7, EXISTING));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut seen = 0;
        for index in (keys.rank_of(7)..keys.span(100)).map(|rank| keys.index_at(rank)).filter(|index| *index < 100) {
            keys.key(index, &mut key);
            values.fill(index, 0, &mut value);
            scanned.pair(&key, &value).unwrap();
            seen += 1;
        }
        assert!(scanned.end(seen, seen).is_ok() && seen > 3);
    }
}
