//! States of a zone and the report on it: the numbers of NVMe ZNS.
use std::fmt;

use crate::{Lba, ZoneId};

/// State of a zone, with the numbers of the NVMe ZNS command set (also on disk: never renumber).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ZoneState {
    /// Nothing written, no resource held.
    Empty = 0x1,
    /// Opened by a write: holds an open and an active resource; the device may close it.
    ImplicitOpen = 0x2,
    /// Opened by a command: holds an open and an active resource.
    ExplicitOpen = 0x3,
    /// Partly written, holds an active resource.
    Closed = 0x4,
    /// Readable, never writable again.
    ReadOnly = 0xD,
    /// Written to its capacity, or finished.
    Full = 0xE,
    /// Neither readable nor writable.
    Offline = 0xF,
}

impl ZoneState {
    /// All states.
    pub const ALL: [Self; 7] =
        [Self::Empty, Self::ImplicitOpen, Self::ExplicitOpen, Self::Closed, Self::ReadOnly, Self::Full, Self::Offline];

    /// The state with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&s| s as u8 == number)
    }

    /// True if the zone holds an open resource.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::ImplicitOpen | Self::ExplicitOpen)
    }

    /// True if the zone holds an active resource.
    #[must_use]
    pub fn is_active(self) -> bool {
        self.is_open() || self == Self::Closed
    }

    /// True if the zone has a write pointer: it is empty or active.
    #[must_use]
    pub fn has_write_pointer(self) -> bool {
        self.is_active() || self == Self::Empty
    }
}

impl fmt::Display for ZoneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Empty => "empty",
            Self::ImplicitOpen => "implicitly open",
            Self::ExplicitOpen => "explicitly open",
            Self::Closed => "closed",
            Self::ReadOnly => "read-only",
            Self::Full => "full",
            Self::Offline => "offline",
        })
    }
}

/// What a device says about one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// The zone.
    pub zone: ZoneId,
    /// Its state.
    pub state: ZoneState,
    /// Its first block.
    pub start: Lba,
    /// Blocks that can be written, from `start`.
    pub capacity_blocks: u64,
    /// Where the next write must go; `None` unless the zone is empty or active.
    pub write_pointer: Option<Lba>,
}

impl ZoneReport {
    /// Blocks that can still be written.
    #[must_use]
    pub fn remaining_blocks(&self) -> u64 {
        self.write_pointer.map_or(0, |at| self.start.0 + self.capacity_blocks - at.0)
    }

    /// Blocks written so far; the whole capacity where the zone has no write pointer.
    #[must_use]
    pub fn written_blocks(&self) -> u64 {
        self.capacity_blocks - self.remaining_blocks()
    }
}
