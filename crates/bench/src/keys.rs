//! Which key record number `i` has, and back, without storing a key.
//!
//! Records are numbered in the order of their creation (`index`). A bijection of `0..2^bits` gives each index its
//! *rank*: its place in key order. The key is the rank, spread over the whole key space with low bits that look random,
//! so that a page sees what it would see of random keys. Both directions are a handful of multiplications.

use std::path::Path;
use std::sync::Arc;

use zonda_rt::{Permutation, Seed};

use crate::{BenchError, Result, sosd, spread::Spread};

/// How the order of creation and the order of keys relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each new record lies at a random place among the keys.
    Random,
    /// Each new record has the highest key so far.
    Sorted,
}

/// The keys of one data set.
///
/// Always: `index_of(key(i)) == Some(i)` for every `i < capacity`, and keys compare as their ranks do.
#[derive(Clone, Debug)]
pub struct KeySpace {
    key_bytes: usize,
    bits: u32,
    order: Order,
    padding: u64,
    scramble: Permutation,
    /// The keys by rank, where they are given instead of computed.
    given: Option<Arc<[u64]>>,
}

/// Keys from files are 64-bit numbers.
const GIVEN_KEY_BYTES: usize = 8;

/// No file has more keys.
const GIVEN_BITS_MAX: u32 = 40;

/// Room for keys of up to 1,000 bytes and no more: what the issue asks of the store.
const KEY_BYTES_MAX: usize = 1_000;

impl KeySpace {
    /// Keys of `key_bytes` bytes for records `0..capacity`.
    ///
    /// # Errors
    /// `Usage` when `key_bytes` is 0, above 1,000 or too short to tell `capacity` records apart.
    pub fn new(key_bytes: usize, capacity: u64, order: Order, seed: Seed) -> Result<Self> {
        let bits = u64::BITS - capacity.saturating_sub(1).leading_zeros();
        let bits = bits.max(1);
        if key_bytes > KEY_BYTES_MAX || key_bytes * 8 < bits as usize {
            let expected = format!("{capacity} records need {} to {KEY_BYTES_MAX} bytes", bits.div_ceil(8));
            return Err(BenchError::Usage { option: "--key-bytes", given: key_bytes.to_string(), expected });
        }
        let scramble = Permutation::up_to(u64::MAX >> (u64::BITS - bits), &mut seed.derive("key order").rng());
        Ok(Self { key_bytes, bits, order, padding: seed.derive("key padding").0, scramble, given: None })
    }

    /// Keys of 8 bytes from a SOSD file, evenly spread over it, for records `0..capacity`. Holds 8 bytes per key in memory.
    ///
    /// # Errors
    /// As [`new`](Self::new); `Io` when the file cannot be read, `Usage` when it has too few different keys.
    pub fn given(path: &Path, capacity: u64, order: Order, seed: Seed) -> Result<Self> {
        let keys = Self::new(GIVEN_KEY_BYTES, capacity, order, seed)?;
        let given = sosd::sample(path, keys.given_len())?;
        Ok(Self { given: Some(given.into()), ..keys })
    }

    /// Keys of 8 bytes that are spread so, for records `0..capacity`. Holds 8 bytes per key in memory.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn spread(spread: Spread, capacity: u64, order: Order, seed: Seed) -> Result<Self> {
        let keys = Self::new(GIVEN_KEY_BYTES, capacity, order, seed)?;
        let given = spread.draw(keys.given_len(), seed);
        Ok(Self { given: Some(given.into()), ..keys })
    }

    fn given_len(&self) -> usize {
        1 << self.bits.min(GIVEN_BITS_MAX)
    }

    /// Length of every key.
    #[must_use]
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Puts the key of record `index` into `into`.
    pub fn key(&self, index: u64, into: &mut Vec<u8>) {
        let rank = self.rank_of(index);
        let number = self.number(rank).to_be_bytes();
        into.clear();
        into.extend_from_slice(&number[..self.key_bytes.min(8)]);
        let mut pad = self.padding ^ rank;
        while into.len() < self.key_bytes {
            pad = mix(pad);
            let take = (self.key_bytes - into.len()).min(8);
            into.extend_from_slice(&pad.to_be_bytes()[..take]);
        }
    }

    /// The record that `key` belongs to, or `None` when it is no key of this space.
    #[must_use]
    pub fn index_of(&self, key: &[u8]) -> Option<u64> {
        let mut number = [0; 8];
        let head = self.key_bytes.min(8);
        number[..head].copy_from_slice(key.get(..head)?);
        let index = self.index_at(self.rank_at(u64::from_be_bytes(number))?);
        let mut expected = Vec::with_capacity(self.key_bytes);
        self.key(index, &mut expected);
        (expected == key).then_some(index)
    }

    /// Place of record `index` in key order, among `span` places.
    #[must_use]
    pub fn rank_of(&self, index: u64) -> u64 {
        match self.order {
            Order::Random => self.scramble.forward(index),
            Order::Sorted => index,
        }
    }

    /// The record at place `rank` of key order; it may not have been created yet.
    #[must_use]
    pub fn index_at(&self, rank: u64) -> u64 {
        match self.order {
            Order::Random => self.scramble.backward(rank),
            Order::Sorted => rank,
        }
    }

    /// The ranks of the first `existing` records lie in `0..span`.
    #[must_use]
    pub fn span(&self, existing: u64) -> u64 {
        match self.order {
            Order::Random => 1u64.checked_shl(self.bits).unwrap_or(u64::MAX),
            Order::Sorted => existing,
        }
    }

    /// The rank whose number this would be.
    fn rank_at(&self, number: u64) -> Option<u64> {
        match &self.given {
            None => Some(number >> (u64::BITS - self.bits)),
            Some(given) => given.binary_search(&number).ok().map(|rank| rank as u64),
        }
    }

    /// The first 8 bytes of a key: the rank on top, bits that depend on it below; or the number that was given for it.
    fn number(&self, rank: u64) -> u64 {
        if let Some(given) = &self.given {
            return usize::try_from(rank).ok().and_then(|rank| given.get(rank)).copied().unwrap_or(u64::MAX);
        }
        let free = u64::BITS - self.bits;
        let low = mix(self.padding.wrapping_add(rank)).checked_shr(self.bits).unwrap_or(0);
        rank.checked_shl(free).unwrap_or(0) | low
    }
}

