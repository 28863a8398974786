//! Walks a zone of logs for the chunks in it.

use zonda_space::{AlignedBuf, BLOCK_BYTES, RecoveredZone, Space, SpaceError, ZoneId};

use crate::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use crate::{Extent, Result};

/// Blocks that one read brings; longer chunks are read in one piece of their own.
const WINDOW_BLOCKS: u64 = 64;

/// A block that the device has lost, and that a chunk may have begun with.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) zone: ZoneId,
    pub(crate) generation: u64,
    pub(crate) block: u64,
    pub(crate) cause: SpaceError,
}

impl Lost {
    /// Later ones were written later.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.generation, self.block)
    }
}

/// Calls `found` for every whole chunk of this store and this generation of the zone, in order. What is no chunk (other data,
/// a torn write) is passed over block by block; so is what cannot be read, of which it returns the last. Cost: reads the zone once.
///
/// # Errors
/// `Space`, other than that the device has lost something.
pub(crate) fn chunks_in(
    space: &Space,
    zone: &RecoveredZone,
    found: &mut dyn FnMut(ChunkHeader, Extent),
) -> Result<Option<Lost>> {
    let mut lost = None;
    let first = space.first_block(zone.zone);
    let end = first + zone.written_blocks;
    let mut window = Window::up_to(space, end);
    let mut block = first + 1;
    while block < end {
        let blocks = match window.chunk_at(block, Some(zone.generation)) {
            Err(cause) if cause.is_medium() => {
                lost = Some(Lost { zone: zone.zone, generation: zone.generation, block, cause });
                1
            }
            Err(error) => return Err(error.into()),
            Ok(Some(header)) => {
                let skip = u32::try_from(CHUNK_HEADER_BYTES).expect("a header is short");
                let bytes = u64::from(header.payload_bytes);
                let (zone, generation) = (zone.zone, zone.generation);
                let payload = window.bytes_at(block, header.blocks())?;
                let crc = Some(crc32c::crc32c(&payload[CHUNK_HEADER_BYTES..][..header.payload_bytes as usize]));
                found(header, Extent { zone, generation, block, skip, bytes, crc });
                header.blocks()
            }
            Ok(None) => 1,
        };
        block += blocks;
    }
    Ok(lost)
}

/// Blocks in memory, moved along.
pub(crate) struct Window<'a> {
    space: &'a Space,
    end: u64,
    at: u64,
    bytes: AlignedBuf,
}

impl<'a> Window<'a> {
    /// For blocks before `end`.
    pub(crate) fn up_to(space: &'a Space, end: u64) -> Self {
        Self { space, end, at: 0, bytes: AlignedBuf::default() }
    }

    /// The block behind the last.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The whole chunk that begins at a block, of this generation or, with `None`, of any.
    pub(crate) fn chunk_at(
        &mut self,
        block: u64,
        generation: Option<u64>,
    ) -> std::result::Result<Option<ChunkHeader>, SpaceError> {
        let Some(header) = ChunkHeader::peek(self.bytes_at(block, 1)?) else { return Ok(None) };
        if generation.is_some_and(|generation| header.generation != generation) || block + header.blocks() > self.end {
            return Ok(None);
        }
        let store = self.space.identity().store;
        let chunk = self.bytes_at(block, header.blocks())?;
        Ok(ChunkHeader::decode(store, chunk).map(|(header, _)| header))
    }

    fn fill(&mut self, block: u64, blocks: u64) -> std::result::Result<(), SpaceError> {
        let mut bytes = AlignedBuf::with_len(usize::try_from(blocks).expect("a zone fits in memory") * BLOCK_BYTES);
        self.space.read(block, &mut bytes)?;
        (self.bytes, self.at) = (bytes, block);
        Ok(())
    }

    /// So many blocks from `block` on, which the caller knows to be within the zone.
    pub(crate) fn bytes_at(&mut self, block: u64, blocks: u64) -> std::result::Result<&[u8], SpaceError> {
        let have = (self.bytes.len() / BLOCK_BYTES) as u64;
        if block < self.at || block + blocks > self.at + have {
            let wanted = blocks.max(WINDOW_BLOCKS).min(self.end - block);
            self.fill(block, wanted).or_else(|error| match error.is_medium() && wanted > blocks {
                true => self.fill(block, blocks),
                false => Err(error),
            })?;
        }
        let from = usize::try_from(block - self.at).expect("within the window") * BLOCK_BYTES;
        Ok(&self.bytes[from..from + usize::try_from(blocks).expect("within the window") * BLOCK_BYTES])
    }
}
