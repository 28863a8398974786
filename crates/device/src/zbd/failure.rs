//! From what the kernel or the drive answers to our errors.
//!
//! An errno is not enough: EIO stands for half a dozen reasons. So the zone's fresh report decides, then the number.
use std::{fmt, io, path::Path, sync::Arc};

use super::descriptor::Descriptor;
use crate::{DeviceError, Geometry, Lba, ZoneFault, ZoneId, ZoneState};

/// NVMe: the zone's boundary, a full, read-only or offline zone, a write away from the write pointer, the two limits, and
/// a transition that the zone's state does not allow. The kernel answers EIO for all but the limits.
const STATUS_TOO_MANY_ACTIVE: u16 = 0x1BD;
const STATUS_TOO_MANY_OPEN: u16 = 0x1BE;
/// NVMe: data that cannot be read any more.
const STATUS_UNRECOVERED: [u16; 2] = [0x281, 0x287];

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The kernel's answer.
    System(io::Error),
    /// The status of an NVMe command.
    Drive(u16),
}

impl Failure {
    /// The kernel's errno for it.
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Self::System(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Drive(STATUS_TOO_MANY_ACTIVE) => libc::EOVERFLOW,
            Self::Drive(STATUS_TOO_MANY_OPEN) => libc::ETOOMANYREFS,
            Self::Drive(status) if STATUS_UNRECOVERED.contains(status) => libc::ENODATA,
            Self::Drive(_) => libc::EIO,
        }
    }

    fn into_source(self) -> Arc<io::Error> {
        Arc::new(match self {
            Self::System(error) => error,
            Self::Drive(status) => io::Error::other(format!("NVMe status {status:#x}")),
        })
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::Drive(status) => write!(f, "NVMe status {status:#x}"),
        }
    }
}

/// What was tried on a zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) path: &'a Path,
    pub(crate) geometry: &'a Geometry,
    pub(crate) zone: ZoneId,
    pub(crate) action: &'static str,
    /// For reads and writes: the first block, and how many were to be written.
    pub(crate) at: Option<(Lba, u64)>,
    /// Open and active zones now.
    pub(crate) held: (u32, u32),
}

