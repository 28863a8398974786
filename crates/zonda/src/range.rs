//! Iterators over key ranges.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use zonda_tree::{Cursor, PairRef};

use crate::key::KeyRange;
use crate::prefix::Prefix;
use crate::store::Store;
use crate::{Error, Result};

/// A key and its value, owned.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The pairs of a key range as of one moment, ascending from the front and descending from the back.
///
/// Holds no lock between items, so writers go on; what they change after the range was made is not seen. While it lives, its
/// snapshot keeps old pages and memory, up to a sixteenth of the budget: where others change more than that under it, it ends with
/// `SnapshotTooOld`, and whoever reads on makes a new one behind the last key. After an error, which is an item of its own, it is at its
/// end.
///
/// # Examples
/// ```
/// # let db = zonda::Db::open("mem:")?;
/// db.put("a", "1")?;
/// db.put("b", "2")?;
/// let keys: Vec<Vec<u8>> = db.range("a"..)?.rev().map(|pair| Ok(pair?.0)).collect::<zonda::Result<_>>()?;
/// assert_eq!(keys, [b"b", b"a"]);
/// # Ok::<(), zonda::Error>(())
/// ```
pub struct Range {
    /// `None` at the end.
    cursor: Option<Cursor>,
    prefix: Prefix,
    store: Arc<Store>,
}

impl Range {
    /// The pairs of `range`, which lies in the tree of `prefix`, as of `snapshot`.
    ///
    /// # Errors
    /// Those of reading; `SnapshotTooOld`.
    pub(crate) fn new(
        store: &Arc<Store>,
        snapshot: &zonda_tree::Snapshot,
        prefix: Prefix,
        range: &KeyRange,
    ) -> Result<Self> {
        let engine = store.reader()?;
        let (low, high) = range.bounds();
        let cursor = if range.is_empty() { None } else { Some(engine.scan(snapshot, low, high)?) };
        Ok(Self { cursor, prefix, store: Arc::clone(store) })
    }

    /// Says that about `pairs` pairs will be taken: the leaves that this needs are then read at once, also by a range that is
    /// too short to find out by itself that it is worth while. Taking more or fewer is no error.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// # db.ingest((0..1000_u32).map(|n| (n.to_be_bytes(), "")))?;
    /// let page: Vec<_> = db.range(200_u32.to_be_bytes()..)?.expect_pairs(300).take(300).collect::<zonda::Result<_>>()?;
    /// assert_eq!(page.len(), 300);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[must_use]
    pub fn expect_pairs(mut self, pairs: u64) -> Self {
        self.cursor.iter_mut().for_each(|cursor| cursor.expect_pairs(pairs));
        self
    }

    /// The keys alone, from both ends as before: long values are neither read nor copied.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("user:1", "ada")?;
    /// db.put("user:2", "bob")?;
    /// let keys: Vec<Vec<u8>> = db.prefix("user:")?.keys().rev().collect::<zonda::Result<_>>()?;
    /// assert_eq!(keys, [b"user:2", b"user:1"]);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[must_use]
    pub fn keys(mut self) -> Keys {
        self.cursor = self.cursor.take().map(Cursor::keys_only);
        Keys { range: self }
    }

    /// How many pairs are left, or the error that keeps this from being known, which [`count`](Iterator::count) would count as a pair. Goes
    /// over all of them; long values are not read, and nothing is allocated for each.
    ///
    /// # Errors
    /// Those of the iterator's items.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.ingest([("user:1", "ada"), ("user:2", "bob"), ("visits", "7")])?;
    /// assert_eq!(db.prefix("user:")?.count_pairs()?, 2);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias = "len")]
    pub fn count_pairs(self) -> Result<u64> {
        let (mut keys, mut pairs) = (self.keys(), 0);
        while let Some(pair) = keys.range.visit_next(|_, _| ()) {
            pair?;
            pairs += 1;
        }
        Ok(pairs)
    }

    /// Shows the next pair to `visit` instead of allocating it; `None` at the end, as of the iterator.
    ///
    /// # Errors
    /// Those of the iterator's items.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// # db.put("a", "1")?;
    /// # db.put("b", "22")?;
    /// let (mut range, mut bytes) = (db.iter()?, 0);
    /// while let Some(pair) = range.visit_next(|_key, value| value.len()) {
    ///     bytes += pair?;
    /// }
    /// assert_eq!(bytes, 3);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[inline]
    pub fn visit_next<R>(&mut self, visit: impl FnOnce(&[u8], &[u8]) -> R) -> Option<Result<R>> {
        self.step(Cursor::next, visit)
    }

    /// The same from the back.
    ///
    /// # Errors
    /// Those of the iterator's items.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// # db.ingest([("a", "1"), ("b", "22")])?;
    /// let longest_last = db.iter()?.visit_next_back(|_key, value| value.len()).transpose()?;
    /// assert_eq!(longest_last, Some(2));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn visit_next_back<R>(&mut self, visit: impl FnOnce(&[u8], &[u8]) -> R) -> Option<Result<R>> {
        self.step(Cursor::prev, visit)
    }

    #[inline]
    fn step<R>(&mut self, step: impl StepFn, visit: impl FnOnce(&[u8], &[u8]) -> R) -> Option<Result<R>> {
        let cursor = self.cursor.as_mut()?;
        let failure = match self.store.reader().map(|_| step(cursor)) {
            Ok(Ok(Some((key, value)))) => match self.prefix.strip(key) {
                Some(key) => return Some(Ok(visit(key, value))),
                None => Some(self.of_another_tree()),
            },
            Ok(Ok(None)) => None,
            Ok(Err(failure)) => Some(failure.into()),
            Err(forked) => Some(forked),
        };
        self.end();
        failure.map(Err)
    }

    fn end(&mut self) {
        self.store.let_go(self.cursor.take());
    }

    fn of_another_tree(&self) -> Error {
        Error::Damaged {
            what: "key order".to_owned(),
            why: format!("a key of another tree among those of tree {}", self.prefix.number()),
        }
    }
}

/// A step of a cursor, from either end.
trait StepFn: FnOnce(&mut Cursor) -> std::result::Result<Option<PairRef<'_>>, zonda_tree::TreeError> {}

impl<F: FnOnce(&mut Cursor) -> std::result::Result<Option<PairRef<'_>>, zonda_tree::TreeError>> StepFn for F {}

fn owned(key: &[u8], value: &[u8]) -> Pair {
    (key.to_vec(), value.to_vec())
}

impl Drop for Range {
    fn drop(&mut self) {
        self.end();
    }
}

impl Iterator for Range {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.visit_next(owned)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.visit_next_back(owned)
    }
}

impl FusedIterator for Range {}

/// The keys of a [`Range`], owned, ascending from the front and descending from the back; made by [`Range::keys`]. Holds what its range
/// held.
#[derive(Debug)]
pub struct Keys {
    range: Range,
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.visit_next(|key, _| key.to_vec())
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.visit_next_back(|key, _| key.to_vec())
    }
}

impl FusedIterator for Keys {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("at_end", &self.cursor.is_none()).finish_non_exhaustive()
    }
}
