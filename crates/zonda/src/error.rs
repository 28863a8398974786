//! The one error type of the library: what happened, with numbers, and what to do about it.

use std::{io, path::PathBuf, sync::Arc};

use thiserror::Error;
use zonda_device::DeviceError;
use zonda_pages::PageError;
use zonda_space::SpaceError;
use zonda_tree::TreeError;

/// Result of the library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. Unless a variant says otherwise, nothing was changed.
///
/// # Examples
/// ```
/// use zonda::{Error, limits::KEY_BYTES_MAX};
///
/// # let db = zonda::Db::open("mem:")?;
/// match db.put([0; KEY_BYTES_MAX + 1], "value") {
///     Err(Error::KeyTooLong { bytes, bytes_max }) => assert_eq!(bytes, bytes_max + 1),
///     Err(Error::NoSpace { live_bytes, usable_bytes, .. }) => println!("{live_bytes} of {usable_bytes} bytes are in use"),
///     // There will be other variants.
///     other => other?,
/// }
/// # Ok::<(), zonda::Error>(())
/// ```
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A key over [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX).
    #[error("a key of {bytes} bytes; the limit is {bytes_max}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A value over [`VALUE_BYTES_MAX`](crate::limits::VALUE_BYTES_MAX).
    #[error("a value of {bytes} bytes; the limit is {bytes_max}")]
    ValueTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A batch over [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX). Split it, or use `ingest` or `delete_range`.
    #[error("a batch of {bytes} bytes; the limit is {bytes_max}: split it")]
    BatchTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A tree's name that is empty or over [`TREE_NAME_BYTES_MAX`](crate::limits::TREE_NAME_BYTES_MAX).
    #[error("a tree name of {bytes} bytes; it must have 1 to {bytes_max}")]
    TreeName {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A tree that was asked for by name and is not there.
    #[error("no tree is called {name:?}")]
    NoSuchTree {
        /// The name.
        name: String,
    },
    /// A handle to a tree that was dropped.
    #[error("the tree {name:?} was dropped")]
    TreeDropped {
        /// The name it had.
        name: String,
    },
    /// The store has given away all tree numbers.
    #[error("the store had {trees} trees in its life, the most there can be")]
    TooManyTrees {
        /// How many.
        trees: u32,
    },
    /// A handle or batch that belongs to another store.
    #[error("the tree {name:?} belongs to another store")]
    OtherStore {
        /// Its name.
        name: String,
    },
    /// An `ingest` whose items are not in strictly ascending key order. The items before are stored.
    #[error("item {item} of the ingest is not above the item before it; the {item} items before it are stored")]
    OutOfOrder {
        /// Index of the item, from 0.
        item: u64,
    },
    /// An option that cannot work.
    #[error("option {name}: {why}")]
    BadOption {
        /// Which.
        name: &'static str,
        /// Why not, with numbers.
        why: String,
    },
    /// A memory budget that leaves too little for leaf buffers (I6).
    #[error(
        "a memory budget of {bytes} bytes leaves {buffer_bytes} for leaf buffers; {buffer_bytes_min} are needed: give at least {bytes_needed}"
    )]
    TooLittleMemory {
        /// The budget.
        bytes: u64,
        /// What is left for leaf buffers.
        buffer_bytes: u64,
        /// The least that makes sense.
        buffer_bytes_min: u64,
        /// A budget that suffices.
        bytes_needed: u64,
    },
    /// A device name that cannot be understood.
    #[error("{reason}")]
    BadUri {
        /// What is wrong, naming what is known.
        reason: String,
    },
    /// There is no store there, and none was to be created: [`create_if_missing`](crate::Options::create_if_missing) is off, or it was
    /// to be read only.
    #[error(
        "there is no store at {uri} and this makes none: `zonda load` and `zonda put` do, and `create_if_missing` in a program"
    )]
    NotFound {
        /// Where.
        uri: String,
    },
    /// There is something where a new store was to be made.
    #[error("{uri} exists already and is left alone: choose another name or remove it first")]
    AlreadyExists {
        /// Where.
        uri: String,
    },
    /// The store is a copy that was interrupted: it holds part of the pairs.
    #[error("a copy into {uri} was interrupted, and part of the pairs is missing: remove it and copy again")]
    CopyUnfinished {
        /// Where.
        uri: String,
    },
    /// What is there is not a Zonda store. It was not touched.
    #[error("{what} is not a Zonda store and was left alone: {why}")]
    NotAStore {
        /// The file or device.
        what: String,
        /// What is there instead.
        why: String,
    },
    /// The file ends too early.
    #[error("{path} is truncated: {bytes} bytes, at least {needed_bytes} are needed; restore it from a backup")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What there is.
        bytes: u64,
        /// What there must be.
        needed_bytes: u64,
    },
    /// Bytes of the store are not what was written.
    #[error("damaged {what}: {why}; `zonda check` lists all damage")]
    Damaged {
        /// What.
        what: String,
        /// Where and what does not hold.
        why: String,
    },
    /// The store was written by a later version.
    #[error("the store has format version {found}; this program knows versions up to {known}: use a newer zonda")]
    NewerVersion {
        /// The store's version.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// The store was written before the first release, in a format that no release reads.
    #[error(
        "the store has format version {found}, from before the first release; this program reads {oldest}: load the data again"
    )]
    OlderVersion {
        /// The store's version.
        found: u32,
        /// The oldest version known.
        oldest: u32,
    },
    /// The log device and the store do not belong together: it is missing, another store's, one too many, or in memory where the store is
    /// not.
    #[error("{why}")]
    LogDevice {
        /// Which of them, with both identities.
        why: String,
    },
    /// The store uses features that this program does not know.
    #[error("the store uses features that this program does not know: {features}; use a newer zonda")]
    UnknownFeatures {
        /// Their numbers.
        features: String,
    },
    /// Somebody else has the file or device: another process or handle has it open, or a block device is mounted or part of another.
    #[error("{path} is in use: {by}; end that first")]
    Locked {
        /// The file or device.
        path: PathBuf,
        /// By whom, as far as can be known.
        by: String,
    },
    /// A write to a store that was opened for reading only.
    #[error("the store was opened for reading only")]
    ReadOnly,
    /// Live data fills the usable space. Reads and deletes go on; writes work again once there is space (I9).
    #[error(
        "no space: {live_bytes} bytes are live of {usable_bytes} usable ({free_zones} zones are free): delete something, use a larger device, \
         or less memory or a lower log limit, which reserve less of it"
    )]
    NoSpace {
        /// Bytes of live pages and values.
        live_bytes: u64,
        /// Bytes that they may fill.
        usable_bytes: u64,
        /// Zones with nothing in them.
        free_zones: u32,
    },
    /// The file system below the store is full. Other than in a store that is full itself (`NoSpace`), deletes are refused too, and so is
    /// opening to write: both need some room on it for log and structure, a few hundred KiB. Reads go on.
    #[error("the file system of {path} is full: {bytes} bytes did not fit; free space there and open the store again")]
    DiskFull {
        /// The store's file.
        path: PathBuf,
        /// How many.
        bytes: u64,
    },
    /// A device on which a store cannot live.
    #[error("the device cannot carry a store: {why}")]
    UnsuitableDevice {
        /// Why, with numbers.
        why: String,
    },
    /// The snapshot was given up because keeping it cost too much memory, or because writers needed the space that it held.
    #[error(
        "the snapshot is too old: {kept_bytes} bytes were kept for snapshots, of {bytes_max} at most, or writers needed the space that it held; take a new one"
    )]
    SnapshotTooOld {
        /// Kept when it was given up.
        kept_bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// An earlier write or sync failed, so the store refuses writes; reads go on, unless it stopped within a batch. Open it again: recovery
    /// keeps what was durable.
    #[error("the store refuses writes since an earlier failure: {cause}{}", then_open_again(.cause))]
    Poisoned {
        /// The failure.
        cause: Arc<Error>,
    },
    /// A background thread of the store panicked, which is a bug of this library. Its message is on standard error.
    #[error("the background thread {thread} panicked, which is a bug: please report what standard error says")]
    Panicked {
        /// Its name.
        thread: String,
    },
    /// The store was closed through another handle.
    #[error("the store is closed")]
    Closed,
    /// The process forked: a child must open the store itself, once its parent has closed it.
    #[error(
        "process {opened_by} opened the store, its child {used_by} may not use it after a fork: open it in the child"
    )]
    Forked {
        /// The opener.
        opened_by: u32,
        /// The user.
        used_by: u32,
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
    /// The device failed.
    #[error("device: {message}")]
    Device {
        /// What it said.
        message: String,
    },
}

