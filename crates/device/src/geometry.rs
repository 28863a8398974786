//! The shape and the limits of a zoned device, and the arithmetic on it.
use crate::{DeviceError, Lba, Result, ZoneId};

/// Smallest and largest block, in bytes; a block is a power of two.
pub const BLOCK_BYTES_RANGE: (u32, u32) = (512, 65_536);
/// Most zones of a device: keeps every table of zones below 64 MiB.
pub const ZONE_COUNT_MAX: u32 = 1 << 20;
/// Most blocks of a device: byte addresses stay far from the end of 64 bits.
pub const DEVICE_BLOCKS_MAX: u64 = 1 << 44;

/// The shape and the limits of a zoned device. Constant while a device is open.
///
/// Zone `z` holds the blocks from `z * zone_size_blocks`; of these only the first `zone_capacity_blocks` can be
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of one logical block: the unit of every address, length and torn write.
    pub block_bytes: u32,
    /// Blocks from the start of one zone to the start of the next.
    pub zone_size_blocks: u64,
    /// Blocks of a zone that can be written; at most `zone_size_blocks`.
    pub zone_capacity_blocks: u64,
    /// Number of zones.
    pub zone_count: u32,
    /// Most zones open at a time (I2); `None` is no limit.
    pub max_open: Option<u32>,
    /// Most zones open or closed at a time (I2); `None` is no limit.
    pub max_active: Option<u32>,
    /// Most blocks of one append; `None` is no limit.
    pub append_blocks_max: Option<u32>,
    /// True if several writes may be in flight in one zone (I1). Set by the backend: what a caller asks for is ignored.
    pub ordered_queue: bool,
    /// True if only [`flush`](crate::ZonedDevice::flush) makes writes durable. Set by the backend.
    pub volatile_cache: bool,
}

impl Geometry {
    /// A device of 4 KiB blocks with `zone_count` zones of `zone_bytes`, capacity equal to size, without limits.
    #[must_use]
    pub fn new(zone_bytes: u64, zone_count: u32) -> Self {
        Self {
            block_bytes: 4096,
            zone_size_blocks: zone_bytes / 4096,
            zone_capacity_blocks: zone_bytes / 4096,
            zone_count,
            max_open: None,
            max_active: None,
            append_blocks_max: None,
            ordered_queue: true,
            volatile_cache: true,
        }
    }

    /// The same device with limits on open and active zones (I2).
    #[must_use]
    pub fn with_limits(mut self, max_open: u32, max_active: u32) -> Self {
        self.max_open = Some(max_open);
        self.max_active = Some(max_active);
        self
    }

    /// The same device with fewer writable blocks in each zone.
    #[must_use]
    pub fn with_capacity_blocks(mut self, blocks: u64) -> Self {
        self.zone_capacity_blocks = blocks;
        self
    }

    /// First block of a zone.
    #[must_use]
    pub fn zone_start(&self, zone: ZoneId) -> Lba {
        Lba(u64::from(zone.0).saturating_mul(self.zone_size_blocks))
    }

    /// The zone that holds a block. The block must be on the device.
    #[must_use]
    pub fn zone_of(&self, at: Lba) -> ZoneId {
        ZoneId(u32::try_from(at.0 / self.zone_size_blocks).unwrap_or(u32::MAX))
    }

    /// Blocks from the start of its zone to `at`.
    #[must_use]
    pub fn offset_in_zone(&self, at: Lba) -> u64 {
        at.0 % self.zone_size_blocks
    }

    /// Blocks from the first to past the last address, gaps between capacity and size included.
    #[must_use]
    pub fn device_blocks(&self) -> u64 {
        u64::from(self.zone_count) * self.zone_size_blocks
    }

