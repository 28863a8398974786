//! The kernel's interface for zones and for NVMe commands. Safe code is not enough: these are ioctls, which read and
//! write memory that they are given addresses of.
use std::{fs::File, io, os::fd::AsRawFd};

use super::descriptor::{DESCRIPTOR_BYTES, Descriptor};

/// Bytes of the kernel's unit for places and lengths on block devices.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Zones of one report: 256 KiB.
const REPORT_ZONES_MAX: u32 = 4096;
/// Header of a report: first sector, number of zones, flags.
const REPORT_HEADER_BYTES: usize = 16;
/// Flag of a report whose zones have capacities.
const REPORT_HAS_CAPACITY: u32 = 1;

/// `_IOC(direction, type, number, size)` as the kernel's headers compute it.
const fn ioctl_number(direction: u64, kind: u8, number: u64, bytes: usize) -> libc::Ioctl {
    ((direction << 30) | ((bytes as u64) << 16) | ((kind as u64) << 8) | number) as libc::Ioctl
}

const WRITES: u64 = 1;
const READS_AND_WRITES: u64 = 3;
const BLOCK: u8 = 0x12;
const NVME: u8 = b'N';
const REPORT_ZONES: libc::Ioctl = ioctl_number(READS_AND_WRITES, BLOCK, 130, REPORT_HEADER_BYTES);
const NVME_ID: libc::Ioctl = ioctl_number(0, NVME, 0x40, 0);
const NVME_IO64: libc::Ioctl = ioctl_number(READS_AND_WRITES, NVME, 0x48, size_of::<NvmeIoctl>());
/// The operation of `IORING_OP_URING_CMD` for an NVMe command.
#[expect(clippy::cast_possible_truncation, reason = "ioctl numbers have 32 bits")]
pub(crate) const NVME_URING_IO: u32 = ioctl_number(READS_AND_WRITES, NVME, 0x80, size_of::<NvmeCommand>()) as u32;

/// What can be done to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manage {
    Reset,
    Open,
    Close,
    Finish,
}

impl Manage {
    fn number(self) -> libc::Ioctl {
        let number = match self {
            Self::Reset => 131,
            Self::Open => 134,
            Self::Close => 135,
            Self::Finish => 136,
        };
        ioctl_number(WRITES, BLOCK, number, size_of::<[u64; 2]>())
    }

    /// The word for messages.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Open => "open",
            Self::Close => "close",
            Self::Finish => "finish",
        }
    }
}

/// An NVMe command as `IORING_OP_URING_CMD` takes it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct NvmeCommand {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) reserved: u16,
    pub(crate) namespace: u32,
    pub(crate) dwords_2_3: [u32; 2],
    pub(crate) metadata: u64,
    pub(crate) data: u64,
    pub(crate) metadata_bytes: u32,
    pub(crate) data_bytes: u32,
    pub(crate) dwords_10_15: [u32; 6],
    pub(crate) timeout_ms: u32,
    pub(crate) reserved_2: u32,
}

/// An NVMe command as the ioctl takes it: with room for its result.
#[derive(Debug, Default)]
#[repr(C)]
struct NvmeIoctl {
    command: NvmeCommand,
    result: u64,
}

const _: () = assert!(size_of::<NvmeCommand>() == 72 && size_of::<NvmeIoctl>() == 80);

impl NvmeCommand {
    /// The command as the bytes of a submission entry.
    pub(crate) fn to_bytes(self) -> [u8; 80] {
        let mut bytes = [0; 80];
        // SAFETY: the command is 72 bytes of plain numbers without padding, and the array is longer.
        unsafe { bytes.as_mut_ptr().cast::<Self>().write_unaligned(self) };
        bytes
    }
}

/// Reports up to `count` zones from the one that holds `sector`; fewer at the device's end.
pub(crate) fn report(file: &File, mut sector: u64, mut count: u32) -> io::Result<Vec<Descriptor>> {
    let mut zones = Vec::new();
    while count > 0 {
        let found = report_some(file, sector, count.min(REPORT_ZONES_MAX))?;
        let Some(last) = found.last() else { break };
        sector = last.start_sector.saturating_add(last.len_sectors.max(1));
        count -= u32::try_from(found.len()).unwrap_or(count).min(count);
        zones.extend(found);
    }
    Ok(zones)
}

