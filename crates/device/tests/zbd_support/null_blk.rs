//! Devices that the kernel's null_blk makes in memory, of any shape in whole MiB.
use std::{fs, path::PathBuf};

use zonda_device::{Geometry, ZbdDevice, ZbdOptions};

const MIB: u64 = 1 << 20;

fn directory(name: &str) -> PathBuf {
    PathBuf::from("/sys/kernel/config/nullb").join(name)
}

fn set(name: &str, attribute: &str, value: impl ToString) {
    let path = directory(name).join(attribute);
    fs::write(&path, value.to_string()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Makes a zoned device whose first zones may be conventional.
pub(crate) fn make(name: &str, shape: &Geometry, conventional: u32) -> PathBuf {
    remove(name);
    fs::create_dir(directory(name)).unwrap();
    let mib = |blocks: u64| {
        let bytes = blocks * u64::from(shape.block_bytes);
        assert!(bytes.is_multiple_of(MIB), "null_blk counts in MiB");
        bytes / MIB
    };
    set(name, "size", mib(shape.device_blocks()));
    set(name, "blocksize", shape.block_bytes);
    set(name, "memory_backed", 1);
    set(name, "zoned", 1);
    set(name, "zone_size", mib(shape.zone_size_blocks));
    set(name, "zone_capacity", mib(shape.zone_capacity_blocks));
    set(name, "zone_max_open", shape.max_open.unwrap_or(0));
    set(name, "zone_max_active", shape.max_active.unwrap_or(0));
    set(name, "zone_nr_conv", conventional);
    if let Some(blocks) = shape.append_blocks_max {
        set(name, "max_sectors", blocks * shape.block_bytes / 512);
    }
    power_on(name)
}

/// Makes a device without zones.
pub(crate) fn make_plain(name: &str) -> PathBuf {
    remove(name);
    fs::create_dir(directory(name)).unwrap();
    set(name, "size", 4);
    set(name, "memory_backed", 1);
    power_on(name)
}

fn power_on(name: &str) -> PathBuf {
    set(name, "power", 1);
    let index = fs::read_to_string(directory(name).join("index")).unwrap();
    let path = PathBuf::from(format!("/dev/nullb{}", index.trim()));
    let named = PathBuf::from("/dev").join(name);
    if named.exists() { named } else { path }
}

/// Removes a device, if it is there.
pub(crate) fn remove(name: &str) {
    if directory(name).exists() {
        set(name, "power", 0);
        fs::remove_dir(directory(name)).unwrap();
    }
}

/// A new device of this shape, opened.
pub(crate) fn fresh(name: &str, shape: &Geometry, conventional: u32, options: &ZbdOptions) -> ZbdDevice {
    ZbdDevice::open(make(name, shape, conventional), options).unwrap()
}
