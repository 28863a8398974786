//! LMDB through heed. Each put is a transaction of its own, without sync unless it is asked for; memory is the system's page
//! cache behind a map, which no option bounds. Without read-ahead, as its manual wants it for data larger than memory.
//!
//! Opening a map is unsafe because another process could change the file; ours is in a fresh directory.

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use zonda_bench::subject::{Counters, Durability, Visit};
use zonda_bench::{Result, StorePlan, Subject};

use crate::peer::{counters, directory, failed};

const NAME: &str = "lmdb";

/// Room in the map: address space, not memory.
const MAP_BYTES: usize = 1 << 38;

/// More readers than threads ever measured.
const READERS_MAX: u32 = 2_048;

/// An open environment.
#[derive(Debug)]
pub(crate) struct Lmdb {
    env: Env,
    pairs: Database<Bytes, Bytes>,
}

impl Lmdb {
    /// Makes an empty environment.
    ///
    /// # Errors
    /// `Peer`.
    pub(crate) fn create(plan: &StorePlan) -> Result<Self> {
        let path = directory(NAME, plan)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(READERS_MAX);
        // SAFETY: the flags only leave syncs to us; the file is in a directory that was made just now, and nobody else's.
        let env =
            unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC | EnvFlags::NO_READ_AHEAD).open(&path) };
        let env = env.map_err(failed(NAME, "open"))?;
        let mut transaction = env.write_txn().map_err(failed(NAME, "begin"))?;
        let pairs = env.create_database(&mut transaction, None).map_err(failed(NAME, "make its table"))?;
        transaction.commit().map_err(failed(NAME, "commit"))?;
        Ok(Self { env, pairs })
    }
}

impl Subject for Lmdb {
    fn device(&self) -> String {
        "lmdb 0.9 (page cache)".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failed(NAME, "begin"))?;
        self.pairs.put(&mut transaction, key, value).map_err(failed(NAME, "put"))?;
        transaction.commit().map_err(failed(NAME, "commit"))?;
        if durability == Durability::Synced { self.sync() } else { Ok(()) }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failed(NAME, "begin"))?;
        self.pairs.delete(&mut transaction, key).map_err(failed(NAME, "delete"))?;
        transaction.commit().map_err(failed(NAME, "commit"))
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let transaction = self.env.read_txn().map_err(failed(NAME, "begin"))?;
        let value = self.pairs.get(&transaction, key).map_err(failed(NAME, "get"))?;
        into.extend_from_slice(value.unwrap_or_default());
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let transaction = self.env.read_txn().map_err(failed(NAME, "begin"))?;
        let limit = usize::try_from(pairs).unwrap_or(usize::MAX);
        let mut seen = 0;
        // An empty key is none of LMDB's: a scan from it is one from the beginning.
        let all = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        let found: Box<dyn Iterator<Item = _>> = if from.is_empty() {
            Box::new(self.pairs.iter(&transaction).map_err(failed(NAME, "scan"))?)
        } else {
            Box::new(self.pairs.range(&transaction, &all).map_err(failed(NAME, "scan"))?)
        };
        for pair in found.take(limit) {
            let (key, value) = pair.map_err(failed(NAME, "scan"))?;
            visit(key, value)?;
            seen += 1;
        }
        Ok(seen)
    }

    fn sync(&self) -> Result<()> {
        self.env.force_sync().map_err(failed(NAME, "sync"))
    }

    fn checkpoint(&self) -> Result<()> {
        self.sync()
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn check(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(counters())
    }

    fn close(&self) -> Result<()> {
        self.sync()
    }
}
