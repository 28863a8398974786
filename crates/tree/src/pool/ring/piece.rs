//! The raw memory of a ring: segments, and in them pieces back to back.
//!
//! A segment is of the ring's [`SegmentSize`], aligned to that, and begins with a head of 16 bytes, so that whoever has a piece finds its
//! segment and the ring. A piece is a head of 8 bytes and its content, which begins at any multiple of 8. A large piece is an allocation of
//! its own that begins like a segment.
//!
//! Unsafe code: both are reached by address from wherever a buffer is. Always: heads of pieces are changed, and the content of pieces that
//! nobody has taken is touched, under the ring's lock only; a segment's head does not change while a piece of it is taken. The atomics are
//! std's also under shuttle: they lie in raw memory, and what they order the lock orders.

use std::{
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use zonda_pages::PageId;

use super::{Inner, segment_size::SegmentSize};
use crate::{
    leaf_table::LEAVES_MAX,
    limits::RING_BYTES_MAX,
    pool::class::{class_bytes, class_for},
};

/// What a segment begins with.
pub(super) const SEGMENT_HEAD_BYTES: usize = size_of::<SegmentHead>();
/// What a piece begins with.
pub(super) const PIECE_HEAD_BYTES: usize = size_of::<u64>();
/// Marks the order of a "segment" that is one piece outside of the ring; the other bits are its number.
const OUTSIDE: u64 = 1 << 63;

const UNIT_BYTES: usize = 8;
/// Head of a piece, from the low bits: state 3 | leaf 27 | place 34. The place is the logical address of its segment and, below a segment's
/// length, the piece's own: it is shorter than its segment. In units, so that the same 34 bits do for segments of any size.
const LEAF_SHIFT: u32 = 3;
const PLACE_SHIFT: u32 = LEAF_SHIFT + 27;
const _: () = assert!(LEAVES_MAX <= 1 << (PLACE_SHIFT - LEAF_SHIFT));

/// Bits of an address that a piece's own head tells: distances up to half of what they count are right.
const NEAR_BITS: u32 = u64::BITS - PLACE_SHIFT + UNIT_BYTES.ilog2();
const _: () = assert!(RING_BYTES_MAX <= 1 << (NEAR_BITS - 2));

#[repr(C)]
struct SegmentHead {
    inner: *const Inner,
    order: u64,
}

const _: () = assert!(SEGMENT_HEAD_BYTES == 16);

/// A segment. Whoever changes it holds the ring's lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Segment(NonNull<u8>);

impl Segment {
    /// The segment at `base`, which is aligned, initialised and nobody else's.
    pub(super) fn at(base: NonNull<u8>) -> Self {
        debug_assert!(base.addr().get().is_multiple_of(SegmentSize::SMALLEST.bytes()));
        Self(base)
    }

    /// Where it begins.
    pub(super) fn base(self) -> NonNull<u8> {
        self.0
    }

    /// Enters it into the ring of `inner` as the `order`-th.
    pub(super) fn begin(self, inner: *const Inner, order: u64) {
        // SAFETY: the segment has room for its head and no piece of it is taken.
        unsafe { self.0.cast::<SegmentHead>().write(SegmentHead { inner, order }) }
    }

    /// Begins an allocation of one piece, the `number`-th outside of the ring.
    pub(super) fn begin_outside(self, inner: *const Inner, number: u64) {
        self.begin(inner, OUTSIDE | number);
    }

    /// The segment of this size that the content at `content` lies in.
    pub(super) fn around(content: NonNull<u8>, size: SegmentSize) -> Self {
        let base = content.as_ptr().map_addr(|address| address & !(size.bytes() - 1));
        Self(NonNull::new(base).expect("segments are not at zero"))
    }

    fn head(self) -> SegmentHead {
        // SAFETY: the head of a segment is written before pieces of it are taken, and not while one is; the caller has one or the lock.
        unsafe { self.0.cast::<SegmentHead>().read() }
    }

    /// Whose it is.
    pub(super) fn inner(self) -> *const Inner {
        self.head().inner
    }

    /// Its number in the ring, or, as an error, among the pieces outside.
    pub(super) fn order(self) -> Result<u64, u64> {
        let order = self.head().order;
        if order & OUTSIDE == 0 { Ok(order) } else { Err(order & !OUTSIDE) }
    }

    /// The piece at `offset`, if one begins there.
    pub(super) fn piece(self, offset: usize) -> Piece {
        debug_assert!(offset >= SEGMENT_HEAD_BYTES && offset.is_multiple_of(UNIT_BYTES));
        // SAFETY: within the segment.
        Piece(unsafe { self.0.add(offset) }.cast())
    }
}

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceState {
    /// Nobody's, and in no free list.
    Gone,
    /// In the free list of its class.
    Listed,
    /// A buffer's.
    Taken,
    /// A buffer's that somebody is evicting.
    Claimed,
    /// Given back while somebody was evicting it.
    Drained,
    /// A buffer's, outside of the ring.
    Outside,
}

const STATES: [PieceState; 6] = [
    PieceState::Gone,
    PieceState::Listed,
    PieceState::Taken,
    PieceState::Claimed,
    PieceState::Drained,
    PieceState::Outside,
];

/// What the head of a piece says.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceHead {
    pub(super) state: PieceState,
    /// Whose it is, if it is taken.
    pub(super) leaf: PageId,
    /// In units: the address of its segment, modulo 2^34, and its bytes.
    place: u64,
}

