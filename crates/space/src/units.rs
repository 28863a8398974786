//! The device's geometry in this crate's unit: blocks of 4,096 bytes, counted through the whole device.

use zonda_device::{Geometry, Lba, SubzoneId, ZoneId, ZoneReport, ZonedDevice};

use crate::{BLOCK_BYTES, Result, SpaceError};

/// The fewest blocks a zone must hold, its header included.
pub const ZONE_BLOCKS_MIN: u64 = 8;

/// Shape of the device in blocks of [`BLOCK_BYTES`]. A device with smaller blocks carries several of its own in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    /// Device blocks in one of ours.
    pub(crate) lbas: u64,
    /// From zone to zone.
    pub(crate) zone_size: u64,
    /// Writable in a zone; a rest that is no whole block is not used.
    pub(crate) zone_capacity: u64,
    pub(crate) zone_count: u32,
    /// How a zone is divided, on devices that split zones.
    pub(crate) parts: Option<Parts>,
}

/// Subzones of a zone. They have numbers behind those of zones: subzone `i` of zone `z` is `zone_count + z * count + i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// In each zone.
    pub(crate) count: u32,
    /// Blocks of each.
    pub(crate) blocks: u64,
}

impl Units {
    /// Shape of a device, subzones included where it has them and they can hold a header and data.
    pub(crate) fn on(device: &dyn ZonedDevice) -> Result<Self> {
        let units = Self::of(device.geometry())?;
        let Some(split) = device.split_zones() else { return Ok(units) };
        let parts = Parts { count: split.subzones().into(), blocks: split.subzone_blocks() / units.lbas };
        let ids = u64::from(units.zone_count) * (u64::from(parts.count) + 1);
        let fits = ids <= u32::MAX.into() && split.subzone_blocks().is_multiple_of(units.lbas);
        let is_usable = fits && parts.blocks >= ZONE_BLOCKS_MIN;
        Ok(Self { parts: is_usable.then_some(parts), ..units })
    }

    pub(crate) fn of(geometry: &Geometry) -> Result<Self> {
        let block_bytes = u64::from(geometry.block_bytes);
        let bad = |what, value, rule| Err(SpaceError::BadGeometry { what, value, rule });
        if block_bytes == 0 || !(BLOCK_BYTES as u64).is_multiple_of(block_bytes) {
            return bad("the block size", block_bytes, "it must divide 4,096 bytes");
        }
        let lbas = BLOCK_BYTES as u64 / block_bytes;
        if !geometry.zone_size_blocks.is_multiple_of(lbas) {
            return bad("the zone size in blocks", geometry.zone_size_blocks, "it must be whole blocks of 4,096 bytes");
        }
        let zone_capacity = geometry.zone_capacity_blocks / lbas;
        if zone_capacity < ZONE_BLOCKS_MIN {
            return bad("the zone capacity in blocks of 4,096 bytes", zone_capacity, "at least 8 are needed");
        }
        let (zone_size, zone_count) = (geometry.zone_size_blocks / lbas, geometry.zone_count);
        Ok(Self { lbas, zone_size, zone_capacity, zone_count, parts: None })
    }

    /// Numbers in use, of zones and of subzones.
    pub(crate) fn ids(&self) -> u32 {
        self.zone_count * (1 + self.parts.map_or(0, |parts| parts.count))
    }

    /// The subzone that has this number; `None` for numbers of zones.
    pub(crate) fn subzone(&self, id: ZoneId) -> Option<SubzoneId> {
        let (parts, at) = (self.parts?, id.0.checked_sub(self.zone_count)?);
        let index = u16::try_from(at % parts.count).expect("a device says the number of subzones in 16 bits");
        Some(SubzoneId { zone: ZoneId(at / parts.count), index })
    }

    /// The numbers of a zone's subzones.
    pub(crate) fn subzones_of(&self, zone: ZoneId) -> std::ops::Range<u32> {
        let count = self.parts.map_or(0, |parts| parts.count);
        let first = self.zone_count + zone.0 * count;
        first..first + count
    }

