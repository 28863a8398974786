//! The file store that users hold.

use std::sync::Arc;

use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_space::{Space, Urgency};

use crate::catalogue::Entry;
use crate::change::Change;
use crate::commit::Committer;
use crate::file::FileState;
use crate::lanes::{Lanes, Lease, Request};
use crate::names::Names;
use crate::options::stream_of;
use crate::policy::OpenZoneView;
use crate::stop::Stop;
use crate::{
    FileError, FileId, FileKind, FilePath, FileReader, FileStoreOptions, FileTags, FileUsage, FileWriter, Result,
};

/// Rounds of cleaning after which a writer that still finds no zone is refused.
const ROUNDS_MAX: u32 = 1000;

/// Files on zones: names, directories and appended bytes. A handle; clones share one store. All calls may come from any
/// thread.
///
/// **Files** are written at their end by one writer and read by any number of readers, writers' buffered bytes included.
/// **Durability**: what a [`FileWriter::sync`] or [`sync_names`](Self::sync_names) that returned covers survives a power cut.
/// Changes of names become durable in their order, with the next sync of anything at the latest; a rename is atomic. After
/// a crash a file has at least its synced bytes and at most what was appended, and never other bytes.
/// **Space**: a compaction is refused first, then flushed tables and logs; deletes never (I9). A writer that needs a zone
/// cleans, rather than fail with space that could be freed.
/// **After an error** of the device that leaves durability unknown every change is `Stopped`; reads go on.
///
/// Lock order: one file's content, the journal, names, lanes, then those of the zone manager. `cleaning` comes before all.
#[derive(Clone, Debug)]
pub struct FileStore {
    pub(crate) core: Arc<Core>,
}

/// What the handles share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) space: Space,
    pub(crate) options: FileStoreOptions,
    pub(crate) names: Names,
    pub(crate) committer: Committer,
    pub(crate) lanes: Lanes,
    pub(crate) stop: Stop,
    /// One cleaner at a time.
    pub(crate) cleaning: Mutex<()>,
    pub(crate) counters: Counters,
}

/// Bytes since the mount.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Appended by users and written.
    pub(crate) written: AtomicU64,
    /// Copied by cleaning.
    pub(crate) copied: AtomicU64,
    /// Zones reset with nothing to copy.
    pub(crate) resets_without_copy: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, bytes: u64) {
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Whether it is a directory; the rest is then 0.
    pub is_directory: bool,
    /// Number of the file: two names of one file have the same.
    pub file: FileId,
    /// Bytes, buffered ones included.
    pub size_bytes: u64,
    /// Names.
    pub links: u32,
    /// When bytes were last recorded, in seconds since 1970.
    pub modified_seconds: u64,
    /// What it is.
    pub tags: FileTags,
}

impl FileStore {
    /// Makes a file and its writer. A file that has the name loses it; whoever reads it goes on.
    ///
    /// # Errors
    /// `NotFound` or `WrongKind` for the directory, `WrongKind` for a directory of this name, `Stopped`.
    pub fn create(&self, path: &FilePath, tags: FileTags) -> Result<FileWriter> {
        let core = &self.core;
        core.stop.check()?;
        let mut names = core.names.lock();
        let file = names.catalogue.next_file();
        let modified_seconds = (core.options.clock_seconds)();
        let change = Change::Create { file, tags, modified_seconds, path: path.clone() };
        let number = names.change(&change, &core.space)?;
        let state = Arc::new(FileState::created(file, tags, core.space.clone()));
        state.begin_writing(path)?;
        names.insert(&state);
        drop(names);
        Ok(FileWriter::new(Arc::clone(core), state, number))
    }

    /// A writer that goes on at the end of a file.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `Busy`, `Stopped`.
    pub fn append_to(&self, path: &FilePath) -> Result<FileWriter> {
        self.core.stop.check()?;
        let (state, number) = self.open_state(path)?;
        state.begin_writing(path)?;
        Ok(FileWriter::new(Arc::clone(&self.core), state, number))
    }

    /// A reader of a file; it reads what is appended later too.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`; `Stale` if the bytes are gone.
    pub fn open(&self, path: &FilePath) -> Result<FileReader> {
        let (state, _) = self.open_state(path)?;
        FileReader::open(&self.core, state)
    }

