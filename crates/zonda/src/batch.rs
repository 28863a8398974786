//! Batches: several writes that happen together or not at all.

use std::fmt;
use std::sync::{Arc, Weak};

use zonda_tree::BatchOp;

use crate::catalogue::Named;
use crate::limits::BATCH_BYTES_MAX;
use crate::prefix::Prefix;
use crate::store::Store;
use crate::{Durability, Error, Result, Tree, key};

/// Writes to any trees of one store, applied in order by [`Db::write`](crate::Db::write): atomic over a crash, and to snapshots and scans.
/// A later write to the same key wins. At most [`BATCH_BYTES_MAX`] bytes of keys, with the prefixes of named trees, and of values up to
/// [`value_inline`](crate::Options::value_inline); of longer ones 24 bytes for each MiB that they begin. Zones of 1 MiB and less take less.
///
/// # Examples
/// ```
/// use zonda::{Batch, Db};
///
/// let db = Db::open("mem:")?;
/// let log = db.tree("log")?;
/// let mut batch = Batch::new();
/// batch.put("balance", "90").put_in(&log, "0001", "spent 10").delete("pending");
/// db.write(batch)?;
/// # Ok::<(), zonda::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Batch {
    /// Keys with their tree's prefix, and values, back to back.
    bytes: Vec<u8>,
    ops: Vec<Op>,
    /// The trees besides the default one that it writes to, in the order of their prefixes.
    trees: Vec<Arc<Named>>,
    /// Their store, which a batch does not keep open.
    store: Option<Weak<Store>>,
    /// The first thing that was wrong; reported by `write`, before anything is written.
    refused: Option<Error>,
}

/// One write: where it ends in the batch's bytes.
#[derive(Clone, Copy)]
struct Op {
    key_end: usize,
    value_end: usize,
    is_put: bool,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps `key` of the default tree to `value`. A key or value over its limit is refused by `write`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let mut batch = zonda::Batch::new();
    /// batch.put("a", "1").put("a", "2");
    /// db.write(batch)?;
    /// assert_eq!(db.get("a")?, Some(b"2".to_vec()));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.push(Prefix::DEFAULT, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes `key` from the default tree, whether it is there or not.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("a", "1")?;
    /// let mut batch = zonda::Batch::new();
    /// batch.put("b", "1").delete("a");
    /// db.write(batch)?;
    /// assert_eq!((db.contains_key("a")?, db.contains_key("b")?), (false, true));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.push(Prefix::DEFAULT, key.as_ref(), None)
    }

    /// Maps `key` of `tree` to `value`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let by_name = db.tree("by name")?;
    /// let mut batch = zonda::Batch::new();
    /// batch.put("1", "ada").put_in(&by_name, "ada", "1");
    /// db.write(batch)?;
    /// assert_eq!(by_name.get("ada")?, Some(b"1".to_vec()));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn put_in(&mut self, tree: &Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.enlist(tree);
        self.push(tree.named().prefix, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes `key` from `tree`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let by_name = db.tree("by name")?;
    /// let mut batch = zonda::Batch::new();
    /// batch.delete("1").delete_in(&by_name, "ada");
    /// db.write(batch)?;
    /// assert!(!by_name.contains_key("ada")?);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn delete_in(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> &mut Self {
        self.enlist(tree);
        self.push(tree.named().prefix, key.as_ref(), None)
    }

    /// Writes in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of its keys and all its values, long ones too, named trees' prefixes included.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Empties it, keeping its memory for the next.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let mut batch = zonda::Batch::new();
    /// for key in 0..3_u8 {
    ///     batch.put([key], "");
    ///     db.write_with(&batch, zonda::Durability::Buffered)?;
    ///     batch.clear();
    /// }
    /// assert!(batch.is_empty() && batch.len_bytes() == 0);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
        self.trees.clear();
        (self.store, self.refused) = (None, None);
    }

    fn push(&mut self, prefix: Prefix, key: &[u8], value: Option<&[u8]>) -> &mut Self {
        if let Err(error) = key::check(key).and_then(|()| key::check_value(value.unwrap_or_default())) {
            self.refused.get_or_insert(error);
            return self;
        }
        self.bytes.extend_from_slice(prefix.bytes());
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.ops.push(Op { key_end, value_end: self.bytes.len(), is_put: value.is_some() });
        self
    }

    fn enlist(&mut self, tree: &Tree) {
        let named = tree.named();
        let store = self.store.get_or_insert_with(|| Arc::downgrade(tree.store()));
        if !store.ptr_eq(&Arc::downgrade(tree.store())) {
            self.refused.get_or_insert_with(|| Error::OtherStore { name: named.name.clone() });
        }
        if let Err(at) = self.trees.binary_search_by_key(&named.prefix, |known| known.prefix) {
            self.trees.insert(at, Arc::clone(named));
        }
    }

    /// Applies it to `store`.
    ///
    /// # Errors
    /// Those of [`Db::write`](crate::Db::write).
    pub(crate) fn write_to(&self, store: &Arc<Store>, durability: Durability) -> Result<()> {
        self.check(store)?;
        let engine = store.writer()?;
        // In the order of their prefixes: see `Named::admit`.
        let _admitted = self.trees.iter().map(|tree| tree.admit()).collect::<Result<Vec<_>>>()?;
        let ops = self.ops();
        store.admit(&ops)?;
        engine.write(&ops, durability.into())?;
        store.written();
        Ok(())
    }

    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `OtherStore`: the first thing that was wrong.
    fn check(&self, store: &Arc<Store>) -> Result<()> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        match &self.store {
            Some(other) if !other.ptr_eq(&Arc::downgrade(store)) => {
                let name = self.trees.first().map(|tree| tree.name.clone()).unwrap_or_default();
                Err(Error::OtherStore { name })
            }
            _ => Ok(()),
        }
    }

    /// The writes as the engine takes them.
    fn ops(&self) -> Vec<BatchOp<'_>> {
        let mut start = 0;
        let ops = self.ops.iter().map(|op| {
            let key = &self.bytes[start..op.key_end];
            start = op.value_end;
            if op.is_put {
                BatchOp::Put { key, value: &self.bytes[op.key_end..op.value_end] }
            } else {
                BatchOp::Delete { key }
            }
        });
        ops.collect()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (writes, bytes) = (self.len(), self.len_bytes());
        f.debug_struct("Batch")
            .field("writes", &writes)
            .field("bytes", &bytes)
            .field("bytes_max", &BATCH_BYTES_MAX)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Batch, Db};

    /// Two batches that wait for drops of what the other holds would wait for ever.
    #[test]
    fn trees_are_asked_for_in_one_order() {
        let db = Db::open("mem:").expect("memory");
        let trees = ["c", "a", "b"].map(|name| db.tree(name).expect("room"));
        let numbers = |order: [usize; 4]| {
            let mut batch = Batch::new();
            order.iter().for_each(|&at| _ = batch.put_in(&trees[at], "k", "v"));
            batch.trees.iter().map(|tree| tree.prefix.number()).collect::<Vec<_>>()
        };
        assert_eq!(numbers([0, 1, 2, 0]), numbers([2, 1, 1, 0]));
        assert!(numbers([1, 2, 0, 1]).is_sorted() && numbers([1, 2, 0, 1]).len() == 3);
    }
}
