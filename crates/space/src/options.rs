//! What a client decides when it makes or opens a store.

use std::fmt;

use crate::{Result, SpaceError, StreamSpec};

/// The most bytes of a client's superblock.
pub const SUPERBLOCK_BYTES_MAX: usize = 2048;

/// Identity of a store, made at random by whoever creates it. Every zone header carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreId(pub u128);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// How the zones of a store are used: given at creation and at every opening.
#[derive(Clone, Debug)]
pub struct SpaceOptions {
    /// Which kind of client this is, ASCII padded with zeros, for example `*b"tree\0\0\0\0"`. A store of another kind
    /// is refused.
    pub client: [u8; 8],
    /// The client's streams.
    pub streams: Vec<StreamSpec>,
    /// Feature bits that the client knows. A store that uses others is refused.
    pub known_features: u64,
    /// Free zones that [`Urgency::Foreground`] may not take, so that relocation, journal and log can always go on.
    pub reserve_zones: u32,
    /// Fewer active zones than the device allows: to share the device, or to try a smaller one.
    pub active_limit: Option<u32>,
}

/// A store to be made.
#[derive(Clone, Debug)]
pub struct NewStore {
    /// Its identity.
    pub id: StoreId,
    /// Feature bits that it uses.
    pub features: u64,
    /// The client's own bytes (creation options), copied into every zone header. At most [`SUPERBLOCK_BYTES_MAX`].
    pub superblock: Vec<u8>,
    /// Whether to reset a device that holds something.
    pub overwrite: bool,
}

/// For whom a zone is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// User data: may not touch the reserve.
    Foreground,
    /// Relocation, journal and log: may take the last free zone, because space comes back only through them.
    Reserve,
}

impl NewStore {
    pub(crate) fn check(&self, options: &SpaceOptions) -> Result<()> {
        let bytes = self.superblock.len();
        if bytes > SUPERBLOCK_BYTES_MAX {
            let rule = "at most 2,048 bytes fit into a zone header";
            return Err(SpaceError::BadOption { option: "the superblock's length", value: bytes as u64, rule });
        }
        check_features(self.features, options)
    }
}

pub(crate) fn check_features(used: u64, options: &SpaceOptions) -> Result<()> {
    match used & !options.known_features {
        0 => Ok(()),
        unknown => Err(SpaceError::UnknownFeatures { unknown }),
    }
}
