//! Where leaf buffers have their memory: cells of slabs, or the ring of mini-pages.

use std::ptr::NonNull;

use super::{
    arena::{self, Arena, Owner, Size},
    class::Sizing,
    ring::{self, Ring, SegmentSize},
};

/// Which memory a buffer has, in three bits of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(u8);

impl Origin {
    /// Bits that [`raw`](Self::raw) takes.
    pub(crate) const BITS: u32 = 3;
    /// The ring of the smallest segments, and behind it the larger ones. Sizes of slabs have the numbers below.
    const RING: u8 = 3;

    fn of_ring(segment: SegmentSize) -> Self {
        Self(Self::RING + segment.raw())
    }

    /// A number of [`BITS`](Self::BITS) bits.
    pub(crate) fn raw(self) -> u8 {
        self.0
    }

    /// The origin of which this is the number.
    pub(crate) fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    /// Whether it is a ring: such a buffer is a mini-page and has marks.
    pub(crate) fn is_ring(self) -> bool {
        self.0 >= Self::RING
    }

    /// The size of the ring's segments, if it is a ring: with it whoever has a mini-page finds its ring.
    fn segment_size(self) -> Option<SegmentSize> {
        self.0.checked_sub(Self::RING).map(SegmentSize::from_raw)
    }
}

/// The memory of all buffers of a tree.
pub(crate) enum Memory {
    /// Cells by class.
    Slabs(Arena),
    /// Mini-pages in the order of their use.
    Ring(Ring, Sizing),
}

/// How much memory for a buffer is wanted.
#[derive(Clone, Copy)]
pub(crate) enum Demand {
    /// It must be there: what is logged must be applied.
    Must,
    /// There need not be any: what is made is only a cache.
    Spare,
    /// It must be there, and hold no mini-page of the ring back: the buffer cannot be evicted.
    Aside,
}

impl Memory {
    /// Slabs for buffers of `bytes` in all, each of the size that it needs.
    pub(crate) fn slabs(bytes: u64) -> Self {
        Self::Slabs(Arena::new(bytes))
    }

    /// How much memory records get.
    pub(crate) fn sizing(&self) -> Sizing {
        match self {
            Self::Slabs(arena) => arena.sizing(),
            Self::Ring(_, sizing) => *sizing,
        }
    }

    /// What [`give`] asks for.
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Self::Slabs(arena) => Origin(arena.size().raw()),
            Self::Ring(ring, _) => Origin::of_ring(ring.segment_size()),
        }
    }

    /// The ring, if it is one.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        match self {
            Self::Slabs(_) => None,
            Self::Ring(ring, _) => Some(ring),
        }
    }

    /// Memory for a buffer of `owner`, initialised, aligned to 8, and its class: `class`, or one a little larger. It goes back by [`give`].
    /// `None` only for what is [`Spare`](Demand::Spare), where the ring has no room; slabs always have some.
    pub(crate) fn take(&self, class: usize, owner: Owner, demand: Demand) -> Option<(NonNull<u8>, usize)> {
        match (self, demand) {
            (Self::Slabs(arena), _) => Some(arena.take(class, owner)),
            (Self::Ring(ring, _), Demand::Must) => Some((ring.take(class, owner.leaf), class)),
            (Self::Ring(ring, _), Demand::Spare) => Some((ring.try_take(class, owner.leaf)?, class)),
            (Self::Ring(ring, _), Demand::Aside) => Some((ring.take_aside(class, owner.leaf), class)),
        }
    }
}

/// Gives memory of `class` back.
///
/// # Safety
/// `at` came with this class from a [`Memory`] of this origin, and nobody uses it any more.
pub(crate) unsafe fn give(at: NonNull<u8>, class: usize, origin: Origin) {
    match origin.segment_size() {
        // SAFETY: passed on to the caller.
        Some(segment) => unsafe { ring::give(at, segment) },
        // SAFETY: passed on to the caller.
        None => unsafe { arena::give(at, class, Size::from_raw(origin.raw())) },
    }
}
