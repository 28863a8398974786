//! On-disk structs of the host FTL: zones hold *groups*, and a group begins with one block that says what it is.
//!
//! ```text
//! zone  := group*
//! group := group header (one block) | data block*          written with one write
//! ```
//!
//! Little-endian. The header ends in a CRC-32C over the bytes before it and carries one over each data block, so that a
//! torn group is known by itself. Decoders take any bytes (I10).
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout,
    little_endian::{U32, U64},
};

use crate::{DeviceError, Result};

/// Bytes of a group header, which is one block.
pub const GROUP_HEADER_BYTES: usize = 4096;
/// Most data blocks of a group.
pub const GROUP_BLOCKS_MAX: usize = 64;
/// Most trimmed ranges that a group records.
pub const GROUP_TRIMS_MAX: usize = 203;
/// The newest version of the format, and the only one so far.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"ZONDAFTL";
const WHAT: &str = "group header of a host FTL";

/// A group header as bytes.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RawGroupHeader {
    magic: [u8; 8],
    version: U32,
    data_blocks: U32,
    trims: U32,
    pad: U32,
    capacity_blocks: U64,
    sequence: U64,
    durable_before: U64,
    moved_from_zone: U32,
    moved_from_sequence: U64,
    reserved: [u8; 16],
    data: [u8; 768],
    trim: [u8; 3248],
    crc: U32,
}

/// What one data block of a group is.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RawData {
    block: U64,
    crc: U32,
}

/// A range that was trimmed.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RawTrim {
    first: U64,
    blocks: U64,
}

const _: () = assert!(size_of::<RawGroupHeader>() == GROUP_HEADER_BYTES);
const _: () = assert!(size_of::<RawData>() * GROUP_BLOCKS_MAX == 768);
const _: () = assert!(size_of::<RawTrim>() * GROUP_TRIMS_MAX == 3248);

/// What a group header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// Blocks of the volume.
    pub capacity_blocks: u64,
    /// Number of the group; what a group says of a block holds until a group with a higher number says otherwise.
    pub sequence: u64,
    /// Every group with a smaller number was durable when this one was written.
    pub durable_before: u64,
    /// Of a group that cleaning wrote: the zone that it emptied, and the number of that zone's first group. As long as
    /// that is there, the group is a copy.
    pub moved_from: Option<(u32, u64)>,
    /// Ranges that read as zeros from here on: (first, blocks). They come before the data.
    pub trims: Vec<(u64, u64)>,
    /// The data blocks in their order: (block of the volume, checksum). `None` is a block that nobody wants any more.
    pub data: Vec<(Option<u64>, u32)>,
}

/// Stands for no zone.
const NO_ZONE: u32 = u32::MAX;
/// Stands for a data block that belongs to no block of the volume.
const NO_BLOCK: u64 = u64::MAX;

impl GroupHeader {
    /// Writes the header into a block.
    ///
    /// # Panics
    /// If there are more entries than a header holds, or the block has another size.
    pub fn encode_into(&self, block: &mut [u8]) {
        assert!(self.data.len() <= GROUP_BLOCKS_MAX && self.trims.len() <= GROUP_TRIMS_MAX, "a group is small");
        let mut raw = RawGroupHeader {
            magic: MAGIC,
            version: VERSION.into(),
            data_blocks: small(self.data.len()),
            trims: small(self.trims.len()),
            pad: 0.into(),
            capacity_blocks: self.capacity_blocks.into(),
            sequence: self.sequence.into(),
            durable_before: self.durable_before.into(),
            moved_from_zone: self.moved_from.map_or(NO_ZONE, |(zone, _)| zone).into(),
            moved_from_sequence: self.moved_from.map_or(0, |(_, sequence)| sequence).into(),
            reserved: [0; 16],
            data: [0; 768],
            trim: [0; 3248],
            crc: 0.into(),
        };
        for (raw, &(block, crc)) in raw.data.chunks_exact_mut(size_of::<RawData>()).zip(&self.data) {
            raw.copy_from_slice(RawData { block: block.unwrap_or(NO_BLOCK).into(), crc: crc.into() }.as_bytes());
        }
        for (raw, &(first, blocks)) in raw.trim.chunks_exact_mut(size_of::<RawTrim>()).zip(&self.trims) {
            raw.copy_from_slice(RawTrim { first: first.into(), blocks: blocks.into() }.as_bytes());
        }
        raw.crc = crc32c::crc32c(&raw.as_bytes()[..GROUP_HEADER_BYTES - 4]).into();
        block.copy_from_slice(raw.as_bytes());
    }