    /// Bytes that all zones together can hold.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.zone_count) * self.zone_capacity_bytes()
    }

    /// Bytes that one zone can hold.
    #[must_use]
    pub fn zone_capacity_bytes(&self) -> u64 {
        self.zone_capacity_blocks * u64::from(self.block_bytes)
    }

    /// Checks that the zone exists.
    ///
    /// # Errors
    /// `NoSuchZone`.
    pub fn check_zone(&self, zone: ZoneId) -> Result<()> {
        if zone.0 < self.zone_count { Ok(()) } else { Err(DeviceError::NoSuchZone { zone, zones: self.zone_count }) }
    }

    /// Checks a buffer and returns its length in blocks.
    ///
    /// # Errors
    /// `Unaligned` unless it is a positive number of whole blocks at an address that is a multiple of a block (or of
    /// 4096).
    pub fn check_buffer(&self, buffer: &[u8]) -> Result<u64> {
        crate::buffer::check(buffer, self.block_bytes)
    }

    /// Checks that `blocks` blocks from `at` lie in one zone, and returns the zone and the offset in it.
    ///
    /// # Errors
    /// `OutOfRange` past the device, `Boundary` past the zone.
    pub fn check_span(&self, at: Lba, blocks: u64) -> Result<(ZoneId, u64)> {
        let device_blocks = self.device_blocks();
        if at.0 >= device_blocks || blocks > device_blocks {
            return Err(DeviceError::OutOfRange { at, blocks, device_blocks });
        }
        let (zone, offset) = (self.zone_of(at), self.offset_in_zone(at));
        if offset + blocks > self.zone_size_blocks {
            return Err(DeviceError::Boundary {
                zone,
                at,
                blocks,
                end: self.zone_start(zone).plus(self.zone_size_blocks),
            });
        }
        Ok((zone, offset))
    }

    /// Checks every number.
    ///
    /// # Errors
    /// `Geometry` names the field, its value and the range.
    pub fn validate(&self) -> Result<()> {
        check_block_bytes(self.block_bytes)?;
        within("zone_count", self.zone_count.into(), 1, ZONE_COUNT_MAX.into())?;
        within("zone_size_blocks", self.zone_size_blocks, 1, DEVICE_BLOCKS_MAX / u64::from(self.zone_count))?;
        within("zone_capacity_blocks", self.zone_capacity_blocks, 1, self.zone_size_blocks)?;
        within("max_active", self.max_active.unwrap_or(1).into(), 1, u32::MAX.into())?;
        within("max_open", self.max_open.unwrap_or(1).into(), 1, self.max_active.unwrap_or(u32::MAX).into())?;
        within("append_blocks_max", self.append_blocks_max.unwrap_or(1).into(), 1, self.zone_size_blocks.max(1 << 16))
    }
}

/// Checks a block size.
pub(crate) fn check_block_bytes(bytes: u32) -> Result<()> {
    let (min, max) = BLOCK_BYTES_RANGE;
    within("block_bytes", bytes.into(), min.into(), max.into())?;
    if bytes.is_power_of_two() {
        return Ok(());
    }
    Err(DeviceError::Unaligned { what: "block_bytes", value: bytes.into(), multiple: bytes.next_power_of_two().into() })
}

/// Checks that one number of a geometry is in its range.
pub(crate) fn within(field: &'static str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(DeviceError::Geometry { field, value, min, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_zones_agree() {
        let g = Geometry::new(64 << 10, 4).with_capacity_blocks(10);
        assert_eq!(g.zone_start(ZoneId(2)), Lba(32));
        assert_eq!(g.zone_of(Lba(33)), ZoneId(2));
        assert_eq!(g.offset_in_zone(Lba(33)), 1);
        assert_eq!(g.capacity_bytes(), 4 * 10 * 4096);
    }

    #[test]
    fn limits_of_every_field_hold_at_one_beyond() {
        let good = Geometry::new(64 << 10, 4).with_limits(3, 5);
        assert!(good.validate().is_ok());
        let bad: [fn(&mut Geometry); 9] = [
            |g| g.block_bytes = 256,
            |g| g.block_bytes = 131_072,
            |g| g.block_bytes = 3 * 512,
            |g| g.zone_count = 0,
            |g| g.zone_count = ZONE_COUNT_MAX + 1,
            |g| g.zone_size_blocks = u64::MAX,
            |g| g.zone_capacity_blocks = g.zone_size_blocks + 1,
            |g| g.max_open = Some(6),
            |g| g.max_active = Some(0),
        ];
        for (i, spoil) in bad.iter().enumerate() {
            let mut g = good.clone();
            spoil(&mut g);
            assert!(g.validate().is_err(), "case {i} must be refused");
        }
    }
}