/// The advice for a store that refuses writes, if its cause does not end with it.
fn then_open_again(cause: &Error) -> &'static str {
    if matches!(cause, Error::DiskFull { .. }) { "" } else { "; close it and open it again" }
}

impl From<TreeError> for Error {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::KeyTooLong { bytes, bytes_max } => Self::KeyTooLong { bytes, bytes_max },
            TreeError::ValueTooLong { bytes, bytes_max } => Self::ValueTooLong { bytes, bytes_max },
            TreeError::BatchTooLong { bytes, bytes_max } => Self::BatchTooLong { bytes, bytes_max },
            TreeError::BadOption { name, why } => Self::BadOption { name, why },
            TreeError::SnapshotTooOld { kept_bytes, bytes_max } => Self::SnapshotTooOld { kept_bytes, bytes_max },
            TreeError::Store(error) => Self::from(&*error),
            TreeError::Poisoned(cause) => Self::Poisoned { cause: Arc::new(Self::from((*cause).clone())) },
            TreeError::Damaged { what, why } => Self::Damaged { what: what.to_owned(), why },
            TreeError::Panicked { thread } => Self::Panicked { thread },
            TreeError::Closed => Self::Closed,
            other => Self::Device { message: other.to_string() },
        }
    }
}

impl From<PageError> for Error {
    fn from(error: PageError) -> Self {
        Self::from(&error)
    }
}

