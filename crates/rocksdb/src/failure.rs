//! Errors as RocksDB sees them.

use zonda_device::DeviceError;
use zonda_files::{FileError, FilePath};

/// What kind of `IOStatus` it becomes. The numbers are those of `shim/bridge.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `PathNotFound`; where RocksDB asks whether something exists, `NotFound`.
    NotFound = 1,
    /// `NoSpace`.
    NoSpace = 2,
    /// `Busy`.
    Busy = 3,
    /// `Corruption`.
    Corruption = 4,
    /// `NotSupported`.
    NotSupported = 5,
    /// `InvalidArgument`.
    InvalidArgument = 6,
    /// `IOError` with `StaleFile`.
    Stale = 7,
    /// `IOError`.
    Io = 8,
}

/// Why a call failed. To RocksDB it is an error of the file system, as all are on the default one: a flush or compaction that meets one of
/// a single file is tried again, and again, and nobody is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it becomes.
    pub kind: Kind,
    /// Whether RocksDB should try again by itself.
    pub is_retryable: bool,
    /// One line for people.
    pub message: String,
}

impl Failure {
    /// A final one.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, is_retryable: false, message: message.into() }
    }

    /// Of a file that was read: its name is told where the error knows only zones.
    pub(crate) fn of_file(path: &FilePath, error: FileError) -> Self {
        let is_unnamed = matches!(error, FileError::Stale { .. } | FileError::Space(_));
        let failure = Self::from(error);
        if is_unnamed { Self { message: format!("{path}: {}", failure.message), ..failure } } else { failure }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, message)
    }
}

impl From<FileError> for Failure {
    /// A full store is worth another try, as on the default file system: RocksDB's recovery goes on by itself once space
    /// was freed. A store that stopped writing must be mounted again first.
    fn from(error: FileError) -> Self {
        let kind = match &error {
            FileError::NotFound { .. } => Kind::NotFound,
            error if error.is_no_space() => Kind::NoSpace,
            FileError::Busy { .. } => Kind::Busy,
            FileError::Damaged { .. } => Kind::Corruption,
            FileError::Stale { .. } | FileError::Unsettled { .. } => Kind::Stale,
            FileError::BadPath { .. }
            | FileError::BadOption { .. }
            | FileError::UnknownPolicy { .. }
            | FileError::MovingLevels { .. } => Kind::InvalidArgument,
            FileError::NotAtEnd { .. } | FileError::Longer { .. } => Kind::NotSupported,
            _ => Kind::Io,
        };
        Self { kind, is_retryable: kind == Kind::NoSpace, message: chain(&error) }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::new(Kind::Io, chain(&error))
    }
}

/// An error and what caused it, on one line, each once: some errors end with the words of their cause.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    for cause in std::iter::successors(error.source(), |error| error.source()).map(ToString::to_string) {
        if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_store_is_worth_another_try() {
        let full = FileError::NoSpace {
            live_bytes: 1,
            usable_bytes: 2,
            unfilled_bytes: 0,
            kept_bytes: 3,
            kept_for: "logs",
            free_zones: 4,
        };
        let full = Failure::from(full);
        assert_eq!((full.kind, full.is_retryable), (Kind::NoSpace, true));
        let stopped = Failure::from(FileError::Stopped { cause: "the device is gone".to_owned() });
        assert_eq!((stopped.kind, stopped.is_retryable), (Kind::Io, false));
        assert!(stopped.message.contains("the device is gone"));
    }

    #[test]
    fn every_cause_is_told_once() {
        let system = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let told = || DeviceError::Io { path: "f".into(), action: "open", source: system().into() };
        let once = format!("f: cannot open: {}", system());
        assert_eq!(Failure::from(told()).message, once);
    }

    #[test]
    fn damage_and_staleness_are_told_apart() {
        let kind = |error| Failure::from(error).kind;
        assert_eq!(kind(FileError::Stale { zone: 1, found: None, expected: 2 }), Kind::Stale);
        assert_eq!(kind(FileError::NotFound { path: FilePath::root() }), Kind::NotFound);
        assert_eq!(kind(FileError::MovingLevels { policy: "splitzns" }), Kind::InvalidArgument);
        assert_eq!(kind(FileError::Damaged { file: 1, zone: 2, block: 3 }), Kind::Corruption);
    }
}
