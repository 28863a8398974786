//! On-disk structs of the file backend. Little-endian; every record ends in a CRC-32C over the bytes before it.
//!
//! ```text
//! byte 0      header page, 4096 bytes: written once, last thing of a creation
//! byte 4096   mark, 64 bytes (its page is otherwise unused): was the last close clean?
//! byte 8192   zone table, 64 bytes per zone, rounded up to 4096
//! then        zones, from a multiple of 65536: zone z at data + z * zone size
//! ```
//!
//! A block device has kind 2, no table, and its blocks where the zones would be. The last four bytes of the header page
//! are its checksum in every version, so that damage and a newer version can be told apart. Decoders take any bytes
//! (I10).
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout,
    little_endian::{U32, U64},
};

use crate::{DeviceError, Geometry, Result, ZoneId, ZoneState, mem_block::BlockShape};

/// Bytes of the header page, and of the page that holds the mark.
pub const PAGE_BYTES: usize = 4096;
/// Where the mark is.
pub const MARK_OFFSET: u64 = 4096;
/// Where the zone table is.
pub const TABLE_OFFSET: u64 = 8192;
/// The zones start at a multiple of this, which is the largest block size.
pub const DATA_ALIGNMENT: u64 = 65_536;
/// Bytes of one table entry.
pub const ENTRY_BYTES: usize = 64;
/// The newest version of the format, and the only one so far.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"ZONDADEV";
const MARK_MAGIC: [u8; 8] = *b"ZONDAMRK";
const NO_LIMIT: u32 = u32::MAX;

/// What a device file is. On disk, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DeviceKind {
    /// Zones.
    Zoned = 1,
    /// Blocks that can be overwritten.
    Block = 2,
}

/// Feature bits of the header; a program refuses bits that it does not know. On disk, never renumber.
pub mod feature {
    /// Bit 0: the file system tells holes from data block by block, so write pointers of open zones are found by
    /// looking for the end of their data.
    pub const EXACT_HOLES: u64 = 1 << 0;
    /// Bit 1: open zones may end in blanks, blocks of a pattern told by the header, which are no data.
    pub const BLANKS: u64 = 1 << 1;
    /// All bits that this version knows.
    pub const KNOWN: u64 = EXACT_HOLES | BLANKS;
}

/// The header page as bytes.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HeaderPage {
    magic: [u8; 8],
    version: U32,
    kind: U32,
    features: U64,
    block_bytes: U32,
    zone_count: U32,
    zone_size_blocks: U64,
    zone_capacity_blocks: U64,
    max_open: U32,
    max_active: U32,
    append_blocks_max: U32,
    blank: [u8; 16],
    reserved: [u8; 4016],
    crc: U32,
}

/// The mark as bytes.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MarkRecord {
    magic: [u8; 8],
    clean: U32,
    reserved: [u8; 48],
    crc: U32,
}

/// A zone table entry as bytes.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct EntryRecord {
    zone: U32,
    state: u8,
    pad: [u8; 3],
    written_blocks: U64,
    reserved: [u8; 44],
    crc: U32,
}

const _: () = assert!(size_of::<HeaderPage>() == PAGE_BYTES);
const _: () = assert!(size_of::<MarkRecord>() == 64);
const _: () = assert!(size_of::<EntryRecord>() == ENTRY_BYTES);

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Zoned or block.
    pub kind: DeviceKind,
    /// Bits of [`feature`].
    pub features: u64,
    /// The pattern of blanks; means nothing without [`feature::BLANKS`].
    pub blank: u128,
    /// Shape; a block device has one zone of its capacity.
    pub geometry: Geometry,
}

/// What a table entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Empty, closed (any active zone), full, read-only or offline.
    pub state: ZoneState,
    /// Blocks known to be written; an active zone may have more after a crash.
    pub written_blocks: u64,
}