    /// Reads a header that stands at byte `offset` of the device.
    ///
    /// # Errors
    /// `Damaged` for anything that is not a header, `NewerVersion`.
    pub fn decode(block: &[u8], offset: u64) -> Result<Self> {
        let damaged = |reason| DeviceError::Damaged { what: WHAT, offset, reason };
        let raw = RawGroupHeader::ref_from_bytes(block).map_err(|_| damaged("its length"))?;
        if raw.magic != MAGIC {
            return Err(damaged("no magic"));
        }
        if raw.crc != crc32c::crc32c(&block[..GROUP_HEADER_BYTES - 4]) {
            return Err(damaged("its checksum"));
        }
        if raw.version.get() != VERSION {
            return Err(DeviceError::NewerVersion { found: raw.version.get(), known: VERSION });
        }
        let (data, trims) = (raw.data_blocks.get() as usize, raw.trims.get() as usize);
        if data > GROUP_BLOCKS_MAX || trims > GROUP_TRIMS_MAX || data + trims == 0 {
            return Err(damaged("its counts"));
        }
        let capacity_blocks = raw.capacity_blocks.get();
        let inside = |first: u64, blocks| first.checked_add(blocks).is_some_and(|end| end <= capacity_blocks);
        let header = Self {
            capacity_blocks,
            sequence: raw.sequence.get(),
            durable_before: raw.durable_before.get(),
            moved_from: Some((raw.moved_from_zone.get(), raw.moved_from_sequence.get()))
                .filter(|from| from.0 != NO_ZONE),
            trims: items::<RawTrim>(&raw.trim, trims).map(|trim| (trim.first.get(), trim.blocks.get())).collect(),
            data: items::<RawData>(&raw.data, data).map(|data| (named(data.block.get()), data.crc.get())).collect(),
        };
        let trims_fit = header.trims.iter().all(|&(first, blocks)| inside(first, blocks));
        if !trims_fit || header.data.iter().any(|&(block, _)| block.is_some_and(|block| !inside(block, 1))) {
            return Err(damaged("a block past its volume"));
        }
        Ok(header)
    }
}

/// The first items of a table.
fn items<T: FromBytes + Copy>(bytes: &[u8], count: usize) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).take(count).filter_map(|item| T::read_from_bytes(item).ok())
}

fn named(block: u64) -> Option<u64> {
    (block != NO_BLOCK).then_some(block)
}

fn small(count: usize) -> U32 {
    u32::try_from(count).expect("a group has few entries").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> GroupHeader {
        GroupHeader {
            capacity_blocks: 1000,
            sequence: 9,
            durable_before: 7,
            moved_from: Some((4, 2)),
            trims: vec![(0, 1000), (999, 1)],
            data: vec![(Some(3), 4), (None, 5)],
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut block = vec![0; GROUP_HEADER_BYTES];
        header().encode_into(&mut block);
        assert_eq!(GroupHeader::decode(&block, 0).unwrap(), header());
        for byte in [0, 8, 12, 30, 70, 900, 4095] {
            let mut bad = block.clone();
            bad[byte] ^= 1;
            assert!(GroupHeader::decode(&bad, 0).is_err(), "byte {byte}");
        }
        assert!(GroupHeader::decode(&block[1..], 0).is_err());
    }

    #[test]
    fn blocks_past_the_volume_are_refused() {
        let mut block = vec![0; GROUP_HEADER_BYTES];
        for bad in [
            GroupHeader { data: vec![(Some(1000), 0)], ..header() },
            GroupHeader { trims: vec![(u64::MAX, 2)], ..header() },
            GroupHeader { trims: Vec::new(), data: Vec::new(), ..header() },
        ] {
            bad.encode_into(&mut block);
            assert!(GroupHeader::decode(&block, 0).is_err(), "{bad:?}");
        }
    }
}
