//! redb. Each put is a transaction of its own, without durability unless it is asked for. It reads through the system's page
//! cache beside its own: a quarter of the budget is its cache, so that the rest, and what else its memory group allows, holds pages of the
//! file and what it remembers of commits. Even so a group of 14 MiB for 8 killed it, with 6 MiB of its own: the rest was dirty pages of the
//! file when the kernel needed memory for them. So its group is wider ([`HELD_MORE_BYTES`]), and reports say so.
//!
//! Commits without durability leave traces in memory, some hundred bytes each, until one with it follows: redb's documentation asks for one
//! now and then. Without, a process that does 4 million holds hundreds of MiB more than its cache.

use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Builder, Database, ReadableDatabase, TableDefinition};
use zonda_bench::subject::{Counters, Durability, Visit};
use zonda_bench::{Result, StorePlan, Subject};

use crate::peer::{counters, directory, failed};

const NAME: &str = "redb";
/// What its memory group may hold beyond what its budget allows: dirty pages of its file.
pub(crate) const HELD_MORE_BYTES: u64 = 16 << 20;
/// Every so many commits without durability one is durable: half a MiB of traces, and at the speed of a load a few syncs each second.
const COMMITS_BETWEEN_SYNCS: u64 = 2_500;
const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

/// An open database.
#[derive(Debug)]
pub(crate) struct Redb {
    database: Database,
    /// Commits without durability that were asked for.
    commits: AtomicU64,
}

impl Redb {
    /// Makes an empty database.
    ///
    /// # Errors
    /// `Peer`.
    pub(crate) fn create(plan: &StorePlan) -> Result<Self> {
        let path = directory(NAME, plan)?.join("pairs.redb");
        let cache_bytes = usize::try_from(plan.memory_bytes / 4).unwrap_or(usize::MAX);
        let database = Builder::new().set_cache_size(cache_bytes).create(path).map_err(failed(NAME, "open"))?;
        let redb = Self { database, commits: AtomicU64::new(0) };
        redb.write(redb::Durability::Immediate, |_| Ok(()))?;
        Ok(redb)
    }

    /// For a commit that nobody waits for: durable now and then.
    fn buffered(&self) -> redb::Durability {
        let nth = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        let is_due = nth.is_multiple_of(COMMITS_BETWEEN_SYNCS);
        if is_due { redb::Durability::Immediate } else { redb::Durability::None }
    }

    fn write(
        &self,
        durability: redb::Durability,
        change: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> std::result::Result<(), redb::StorageError>,
    ) -> Result<()> {
        let mut transaction = self.database.begin_write().map_err(failed(NAME, "begin"))?;
        transaction.set_durability(durability).map_err(failed(NAME, "begin"))?;
        {
            let mut table = transaction.open_table(PAIRS).map_err(failed(NAME, "open its table"))?;
            change(&mut table).map_err(failed(NAME, "write"))?;
        }
        transaction.commit().map_err(failed(NAME, "commit"))
    }
}

impl Subject for Redb {
    fn device(&self) -> String {
        "redb 4 (page cache)".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        let durability = match durability {
            Durability::Buffered => self.buffered(),
            Durability::Synced => redb::Durability::Immediate,
        };
        self.write(durability, |table| table.insert(key, value).map(drop))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(self.buffered(), |table| table.remove(key).map(drop))
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let transaction = self.database.begin_read().map_err(failed(NAME, "begin"))?;
        let table = transaction.open_table(PAIRS).map_err(failed(NAME, "open its table"))?;
        let value = table.get(key).map_err(failed(NAME, "get"))?;
        into.extend_from_slice(value.as_ref().map_or(&[], |value| value.value()));
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let transaction = self.database.begin_read().map_err(failed(NAME, "begin"))?;
        let table = transaction.open_table(PAIRS).map_err(failed(NAME, "open its table"))?;
        let limit = usize::try_from(pairs).unwrap_or(usize::MAX);
        let mut seen = 0;
        for pair in table.range(from..).map_err(failed(NAME, "scan"))?.take(limit) {
            let (key, value) = pair.map_err(failed(NAME, "scan"))?;
            visit(key.value(), value.value())?;
            seen += 1;
        }
        Ok(seen)
    }

    fn sync(&self) -> Result<()> {
        self.write(redb::Durability::Immediate, |_| Ok(()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commits_leave_in_memory_is_given_up_now_and_then() {
        let directory = tempfile::tempdir().unwrap();
        let uri = format!("file:{}", directory.path().join("pairs").display());
        let redb = Redb::create(&StorePlan::new(uri, 8 << 20, 1)).unwrap();
        let is_durable = |_| matches!(redb.buffered(), redb::Durability::Immediate);
        let durable: Vec<bool> = (1..=2 * COMMITS_BETWEEN_SYNCS).map(is_durable).collect();
        let at: Vec<usize> = (0..durable.len()).filter(|nth| durable[*nth]).collect();
        assert_eq!(at, [2_499, 4_999]);
    }
}
