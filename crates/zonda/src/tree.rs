//! One tree of a store: all reads and writes of single keys and ranges.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use zonda_tree::BatchOp;

use crate::catalogue::Named;
use crate::chunks::{self, PutChunks};
use crate::key::{self, KeyRange};
use crate::range::Range;
use crate::snapshot::View;
use crate::store::Store;
use crate::{Durability, Error, Result};

/// What an atomic update wants done with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Leave it as it is.
    Keep,
    /// Store this value.
    Put(Vec<u8>),
    /// Remove it.
    Delete,
}

/// How a [`compare_and_swap`](Tree::compare_and_swap) went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The key had the expected value and has the new one now.
    Done,
    /// The key had another value, which it still has.
    Mismatch {
        /// What it has; `None` if it does not exist.
        current: Option<Vec<u8>>,
    },
}

impl Swap {
    /// Whether the new value was stored.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }
}

/// A map of byte keys to byte values, ordered by key. A store has one without a name, to which [`Db`](crate::Db) derefs, and any number of
/// named ones ([`Db::tree`](crate::Db::tree)).
///
/// Cheap to clone, `Send` and `Sync`. A read returns the newest acknowledged value of its key; it may be one that is not yet synced.
/// Keys take 0 to [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX) bytes, values 0 to [`VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX).
///
/// Every call may fail with `Closed`, `Forked`, `TreeDropped`, or what reading the device brings (`Io`, `Device`, `Damaged`), and with
/// `Poisoned` where the store stopped within a batch, so that nobody sees a part of it; writes also with `ReadOnly`, `Poisoned`, `NoSpace`,
/// `DiskFull`, and those of pairs with `TooLittleMemory` when the index has outgrown the memory budget: deletes and
/// [`Db::compact`](crate::Db::compact) make room, or a larger budget at the next opening. A write that fails with another error than a
/// poisoned store's was not made; one that was to be synced may have been made and not be durable yet, if there was no space for that
/// (`NoSpace`, `DiskFull`).
#[derive(Clone)]
pub struct Tree {
    store: Arc<Store>,
    named: Arc<Named>,
}

impl Tree {
    pub(crate) fn new(store: Arc<Store>, named: Arc<Named>) -> Self {
        Self { store, named }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn named(&self) -> &Arc<Named> {
        &self.named
    }

    /// Its name; empty for the default tree.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Maps `key` to `value`, as durably as [`Options::durability`](crate::Options::durability) says.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// db.put([0x00, 0xff], [])?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("insert", "set"))]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, self.store.durability())
    }

