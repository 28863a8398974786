//! Errors of the zone manager.

use thiserror::Error;
use zonda_device::{DeviceError, ErrorKind, ZoneId};

use crate::{StoreId, StreamId, ZoneUse};

/// Why the zone manager could not do what it was asked. Numbers are in zones, bytes or blocks of
/// [`BLOCK_BYTES`](crate::BLOCK_BYTES), as the names say.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// No zone may be given to this writer now. A foreground writer waits with
    /// [`Space::wait_for_free`](crate::Space::wait_for_free); nothing was written.
    #[error(
        "no space: {live_bytes} bytes are live of {usable_bytes} usable ({free_zones} free zones, {reserve_zones} in \
         reserve; {active} of {active_max} zones active)"
    )]
    NoSpace {
        /// Zones with nothing in them.
        free_zones: u32,
        /// Zones that foreground writers may not take.
        reserve_zones: u32,
        /// Zones that hold an active token.
        active: u32,
        /// Active tokens in all.
        active_max: u32,
        /// Live bytes of all zones.
        live_bytes: u64,
        /// Bytes that live data may fill.
        usable_bytes: u64,
    },
    /// The device can keep too few zones active for these streams.
    #[error("the device can keep {active_max} zones active; {needed} are needed")]
    TooFewActive {
        /// The smallest of the device's open limit, its active limit and the option.
        active_max: u32,
        /// What the streams need when every stream that may share does.
        needed: u32,
    },
    /// The device has too few zones for the streams and the reserve.
    #[error("the device has {zones} zones; at least {needed} are needed")]
    TooFewZones {
        /// Zones of the device that can be used.
        zones: u32,
        /// Reserve, open streams and one more.
        needed: u32,
    },
    /// A stream that already has all the zones the budget gives it. Seal one first; waiting would not help.
    #[error("stream {stream} has {held} zones open and may have {held_max}")]
    StreamFull {
        /// The stream that was asked for.
        stream: StreamId,
        /// Zones that its share of the budget holds, unsealed zones of an earlier life included.
        held: u32,
        /// Zones that it may hold.
        held_max: u32,
    },
    /// Zones of an earlier life hold all tokens: adopt or seal them first.
    #[error("{active} of {active_max} zones are active, and none of them belongs to the stream")]
    TokensHeld {
        /// Zones that hold an active token.
        active: u32,
        /// Active tokens in all.
        active_max: u32,
    },
    /// A stream that the options do not name.
    #[error("no stream {0}")]
    NoSuchStream(StreamId),
    /// Options that contradict each other or break a limit.
    #[error("{option} is {value}; {rule}")]
    BadOption {
        /// Which.
        option: &'static str,
        /// What was given.
        value: u64,
        /// What is allowed.
        rule: &'static str,
    },
    /// A device whose geometry cannot carry a store.
    #[error("{what} of the device is {value}; {rule}")]
    BadGeometry {
        /// Which quantity.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        rule: &'static str,
    },
    /// `format` without `overwrite` on a device that is not empty; nothing was written.
    #[error("the device is not empty: {written_zones} of {zones} zones are written, from {first} on; it holds {holds}")]
    NotEmpty {
        /// Zones that are not empty.
        written_zones: u32,
        /// Zones of the device.
        zones: u32,
        /// The first of them.
        first: ZoneId,
        /// A store with its id, or unknown data.
        holds: String,
    },
    /// No zone of the device begins with a valid header.
    #[error(
        "no store on the device: {written_zones} of {zones} zones are written, none begins with a valid zone header"
    )]
    NotAStore {
        /// Zones that are not empty.
        written_zones: u32,
        /// Zones of the device.
        zones: u32,
    },
    /// Zones of two stores on one device; neither is touched.
    #[error("zones of two stores on one device: {first_zone} belongs to {first}, {second_zone} to {second}")]
    TwoStores {
        /// One store.
        first: StoreId,
        /// A zone of it.
        first_zone: ZoneId,
        /// The other store.
        second: StoreId,
        /// A zone of it.
        second_zone: ZoneId,
    },
    /// The store was written by another kind of client.
    #[error("it holds {}, not {}", client_says(found), client_says(expected))]
    OtherClient {
        /// The name in the zone header.
        found: String,
        /// The name in the options.
        expected: String,
    },
    /// The store was written by a newer version.
    #[error("{zone} has format version {found}; this program knows versions up to {known}")]
    NewerVersion {
        /// A zone that says so.
        zone: ZoneId,
        /// Its version.
        found: u32,
        /// The newest known one.
        known: u32,
    },
    /// The store uses features that this program does not know.
    #[error("the store uses unknown features {unknown:#x} (bits {})", bits(*.unknown))]
    UnknownFeatures {
        /// The unknown bits.
        unknown: u64,
    },
    /// The device has another shape than the one the store was written on.
    #[error("the store was written with {what} {stored}; the device has {actual}")]
    GeometryChanged {
        /// Which quantity.
        what: &'static str,
        /// In the zone header.
        stored: u64,
        /// Of the device.
        actual: u64,
    },
    /// A zone failed under its writer. The writer adopted the device's write pointer and sealed the zone: the blocks
    /// before `written_up_to` are written, the caller places the rest in another zone.
    #[error("{zone} failed, written up to block {written_up_to}: {source}")]
    ZoneFailed {
        /// The zone.
        zone: ZoneId,
        /// First block of the store that is not written.
        written_up_to: u64,
        /// The device's answer to the write.
        source: DeviceError,
    },
    /// A zone is not in the state that the call needs.
    #[error("{zone} is {state}, not {needed}")]
    WrongState {
        /// The zone.
        zone: ZoneId,
        /// What it is.
        state: &'static str,
        /// What the call needs.
        needed: &'static str,
    },
    /// A write that does not fit the rest of its zone; nothing was written.
    #[error("{blocks} blocks do not fit: {remaining} are left in {zone}")]
    DoesNotFit {
        /// The zone.
        zone: ZoneId,
        /// Asked for.
        blocks: u64,
        /// Left.
        remaining: u64,
    },
    /// A buffer whose length is not a positive multiple of the block size; nothing was read or written.
    #[error("{bytes} bytes are not a positive multiple of {}", crate::BLOCK_BYTES)]
    NotWholeBlocks {
        /// Its length.
        bytes: usize,
    },
    /// A journal record that is too long; nothing was written.
    #[error("a journal record of {bytes} bytes; the limit is {bytes_max}")]
    RecordTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A block of the journal that the device has lost, and that may hold the last of what is recorded.
    #[error(
        "the journal cannot be read in {zone}, block {block}, and what is recorded there may be in no other place: {source}"
    )]
    JournalUnreadable {
        /// The zone.
        zone: ZoneId,
        /// The first block that was asked for.
        block: u64,
        /// What the device said.
        source: DeviceError,
    },
    /// A zone of the journal is lost, and what is recorded in it with it: nothing is durable before a new snapshot is.
    #[error(
        "{zone} of the journal is offline: nothing is recorded before it is begun anew, and for that there is no room"
    )]
    SnapshotNeeded {
        /// The zone.
        zone: ZoneId,
    },
    /// An earlier write or flush of the journal failed, so nobody knows what of it is durable. Open the store again.
    #[error("the journal failed earlier; nothing more can be recorded")]
    JournalFailed,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Result of the zone manager.
