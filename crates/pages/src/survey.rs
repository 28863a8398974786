//! A look at values of an earlier life that moves nothing: how much of a zone or segment is live (I9).
//!
//! Reclaim finds that out while it empties one. Where it has no room for what it would move, a survey does: a cut in the middle of value
//! reclaim leaves copies that nothing refers to. They count as live until somebody has looked, and may take the very room that moving
//! needs.

use crate::frame::{Fault, Frame};
use crate::walk::{Eyes, Walk};
use crate::{AreaKind, BLOCK_BYTES, ChunkAddress, Liveness, PageError, Relocate};

/// Blocks that one step looks at: 256 KiB.
const STEP_BLOCKS: u64 = 64;

/// How far it has come, and what it found.
pub(crate) struct Survey {
    walk: Walk,
    live_bytes: u64,
    is_sure: bool,
}

impl Survey {
    /// Over the blocks of `walk`, all of one zone or segment.
    pub(crate) fn new(walk: Walk) -> Self {
        Self { walk, live_bytes: 0, is_sure: true }
    }

    /// Looks at the next blocks; `false` at the end. `read` hears of the bytes of every device read.
    ///
    /// # Errors
    /// Those of the tree and of the device as a whole.
    pub(crate) fn step(
        &mut self,
        eyes: Eyes<'_>,
        relocate: &dyn Relocate,
        read: &dyn Fn(usize),
    ) -> Result<bool, PageError> {
        let stop = self.walk.position() + STEP_BLOCKS;
        while self.walk.position() < stop {
            let Some(step) = self.walk.look(eyes, read)? else { return Ok(false) };
            let (blocks, liveness) = match &step.frame {
                Ok(frame) => (frame.blocks(), liveness(relocate, step.block, frame)?),
                Err(Fault::Unreadable) => (1, Liveness::Unknown),
                // The next frame begins at some later block.
                Err(_) => (1, Liveness::Dead),
            };
            self.walk.advance(blocks);
            self.is_sure &= liveness != Liveness::Unknown;
            self.live_bytes += if liveness == Liveness::Dead { 0 } else { blocks * BLOCK_BYTES as u64 };
        }
        Ok(true)
    }

    /// Bytes of value chunks that are live, or may be.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Whether all of them are known to be.
    pub(crate) fn is_sure(&self) -> bool {
        self.is_sure
    }
}

/// What cannot be understood may be live. Of pages it is known otherwise which are.
fn liveness(relocate: &dyn Relocate, block: u64, frame: &Frame<'_>) -> Result<Liveness, PageError> {
    match frame {
        Frame::Chunk(chunk) if chunk.kind == AreaKind::Values => {
            match relocate.value_liveness(ChunkAddress(block), chunk.payload) {
                Err(PageError::Damaged { .. }) => Ok(Liveness::Unknown),
                judged => judged,
            }
        }
        Frame::Chunk(_) | Frame::Page(_) => Ok(Liveness::Dead),
    }
}