    /// As [`put`](Self::put), as durably as this call says.
    ///
    /// # Errors
    /// As `put`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put_with("key", "value", zonda::Durability::Synced)?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        let value = value.as_ref();
        key::check_value(value)?;
        self.write_to(key.as_ref(), |engine, full| {
            self.store.admit_pairs()?;
            Ok(engine.put(full, value, durability.into())?)
        })
    }

    /// The value of `key`. Costs at most one read of the device, plus one for each MiB of a long value, in flight together.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.get("key")?, Some(b"value".to_vec()));
    /// assert_eq!(db.get("other")?, None);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Puts the value of `key` into `value`, replacing what is there, and says whether the key exists. For loops that allocate nothing.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// let mut value = Vec::new();
    /// assert!(db.get_into("key", &mut value)?);
    /// assert_eq!(value, b"value");
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.read(|engine| key::with(self.named.prefix, key.as_ref(), |full| Ok(engine.get_into(full, value)?)))
    }

    /// The values of several keys, in their order, with the reads of the device in flight together. Each is the newest of its own
    /// moment; for one moment of all use a [`snapshot`](crate::Db::snapshot).
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("a", "1")?;
    /// assert_eq!(db.multi_get(["b", "a"])?, [None, Some(b"1".to_vec())]);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias = "get_many")]
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.read(|engine| {
            let keys = key::all(self.named.prefix, keys)?;
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            Ok(engine.multi_get(&keys)?)
        })
    }

    /// Whether `key` exists. Costs at most one read of the device: a long value is not read.
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert!(!db.contains_key("key")?);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.read(|engine| key::with(self.named.prefix, key.as_ref(), |full| Ok(engine.contains(full)?)))
    }

    /// Removes `key`, whether it is there or not: a delete does not read. For the old value use [`fetch_update`](Self::fetch_update).
    ///
    /// # Errors
    /// `KeyTooLong`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// db.delete("key")?;
    /// assert_eq!(db.get("key")?, None);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("remove", "del"))]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, self.store.durability())
    }

    /// As [`delete`](Self::delete), as durably as this call says.
    ///
    /// # Errors
    /// As `delete`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.delete_with("key", zonda::Durability::Synced)?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn delete_with(&self, key: impl AsRef<[u8]>, durability: Durability) -> Result<()> {
        self.write_to(key.as_ref(), |engine, full| Ok(engine.delete(full, durability.into())?))
    }

    /// Replaces the value of `key` by `new` if it is `expected` (`None`: the key does not exist), in one step that no other write
    /// comes between. A swap that is done is as durable as [`Options::durability`](crate::Options::durability) says.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong` for `new`.
    ///
    /// # Examples
    /// ```
    /// use zonda::Swap;
    /// # let db = zonda::Db::open("mem:")?;
    /// assert!(db.compare_and_swap("lock", None, Some(b"mine"))?.is_done());
    /// let swap = db.compare_and_swap("lock", None, Some(b"yours"))?;
    /// assert_eq!(swap, Swap::Mismatch { current: Some(b"mine".to_vec()) });
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Swap> {
        self.compare_and_swap_with(key, expected, new, self.store.durability())
    }

    /// As [`compare_and_swap`](Self::compare_and_swap), as durably as this call says.
    ///
    /// # Errors
    /// As `compare_and_swap`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert!(db.compare_and_swap_with("lock", None, Some(b"mine"), zonda::Durability::Synced)?.is_done());
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        durability: Durability,
    ) -> Result<Swap> {
        key::check_value(new.unwrap_or_default())?;
        let mut done = false;
        let decide = |current: Option<&[u8]>| {
            done = current == expected;
            match new {
                _ if !done => Update::Keep,
                Some(new) => Update::Put(new.to_vec()),
                None => Update::Delete,
            }
        };
        let current = self.fetch_update_with(key, decide, durability)?;
        Ok(if done { Swap::Done } else { Swap::Mismatch { current } })
    }

    /// Replaces the value of `key` by what `decide` makes of it, in one step that no other write comes between, and returns the value
    /// before.
    ///
    /// `decide` may be called more than once and holds up other writers of the same key, and of those that share its lock: it must be short
    /// and must not use the store. What is stored is as durable as [`Options::durability`](crate::Options::durability) says.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong` for the new value.
    ///
    /// # Examples
    /// ```
    /// use zonda::Update;
    /// # let db = zonda::Db::open("mem:")?;
    /// let count = |old: Option<&[u8]>| Update::Put(vec![old.map_or(1, |old| old[0] + 1)]);
    /// db.fetch_update("hits", count)?;
    /// assert_eq!(db.fetch_update("hits", count)?, Some(vec![1]));
    /// assert_eq!(db.get("hits")?, Some(vec![2]));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("fetch_and_update", "read_modify_write"))]
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        decide: impl FnMut(Option<&[u8]>) -> Update,
    ) -> Result<Option<Vec<u8>>> {
        self.fetch_update_with(key, decide, self.store.durability())
    }

    /// As [`fetch_update`](Self::fetch_update), as durably as this call says.
    ///
    /// # Errors
    /// As `fetch_update`.
    ///
    /// # Examples
    /// ```
    /// use zonda::{Durability, Update};
    /// # let db = zonda::Db::open("mem:")?;
    /// let next = |old: Option<&[u8]>| Update::Put(vec![old.map_or(1, |old| old[0] + 1)]);
    /// db.fetch_update_with("ticket", next, Durability::Synced)?;
    /// assert_eq!(db.get("ticket")?, Some(vec![1]));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn fetch_update_with(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<&[u8]>) -> Update,
        durability: Durability,
    ) -> Result<Option<Vec<u8>>> {
        let durability = durability.into();
        let mut refused = None;
        let admitted = |update| match update {
            Update::Put(_) => self.store.admit_pairs().and_then(|()| checked(update)),
            Update::Keep | Update::Delete => checked(update),
        };
        let mut decide = |current: Option<&[u8]>| match admitted(decide(current)) {
            Ok(update) => update,
            Err(error) => {
                refused = Some(error);
                zonda_tree::Update::Keep
            }
        };
        let before = self.write_to(key.as_ref(), |engine, full| Ok(engine.update(full, durability, &mut decide)?))?;
        refused.map_or(Ok(before), Err)
    }

    /// The pairs of a key range, as of now: a [`Range`] sees one consistent moment while writers go on. An empty or inverted range has no
    /// pairs. For all pairs use [`iter`](Self::iter).
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// for name in ["ada", "bob", "cyd"] {
    ///     db.put(name, "")?;
    /// }
    /// assert_eq!(db.range("ada".."cyd")?.count(), 2);
    /// // The nearest below, and the nearest from a key on.
    /// let key = |pair: Option<zonda::Pair>| pair.map(|pair| String::from_utf8(pair.0).expect("a name"));
    /// assert_eq!(key(db.range(.."bob")?.next_back().transpose()?).as_deref(), Some("ada"));
    /// assert_eq!(key(db.range("bobby"..)?.next().transpose()?).as_deref(), Some("cyd"));
    /// // Bounds are of one type that gives bytes: `&str`, `String`, `Vec<u8>`, `[u8; N]`.
    /// assert_eq!(db.range(vec![b'b']..=b"bob".to_vec())?.count(), 1);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("scan", "seek"))]
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
        self.view()?.range(range)
    }

    /// The pairs whose keys begin with `start`, as of now. See [`range`](Self::range).
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("user:1", "ada")?;
    /// db.put("user:2", "bob")?;
    /// db.put("visits", "7")?;
    /// assert_eq!(db.prefix("user:")?.count(), 2);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias = "scan_prefix")]
    pub fn prefix(&self, start: impl AsRef<[u8]>) -> Result<Range> {
        self.view()?.prefix(start)
    }

    /// All pairs, as of now. See [`range`](Self::range). There is no `len`: writes do not read, so nobody knows it without
    /// [counting](Range::count_pairs); whether there are any tells [`is_empty`](Self::is_empty).
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// for pair in db.iter()? {
    ///     let (key, value) = pair?;
    ///     assert_eq!((key, value), (b"key".to_vec(), b"value".to_vec()));
    /// }
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn iter(&self) -> Result<Range> {
        self.view()?.iter()
    }

    /// Removes all keys of a range and returns how many. Works in batches of up to 1,024 keys, so memory is bounded and the
    /// log does not swell; *not* atomic as a whole: after an error or a crash a part from the low end is gone, and keys that others put
    /// meanwhile may stay. For few keys use a [`Batch`](crate::Batch).
    ///
    /// # Errors
    /// Those of every write.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// for key in 0..100_u8 {
    ///     db.put([key], "")?;
    /// }
    /// assert_eq!(db.delete_range([10]..[20])?, 10);
    /// assert_eq!(db.iter()?.count(), 90);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.delete_range_with(range, self.store.durability())
    }

    /// As [`delete_range`](Self::delete_range), as durably as this call says: [`Durability::Synced`] syncs each batch.
    ///
    /// # Errors
    /// As `delete_range`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("user:1", "ada")?;
    /// assert_eq!(db.delete_range_with("user:".."user;", zonda::Durability::Synced)?, 1);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn delete_range_with<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>, durability: Durability) -> Result<u64> {
        self.delete_all_of(&KeyRange::of(self.named.prefix, &range), durability)
    }

    /// Removes all keys that begin with `start`, and returns how many. As [`delete_range`](Self::delete_range) otherwise.
    ///
    /// # Errors
    /// As `delete_range`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.ingest([("user:1", "ada"), ("user:2", "bob"), ("visits", "7")])?;
    /// assert_eq!(db.delete_prefix("user:")?, 2);
    /// assert_eq!(db.delete_prefix("")?, 1);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("clear", "remove_prefix"))]
    pub fn delete_prefix(&self, start: impl AsRef<[u8]>) -> Result<u64> {
        self.delete_prefix_with(start, self.store.durability())
    }

    /// As [`delete_prefix`](Self::delete_prefix), as durably as this call says: [`Durability::Synced`] syncs each batch.
    ///
    /// # Errors
    /// As `delete_range`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put([0xff, 0xff, 1], "the last prefix of all")?;
    /// assert_eq!(db.delete_prefix_with([0xff, 0xff], zonda::Durability::Synced)?, 1);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn delete_prefix_with(&self, start: impl AsRef<[u8]>, durability: Durability) -> Result<u64> {
        self.delete_all_of(&KeyRange::prefixed(self.named.prefix, start.as_ref()), durability)
    }

    /// Stores pairs that come in strictly ascending key order, and returns how many. Faster than single puts, and leaves full leaves where
    /// the keys are above all others. Works in batches; *not* atomic as a whole: after an error or a crash a part from the low end is
    /// stored.
    ///
    /// # Errors
    /// `OutOfOrder` names the first item that is not above the one before; `KeyTooLong`, `ValueTooLong`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let squares = (0..1000_u64).map(|n| (n.to_be_bytes(), (n * n).to_be_bytes()));
    /// assert_eq!(db.ingest(squares)?, 1000);
    /// assert!(matches!(db.ingest([("b", ""), ("a", "")]), Err(zonda::Error::OutOfOrder { item: 1 })));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias = "bulk_load")]
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<u64> {
        self.ingest_with(pairs, self.store.durability())
    }

    /// As [`ingest`](Self::ingest), as durably as this call says: [`Durability::Synced`] syncs each batch, of up to 32 KiB.
    ///
    /// # Errors
    /// As `ingest`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert_eq!(db.ingest_with([("a", "1"), ("b", "2")], zonda::Durability::Synced)?, 2);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn ingest_with<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
        durability: Durability,
    ) -> Result<u64> {
        let engine = self.store.writer_in_chunks(&self.named)?;
        let write = |batch: &[BatchOp<'_>]| self.write_chunk(batch, durability);
        let mut chunks = PutChunks::new(chunks::chunk_bytes(engine), write);
        let ingested = ingest_into(&mut chunks, self.named.prefix.bytes(), pairs);
        chunks.flush()?;
        ingested
    }

    pub(crate) fn view(&self) -> Result<View> {
        let view = View::new(&self.store, self.named.prefix)?;
        self.named.check()?;
        Ok(view)
    }

    /// What `read` finds, if the tree was not dropped meanwhile. That is asked afterwards: pairs are deleted only once their tree counts as
    /// dropped, so none of them is missed in a tree that does not.
    fn read<T>(&self, read: impl FnOnce(&zonda_tree::Engine) -> Result<T>) -> Result<T> {
        let found = read(self.store.reader()?)?;
        self.named.check()?;
        Ok(found)
    }

    fn delete_all_of(&self, range: &KeyRange, durability: Durability) -> Result<u64> {
        let engine = self.store.writer_in_chunks(&self.named)?;
        if range.is_empty() {
            return Ok(0);
        }
        let (_, high) = range.bounds();
        let write = |batch: &[BatchOp<'_>]| self.write_chunk(batch, durability);
        let deleted = chunks::delete_range(engine, range.low.clone(), high, write)?;
        // A drop between two batches leaves the next one nothing to find.
        self.named.check()?;
        Ok(deleted)
    }

    /// Writes one batch of a long operation. Other trees may be made and dropped between two of them.
    pub(crate) fn write_chunk(&self, batch: &[BatchOp<'_>], durability: Durability) -> Result<()> {
        let (engine, _admitted) = self.store.writer_to(&self.named)?;
        self.store.admit(batch)?;
        engine.write(batch, durability.into())?;
        self.store.written();
        Ok(())
    }

    /// Runs one write of one key, and wakes the log worker.
    fn write_to<T>(&self, key: &[u8], write: impl FnOnce(&zonda_tree::Engine, &[u8]) -> Result<T>) -> Result<T> {
        let (engine, _admitted) = self.store.writer_to(&self.named)?;
        let result = key::with(self.named.prefix, key, |full| write(engine, full));
        self.store.written();
        result
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("name", &self.named.name).finish_non_exhaustive()
    }
}

fn checked(update: Update) -> Result<zonda_tree::Update> {
    Ok(match update {
        Update::Keep => zonda_tree::Update::Keep,
        Update::Delete => zonda_tree::Update::Delete,
        Update::Put(value) => {
            key::check_value(&value)?;
            zonda_tree::Update::Put(value)
        }
    })
}

/// Hands pairs on as long as they ascend. Whatever the result, what was handed on is to be flushed.
fn ingest_into<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    chunks: &mut PutChunks<impl FnMut(&[BatchOp<'_>]) -> Result<()>>,
    prefix: &[u8],
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Result<u64> {
    let mut last: Option<Vec<u8>> = None;
    let mut item = 0;
    for (key, value) in pairs {
        let (key, value) = (key.as_ref(), value.as_ref());
        if last.as_deref().is_some_and(|last| last >= key) {
            return Err(Error::OutOfOrder { item });
        }
        key::check(key)?;
        key::check_value(value)?;
        chunks.put(prefix, key, value)?;
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        item += 1;
    }
    Ok(item)
}
