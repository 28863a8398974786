//! Errors of page stores.

use thiserror::Error;
use zonda_device::ErrorKind;
use zonda_space::SpaceError;

/// Why a page store could not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError {
    /// The write sequencer has no room; `pump` with no latch held and try again.
    #[error("the write sequencer is full")]
    Busy,
    /// Live data fills the usable space.
    #[error(
        "no space: {live_bytes} bytes are live of {usable_bytes} usable ({free_zones} free zones, {reserve_bytes} bytes in reserve)"
    )]
    NoSpace {
        /// Live page and value bytes.
        live_bytes: u64,
        /// Bytes that live data may fill.
        usable_bytes: u64,
        /// Empty zones.
        free_zones: u32,
        /// Bytes kept back.
        reserve_bytes: u64,
    },
    /// What lies at an address is not what should be there.
    #[error("damaged {what} at block {block}: {why}")]
    Damaged {
        /// Page, chunk, zone header, ...
        what: &'static str,
        /// First block.
        block: u64,
        /// What is wrong.
        why: String,
    },
    /// A chunk longer than a segment takes.
    #[error("a chunk of {bytes} bytes; the limit is {bytes_max}")]
    ChunkTooLong {
        /// Asked for.
        bytes: usize,
        /// Limit.
        bytes_max: usize,
    },
    /// A page longer than [`PAGE_BLOCKS_MAX`](crate::PAGE_BLOCKS_MAX), a zone, or a segment in place; nothing was placed.
    #[error("a page of {blocks} blocks; the limit is {blocks_max}")]
    PageTooLong {
        /// Asked for.
        blocks: u64,
        /// Limit.
        blocks_max: u64,
    },
    /// A segment that does not exist or was released.
    #[error("no segment {0}")]
    NoSuchSegment(u64),
    /// The store's log is on a device of its own, and none was given.
    #[error("the log of this store is on a device of its own: name it (`Options::log_device`, `--log-on`)")]
    LogElsewhere,
    /// A log device was given, but the store has its log beside its pages.
    #[error(
        "this store has its log beside its pages: open it without a log device (`Options::log_device`, `--log-on`)"
    )]
    LogIsHere,
    /// The log device belongs to another store.
    #[error("the log device belongs to store {log_of}, not to this one, {store}")]
    LogOfOtherStore {
        /// The store that was to be opened.
        store: zonda_space::StoreId,
        /// The store whose log it is.
        log_of: zonda_space::StoreId,
    },
    /// The zone manager failed.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] zonda_device::DeviceError),
    /// The tree's side of a call failed (decoding a chunk, relocating a page).
    #[error("{0}")]
    Tree(String),
}

impl PageError {
    /// Whether the device has not read what it was asked for, though it is there and knows the request.
    pub(crate) fn is_unreadable(&self) -> bool {
        let (Self::Device(error) | Self::Space(SpaceError::Device(error))) = self else { return false };
        matches!(error.kind(), ErrorKind::Media | ErrorKind::Offline | ErrorKind::Io)
    }

    /// Whether that is so for good, not only for now.
    pub(crate) fn is_lost(&self) -> bool {
        let (Self::Device(error) | Self::Space(SpaceError::Device(error))) = self else { return false };
        error.kind() == ErrorKind::Media
    }

    /// The error of a read of `what`, at a block: what cannot be read is damaged, to whoever needs it and to nobody else.
    pub(crate) fn of_read(self, what: &'static str, block: u64) -> Self {
        if !self.is_unreadable() {
            return self;
        }
        Self::Damaged { what, block, why: format!("the device does not read it: {self}") }
    }
}