    fn open_state(&self, path: &FilePath) -> Result<(Arc<FileState>, u64)> {
        let mut names = self.core.names.lock();
        let file = names.catalogue.file(path)?;
        let state = names.open(file, &self.core.space);
        Ok((state.ok_or_else(|| FileError::NotFound { path: path.clone() })?, names.last_change()))
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn info(&self, path: &FilePath) -> Result<FileInfo> {
        let names = self.core.names.lock();
        let not_found = || FileError::NotFound { path: path.clone() };
        let file = match names.catalogue.entry(path).ok_or_else(not_found)? {
            Entry::Directory => return Ok(FileInfo::DIRECTORY),
            Entry::File(file) => file,
        };
        let inode = names.catalogue.inode(file).ok_or_else(not_found)?;
        let mut info = FileInfo {
            is_directory: false,
            file,
            size_bytes: inode.extents.bytes(),
            links: inode.links,
            modified_seconds: inode.modified_seconds,
            tags: inode.tags,
        };
        let open = names.open_file(file);
        drop(names);
        if let Some(open) = open {
            info.size_bytes = open.content().size();
        }
        Ok(info)
    }

    /// The names directly in a directory, in order.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`.
    pub fn list(&self, directory: &FilePath) -> Result<Vec<FilePath>> {
        let names = self.core.names.lock();
        Ok(names.catalogue.list(directory)?.into_iter().map(|(path, _)| path.clone()).collect())
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `Exists`; `NotFound` or `WrongKind` for the one it is in; `Stopped`.
    pub fn make_directory(&self, path: &FilePath) -> Result<()> {
        self.change(&Change::MakeDirectory { path: path.clone() })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `NotEmpty`, `Stopped`.
    pub fn remove_directory(&self, path: &FilePath) -> Result<()> {
        self.change(&Change::RemoveDirectory { path: path.clone() })
    }

    /// Takes a name away. With its last name, and when nobody has it open any more, a file gives its bytes back.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `Stopped`.
    pub fn remove(&self, path: &FilePath) -> Result<()> {
        self.change(&Change::Unlink { path: path.clone() })
    }

    /// Gives a file or directory another name, atomically; a file that has that name loses it.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `NotEmpty`, `IntoItself`, `Stopped`.
    pub fn rename(&self, from: &FilePath, to: &FilePath) -> Result<()> {
        self.change(&Change::Rename { from: from.clone(), to: to.clone() })
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`, `Exists`, `Stopped`.
    pub fn link(&self, from: &FilePath, to: &FilePath) -> Result<()> {
        self.core.stop.check()?;
        let mut names = self.core.names.lock();
        let file = names.catalogue.file(from)?;
        names.change(&Change::Link { file, path: to.clone() }, &self.core.space).map(|_| ())
    }

    fn change(&self, change: &Change) -> Result<()> {
        self.core.stop.check()?;
        self.core.names.change(change).map(|_| ())
    }

    /// Makes all changes of names so far durable, and with them the bytes of closed files.
    ///
    /// # Errors
    /// `Stopped`, `Space`.
    pub fn sync_names(&self) -> Result<()> {
        self.core.commit_to(self.core.names.last())
    }

    /// Space in numbers.
    #[must_use]
    pub fn usage(&self) -> FileUsage {
        FileUsage::of(&self.core)
    }

    /// The zones that are open for writing.
    #[must_use]
    pub fn open_zones(&self) -> Vec<OpenZoneView> {
        self.core.lanes.views()
    }

    /// The zone manager below, for reports.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.core.space
    }
}

impl FileInfo {
    const DIRECTORY: Self = Self {
        is_directory: true,
        file: FileId(0),
        size_bytes: 0,
        links: 0,
        modified_seconds: 0,
        tags: FileTags { kind: FileKind::Meta, lifetime: crate::Lifetime::NotSet, level: None },
    };
}

impl Core {
    /// Returns when change `number` is durable.
    ///
    /// # Errors
    /// As [`Committer::commit_to`].
    pub(crate) fn commit_to(&self, number: u64) -> Result<()> {
        self.committer.commit_to(number, &self.names, &self.space, &self.stop)
    }

    /// A zone for new bytes of a file; cleans while there is none. No lock of a file may be held.
    ///
    /// # Errors
    /// `NoSpace`, `Stopped`, `Space`.
    pub(crate) fn place(&self, tags: &FileTags) -> Result<Lease> {
        let (free_zones_kept, kept_for) = self.kept_from(tags.kind);
        let stream = stream_of(tags.kind);
        let request = Request { stream, tags, urgency: Urgency::Foreground, free_zones_kept };
        for _ in 0..ROUNDS_MAX {
            self.stop.check()?;
            let lease = self.lanes.place(&request, &|choices| self.options.policy.choose(tags, choices))?;
            if let Some(lease) = lease {
                return Ok(lease);
            }
            if !self.clean_for_a_writer(free_zones_kept)? {
                break;
            }
        }
        Err(self.no_space(free_zones_kept, kept_for))
    }

    /// Free zones that a writer of this kind must leave, and for whom.
    fn kept_from(&self, kind: FileKind) -> (u32, &'static str) {
        match kind {
            FileKind::Data => (self.options.flush_reserve_zones, "flushes and logs"),
            FileKind::Flushed | FileKind::Log | FileKind::Meta => (0, "cleaning and the journal"),
        }
    }

    fn no_space(&self, free_zones_kept: u32, kept_for: &'static str) -> FileError {
        let usage = self.space.usage();
        let zone_bytes = usage.capacity_bytes / u64::from(usage.zones - usage.lost_zones).max(1);
        FileError::NoSpace {
            live_bytes: usage.live_bytes,
            usable_bytes: usage.usable_bytes,
            kept_bytes: u64::from(free_zones_kept) * zone_bytes,
            kept_for,
            free_zones: usage.free_zones,
        }
    }

    /// Notes a device error of a write: what was appended before it may be lost.
    pub(crate) fn write_failed(&self, error: zonda_space::SpaceError) -> FileError {
        self.stop.set(&error)
    }
}
