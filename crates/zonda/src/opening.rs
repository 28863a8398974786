//! Opening a store with options, to write or to read, with or without word of how far recovery has come.

use crate::open::Access;
use crate::{Db, Options, RecoveryProgress, Result};

impl Options {
    /// Opens a store for reading and writing. See [`Db::open`] for names. A creation that fails leaves no file behind.
    ///
    /// # Errors
    /// As [`Db::open`]; and `BadOption` for an option out of its range, a leaf size that is not the store's, a kind that it is not, or a
    /// `value_inline` of more than a quarter of its leaf; `NotFound` if there is no store and
    /// [`create_if_missing`](Self::create_if_missing) is off; `AlreadyExists` for
    /// [`create_new`](Self::create_new) where something is; `LogDevice` for a [log device](Self::log_device) that is missing, another
    /// store's or one too many.
    ///
    /// # Examples
    /// ```
    /// use zonda::{Error, Options};
    ///
    /// let db = Options::new().memory(8 << 20).capacity(1 << 30).open("mem:")?;
    /// assert_eq!(db.stats()?.memory.budget_bytes, 8 << 20);
    /// let missing = Options::new().create_if_missing(false).open("/tmp/there/is/no/such.zonda");
    /// assert!(matches!(missing, Err(Error::NotFound { .. })));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn open(&self, uri: &str) -> Result<Db> {
        Db::open_with(uri, self)
    }

    /// As [`open`](Self::open), telling `progress` how far recovery has come.
    ///
    /// # Errors
    /// As `open`.
    ///
    /// # Examples
    /// ```
    /// let options = zonda::Options::new();
    /// let db = options.open_with_progress("mem:", &mut |step| println!("{} of {}", step.done_bytes, step.total_bytes))?;
    /// # db.put("key", "value")?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn open_with_progress(&self, uri: &str, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Db> {
        Db::open_as(uri, self, Access::ReadWrite, progress)
    }

    /// Opens a store for reading only. See [`Db::open_read_only`].
    ///
    /// # Errors
    /// As [`Db::open_read_only`]; `BadOption`, `LogDevice` as [`open`](Self::open).
    ///
    /// # Examples
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("app.zonda");
    /// # let path = path.to_str().unwrap();
    /// # zonda::Db::open(path)?.put("key", "value")?;
    /// let db = zonda::Options::new().memory(4 << 20).open_read_only(path)?;
    /// assert!(db.contains_key("key")?);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn open_read_only(&self, uri: &str) -> Result<Db> {
        Db::open_read_only_with(uri, self)
    }

    /// As [`open_read_only`](Self::open_read_only), telling `progress` how far recovery has come: a store that was not closed is recovered
    /// in memory, each time that it is opened so.
    ///
    /// # Errors
    /// As `open_read_only`.
    ///
    /// # Examples
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("app.zonda");
    /// # let path = path.to_str().unwrap();
    /// # zonda::Db::open(path)?.put("key", "value")?;
    /// let options = zonda::Options::new();
    /// let db = options.open_read_only_with_progress(path, &mut |step| println!("{}: {} bytes", step.phase, step.done_bytes))?;
    /// assert!(db.contains_key("key")?);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn open_read_only_with_progress(&self, uri: &str, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Db> {
        Db::open_as(uri, self, Access::ReadOnly, progress)
    }
}
