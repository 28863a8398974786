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

/// How far an error reaches. A flush or compaction that meets one of one file is tried again by RocksDB, and again, whatever it is: so only
/// what is wrong with a name is of one file, and everything else of the file system, as on the default one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// The file system.
    FileSystem = 0,
    /// One file.
    File = 1,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it becomes.
    pub kind: Kind,
    /// How far it reaches.
    pub scope: Scope,
    /// Whether RocksDB should try again by itself.
    pub is_retryable: bool,
    /// One line for people.
    pub message: String,
}

impl Failure {
    /// Of one file, final.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, scope: Scope::File, is_retryable: false, message: message.into() }
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
        let scope = match kind {
            Kind::NotFound | Kind::InvalidArgument => Scope::File,
            _ => Scope::FileSystem,
        };
        let message = chain(&error);
        Self { kind, scope, is_retryable: kind == Kind::NoSpace, message }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self { kind: Kind::Io, scope: Scope::FileSystem, is_retryable: false, message: chain(&error) }
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
        assert_eq!((full.kind, full.scope, full.is_retryable), (Kind::NoSpace, Scope::FileSystem, true));
        let stopped = Failure::from(FileError::Stopped { cause: "the device is gone".to_owned() });
        assert_eq!((stopped.kind, stopped.scope, stopped.is_retryable), (Kind::Io, Scope::FileSystem, false));
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
        let stale = Failure::from(FileError::Stale { zone: 1, found: None, expected: 2 });
        assert_eq!((stale.kind, stale.scope), (Kind::Stale, Scope::FileSystem), "RocksDB would compact it for ever");
        let missing = Failure::from(FileError::NotFound { path: FilePath::root() });
        assert_eq!((missing.kind, missing.scope), (Kind::NotFound, Scope::File));
        let levels = Failure::from(FileError::MovingLevels { policy: "splitzns" });
        assert_eq!((levels.kind, levels.scope), (Kind::InvalidArgument, Scope::File));
        let damaged = Failure::from(FileError::Damaged { file: 1, zone: 2, block: 3 });
        assert_eq!((damaged.kind, damaged.scope), (Kind::Corruption, Scope::FileSystem));
    }
}
