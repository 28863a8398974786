//! A block device's nodes: opened, claimed, examined; and the plain I/O on them.
//!
//! Always: a device that is open for writing is open exclusively, which the kernel refuses for one that is mounted or
//! part of something; readers beside a writer claim nothing; after a failed flush every later flush fails, because the
//! system may have dropped the data.
use std::{
    fmt,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use zonda_rt::sleep;

use super::{
    attributes::{Attributes, Model, mount_point},
    descriptor::Descriptor,
    failure::Failure,
    passthrough::Passthrough,
    sys::{self, Manage, SECTOR_BYTES},
};
use crate::{DeviceError, Geometry, Lba, Result, ZoneId, owner::Owner, syncs::Syncs};

/// How often and how long apart a claim is tried for: udev looks into every new device for a moment.
const CLAIM_ATTEMPTS_MAX: u32 = 50;
const CLAIM_PAUSE: Duration = Duration::from_millis(5);

/// How an opener claims a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// For writing, alone.
    Alone,
    /// For reading, beside other readers.
    Shared,
    /// For reading, whoever writes it.
    Nothing,
}

/// The device as the system gives it to us.
pub(crate) struct Node {
    path: PathBuf,
    block: File,
    pub(crate) attributes: Attributes,
    pub(crate) passthrough: Option<Passthrough>,
    read_only: bool,
    syncs: Syncs,
    /// The process that opened the device: a child after a fork must not write.
    owner: Owner,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self.path, self.attributes.name)
    }
}

