//! What a ring's lock guards: the segments from head to tail, free lists, pieces outside.
//!
//! Logical addresses: a piece's address is (order of its segment) x (length of a segment) + offset; it only ever grows. An address at the
//! beginning of a segment stands for the end of the one before.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    collections::{BTreeMap, VecDeque},
    ptr::NonNull,
};

use zonda_pages::PageId;

use super::{
    Inner,
    chunks::Chunks,
    free::FreeLists,
    piece::{PIECE_HEAD_BYTES, Piece, PieceHead, PieceState, SEGMENT_HEAD_BYTES, Segment},
    segment_size::SegmentSize,
};
use crate::{
    limits::RING_BYTES_MAX,
    pool::class::{class_bytes, class_for},
};

/// The smallest piece that is worth a place in a free list.
const LISTED_BYTES_MIN: usize = 64;

/// A piece outside of the ring.
#[derive(Clone, Copy)]
pub(super) struct Outside {
    /// Whose it is.
    pub(super) leaf: PageId,
    class: usize,
    content: NonNull<u8>,
}

/// See the head of the file.
pub(super) struct State {
    size: SegmentSize,
    segments: VecDeque<Segment>,
    chunks: Chunks,
    free: FreeLists,
    /// Where the ring begins: at a piece that somebody uses or evicts, or at the tail.
    pub(super) head: u64,
    /// Where the next piece begins.
    pub(super) tail: u64,
    /// Where the search for the next victim goes on; never beyond a piece that is taken and that nobody evicts, if the head stands there.
    cursor: u64,
    /// Pieces outside of the ring by their number: in the order in which they came, wherever the system put them.
    outside: BTreeMap<u64, Outside>,
    outside_next: u64,
    outside_hand: u64,
    /// Pieces outside that cannot be evicted for now: they are claimed when there is nothing else.
    aside: BTreeMap<u64, Outside>,
    /// Memory of pieces outside, those set aside too.
    pub(super) outside_bytes: u64,
    /// Most segments that the limit allows.
    segments_max: u64,
}

impl State {
    /// An empty ring in segments of `size`.
    pub(super) fn new(size: SegmentSize) -> Self {
        Self {
            size,
            segments: VecDeque::new(),
            chunks: Chunks::new(size),
            free: FreeLists::new(size),
            head: 0,
            tail: 0,
            cursor: 0,
            outside: BTreeMap::new(),
            outside_next: 1,
            outside_hand: 0,
            aside: BTreeMap::new(),
            outside_bytes: 0,
            segments_max: 2,
        }
    }

    /// Changes how much memory there may be; returns the most that head and tail may be apart.
    pub(super) fn set_limit_bytes(&mut self, bytes: u64) -> u64 {
        let segments = self.chunks.set_limit_bytes(bytes.min(RING_BYTES_MAX));
        self.segments_max = segments.max(2);
        self.chunks.trim(self.bytes_max());
        // Head and tail may both stand within a segment.
        (self.segments_max - 1) * self.segment_bytes()
    }

    fn bytes_max(&self) -> u64 {
        self.segments_max * self.segment_bytes()
    }

    fn segment_bytes(&self) -> u64 {
        self.size.bytes() as u64
    }

    /// Whether a logical address is the end of a segment.
    fn is_end(&self, address: u64) -> bool {
        address.is_multiple_of(self.segment_bytes())
    }

    /// Memory held.
    pub(super) fn held_bytes(&self) -> u64 {
        self.chunks.bytes() + self.outside_bytes
    }

    /// Bytes from head to tail, and those outside.
    pub(super) fn span_bytes(&self) -> u64 {
        self.tail - self.head + self.outside_bytes
    }

    /// Bytes behind the head that it passes as soon as those are done who evict there. About: others may give up.
    pub(super) fn going_bytes(&self) -> u64 {
        self.cursor.saturating_sub(self.head)
    }

    fn segment_of(&self, address: u64) -> Segment {
        self.segments[index(address / self.segment_bytes() - self.head / self.segment_bytes())]
    }

    /// The piece at `address`, which is not the end of a segment.
    fn piece_at(&self, address: u64) -> Piece {
        self.segment_of(address).piece(index(address % self.segment_bytes()))
    }

    /// The address of a piece of the ring, or, as an error, its number outside.
    pub(super) fn address_of(&self, content: NonNull<u8>) -> Result<u64, u64> {
        let segment = Segment::around(content, self.size);
        let offset = content.addr().get() - segment.base().addr().get() - PIECE_HEAD_BYTES;
        segment.order().map(|order| order * self.segment_bytes() + offset as u64)
    }

