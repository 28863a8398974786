//! Consistent views of a whole store, and of one tree in it.

use std::fmt;
use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use crate::catalogue::{check_name, name_key, names_as_of, prefix_from_record};
use crate::key::{self, KeyRange};
use crate::prefix::Prefix;
use crate::range::{Pair, Range};
use crate::store::Store;
use crate::{Error, Result};

/// The store as of one moment: every batch is wholly in it or not at all. Reads of the default tree are its own (it derefs to a
/// [`View`]); [`tree`](Snapshot::tree) gives those of the others.
///
/// It costs nothing until something changes; then the first change of each leaf keeps its old state, and the zones that hold old
/// pages are not reused. When that exceeds its share of the memory budget, or zones run out, the oldest snapshot is given up and answers
/// [`SnapshotTooOld`](crate::Error::SnapshotTooOld), never something wrong. Dropping it gives everything back. Cheap to clone.
///
/// # Examples
/// ```
/// # let db = zonda::Db::open("mem:")?;
/// db.put("key", "old")?;
/// let snapshot = db.snapshot()?;
/// db.put("key", "new")?;
/// assert_eq!(snapshot.get("key")?, Some(b"old".to_vec()));
/// # Ok::<(), zonda::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    default_tree: View,
}

impl Snapshot {
    pub(crate) fn new(store: &Arc<Store>) -> Result<Self> {
        Ok(Self { default_tree: View::new(store, Prefix::DEFAULT)? })
    }

    /// The tree that was called `name` at that moment.
    ///
    /// # Errors
    /// `NoSuchTree`; those of reading.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.tree("users")?.put("ada", "1815")?;
    /// let snapshot = db.snapshot()?;
    /// db.drop_tree("users")?;
    /// assert_eq!(snapshot.tree("users")?.get("ada")?, Some(b"1815".to_vec()));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn tree(&self, name: &str) -> Result<View> {
        let no_such = || Error::NoSuchTree { name: name.to_owned() };
        check_name(name).map_err(|_| no_such())?;
        let mut record = Vec::new();
        if !self.default_tree.get_full(&name_key(name), &mut record)? {
            return Err(no_such());
        }
        let mut view = self.default_tree.clone();
        view.prefix = prefix_from_record(&record)?;
        Ok(view)
    }

    /// Names of all trees of that moment but the default one, in order.
    ///
    /// # Errors
    /// `SnapshotTooOld`; those of reading.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.tree("users")?;
    /// let snapshot = db.snapshot()?;
    /// db.drop_tree("users")?;
    /// assert_eq!((snapshot.tree_names()?, db.tree_names()?), (vec!["users".to_owned()], vec![]));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn tree_names(&self) -> Result<Vec<String>> {
        names_as_of(self.store().reader()?, self.engine_snapshot())
    }

    /// The engine's snapshot, for copying everything.
    pub(crate) fn engine_snapshot(&self) -> &zonda_tree::Snapshot {
        self.default_tree.snapshot()
    }

    /// The store it is of.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.default_tree.store
    }
}

impl Deref for Snapshot {
    type Target = View;

