//! The store as users hold it: opening, trees, batches, snapshots, and care.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use zonda_device::{BlockDevice, ZonedDevice};

use crate::backing::Device;
use crate::check::{CheckReport, Finding};
use crate::device::Made;
use crate::open::{self, Access, Devices};
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::store::Store;
use crate::zones::Zone;
use crate::{Batch, Durability, Options, RecoveryProgress, Result, Tree, backup, zones};

/// An open store. Reads and writes of its default tree are its own: it derefs to a [`Tree`].
///
/// Cheap to clone, `Send` and `Sync`: all clones are one store, usable from any thread.
///
/// **Closing.** Dropping the last handle (clones, [`Tree`]s, [`Snapshot`]s and iterators count) writes everything and marks the store
/// clean, as [`close`](Db::close) does, but cannot tell of errors. A process that dies without either loses what [`Durability`] says, and
/// the next opening recovers.
///
/// **Isolation.** A get sees the newest acknowledged write. A batch is all or nothing to snapshots, scans and crashes. A read may see a
/// value that is not yet synced.
///
/// **Forks.** A child process must open the store itself; every call on its parent's handle answers `Forked`.
///
/// # Examples
/// ```
/// use zonda::{Batch, Db};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("app.zonda");
/// # let path = path.to_str().unwrap();
/// let db = Db::open(path)?;
/// db.put("user:1", "ada")?;
/// let mut batch = Batch::new();
/// batch.put("user:2", "bob").delete("user:1");
/// db.write(batch)?;
/// for pair in db.prefix("user:")? {
///     let (key, value) = pair?;
///     assert_eq!((key, value), (b"user:2".to_vec(), b"bob".to_vec()));
/// }
/// db.close()?;
/// # Ok::<(), zonda::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    default_tree: Tree,
}

