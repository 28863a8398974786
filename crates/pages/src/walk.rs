//! Walks a zone or segment frame by frame with large reads: for recovery of areas and for reclaim.

use std::sync::Arc;

use zonda_space::Space;

use crate::frame::{Fault, Frame, Framing, Place};
use crate::pool::{BufferPool, PooledBuf};
use crate::{BLOCK_BYTES, PageError, number};

/// Blocks of one read: 256 KiB, where a read costs little more than its bytes.
const WINDOW_BLOCKS: u64 = 64;

/// Reads blocks of a store: of zones, or of a block device.
pub(crate) trait Blocks {
    /// Fills `into`, whole blocks, from `block` on.
    ///
    /// # Errors
    /// Those of the device.
    fn read(&self, block: u64, into: &mut [u8]) -> Result<(), PageError>;
}

impl Blocks for Space {
    fn read(&self, block: u64, into: &mut [u8]) -> Result<(), PageError> {
        Ok(Space::read(self, block, into)?)
    }
}

/// A walk over `position..end` of one zone or segment. Memory: one window, or the longest frame if that is longer.
pub(crate) struct Walk {
    generation: u64,
    position: u64,
    end: u64,
    window: Option<PooledBuf>,
    window_start: u64,
    window_blocks: u64,
    /// The block at which the last read ended early, as the device does not read it.
    unreadable: Option<u64>,
}

/// What lies at a block.
pub(crate) struct Step<'a> {
    pub(crate) block: u64,
    pub(crate) frame: Result<Frame<'a>, Fault>,
}

/// What a walk reads with.
#[derive(Clone, Copy)]
pub(crate) struct Eyes<'a> {
    pub(crate) blocks: &'a dyn Blocks,
    pub(crate) framing: Framing,
    pub(crate) pool: &'a Arc<BufferPool>,
}

impl Walk {
    /// A walk from block `position` to the block before `end`, all of one zone.
    pub(crate) fn new(generation: u64, position: u64, end: u64) -> Self {
        Self { generation, position, end, window: None, window_start: position, window_blocks: 0, unreadable: None }
    }

    /// The next block to look at.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Passes over `blocks` blocks.
    pub(crate) fn advance(&mut self, blocks: u64) {
        self.position += blocks;
    }

    /// What lies at the position; `None` at the end. Does not move: call [`advance`](Self::advance). `read` hears of
    /// the bytes of every device read. A block that the device does not read is a fault, [`Fault::Unreadable`], like one that is damaged.
    ///
    /// # Errors
    /// Those of the device as a whole.
    pub(crate) fn look(&mut self, eyes: Eyes<'_>, read: impl Fn(usize)) -> Result<Option<Step<'_>>, PageError> {
        if self.position >= self.end {
            return Ok(None);
        }
        if !self.has(1) && self.unreadable != Some(self.position) {
            self.load(eyes, WINDOW_BLOCKS, &read)?;
        }
        if let Err(Fault::CutOff { needed_bytes }) = self.frame(eyes.framing) {
            let needed = needed_bytes.div_ceil(BLOCK_BYTES) as u64;
            if self.position + needed <= self.end {
                self.load(eyes, needed.max(WINDOW_BLOCKS), &read)?;
            }
        }
        Ok(Some(Step { block: self.position, frame: self.frame(eyes.framing) }))
    }

    fn has(&self, blocks: u64) -> bool {
        self.window_start <= self.position && self.position + blocks <= self.window_start + self.window_blocks
    }

    fn load(&mut self, eyes: Eyes<'_>, blocks: u64, read: impl Fn(usize)) -> Result<(), PageError> {
        let blocks = blocks.min(self.end - self.position);
        self.window_blocks = 0;
        let mut window = match self.window.take() {
            Some(window) if window.len() >= number::bytes(blocks) => window,
            _ => eyes.pool.take(blocks),
        };
        let whole = eyes.blocks.read(self.position, &mut window[..number::bytes(blocks)]);
        let had = match whole {
            Err(error) if !error.is_unreadable() => return Err(error),
            Err(_) => self.load_up_to_unreadable(eyes, blocks, &mut window)?,
            Ok(()) => blocks,
        };
        read(number::bytes(had));
        (self.window, self.window_start, self.window_blocks) = (Some(window), self.position, had);
        Ok(())
    }

    /// Reads block by block up to the first that the device does not read; how many.
    fn load_up_to_unreadable(&mut self, eyes: Eyes<'_>, blocks: u64, window: &mut [u8]) -> Result<u64, PageError> {
        for (at, into) in (0..blocks).zip(window.chunks_mut(BLOCK_BYTES)) {
            match eyes.blocks.read(self.position + at, into) {
                Err(error) if error.is_unreadable() => {
                    self.unreadable = Some(self.position + at);
                    return Ok(at);
                }
                read => read?,
            }
        }
        Ok(blocks)
    }

    fn frame(&self, framing: Framing) -> Result<Frame<'_>, Fault> {
        if !self.has(1) {
            return Err(Fault::Unreadable);
        }
        let window = self.window.as_ref().ok_or(Fault::NoFrame)?;
        let bytes = &window[..number::bytes(self.window_blocks)][number::bytes(self.position - self.window_start)..];
        framing.frame(bytes, Place { generation: self.generation, block: self.position })
    }
}
