//! A zone as victim choice and reports see it.

use zonda_device::ZoneId;

use crate::{StreamId, StreamSet};

/// What a zone is to the zone manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneUse {
    /// Nothing in it that counts; may be given to a writer.
    Free,
    /// Has a writer; holds an active token.
    Open,
    /// Partly written, without a writer; holds an active token. A zone of an earlier life, or one whose writer was
    /// dropped.
    Partial,
    /// Written and finished; holds no token.
    Sealed,
    /// Being reset, or its header being written.
    Changing,
    /// Reset by its owner, but the device keeps it until a newer header is durable, so that no generation number is
    /// ever used twice.
    Retired,
    /// Its header cannot be read. Nobody writes or resets it unless asked by name.
    Damaged,
    /// The device lets it only be read. Its live data should be moved.
    ReadOnly,
    /// Lost.
    Offline,
    /// Split: its subzones are zones of their own, with their own states. Holds an active token until it is finished.
    Split,
}

impl ZoneUse {
    /// The word for it in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Open => "open",
            Self::Partial => "partly written",
            Self::Sealed => "sealed",
            Self::Changing => "changing",
            Self::Retired => "retired",
            Self::Damaged => "damaged",
            Self::ReadOnly => "read-only",
            Self::Offline => "offline",
            Self::Split => "split",
        }
    }
}

/// One zone as victim choice and reports see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneView {
    /// The zone.
    pub zone: ZoneId,
    /// What it is.
    pub state: ZoneUse,
    /// The stream after which it is named; `None` if nothing is in it.
    pub stream: Option<StreamId>,
    /// Every stream whose data it may hold.
    pub holds: StreamSet,
    /// Number of this allocation; 0 if nothing is in it.
    pub generation: u64,
    /// Bytes written after the header; the whole capacity for finished zones of an earlier life.
    pub written_bytes: u64,
    /// Bytes that it could hold after the header.
    pub capacity_bytes: u64,
    /// Bytes that somebody still wants.
    pub live_bytes: u64,
    /// Blocks that the store wrote since something in it last died (or since it was opened or recovered): its age.
    pub age_blocks: u64,
    /// Whether its live data is being moved.
    pub relocating: bool,
}
