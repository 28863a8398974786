//! Tells the file store which LSM-trees its tables belong to: what placement and traces want to know.

use std::collections::{BTreeMap, BTreeSet};

use zonda_files::lsm::{KeyOrder, KeyRange, TreeId, VersionEdit};
use zonda_files::{FilePath, FileStore};

use crate::lsm::{ColumnFamily, Shape};

/// RocksDB's name of the order by bytes.
pub(crate) const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// RocksDB's name of the same backwards.
pub(crate) const REVERSE: &str = "rocksdb.ReverseBytewiseComparator";

/// A table: column family and number.
pub(crate) type TableOf = (u32, u64);

/// A column family that the store was told of.
#[derive(Debug)]
struct Told {
    tree: TreeId,
    /// The name of its keys' order. The first MANIFEST of a new database does not say it.
    comparator: String,
}

/// What the store was told of one database.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    trees: BTreeMap<u32, Told>,
    /// Levels of tables.
    tables: BTreeMap<TableOf, u8>,
}

impl Relay {
    /// The store's number of a column family, if it was told of it.
    pub(crate) fn tree(&self, family: u32) -> Option<TreeId> {
        self.trees.get(&family).map(|told| told.tree)
    }

    /// Tells everything in which `shape` differs from what was told: after another MANIFEST took over.
    pub(crate) fn tell_all(&mut self, store: &FileStore, directory: &FilePath, shape: &Shape) {
        let mut tables: BTreeSet<TableOf> = self.tables.keys().copied().collect();
        for (&number, family) in shape.families() {
            tables.extend(family.levels.values().flat_map(BTreeMap::keys).map(|&table| (number, table)));
        }
        self.tell(store, directory, shape, &tables);
    }

    /// Tells what `shape` says of these tables, one edit a family.
    pub(crate) fn tell(&mut self, store: &FileStore, directory: &FilePath, shape: &Shape, tables: &BTreeSet<TableOf>) {
        let gone = self.trees.keys().filter(|family| !shape.families().contains_key(family)).copied();
        for family in gone.collect::<Vec<_>>() {
            self.forget_family(store, family);
        }
        for (&number, family) in shape.families() {
            let has_another_order = self.trees.get(&number).is_some_and(|told| told.comparator != family.comparator);
            if has_another_order {
                self.forget_family(store, number);
            }
            let told = self.trees.entry(number).or_insert_with(|| Told {
                tree: store.tree(directory, number, order_of(family)),
                comparator: family.comparator.clone(),
            });
            let tree = told.tree;
            let of_family = tables.range((number, 0)..=(number, u64::MAX)).map(|&(_, table)| table);
            let all = family.levels.values().filter(|_| has_another_order).flat_map(BTreeMap::keys).copied();
            let of_family: BTreeSet<u64> = of_family.chain(all).collect();
            let edit = self.edit(directory, number, family, of_family.into_iter());
            if !edit.removed.is_empty() || !edit.added.is_empty() {
                store.apply_edit(tree, &edit);
            }
        }
    }

    /// What changed of these tables of a family; notes that it was told.
    fn edit(
        &mut self,
        directory: &FilePath,
        number: u32,
        family: &ColumnFamily,
        tables: impl Iterator<Item = u64>,
    ) -> VersionEdit {
        let mut edit = VersionEdit::default();
        for table in tables {
            let Ok(path) = directory.join(&format!("{table:06}.sst")) else { continue };
            let now = family.table(table);
            let before = match now {
                Some((level, _)) => self.tables.insert((number, table), level),
                None => self.tables.remove(&(number, table)),
            };
            if before == now.map(|(level, _)| level) {
                continue;
            }
            if before.is_some() {
                edit.removed.push(path.clone());
            }
            if let Some((level, table)) = now {
                let range = KeyRange::new(table.smallest.clone(), table.largest.clone());
                edit.added.push((path, level, range));
            }
        }
        edit
    }

    fn forget_family(&mut self, store: &FileStore, family: u32) {
        if let Some(told) = self.trees.remove(&family) {
            store.forget_tree(told.tree);
        }
        self.tables.retain(|&(of, _), _| of != family);
    }

    /// The database is closed, or gone.
    pub(crate) fn forget(&mut self, store: &FileStore) {
        std::mem::take(&mut self.trees).into_values().for_each(|told| store.forget_tree(told.tree));
        self.tables.clear();
    }
}

/// The order of a family's keys. That of a comparator of the user is not known here; it is taken for that of bytes, which may
/// cost a worse place of a table, nothing else.
fn order_of(family: &ColumnFamily) -> KeyOrder {
    match family.comparator.as_str() {
        REVERSE => KeyOrder::reverse(),
        BYTEWISE => KeyOrder::bytewise(),
        _ => KeyOrder::custom(std::sync::Arc::new(|one: &[u8], other: &[u8]| one.cmp(other))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zonda_device::{Geometry, MemDevice};
    use zonda_files::{FileStoreOptions, StoreId};

    use super::*;
    use crate::lsm::VersionEdit as Edit;
    use crate::lsm::edit::testing::{encode, table};
    use crate::lsm::record::testing::write;

    /// The first MANIFEST of a new database, which `NewDB` writes, says nothing of the order.
    #[test]
    fn an_order_that_becomes_known_later_is_told_with_all_tables() {
        let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 40)).unwrap());
        let store = FileStore::format(device, StoreId(1), false, FileStoreOptions::default()).unwrap();
        let directory = FilePath::parse("/db").unwrap();
        let (mut relay, mut shape) = (Relay::default(), Shape::default());
        let mut told = |edit: &Edit| {
            let mut bytes = Vec::new();
            write(&mut bytes, &encode(edit));
            let tables = shape.feed(&bytes).iter().map(|applied| (applied.column_family, applied.number)).collect();
            relay.tell(&store, &directory, &shape, &tables);
            let shape = store.shape();
            let tree = relay.tree(0).unwrap();
            (shape.order(tree).unwrap().name(), relay.tables.len())
        };
        assert_eq!(told(&Edit { added: vec![(1, table(7, b"k", b"a"))], ..Edit::default() }), ("custom", 1));
        let comparator = Some(REVERSE.as_bytes().to_vec());
        let reverse = KeyOrder::reverse().name();
        assert_eq!(told(&Edit { comparator, ..Edit::default() }), (reverse, 1));
        assert_eq!(told(&Edit { added: vec![(1, table(8, b"z", b"x"))], ..Edit::default() }), (reverse, 2));
    }
}
