//! Where the segments of a ring come from: each alone, or, for a large ring, from chunks of 2 MiB on huge pages where the system has them.
//!
//! Both are mapped rather than allocated: pieces as long as they are aligned would lie a piece apart, and the process would hold twice the ring.
//!
//! The lowest segment is used first, so that the chunks that a shrinking ring does not need become empty, and go back.

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

/// All chunks and their free segments. Under the ring's lock.
pub(super) struct Chunks {
    segment_bytes: usize,
    layout: Layout,
    /// By address: each chunk, and how many of its segments are in use.
    chunks: BTreeMap<usize, (NonNull<u8>, usize)>,
    free: BTreeSet<Segment>,
}

impl Chunks {
    /// No chunks yet, for a ring of `bytes` in such segments.
    pub(super) fn new(bytes: u64, segment: SegmentSize) -> Self {
        let segment_bytes = segment.bytes();
        let chunk_bytes = if bytes < HUGE_BYTES_MIN { segment_bytes } else { CHUNK_BYTES };
        let layout = Layout::from_size_align(chunk_bytes, chunk_bytes).expect("a small power of two");
        Self { segment_bytes, layout, chunks: BTreeMap::new(), free: BTreeSet::new() }
    }

    /// How many segments whole chunks of `bytes` in all have.
    pub(super) fn segments_in(&self, bytes: u64) -> u64 {
        let chunk_bytes = self.layout.size() as u64;
        bytes / chunk_bytes * (chunk_bytes / self.segment_bytes as u64)
    }

    /// Bytes of all chunks.
    pub(super) fn bytes(&self) -> u64 {
        (self.chunks.len() * self.layout.size()) as u64
    }

    /// A segment, initialised.
    pub(super) fn take(&mut self) -> Segment {
        if self.free.is_empty() {
            self.grow();
        }
        let segment = self.free.pop_first().expect("just grown");
        self.used_of(segment).1 += 1;
        segment
    }

    /// Gives a segment back of which no piece is taken; its chunk goes if `bytes_max` is exceeded without it.
    pub(super) fn give(&mut self, segment: Segment, bytes_max: u64) {
        self.free.insert(segment);
        let used = &mut self.used_of(segment).1;
        *used -= 1;
        if *used == 0 && self.bytes() > bytes_max {
            self.release(segment);
        }
    }

    /// Releases empty chunks while all together exceed `bytes_max`.
    pub(super) fn trim(&mut self, bytes_max: u64) {
        while self.bytes() > bytes_max {
            let Some((_, &(base, _))) = self.chunks.iter().find(|(_, (_, used))| *used == 0) else { return };
            self.release(Segment::at(base));
        }
    }

    fn used_of(&mut self, segment: Segment) -> &mut (NonNull<u8>, usize) {
        let chunk = segment.base().addr().get() & !(self.layout.size() - 1);
        self.chunks.get_mut(&chunk).expect("the segment came from here")
    }

    fn grow(&mut self) {
        let Some(base) = zonda_rt::map_memory(self.layout) else { handle_alloc_error(self.layout) };
        if self.layout.size() == CHUNK_BYTES {
            // Before it is touched: the system decides then.
            zonda_rt::prefer_huge_pages(base, CHUNK_BYTES);
        }
        self.chunks.insert(base.addr().get(), (base, 0));
        self.free.extend(self.segments_of(base));
    }

    fn release(&mut self, segment: Segment) {
        let (base, _) = *self.used_of(segment);
        self.chunks.remove(&base.addr().get());
        for segment in self.segments_of(base) {
            self.free.remove(&segment);
        }
        // SAFETY: mapped with this layout; none of its segments is in use.
        unsafe { zonda_rt::unmap_memory(base, self.layout) }
    }

    /// The segments of the chunk at `base`.
    fn segments_of(&self, base: NonNull<u8>) -> impl Iterator<Item = Segment> + use<> {
        let segment_bytes = self.segment_bytes;
        // SAFETY: within the chunk.
        (0..self.layout.size() / segment_bytes)
            .map(move |index| Segment::at(unsafe { base.add(index * segment_bytes) }))
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        for (base, _) in std::mem::take(&mut self.chunks).into_values() {
            // SAFETY: mapped with this layout; no piece is taken (`Ring::drop`).
            unsafe { zonda_rt::unmap_memory(base, self.layout) }
        }
    }
}
