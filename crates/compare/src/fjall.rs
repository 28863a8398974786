//! fjall. Half of the budget is memtables, half the block cache; it reads through the system's page cache beside that. Its
//! journal is always written, and synced only when asked for.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use zonda_bench::subject::{Counters, Durability, Visit};
use zonda_bench::{Result, StorePlan, Subject};

use crate::peer::{counters, directory, failed};

const NAME: &str = "fjall";

/// An open database.
pub(crate) struct Fjall {
    database: Database,
    pairs: Keyspace,
}

impl Fjall {
    /// Makes an empty database.
    ///
    /// # Errors
    /// `Peer`.
    pub(crate) fn create(plan: &StorePlan) -> Result<Self> {
        const MEMTABLES: u64 = 2;
        let path = directory(NAME, plan)?;
        let half = plan.memory_bytes / 2;
        let builder = Database::builder(&path).cache_size(half);
        let database = builder.manual_journal_persist(true).open().map_err(failed(NAME, "open"))?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(half / MEMTABLES);
        let pairs = database.keyspace("pairs", options).map_err(failed(NAME, "make its keyspace"))?;
        Ok(Self { database, pairs })
    }
}

impl Subject for Fjall {
    fn device(&self) -> String {
        "fjall 3 (page cache)".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.pairs.insert(key, value).map_err(failed(NAME, "put"))?;
        if durability == Durability::Synced { self.sync() } else { Ok(()) }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.pairs.remove(key).map_err(failed(NAME, "delete"))
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
