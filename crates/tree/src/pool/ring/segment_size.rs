//! How long the segments of a ring are.
//!
//! A mini-page does not cross the end of a segment, so segments must hold the largest of them, the mirror of a full leaf. Where four
//! mirrors share one, what is left free at its end is little, as with leaves of 4 KiB in segments of 16 KiB.

/// Leaves that a segment is as long as.
const LEAVES: usize = 4;
/// A ring has at least so many segments when it is made: it is shorter than its limit by one (head and tail may both stand within a
/// segment).
const SEGMENTS_MIN: u64 = 8;

/// A power of two from 16 to 128 KiB; fixed when the ring is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSize(u8);

impl SegmentSize {
    /// 16 KiB.
    pub(crate) const SMALLEST: Self = Self(0);
    const LARGEST: Self = Self(3);

    /// For mirrors of leaves of `leaf_bytes` in a ring of `ring_bytes`. A ring that is short for its leaves, below 1 MiB for those of 32
    /// KiB, has shorter segments: a quarter of it lost at the end would cost it more than the mirrors that do not fit are worth. The
    /// fullest leaves have none there.
    pub(crate) fn of(leaf_bytes: u32, ring_bytes: u64) -> Self {
        let wanted = |size: &Self| size.bytes() < LEAVES * leaf_bytes as usize;
        let fits = |size: &Self| SEGMENTS_MIN * size.bytes() as u64 <= ring_bytes;
        let mut size = Self::SMALLEST;
        while size != Self::LARGEST && wanted(&size) && fits(&Self(size.0 + 1)) {
            size = Self(size.0 + 1);
        }
        size
    }

    /// Bytes and alignment of a segment.
    pub(crate) const fn bytes(self) -> usize {
        (16 << 10) << self.0
    }

    /// What a ring keeps free at the least so that a reader finds room for a mirror: that of a full leaf with its marks, and as much as may
    /// be skipped for it at the end of a segment. Without, scans alone would stop to make mirrors, because nothing would be evicted for
    /// them. In the smallest segments mirrors are small; what is kept free there for writers is enough.
    pub(super) fn headroom_for_mirror(self, leaf_bytes: u32) -> u64 {
        let mirror_bytes = (leaf_bytes as usize / 8 * 9).min(self.bytes());
        if self == Self::SMALLEST { 0 } else { 2 * mirror_bytes as u64 }
    }

    /// A number below 4.
    pub(crate) fn raw(self) -> u8 {
        self.0
    }

    /// The size of which this is the number.
    pub(crate) fn from_raw(raw: u8) -> Self {
        assert!(raw <= Self::LARGEST.0, "{raw} is no size of segments");
        Self(raw)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    fn segment_kib(leaf_kib: u32, ring_bytes: usize) -> usize {
        SegmentSize::of(leaf_kib << 10, ring_bytes as u64).bytes() / KIB
    }

    #[test]
    fn four_leaves_share_a_segment_where_the_ring_is_long_enough() {
        let long = [4, 8, 12, 16, 20, 32].map(|leaf_kib| segment_kib(leaf_kib, 64 << 20));
        assert_eq!(long, [16, 32, 64, 64, 128, 128]);
        assert_eq!(segment_kib(32, 1 << 20), 128);
        assert_eq!(segment_kib(32, (1 << 20) - 1), 64);
        assert_eq!(segment_kib(32, 480 * KIB), 32, "the least memory for buffers: fallback");
        assert_eq!(segment_kib(32, 16 * KIB), 16);
        assert_eq!(segment_kib(4, 0), 16);
    }
}
