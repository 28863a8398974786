//! What sysfs says of a block device: its model, limits and cache.
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The smallest page of memory.
const PAGE_BYTES: u64 = 4096;

/// How a device is zoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// Not at all.
    None,
    /// Zones that could be written anywhere, with a loss.
    HostAware,
    /// Zones that must be written in order.
    HostManaged,
}

/// A block device's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// The kernel's name for it, `nvme0n1`.
    pub(crate) name: String,
    pub(crate) model: Model,
    pub(crate) block_bytes: u64,
    pub(crate) zone_bytes: u64,
    /// Most open and active zones; `None` is no limit.
    pub(crate) max_open: Option<u64>,
    pub(crate) max_active: Option<u64>,
    pub(crate) append_bytes_max: Option<u64>,
    /// Longest request that the kernel does not split.
    pub(crate) transfer_bytes_max: u64,
    pub(crate) volatile_cache: bool,
    pub(crate) is_partition: bool,
    pub(crate) is_read_only: bool,
    /// Devices made of this one: dm, md.
    pub(crate) holders: Vec<String>,
}

impl Attributes {
    /// Reads the attributes of the device with this number under `sysfs` (`/sys`, or a copy in tests).
    pub(crate) fn read(sysfs: &Path, (major, minor): (u32, u32)) -> io::Result<Self> {
        let device = sysfs.join(format!("dev/block/{major}:{minor}"));
        let name = fs::canonicalize(&device)?.file_name().map(|name| name.to_string_lossy().into_owned());
        let queue = device.join("queue");
        // A partition has no queue of its own; its disk's stands above it.
        let is_partition = device.join("partition").exists();
        let queue = if queue.exists() { queue } else { device.join("../queue") };
        let limit = |attribute| number(&queue, attribute).filter(|&limit| limit > 0);
        let block_bytes = number(&queue, "logical_block_size").filter(|&bytes| bytes > 0).unwrap_or(512);
        Ok(Self {
            name: name.unwrap_or_default(),
            model: model(&queue),
            block_bytes,
            zone_bytes: number(&queue, "chunk_sectors").unwrap_or(0).saturating_mul(512),
            max_open: limit("max_open_zones"),
            max_active: limit("max_active_zones"),
            append_bytes_max: limit("zone_append_max_bytes"),
            transfer_bytes_max: transfer_bytes_max(&queue, block_bytes),
            volatile_cache: text(&queue, "write_cache").is_none_or(|cache| cache != "write through"),
            is_partition,
            is_read_only: number(&device, "ro") == Some(1),
            holders: names_in(&device.join("holders")),
        })
    }

    /// The NVMe character device of the same namespace: `/dev/ng0n1` of `nvme0n1`.
    pub(crate) fn nvme_character_device(&self) -> Option<PathBuf> {
        let numbers = self.name.strip_prefix("nvme")?;
        Some(PathBuf::from(format!("/dev/ng{numbers}")))
    }
}

/// What the kernel gives the drive in one piece, at the worst: every page of the buffer is a segment of its own. Whole
/// blocks.
fn transfer_bytes_max(queue: &Path, block_bytes: u64) -> u64 {
    let length = number(queue, "max_sectors_kb").unwrap_or(128).saturating_mul(1024);
    let segments = number(queue, "max_segments").filter(|&segments| segments > 0).unwrap_or(u64::MAX);
    let whole = length.min(segments.saturating_mul(PAGE_BYTES)) / block_bytes * block_bytes;
    whole.max(PAGE_BYTES).max(block_bytes)
}

fn model(queue: &Path) -> Model {
    match text(queue, "zoned").as_deref() {
        Some("host-managed") => Model::HostManaged,
        Some("host-aware") => Model::HostAware,
        _ => Model::None,
    }
}

fn text(directory: &Path, attribute: &str) -> Option<String> {
    fs::read_to_string(directory.join(attribute)).ok().map(|text| text.trim().to_owned())
}

fn number(directory: &Path, attribute: &str) -> Option<u64> {
    text(directory, attribute)?.parse().ok()
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Where a device is mounted, if it is, by the text of `/proc/self/mountinfo`.
pub(crate) fn mount_point(mounts: &str, (major, minor): (u32, u32)) -> Option<String> {
    let number = format!("{major}:{minor}");
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let line = lines.find(|fields| fields.get(2) == Some(&number.as_str()))?;
    line.get(4).map(|&place| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(attributes: &[(&str, &str)]) -> tempfile::TempDir {
        let sysfs = tempfile::tempdir().unwrap();
        for (attribute, value) in attributes {
            let path = sysfs.path().join("dev/block/259:0").join(attribute);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
        sysfs
    }

    #[test]
    fn attributes_of_a_zns_namespace() {
        let sysfs = device(&[
            ("queue/zoned", "host-managed"),
            ("queue/logical_block_size", "4096"),
            ("queue/chunk_sectors", "32768"),
            ("queue/max_open_zones", "8"),
            ("queue/max_active_zones", "0"),
            ("queue/zone_append_max_bytes", "524288"),
            ("queue/max_sectors_kb", "512"),
            ("queue/max_segments", "127"),
            ("queue/write_cache", "write back"),
            ("ro", "0"),
        ]);
        let found = Attributes::read(sysfs.path(), (259, 0)).unwrap();
        assert_eq!((found.model, found.zone_bytes, found.max_open), (Model::HostManaged, 16 << 20, Some(8)));
        assert_eq!((found.max_active, found.append_bytes_max), (None, Some(512 << 10)));
        assert_eq!(found.transfer_bytes_max, 127 * 4096);
        assert!(found.volatile_cache && !found.is_partition && !found.is_read_only && found.holders.is_empty());
    }

    #[test]
    fn a_cache_that_is_not_described_counts_as_volatile() {
        let sysfs = device(&[("queue/zoned", "none"), ("holders/dm-0", "")]);
        let found = Attributes::read(sysfs.path(), (259, 0)).unwrap();
        assert!(found.volatile_cache && found.model == Model::None);
        assert_eq!(found.holders, ["dm-0"]);
        assert!(Attributes::read(sysfs.path(), (8, 0)).is_err());
    }

    #[test]
    fn a_transfer_is_whole_blocks_and_at_least_one() {
        for (block, kib, wanted) in [(4096, 127, 124 << 10), (512, 127, 127 << 10), (16_384, 4, 16_384)] {
            let (block, kib) = (block.to_string(), kib.to_string());
            let sysfs = device(&[("queue/logical_block_size", &block), ("queue/max_sectors_kb", &kib)]);
            let found = Attributes::read(sysfs.path(), (259, 0)).unwrap();
            assert_eq!(found.transfer_bytes_max, wanted, "{kib} KiB in blocks of {block}");
        }
    }

    #[test]
    fn mounts_are_found_by_number() {
        let mounts = "36 35 98:0 / /mnt rw - ext4 /dev/root rw\n40 35 259:0 / /data\\040x rw - f2fs /dev/nvme0n1 rw\n";
        assert_eq!(mount_point(mounts, (259, 0)).as_deref(), Some("/data\\040x"));
        assert_eq!(mount_point(mounts, (259, 1)), None);
    }
}
