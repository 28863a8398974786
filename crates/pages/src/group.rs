//! A group: consecutive frames that the ring merger writes with one device write (ZKV 3.4).
//!
//! Life cycle: 1 filling (in the sequencer's lock, frames are added) -> 2 complete (immutable, shared with readers) -> 3 in
//! flight (the oldest complete group of its zone) -> 4 retired (its buffer goes back to the pool with the last reader).
//! A group holds pages, or one chunk.

use std::sync::Arc;

use zonda_rt::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use crate::frame::{ChunkFrame, Framing, Place, chunk_blocks, page_blocks};
use crate::pool::{BufferPool, PooledBuf};
use crate::{AreaKind, BLOCK_BYTES, Heat, NewPage, PageAddress, PageId};

/// A page in a group.
pub(crate) struct PendingPage {
    pub(crate) id: PageId,
    pub(crate) at: PageAddress,
    pub(crate) heat: Heat,
    reads: AtomicU32,
    released: AtomicBool,
}

impl PendingPage {
    /// Times that the page was read while it waited.
    pub(crate) fn reads(&self) -> u32 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Whether the page was superseded while it waited. It is written all the same: older readers may ask for it.
    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }
}

/// What became of the chunk of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    /// Not written yet.
    Pending = 0,
    /// On the device.
    Written = 1,
    /// Its zone failed; the appender places it again.
    Failed = 2,
}

/// What a group holds.
pub(crate) enum Content {
    Pages(Vec<PendingPage>),
    Chunk(AreaKind),
}

/// Frames that are written together.
pub(crate) struct Group {
    first_block: u64,
    generation: u64,
    blocks: u64,
    buffer: PooledBuf,
    content: Content,
    outcome: AtomicU8,
}

impl Group {
    /// An empty group for pages at `place`, with room for `blocks_max` blocks.
    pub(crate) fn for_pages(pool: &Arc<BufferPool>, place: Place, blocks_max: u64) -> Self {
        Self::new(pool.take(blocks_max), place, Content::Pages(Vec::with_capacity(crate::number::index(blocks_max))))
    }

    /// A complete group of one chunk.
    pub(crate) fn of_chunk(pool: &Arc<BufferPool>, framing: Framing, chunk: &ChunkFrame<'_>, place: Place) -> Self {
        let blocks = chunk_blocks(chunk.payload.len());
        let mut group = Self::new(pool.take(blocks), place, Content::Chunk(chunk.kind));
        framing.write_chunk(&mut group.buffer[..crate::number::bytes(blocks)], chunk, place);
        group.blocks = blocks;
        group
    }

    fn new(buffer: PooledBuf, place: Place, content: Content) -> Self {
        let Place { generation, block } = place;
        Self {
            first_block: block,
            generation,
            blocks: 0,
            buffer,
            content,
            outcome: AtomicU8::new(Outcome::Pending as u8),
        }
    }

    /// Blocks that still fit.
    pub(crate) fn room_blocks(&self) -> u64 {
        (self.buffer.len() / BLOCK_BYTES) as u64 - self.blocks
    }

    /// Adds a page, which must fit.
    pub(crate) fn push_page(&mut self, framing: Framing, heat: Heat, page: &NewPage<'_>) -> PageAddress {
        let blocks = page_blocks(page.body.len());
        let at = PageAddress::new(self.first_block + self.blocks, blocks);
        let from = crate::number::bytes(self.blocks);
        let place = Place { generation: self.generation, block: at.block() };
        framing.write_page(&mut self.buffer[from..from + crate::number::bytes(blocks)], page, place);
        self.blocks += blocks;
        let pending = PendingPage { id: page.id, at, heat, reads: AtomicU32::new(0), released: AtomicBool::new(false) };
        match &mut self.content {
            Content::Pages(pages) => pages.push(pending),
            Content::Chunk(_) => unreachable!("a page is never added to the group of a chunk"),
        }
        at
    }

    /// The bytes to write.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..crate::number::bytes(self.blocks)]
    }

    pub(crate) fn first_block(&self) -> u64 {
        self.first_block
    }

    /// First block behind the group.
    pub(crate) fn end_block(&self) -> u64 {
        self.first_block + self.blocks
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// The pages; none for the group of a chunk.
    pub(crate) fn pages(&self) -> &[PendingPage] {
        match &self.content {
            Content::Pages(pages) => pages,
            Content::Chunk(_) => &[],
        }
    }

    /// The blocks of a page of this group, header included.
    pub(crate) fn page_bytes(&self, at: PageAddress) -> &[u8] {
        let from = crate::number::bytes(at.block() - self.first_block);
        &self.buffer[from..from + crate::number::bytes(at.blocks())]
    }

    /// Whether `at` is a page of this group; counts a read.
    pub(crate) fn read(&self, at: PageAddress) -> bool {
        let page = self.page(at);
        if let Some(page) = page {
            page.reads.fetch_add(1, Ordering::Relaxed);
        }
        page.is_some()
    }

    /// Remembers that a page is superseded; `false` if it is not in this group.
    pub(crate) fn release(&self, at: PageAddress) -> bool {
        let page = self.page(at);
        if let Some(page) = page {
            page.released.store(true, Ordering::Release);
        }
        page.is_some()
    }

    fn page(&self, at: PageAddress) -> Option<&PendingPage> {
        if !(self.first_block..self.end_block()).contains(&at.block()) {
            return None;
        }
        self.pages().iter().find(|page| page.at == at)
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self.outcome.load(Ordering::Acquire) {
            0 => Outcome::Pending,
            1 => Outcome::Written,
            _ => Outcome::Failed,
        }
    }

    pub(crate) fn set_outcome(&self, outcome: Outcome) {
        self.outcome.store(outcome as u8, Ordering::Release);
    }
}