    /// The block that holds the header of a zone or subzone.
    pub(crate) fn first_block(&self, zone: ZoneId) -> u64 {
        match (self.subzone(zone), self.parts) {
            (Some(id), Some(parts)) => u64::from(id.zone.0) * self.zone_size + u64::from(id.index) * parts.blocks,
            _ => u64::from(zone.0) * self.zone_size,
        }
    }

    /// Blocks of a zone or subzone that can be written, its header included.
    pub(crate) fn capacity_of(&self, zone: ZoneId) -> u64 {
        self.subzone(zone).and(self.parts).map_or(self.zone_capacity, |parts| parts.blocks)
    }

    /// Bytes that a zone or subzone holds after its header.
    pub(crate) fn data_bytes_of(&self, zone: ZoneId) -> u64 {
        (self.capacity_of(zone) - 1) * BLOCK_BYTES as u64
    }

    pub(crate) fn zone_of(&self, block: u64) -> ZoneId {
        ZoneId(u32::try_from(block / self.zone_size).unwrap_or(u32::MAX))
    }

    pub(crate) fn lba(&self, block: u64) -> Lba {
        Lba(block * self.lbas)
    }

    /// Whole blocks written, the header included. A torn block at the end does not count.
    pub(crate) fn written(&self, report: &ZoneReport) -> u64 {
        (report.written_blocks() / self.lbas).min(self.capacity_of(report.zone))
    }

    /// Device blocks that are missing to complete a torn block at the write pointer.
    pub(crate) fn missing_lbas(&self, report: &ZoneReport) -> u64 {
        report.written_blocks().next_multiple_of(self.lbas) - report.written_blocks()
    }

    /// Bytes that a zone holds after its header.
    pub(crate) fn zone_data_bytes(&self) -> u64 {
        (self.zone_capacity - 1) * BLOCK_BYTES as u64
    }

    /// The length of a buffer in blocks.
    pub(crate) fn blocks_of(bytes: usize) -> Result<u64> {
        if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(SpaceError::NotWholeBlocks { bytes });
        }
        Ok((bytes / BLOCK_BYTES) as u64)
    }
}

#[cfg(test)]
mod tests {
    use zonda_device::ZoneState;

    use super::*;

    fn small_blocks() -> Geometry {
        Geometry { block_bytes: 512, zone_size_blocks: 128, zone_capacity_blocks: 100, ..Geometry::new(64 << 10, 4) }
    }

    #[test]
    fn small_device_blocks_are_put_together() {
        let units = Units::of(&small_blocks()).unwrap();
        assert_eq!((units.lbas, units.zone_size, units.zone_capacity), (8, 16, 12));
        assert_eq!((units.first_block(ZoneId(2)), units.lba(33), units.zone_of(33)), (32, Lba(264), ZoneId(2)));
        let start = Lba(128);
        let report = |pointer| ZoneReport {
            zone: ZoneId(1),
            state: ZoneState::Closed,
            start,
            capacity_blocks: 100,
            write_pointer: pointer,
        };
        assert_eq!(
            (units.written(&report(Some(Lba(128 + 9)))), units.missing_lbas(&report(Some(Lba(128 + 9))))),
            (1, 7)
        );
        assert_eq!((units.written(&report(None)), units.missing_lbas(&report(Some(Lba(128 + 16))))), (12, 0));
    }

    #[test]
    fn geometries_that_cannot_carry_a_store_are_refused() {
        let large = Geometry { block_bytes: 8192, ..small_blocks() };
        let uneven = Geometry { zone_size_blocks: 129, ..small_blocks() };
        let tiny = Geometry { zone_capacity_blocks: 63, ..small_blocks() };
        for geometry in [large, uneven, tiny] {
            assert!(matches!(Units::of(&geometry), Err(SpaceError::BadGeometry { .. })), "{geometry:?}");
        }
        assert!(Units::of(&Geometry { zone_capacity_blocks: 64, ..small_blocks() }).is_ok());
    }
}