impl From<&PageError> for Error {
    fn from(error: &PageError) -> Self {
        match error {
            &PageError::NoSpace { live_bytes, usable_bytes, free_zones, .. } => {
                Self::NoSpace { live_bytes, usable_bytes, free_zones }
            }
            PageError::Damaged { what, block, why } => {
                Self::Damaged { what: format!("{what} at block {block}"), why: why.clone() }
            }
            PageError::LogElsewhere | PageError::LogIsHere | PageError::LogOfOtherStore { .. } => {
                Self::LogDevice { why: error.to_string() }
            }
            PageError::Space(error) => Self::from(error),
            PageError::Device(error) => Self::from(error),
            other => Self::Device { message: other.to_string() },
        }
    }
}

impl From<&SpaceError> for Error {
    fn from(error: &SpaceError) -> Self {
        match error {
            &SpaceError::NoSpace { live_bytes, usable_bytes, free_zones, .. } => {
                Self::NoSpace { live_bytes, usable_bytes, free_zones }
            }
            // The zone manager knows its clients by their names alone.
            SpaceError::OtherClient { found, .. } if found == "treelog" => Self::NotAStore {
                what: "the device".to_owned(),
                why: "it holds the log of a store (`Options::log_device`, `--log-on`)".to_owned(),
            },
            SpaceError::NotAStore { .. }
            | SpaceError::NotEmpty { .. }
            | SpaceError::OtherClient { .. }
            | SpaceError::TwoStores { .. } => Self::NotAStore { what: "the device".to_owned(), why: error.to_string() },
            &SpaceError::NewerVersion { found, known, .. } => Self::NewerVersion { found, known },
            &SpaceError::BadOption { option, value, rule } => {
                Self::BadOption { name: option, why: format!("{value}, but {rule}") }
            }
            SpaceError::UnknownFeatures { unknown } => Self::UnknownFeatures { features: format!("{unknown:#x}") },
            SpaceError::TooFewActive { .. }
            | SpaceError::TooFewZones { .. }
            | SpaceError::BadGeometry { .. }
            | SpaceError::GeometryChanged { .. } => Self::UnsuitableDevice { why: error.to_string() },
            SpaceError::Device(error) => Self::from(error),
            other => Self::Device { message: other.to_string() },
        }
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Self::from(&error)
    }
}

