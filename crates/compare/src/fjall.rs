//! fjall. A quarter of the budget is memtables, an eighth the block cache; it reads through the system's page cache beside that. Its
//! journal is always written, and synced only when asked for.
//!
//! Its own limit of a memtable does not bound memory: a writer that passes it asks a worker to seal the memtable and goes on, so while
//! workers are behind memtables grow to many times the limit, and they count no more than half of what records of a few bytes take. So
//! this adapter counts what records take, seals the memtable itself, and lets a writer wait until the one before is flushed. By default
//! fjall also keeps filters and indexes of the upper levels in memory for good, and builds the filter of a table of 64 MiB in one piece;
//! here they are partitioned, and live in the cache as other blocks do. Compactions and scans take about as much again as it is told: with
//! half and a quarter of 32 MiB its heap grew to 43 MiB, and its group killed it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fjall::config::{PartitioningPolicy, PinningPolicy};
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use zonda_bench::subject::{Counters, Durability, Visit};
use zonda_bench::{Result, StorePlan, Subject};
use zonda_rt::Mutex;

use crate::peer::{counters, directory, failed};

const NAME: &str = "fjall";
/// One is filled while one is flushed.
const MEMTABLES: u64 = 2;
/// What a record takes in a memtable beside key and value: a node of the skip list, two slices, allocations; an estimate.
const RECORD_OVERHEAD_BYTES: u64 = 184;
/// One of them only flushes, so that compactions do not hold flushes back.
const WORKERS: usize = 2;
/// How often a writer looks whether a memtable is flushed.
const FLUSH_POLL: Duration = Duration::from_millis(1);

/// An open database.
pub(crate) struct Fjall {
    database: Database,
    pairs: Keyspace,
    memtable_bytes_max: u64,
    /// What all records put so far took in memtables.
    put_bytes: AtomicU64,
    /// Whoever seals: a memtable that another writer seals meanwhile has to be flushed first.
    sealing: Mutex<()>,
}

impl Fjall {
    /// Makes an empty database.
    ///
    /// # Errors
    /// `Peer`.
    pub(crate) fn create(plan: &StorePlan) -> Result<Self> {
        let path = directory(NAME, plan)?;
        let builder = Database::builder(&path).cache_size(plan.memory_bytes / 8).worker_threads(WORKERS);
        let database = builder.manual_journal_persist(true).open().map_err(failed(NAME, "open"))?;
        let memtable_bytes_max = plan.memory_bytes / 4 / MEMTABLES;
        let options = || options(plan.memory_bytes);
        let pairs = database.keyspace("pairs", options).map_err(failed(NAME, "make its keyspace"))?;
        Ok(Self { database, pairs, memtable_bytes_max, put_bytes: AtomicU64::new(0), sealing: Mutex::new(()) })
    }

    /// Counts a record. Whoever fills the memtable seals it, once the one before is flushed.
    fn note_put(&self, payload_bytes: usize) -> Result<()> {
        let bytes = RECORD_OVERHEAD_BYTES + payload_bytes as u64;
        let before = self.put_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before / self.memtable_bytes_max == (before + bytes) / self.memtable_bytes_max {
            return Ok(());
        }
        let _sealing = self.sealing.lock();
        while self.pairs.tree.sealed_memtable_count() > 0 {
            zonda_rt::sleep(FLUSH_POLL);
        }
        self.pairs.rotate_memtable().map(drop).map_err(failed(NAME, "seal its memtable"))
    }
}

/// Its own limit of a memtable is never reached: see the head of the file.
fn options(memtable_bytes_max: u64) -> KeyspaceCreateOptions {
    let (pinned, partitioned) = (PinningPolicy::all(false), PartitioningPolicy::all(true));
    KeyspaceCreateOptions::default()
        .max_memtable_size(memtable_bytes_max)
        .filter_block_pinning_policy(pinned.clone())
        .index_block_pinning_policy(pinned)
        .filter_block_partitioning_policy(partitioned.clone())
        .index_block_partitioning_policy(partitioned)
}

impl Subject for Fjall {
    fn device(&self) -> String {
        "fjall 3 (page cache)".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.pairs.insert(key, value).map_err(failed(NAME, "put"))?;
        self.note_put(key.len() + value.len())?;
        if durability == Durability::Synced { self.sync() } else { Ok(()) }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.pairs.remove(key).map_err(failed(NAME, "delete"))?;
        self.note_put(key.len())
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let value = self.pairs.get(key).map_err(failed(NAME, "get"))?;
        into.extend_from_slice(value.as_deref().unwrap_or_default());
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let limit = usize::try_from(pairs).unwrap_or(usize::MAX);
        let mut seen = 0;
        for guard in self.pairs.range(from..).take(limit) {
            let (key, value) = guard.into_inner().map_err(failed(NAME, "scan"))?;
            visit(&key, &value)?;
            seen += 1;
        }
        Ok(seen)
    }

    fn sync(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncData).map_err(failed(NAME, "sync"))
    }

    fn checkpoint(&self) -> Result<()> {
        self.pairs.rotate_memtable_and_wait().map_err(failed(NAME, "flush"))
    }

    fn compact(&self) -> Result<()> {
        self.pairs.major_compact().map_err(failed(NAME, "compact"))
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

    /// The memory that its own limit does not bound.
    #[test]
    fn writers_wait_for_the_memtable_before() {
        let directory = tempfile::tempdir().unwrap();
        let uri = format!("file:{}", directory.path().join("pairs").display());
        let fjall = Fjall::create(&StorePlan::new(uri, 8 << 20, 1)).unwrap();
        let records_max = fjall.memtable_bytes_max / (RECORD_OVERHEAD_BYTES + 16);
        let put = |nth: u64| {
            fjall.put(&nth.to_be_bytes(), &[7; 8], Durability::Buffered).unwrap();
            assert!(fjall.pairs.tree.sealed_memtable_count() <= 1);
            // The other writer goes on while one waits.
            assert!(fjall.pairs.tree.active_memtable().len() as u64 <= 2 * records_max + 2, "after {nth}");
        };
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let put = &put;
                scope.spawn(move || (0..4 * records_max).for_each(|nth| put(2 * nth + thread)));
            }
        });
        fjall.checkpoint().unwrap();
        let mut value = Vec::new();
        assert!(fjall.get(&7_u64.to_be_bytes(), &mut value).unwrap() && value == [7; 8]);
    }
}
