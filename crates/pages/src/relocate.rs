//! How a store calls its tree back while it reclaims.

use crate::{ChunkAddress, PageAddress, PageError, PageId};

/// What became of a page or value that lay in a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocated {
    /// It was live and is now elsewhere.
    Moved,
    /// Nothing refers to it any more.
    Dead,
    /// Its leaf is latched by somebody else; ask again later.
    Busy,
}

/// Whether something refers to a value chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Its key does.
    Live,
    /// Nothing does, and nothing ever will.
    Dead,
    /// Its key is being written, or it is superseded in memory and yet to be released by the merge: ask again later.
    Unknown,
}

/// A moment in the tree's life: readers and snapshots from before it may still use old addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

/// The tree's side of reclaim (I3).
///
/// Order that the store keeps for every zone it resets: live pages placed elsewhere (`relocate_*`) ->
/// [`stamp`](Relocate::stamp) -> [`commit_moves`](Relocate::commit_moves) -> [`drained`](Relocate::drained) of the stamp
/// is true -> reset. One `commit_moves` serves a batch of zones. Zones of released log and MetaLog segments are reset without
/// it: only recovery reads them, and `release` says that it does not need them any more. A relocation that finds no room
/// returns `PageError::Busy`; the store then writes what waits and asks again.
/// The store calls these with no lock of its own held; implementations may call the store's `read`, `place`, `release`
/// and areas, never `reclaim_step`.
pub trait Relocate {
    /// A page of a victim: if the leaf `id` still lives at `at`, places it elsewhere (merged with what its buffer
    /// holds, where that is wise) and releases `at`. `body` is the page's body, already verified.
    ///
    /// # Errors
    /// Those of the store's `place` and `read`.
    fn relocate_page(&self, id: PageId, at: PageAddress, body: &[u8]) -> Result<Relocated, PageError>;

    /// A chunk of the values area that lies in a victim.
    ///
    /// # Errors
    /// Those of the store's `append` and `read`.
    fn relocate_value(&self, at: ChunkAddress, payload: &[u8]) -> Result<Relocated, PageError>;

    /// Whether a chunk of the values area is live. Moves nothing and needs no room. `Dead`: `release_value` will not be called for it any
    /// more.
    ///
    /// # Errors
    /// Those of the store's `read`; `Damaged` for a chunk that cannot be understood.
    fn value_liveness(&self, at: ChunkAddress, payload: &[u8]) -> Result<Liveness, PageError>;

    /// A number that rises with each record that a writer wrote: while writers wait it tells whether they get anything.
    fn writes(&self) -> u64;

    /// Whether it can tell of values whether they are live: not before recovery is over. Until then no zone with values is a victim.
    fn knows_values(&self) -> bool;

    /// The present moment, taken once a zone holds nothing live.
    fn stamp(&self) -> Stamp;

    /// Makes the records of all moves, releases and deletes up to now durable, and the log before them.
    ///
    /// # Errors
    /// Those of the areas; the zone is then kept. `Busy`: not now, which is no failure.
    fn commit_moves(&self) -> Result<(), PageError>;

    /// Whether every reader and snapshot from before `stamp` is gone.
    fn drained(&self, stamp: Stamp) -> bool;
}
