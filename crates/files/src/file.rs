//! An open file: its bytes on the device and those still in memory.

use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use zonda_space::Space;

use crate::catalogue::Inode;
use crate::extent::Extents;
use crate::tail::Tail;
use crate::{Extent, FileError, FileId, FilePath, FileTags, Result};

/// What all who have a file open share.
///
/// Life cycle: 1 opened, by its creator or a first reader -> 2 its last name may go; it is *gone* then and nothing of it is
/// recorded any more -> 3 the last user drops it: what no recorded file owns counts as dead from then on. So bytes are live
/// as long as somebody can read them (I3).
///
/// Locks: `content`, over device reads by its readers, and over device writes by its writer. Before [`Names`](crate::names).
#[derive(Debug)]
pub(crate) struct FileState {
    id: FileId,
    space: Space,
    tags: Mutex<FileTags>,
    content: RwLock<Content>,
    has_writer: AtomicBool,
    is_gone: AtomicBool,
}

/// The bytes of an open file: those on the device, then those in memory.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// Written to the device.
    pub(crate) extents: Extents,
    /// The last of these, which are in no record yet.
    pub(crate) unrecorded: Extents,
    /// Not written yet.
    pub(crate) tail: Tail,
    /// Whether it is written in chunks that describe themselves.
    pub(crate) is_chunked: bool,
}

impl Content {
    fn new(is_chunked: bool) -> Self {
        Self { tail: Tail::new(is_chunked), is_chunked, ..Self::default() }
    }

    /// Bytes in all.
    pub(crate) fn size(&self) -> u64 {
        self.extents.bytes() + self.tail.len() as u64
    }

    /// Bytes that the catalogue knows of.
    pub(crate) fn recorded_bytes(&self) -> u64 {
        self.extents.bytes() - self.unrecorded.bytes()
    }

    /// From now on no chunk describes itself: the caller records what is written. Nothing may wait in the tail.
    pub(crate) fn end_chunks(&mut self) {
        assert!(self.tail.len() == 0, "{} bytes of a chunk were not written", self.tail.len());
        (self.tail, self.is_chunked) = (Tail::new(false), false);
    }

    /// Takes in what was written of the tail.
    pub(crate) fn wrote(&mut self, extent: Extent) {
        self.extents.push(extent);
        self.unrecorded.push(extent);
    }

    /// Forgets that something is unrecorded; returns it.
    pub(crate) fn take_unrecorded(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.unrecorded).iter().copied().collect()
    }
}

impl FileState {
    /// A file that was just created.
    pub(crate) fn created(id: FileId, tags: FileTags, space: Space) -> Self {
        let content = Content::new(tags.kind.is_chunked());
        Self::new(id, tags, content, space)
    }

    /// A file as it is recorded.
    pub(crate) fn recorded(id: FileId, inode: &Inode, space: Space) -> Self {
        // What is added later is recorded: chunks of an earlier writer were collected at mount.
        let content = Content { extents: inode.extents.clone(), ..Content::default() };
        Self::new(id, inode.tags, content, space)
    }

    fn new(id: FileId, tags: FileTags, content: Content, space: Space) -> Self {
        let (has_writer, is_gone) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { id, space, tags: Mutex::new(tags), content: RwLock::new(content), has_writer, is_gone }
    }

    /// Its number.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// What it is.
    pub(crate) fn tags(&self) -> FileTags {
        *self.tags.lock()
    }

    /// More is known of it.
    pub(crate) fn set_tags(&self, tags: FileTags) {
        *self.tags.lock() = tags;
    }

    /// For reading it.
    pub(crate) fn content(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read()
    }

    /// For changing it.
    pub(crate) fn content_mut(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write()
    }

    /// Becomes its only writer.
    ///
    /// # Errors
    /// `Busy`.
    pub(crate) fn begin_writing(&self, path: &FilePath) -> Result<()> {
        match self.has_writer.swap(true, Ordering::AcqRel) {
            false => Ok(()),
            true => Err(FileError::Busy { path: path.clone() }),
        }
    }

    /// Gives up writing.
    pub(crate) fn end_writing(&self) {
        self.has_writer.store(false, Ordering::Release);
    }

    /// Whether somebody writes it.
    pub(crate) fn has_writer(&self) -> bool {
        self.has_writer.load(Ordering::Acquire)
    }

    /// It lost its last name.
    pub(crate) fn set_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// Whether it has no name any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }
}

impl Drop for FileState {
    fn drop(&mut self) {
        let content = self.content.read();
        let dead = if self.is_gone() { &content.extents } else { &content.unrecorded };
        dead.iter().for_each(|extent| self.space.sub_live(extent.zone, extent.device_bytes()));
    }
}
