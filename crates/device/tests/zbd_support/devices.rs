//! The NVMe namespaces of the virtual machine, and other programs' hands on them.
use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use zonda_device::{AlignedBuf, Geometry, ZbdDevice, ZbdOptions, ZoneId, ZonedDevice};

/// Namespaces of at least so many zones are for tests that choose no shape.
const LARGE_ZONES_MIN: u32 = 12;

/// Every zoned NVMe namespace.
fn all() -> Vec<PathBuf> {
    let mut names: Vec<String> = fs::read_dir("/sys/block")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("nvme"))
        .filter(|name| fs::read_to_string(format!("/sys/block/{name}/queue/zoned")).unwrap().trim() != "none")
        .collect();
    names.sort();
    names.into_iter().map(|name| PathBuf::from("/dev").join(name)).collect()
}

/// The namespaces without a special shape.
pub(crate) fn large_nvme() -> Vec<PathBuf> {
    let large = |path: &PathBuf| shape(path).zone_count >= LARGE_ZONES_MIN;
    let found: Vec<PathBuf> = all().into_iter().filter(large).collect();
    assert!(found.len() >= 2, "the virtual machine has two large namespaces");
    found
}

fn shape(path: &Path) -> Geometry {
    let options = ZbdOptions { read_only: true, ..Default::default() };
    ZbdDevice::open(path, &options).unwrap().geometry().clone()
}

/// The namespace that has exactly this shape, with all its zones empty.
pub(crate) fn blank_nvme(wanted: &Geometry, options: &ZbdOptions) -> ZbdDevice {
    let key = |shape: &Geometry| {
        (shape.zone_size_blocks, shape.zone_capacity_blocks, shape.zone_count, shape.max_open, shape.max_active)
    };
    let fits = |path: &PathBuf| {
        let shape = shape(path);
        let append = wanted.append_blocks_max.is_none_or(|blocks| shape.append_blocks_max == Some(blocks));
        key(&shape) == key(wanted) && append
    };
    let path = all().into_iter().find(fits).unwrap_or_else(|| panic!("no namespace has the shape {wanted:?}"));
    reset_all(&path);
    ZbdDevice::open(path, options).unwrap()
}

/// Empties a device.
pub(crate) fn reset_all(path: &Path) {
    let device = ZbdDevice::open(path, &ZbdOptions::default()).unwrap();
    for zone in 0..device.geometry().zone_count {
        device.reset(ZoneId(zone)).unwrap();
    }
}

/// Sectors from zone to zone.
pub(crate) fn zone_sectors(path: &Path) -> u64 {
    let name = path.file_name().unwrap().to_str().unwrap();
    fs::read_to_string(format!("/sys/block/{name}/queue/chunk_sectors")).unwrap().trim().parse().unwrap()
}

/// What `blkzone` does to one zone, beside whoever has the device.
pub(crate) fn blkzone(path: &Path, action: &str, sector: u64) {
    let sector = sector.to_string();
    let status =
        Command::new("blkzone").args([action, "--force", "--count", "1", "--offset", &sector]).arg(path).status();
    assert!(status.unwrap().success(), "blkzone {action} {sector} {}", path.display());
}

/// Writes zeros beside whoever has the device.
pub(crate) fn write_raw(path: &Path, sector: u64, bytes: usize) {
    let file: File = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    file.write_all_at(&AlignedBuf::with_len(bytes), sector * 512).unwrap();
}

/// Flushes that the drive has completed, by the kernel's count.
pub(crate) fn flushes(path: &Path) -> u64 {
    let name = path.file_name().unwrap().to_str().unwrap();
    let counts = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    counts.split_whitespace().nth(15).unwrap().parse().unwrap()
}