impl Header {
    /// The header page's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let g = &self.geometry;
        let mut page = HeaderPage {
            magic: MAGIC,
            version: VERSION.into(),
            kind: (self.kind as u32).into(),
            features: self.features.into(),
            block_bytes: g.block_bytes.into(),
            zone_count: g.zone_count.into(),
            zone_size_blocks: g.zone_size_blocks.into(),
            zone_capacity_blocks: g.zone_capacity_blocks.into(),
            max_open: g.max_open.unwrap_or(NO_LIMIT).into(),
            max_active: g.max_active.unwrap_or(NO_LIMIT).into(),
            append_blocks_max: g.append_blocks_max.unwrap_or(NO_LIMIT).into(),
            blank: self.blank.to_le_bytes(),
            reserved: [0; 4016],
            crc: 0.into(),
        };
        page.crc = crc_before_last_4(page.as_bytes()).into();
        page.as_bytes().to_vec()
    }

    /// Reads a header page.
    ///
    /// # Errors
    /// `Damaged`, `NewerVersion`, `UnknownFeature`, `Geometry`. The caller has checked the magic with [`has_magic`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let page = HeaderPage::ref_from_bytes(bytes).map_err(|_| damaged_header("wrong length"))?;
        if page.crc.get() != crc_before_last_4(bytes) {
            return Err(damaged_header("checksum does not match"));
        }
        match page.version.get() {
            VERSION => {}
            0 => return Err(damaged_header("version 0")),
            found => return Err(DeviceError::NewerVersion { found, known: VERSION }),
        }
        let unknown = page.features.get() & !feature::KNOWN;
        if unknown != 0 {
            return Err(DeviceError::UnknownFeature { bit: unknown.trailing_zeros() });
        }
        let kind = decode_kind(page.kind.get())?;
        let geometry = page.geometry();
        geometry.validate()?;
        Ok(Self { kind, features: page.features.get(), blank: u128::from_le_bytes(page.blank), geometry })
    }
}

impl HeaderPage {
    fn geometry(&self) -> Geometry {
        let limit = |field: U32| (field.get() != NO_LIMIT).then_some(field.get());
        Geometry {
            block_bytes: self.block_bytes.get(),
            zone_size_blocks: self.zone_size_blocks.get(),
            zone_capacity_blocks: self.zone_capacity_blocks.get(),
            zone_count: self.zone_count.get(),
            max_open: limit(self.max_open),
            max_active: limit(self.max_active),
            append_blocks_max: limit(self.append_blocks_max),
            ordered_queue: true,
            volatile_cache: true,
        }
    }
}

impl Entry {
    /// The entry's bytes for a zone. Open zones are recorded as closed: that is what they are after a power cycle.
    #[must_use]
    pub fn encode(&self, zone: ZoneId) -> [u8; ENTRY_BYTES] {
        let state = if self.state.is_active() { ZoneState::Closed } else { self.state };
        let mut record = EntryRecord {
            zone: zone.0.into(),
            state: state as u8,
            pad: [0; 3],
            written_blocks: self.written_blocks.into(),
            reserved: [0; 44],
            crc: 0.into(),
        };
        record.crc = crc_before_last_4(record.as_bytes()).into();
        zerocopy::transmute!(record)
    }

    /// Reads the entry of a zone.
    ///
    /// # Errors
    /// `Damaged`; `Geometry` if more is written than `capacity_blocks`.
    pub fn decode(bytes: &[u8], zone: ZoneId, capacity_blocks: u64) -> Result<Self> {
        let damaged = |reason| damaged_entry(zone, reason);
        let record = EntryRecord::ref_from_bytes(bytes).map_err(|_| damaged("wrong length"))?;
        if record.crc.get() != crc_before_last_4(bytes) {
            return Err(damaged("checksum does not match"));
        }
        if record.zone.get() != zone.0 {
            return Err(damaged("entry of another zone"));
        }
        let state = ZoneState::from_number(record.state).ok_or_else(|| damaged("unknown state"))?;
        if record.written_blocks.get() > capacity_blocks {
            return Err(damaged("more blocks written than fit"));
        }
        Ok(Self { state, written_blocks: record.written_blocks.get() })
    }
}

/// The mark's bytes.
#[must_use]
pub fn encode_mark(clean: bool) -> [u8; 64] {
    let mut mark = MarkRecord { magic: MARK_MAGIC, clean: u32::from(clean).into(), reserved: [0; 48], crc: 0.into() };
    mark.crc = crc_before_last_4(mark.as_bytes()).into();
    zerocopy::transmute!(mark)
}

/// True if the bytes are a whole mark that says clean. A damaged mark counts as unclean: recovery is right either way.
#[must_use]
pub fn mark_is_clean(bytes: &[u8]) -> bool {
    MarkRecord::ref_from_bytes(bytes).is_ok_and(|mark| {
        mark.magic == MARK_MAGIC && mark.crc.get() == crc_before_last_4(bytes) && mark.clean.get() == 1
    })
}

