//! Errors of the file store.

use thiserror::Error;
use zonda_device::ErrorKind;
use zonda_space::SpaceError;

use crate::FilePath;

/// Why a file operation could not be done. Numbers are in bytes unless the name says otherwise.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// Nothing has this name.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The name.
        path: FilePath,
    },
    /// The name is taken by something that may not be replaced.
    #[error("{path}: already exists")]
    Exists {
        /// The name.
        path: FilePath,
    },
    /// A directory where a file was expected, or the other way round.
    #[error("{path}: is {found}, not {needed}")]
    WrongKind {
        /// The name.
        path: FilePath,
        /// What it is.
        found: &'static str,
        /// What it should be.
        needed: &'static str,
    },
    /// A directory that is not empty.
    #[error("{path}: directory is not empty, it holds {entries} entries")]
    NotEmpty {
        /// The directory.
        path: FilePath,
        /// What is directly in it.
        entries: usize,
    },
    /// A directory cannot move into itself.
    #[error("{from} cannot be moved into itself, to {to}")]
    IntoItself {
        /// The directory.
        from: FilePath,
        /// A place in it.
        to: FilePath,
    },
    /// Text that is no path.
    #[error("{path:?} is no path: {why}")]
    BadPath {
        /// Its beginning.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file that somebody else has open for writing.
    #[error("{path}: is open for writing")]
    Busy {
        /// The name.
        path: FilePath,
    },
    /// An offset where this file cannot be written: zones are written in order.
    #[error("a write at {offset} of a file of {size}: files are written at their end")]
    NotAtEnd {
        /// Where.
        offset: u64,
        /// Where its end is.
        size: u64,
    },
    /// A shortening that would need bytes to be written again.
    #[error("a file of {size} cannot be truncated to {asked}: it can only become shorter")]
    Longer {
        /// Its size.
        size: u64,
        /// The size asked for.
        asked: u64,
    },
    /// No room for this kind of data, and cleaning cannot make any (I9). Nothing was lost; deletes work.
    #[error(
        "no space: {live_bytes} bytes are live of {usable_bytes} usable; {unfilled_bytes} of these cannot be filled, \
         {kept_bytes} are kept for {kept_for} ({free_zones} free zones)"
    )]
    NoSpace {
        /// Live bytes of all zones.
        live_bytes: u64,
        /// What live data may fill.
        usable_bytes: u64,
        /// What cleaning does not give back of it: rests of subzones behind their table, and dead bytes where they are few.
        unfilled_bytes: u64,
        /// What this writer may not take of it.
        kept_bytes: u64,
        /// For whom that is kept.
        kept_for: &'static str,
        /// Zones with nothing in them.
        free_zones: u32,
    },
    /// A read-only mount is behind the live one: what it refers to was cleaned. Mount again.
    #[error("stale: zone {zone} is {} now, the file has its bytes in generation {expected}", state_of(*found))]
    Stale {
        /// The zone.
        zone: u32,
        /// Its generation now; `None` if it is empty.
        found: Option<u64>,
        /// The generation that the extent names.
        expected: u64,
    },
    /// A live store opens and resets zones of names and logs faster than they can be read beside it. Try again.
    #[error("the live store does not hold still: {looks} looks at its zones showed none of its moments whole")]
    Unsettled {
        /// How often the zones were looked at.
        looks: u32,
    },
    /// Bytes that do not have the checksum they were written with. They stay where they are.
    #[error("damaged: file {file} does not have its checksum in zone {zone}, block {block}")]
    Damaged {
        /// Number of the file.
        file: u64,
        /// The zone.
        zone: u32,
        /// The first block of the extent.
        block: u64,
    },
    /// Cleaning could not read bytes that may well be whole: the device refused for now. They are tried again later.
    #[error("file {file} cannot be read for now, in zone {zone}, block {block}: {cause}")]
    Unread {
        /// Number of the file.
        file: u64,
        /// The zone.
        zone: u32,
        /// The first block of the extent.
        block: u64,
        /// What the device said.
        #[source]
        cause: SpaceError,
    },
    /// A mount could not read a block of logs, or a zone that may have been one of logs, and nothing else shows that the end of this file
    /// was not there. What was synced is not dropped silently. Nothing was changed; see
    /// [`gives_up_offline`](crate::FileStoreOptions::gives_up_offline) for a zone that is offline.
    #[error("the end of file {file} may be lost: zone {zone}, block {block} cannot be read: {cause}")]
    LogUnreadable {
        /// Number of the file.
        file: u64,
        /// The zone.
        zone: u32,
        /// The block.
        block: u64,
        /// What the device said.
        #[source]
        cause: SpaceError,
    },
    /// A mount found a zone without a readable header, and too little in it that can be read to tell what it was: it may hold the end of
    /// the journal or of a log. Nothing was changed. Reset the zone on the device to go on without what is in it.
    #[error(
        "zone {zone} may hold the end of the journal or of a log: neither its header nor block {block} can be read: {cause}; \
         if the device does not read it again, reset the zone to mount without it"
    )]
    ZoneUnreadable {
        /// The zone.
        zone: u32,
        /// The first block behind the header that cannot be read.
        block: u64,
        /// What the device said.
        #[source]
        cause: SpaceError,
    },
    /// A mount found no whole snapshot of the names, and something that was written after one: the zone of the journal is offline, or what
    /// is in it damaged. Nothing was changed: whatever was opened now would be empty, and would give all zones to others.
    #[error(
        "the journal is lost: no list of the files is whole, and zone {zone} was written after one: the journal is offline or damaged. \
         Nothing was changed; if the device does not bring it back, make the store anew and restore a backup"
    )]
    JournalLost {
        /// A zone that is not without names.
        zone: u32,
    },
    /// A mount found a zone offline that may have held the end of the journal: what is recorded in others may be older than what they hold.
    /// Nothing was changed; see [`gives_up_offline`](crate::FileStoreOptions::gives_up_offline).
    #[error("zone {zone} is offline, and may have held the end of the journal")]
    JournalOffline {
        /// The zone.
        zone: u32,
    },
    /// A write to a store that was opened for reading.
    #[error("the store is mounted read-only")]
    ReadOnly,
    /// A placement policy that nobody has heard of.
    #[error("no placement policy is called {name:?}; there are {known}")]
    UnknownPolicy {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// A policy that counts levels from the first, for an LSM-tree whose levels move.
    #[error(
        "{policy} counts levels from the first, which mean nothing where levels move (level_compaction_dynamic_level_bytes): \
         use {policy},from-bottom=N"
    )]
    MovingLevels {
        /// The policy.
        policy: &'static str,
    },
    /// A store on a conventional drive that was to be mounted from its zones alone, or the other way round.
    #[error("the store is {found}; it was to be mounted as one {asked}")]
    OtherDevice {
        /// What the store is.
        found: &'static str,
        /// As what it was to be mounted.
        asked: &'static str,
    },
    /// A conventional drive on which a store was to be made, and that holds something. Nothing was written.
    #[error("the device is not blank, block {block} is not zeros, and it holds no store that can be told: {cause}")]
    NotBlank {
        /// The block.
        block: u64,
        /// Why there is no store on it.
        #[source]
        cause: SpaceError,
    },
    /// A trace that cannot be read.
    #[error("line {line} of the trace: {why}")]
    BadTrace {
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A mark that a trace was to be measured from, and that is not in it.
    #[error("the trace has no mark {mark:?}")]
    NoSuchMark {
        /// The mark.
        mark: String,
    },
    /// An option that makes no sense.
    #[error("{option} is {value}; {rule}")]
    BadOption {
        /// Which.
        option: &'static str,
        /// What was given.
        value: u64,
        /// What is allowed.
        rule: &'static str,
    },
    /// The store stopped writing after an error of the device; what was synced is safe. Mount again.
    #[error("the store stopped writing: {cause}")]
    Stopped {
        /// The first error.
        cause: String,
    },
    /// The zone manager or the device.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

/// What a zone is in now, in words.
fn state_of(found: Option<u64>) -> String {
    found.map_or_else(|| "empty".to_owned(), |generation| format!("in generation {generation}"))
}

impl FileError {
    /// Whether it is for want of space, in the store or on the host of a device in a file: nothing was lost, deletes work, and what was
    /// refused may be tried again after them.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { .. } | Self::Space(SpaceError::NoSpace { .. } | SpaceError::SnapshotNeeded { .. }) => true,
            Self::Space(error) => error.is_host_full(),
            _ => false,
        }
    }
}

/// What file operations return.
pub type Result<T> = std::result::Result<T, FileError>;

/// Whether the device has lost what was to be read; after any other error it may be read another time.
pub(crate) fn is_lost(error: &SpaceError) -> bool {
    matches!(error, SpaceError::Device(error) if matches!(error.kind(), ErrorKind::Media | ErrorKind::Offline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_zone_is_told_in_words() {
        let stale = |found| FileError::Stale { zone: 2, found, expected: 29 }.to_string();
        assert_eq!(stale(None), "stale: zone 2 is empty now, the file has its bytes in generation 29");
        assert_eq!(stale(Some(31)), "stale: zone 2 is in generation 31 now, the file has its bytes in generation 29");
    }
}