impl Attempt<'_> {
    /// The error for a failure, by what the device says of the zone since.
    pub(crate) fn error(&self, failure: Failure, now: Option<&Descriptor>) -> DeviceError {
        let (zone, (open, active)) = (self.zone, self.held);
        match failure.errno() {
            libc::EOVERFLOW => {
                let max = self.geometry.max_active.unwrap_or(active);
                return DeviceError::TooManyActive { zone, active, max };
            }
            libc::ETOOMANYREFS => {
                return DeviceError::TooManyOpen { zone, open, max: self.geometry.max_open.unwrap_or(open) };
            }
            libc::ENODATA => {
                return DeviceError::Media { at: self.at.map_or(self.geometry.zone_start(zone), |(at, _)| at) };
            }
            _ => {}
        }
        let known = now.and_then(|now| self.by_report(now));
        known.unwrap_or_else(|| {
            let now = now.map_or_else(|| "the zone's report fails too".to_owned(), ToString::to_string);
            let (path, action) = (self.path.to_owned(), self.action);
            DeviceError::Zone(Arc::new(ZoneFault { path, zone, action, source: failure.into_source(), now }))
        })
    }

    /// What the report alone explains.
    fn by_report(&self, now: &Descriptor) -> Option<DeviceError> {
        let zone = self.zone;
        match (now.state()?, self.action) {
            (ZoneState::Offline, _) => Some(DeviceError::Offline { zone }),
            (ZoneState::ReadOnly, "write" | "append") => Some(DeviceError::ReadOnly { zone }),
            (ZoneState::Full, "write" | "append") => Some(DeviceError::Full { zone }),
            (from @ (ZoneState::Full | ZoneState::ReadOnly), action @ ("open" | "close")) => {
                Some(DeviceError::InvalidTransition { zone, from, action })
            }
            (from @ ZoneState::ReadOnly, action @ ("finish" | "reset")) => {
                Some(DeviceError::InvalidTransition { zone, from, action })
            }
            (state, "write") if state.has_write_pointer() => {
                let write_pointer = self.geometry.zone_start(zone).plus(now.written_blocks(self.geometry));
                // A pointer in the middle: the write has begun where it was to, and failed for another reason.
                let (at, _) = self.at.filter(|&(at, blocks)| write_pointer < at || write_pointer > at.plus(blocks))?;
                Some(DeviceError::InvalidWrite { zone, at, write_pointer })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, zbd::descriptor::ZoneKind};

    fn zone(state: ZoneState, written_sectors: u64) -> Descriptor {
        Descriptor {
            start_sector: 128,
            len_sectors: 128,
            capacity_sectors: 96,
            write_pointer_sector: 128 + written_sectors,
            kind: ZoneKind::SequentialRequired,
            condition: state as u8,
            non_sequential: false,
            reset_recommended: false,
        }
    }

    fn error(action: &'static str, failure: Failure, now: Option<Descriptor>) -> DeviceError {
        let geometry = Geometry::new(64 << 10, 4).with_capacity_blocks(12).with_limits(2, 3);
        let attempt = Attempt {
            path: Path::new("/dev/zoned"),
            geometry: &geometry,
            zone: ZoneId(1),
            action,
            at: Some((Lba(20), 2)),
            held: (2, 3),
        };
        attempt.error(failure, now.as_ref())
    }

    fn system(errno: i32) -> Failure {
        Failure::System(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn limits_come_with_their_numbers() {
        let active = "zone 1: 3 zones are active, the most is 3";
        assert_eq!(error("write", system(75), Some(zone(ZoneState::Empty, 0))).to_string(), active);
        assert_eq!(error("append", Failure::Drive(0x1BD), None).to_string(), active);
        assert_eq!(error("open", system(109), None).kind(), ErrorKind::TooManyOpen);
        assert_eq!(error("append", Failure::Drive(0x1BE), None).to_errno(), 109);
    }

    #[test]
    fn the_report_tells_what_eio_means() {
        let cases = [
            ("write", ZoneState::Offline, 0, ErrorKind::Offline),
            ("read", ZoneState::Offline, 0, ErrorKind::Offline),
            ("write", ZoneState::ReadOnly, 0, ErrorKind::ReadOnly),
            ("write", ZoneState::Full, 0, ErrorKind::Full),
            ("open", ZoneState::Full, 0, ErrorKind::InvalidTransition),
            ("write", ZoneState::Closed, 16, ErrorKind::InvalidWrite),
            ("write", ZoneState::Closed, 56, ErrorKind::InvalidWrite),
            ("write", ZoneState::Closed, 32, ErrorKind::Io),
            ("write", ZoneState::Closed, 40, ErrorKind::Io),
            ("reset", ZoneState::Closed, 32, ErrorKind::Io),
        ];
        for (action, state, sectors, wanted) in cases {
            let error = error(action, system(libc::EIO), Some(zone(state, sectors)));
            assert_eq!(error.kind(), wanted, "{action} {state}: {error}");
        }
    }

    #[test]
    fn what_is_left_carries_the_zone_s_report_and_the_errno() {
        let error = error("write", system(libc::EIO), Some(zone(ZoneState::Closed, 32)));
        assert!(error.to_string().contains("the zone is closed, write pointer at sector 32 of 96"), "{error}");
        assert_eq!(error.to_errno(), libc::EIO);
        let silent = super::tests::error("read", system(libc::ENODEV), None);
        assert!(silent.to_string().contains("report fails too") && silent.to_errno() == libc::ENODEV);
        assert_eq!(super::tests::error("read", Failure::Drive(0x281), None).kind(), ErrorKind::Media);
    }
}