/// True if the bytes start as a device file of ours does.
#[must_use]
pub fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Byte offset of a zone's table entry.
#[must_use]
pub fn entry_offset(zone: ZoneId) -> u64 {
    TABLE_OFFSET + u64::from(zone.0) * ENTRY_BYTES as u64
}

/// Byte offset of the first zone of a device of `zone_count` zones.
#[must_use]
pub fn data_offset(zone_count: u32) -> u64 {
    entry_offset(ZoneId(zone_count)).next_multiple_of(DATA_ALIGNMENT)
}

/// The header of a block device: one zone of its capacity.
pub(crate) fn block_header(shape: BlockShape) -> Header {
    let geometry = Geometry {
        block_bytes: shape.block_bytes,
        zone_size_blocks: shape.capacity_blocks,
        zone_capacity_blocks: shape.capacity_blocks,
        ..Geometry::new(4096, 1)
    };
    Header { kind: DeviceKind::Block, features: 0, blank: 0, geometry }
}

fn decode_kind(number: u32) -> Result<DeviceKind> {
    match number {
        1 => Ok(DeviceKind::Zoned),
        2 => Ok(DeviceKind::Block),
        _ => Err(damaged_header("unknown kind")),
    }
}

fn crc_before_last_4(bytes: &[u8]) -> u32 {
    crc32c::crc32c(&bytes[..bytes.len() - 4])
}

fn damaged_header(reason: &'static str) -> DeviceError {
    DeviceError::Damaged { what: "header", offset: 0, reason }
}

fn damaged_entry(zone: ZoneId, reason: &'static str) -> DeviceError {
    DeviceError::Damaged { what: "zone table entry", offset: entry_offset(zone), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        let geometry = Geometry::new(64 << 10, 9).with_limits(3, 5).with_capacity_blocks(11);
        Header {
            kind: DeviceKind::Zoned,
            features: feature::EXACT_HOLES | feature::BLANKS,
            blank: 7 << 100 | 9,
            geometry,
        }
    }

    fn reseal(page: &mut [u8]) {
        let crc = crc_before_last_4(page);
        let at = page.len() - 4;
        page[at..].copy_from_slice(&crc.to_le_bytes());
    }

    #[test]
    fn header_and_entry_come_back() {
        assert_eq!(Header::decode(&header().encode()).unwrap(), header());
        let entry = Entry { state: ZoneState::ImplicitOpen, written_blocks: 7 };
        let back = Entry::decode(&entry.encode(ZoneId(3)), ZoneId(3), 7).unwrap();
        assert_eq!(back, Entry { state: ZoneState::Closed, written_blocks: 7 });
        assert!(Entry::decode(&entry.encode(ZoneId(3)), ZoneId(4), 7).is_err());
        assert!(Entry::decode(&entry.encode(ZoneId(3)), ZoneId(3), 6).is_err());
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let good = header().encode();
        for bit in (0..good.len() * 8).step_by(7) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn newer_versions_and_features_are_named() {
        let mut newer = header().encode();
        newer[8] = 2;
        reseal(&mut newer);
        assert!(matches!(Header::decode(&newer), Err(DeviceError::NewerVersion { found: 2, known: 1 })));
        let mut strange = header().encode();
        strange[16] |= 1 << 5;
        reseal(&mut strange);
        assert!(matches!(Header::decode(&strange), Err(DeviceError::UnknownFeature { bit: 5 })));
    }

    #[test]
    fn a_mark_is_clean_only_if_it_says_so() {
        assert!(mark_is_clean(&encode_mark(true)));
        assert!(!mark_is_clean(&encode_mark(false)));
        assert!(!mark_is_clean(&[0; 64]));
    }

    proptest! {
        #[test]
        fn decoders_take_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..4200), seal: bool, zone: u32) {
            if seal && bytes.len() >= 4 {
                reseal(&mut bytes);
            }
            let _ = (Header::decode(&bytes).is_ok(), mark_is_clean(&bytes), has_magic(&bytes));
            let _ = Entry::decode(&bytes[..bytes.len().min(64)], ZoneId(zone), 1).is_ok();
        }

        #[test]
        fn any_sealed_header_decodes_or_is_refused(fields in proptest::collection::vec(any::<u8>(), 52)) {
            let mut page = header().encode();
            page[8..60].copy_from_slice(&fields);
            reseal(&mut page);
            if let Ok(header) = Header::decode(&page) {
                prop_assert!(header.geometry.validate().is_ok());
            }
        }
    }
}
