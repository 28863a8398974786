//! Structures at the head of the chunks that this crate writes to its areas: log, MetaLog and values.
//!
//! All numbers are little-endian. The area that holds a chunk frames it with its length, the identity of its segment
//! and a CRC-32C over everything (`zonda_pages::Area`), so these headers carry what the framing cannot know. Bodies
//! are written with the variable-length numbers of [`codec`](crate::codec); their grammar stands beside their code:
//! `log/unit.rs`, `metalog/record.rs`, `values.rs`.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::TreeError;

/// Magic of a chunk of the log. On disk, never change.
pub(crate) const LOG_MAGIC: [u8; 4] = *b"ZNlg";
/// Magic of a chunk of the MetaLog. On disk, never change.
pub(crate) const META_MAGIC: [u8; 4] = *b"ZNme";
/// Magic of a chunk of the value log. On disk, never change.
pub(crate) const VALUE_MAGIC: [u8; 4] = *b"ZNva";

/// Version of all three that this program writes and reads. Version 1 was never released.
pub(crate) const CHUNK_VERSION: u16 = 2;

/// First byte of a `Begin`'s extra bytes: the log was durable up to the number where its replay begins. On disk, never renumber.
pub(crate) const BEGIN_LOG_DURABLE: u8 = 1;

/// Flag of a MetaLog chunk: the last one of its group. On disk, never renumber.
pub(crate) const META_LAST_IN_GROUP: u32 = 1;

/// Head of a log chunk, followed by `parts` parts.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | magic `ZNlg` |
/// | 4 | 2 | version |
/// | 6 | 2 | parts in the chunk |
/// | 8 | 4 | session: the life of the store that wrote it |
/// | 12 | 4 | zero |
/// | 16 | 8 | every sequence number of this session below this one is in this chunk or an earlier one |
/// | 24 | 8 | every sequence number below this one was durable when the chunk was written |
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LogChunkHeader {
    pub(crate) magic: [u8; 4],
    pub(crate) version: U16,
    pub(crate) parts: U16,
    pub(crate) session: U32,
    pub(crate) reserved: U32,
    pub(crate) complete_before: U64,
    pub(crate) durable_before: U64,
}
const _: () = assert!(size_of::<LogChunkHeader>() == 32);

/// Head of what one log instance adds to a chunk, followed by `len_bytes` bytes of units.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | sequence number of the first record |
/// | 8 | 4 | bytes of the units that follow |
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LogPartHeader {
    pub(crate) first_sequence: U64,
    pub(crate) len_bytes: U32,
}
const _: () = assert!(size_of::<LogPartHeader>() == 12);

/// Head of a MetaLog chunk, followed by a piece of its group's records.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | magic `ZNme` |
/// | 4 | 2 | version |
/// | 6 | 2 | zero |
/// | 8 | 4 | session |
/// | 12 | 4 | flags: 1 = last chunk of its group |
/// | 16 | 8 | number of the chunk in the stream, without gaps over all sessions |
/// | 24 | 4 | position of the chunk in its group, from 0 |
/// | 28 | 4 | zero |
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct MetaChunkHeader {
    pub(crate) magic: [u8; 4],
    pub(crate) version: U16,
    pub(crate) reserved: U16,
    pub(crate) session: U32,
    pub(crate) flags: U32,
    pub(crate) number: U64,
    pub(crate) group_position: U32,
    pub(crate) reserved_too: U32,
}
const _: () = assert!(size_of::<MetaChunkHeader>() == 32);

/// Head of a value chunk, followed by the key and then by the bytes of one segment of the value.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | magic `ZNva` |
/// | 4 | 2 | version |
/// | 6 | 2 | bytes of the key |
/// | 8 | 4 | index of the segment in the value |
/// | 12 | 4 | bytes of the whole value |
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ValueChunkHeader {
    pub(crate) magic: [u8; 4],
    pub(crate) version: U16,
    pub(crate) key_bytes: U16,
    pub(crate) segment: U32,
    pub(crate) total_bytes: U32,
}
const _: () = assert!(size_of::<ValueChunkHeader>() == 16);

/// What every chunk head has in common: enough to refuse a foreign or newer one.
pub(crate) trait ChunkHeader: FromBytes + KnownLayout + Immutable + Unaligned + Copy {
    /// For errors.
    const WHAT: &'static str;
    /// Expected magic.
    const MAGIC: [u8; 4];
    /// Magic and version that were found.
    fn tag(&self) -> ([u8; 4], u16);
}

impl ChunkHeader for LogChunkHeader {
    const WHAT: &'static str = "log chunk";
    const MAGIC: [u8; 4] = LOG_MAGIC;
    fn tag(&self) -> ([u8; 4], u16) {
        (self.magic, self.version.get())
    }
}

impl ChunkHeader for MetaChunkHeader {
    const WHAT: &'static str = "MetaLog chunk";
    const MAGIC: [u8; 4] = META_MAGIC;
    fn tag(&self) -> ([u8; 4], u16) {
        (self.magic, self.version.get())
    }
}

impl ChunkHeader for ValueChunkHeader {
    const WHAT: &'static str = "value chunk";
    const MAGIC: [u8; 4] = VALUE_MAGIC;
    fn tag(&self) -> ([u8; 4], u16) {
        (self.magic, self.version.get())
    }
}

/// Splits a chunk's payload into its checked head and its body.
///
/// # Errors
/// `Damaged` for a short payload, a foreign magic or another version.
pub(crate) fn split_header<H: ChunkHeader>(payload: &[u8]) -> Result<(H, &[u8]), TreeError> {
    let damaged = |why: String| TreeError::Damaged { what: H::WHAT, why };
    let (header, body) = H::read_from_prefix(payload)
        .map_err(|_| damaged(format!("{} bytes hold no {} of {}", payload.len(), H::WHAT, size_of::<H>())))?;
    match header.tag() {
        (magic, _) if magic != H::MAGIC => Err(damaged(format!("magic {magic:02x?} is not {:02x?}", H::MAGIC))),
        (_, version) if version != CHUNK_VERSION => {
            Err(damaged(format!("format version {version}; this program reads {CHUNK_VERSION}")))
        }
        _ => Ok((header, body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_older_newer_and_short_chunks_are_refused() {
        let header = ValueChunkHeader {
            magic: VALUE_MAGIC,
            version: CHUNK_VERSION.into(),
            key_bytes: 1.into(),
            segment: 0.into(),
            total_bytes: 1.into(),
        };
        let good = header.as_bytes().to_vec();
        assert!(split_header::<ValueChunkHeader>(&good).is_ok());
        assert!(split_header::<ValueChunkHeader>(&good[..15]).is_err());
        assert!(split_header::<LogChunkHeader>(&[&good[..], &good].concat()).is_err());
        for version in [0, CHUNK_VERSION - 1, CHUNK_VERSION + 1] {
            let newer = ValueChunkHeader { version: version.into(), ..header };
            let error = split_header::<ValueChunkHeader>(newer.as_bytes()).expect_err("refused");
            assert!(error.to_string().contains(&format!("version {version}")), "{error}");
        }
    }
}