    /// A free piece of `class` at `oldest` or behind it.
    pub(super) fn take_listed(&mut self, class: usize, leaf: PageId, oldest: u64) -> Option<NonNull<u8>> {
        loop {
            // One that will soon be passed is left alone.
            let piece = self.free.pop(class)?;
            if self.address_of(piece.content()).is_ok_and(|address| address >= oldest) {
                piece.take(leaf);
                return Some(piece.content());
            }
        }
    }

    /// A new piece of `class` at the tail, if head and tail are then at most `span_max` apart.
    pub(super) fn take_at_tail(
        &mut self,
        inner: *const Inner,
        (class, leaf): (usize, PageId),
        span_max: u64,
    ) -> Option<NonNull<u8>> {
        let bytes = Piece::bytes_of(class);
        let left = self.left_in_segment();
        let skipped = if left >= bytes { 0 } else { left + SEGMENT_HEAD_BYTES };
        let fits = bytes + SEGMENT_HEAD_BYTES <= self.size.bytes();
        if !fits || self.span_bytes() + (skipped + bytes) as u64 > span_max {
            return None;
        }
        if skipped > 0 {
            self.fill_segment(left);
            self.begin_segment(inner);
            // In an empty ring it stands before what was filled.
            self.advance_head();
        }
        Some(self.append(bytes, PieceState::Taken, leaf).content())
    }

    fn left_in_segment(&self) -> usize {
        index(self.tail.next_multiple_of(self.segment_bytes()) - self.tail)
    }

    fn append(&mut self, bytes: usize, state: PieceState, leaf: PageId) -> Piece {
        let piece = self.piece_at(self.tail);
        let segment_address = self.tail - self.tail % self.segment_bytes();
        piece.set_head(PieceHead::new(bytes, state, leaf, segment_address));
        self.tail += bytes as u64;
        piece
    }

    /// Makes the rest of the last segment free pieces, the largest first.
    fn fill_segment(&mut self, mut left: usize) {
        let nobody = PageId(0);
        while left >= PIECE_HEAD_BYTES + LISTED_BYTES_MIN {
            let power = 1 << (left - PIECE_HEAD_BYTES).ilog2();
            let bytes = Piece::bytes_of(class_for(power));
            let piece = self.append(bytes, PieceState::Gone, nobody);
            self.free.push(piece);
            left -= bytes;
        }
        if left > 0 {
            self.append(left, PieceState::Gone, nobody);
        }
    }

    /// Opens the next segment; the last one is full.
    fn begin_segment(&mut self, inner: *const Inner) {
        debug_assert!(self.is_end(self.tail));
        let segment = self.chunks.take();
        segment.begin(inner, self.tail / self.segment_bytes());
        self.segments.push_back(segment);
        let was_empty = self.head == self.tail;
        self.tail += SEGMENT_HEAD_BYTES as u64;
        if was_empty {
            (self.head, self.cursor) = (self.tail, self.tail);
        }
    }

    /// A piece of `class` outside of the ring.
    pub(super) fn take_outside(&mut self, inner: *const Inner, class: usize, leaf: PageId) -> NonNull<u8> {
        let layout = self.outside_layout(class);
        // SAFETY: the layout is not empty.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(raw) else { handle_alloc_error(layout) };
        let segment = Segment::at(base);
        let number = self.outside_next;
        self.outside_next += 1;
        segment.begin_outside(inner, number);
        let piece = segment.piece(SEGMENT_HEAD_BYTES);
        piece.set_head(PieceHead::outside(leaf));
        let content = piece.content();
        self.outside.insert(number, Outside { leaf, class, content });
        self.outside_bytes += layout.size() as u64;
        content
    }

    /// Takes back a piece that nobody uses any more. `keep_from`: pieces before it are not worth listing.
    pub(super) fn give(&mut self, content: NonNull<u8>, keep_from: u64) {
        let address = match self.address_of(content) {
            Ok(address) => address,
            Err(number) => return self.give_outside(number),
        };
        let piece = Piece::of(content);
        match piece.head().state {
            PieceState::Taken if address >= keep_from => self.free.push(piece),
            PieceState::Taken => piece.set_state(PieceState::Gone),
            PieceState::Claimed => piece.set_state(PieceState::Drained),
            state => unreachable!("a buffer gives back what is {state:?}"),
        }
        if address == self.head {
            self.advance_head();
        }
    }