pub type Result<T> = std::result::Result<T, SpaceError>;

/// What a client's name means to people.
fn client_says(name: &str) -> String {
    match name {
        "tree" => "a store of keys and values (`zonda get`, `stat`, `check`)".to_owned(),
        "files" => "a file system of RocksDB's files (`zonda fs`, `zonda://`)".to_owned(),
        other => format!("a store of {other:?}"),
    }
}

/// The numbers of the set bits, for people.
fn bits(mask: u64) -> String {
    let set: Vec<String> = (0..u64::BITS).filter(|bit| mask >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
    set.join(", ")
}

impl SpaceError {
    /// Whether the device has lost what was to be read: not to be had by trying again.
    #[must_use]
    pub fn is_medium(&self) -> bool {
        matches!(self, Self::Device(error) if error.kind() == ErrorKind::Media)
    }

    /// Whether the file system has no room in which the device is a file. The device did nothing, nothing is lost, and the same call may
    /// succeed when there is room again.
    #[must_use]
    pub fn is_host_full(&self) -> bool {
        matches!(self, Self::Device(error) if error.kind() == ErrorKind::NoSpaceOnHost)
    }

    /// Whether another thread is just finishing or resetting the zone: the same call may succeed a little later.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        matches!(self, Self::WrongState { state, .. } if *state == ZoneUse::Changing.name())
    }
}
