//! An open file: its bytes on the device and those still in memory.

use std::collections::VecDeque;

use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};
use zonda_rt::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::catalogue::Inode;
use crate::extent::Extents;
use crate::ground::Ground;
use crate::tail::Tail;
use crate::{BLOCK_BYTES, Extent, FileError, FileId, FilePath, FileTags, Result};

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
    ground: Ground,
    tags: Mutex<FileTags>,
    content: RwLock<Content>,
    /// Chunks that others stand for, until these are durable.
    superseded: Mutex<Vec<Extent>>,
    /// The last change of it that was queued, its creation or a cut perhaps, until it is known to be durable; 0 then.
    queued: AtomicU64,
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
    /// Not written yet: full buffers of a table that waits to be placed, each of whole blocks.
    held: VecDeque<Tail>,
    /// Not written yet, behind these.
    tail: Tail,
    /// Whether it is written in chunks that describe themselves.
    pub(crate) is_chunked: bool,
}

impl Content {
    fn new(is_chunked: bool) -> Self {
        Self { tail: Tail::new(is_chunked), is_chunked, ..Self::default() }
    }

    /// Bytes in all.
    pub(crate) fn size(&self) -> u64 {
        self.extents.bytes() + self.waiting()
    }

    /// Bytes in memory.
    pub(crate) fn waiting(&self) -> u64 {
        self.held.iter().map(|held| held.len() as u64).sum::<u64>() + self.tail.len() as u64
    }

    /// Takes what the last buffer has room for; returns how many bytes.
    pub(crate) fn fill(&mut self, from: &[u8], buffer_bytes: usize) -> usize {
        self.tail.fill(from, buffer_bytes)
    }

    /// Keeps the full buffer, and begins another.
    pub(crate) fn hold(&mut self) {
        self.held.push_back(std::mem::take(&mut self.tail));
    }

    /// The first bytes that wait, to be written.
    pub(crate) fn first_waiting(&mut self) -> &mut Tail {
        self.held.front_mut().unwrap_or(&mut self.tail)
    }

    /// Drops all bytes in memory but the first `keep`.
    pub(crate) fn truncate_waiting(&mut self, mut keep: u64) {
        let mut kept = VecDeque::new();
        for held in std::mem::take(&mut self.held) {
            let len = held.len() as u64;
            if keep < len {
                self.tail = held;
                break;
            }
            keep -= len;
            kept.push_back(held);
        }
        self.held = kept;
        self.tail.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
    }

    /// Copies bytes in memory from `at` on; returns how many.
    pub(crate) fn read_waiting(&self, mut at: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        for buffer in self.held.iter().chain([&self.tail]) {
            let from = usize::try_from(at).unwrap_or(usize::MAX);
            let bytes = buffer.bytes().get(from..).unwrap_or_default();
            let count = bytes.len().min(into.len() - done);
            into[done..done + count].copy_from_slice(&bytes[..count]);
            done += count;
            at = at.saturating_sub(buffer.len() as u64);
        }
        done
    }

    /// Bytes that the catalogue knows of.
    pub(crate) fn recorded_bytes(&self) -> u64 {
        self.extents.bytes() - self.unrecorded.bytes()
    }

    /// From now on no chunk describes itself: the caller records what is written. What waits goes on waiting.
    pub(crate) fn end_chunks(&mut self) {
        assert!(self.held.is_empty(), "tables are held, and they have no chunks");
        let mut tail = Tail::new(false);
        let taken = tail.fill(self.tail.bytes(), self.tail.len());
        assert_eq!(taken, self.tail.len(), "a tail without a header holds what one with a header held");
        (self.tail, self.is_chunked) = (tail, false);
    }

    /// Takes in what was written of the [first bytes](Self::first_waiting) that waited.
    pub(crate) fn wrote(&mut self, extent: Extent) {
        let bytes = usize::try_from(extent.bytes).expect("it was in memory");
        self.first_waiting().consume(bytes);
        if self.held.front().is_some_and(|held| held.len() == 0) {
            self.held.pop_front();
        }
        self.extents.push(extent);
        self.unrecorded.push(extent);
    }

    /// What waits in a chunk, behind `front`; `None` if that is more than a block.
    pub(crate) fn waiting_behind(&self, front: &[u8]) -> Option<Tail> {
        let mut both = Tail::new(true);
        let mut fits = |bytes: &[u8]| both.fill(bytes, BLOCK_BYTES) == bytes.len();
        (fits(front) && fits(self.tail.bytes())).then_some(both)
    }

    /// Takes in what was written of the last extent and of bytes that waited, in its place.
    pub(crate) fn wrote_again(&mut self, extent: Extent) {
        let added = extent.bytes - self.extents.replace_last(extent).bytes;
        self.unrecorded.replace_last(extent);
        self.first_waiting().consume(usize::try_from(added).expect("it was in memory"));
    }

    /// Forgets that something is unrecorded; returns it.
    pub(crate) fn take_unrecorded(&mut self) -> Vec<Extent> {
        std::mem::take(&mut self.unrecorded).iter().copied().collect()
    }
}

impl FileState {
    /// A file that was just created.
    pub(crate) fn created(id: FileId, tags: FileTags, ground: Ground) -> Self {
        let content = Content::new(ground.keeps_in_chunks(tags.kind));
        Self::new(id, tags, content, ground)
    }

    /// A file as it is recorded.
    pub(crate) fn recorded(id: FileId, inode: &Inode, ground: Ground) -> Self {
        // What is added later is recorded: chunks of an earlier writer were collected at mount.
        let content = Content { extents: inode.extents.clone(), ..Content::default() };
        Self::new(id, inode.tags, content, ground)
    }

    fn new(id: FileId, tags: FileTags, content: Content, ground: Ground) -> Self {
        let (tags, content) = (Mutex::new(tags), RwLock::new(content));
        let (superseded, queued, has_writer, is_gone) = Default::default();
        Self { id, ground, tags, content, superseded, queued, has_writer, is_gone }
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

    /// Another chunk stands for this one, and is not durable yet.
    pub(crate) fn supersede(&self, chunk: Extent) {
        self.superseded.lock().push(chunk);
    }

    /// The chunks that are not needed any more, once those that stand for them are durable.
    pub(crate) fn take_superseded(&self) -> Vec<Extent> {
        std::mem::take(&mut self.superseded.lock())
    }

    /// What of it is live and in no record.
    pub(crate) fn live_unrecorded(&self) -> Vec<Extent> {
        let content = self.content.read();
        let written = if self.is_gone() { &content.extents } else { &content.unrecorded };
        written.iter().chain(&*self.superseded.lock()).copied().collect()
    }

    /// A change of it was queued.
    pub(crate) fn note_queued(&self, number: u64) {
        self.queued.fetch_max(number, Ordering::AcqRel);
    }

    /// Number of the last change of it that may not be durable.
    pub(crate) fn queued(&self) -> Option<u64> {
        Some(self.queued.load(Ordering::Acquire)).filter(|&number| number > 0)
    }

    /// All of its changes up to this one are durable.
    pub(crate) fn note_durable(&self, number: u64) {
        // If a later one was queued meanwhile, that one is still owed.
        let _ = self.queued.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Acquire);
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
        self.ground.bury(dead.iter());
    }
}