    fn give_outside(&mut self, number: u64) {
        let piece = self.outside.remove(&number).or_else(|| self.aside.remove(&number));
        let piece = piece.expect("it was entered when it was taken");
        let layout = self.outside_layout(piece.class);
        self.outside_bytes -= layout.size() as u64;
        // SAFETY: allocated by `take_outside` with this layout; nobody uses it any more.
        unsafe { dealloc(Segment::around(piece.content, self.size).base().as_ptr(), layout) }
    }

    /// Moves the head over all that nobody uses; segments behind it go back.
    fn advance_head(&mut self) {
        while self.head < self.tail || self.is_end(self.head) && !self.segments.is_empty() {
            if self.is_end(self.head) {
                self.leave_segment();
                continue;
            }
            let piece = self.piece_at(self.head);
            let head = piece.head();
            match head.state {
                PieceState::Listed => self.free.unlink(piece),
                PieceState::Gone => {}
                PieceState::Taken => {
                    self.cursor = self.head;
                    return;
                }
                PieceState::Claimed | PieceState::Drained | PieceState::Outside => return,
            }
            self.head += head.bytes(self.size) as u64;
            self.cursor = self.cursor.max(self.head);
        }
    }

    /// The head stands at the end of the first segment.
    fn leave_segment(&mut self) {
        let segment = self.segments.pop_front().expect("the head was in it");
        let bytes_max = self.bytes_max();
        self.chunks.give(segment, bytes_max);
        if self.head < self.tail {
            self.head += SEGMENT_HEAD_BYTES as u64;
            self.cursor = self.cursor.max(self.head);
        }
    }

    /// The next taken piece of the ring that nobody evicts yet, from the head on: it is claimed.
    pub(super) fn claim(&mut self) -> Option<(NonNull<u8>, PageId)> {
        while self.cursor < self.tail {
            if self.is_end(self.cursor) {
                self.cursor += SEGMENT_HEAD_BYTES as u64;
                continue;
            }
            let piece = self.piece_at(self.cursor);
            let head = piece.head();
            self.cursor += head.bytes(self.size) as u64;
            if head.state == PieceState::Taken {
                piece.set_state(PieceState::Claimed);
                return Some((piece.content(), head.leaf));
            }
        }
        // Whoever is given up is looked for again.
        self.cursor = self.head;
        None
    }

    /// Whoever claimed a piece of the ring is done with it, or gives up. The head moves once all before are done too.
    pub(super) fn finish(&mut self, content: NonNull<u8>) {
        let piece = Piece::of(content);
        match piece.head().state {
            PieceState::Claimed => {
                piece.set_state(PieceState::Taken);
                let address = self.address_of(content).expect("only pieces of the ring are claimed");
                self.cursor = self.cursor.min(address);
            }
            PieceState::Drained => piece.set_state(PieceState::Gone),
            state => unreachable!("a claimed piece is {state:?}"),
        }
        self.advance_head();
    }

    /// The next piece outside that is not set aside, in a round over them.
    pub(super) fn next_outside(&mut self) -> Option<(NonNull<u8>, PageId)> {
        self.next_after_hand(|state| &state.outside)
    }

    /// The next piece that is set aside, in a round over them.
    pub(super) fn next_aside(&mut self) -> Option<(NonNull<u8>, PageId)> {
        self.next_after_hand(|state| &state.aside)
    }

    fn next_after_hand(&mut self, of: fn(&Self) -> &BTreeMap<u64, Outside>) -> Option<(NonNull<u8>, PageId)> {
        let pieces = of(self);
        let next = pieces.range(self.outside_hand + 1..).next().or_else(|| pieces.first_key_value());
        let (&number, &Outside { leaf, content, .. }) = next?;
        self.outside_hand = number;
        Some((content, leaf))
    }

    /// Sets a piece aside until it is given back, if it is outside.
    pub(super) fn set_aside(&mut self, content: NonNull<u8>) {
        if let Err(number) = self.address_of(content)
            && let Some(piece) = self.outside.remove(&number)
        {
            self.aside.insert(number, piece);
        }
    }

    fn outside_layout(&self, class: usize) -> Layout {
        let bytes = SEGMENT_HEAD_BYTES + PIECE_HEAD_BYTES + class_bytes(class);
        Layout::from_size_align(bytes, self.size.bytes()).expect("class sizes are small")
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("offsets and numbers of segments fit the memory that they describe")
}
