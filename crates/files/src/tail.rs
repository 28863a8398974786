//! The end of a file that is still in memory.

use zonda_space::{AlignedBuf, BLOCK_BYTES, StoreId};

use crate::FileId;
use crate::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};

/// Bytes that wait to be written, where the device can take them: aligned, behind room for a chunk's header if there is to
/// be one.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    buffer: AlignedBuf,
    /// Where the data begins: 0 or [`CHUNK_HEADER_BYTES`].
    start: usize,
    len: usize,
    /// CRC-32C of the data, kept while it comes: one look at each byte, by the call that brings it, and none by the call that
    /// writes all of them.
    crc: u32,
}

/// What a chunk says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkOf {
    pub(crate) store: StoreId,
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) generation: u64,
}

/// The first bytes of a tail in the form that is written.
#[derive(Debug)]
pub(crate) struct Image<'a> {
    /// Whole blocks.
    pub(crate) blocks: &'a [u8],
    /// Bytes before the data.
    pub(crate) skip: u32,
    /// Bytes of data.
    pub(crate) bytes: usize,
    /// CRC-32C of the data.
    pub(crate) crc: u32,
}

impl Tail {
    /// An empty tail of a file that is written in chunks, or not.
    pub(crate) fn new(is_chunked: bool) -> Self {
        let start = if is_chunked { CHUNK_HEADER_BYTES } else { 0 };
        Self { buffer: AlignedBuf::default(), start, len: 0, crc: 0 }
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Blocks that it takes on a device.
    pub(crate) fn blocks(&self) -> u64 {
        (self.start + self.len).div_ceil(BLOCK_BYTES) as u64
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// Takes as many bytes of `from` as fit while it holds at most `len_max` with a header; returns how many.
    pub(crate) fn fill(&mut self, from: &[u8], len_max: usize) -> usize {
        let taken = from.len().min(len_max.saturating_sub(self.start + self.len));
        let end = self.start + self.len;
        self.grow(end + taken, len_max);
        self.buffer[end..end + taken].copy_from_slice(&from[..taken]);
        self.crc = crc32c::crc32c_append(self.crc, &from[..taken]);
        self.len += taken;
        taken
    }

    /// Small files stay small, large ones reach `len_max` in a few steps.
    fn grow(&mut self, need: usize, len_max: usize) {
        let need = need.next_multiple_of(BLOCK_BYTES);
        if need <= self.buffer.len() {
            return;
        }
        let mut grown = AlignedBuf::with_len(need.max((self.buffer.len() * 4).min(len_max)));
        grown[..self.buffer.len()].copy_from_slice(&self.buffer);
        self.buffer = grown;
    }

    /// Drops the last bytes, down to `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            self.crc = crc32c::crc32c(self.bytes());
        }
    }

    /// Drops the first `bytes`, which are written.
    pub(crate) fn consume(&mut self, bytes: usize) {
        let end = self.start + self.len;
        self.buffer.copy_within(self.start + bytes..end, self.start);
        self.len -= bytes;
        self.crc = crc32c::crc32c(self.bytes());
    }

    /// The first bytes as a chunk of at most `blocks_max` blocks, at least one.
    pub(crate) fn as_chunk(&mut self, of: ChunkOf, blocks_max: u64) -> Image<'_> {
        let (bytes, padded) = self.pad(blocks_max);
        let payload_bytes = u32::try_from(bytes).expect("buffers are at most 64 MiB");
        let header = ChunkHeader { file: of.file, offset: of.offset, payload_bytes, generation: of.generation };
        let crc = self.crc_of(bytes);
        header.encode(of.store, crc, &mut self.buffer[..padded]);
        self.image(bytes, padded, crc)
    }

    /// The first bytes as they are, in at most `blocks_max` blocks.
    pub(crate) fn as_data(&mut self, blocks_max: u64) -> Image<'_> {
        let (bytes, padded) = self.pad(blocks_max);
        let crc = self.crc_of(bytes);
        self.image(bytes, padded, crc)
    }

    fn image(&self, bytes: usize, padded: usize, crc: u32) -> Image<'_> {
        let skip = u32::try_from(self.start).expect("a header is short");
        Image { blocks: &self.buffer[..padded], skip, bytes, crc }
    }

    /// CRC-32C of the first `bytes` of the data.
    fn crc_of(&self, bytes: usize) -> u32 {
        if bytes == self.len { self.crc } else { crc32c::crc32c(&self.bytes()[..bytes]) }
    }

    /// How many bytes fit into the blocks, and the length of these blocks; pads the last one if everything fits.
    fn pad(&mut self, blocks_max: u64) -> (usize, usize) {
        let room = usize::try_from(blocks_max).unwrap_or(usize::MAX).saturating_mul(BLOCK_BYTES);
        let end = (self.start + self.len).min(room);
        let padded = end.next_multiple_of(BLOCK_BYTES);
        self.buffer[end..padded].fill(0);
        (end - self.start, padded)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_does_not_fit_into_the_blocks_waits() {
        let mut tail = Tail::new(false);
        let data: Vec<u8> = (0..10_000_u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(tail.fill(&data, 8192), 8192);
        let image = tail.as_data(1);
        assert_eq!((image.blocks.len(), image.bytes, image.skip), (4096, 4096, 0));
        tail.consume(4096);
        assert_eq!(tail.bytes(), &data[4096..8192]);
        assert_eq!(tail.fill(&data[8192..], 8192), 1808);
        let image = tail.as_data(9);
        assert_eq!((image.blocks.len(), image.bytes), (8192, 5904));
        assert!(image.blocks[5904..].iter().all(|&byte| byte == 0));
    }

    proptest! {
        #[test]
        fn the_checksum_is_that_of_what_waits(steps in prop::collection::vec((any::<u8>(), 0_usize..9000), 1..20), blocks_max in 1_u64..6) {
            let mut tail = Tail::new(false);
            for (byte, bytes) in steps {
                match byte % 3 {
                    0 => tail.truncate(bytes),
                    1 => tail.consume(bytes.min(tail.len())),
                    _ => _ = tail.fill(&vec![byte; bytes], 20_480),
                }
                let image = tail.as_data(blocks_max);
                prop_assert_eq!(image.crc, crc32c::crc32c(&image.blocks[..image.bytes]));
            }
        }
    }

    #[test]
    fn a_chunk_is_read_back() {
        let store = StoreId(3);
        let of = ChunkOf { store, file: FileId(4), offset: 50, generation: 6 };
        let mut tail = Tail::new(true);
        tail.fill(b"one record", 8192);
        let image = tail.as_chunk(of, 8);
        let (header, payload) = ChunkHeader::decode(store, image.blocks).expect("whole");
        assert_eq!((header.offset, payload, image.skip), (50, &b"one record"[..], 40));
    }
}