fn report_some(file: &File, sector: u64, count: u32) -> io::Result<Vec<Descriptor>> {
    // In words: the kernel wants the structure aligned.
    let bytes = REPORT_HEADER_BYTES + count as usize * DESCRIPTOR_BYTES;
    let mut words = vec![0_u64; bytes / size_of::<u64>()];
    words[0] = sector;
    words[1] = u64::from(count);
    // SAFETY: the kernel writes a header of 16 bytes and at most `count` descriptors of 64 bytes, which is the length of
    // the vector.
    check(unsafe { libc::ioctl(file.as_raw_fd(), REPORT_ZONES, words.as_mut_ptr()) })?;
    let [found, flags] = [words[1] & 0xFFFF_FFFF, words[1] >> 32];
    let found = usize::try_from(found).unwrap_or(usize::MAX).min(count as usize);
    let has_capacity = flags & u64::from(REPORT_HAS_CAPACITY) != 0;
    let raw: Vec<u8> = words[2..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(raw.chunks_exact(DESCRIPTOR_BYTES).take(found).map(|zone| Descriptor::decode(zone, has_capacity)).collect())
}

/// Changes the state of one zone.
pub(crate) fn manage(file: &File, manage: Manage, start_sector: u64, sectors: u64) -> io::Result<()> {
    let range = [start_sector, sectors];
    // SAFETY: the kernel reads two numbers.
    check(unsafe { libc::ioctl(file.as_raw_fd(), manage.number(), range.as_ptr()) }).map(|_| ())
}

/// The namespace behind an NVMe character device.
pub(crate) fn nvme_namespace(file: &File) -> io::Result<u32> {
    // SAFETY: takes no argument.
    let number = check(unsafe { libc::ioctl(file.as_raw_fd(), NVME_ID) })?;
    u32::try_from(number).map_err(|_| io::Error::from_raw_os_error(libc::ENOTTY))
}

/// What an NVMe command came to: its result, or the status with which the drive refused it.
pub(crate) type NvmeOutcome = std::result::Result<u64, u16>;

/// Performs an NVMe command that reads its data from `data`.
pub(crate) fn nvme_write(file: &File, mut command: NvmeCommand, data: &[u8]) -> io::Result<NvmeOutcome> {
    command.data = data.as_ptr().addr() as u64;
    command.data_bytes = u32::try_from(data.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let mut request = NvmeIoctl { command, result: 0 };
    // SAFETY: the kernel reads the structure and `data`, which is as long as the command says, and writes the
    // structure's result.
    let status = check(unsafe { libc::ioctl(file.as_raw_fd(), NVME_IO64, &raw mut request) })?;
    Ok(status_of(status).map_or(Ok(request.result), Err))
}

/// The status of an NVMe command, without the bits that say whether to try again. `None` is success.
pub(crate) fn status_of(status: i32) -> Option<u16> {
    u16::try_from(status & 0x7FF).ok().filter(|&status| status != 0)
}

/// Takes or gives back the advisory lock that other programs respect (udev, for one). False if somebody else has it.
pub(crate) fn try_lock(file: &File, shared: bool) -> io::Result<bool> {
    let locked = if shared { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_headers() {
        assert_eq!(REPORT_ZONES, 0xC010_1282);
        assert_eq!(Manage::Reset.number(), 0x4010_1283);
        assert_eq!(Manage::Finish.number(), 0x4010_1288);
        assert_eq!(NVME_IO64, 0xC050_4E48);
        assert_eq!(NVME_URING_IO, 0xC048_4E80);
    }

    #[test]
    fn a_command_becomes_the_bytes_of_an_entry() {
        let command = NvmeCommand { opcode: 0x7D, namespace: 3, data_bytes: 4096, ..Default::default() };
        let bytes = command.to_bytes();
        assert_eq!((bytes[0], bytes[4], &bytes[36..40]), (0x7D, 3, &4096_u32.to_ne_bytes()[..]));
        assert!(bytes[72..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_status_has_no_retry_bits() {
        assert_eq!(status_of(0), None);
        assert_eq!(status_of(0x41BD), Some(0x1BD));
    }
}