/// SplitMix64's output function.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(keys: &KeySpace, index: u64) -> Vec<u8> {
        let mut key = Vec::new();
        keys.key(index, &mut key);
        key
    }

    #[test]
    fn every_index_has_its_own_key_and_comes_back() {
        for (key_bytes, capacity) in [(1, 256), (2, 1_000), (8, 5_000), (16, 3_000), (100, 300), (8, 1)] {
            for order in [Order::Random, Order::Sorted] {
                let keys = KeySpace::new(key_bytes, capacity, order, Seed(3)).unwrap();
                let mut seen = std::collections::BTreeSet::new();
                for index in 0..capacity {
                    let key = key_of(&keys, index);
                    assert_eq!((key.len(), keys.index_of(&key)), (key_bytes, Some(index)));
                    assert!(seen.insert(key));
                }
            }
        }
    }

    #[test]
    fn given_keys_come_back_and_compare_as_ranks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        sosd::tests::write(&path, (0..5_000).map(|at| at * at));
        let keys = KeySpace::given(&path, 3_000, Order::Random, Seed(2)).unwrap();
        let mut by_key: Vec<u64> = (0..3_000).collect();
        by_key.sort_by_key(|index| key_of(&keys, *index));
        assert!(by_key.is_sorted_by_key(|index| keys.rank_of(*index)));
        assert!((0..3_000).all(|index| keys.index_of(&key_of(&keys, index)) == Some(index)));
        assert_eq!(keys.index_of(&2u64.to_be_bytes()), None, "2 is no square");
        assert!(KeySpace::given(&path, 5_000, Order::Random, Seed(2)).is_err(), "8,192 places, 5,000 keys");
    }

    #[test]
    fn spread_keys_come_back_and_compare_as_ranks() {
        for spread in [Spread::Books, Spread::Times, Spread::Ids] {
            let keys = KeySpace::spread(spread, 3_000, Order::Random, Seed(2)).unwrap();
            let mut by_key: Vec<u64> = (0..4_096).collect();
            by_key.sort_by_key(|index| key_of(&keys, *index));
            assert!(by_key.is_sorted_by_key(|index| keys.rank_of(*index)), "{spread:?}");
            assert!((0..4_096).all(|index| keys.index_of(&key_of(&keys, index)) == Some(index)), "{spread:?}");
        }
    }

    #[test]
    fn keys_compare_as_ranks() {
        let keys = KeySpace::new(8, 1_000, Order::Random, Seed(1)).unwrap();
        let mut by_key: Vec<u64> = (0..1_000).collect();
        by_key.sort_by_key(|index| key_of(&keys, *index));
        assert!(by_key.is_sorted_by_key(|index| keys.rank_of(*index)));
        assert!(!by_key.is_sorted());
        let sorted = KeySpace::new(8, 1_000, Order::Sorted, Seed(1)).unwrap();
        assert!((0..999).all(|index| key_of(&sorted, index) < key_of(&sorted, index + 1)));
    }

    #[test]
    fn strangers_are_no_keys() {
        let keys = KeySpace::new(16, 1_000, Order::Random, Seed(1)).unwrap();
        let mut key = key_of(&keys, 5);
        key[15] ^= 1;
        assert_eq!(keys.index_of(&key), None);
        assert_eq!(keys.index_of(b"short"), None);
    }

    #[test]
    fn too_short_keys_are_refused_with_numbers() {
        let error = KeySpace::new(2, 65_537, Order::Random, Seed(0)).unwrap_err().to_string();
        assert!(error.contains("65537 records need 3 to 1000 bytes"), "{error}");
        assert!(KeySpace::new(2, 65_536, Order::Random, Seed(0)).is_ok());
        assert!(KeySpace::new(1_001, 1, Order::Random, Seed(0)).is_err());
        assert!(KeySpace::new(0, 1, Order::Random, Seed(0)).is_err());
    }
}
