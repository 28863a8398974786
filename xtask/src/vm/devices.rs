//! The zoned devices of the guest, from a line of text to QEMU's arguments or null_blk's attributes.

use std::str::FromStr;

use anyhow::{Context, Error, Result, bail};

/// The shape of one zoned device. Sizes in bytes; limits of 0 are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) zone_size: u64,
    pub(crate) zone_capacity: u64,
    pub(crate) zones: u64,
    pub(crate) max_open: u32,
    pub(crate) max_active: u32,
    pub(crate) block: u32,
    /// Conventional zones in front; null_blk only.
    pub(crate) conventional: u32,
    /// Longest append; NVMe only, a property of its controller: `None` is the controller's longest transfer.
    pub(crate) append: Option<u64>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            zone_size: 16 << 20,
            zone_capacity: 12 << 20,
            zones: 64,
            max_open: 8,
            max_active: 12,
            block: 4096,
            conventional: 0,
            append: None,
        }
    }
}

impl FromStr for Shape {
    type Err = Error;

    /// `size=16M,capacity=12M,zones=64,open=8,active=12,block=4096,conventional=0,append=16K`, each of them optional.
    fn from_str(text: &str) -> Result<Self> {
        let mut shape = Self::default();
        let mut capacity = None;
        for pair in text.split(',').filter(|pair| !pair.is_empty() && *pair != "default") {
            let (key, value) = pair.split_once('=').with_context(|| format!("`{pair}` is not key=value"))?;
            let number = bytes(value).with_context(|| format!("`{pair}`: no number"))?;
            let small = || u32::try_from(number).with_context(|| format!("`{pair}` is too large"));
            match key {
                "size" => shape.zone_size = number,
                "capacity" => capacity = Some(number),
                "zones" => shape.zones = number,
                "open" => shape.max_open = small()?,
                "active" => shape.max_active = small()?,
                "block" => shape.block = small()?,
                "conventional" => shape.conventional = small()?,
                "append" => shape.append = Some(number),
                _ => bail!(
                    "unknown key `{key}`; known are size, capacity, zones, open, active, block, conventional, append"
                ),
            }
        }
        shape.zone_capacity =
            capacity.unwrap_or(if text.contains("size=") { shape.zone_size } else { shape.zone_capacity });
        Ok(shape)
    }
}

impl Shape {
    /// Bytes of the file behind the device.
    pub(super) fn device_bytes(&self) -> u64 {
        self.zone_size * self.zones
    }

    /// A namespace of an NVMe controller, on the drive of this name.
    pub(super) fn namespace(&self, drive: &str, controller: &str, number: usize) -> String {
        let Self { zone_size, zone_capacity, max_open, max_active, block, .. } = self;
        format!(
            "nvme-ns,drive={drive},bus={controller},nsid={number},logical_block_size={block},physical_block_size={block},\
             zoned=true,zoned.zone_size={zone_size},zoned.zone_capacity={zone_capacity},\
             zoned.max_open={max_open},zoned.max_active={max_active}"
        )
    }

    /// The controller's append limit as QEMU wants it: a power of two, in pages of 4 KiB; 0 is the longest transfer.
    pub(super) fn append_shift(&self) -> u32 {
        self.append.map_or(0, |bytes| (bytes / 4096).max(1).ilog2())
    }

    /// A null_blk device as the guest's first process makes it.
    pub(super) fn null_blk(&self, name: &str) -> String {
        const MIB: u64 = 1 << 20;
        let Self { block, max_open, max_active, conventional, .. } = self;
        let (size, zone, capacity) = (self.device_bytes() / MIB, self.zone_size / MIB, self.zone_capacity / MIB);
        format!(
            "null_blk {name} size={size} blocksize={block} memory_backed=1 zoned=1 zone_size={zone} \
             zone_capacity={capacity} zone_max_open={max_open} zone_max_active={max_active} zone_nr_conv={conventional}\n"
        )
    }
}

/// A number with `K`, `M` or `G` behind it.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let shift = match &text[digits..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_and_mistakes_named() {
        let shape: Shape = "size=64K,capacity=48K,zones=6,open=2,active=3,append=16K".parse().unwrap();
        assert_eq!((shape.zone_size, shape.zone_capacity, shape.zones), (65_536, 49_152, 6));
        assert_eq!((shape.max_open, shape.max_active, shape.append_shift()), (2, 3, 2));
        assert_eq!("default".parse::<Shape>().unwrap(), Shape::default());
        assert_eq!("size=4M".parse::<Shape>().unwrap().zone_capacity, 4 << 20);
        for (text, message) in [("zones", "key=value"), ("zones=many", "no number"), ("zone=1", "unknown key `zone`")] {
            assert!(text.parse::<Shape>().unwrap_err().to_string().contains(message), "{text}");
        }
    }

    #[test]
    fn both_kinds_of_device_get_the_whole_shape() {
        let shape: Shape = "size=4M,capacity=3M,zones=8,open=2,active=3".parse().unwrap();
        let namespace = shape.namespace("d0", "c0", 1);
        assert!(namespace.contains("zoned.zone_size=4194304") && namespace.contains("zoned.max_active=3"));
        assert!(shape.null_blk("nullb0").contains("size=32 ") && shape.null_blk("nullb0").contains("zone_capacity=3 "));
    }
}