impl Db {
    /// Opens the store called `uri`, and makes one there if there is none.
    ///
    /// Names: a path or `file:PATH` for a store in one file, `mem:` for one in memory, `zbd:PATH` for one on a zoned block device of Linux,
    /// `flash:PROFILE` for a modelled SSD, `hftl:NAME` for one in place on zones; with `?key=value&...` for details (`zone_size`, `zones`,
    /// `max_active`, `layout=blocks` for a store in place, ...: `docs/devices.md` has them all; an unknown key is refused and the known
    /// ones are named). A path that begins with letters and a colon is written `file:PATH`; [`file_uri`](crate::file_uri) makes a name of
    /// any `Path`.
    ///
    /// A store that was not closed is recovered: time and memory depend on the log since the last checkpoint, which is bounded
    /// ([`Options::log_limit`]).
    ///
    /// # Errors
    /// `BadUri`; `BadOption` if the name asks for zones and the store lies in place, or the other way round; `LogDevice` if it has one;
    /// `Locked` if somebody has it open; `NotAStore`, `Truncated`, `Damaged`, `NewerVersion`, `OlderVersion`, `UnknownFeatures` for what
    /// is there and cannot be used, which is left alone; `CopyUnfinished` for what an interrupted [`backup`](Self::backup) left;
    /// `UnsuitableDevice` for too few zones, what has none, and a block device that is not there; `ReadOnly` for a device that cannot be
    /// written; `Io` for a missing directory, or no permission; `DiskFull`; `Device`. A file that was begun is removed; `TooLittleMemory`
    /// with a budget that suffices, if the index of the store leaves too little of this one.
    ///
    /// # Examples
    /// ```
    /// let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn open(uri: &str) -> Result<Self> {
        Self::open_with(uri, &Options::new())
    }

    /// Opens a store that exists, for reading only, beside other readers. Never beside a writer, nor the other way round: the second
    /// gets `Locked`. A store that was not closed is recovered in memory; the file is not written, whatever happens. Writes answer
    /// `ReadOnly`.
    ///
    /// # Errors
    /// `NotFound`; as [`open`](Self::open).
    ///
    /// # Examples
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("app.zonda");
    /// # let path = path.to_str().unwrap();
    /// # zonda::Db::open(path)?.put("key", "value")?;
    /// let db = zonda::Db::open_read_only(path)?;
    /// assert_eq!(db.get("key")?, Some(b"value".to_vec()));
    /// assert!(matches!(db.put("key", "new"), Err(zonda::Error::ReadOnly)));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn open_read_only(uri: &str) -> Result<Self> {
        Self::open_read_only_with(uri, &Options::new())
    }

    pub(crate) fn open_with(uri: &str, options: &Options) -> Result<Self> {
        Self::open_as(uri, options, Access::ReadWrite, &mut |_| {})
    }

    pub(crate) fn open_read_only_with(uri: &str, options: &Options) -> Result<Self> {
        Self::open_as(uri, options, Access::ReadOnly, &mut |_| {})
    }

    pub(crate) fn open_as(
        uri: &str,
        options: &Options,
        access: Access,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Self> {
        let (db, made) = Self::open_made(uri, options, access, progress)?;
        made.keep();
        Ok(db)
    }

    /// As [`open_as`](Self::open_as), with the files that it made: to be kept when all is well.
    pub(crate) fn open_made(
        uri: &str,
        options: &Options,
        access: Access,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Made)> {
        options.validate()?;
        if options.log_up_to_damage && access != Access::ReadOnly {
            let why = "only for opening it read-only".to_owned();
            return Err(crate::Error::BadOption { name: "log_up_to_damage", why });
        }
        let devices = Devices::open(uri, options, access)?;
        let store = open::store(&devices, uri, options, access, progress)?;
        Ok((Self::of(store), devices.made))
    }

    /// Opens or makes the store on a device of the caller's, for harnesses that wrap one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_device(device: Arc<dyn ZonedDevice>, options: &Options) -> Result<Self> {
        Self::open_devices(device, None, options)
    }

    /// As [`open_device`](Self::open_device), with a device for the log.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_devices(
        pages: Arc<dyn ZonedDevice>,
        log: Option<Arc<dyn ZonedDevice>>,
        options: &Options,
    ) -> Result<Self> {
        options.validate()?;
        let devices = Devices::of(Device::Zoned(pages), log);
        Ok(Self::of(open::store(&devices, "the given device", options, Access::ReadWrite, &mut |_| {})?))
    }

    /// As [`open_devices`](Self::open_devices), for a store in place.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_block_devices(
        pages: Arc<dyn BlockDevice>,
        log: Option<Arc<dyn ZonedDevice>>,
        options: &Options,
    ) -> Result<Self> {
        options.validate()?;
        let devices = Devices::of(Device::Block { device: pages, segment_bytes: options.zone_size_bytes() }, log);
        Ok(Self::of(open::store(&devices, "the given device", options, Access::ReadWrite, &mut |_| {})?))
    }

    fn of(store: Store) -> Self {
        let store = Arc::new(store);
        let named = Arc::clone(store.catalogue().default_tree());
        Self { default_tree: Tree::new(store, named) }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        self.default_tree.store()
    }

    /// The tree without a name, which the store derefs to: for whoever keeps [`Tree`]s of both kinds.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let trees = [db.default_tree().clone(), db.tree("users")?];
    /// trees[0].put("key", "value")?;
    /// assert_eq!(db.get("key")?, Some(b"value".to_vec()));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[must_use]
    pub fn default_tree(&self) -> &Tree {
        &self.default_tree
    }

    /// The tree called `name`, made if there is none ([`existing_tree`](Self::existing_tree) makes none), as durably as
    /// [`Options::durability`] says. Its keys are its own; a [`Batch`] may write to several trees at once.
    ///
    /// # Errors
    /// `TreeName`, `TooManyTrees`; in a store opened for reading only `NoSuchTree`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let users = db.tree("users")?;
    /// users.put("1", "ada")?;
    /// assert_eq!(users.get("1")?, Some(b"ada".to_vec()));
    /// assert_eq!(db.get("1")?, None);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("open_tree", "column_family", "keyspace"))]
    pub fn tree(&self, name: &str) -> Result<Tree> {
        let (store, catalogue) = (self.store(), self.store().catalogue());
        let named = match store.writer() {
            Ok(engine) => catalogue.find_or_create(engine, name, store.durability().into())?,
            Err(crate::Error::ReadOnly) => catalogue.find(name)?,
            Err(error) => return Err(error),
        };
        Ok(Tree::new(Arc::clone(store), named))
    }

    /// The tree called `name`, if there is one: it is not made.
    ///
    /// # Errors
    /// `NoSuchTree`, `Forked`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert!(matches!(db.existing_tree("users"), Err(zonda::Error::NoSuchTree { .. })));
    /// db.tree("users")?.put("1", "ada")?;
    /// assert_eq!(db.existing_tree("users")?.get("1")?, Some(b"ada".to_vec()));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn existing_tree(&self, name: &str) -> Result<Tree> {
        let store = self.store();
        store.reader()?;
        Ok(Tree::new(Arc::clone(store), store.catalogue().find(name)?))
    }

    /// Names of all trees but the default one, in order.
    ///
    /// # Errors
    /// `Forked`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.tree("b")?;
    /// db.tree("a")?;
    /// assert_eq!(db.tree_names()?, ["a", "b"]);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias = "list_cf")]
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.store().reader()?;
        Ok(self.store().catalogue().names())
    }

    /// Removes a tree with all its pairs and says whether there was one. Handles to it answer `TreeDropped` from now on; snapshots and
    /// ranges that were made before still have it. The name goes first, at once and as durably as [`Options::durability`] says; then the
    /// pairs in batches. A crash between the two is finished by the next opening. Waits for writes to this tree that are under way.
    ///
    /// # Errors
    /// Those of every write: see [`Tree`].
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let users = db.tree("users")?;
    /// assert!(db.drop_tree("users")?);
    /// assert!(matches!(users.put("1", "ada"), Err(zonda::Error::TreeDropped { .. })));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn drop_tree(&self, name: &str) -> Result<bool> {
        let engine = self.store().writer()?;
        let dropped = self.store().catalogue().drop_tree(engine, name, self.store().durability().into());
        self.store().written();
        dropped
    }

    /// Applies a batch: all of it or nothing, also over a crash, and in every tree. As durable as [`Options::durability`] says.
    ///
    /// # Errors
    /// `KeyTooLong`, `ValueTooLong`, `BatchTooLong`, `OtherStore`, `TreeDropped`: nothing was written.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let mut batch = zonda::Batch::new();
    /// batch.put("a", "1").put("b", "2");
    /// db.write(batch)?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("apply_batch", "commit"))]
    pub fn write(&self, batch: Batch) -> Result<()> {
        self.write_with(&batch, self.store().durability())
    }

    /// As [`write`](Self::write), as durably as this call says. The batch stays usable: clear it and fill it again.
    ///
    /// # Errors
    /// As `write`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let mut batch = zonda::Batch::new();
    /// batch.put("a", "1");
    /// db.write_with(&batch, zonda::Durability::Synced)?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<()> {
        batch.write_to(self.store(), durability)
    }

    /// The store as of now. Waits for batches in progress, not for anything else.
    ///
    /// # Errors
    /// `Closed`, `Forked`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let before = db.snapshot()?;
    /// db.put("key", "value")?;
    /// assert_eq!(before.get("key")?, None);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::new(self.store())
    }

    /// Makes every write that returned before this call durable. Threads that sync at the same time share one flush of the device.
    /// Without a [log](Options::log) it does nothing: a checkpoint is needed.
    ///
    /// # Errors
    /// After `Io` or `Device` the store is poisoned: nobody can know what was written.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// db.sync()?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias("flush", "persist"))]
    pub fn sync(&self) -> Result<()> {
        Ok(self.store().writer()?.sync()?)
    }

    /// Numbers about space, memory, work and traffic.
    ///
    /// # Errors
    /// `Forked`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// let stats = db.stats()?;
    /// assert_eq!(stats.space.usable_bytes, stats.space.capacity_bytes - stats.space.reserve_bytes);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        Stats::of(self.store())
    }

    /// How many operations are known to have been durable in the log and could not be read, where [`Options::log_up_to_damage`] bears
    /// that; others may have been. `None`: there is no damage.
    ///
    /// # Errors
    /// `Forked`.
    ///
    /// # Examples
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("app.zonda");
    /// # let path = path.to_str().unwrap();
    /// # zonda::Db::open(path)?.put("key", "value")?;
    /// let db = zonda::Options::new().log_up_to_damage(true).open_read_only(path)?;
    /// match db.log_left_out()? {
    ///     None => println!("all that was synced is there"),
    ///     Some(operations) => println!("at least {operations} operations are lost"),
    /// }
    /// # assert_eq!(db.log_left_out()?, None);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn log_left_out(&self) -> Result<Option<u64>> {
        Ok(self.store().reader()?.log_left_out())
    }

    /// What is in each zone of the device.
    ///
    /// # Errors
    /// `Forked`; those of asking the device.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// assert_eq!(db.zones()?.len() as u32, db.stats()?.space.zones);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn zones(&self) -> Result<Vec<Zone>> {
        zones::map(self.store())
    }

    /// Copies the store as of now to a new one at `uri`, which must not exist, while everybody goes on. Returns the number of pairs.
    ///
    /// The copy is as this store is where its name does not say otherwise: in zones or in place, with leaves of the same size and the same
    /// [`value_inline`](Options::value_inline), and in a file that may grow to what this one may, 64 GiB at the least, or to more where
    /// more than two thirds of this one are live now. While it is made, it has a memory budget of its own: 64 MiB, or what an index as
    /// large as this one's needs.
    ///
    /// # Errors
    /// `AlreadyExists`; those of [`open`](Self::open) for the new store; `SnapshotTooOld` if too much changed meanwhile;
    /// `TooLittleMemory` if the index of the new store outgrows its budget. A file that was begun is removed. What a process that dies on
    /// the way leaves answers every opening `CopyUnfinished`, and the next backup to it `AlreadyExists`: remove it and copy again.
    ///
    /// # Examples
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("copy.zonda");
    /// # let path = path.to_str().unwrap();
    /// let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// db.backup(path)?;
    /// assert_eq!(zonda::Db::open(path)?.get("key")?, Some(b"value".to_vec()));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[doc(alias = "export")]
    pub fn backup(&self, uri: &str) -> Result<u64> {
        self.backup_with(uri, &Options::new(), &mut |_| {})
    }

    /// As [`backup`](Self::backup); `options` say how to make the new store, where they were set before its name and this store (but not by
    /// a [preset](Options::preset), which is not asked whether it lies in place). `progress` hears of the number of pairs copied so far.
    ///
    /// # Errors
    /// As `backup`.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.backup_with("mem:", &zonda::Options::new().memory(4 << 20), &mut |pairs| println!("{pairs}"))?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn backup_with(&self, uri: &str, options: &Options, progress: &mut dyn FnMut(u64)) -> Result<u64> {
        backup::copy(&self.snapshot()?, uri, options, progress)
    }

    /// Merges all buffers and joins leaves that fit fewer pages together, so that the store takes the least space: joined leaves are full
    /// but for a twentieth, and split when they grow. Zones (in place: segments of the value log) of which half is dead or more are given
    /// back, as far as snapshots let them. `progress(done, total)` counts leaves. Others go on meanwhile.
    /// Damaged leaves stay as they are, and are told of when all others are done, or when something else stops it, rather than that.
    ///
    /// # Errors
    /// Those of every write: see [`Tree`].
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.compact(&mut |done, total| println!("{done} of {total}"))?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn compact(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        Ok(self.store().writer()?.compact(progress)?)
    }

    /// Takes a checkpoint now: the next opening has nothing to replay but what is written afterwards.
    ///
    /// # Errors
    /// Those of every write: see [`Tree`].
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.checkpoint()?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn checkpoint(&self) -> Result<()> {
        Ok(self.store().writer()?.checkpoint()?)
    }

    /// Reads everything, the headers of zones too, and checks checksums, order and structure. Hands each finding to `finding`, with the
    /// keys that it is about: ranges around these read what is whole. `progress(done, total)` counts leaves. Both may use the store.
    ///
    /// # Errors
    /// Those that keep it from going on. Damage is a finding, not an error.
    ///
    /// # Examples
    /// ```
    /// # let db = zonda::Db::open("mem:")?;
    /// db.put("key", "value")?;
    /// let report = db.check(&mut |_, _| {}, &mut |finding| eprintln!("{finding}"))?;
    /// assert_eq!(report.findings, 0);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64), finding: &mut dyn FnMut(Finding)) -> Result<CheckReport> {
        CheckReport::of(self.store(), progress, finding)
    }

    /// Changes the memory budget, [`Options::memory`], of the open store for all handles: to what it was opened with at the most, as the
    /// log and what is reserved for it have their size by that (decision 0048). So open with the most that it is ever to have, and give it
    /// less at once or at any time.
    ///
    /// Caches follow before this returns, and changes that no longer fit are merged into their leaves: a page write each or two, and a
    /// read. Writers and readers go on meanwhile. Snapshots may keep less, a sixteenth of the new budget: the oldest are given up until the
    /// others fit (`SnapshotTooOld`). Log rings, write buffers and the merged filter keep their size.
    ///
    /// So it is in a store that is opened for reading only; but what its log left in leaf buffers stays there, as nothing is merged.
    ///
    /// # Errors
    /// `BadOption` outside of [`MEMORY_BYTES_MIN`](crate::limits::MEMORY_BYTES_MIN) to what it was opened with; `TooLittleMemory`, with a
    /// budget that suffices, if the index and what keeps its size leave too little for leaf buffers: the budget is what it was. Those of
    /// every write but `ReadOnly`: the budget is the new one, and buffers follow in the background, as they do on a full store, and where
    /// other threads kept their leaves latched for half a second.
    ///
    /// # Examples
    /// ```
    /// let db = zonda::Options::new().memory(32 << 20).open("mem:")?;
    /// db.set_memory(8 << 20)?;
    /// assert_eq!(db.stats()?.memory.budget_bytes, 8 << 20);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn set_memory(&self, bytes: u64) -> Result<()> {
        self.store().set_memory(bytes)
    }

    /// Does one round of background work and says whether there may be more. For stores opened with
    /// [`Options::background(false)`](Options::background); threads of the store do the same. In a store that is opened for reading only it
    /// moves memory to where reads need it, and nothing else.
    ///
    /// # Errors
    /// Those of every write; of a store that is only read `Forked`.
    ///
    /// # Examples
    /// ```
    /// let db = zonda::Options::new().background(false).open("mem:")?;
    /// db.put("key", "value")?;
    /// while db.step()? {}
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn step(&self) -> Result<bool> {
        self.store().step()
    }

    /// Writes everything, takes a checkpoint, unless nothing was written since the last one, and closes the store for all handles: they
    /// answer `Closed`. The file and its lock are free when the last handle is dropped. A second close waits for the first, and hears the
    /// same.
    ///
    /// # Errors
    /// Those of every write: what was written without being synced may be lost. What was synced is safe, and the next opening recovers.
    ///
    /// # Examples
    /// ```
    /// let db = zonda::Db::open("mem:")?;
    /// let other = db.clone();
    /// db.close()?;
    /// assert!(matches!(other.get("key"), Err(zonda::Error::Closed)));
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.store().close()
    }
}

impl Deref for Db {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.default_tree
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("device", &self.store().device().describe()).finish_non_exhaustive()
    }
}
