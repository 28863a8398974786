//! Free lists: pieces that were given back, by size class, to be taken again. The links stand in the pieces themselves, so a list costs no
//! memory, and a piece that the head passes leaves its list at once.

use super::{
    piece::{Piece, PieceState},
    segment_size::SegmentSize,
};
use crate::pool::class::CLASSES;

/// The newest free piece of each class. Under the ring's lock.
pub(super) struct FreeLists {
    segment: SegmentSize,
    newest: Box<[Option<Piece>; CLASSES]>,
}

impl FreeLists {
    /// Nothing is free, in a ring of such segments.
    pub(super) fn new(segment: SegmentSize) -> Self {
        Self { segment, newest: Box::new([None; CLASSES]) }
    }

    /// Puts a piece of its class, which nobody uses any more, first.
    pub(super) fn push(&mut self, piece: Piece) {
        let newest = &mut self.newest[piece.head().class(self.segment)];
        if let Some(next) = *newest {
            let [_, after] = next.links();
            next.set_links([Some(piece), after]);
        }
        piece.set_links([None, *newest]);
        piece.set_state(PieceState::Listed);
        *newest = Some(piece);
    }

    /// Takes the newest piece of `class` out.
    pub(super) fn pop(&mut self, class: usize) -> Option<Piece> {
        let piece = self.newest[class]?;
        self.unlink(piece);
        Some(piece)
    }

    /// Takes a listed piece out.
    pub(super) fn unlink(&mut self, piece: Piece) {
        let [before, after] = piece.links();
        match before {
            Some(before) => before.set_links([before.links()[0], after]),
            None => self.newest[piece.head().class(self.segment)] = after,
        }
        if let Some(after) = after {
            after.set_links([before, after.links()[1]]);
        }
        piece.set_state(PieceState::Gone);
    }
}
