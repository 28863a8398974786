//! Where things are on a block device, in blocks of 4,096 bytes: arithmetic only.
//!
//! ```text
//! block 0              superblock, first copy
//! 1 .. end - 1         segments of `segment_blocks`, each with a header in its first block
//! end - 1              superblock, second copy
//! ```
//!
//! Segment `n` ends at block `(n + 1) * segment_blocks`; the first one begins behind the superblock, the last one ends before its
//! copy, so these two may be a block shorter. What is left behind the last whole segment is not used.

use zonda_space::SpaceError;

use crate::{BLOCK_BYTES, PageError};

/// The shortest segment in blocks: a header, and a group of pages.
pub(crate) const SEGMENT_BLOCKS_MIN: u64 = 8;
/// The longest segment in blocks: 4 GiB.
pub(crate) const SEGMENT_BLOCKS_MAX: u64 = 1 << 20;
/// Blocks that a page address can tell.
const CAPACITY_BLOCKS_MAX: u64 = 1 << 40;

/// Number of a segment, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentIndex(pub(crate) u32);

impl SegmentIndex {
    /// As an index into a table of segments.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shape of a store in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    capacity_blocks: u64,
    segment_blocks: u64,
    segments: u32,
}

impl Layout {
    /// The layout of a device of `capacity_blocks` with segments of `segment_blocks`.
    ///
    /// # Errors
    /// `BadOption`, `BadGeometry`.
    pub(crate) fn new(capacity_blocks: u64, segment_blocks: u64) -> Result<Self, PageError> {
        if !(SEGMENT_BLOCKS_MIN..=SEGMENT_BLOCKS_MAX).contains(&segment_blocks) {
            let rule = "a segment has 8 to 1,048,576 blocks of 4,096 bytes";
            return Err(SpaceError::BadOption { option: "segment_blocks", value: segment_blocks, rule }.into());
        }
        let segments = u32::try_from(capacity_blocks / segment_blocks).ok().filter(|&segments| segments > 0);
        match segments {
            Some(segments) if capacity_blocks <= CAPACITY_BLOCKS_MAX => {
                Ok(Self { capacity_blocks, segment_blocks, segments })
            }
            _ => {
                let (what, rule) = ("capacity in blocks of 4,096 bytes", "it takes 1 to 2^32 - 1 segments, below 2^40");
                Err(SpaceError::BadGeometry { what, value: capacity_blocks, rule }.into())
            }
        }
    }

    /// Number of segments.
    pub(crate) fn segments(self) -> u32 {
        self.segments
    }

    /// Blocks from segment to segment.
    pub(crate) fn segment_blocks(self) -> u64 {
        self.segment_blocks
    }

    /// Blocks of the device.
    pub(crate) fn capacity_blocks(self) -> u64 {
        self.capacity_blocks
    }

    /// All segments in order.
    pub(crate) fn all(self) -> impl Iterator<Item = SegmentIndex> {
        (0..self.segments).map(SegmentIndex)
    }

    /// The block of a segment's header.
    pub(crate) fn header(self, segment: SegmentIndex) -> u64 {
        (u64::from(segment.0) * self.segment_blocks).max(1)
    }

    /// The first block behind the header.
    pub(crate) fn first(self, segment: SegmentIndex) -> u64 {
        self.header(segment) + 1
    }

    /// The block behind the segment.
    pub(crate) fn end(self, segment: SegmentIndex) -> u64 {
        ((u64::from(segment.0) + 1) * self.segment_blocks).min(self.capacity_blocks - 1)
    }

    /// Blocks behind the header.
    pub(crate) fn data_blocks(self, segment: SegmentIndex) -> u64 {
        self.end(segment) - self.first(segment)
    }

    /// Blocks behind the header that every segment has.
    pub(crate) fn data_blocks_min(self) -> u64 {
        self.segment_blocks - 1 - if self.segments == 1 { 2 } else { 1 }
    }

    /// Bytes behind the headers of all segments. A segment ends where the next one's header is: all blocks between the two superblocks are
    /// data, but for a header each. Asked by every write.
    pub(crate) fn data_bytes(self) -> u64 {
        let first = SegmentIndex(0);
        let last = SegmentIndex(self.segments - 1);
        (self.end(last) - self.header(first) - u64::from(self.segments)) * BLOCK_BYTES as u64
    }

    /// The segment that holds `blocks` blocks from `block` on behind its header.
    pub(crate) fn segment_of(self, block: u64, blocks: u64) -> Option<SegmentIndex> {
        let segment = SegmentIndex(u32::try_from(block / self.segment_blocks).ok()?);
        let inside = segment.0 < self.segments && block >= self.first(segment);
        (inside && block.checked_add(blocks)? <= self.end(segment)).then_some(segment)
    }
}

/// Both places of the superblock on a device of this capacity.
pub(crate) fn superblocks(capacity_blocks: u64) -> [u64; 2] {
    [0, capacity_blocks.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_and_segments_do_not_overlap() {
        for (capacity, segment) in [(64, 8), (67, 8), (16, 16), (1 << 20, 4096)] {
            let layout = Layout::new(capacity, segment).unwrap();
            let mut next = 1;
            for index in layout.all() {
                assert_eq!(layout.header(index), next);
                assert!(layout.data_blocks(index) >= layout.data_blocks_min());
                next = layout.end(index);
            }
            assert!(next < capacity, "the second copy lies behind the segments");
            let data: u64 = layout.all().map(|segment| layout.data_blocks(segment)).sum();
            assert_eq!(layout.data_bytes(), data * BLOCK_BYTES as u64);
        }
    }

    #[test]
    fn a_block_belongs_to_its_segment_unless_it_is_a_header() {
        let layout = Layout::new(32, 8).unwrap();
        assert_eq!(layout.segment_of(0, 1), None);
        assert_eq!(layout.segment_of(1, 1), None);
        assert_eq!(layout.segment_of(2, 6), Some(SegmentIndex(0)));
        assert_eq!(layout.segment_of(2, 7), None);
        assert_eq!(layout.segment_of(8, 1), None);
        assert_eq!(layout.segment_of(30, 1), Some(SegmentIndex(3)));
        assert_eq!(layout.segment_of(31, 1), None);
        assert_eq!(layout.segment_of(32, 1), None);
        assert_eq!(layout.segment_of(u64::MAX, 2), None);
    }

    #[test]
    fn absurd_shapes_are_refused() {
        assert!(Layout::new(64, 7).is_err());
        assert!(Layout::new(64, SEGMENT_BLOCKS_MAX + 1).is_err());
        assert!(Layout::new(7, 8).is_err());
        assert!(Layout::new((1 << 40) + 1, 1 << 20).is_err());
    }
}