    fn deref(&self) -> &View {
        &self.default_tree
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// One tree as of a [`Snapshot`]. Cheap to clone; keeps the snapshot open.
///
/// # Examples
/// ```
/// # let db = zonda::Db::open("mem:")?;
/// let users = db.tree("users")?;
/// users.put("ada", "1815")?;
/// let view = db.snapshot()?.tree("users")?;
/// users.delete("ada")?;
/// assert_eq!(view.get("ada")?, Some(b"1815".to_vec()));
/// # Ok::<(), zonda::Error>(())
/// ```
#[derive(Clone)]
pub struct View {
    store: Arc<Store>,
    /// Taken by `drop` alone, and not dropped in a forked child.
    snapshot: Option<zonda_tree::Snapshot>,
    prefix: Prefix,
}

impl View {
    pub(crate) fn new(store: &Arc<Store>, prefix: Prefix) -> Result<Self> {
        let snapshot = Some(store.reader()?.snapshot()?);
        Ok(Self { store: Arc::clone(store), snapshot, prefix })
    }

    fn snapshot(&self) -> &zonda_tree::Snapshot {
        self.snapshot.as_ref().expect("only drop takes it")
    }

    /// The value of `key` at that moment.
    ///
    /// # Errors
    /// `KeyTooLong`, `SnapshotTooOld`; those of reading.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let before = db.snapshot()?;
    /// db.put("key", "value")?;
    /// assert_eq!((before.get("key")?, db.snapshot()?.get("key")?), (None, Some(b"value".to_vec())));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Puts the value of `key` at that moment into `value`, replacing what is there, and says whether the key existed. For loops that
    /// allocate nothing.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// let (snapshot, mut value) = (db.snapshot()?, Vec::new());
    /// assert!(snapshot.get_into("key", &mut value)? && value == b"value");
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        key::with(self.prefix, key.as_ref(), |full| self.get_full(full, value))
    }

    fn get_full(&self, full: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let engine = self.store.reader()?;
        Ok(engine.get_into_as_of(self.snapshot(), full, value)?)
    }

    /// The values of several keys, in their order, with the reads of the device in flight together.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("a", "1")?;
    /// assert_eq!(db.snapshot()?.multi_get(["b", "a"])?, [None, Some(b"1".to_vec())]);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let engine = self.store.reader()?;
        let keys = key::all(self.prefix, keys)?;
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        Ok(engine.multi_get_as_of(self.snapshot(), &keys)?)
    }

    /// Whether `key` existed at that moment. A long value is not read.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let before = db.snapshot()?;
    /// db.put("key", "value")?;
    /// assert!(!before.contains_key("key")? && db.contains_key("key")?);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let engine = self.store.reader()?;
        key::with(self.prefix, key.as_ref(), |full| Ok(engine.contains_as_of(self.snapshot(), full)?))
    }

    /// The pairs of a key range.
    ///
    /// # Errors
    /// `SnapshotTooOld`; those of reading.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.ingest([("ada", ""), ("bob", ""), ("cyd", "")])?;
    /// assert_eq!(db.snapshot()?.range("ada".."cyd")?.count(), 2);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
        self.range_of(&KeyRange::of(self.prefix, &range))
    }

    /// The pairs whose keys begin with `start`.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.ingest([("user:1", "ada"), ("visits", "7")])?;
    /// assert_eq!(db.snapshot()?.prefix("user:")?.count(), 1);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn prefix(&self, start: impl AsRef<[u8]>) -> Result<Range> {
        self.range_of(&KeyRange::prefixed(self.prefix, start.as_ref()))
    }

    /// All pairs.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let before = db.snapshot()?;
    /// db.put("key", "value")?;
    /// assert_eq!((before.iter()?.count(), db.iter()?.count()), (0, 1));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn iter(&self) -> Result<Range> {
        self.prefix([])
    }

    /// The pair with the least key.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("a", "1")?;
    /// assert_eq!(db.snapshot()?.first()?, Some((b"a".to_vec(), b"1".to_vec())));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn first(&self) -> Result<Option<Pair>> {
        self.iter()?.next().transpose()
    }

    /// The pair with the greatest key.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.ingest([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.snapshot()?.last()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn last(&self) -> Result<Option<Pair>> {
        self.iter()?.next_back().transpose()
    }

    /// Whether there were no pairs.
    ///
    /// # Errors
    /// As [`range`](Self::range).
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let before = db.snapshot()?;
    /// db.put("key", "value")?;
    /// assert!(before.is_empty()? && !db.is_empty()?);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter()?.keys().next().transpose()?.is_none())
    }

    fn range_of(&self, range: &KeyRange) -> Result<Range> {
        Range::new(&self.store, self.snapshot(), self.prefix, range)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.store.let_go(self.snapshot.take());
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("tree", &self.prefix.number()).finish_non_exhaustive()
    }
}
