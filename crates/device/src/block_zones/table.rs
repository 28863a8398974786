//! The zone table of [`BlockZones`](super::BlockZones): one block, kept twice, written in turns.
//!
//! Little-endian. Two copies stand in the first two blocks; the one with the higher number counts. It ends in a CRC-32C over
//! the bytes before it. The decoder takes any bytes (I10).
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout,
    little_endian::{U32, U64},
};

use crate::{DeviceError, Geometry, Result, ZoneState};

/// Bytes of a table, which is one block.
pub(super) const TABLE_BYTES: usize = 4096;
/// Most zones of a table.
pub(super) const ZONES_MAX: usize = 504;

/// Bytes of a zone in it.
const ZONE_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"ZONDABZT";
const VERSION: u32 = 1;
const WHAT: &str = "zone table on a block device";

/// The table as bytes. A limit of 0 is none. A zone is its written blocks, with the uppermost bit set if it is full.
#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawTable {
    magic: [u8; 8],
    version: U32,
    zone_count: U32,
    zone_blocks: U64,
    capacity_blocks: U64,
    number: U64,
    max_open: U32,
    max_active: U32,
    append_blocks_max: U32,
    reserved: [u8; 8],
    zones: [u8; 4032],
    crc: U32,
}

const _: () = assert!(size_of::<RawTable>() == TABLE_BYTES);
const _: () = assert!(ZONES_MAX * ZONE_BYTES == 4032);

/// Marks a full zone.
const FULL: u64 = 1 << 63;

/// What a zone table says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Rises with every table that is written.
    pub(super) number: u64,
    /// Shape and limits of the zones.
    pub(super) geometry: Geometry,
    /// Of each zone: whether it is full, and its written blocks.
    pub(super) zones: Vec<(bool, u64)>,
}

impl Table {
    /// Writes the table into a block; at most [`ZONES_MAX`] zones.
    pub(super) fn encode_into(&self, block: &mut [u8]) {
        let mut raw = RawTable {
            magic: MAGIC,
            version: VERSION.into(),
            zone_count: u32::try_from(self.zones.len()).expect("at most ZONES_MAX").into(),
            zone_blocks: self.geometry.zone_size_blocks.into(),
            capacity_blocks: self.geometry.zone_capacity_blocks.into(),
            number: self.number.into(),
            max_open: self.geometry.max_open.unwrap_or(0).into(),
            max_active: self.geometry.max_active.unwrap_or(0).into(),
            append_blocks_max: self.geometry.append_blocks_max.unwrap_or(0).into(),
            reserved: [0; 8],
            zones: [0; 4032],
            crc: 0.into(),
        };
        for (raw, &(is_full, written)) in raw.zones.chunks_exact_mut(ZONE_BYTES).zip(&self.zones) {
            raw.copy_from_slice(&(written | if is_full { FULL } else { 0 }).to_le_bytes());
        }
        raw.crc = crc32c::crc32c(&raw.as_bytes()[..TABLE_BYTES - 4]).into();
        block.copy_from_slice(raw.as_bytes());
    }

    /// Reads the table that stands at byte `offset` of the device.
    ///
    /// # Errors
    /// `Damaged` for anything that is none, `NewerVersion`.
    pub(super) fn decode(block: &[u8], offset: u64) -> Result<Self> {
        let damaged = |reason| DeviceError::Damaged { what: WHAT, offset, reason };
        let raw = RawTable::ref_from_bytes(block).map_err(|_| damaged("its length"))?;
        if raw.magic != MAGIC {
            return Err(damaged("no magic"));
        }
        if raw.crc != crc32c::crc32c(&block[..TABLE_BYTES - 4]) {
            return Err(damaged("its checksum"));
        }
        if raw.version.get() != VERSION {
            return Err(DeviceError::NewerVersion { found: raw.version.get(), known: VERSION });
        }
        let zone_count = raw.zone_count.get() as usize;
        let zones = raw.zones.get(..zone_count.saturating_mul(ZONE_BYTES));
        let zone = |raw: &[u8]| u64::from_le_bytes(raw.try_into().expect("8 bytes"));
        let zone = |raw: &[u8]| (zone(raw) & FULL != 0, zone(raw) & !FULL);
        let zones: Vec<(bool, u64)> =
            zones.ok_or_else(|| damaged("its number of zones"))?.chunks_exact(ZONE_BYTES).map(zone).collect();
        let limit = |raw: U32| Some(raw.get()).filter(|&limit| limit > 0);
        let geometry = Geometry {
            zone_size_blocks: raw.zone_blocks.get(),
            zone_capacity_blocks: raw.capacity_blocks.get(),
            max_open: limit(raw.max_open),
            max_active: limit(raw.max_active),
            append_blocks_max: limit(raw.append_blocks_max),
            ..Geometry::new(TABLE_BYTES as u64, raw.zone_count.get())
        };
        geometry.validate().map_err(|_| damaged("its geometry"))?;
        if zones.iter().any(|&(_, written)| written > geometry.zone_capacity_blocks) {
            return Err(damaged("a write pointer behind its zone"));
        }
        Ok(Self { number: raw.number.get(), geometry, zones })
    }

    /// The state that a zone comes back in.
    pub(super) fn state(&self, zone: usize) -> (ZoneState, u64) {
        match self.zones[zone] {
            (true, written) => (ZoneState::Full, written),
            (false, 0) => (ZoneState::Empty, 0),
            (false, written) => (ZoneState::Closed, written),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> Table {
        let geometry = Geometry::new(64 * 4096, 4).with_limits(2, 3).with_capacity_blocks(60);
        Table { number: 7, geometry, zones: vec![(false, 0), (false, 5), (true, 9), (true, 60)] }
    }

    fn encoded(table: &Table) -> Vec<u8> {
        let mut block = vec![0; TABLE_BYTES];
        table.encode_into(&mut block);
        block
    }

    #[test]
    fn a_table_comes_back() {
        assert_eq!(Table::decode(&encoded(&table()), 0).expect("whole"), table());
        assert_eq!(table().state(1), (ZoneState::Closed, 5));
        assert_eq!(table().state(2), (ZoneState::Full, 9));
    }

    #[test]
    fn a_write_pointer_behind_its_zone_is_damage() {
        let wrong = Table { zones: vec![(false, 61); 4], ..table() };
        assert!(matches!(Table::decode(&encoded(&wrong), 0), Err(DeviceError::Damaged { .. })));
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_damage(at in 0_usize..TABLE_BYTES, to in 1_u8..) {
            let mut block = encoded(&table());
            block[at] ^= to;
            prop_assert!(Table::decode(&block, 0).is_err());
        }

        #[test]
        fn any_bytes_are_a_table_or_damage(bytes in prop::collection::vec(any::<u8>(), 0..TABLE_BYTES + 1)) {
            let _ = Table::decode(&bytes, 0);
        }
    }
}
