//! A zone as the kernel describes it, and what that is to us.
use std::fmt;

use super::sys::SECTOR_BYTES;
use crate::{Geometry, ZoneId, ZoneReport, ZoneState};

/// Bytes of the kernel's `struct blk_zone`.
pub(crate) const DESCRIPTOR_BYTES: usize = 64;

/// What kind of zone it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// Written anywhere, like a disk without zones; SMR disks have some.
    Conventional,
    /// Written at its write pointer only.
    SequentialRequired,
    /// Better written at its write pointer: a disk that is host-aware.
    SequentialPreferred,
    /// A kind that is not known here.
    Unknown(u8),
}

impl ZoneKind {
    fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Conventional,
            2 => Self::SequentialRequired,
            3 => Self::SequentialPreferred,
            other => Self::Unknown(other),
        }
    }

    /// The number that the kernel has for it.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Conventional => 1,
            Self::SequentialRequired => 2,
            Self::SequentialPreferred => 3,
            Self::Unknown(number) => number,
        }
    }

    /// True if it has a write pointer.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::SequentialRequired | Self::SequentialPreferred)
    }
}

/// A zone as the kernel describes it, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// First sector.
    pub start_sector: u64,
    /// Sectors to the next zone.
    pub len_sectors: u64,
    /// Sectors that can be written.
    pub capacity_sectors: u64,
    /// Sector of the write pointer; means nothing in a zone that is full, read-only or offline.
    pub write_pointer_sector: u64,
    /// Kind.
    pub kind: ZoneKind,
    /// The kernel's number for the condition: 0 for a conventional zone, else that of [`ZoneState`].
    pub condition: u8,
    /// The device found data out of sequence (host-aware disks).
    pub non_sequential: bool,
    /// The device recommends a reset.
    pub reset_recommended: bool,
}

impl Descriptor {
    /// Decodes one descriptor; without capacities (before Linux 5.9) a zone's capacity is its length.
    pub(crate) fn decode(bytes: &[u8], has_capacity: bool) -> Self {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        Self {
            start_sector: number(0),
            len_sectors: number(8),
            capacity_sectors: number(if has_capacity { 32 } else { 8 }),
            write_pointer_sector: number(16),
            kind: ZoneKind::from_number(byte(24)),
            condition: byte(25),
            non_sequential: byte(26) != 0,
            reset_recommended: byte(27) != 0,
        }
    }

    /// Its state, if it is one that a zone with a write pointer can have.
    #[must_use]
    pub fn state(&self) -> Option<ZoneState> {
        ZoneState::from_number(self.condition)
    }

    /// What the zone is to a device of this geometry. Zones that cannot be used, because they are conventional or
    /// have another capacity than the others (the last of some SMR disks), are offline.
    pub(crate) fn report(&self, zone: ZoneId, geometry: &Geometry) -> ZoneReport {
        let start = geometry.zone_start(zone);
        let capacity_blocks = geometry.zone_capacity_blocks;
        let state = self.state().filter(|_| self.is_usable(geometry)).unwrap_or(ZoneState::Offline);
        let written = self.written_blocks(geometry);
        let write_pointer = state.has_write_pointer().then(|| start.plus(written));
        ZoneReport { zone, state, start, capacity_blocks, write_pointer }
    }

    /// Blocks written; the capacity where nobody knows better. The write pointer of a full zone is never believed:
    /// drives differ in what they say there.
    pub(crate) fn written_blocks(&self, geometry: &Geometry) -> u64 {
        match self.state() {
            Some(ZoneState::Empty) | None => 0,
            Some(state) if state.is_active() => {
                let sectors = self.write_pointer_sector.saturating_sub(self.start_sector);
                (sectors.saturating_mul(SECTOR_BYTES) / u64::from(geometry.block_bytes))
                    .min(geometry.zone_capacity_blocks)
            }
            Some(_) => geometry.zone_capacity_blocks,
        }
    }

    fn is_usable(&self, geometry: &Geometry) -> bool {
        let block = u64::from(geometry.block_bytes);
        let blocks = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES) / block;
        self.kind.is_sequential()
            && blocks(self.len_sectors) == geometry.zone_size_blocks
            && blocks(self.capacity_sectors) == geometry.zone_capacity_blocks
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state() {
            Some(state) => write!(f, "the zone is {state}")?,
            None => write!(f, "the zone has the condition {:#x}", self.condition)?,
        }
        let (written, capacity) = (self.write_pointer_sector.wrapping_sub(self.start_sector), self.capacity_sectors);
        write!(f, ", write pointer at sector {written} of {capacity}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(kind: u8, condition: u8, numbers: [u64; 4]) -> Vec<u8> {
        let mut bytes = vec![0; DESCRIPTOR_BYTES];
        for (at, number) in [(0, numbers[0]), (8, numbers[1]), (16, numbers[2]), (32, numbers[3])] {
            bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        }
        (bytes[24], bytes[25]) = (kind, condition);
        bytes
    }

    fn geometry() -> Geometry {
        Geometry::new(64 << 10, 4).with_capacity_blocks(12)
    }

    #[test]
    fn a_partly_written_zone() {
        let zone = Descriptor::decode(&raw(2, 2, [128, 128, 128 + 40, 96]), true);
        let report = zone.report(ZoneId(1), &geometry());
        assert_eq!((report.state, report.written_blocks()), (ZoneState::ImplicitOpen, 5));
        assert_eq!(zone.to_string(), "the zone is implicitly open, write pointer at sector 40 of 96");
    }

    #[test]
    fn the_write_pointer_of_a_full_zone_is_not_believed() {
        for pointer in [128, 128 + 96, 256, u64::MAX] {
            let report = Descriptor::decode(&raw(2, 0xE, [128, 128, pointer, 96]), true).report(ZoneId(1), &geometry());
            assert_eq!((report.state, report.write_pointer), (ZoneState::Full, None));
        }
    }

    #[test]
    fn zones_that_cannot_be_used_are_offline() {
        let conventional = raw(1, 0, [0, 128, u64::MAX, 128]);
        let shorter = raw(2, 1, [0, 128, 0, 64]);
        for bytes in [conventional, shorter] {
            assert_eq!(Descriptor::decode(&bytes, true).report(ZoneId(0), &geometry()).state, ZoneState::Offline);
        }
    }

    #[test]
    fn without_capacities_a_zone_can_hold_its_length() {
        assert_eq!(Descriptor::decode(&raw(2, 1, [0, 128, 0, 7]), false).capacity_sectors, 128);
    }

    proptest! {
        #[test]
        fn any_bytes_decode(bytes in prop::collection::vec(any::<u8>(), 0..100), has_capacity: bool) {
            let zone = Descriptor::decode(&bytes, has_capacity);
            let report = zone.report(ZoneId(3), &geometry());
            prop_assert!(report.written_blocks() <= 12);
            prop_assert!(!zone.to_string().is_empty());
        }
    }
}
