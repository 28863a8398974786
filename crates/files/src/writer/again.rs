//! The last chunk of a meta file is written again, with what was added to it, while both fit its block.
//!
//! A MANIFEST is synced after every few hundred bytes, and what is written takes a block each time. Written with what the block before it
//! holds, only one of the two stays live: the new chunk begins where the old one began, and of chunks that begin at the same place a mount
//! takes the one that was written last. The old one stays live until the new one is durable: whatever a cut of the power leaves, one of
//! them is there, and has all that was synced (I4).
//!
//! Only what is in no record can be written again: a chunk that begins before the recorded bytes end is no part of the file.

use super::FileWriter;
use crate::file::Content;
use crate::lanes::OpenZone;
use crate::tail::{Image, Tail};
use crate::{BLOCK_BYTES, Extent, FileKind};

/// The chunk that a writer wrote last, if it takes one block.
#[derive(Debug)]
pub(super) struct LastChunk {
    extent: Extent,
    payload: Vec<u8>,
}

impl FileWriter {
    /// The last chunk, and what waits behind it with its bytes in front, if they fit a block of this zone together.
    pub(super) fn again(&self, content: &Content, zone: &OpenZone) -> Option<(Extent, Tail)> {
        let LastChunk { extent, payload } = self.last.as_deref()?;
        let is_unrecorded = content.unrecorded.iter().last().is_some_and(|last| last.is_at(extent.place()));
        // A mount takes the chunk of the later generation; in one zone, that in the later block.
        let is_later = zone.generation() >= extent.generation;
        if !(content.is_chunked && is_unrecorded && is_later) {
            return None;
        }
        let both = content.waiting_behind(payload)?;
        (both.blocks() == 1).then_some((*extent, both))
    }

    /// What was just written, if it may be written again.
    pub(super) fn last_of(&self, extent: Extent, image: &Image<'_>) -> Option<Box<LastChunk>> {
        let is_meta = self.file.tags().kind == FileKind::Meta;
        let may_be_again = is_meta && image.skip > 0 && image.blocks.len() == BLOCK_BYTES;
        let payload = || image.blocks[image.skip as usize..][..image.bytes].to_vec();
        may_be_again.then(|| Box::new(LastChunk { extent, payload: payload() }))
    }

    /// Nobody needs any more what was written again: that is durable, or recorded, or the file is gone for good.
    pub(super) fn bury_superseded(&self) {
        self.core.ground.bury(&self.file.take_superseded());
    }
}
