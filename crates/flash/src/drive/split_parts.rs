//! The zones below a drive that splits zones, called by the numbers of the drive; their errors come with its numbers, too.
//!
//! A zone of the drive is `subzones` zones below, one behind the other, and one more, its *marker*.
use std::ops::Range;
use std::sync::Arc;

use zonda_device::{DeviceError, Geometry, Lba, Result, ZoneId, ZoneReport, ZonedDevice};

/// The device below. A part of a zone is a subzone by its index, or the marker, which is behind the last.
#[derive(Debug)]
pub(super) struct Parts {
    below: Arc<dyn ZonedDevice>,
    subzones: u16,
    subzone_blocks: u64,
    /// Blocks of the drive from one zone to the next.
    zone_size_blocks: u64,
    block_bytes: u32,
}

/// The shape of the device below a drive of this geometry with so many subzones in a zone.
///
/// # Errors
/// `Geometry` if subzones do not divide the capacity of a zone.
pub fn geometry_below(geometry: &Geometry, subzones: u16) -> Result<Geometry> {
    let (capacity, count) = (geometry.zone_capacity_blocks, u64::from(subzones));
    if count == 0 || !capacity.is_multiple_of(count) {
        return Err(DeviceError::Geometry { field: "subzones of a zone", value: count, min: 1, max: capacity });
    }
    let mut below = geometry.clone();
    (below.zone_size_blocks, below.zone_capacity_blocks) = (capacity / count, capacity / count);
    below.zone_count = geometry.zone_count.saturating_mul(u32::from(subzones) + 1);
    (below.max_open, below.max_active, below.append_blocks_max) = (None, None, None);
    below.validate()?;
    Ok(below)
}

impl Parts {
    /// The parts of a drive of this geometry.
    ///
    /// # Errors
    /// `Mismatch` unless the device has the shape that [`geometry_below`] says.
    pub(super) fn over(below: Arc<dyn ZonedDevice>, geometry: &Geometry, subzones: u16) -> Result<Self> {
        let wanted = geometry_below(geometry, subzones)?;
        let found = below.geometry();
        for (field, asked, found) in [
            ("zones", u64::from(wanted.zone_count), u64::from(found.zone_count)),
            ("zone_size", wanted.zone_size_blocks, found.zone_size_blocks),
            ("block", wanted.block_bytes.into(), found.block_bytes.into()),
        ] {
            if asked != found {
                return Err(DeviceError::Mismatch { field, found, asked });
            }
        }
        let (subzone_blocks, block_bytes) = (wanted.zone_size_blocks, wanted.block_bytes);
        Ok(Self { below, subzones, subzone_blocks, zone_size_blocks: geometry.zone_size_blocks, block_bytes })
    }

    pub(super) fn subzones(&self) -> u16 {
        self.subzones
    }

    pub(super) fn subzone_blocks(&self) -> u64 {
        self.subzone_blocks
    }

    /// The index of a zone's marker.
    pub(super) fn marker(&self) -> u16 {
        self.subzones
    }

    /// The geometry of the device below.
    pub(super) fn geometry(&self) -> &Geometry {
        self.below.geometry()
    }

    pub(super) fn describe(&self) -> String {
        self.below.describe()
    }

    /// All parts of all zones, with the numbers below: for each zone its subzones, then its marker.
    pub(super) fn report_all(&self) -> Result<Vec<ZoneReport>> {
        self.of_drive(self.below.report(ZoneId(0), self.below.geometry().zone_count))
    }

    /// The subzones of a zone, with the numbers below.
    pub(super) fn report(&self, zone: ZoneId) -> Result<Vec<ZoneReport>> {
        self.of_drive(self.below.report(self.below(zone, 0), self.subzones.into()))
    }

    pub(super) fn finish(&self, zone: ZoneId, part: u16) -> Result<()> {
        self.of_drive(self.below.finish(self.below(zone, part)))
    }

    pub(super) fn reset(&self, zone: ZoneId, part: u16) -> Result<()> {
        self.of_drive(self.below.reset(self.below(zone, part)))
    }

    /// Writes to a zone from a block of it on, part by part.
    pub(super) fn write(&self, zone: ZoneId, offset: u64, from: &[u8]) -> Result<()> {
        let mut stretches = self.stretches(zone, offset, from.len());
        self.of_drive(stretches.try_for_each(|(at, bytes)| self.below.write(at, &from[bytes])))
    }

    /// Reads a zone from a block of it on, part by part. What is behind the last is left as it is.
    pub(super) fn read(&self, zone: ZoneId, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut stretches = self.stretches(zone, offset, into.len());
        self.of_drive(stretches.try_for_each(|(at, bytes)| self.below.read(at, &mut into[bytes])))
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.of_drive(self.below.flush())
    }

    fn below(&self, zone: ZoneId, part: u16) -> ZoneId {
        ZoneId(zone.0 * (u32::from(self.subzones) + 1) + u32::from(part))
    }

    /// The stretches of a span of a zone that lie in one part each: where below, and bytes of the caller's.
    fn stretches(&self, zone: ZoneId, offset: u64, bytes: usize) -> impl Iterator<Item = (Lba, Range<usize>)> + '_ {
        let block = u64::from(self.block_bytes);
        let end = (offset + bytes as u64 / block).min(u64::from(self.subzones) * self.subzone_blocks);
        let mut from = offset;
        std::iter::from_fn(move || {
            if from >= end {
                return None;
            }
            let (index, within) = (from / self.subzone_blocks, from % self.subzone_blocks);
            let to = end.min(from - within + self.subzone_blocks);
            let below = self.below(zone, u16::try_from(index).expect("below the number of subzones"));
            let at = Lba(u64::from(below.0) * self.subzone_blocks + within);
            let bytes = |at: u64| usize::try_from((at - offset) * block).expect("below the buffer's length");
            let range = bytes(from)..bytes(to);
            from = to;
            Some((at, range))
        })
    }

    /// A result of the device below, with the zones and blocks of the drive in its error.
    fn of_drive<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|mut error| {
            match &mut error {
                DeviceError::Boundary { zone, at, end, .. }
                | DeviceError::InvalidWrite { zone, at, write_pointer: end } => {
                    (*zone, *at, *end) =
                        (self.zone_of_drive(*zone), self.block_of_drive(*at), self.block_of_drive(*end));
                }
                DeviceError::Media { at } => *at = self.block_of_drive(*at),
                DeviceError::Full { zone }
                | DeviceError::ReadOnly { zone }
                | DeviceError::Offline { zone }
                | DeviceError::InvalidTransition { zone, .. }
                | DeviceError::SequenceLost { zone } => *zone = self.zone_of_drive(*zone),
                // Those with a path name what is in that file; the others name no place, or limits that are not below.
                _ => {}
            }
            error
        })
    }

    fn zone_of_drive(&self, below: ZoneId) -> ZoneId {
        ZoneId(below.0 / (u32::from(self.subzones) + 1))
    }

    /// A block of the drive; of a marker, as of the end of the last subzone, the one behind it.
    fn block_of_drive(&self, below: Lba) -> Lba {
        let (part, within) = (below.0 / self.subzone_blocks, below.0 % self.subzone_blocks);
        let (zone, index) = (part / (u64::from(self.subzones) + 1), part % (u64::from(self.subzones) + 1));
        Lba(zone * self.zone_size_blocks + index * self.subzone_blocks + within)
    }
}
