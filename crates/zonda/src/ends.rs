//! Both ends of a tree: its first and last pairs, looked at and taken out.

use crate::range::{Pair, Range};
use crate::{Durability, Result, Tree, Update, chunks};

/// The end that a call is about.
#[derive(Clone, Copy, Debug)]
enum End {
    First,
    Last,
}

impl Tree {
    /// The pair with the least key.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert_eq!(db.first()?, None);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn first(&self) -> Result<Option<Pair>> {
        chunks::while_snapshots_last(|| self.view()?.first())
    }

    /// The pair with the greatest key.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// assert_eq!(db.last()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn last(&self) -> Result<Option<Pair>> {
        chunks::while_snapshots_last(|| self.view()?.last())
    }

    /// Whether there are no pairs in this tree; called on a [`Db`](crate::Db), in the one without a name: others are in
    /// [`tree_names`](crate::Db::tree_names). Reads a leaf at the most, beside those that deletes have emptied and nobody has joined yet.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert!(db.is_empty()?);
    /// db.put("key", "value")?;
    /// assert!(!db.is_empty()?);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.key_at(End::First)?.is_none())
    }

    /// Removes the pair with the least key and returns it, as durably as [`Options::durability`](crate::Options::durability) says: what
    /// takes work from a queue. Each pair goes to one caller, however many threads take; a lesser one that another puts meanwhile may stay
    /// for the next call.
    ///
    /// # Errors
    /// Those of every write.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let jobs = db.tree("jobs")?;
    /// jobs.put(7_u64.to_be_bytes(), "sweep")?;
    /// jobs.put(9_u64.to_be_bytes(), "paint")?;
    /// assert_eq!(jobs.pop_first()?, Some((7_u64.to_be_bytes().to_vec(), b"sweep".to_vec())));
    /// assert_eq!(jobs.iter()?.count_pairs()?, 1);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("pop_min", "dequeue"))]
    pub fn pop_first(&self) -> Result<Option<Pair>> {
        self.pop_first_with(self.store().durability())
    }

    /// As [`pop_first`](Self::pop_first), as durably as this call says.
    ///
    /// # Errors
    /// As `pop_first`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert_eq!(db.pop_first_with(zonda::Durability::Synced)?, None);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn pop_first_with(&self, durability: Durability) -> Result<Option<Pair>> {
        self.pop(End::First, durability)
    }

    /// Removes the pair with the greatest key and returns it. As [`pop_first`](Self::pop_first) otherwise.
    ///
    /// # Errors
    /// Those of every write.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.ingest([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.pop_last()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias = "pop_max")]
    pub fn pop_last(&self) -> Result<Option<Pair>> {
        self.pop_last_with(self.store().durability())
    }

    /// As [`pop_last`](Self::pop_last), as durably as this call says.
    ///
    /// # Errors
    /// As `pop_first`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert_eq!(db.pop_last_with(zonda::Durability::Synced)?, None);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn pop_last_with(&self, durability: Durability) -> Result<Option<Pair>> {
        self.pop(End::Last, durability)
    }

    /// Whoever removes the pair of a key has it; who finds the key gone looks for another end.
    fn pop(&self, end: End, durability: Durability) -> Result<Option<Pair>> {
        // A store that takes no writes says so, whether there is something to be taken or not.
        self.store().writer_in_chunks(self.named())?;
        loop {
            let Some(key) = self.key_at(end)? else { return Ok(None) };
            let removes = |current: Option<&[u8]>| current.map_or(Update::Keep, |_| Update::Delete);
            if let Some(value) = self.fetch_update_with(&key, removes, durability)? {
                return Ok(Some((key, value)));
            }
        }
    }

    fn key_at(&self, end: End) -> Result<Option<Vec<u8>>> {
        chunks::while_snapshots_last(|| {
            let mut keys = self.view()?.iter().map(Range::keys)?;
            let key = match end {
                End::First => keys.next(),
                End::Last => keys.next_back(),
            };
            key.transpose()
        })
    }
}
