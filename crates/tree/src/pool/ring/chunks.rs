//! Where the segments of a ring come from: each alone, or, for a large ring, from chunks of 2 MiB on huge pages where the system has them.
//!
//! Both are mapped rather than allocated: pieces as long as they are aligned would lie a piece apart, and the process would hold twice the
//! ring.
//!
//! The lowest segment is used first, so that the chunks that a shrinking ring does not need become empty, and go back. Where a limit asks
//! for chunks of another size, those that are there *retire*: none of their segments is used again, and each goes when its last one comes
//! back.

use std::{
    alloc::{Layout, handle_alloc_error},
    collections::{BTreeMap, BTreeSet},
    ptr::NonNull,
};

use super::{piece::Segment, segment_size::SegmentSize};

/// A huge page of x86 and of most Arm systems.
const CHUNK_BYTES: usize = 2 << 20;
/// From this size on a ring is made of chunks: a few of them in part more than it needs are no great loss.
const HUGE_BYTES_MIN: u64 = 48 << 20;
/// A ring that was made of chunks is down to this size: one that is lowered and raised again and again does not change with each.
const HUGE_BYTES_END: u64 = HUGE_BYTES_MIN / 3;

/// Memory of one or more segments.
struct Chunk {
    base: NonNull<u8>,
    layout: Layout,
    /// How many of its segments are in use.
    used: usize,
    retired: bool,
}

/// All chunks and their free segments. Under the ring's lock.
pub(super) struct Chunks {
    segment_bytes: usize,
    /// Of new chunks.
    layout: Layout,
    /// By address.
    chunks: BTreeMap<usize, Chunk>,
    /// Of chunks that are not retired.
    free: BTreeSet<Segment>,
    bytes: u64,
}

impl Chunks {
    /// No chunks yet, for a ring in such segments.
    pub(super) fn new(segment: SegmentSize) -> Self {
        let segment_bytes = segment.bytes();
        let layout = aligned_to_itself(segment_bytes);
        Self { segment_bytes, layout, chunks: BTreeMap::new(), free: BTreeSet::new(), bytes: 0 }
    }

    /// Takes chunks from now on that suit a ring of `bytes`; returns how many segments whole chunks of so many bytes have.
    pub(super) fn set_limit_bytes(&mut self, bytes: u64) -> u64 {
        let is_huge = self.layout.size() == CHUNK_BYTES;
        let stays_huge = bytes >= if is_huge { HUGE_BYTES_END } else { HUGE_BYTES_MIN };
        if stays_huge != is_huge {
            self.retire_all();
            self.layout = aligned_to_itself(if stays_huge { CHUNK_BYTES } else { self.segment_bytes });
        }
        let chunk_bytes = self.layout.size() as u64;
        bytes / chunk_bytes * (chunk_bytes / self.segment_bytes as u64)
    }

    /// Bytes of all chunks.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A segment, initialised.
    pub(super) fn take(&mut self) -> Segment {
        if self.free.is_empty() {
            self.grow();
        }
        let segment = self.free.pop_first().expect("just grown");
        self.chunk_of(segment).used += 1;
        segment
    }

    /// Gives a segment back of which no piece is taken; its chunk goes if it is retired, or `bytes_max` is exceeded without it.
    pub(super) fn give(&mut self, segment: Segment, bytes_max: u64) {
        let is_over = self.bytes > bytes_max;
        let chunk = self.chunk_of(segment);
        chunk.used -= 1;
        let (is_empty, is_retired) = (chunk.used == 0, chunk.retired);
        if !is_retired {
            self.free.insert(segment);
        }
        if is_empty && (is_retired || is_over) {
            self.release(segment);
        }
    }

    /// Releases empty chunks while all together exceed `bytes_max`.
    pub(super) fn trim(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max {
            let Some(chunk) = self.chunks.values().find(|chunk| chunk.used == 0) else { return };
            self.release(Segment::at(chunk.base));
        }
    }

    fn retire_all(&mut self) {
        self.free.clear();
        self.chunks.values_mut().for_each(|chunk| chunk.retired = true);
        self.trim(0);
    }

    fn chunk_of(&mut self, segment: Segment) -> &mut Chunk {
        let (_, chunk) = self.chunks.range_mut(..=segment.base().addr().get()).next_back().expect("it came from here");
        chunk
    }

    fn grow(&mut self) {
        let layout = self.layout;
        let Some(base) = zonda_rt::map_memory(layout) else { handle_alloc_error(layout) };
        if layout.size() == CHUNK_BYTES {
            // Before it is touched: the system decides then.
            zonda_rt::prefer_huge_pages(base, CHUNK_BYTES);
        }
        let chunk = Chunk { base, layout, used: 0, retired: false };
        self.free.extend(chunk.segments(self.segment_bytes));
        self.chunks.insert(base.addr().get(), chunk);
        self.bytes += layout.size() as u64;
    }

    /// Gives the chunk of `segment` back, of which none is in use.
    fn release(&mut self, segment: Segment) {
        let at = self.chunk_of(segment).base.addr().get();
        let chunk = self.chunks.remove(&at).expect("just found");
        for segment in chunk.segments(self.segment_bytes) {
            self.free.remove(&segment);
        }
        self.bytes -= chunk.layout.size() as u64;
        chunk.unmap();
    }
}

impl Chunk {
    fn segments(&self, segment_bytes: usize) -> impl Iterator<Item = Segment> + use<> {
        let base = self.base;
        // SAFETY: within the chunk.
        (0..self.layout.size() / segment_bytes)
            .map(move |index| Segment::at(unsafe { base.add(index * segment_bytes) }))
    }

    fn unmap(self) {
        // SAFETY: mapped with this layout; none of its segments is in use.
        unsafe { zonda_rt::unmap_memory(self.base, self.layout) }
    }
}

impl Drop for Chunks {
    /// No piece is taken any more (`Ring::drop`).
    fn drop(&mut self) {
        std::mem::take(&mut self.chunks).into_values().for_each(Chunk::unmap);
    }
}

fn aligned_to_itself(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, bytes).expect("a small power of two")
}
