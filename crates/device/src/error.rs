//! What can go wrong on a device. Every variant carries the numbers that a user or an engine needs.
use std::{io, path::PathBuf, sync::Arc};

use crate::{Lba, ZoneId, ZoneState};

/// Result of a device call.
pub type Result<T> = std::result::Result<T, DeviceError>;

/// Why a device refused or failed a call. Meaning and errno are those that a Linux user of a ZNS drive would see.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The blocks cross the end of what one zone can hold.
    #[error("{zone}: {blocks} blocks at {at} cross its end at {end}")]
    Boundary {
        /// The zone of the first block.
        zone: ZoneId,
        /// First block asked for.
        at: Lba,
        /// Blocks asked for.
        blocks: u64,
        /// First block that is not allowed.
        end: Lba,
    },
    /// The zone is full.
    #[error("{zone} is full")]
    Full {
        /// The zone.
        zone: ZoneId,
    },
    /// The zone can only be read any more.
    #[error("{zone} is read-only")]
    ReadOnly {
        /// The zone.
        zone: ZoneId,
    },
    /// The zone is lost with its data.
    #[error("{zone} is offline: its data is lost")]
    Offline {
        /// The zone.
        zone: ZoneId,
    },
    /// A write that is not at the write pointer (I1).
    #[error("{zone}: write at {at} is not at the write pointer, {write_pointer}")]
    InvalidWrite {
        /// The zone.
        zone: ZoneId,
        /// Where the write was to go.
        at: Lba,
        /// Where it would have been allowed.
        write_pointer: Lba,
    },
    /// The zone would need an active resource and none is left (I2).
    #[error("{zone}: {active} zones are active, the most is {max}")]
    TooManyActive {
        /// The zone.
        zone: ZoneId,
        /// Active zones now.
        active: u32,
        /// The limit.
        max: u32,
    },
    /// The zone would need an open resource and all are held by explicitly open zones (I2).
    #[error("{zone}: {open} zones are open, the most is {max}")]
    TooManyOpen {
        /// The zone.
        zone: ZoneId,
        /// Open zones now.
        open: u32,
        /// The limit.
        max: u32,
    },
    /// The zone would need a random write area and all are in use.
    #[error("{zone}: all {max} random write areas are in use")]
    NoWindow {
        /// The zone.
        zone: ZoneId,
        /// The limit.
        max: u32,
    },
    /// The zone's state does not allow the action.
    #[error("{zone}: cannot {action} a zone that is {from}")]
    InvalidTransition {
        /// The zone.
        zone: ZoneId,
        /// Its state.
        from: ZoneState,
        /// `open`, `close`, `finish` or `reset`.
        action: &'static str,
    },
    /// An append longer than the device's limit.
    #[error("append of {blocks} blocks, the most is {max}")]
    AppendTooLong {
        /// Blocks asked for.
        blocks: u64,
        /// The limit.
        max: u32,
    },
    /// A length or an address that is not a multiple of what it must be.
    #[error("{what} is {value}, not a positive multiple of {multiple}")]
    Unaligned {
        /// What is unaligned.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// Blocks past the end of the device.
    #[error("{blocks} blocks at {at} are past the device's {device_blocks} blocks")]
    OutOfRange {
        /// First block asked for.
        at: Lba,
        /// Blocks asked for.
        blocks: u64,
        /// Blocks of the device.
        device_blocks: u64,
    },
    /// A zone number past the last.
    #[error("{zone} does not exist: the device has {zones} zones")]
    NoSuchZone {
        /// The zone asked for.
        zone: ZoneId,
        /// Zones of the device.
        zones: u32,
    },
    /// The medium failed: the data is not readable or was not written.
    #[error("medium error at {at}")]
    Media {
        /// The first block concerned.
        at: Lba,
    },
    /// An earlier write of the zone failed: report, adopt the write pointer, place the tail elsewhere.
    #[error("{zone}: an earlier write failed; report the zone before writing on")]
    SequenceLost {
        /// The zone.
        zone: ZoneId,
    },
    /// The queue is full or the zone still has writes in flight.
    #[error("busy: {in_flight} requests in flight, the most is {max}")]
    Busy {
        /// Requests in flight.
        in_flight: u64,
        /// Allowed for this call.
        max: u64,
    },
    /// The power is cut: reopen and recover.
    #[error("the power is cut")]
    PowerLost,
    /// The device is closed.
    #[error("the device is closed")]
    Closed,
    /// The process that opened the device has forked: only the parent may go on.
    #[error("process {now} must leave the device alone: process {opened_by} opened it before a fork")]
    Forked {
        /// Process that opened it.
        opened_by: u32,
        /// This process.
        now: u32,
    },
    /// An earlier flush failed: data acknowledged before it may be lost, so no later flush can succeed.
    #[error("{path}: an earlier flush failed, nothing can be made durable any more")]
    FlushLost {
        /// The file.
        path: PathBuf,
    },
    /// The device does not know the operation.
    #[error("not supported: {what}")]
    NotSupported {
        /// What was asked for.
        what: &'static str,
    },
    /// The file system below the file backend is full. The zone's write pointer has not moved.
    #[error("{path}: no space on the file system for {bytes} bytes at byte {offset}")]
    NoSpaceOnHost {
        /// The file.
        path: PathBuf,
        /// Where the bytes were to go.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A device in memory is larger than what the system gives.
    #[error("the system has no {bytes} bytes of memory for the device")]
    NoMemory {
        /// Bytes of the device.
        bytes: u64,
    },
    /// A host FTL has no zone left to write to: too many failed.
    #[error("no zone is left to write to: {lost} failed")]
    NoFreeZones {
        /// Zones that failed since the volume was opened.
        lost: u32,
    },
    /// The device was opened for reading only.
    #[error("{path} is open for reading only")]
    WriteProtected {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The system or the drive refused to do something to a zone.
    #[error("{0}")]
    Zone(Arc<ZoneFault>),
    /// Somebody else uses the block device.
    #[error("{path} is in use: {by}")]
    InUse {
        /// The device.
        path: PathBuf,
        /// By whom.
        by: String,
    },
    /// Not a zoned block device that we can use.
    #[error("{path} is not a usable zoned block device: {reason}")]
    NotZoned {
        /// The device.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// Something is written on a device that was to be empty.
    #[error("{path} is not empty: something is written in {written_zones} of {zones} zones")]
    NotEmpty {
        /// The device.
        path: PathBuf,
        /// Zones that hold something.
        written_zones: u32,
        /// Zones.
        zones: u32,
    },
    /// Somebody else has the file open.
    #[error("{path} is in use: another process or handle has it open")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// Not a device file of ours.
    #[error("{path} is not a Zonda device file: {reason}")]
    NotADevice {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// The file ends too early.
    #[error("{path} is truncated: {bytes} bytes, at least {needed_bytes} needed")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What there is.
        bytes: u64,
        /// What there must be.
        needed_bytes: u64,
    },
    /// Bytes of the file's own tables are not what was written.
    #[error("{what} is damaged at byte {offset}: {reason}")]
    Damaged {
        /// Header or table entry.
        what: &'static str,
        /// Where in the file.
        offset: u64,
        /// What does not hold.
        reason: &'static str,
    },
    /// The file was written by a later version.
    #[error("format version {found} is newer than {known}, the newest known")]
    NewerVersion {
        /// The file's version.
        found: u32,
        /// The newest this program knows.
        known: u32,
    },
    /// The file uses a feature that this program does not know.
    #[error("the device uses the unknown feature number {bit}")]
    UnknownFeature {
        /// Bit number in the header's feature word.
        bit: u32,
    },
    /// A zero or absurd number in a geometry.
    #[error("{field} is {value}, must be between {min} and {max}")]
    Geometry {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Least allowed.
        min: u64,
        /// Most allowed.
        max: u64,
    },
    /// An existing device differs from what was asked for.
    #[error("the device has {field} {found}, asked for was {asked}")]
    Mismatch {
        /// The field.
        field: &'static str,
        /// What the device has.
        found: u64,
        /// What was asked for.
        asked: u64,
    },
    /// A device name that cannot be understood.
    #[error("device name: {reason}")]
    BadName {
        /// What is wrong, naming what is known.
        reason: String,
    },
}

/// What the system or the drive refused to do to a zone, and how the zone is since.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{path}: cannot {action} {zone}: {source}; {now}")]
pub struct ZoneFault {
    /// The device.
    pub path: PathBuf,
    /// The zone.
    pub zone: ZoneId,
    /// `read`, `write`, `append`, `open`, `close`, `finish`, `reset`.
    pub action: &'static str,
    /// What the system said.
    pub source: Arc<io::Error>,
    /// The zone's state and write pointer, as reported by the device after the failure.
    pub now: String,
}

/// What an engine decides by: the variants of [`DeviceError`] without their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Blocks cross a zone's end.
    Boundary,
    /// Zone full.
    Full,
    /// Zone read-only.
    ReadOnly,
    /// Zone offline.
    Offline,
    /// Write away from the write pointer.
    InvalidWrite,
    /// No active resource.
    TooManyActive,
    /// No open resource.
    TooManyOpen,
    /// State does not allow the action.
    InvalidTransition,
    /// Bad argument: unaligned, too long, out of range, absurd, not understood.
    Invalid,
    /// Medium error.
    Media,
    /// Earlier write failed, or an earlier flush.
    SequenceLost,
    /// Queue full or writes in flight.
    Busy,
    /// Power cut.
    PowerLost,
    /// Closed, or used after a fork.
    Closed,
    /// Operation unknown.
    NotSupported,
    /// File system full.
    NoSpaceOnHost,
    /// Open for reading only.
    WriteProtected,
    /// Operating system error.
    Io,
    /// Locked by another opener.
    Locked,
    /// Not a device file, damaged, truncated, newer or with unknown features.
    Damaged,
}

/// What was tried of data that are not read.
pub(crate) const READ: &str = "read";

/// Whether the system says that data are lost, other than that a device does not answer, which may pass (EIO).
fn is_lost(said: &io::Error) -> bool {
    matches!(said.raw_os_error(), Some(libc::ENODATA | libc::EILSEQ | libc::EBADMSG | libc::EUCLEAN))
}

impl DeviceError {
    /// The kind, to decide by.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Boundary { .. } => ErrorKind::Boundary,
            Self::Full { .. } => ErrorKind::Full,
            Self::ReadOnly { .. } => ErrorKind::ReadOnly,
            Self::Offline { .. } => ErrorKind::Offline,
            Self::InvalidWrite { .. } => ErrorKind::InvalidWrite,
            Self::TooManyActive { .. } => ErrorKind::TooManyActive,
            Self::TooManyOpen { .. } | Self::NoWindow { .. } => ErrorKind::TooManyOpen,
            Self::InvalidTransition { .. } => ErrorKind::InvalidTransition,
            Self::AppendTooLong { .. }
            | Self::Unaligned { .. }
            | Self::OutOfRange { .. }
            | Self::NoSuchZone { .. }
            | Self::Geometry { .. }
            | Self::NoMemory { .. }
            | Self::Mismatch { .. }
            | Self::BadName { .. } => ErrorKind::Invalid,
            Self::Media { .. } => ErrorKind::Media,
            Self::SequenceLost { .. } | Self::FlushLost { .. } => ErrorKind::SequenceLost,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::PowerLost => ErrorKind::PowerLost,
            Self::Closed | Self::Forked { .. } => ErrorKind::Closed,
            Self::NotSupported { .. } => ErrorKind::NotSupported,
            Self::NoSpaceOnHost { .. } | Self::NoFreeZones { .. } => ErrorKind::NoSpaceOnHost,
            Self::WriteProtected { .. } => ErrorKind::WriteProtected,
            Self::Io { action: READ, source, .. } if is_lost(source) => ErrorKind::Media,
            Self::Io { .. } | Self::Zone(_) => ErrorKind::Io,
            Self::Locked { .. } | Self::InUse { .. } => ErrorKind::Locked,
            Self::NotZoned { .. }
            | Self::NotEmpty { .. }
            | Self::NotADevice { .. }
            | Self::Truncated { .. }
            | Self::Damaged { .. }
            | Self::NewerVersion { .. }
            | Self::UnknownFeature { .. } => ErrorKind::Damaged,
        }
    }

    /// The errno that a Linux user of a zoned block device would see for it.
    #[must_use]
    pub fn to_errno(&self) -> i32 {
        match self {
            Self::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Self::Zone(fault) => fault.source.raw_os_error().unwrap_or(libc::EIO),
            Self::NoMemory { .. } => libc::ENOMEM,
            _ => self.kind().to_errno(),
        }
    }
}

