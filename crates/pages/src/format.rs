//! On-disk structs of the page store: the headers of pages and chunks (byte tables: docs/format.md).
//!
//! Every frame (a page or a chunk) begins at a block of 4096 bytes with one of two headers, which share their first seven
//! bytes: CRC-32C, magic, version. The rest of its last block is zero. A zone is walked frame by frame from its
//! second block (the first is the zone header); the streams that share a zone are told apart by the frames.
//!
//! The CRC-32C covers, in this order: the 16 bytes of the store id and the 8 bytes of the block number (neither is
//! stored), the header behind the CRC field, and the body. So a frame that lies anywhere but where it was written fails.
//!
//! | page, bytes | field | chunk, bytes | field |
//! |---|---|---|---|
//! | 0..4 | CRC-32C | 0..4 | CRC-32C |
//! | 4..6 | magic `ZP` | 4..6 | magic `ZC` |
//! | 6 | version, 1 | 6 | version, 1 |
//! | 7 | length in blocks - 1 | 7 | kind: 1 log, 2 MetaLog, 3 values |
//! | 8..12 | page id | 8..12 | payload length in bytes |
//! | 12..16 | body length in bytes | 12..16 | index among the zone's chunks of this kind |
//! | 16..24 | sequence number | 16..24 | zone generation |
//! | 24..32 | zone generation | 24.. | payload |
//! | 32.. | body | | |

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::AreaKind;

/// Version of both headers.
pub(crate) const FRAME_VERSION: u8 = 1;
/// First bytes of a page behind its CRC.
pub(crate) const PAGE_MAGIC: [u8; 2] = *b"ZP";
/// First bytes of a chunk behind its CRC.
pub(crate) const CHUNK_MAGIC: [u8; 2] = *b"ZC";

/// Bytes of a page header.
pub(crate) const PAGE_HEADER_BYTES: usize = 32;
/// Bytes of a chunk header.
pub(crate) const CHUNK_HEADER_BYTES: usize = 24;

const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER_BYTES);
const _: () = assert!(size_of::<ChunkHeader>() == CHUNK_HEADER_BYTES);
const _: () = assert!(size_of::<FrameStart>() == 8);

/// What both headers begin with.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FrameStart {
    pub(crate) crc: U32,
    pub(crate) magic: [u8; 2],
    pub(crate) version: u8,
    /// `blocks - 1` of a page, kind of a chunk.
    pub(crate) detail: u8,
}

/// Header of a page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PageHeader {
    pub(crate) start: FrameStart,
    pub(crate) id: U32,
    pub(crate) body_bytes: U32,
    pub(crate) sequence: U64,
    pub(crate) generation: U64,
}

/// Header of a chunk.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ChunkHeader {
    pub(crate) start: FrameStart,
    pub(crate) payload_bytes: U32,
    pub(crate) index: U32,
    pub(crate) generation: U64,
}

/// The number of an area in chunk headers: on disk, never renumber.
pub(crate) fn area_number(kind: AreaKind) -> u8 {
    match kind {
        AreaKind::Log => 1,
        AreaKind::Meta => 2,
        AreaKind::Values => 3,
    }
}

/// The area with a number.
pub(crate) fn area_kind(number: u8) -> Option<AreaKind> {
    match number {
        1 => Some(AreaKind::Log),
        2 => Some(AreaKind::Meta),
        3 => Some(AreaKind::Values),
        _ => None,
    }
}

/// The start of a frame with everything but its CRC.
pub(crate) fn start(magic: [u8; 2], detail: u8) -> FrameStart {
    FrameStart { crc: U32::ZERO, magic, version: FRAME_VERSION, detail }
}
