//! The baseline `--design map`: the standard library's ordered map behind one lock, with no device at all.
//!
//! Its figures are what the bench itself costs, and an upper bound for everything else.

use std::collections::BTreeMap;
use std::ops::Bound;

use zonda_rt::RwLock;
use zonda_rt::atomic::{AtomicU64, Ordering};

use super::{Counters, Durability, Subject, Visit};
use crate::Result;

/// An ordered map in memory.
#[derive(Debug, Default)]
pub struct MapSubject {
    pairs: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
    gets: AtomicU64,
}

impl Subject for MapSubject {
    fn device(&self) -> String {
        "none (BTreeMap)".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8], _: Durability) -> Result<()> {
        self.pairs.write().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.pairs.write().remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        into.clear();
        let pairs = self.pairs.read();
        let found = pairs.get(key);
        into.extend_from_slice(found.map_or(&[], Vec::as_slice));
        Ok(found.is_some())
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let map = self.pairs.read();
        let limit = usize::try_from(pairs).unwrap_or(usize::MAX);
        let range = (Bound::Included(from), Bound::Unbounded);
        let mut seen = 0;
        for (key, value) in map.range::<[u8], _>(range).take(limit) {
            visit(key, value)?;
            seen += 1;
        }
        Ok(seen)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn check(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters { gets: self.gets.load(Ordering::Relaxed), ..Counters::default() })
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
