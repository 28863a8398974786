//! The one writer of the log area: assembles chunks and appends them.

use zerocopy::IntoBytes;
use zonda_pages::{AreaKind, BLOCK_BYTES, PageStore};

use super::instance::Instance;
use super::segments::Segments;
use crate::TreeError;
use crate::format::{CHUNK_VERSION, LOG_MAGIC, LogChunkHeader};

/// Bytes that a part may have in an otherwise empty chunk of `chunk_bytes_max` bytes.
pub(super) fn part_bytes_max(chunk_bytes_max: usize) -> usize {
    chunk_bytes_max.min(u32::MAX as usize).saturating_sub(size_of::<LogChunkHeader>())
}

/// The chunk being assembled, and what is known of the chunks before it. Used under one lock, so that chunks lie on the
/// device in the order in which they were collected.
///
/// A chunk that the area refused for lack of space stays here and is appended first the next time.
pub(super) struct Writer {
    session: u32,
    chunk: Vec<u8>,
    parts: u16,
    /// Above all numbers in the chunk.
    end: u64,
    /// Value pointers are in the chunk: the values must be durable before it is written, because it may survive a
    /// power cut unflushed.
    pointers: bool,
    /// Every number of this session below it is in the chunk or before it.
    complete_before: u64,
    /// What lies where.
    pub(super) segments: Segments,
}

impl Writer {
    pub(super) fn new(session: u32, first_sequence: u64, segments: Segments) -> Self {
        let (chunk, parts, end, pointers) = (Vec::new(), 0, first_sequence, false);
        Self { session, chunk, parts, end, pointers, complete_before: first_sequence, segments }
    }

    /// Whether the chunk has room for another part.
    pub(super) fn fits(&self, part_bytes: usize, chunk_bytes_max: usize) -> bool {
        let used = self.chunk.len().max(size_of::<LogChunkHeader>());
        self.parts < u16::MAX && used + part_bytes <= chunk_bytes_max
    }

    /// Whether a chunk waits to be appended.
    pub(super) fn has_chunk(&self) -> bool {
        !self.chunk.is_empty()
    }

    /// Takes what an instance holds.
    pub(super) fn collect(&mut self, instance: &mut Instance, ring_bytes: usize) {
        if self.chunk.is_empty() {
            self.chunk.resize(size_of::<LogChunkHeader>(), 0);
        }
        let taken = instance.take(&mut self.chunk, ring_bytes);
        self.parts += 1;
        self.end = self.end.max(taken.end);
        self.pointers |= taken.pointers;
    }

    /// All instances were collected since the next number was `complete_before`.
    pub(super) fn complete(&mut self, complete_before: u64) {
        self.complete_before = complete_before;
    }

    fn fill_header(&mut self, durable_before: u64) {
        let header = LogChunkHeader {
            magic: LOG_MAGIC,
            version: CHUNK_VERSION.into(),
            parts: self.parts.into(),
            session: self.session.into(),
            reserved: 0.into(),
            complete_before: self.complete_before.into(),
            durable_before: durable_before.into(),
        };
        self.chunk[..size_of::<LogChunkHeader>()].copy_from_slice(header.as_bytes());
    }

    /// Appends the chunk, if there is one; flushes the values first if it points to some. One device write. Every number below
    /// `durable_before` is durable: the chunk says so, and recovery then knows damage from a torn tail.
    ///
    /// # Errors
    /// Those of the areas. After `NoSpace` the chunk is still here.
    pub(super) fn append(
        &mut self,
        store: &dyn PageStore,
        durable_before: u64,
        keep_bytes: usize,
    ) -> Result<(), TreeError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        if self.pointers {
            store.area(AreaKind::Values).flush()?;
            self.pointers = false;
        }
        self.fill_header(durable_before);
        let (_, segment) = store.area(AreaKind::Log).append(&self.chunk)?;
        let padded = self.chunk.len().next_multiple_of(BLOCK_BYTES) as u64;
        self.segments.appended(segment, self.end, padded);
        self.chunk.clear();
        self.chunk.shrink_to(keep_bytes);
        self.parts = 0;
        Ok(())
    }
}