impl PieceHead {
    /// The head of a piece of `bytes` in the segment at the logical address `segment_address`.
    pub(super) fn new(bytes: usize, state: PieceState, leaf: PageId, segment_address: u64) -> Self {
        let place = (segment_address + bytes as u64) / UNIT_BYTES as u64;
        Self { state, leaf, place: place & (u64::MAX >> PLACE_SHIFT) }
    }

    /// The head of a piece outside of the ring.
    pub(super) fn outside(leaf: PageId) -> Self {
        Self::new(0, PieceState::Outside, leaf, 0)
    }

    /// Bytes of head and content; 0 outside of the ring.
    pub(super) fn bytes(&self, segment: SegmentSize) -> usize {
        small(self.place_bytes() & (segment.bytes() as u64 - 1))
    }

    /// The logical address of its segment, modulo 2^37.
    fn segment_address(&self, segment: SegmentSize) -> u64 {
        self.place_bytes() & !(segment.bytes() as u64 - 1)
    }

    fn place_bytes(&self) -> u64 {
        self.place * UNIT_BYTES as u64
    }

    /// The class whose piece this is; it is one of a class.
    pub(super) fn class(&self, segment: SegmentSize) -> usize {
        class_for(self.bytes(segment) - PIECE_HEAD_BYTES)
    }
}

/// A piece. Whoever changes it holds the ring's lock; heads are atomic words, so that the piece's owner may read his without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece(NonNull<u64>);

impl Piece {
    /// The piece with this content.
    pub(super) fn of(content: NonNull<u8>) -> Self {
        // SAFETY: a content stands behind its head.
        Self(unsafe { content.sub(PIECE_HEAD_BYTES) }.cast())
    }

    /// Where its content begins.
    pub(super) fn content(self) -> NonNull<u8> {
        // SAFETY: behind the head.
        unsafe { self.0.cast::<u8>().add(PIECE_HEAD_BYTES) }
    }

    /// Bytes of a piece of `class`.
    pub(super) fn bytes_of(class: usize) -> usize {
        PIECE_HEAD_BYTES + class_bytes(class)
    }

    fn word<'a>(self) -> &'a AtomicU64 {
        // SAFETY: aligned to 8, initialised memory that lives as long as the ring, and reached through atomics only while there is a piece.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr()) }
    }

    /// Reads the head.
    pub(super) fn head(self) -> PieceHead {
        let raw = self.word().load(Ordering::Relaxed);
        let field = |from: u32, to: u32| raw >> from & ((1 << (to - from)) - 1);
        PieceHead {
            state: STATES[small(field(0, LEAF_SHIFT))],
            leaf: PageId(u32::try_from(field(LEAF_SHIFT, PLACE_SHIFT)).expect("27 bits")),
            place: raw >> PLACE_SHIFT,
        }
    }

    /// Writes the head.
    pub(super) fn set_head(self, head: PieceHead) {
        let raw = head.state as u64 | u64::from(head.leaf.0) << LEAF_SHIFT | head.place << PLACE_SHIFT;
        self.word().store(raw, Ordering::Relaxed);
    }

    /// Whether a taken piece lies before the address `bound`, which is no further away than a ring is long. For its owner, without the
    /// lock.
    pub(super) fn is_before(self, bound: u64, segment: SegmentSize) -> bool {
        let head = self.head();
        let offset = self.0.addr().get() & (segment.bytes() - 1);
        let address = head.segment_address(segment) + offset as u64;
        let distance = bound.wrapping_sub(address) << (u64::BITS - NEAR_BITS);
        head.state != PieceState::Outside && distance.cast_signed() > 0
    }

    /// Gives a free piece to `leaf`.
    pub(super) fn take(self, leaf: PageId) {
        self.set_head(PieceHead { leaf, state: PieceState::Taken, ..self.head() });
    }

    /// Changes the state.
    pub(super) fn set_state(self, state: PieceState) {
        self.set_head(PieceHead { state, ..self.head() });
    }

    /// The neighbours in a free list.
    pub(super) fn links(self) -> [Option<Piece>; 2] {
        // SAFETY: a listed piece is nobody's, has at least 64 bytes of content, and its links were written when it was listed.
        unsafe { self.content().cast::<[Option<Piece>; 2]>().read_unaligned() }
    }

    /// Sets the neighbours in a free list.
    pub(super) fn set_links(self, links: [Option<Piece>; 2]) {
        // SAFETY: as above.
        unsafe { self.content().cast::<[Option<Piece>; 2]>().write_unaligned(links) }
    }
}

fn small(number: u64) -> usize {
    usize::try_from(number).expect("17 bits at the most")
}