impl Node {
    /// Opens and claims a device.
    pub(crate) fn open(path: &Path, how: Claim) -> Result<Self> {
        let read_only = how != Claim::Alone;
        let number = device_number(path)?;
        let attributes = Attributes::read(Path::new("/sys"), number).map_err(|e| io_error(path, "examine", e))?;
        check_kind(path, &attributes)?;
        if attributes.is_read_only && !read_only {
            return Err(DeviceError::WriteProtected { path: path.to_owned() });
        }
        let block = claim(path, number, &attributes, how)?;
        let passthrough = if read_only { None } else { Passthrough::open(&attributes) };
        let (syncs, owner) = (Syncs::default(), Owner::new());
        Ok(Self { path: path.to_owned(), block, attributes, passthrough, read_only, syncs, owner })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The block device, for direct I/O.
    pub(crate) fn block(&self) -> &File {
        &self.block
    }

    /// Bytes that one request may have.
    pub(crate) fn transfer_bytes_max(&self) -> usize {
        usize::try_from(self.attributes.transfer_bytes_max).unwrap_or(usize::MAX).max(4096)
    }

    /// One phrase for reports.
    pub(crate) fn describe(&self) -> String {
        let model = if self.attributes.model == Model::HostAware { "host-aware" } else { "host-managed" };
        let append = if self.passthrough.is_some() { ", NVMe append" } else { "" };
        format!("zoned block device ({model}, O_DIRECT{append})")
    }

    /// Reports zones as the kernel describes them.
    pub(crate) fn report(&self, geometry: &Geometry, first: ZoneId, count: u32) -> Result<Vec<Descriptor>> {
        let zones = sys::report(&self.block, self.sector(geometry, geometry.zone_start(first)), count);
        zones.map_err(|e| self.error("report the zones of", e))
    }

    /// Changes the state of a zone.
    pub(crate) fn manage(&self, geometry: &Geometry, manage: Manage, zone: ZoneId) -> io::Result<()> {
        let sectors = geometry.zone_size_blocks * u64::from(geometry.block_bytes) / SECTOR_BYTES;
        sys::manage(&self.block, manage, self.sector(geometry, geometry.zone_start(zone)), sectors)
    }

    fn sector(&self, geometry: &Geometry, at: Lba) -> u64 {
        at.0 * u64::from(geometry.block_bytes) / SECTOR_BYTES
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.block.read_exact_at(into, offset)
    }

    /// Writes in requests that the kernel does not split, one after the other: split requests of one zone could
    /// overtake each other.
    pub(crate) fn write(&self, mut offset: u64, from: &[u8]) -> std::result::Result<(), Failure> {
        for part in from.chunks(self.transfer_bytes_max()) {
            self.block.write_all_at(part, offset)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Makes all that was written durable.
    pub(crate) fn flush(&self) -> Result<()> {
        self.syncs.run(&self.path, || self.block.sync_data())
    }

    /// Fails if an earlier flush failed.
    pub(crate) fn check_flush(&self) -> Result<()> {
        self.syncs.check(&self.path)
    }

    /// Remembers that a flush failed.
    pub(crate) fn flush_error(&self, error: io::Error) -> DeviceError {
        self.syncs.fail(&self.path, error)
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(DeviceError::WriteProtected { path: self.path.clone() });
        }
        self.owner.check()
    }

    pub(crate) fn error(&self, action: &'static str, source: io::Error) -> DeviceError {
        io_error(&self.path, action, source)
    }
}

/// Looks before opening, so that the message can say what is there instead.
fn device_number(path: &Path) -> Result<(u32, u32)> {
    let found = path.metadata().map_err(|e| io_error(path, "open", e))?;
    if found.file_type().is_char_device() {
        return Err(not_zoned(path, "it is a character device; name the block device beside it"));
    }
    if !found.file_type().is_block_device() {
        return Err(not_zoned(path, "it is no block device; for an ordinary file write file:PATH"));
    }
    Ok((libc::major(found.rdev()), libc::minor(found.rdev())))
}

fn check_kind(path: &Path, attributes: &Attributes) -> Result<()> {
    if attributes.is_partition {
        return Err(not_zoned(path, "it is a partition; use the whole device"));
    }
    if attributes.model == Model::None {
        return Err(not_zoned(path, "it has no zones"));
    }
    Ok(())
}

/// Opens the device; for writing alone, as far as the system knows.
fn claim(path: &Path, number: (u32, u32), attributes: &Attributes, how: Claim) -> Result<File> {
    let exclusive = if how == Claim::Alone { libc::O_EXCL } else { 0 };
    let mut options = OpenOptions::new();
    options.read(true).write(how == Claim::Alone).custom_flags(libc::O_DIRECT | exclusive);
    for attempt in 1.. {
        let opened = options.open(path).and_then(|file| Ok(lock(&file, how)?.then_some(file)));
        match opened {
            Ok(Some(file)) => return Ok(file),
            Ok(None) if attempt < CLAIM_ATTEMPTS_MAX => sleep(CLAIM_PAUSE),
            Ok(None) => break,
            Err(e) if e.raw_os_error() != Some(libc::EBUSY) => return Err(io_error(path, "open", e)),
            Err(_) if attempt < CLAIM_ATTEMPTS_MAX && mounted(number).is_none() => sleep(CLAIM_PAUSE),
            Err(_) => break,
        }
    }
    Err(DeviceError::InUse { path: path.to_owned(), by: user(number, attributes) })
}

/// False if somebody else has the lock that the claim needs.
fn lock(file: &File, how: Claim) -> io::Result<bool> {
    match how {
        Claim::Alone => sys::try_lock(file, false),
        Claim::Shared => sys::try_lock(file, true),
        Claim::Nothing => Ok(true),
    }
}

/// Who has the device, as far as can be known.
fn user(number: (u32, u32), attributes: &Attributes) -> String {
    match (mounted(number), attributes.holders.as_slice()) {
        (Some(place), _) => format!("it is mounted on {place}"),
        (None, []) => "another process has it open".to_owned(),
        (None, holders) => format!("{} is made of it", holders.join(", ")),
    }
}

fn mounted(number: (u32, u32)) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mount_point(&mounts, number)
}

fn not_zoned(path: &Path, reason: &'static str) -> DeviceError {
    DeviceError::NotZoned { path: path.to_owned(), reason }
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> DeviceError {
    DeviceError::Io { path: path.to_owned(), action, source: Arc::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &str) -> String {
        Node::open(Path::new(path), Claim::Shared).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_block_device_is_named() {
        assert!(refusal("/dev/null").contains("character device"));
        assert!(refusal("/").contains("no block device"));
        assert!(refusal("/dev/not-there").contains("cannot open"));
    }
}
