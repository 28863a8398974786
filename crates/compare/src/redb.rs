//! redb. Each put is a transaction of its own, without durability unless it is asked for. It reads through the system's page
//! cache beside its own.

use redb::{Builder, Database, ReadableDatabase, TableDefinition};
use zonda_bench::subject::{Counters, Durability, Visit};
use zonda_bench::{Result, StorePlan, Subject};

use crate::peer::{counters, directory, failed};

const NAME: &str = "redb";
const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

/// An open database.
#[derive(Debug)]
pub(crate) struct Redb(Database);

impl Redb {
    /// Makes an empty database.
    ///
    /// # Errors
    /// `Peer`.
    pub(crate) fn create(plan: &StorePlan) -> Result<Self> {
        let path = directory(NAME, plan)?.join("pairs.redb");
        let cache_bytes = usize::try_from(plan.memory_bytes).unwrap_or(usize::MAX);
        let database = Builder::new().set_cache_size(cache_bytes).create(path).map_err(failed(NAME, "open"))?;
        let redb = Self(database);
        redb.write(redb::Durability::Immediate, |_| Ok(()))?;
        Ok(redb)
    }

    fn write(
        &self,
        durability: redb::Durability,
        change: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> std::result::Result<(), redb::StorageError>,
    ) -> Result<()> {
        let mut transaction = self.0.begin_write().map_err(failed(NAME, "begin"))?;
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
            Durability::Buffered => redb::Durability::None,
            Durability::Synced => redb::Durability::Immediate,
        };
        self.write(durability, |table| table.insert(key, value).map(drop))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(redb::Durability::None, |table| table.remove(key).map(drop))
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let transaction = self.0.begin_read().map_err(failed(NAME, "begin"))?;
        let table = transaction.open_table(PAIRS).map_err(failed(NAME, "open its table"))?;
        let value = table.get(key).map_err(failed(NAME, "get"))?;
        into.extend_from_slice(value.as_ref().map_or(&[], |value| value.value()));
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let transaction = self.0.begin_read().map_err(failed(NAME, "begin"))?;
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
