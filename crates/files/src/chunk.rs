//! Chunks: the pieces that a log file is written in. Each says which bytes of which file it holds, so that a sync needs no
//! record in the journal: what was flushed is found again by walking the zones of logs.
//!
//! # On the device
//! Whole blocks, little-endian: this header, the payload, zeros to the end of the block.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
use zonda_space::{BLOCK_BYTES, StoreId};

use crate::FileId;

const MAGIC: [u8; 4] = *b"ZFck";

/// Bytes before the payload.
pub(crate) const CHUNK_HEADER_BYTES: usize = 40;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawFileChunk {
    magic: [u8; 4],
    payload_bytes: U32,
    file: U64,
    offset: U64,
    generation: U64,
    zeros: U32,
    crc: U32,
}

const _: () = assert!(size_of::<RawFileChunk>() == CHUNK_HEADER_BYTES);

/// From so many bytes on two checksums are combined sooner than the bytes are read again.
const COMBINED_BYTES_MIN: usize = 32 << 10;

/// Which bytes of which file a chunk holds, and where it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// The file.
    pub(crate) file: FileId,
    /// Where in the file the payload begins.
    pub(crate) offset: u64,
    /// Its bytes, at least one.
    pub(crate) payload_bytes: u32,
    /// The generation of its zone.
    pub(crate) generation: u64,
}

impl ChunkHeader {
    /// Blocks of the chunk.
    pub(crate) fn blocks(&self) -> u64 {
        (CHUNK_HEADER_BYTES as u64 + u64::from(self.payload_bytes)).div_ceil(BLOCK_BYTES as u64)
    }

    /// Writes the header in front of the payload, which stands in `chunk` already and has the CRC-32C `payload_crc`. `store` keeps the
    /// chunks of one store, stored as a file in another, from being taken for its own.
    pub(crate) fn encode(&self, store: StoreId, payload_crc: u32, chunk: &mut [u8]) {
        let end = CHUNK_HEADER_BYTES + self.payload_bytes as usize;
        let payload = &chunk[CHUNK_HEADER_BYTES..end];
        let crc = if payload.len() < COMBINED_BYTES_MIN {
            checksum(self, store, payload)
        } else {
            crate::crc::combine(checksum_of_fields(self, store), payload_crc, payload.len())
        };
        let raw = RawFileChunk {
            magic: MAGIC,
            payload_bytes: self.payload_bytes.into(),
            file: self.file.0.into(),
            offset: self.offset.into(),
            generation: self.generation.into(),
            zeros: 0.into(),
            crc: crc.into(),
        };
        chunk[..CHUNK_HEADER_BYTES].copy_from_slice(raw.as_bytes());
    }

    /// The header that any bytes begin with (I10), the payload not looked at.
    pub(crate) fn peek(bytes: &[u8]) -> Option<Self> {
        raw(bytes).map(|(header, _)| header)
    }

    /// The header and payload of a whole chunk of `store` (I10).
    pub(crate) fn decode(store: StoreId, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, crc) = raw(bytes)?;
        let payload = bytes.get(CHUNK_HEADER_BYTES..)?.get(..header.payload_bytes as usize)?;
        (crc == checksum(&header, store, payload)).then_some((header, payload))
    }
}

fn raw(bytes: &[u8]) -> Option<(ChunkHeader, u32)> {
    let (raw, _) = RawFileChunk::ref_from_prefix(bytes).ok()?;
    let is_ours = raw.magic == MAGIC && raw.zeros.get() == 0 && raw.payload_bytes.get() > 0;
    let header = ChunkHeader {
        file: FileId(raw.file.get()),
        offset: raw.offset.get(),
        payload_bytes: raw.payload_bytes.get(),
        generation: raw.generation.get(),
    };
    is_ours.then_some((header, raw.crc.get()))
}

fn checksum(header: &ChunkHeader, store: StoreId, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(checksum_of_fields(header, store), payload)
}

fn checksum_of_fields(header: &ChunkHeader, store: StoreId) -> u32 {
    let fields = [header.file.0, header.offset, header.payload_bytes.into(), header.generation];
    let crc = crc32c::crc32c(&store.0.to_le_bytes());
    fields.iter().fold(crc, |crc, field| crc32c::crc32c_append(crc, &field.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STORE: StoreId = StoreId(77);

    fn chunk(payload: &[u8]) -> (ChunkHeader, Vec<u8>) {
        let payload_bytes = u32::try_from(payload.len()).expect("short");
        let header = ChunkHeader { file: FileId(5), offset: 1 << 40, payload_bytes, generation: 9 };
        let mut bytes = [&[0; CHUNK_HEADER_BYTES], payload].concat();
        header.encode(STORE, crc32c::crc32c(payload), &mut bytes);
        (header, bytes)
    }

    #[test]
    fn a_chunk_comes_back_to_its_own_store_only() {
        let (header, bytes) = chunk(b"log record");
        assert_eq!(ChunkHeader::peek(&bytes), Some(header));
        assert_eq!(ChunkHeader::decode(STORE, &bytes), Some((header, &b"log record"[..])));
        assert_eq!(ChunkHeader::decode(StoreId(78), &bytes), None);
    }

    #[test]
    fn a_long_payload_is_not_read_again() {
        for bytes in [COMBINED_BYTES_MIN - 1, COMBINED_BYTES_MIN, 100_000] {
            let payload = vec![7; bytes];
            let (header, chunk) = chunk(&payload);
            assert_eq!(ChunkHeader::decode(STORE, &chunk), Some((header, &payload[..])));
        }
        let payload = vec![7; COMBINED_BYTES_MIN];
        let (header, mut chunk) = chunk(&payload);
        header.encode(STORE, 0, &mut chunk);
        assert_eq!(ChunkHeader::decode(STORE, &chunk), None, "the checksum that was given counts");
    }

    proptest! {
        #[test]
        fn a_changed_bit_is_noticed(at in 0_usize..48, bit in 0_u32..8) {
            let (_, mut bytes) = chunk(b"contents");
            bytes[at] ^= 1_u8 << bit;
            prop_assert_eq!(ChunkHeader::decode(STORE, &bytes), None);
        }

        #[test]
        fn any_bytes_are_a_chunk_or_none(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ChunkHeader::decode(STORE, &bytes);
            let _ = ChunkHeader::decode(STORE, &[&MAGIC[..], &bytes].concat());
        }
    }
}
