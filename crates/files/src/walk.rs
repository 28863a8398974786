//! Walks a zone of logs for the chunks in it.

use zonda_space::{AlignedBuf, BLOCK_BYTES, RecoveredZone, Space};

use crate::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use crate::{Extent, Result};

/// Blocks that one read brings; longer chunks are read in one piece of their own.
const WINDOW_BLOCKS: u64 = 64;

/// Calls `found` for every whole chunk of this store and this generation of the zone, in order. What is no chunk (other data,
/// a torn write) is passed over block by block. Cost: reads the zone once.
///
/// # Errors
/// `Space`.
pub(crate) fn chunks_in(space: &Space, zone: &RecoveredZone, found: &mut dyn FnMut(ChunkHeader, Extent)) -> Result<()> {
    let first = space.first_block(zone.zone);
    let end = first + zone.written_blocks;
    let mut window = Window { space, end, at: 0, bytes: AlignedBuf::default() };
    let mut block = first + 1;
    while block < end {
        let blocks = match window.chunk_at(block, zone.generation)? {
            Some(header) => {
                let skip = u32::try_from(CHUNK_HEADER_BYTES).expect("a header is short");
                let bytes = u64::from(header.payload_bytes);
                let (zone, generation) = (zone.zone, zone.generation);
                let payload = window.bytes_at(block, header.blocks())?;
                let crc = Some(crc32c::crc32c(&payload[CHUNK_HEADER_BYTES..][..header.payload_bytes as usize]));
                found(header, Extent { zone, generation, block, skip, bytes, crc });
                header.blocks()
            }
            None => 1,
        };
        block += blocks;
    }
    Ok(())
}

/// Blocks in memory, moved along.
struct Window<'a> {
    space: &'a Space,
    end: u64,
    at: u64,
    bytes: AlignedBuf,
}

impl Window<'_> {
    fn chunk_at(&mut self, block: u64, generation: u64) -> Result<Option<ChunkHeader>> {
        let Some(header) = ChunkHeader::peek(self.bytes_at(block, 1)?) else { return Ok(None) };
        if header.generation != generation || block + header.blocks() > self.end {
            return Ok(None);
        }
        let store = self.space.identity().store;
        let chunk = self.bytes_at(block, header.blocks())?;
        Ok(ChunkHeader::decode(store, chunk).map(|(header, _)| header))
    }

    /// So many blocks from `block` on, which the caller knows to be within the zone.
    fn bytes_at(&mut self, block: u64, blocks: u64) -> Result<&[u8]> {
        let have = (self.bytes.len() / BLOCK_BYTES) as u64;
        if block < self.at || block + blocks > self.at + have {
            let wanted = blocks.max(WINDOW_BLOCKS).min(self.end - block);
            self.bytes = AlignedBuf::with_len(usize::try_from(wanted).expect("a zone fits in memory") * BLOCK_BYTES);
            self.space.read(block, &mut self.bytes)?;
            self.at = block;
        }
        let from = usize::try_from(block - self.at).expect("within the window") * BLOCK_BYTES;
        Ok(&self.bytes[from..from + usize::try_from(blocks).expect("within the window") * BLOCK_BYTES])
    }
}
