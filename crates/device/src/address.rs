//! Where things are on a device: zones and logical blocks. Different numbers have different types.
use std::fmt;

/// Number of a zone, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ZoneId(pub u32);

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}", self.0)
    }
}

/// Device-wide logical block number, in blocks of [`Geometry::block_bytes`](crate::Geometry::block_bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lba(pub u64);

impl Lba {
    /// The block `blocks` further on.
    #[must_use]
    pub fn plus(self, blocks: u64) -> Self {
        Self(self.0 + blocks)
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}
