//! The records of a run: their keys, their values, and how many of them there are.

use std::collections::HashMap;
use std::sync::Arc;

use zonda_rt::Seed;

use super::updated::Updated;
use crate::choose::{Chooser, Distribution};
use crate::keys::{KeySpace, Order};
use crate::subject::Subject;
use crate::values::Values;
use crate::{BenchError, Result};

/// The data of one run. Phases take it in turn: each finds the records that the ones before it left.
#[derive(Clone, Debug)]
pub struct DataSet {
    keys: Arc<KeySpace>,
    values: Values,
    updated: Arc<Updated>,
    seed: Seed,
    records: u64,
    capacity: u64,
    chooser: Option<Kept>,
}

/// The last chooser, and what it was made for.
#[derive(Clone, Debug)]
struct Kept {
    distribution: Distribution,
    places: u64,
    chooser: Chooser,
}

impl DataSet {
    /// A data set with no records yet and room for `capacity`.
    ///
    /// # Errors
    /// `Usage` when keys of `key_bytes` bytes cannot tell so many records apart.
    pub fn new(key_bytes: usize, value_bytes: usize, capacity: u64, order: Order, seed: Seed) -> Result<Self> {
        Ok(Self::of(KeySpace::new(key_bytes, capacity, order, seed)?, value_bytes, capacity, seed))
    }

    /// A data set over these keys, which are for `capacity` records.
    #[must_use]
    pub fn of(keys: KeySpace, value_bytes: usize, capacity: u64, seed: Seed) -> Self {
        let values = Values::new(value_bytes, seed);
        let updated = Arc::new(Updated::new(if values.carry_versions() { capacity } else { 0 }));
        Self { keys: Arc::new(keys), values, updated, seed, records: 0, capacity, chooser: None }
    }

    /// Keys by record.
    #[must_use]
    pub fn keys(&self) -> &Arc<KeySpace> {
        &self.keys
    }

    /// Values by record and version.
    #[must_use]
    pub fn values(&self) -> Values {
        self.values
    }

    /// Records that a phase has updated.
    pub(super) fn updated(&self) -> &Arc<Updated> {
        &self.updated
    }

    /// Seed of the run.
    #[must_use]
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Records `0..records` exist.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Says that records `0..records` exist: after a phase, or because the store was filled before.
    pub fn set_records(&mut self, records: u64) {
        self.records = records;
    }

    /// Records that may still be inserted.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.records)
    }

    /// A chooser among the records, to which `room` others may be added: the one that was made last, if it was made for the same. It is not
    /// made anew for every slice, because stores work on in the background meanwhile, in nobody's time.
    pub(super) fn chooser(&mut self, distribution: Distribution, room: u64) -> Chooser {
        // Records that are added take places that a zipfian one has already; others do not mind how many there are, but for the newest.
        let places = if distribution == Distribution::Latest { self.records } else { self.records + room };
        match &self.chooser {
            Some(kept) if (kept.distribution, kept.places) == (distribution, places) => kept.chooser.clone(),
            _ => {
                let chooser = Chooser::new(distribution, &self.keys, self.records, room);
                self.chooser = Some(Kept { distribution, places, chooser: chooser.clone() });
                chooser
            }
        }
    }

    /// Bytes of keys and values of all records: what the user stored.
    #[must_use]
    pub fn user_bytes(&self) -> u64 {
        self.records * (self.keys.key_bytes() + self.values.value_bytes()) as u64
    }

    /// Reads the whole store in key order and checks every pair; returns how many pairs there are.
    ///
    /// Costs one scan, and one bit of memory per record that can exist. Records beyond [`records`](Self::records) may be
    /// there (written but not acknowledged); those below must. Nobody may write meanwhile.
    ///
    /// # Errors
    /// `Wrong` for a record that is missing, holds a wrong value or one that a phase replaced, or is none of this data set, and for keys
    /// out of order.
    pub fn verify_all(&self, subject: &Arc<dyn Subject>) -> Result<u64> {
        self.verify_updated(subject, &HashMap::new())
    }

    /// As [`verify_all`](Self::verify_all); records of `least` must have this version or a later one.
    ///
    /// # Errors
    /// As there.
    pub fn verify_updated(&self, subject: &Arc<dyn Subject>, least: &HashMap<u64, u32>) -> Result<u64> {
        let mut seen = Seen::new(self.capacity);
        let mut scratch = Vec::new();
        let mut last = Vec::new();
        let pairs = subject.scan(&[], u64::MAX, &mut |key, value| {
            let wrong = |index, what: &str| BenchError::Wrong { index, what: format!("{what} (key {key:02x?})") };
            let index = self.keys.index_of(key).ok_or_else(|| wrong(0, "is asked for, but this key is no record's"))?;
            if !last.is_empty() && last.as_slice() >= key {
                return Err(wrong(index, "comes out of order"));
            }
            let version = self.values.check(index, value, &mut scratch)?;
            self.updated.before_reading(index).check(index, version)?;
            if let Some(least) = least.get(&index).filter(|least| version < **least) {
                return Err(wrong(index, &format!("has version {version}, and version {least} was acknowledged")));
            }
            seen.insert(index);
            key.clone_into(&mut last);
            Ok(())
        })?;
        match seen.first_missing(self.records) {
            None => Ok(pairs),
            Some(index) => {
                Err(BenchError::Wrong { index, what: format!("is missing, of {} that must be there", self.records) })
            }
        }
    }
}

/// A set of record numbers, one bit each.
struct Seen(Vec<u64>);

impl Seen {
    fn new(capacity: u64) -> Self {
        let words = usize::try_from(capacity.div_ceil(64)).expect("a bit per record fits into memory");
        Self(vec![0; words + 1])
    }

    fn insert(&mut self, index: u64) {
        if let Some(word) = usize::try_from(index / 64).ok().and_then(|word| self.0.get_mut(word)) {
            *word |= 1 << (index % 64);
        }
    }

    fn contains(&self, index: u64) -> bool {
        let word = usize::try_from(index / 64).ok().and_then(|word| self.0.get(word));
        word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn first_missing(&self, records: u64) -> Option<u64> {
        (0..records).find(|index| !self.contains(*index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::HotRange;

    #[test]
    fn a_chooser_is_kept_for_as_long_as_it_would_be_made_alike() {
        let mut data = DataSet::new(8, 8, 1_000, Order::Random, Seed(1)).unwrap();
        data.set_records(100);
        let zipf = Distribution::Zipf(0.9);
        // One that it would not make, to tell it from a new one.
        let mark = |data: &mut DataSet| {
            let other = Chooser::HotRange(HotRange::new(Arc::clone(&data.keys)));
            data.chooser.as_mut().unwrap().chooser = other;
        };
        let is_kept = |chooser: Chooser| matches!(chooser, Chooser::HotRange(_));
        assert!(!is_kept(data.chooser(zipf, 900)));
        mark(&mut data);
        assert!(is_kept(data.chooser(zipf, 900)));
        data.set_records(400);
        assert!(is_kept(data.chooser(zipf, 600)), "as many places");
        for (distribution, room) in [(zipf, 0), (Distribution::Zipf(0.8), 0), (Distribution::Latest, 0)] {
            mark(&mut data);
            assert!(!is_kept(data.chooser(distribution, room)), "{distribution} {room}");
        }
        mark(&mut data);
        data.set_records(500);
        assert!(!is_kept(data.chooser(Distribution::Latest, 0)), "others are the newest");
    }
}