impl ErrorKind {
    /// The errno that a Linux user of a zoned block device would see for it.
    #[must_use]
    pub fn to_errno(self) -> i32 {
        match self {
            Self::TooManyActive => libc::EOVERFLOW,
            Self::TooManyOpen => libc::ETOOMANYREFS,
            Self::Invalid => libc::EINVAL,
            Self::Media => libc::ENODATA,
            Self::Busy => libc::EBUSY,
            Self::Closed => libc::EBADF,
            Self::NotSupported => libc::EOPNOTSUPP,
            Self::NoSpaceOnHost => libc::ENOSPC,
            Self::WriteProtected => libc::EPERM,
            Self::Locked => libc::EWOULDBLOCK,
            _ => libc::EIO,
        }
    }

    /// True if the call may succeed once zones were closed or finished, or requests completed.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::TooManyActive | Self::TooManyOpen | Self::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_the_numbers() {
        let error = DeviceError::InvalidWrite { zone: ZoneId(3), at: Lba(7), write_pointer: Lba(5) };
        assert_eq!(error.to_string(), "zone 3: write at block 7 is not at the write pointer, block 5");
        assert_eq!(error.to_errno(), libc::EIO);
    }

    #[test]
    fn errno_of_limits_is_what_linux_answers() {
        assert_eq!(ErrorKind::TooManyActive.to_errno(), 75);
        assert_eq!(ErrorKind::TooManyOpen.to_errno(), 109);
    }

    #[test]
    fn an_error_is_small_enough_to_return_by_value() {
        assert!(size_of::<DeviceError>() <= 64, "{}", size_of::<DeviceError>());
    }
}