impl From<&DeviceError> for Error {
    fn from(error: &DeviceError) -> Self {
        match error {
            DeviceError::Locked { path } => {
                Self::Locked { path: path.clone(), by: "another process or handle has it open".to_owned() }
            }
            DeviceError::InUse { path, by } => Self::Locked { path: path.clone(), by: by.clone() },
            DeviceError::NotADevice { path, reason } => {
                Self::NotAStore { what: path.display().to_string(), why: (*reason).to_owned() }
            }
            &DeviceError::Truncated { ref path, bytes, needed_bytes } => {
                Self::Truncated { path: path.clone(), bytes, needed_bytes }
            }
            DeviceError::Damaged { what, offset, reason } => {
                Self::Damaged { what: (*what).to_owned(), why: format!("{reason} at byte {offset}") }
            }
            &DeviceError::NewerVersion { found, known } => Self::NewerVersion { found, known },
            DeviceError::UnknownFeature { bit } => Self::UnknownFeatures { features: bit.to_string() },
            DeviceError::NoSpaceOnHost { path, bytes, .. } => Self::DiskFull { path: path.clone(), bytes: *bytes },
            DeviceError::WriteProtected { .. } => Self::ReadOnly,
            // What is read and written is always whole blocks: only a shape that was asked for is not.
            DeviceError::Geometry { .. }
            | DeviceError::Unaligned { .. }
            | DeviceError::Mismatch { .. }
            | DeviceError::NotZoned { .. } => Self::UnsuitableDevice { why: error.to_string() },
            DeviceError::BadName { reason } => Self::BadUri { reason: reason.clone() },
            DeviceError::Io { path, action, source } => {
                Self::Io { path: path.clone(), action, source: Arc::clone(source) }
            }
            DeviceError::Closed => Self::Closed,
            other => Self::Device { message: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_lower_layers_keep_their_numbers() {
        let full = PageError::NoSpace { live_bytes: 7, usable_bytes: 6, free_zones: 2, reserve_bytes: 9 };
        let error = Error::from(TreeError::from(full));
        assert!(matches!(error, Error::NoSpace { live_bytes: 7, usable_bytes: 6, free_zones: 2 }), "{error}");
    }

    #[test]
    fn a_poisoned_store_names_the_cause() {
        let cause = TreeError::from(PageError::Device(DeviceError::PowerLost));
        let error = Error::from(TreeError::Poisoned(Arc::new(cause)));
        assert!(matches!(error, Error::Poisoned { .. }));
        assert!(error.to_string().contains("the power is cut; close it and open it again"), "{error}");
        let full = Error::Poisoned { cause: Arc::new(Error::DiskFull { path: "/x".into(), bytes: 7 }) };
        assert_eq!(full.to_string().matches("open").count(), 1, "{full}");
    }

    #[test]
    fn what_keeps_a_block_device_from_being_a_store_has_its_variant() {
        let mounted = DeviceError::InUse { path: "/dev/x".into(), by: "it is mounted on /mnt".to_owned() };
        let error = Error::from(mounted);
        assert!(matches!(error, Error::Locked { .. }) && error.to_string().contains("mounted on /mnt"), "{error}");
        let error = Error::from(DeviceError::NotZoned { path: "/dev/x".into(), reason: "it has no zones" });
        assert!(matches!(error, Error::UnsuitableDevice { .. }) && error.to_string().contains("no zones"), "{error}");
    }

    #[test]
    fn every_error_is_in_the_document() {
        let (source, document) = (include_str!("error.rs"), include_str!("../../../docs/embedding.md"));
        let body =
            source.split("pub enum Error {").nth(1).and_then(|rest| rest.split("\n}\n").next()).unwrap_or_default();
        let at_four = body.lines().filter_map(|line| line.strip_prefix("    "));
        let variants = at_four.filter(|line| line.starts_with(char::is_uppercase));
        let names: Vec<&str> = variants.filter_map(|line| line.split([' ', ',']).next()).collect();
        assert!(names.len() > 25, "{names:?}");
        let missing: Vec<_> = names.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn errors_are_send_sync_and_static() {
        fn is<T: Send + Sync + std::error::Error + 'static>() {}
        is::<Error>();
    }
}
