//! What options choose between, each by its name too.

use std::str::FromStr;

use crate::{Error, Result};

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The write is in memory; the background hands it to the device every [`log_interval_ms`](crate::Options::log_interval_ms), earlier
    /// where a ring of the log is full, later where the device or the processor is busy: no time is promised. It is durable after the next
    /// [`sync`](crate::Db::sync), synced write or [`close`](crate::Db::close). A power cut loses at most what was written since then, the
    /// death of the process at most what was not handed over; both the newest writes first and never half a batch.
    #[default]
    Buffered,
    /// The write is durable when the call returns: neither a power cut nor the death of the process loses it.
    Synced,
}

impl From<Durability> for zonda_tree::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Buffered => Self::Buffered,
            Durability::Synced => Self::Synced,
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "buffered" => Ok(Self::Buffered),
            "synced" => Ok(Self::Synced),
            _ => Err(bad("durability", format!("{name:?} is not one of buffered, synced"))),
        }
    }
}

/// What leaves keep in memory. Any store opens with any design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Design {
    /// Changes wait in small delta buffers of growing size and reach a leaf many at a time (the buffers of the ZKV paper, section 3.3).
    #[default]
    Adb,
    /// Whole leaves are cached and rewritten: the conventional B+-tree.
    BTree,
    /// Up to [`delta_records`](crate::Options::delta_records) changes of a leaf are chained to it: the BD-Tree that the ZKV paper compares
    /// with.
    BdTree,
    /// Small sorted pages of variable length in a circular buffer keep what changed, what is read often, what is known to be absent, or a
    /// whole leaf (the mini-pages of the Bf-Tree paper).
    BfTree,
}

impl Design {
    /// All designs.
    pub const ALL: [Self; 4] = [Self::Adb, Self::BTree, Self::BdTree, Self::BfTree];

    /// The name that [`FromStr`] knows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Adb => "adb",
            Self::BTree => "btree",
            Self::BdTree => "bdtree",
            Self::BfTree => "bftree",
        }
    }
}

impl From<Design> for zonda_tree::Design {
    fn from(design: Design) -> Self {
        match design {
            Design::Adb => Self::Adb,
            Design::BTree => Self::BTree,
            Design::BdTree => Self::Deltas,
            Design::BfTree => Self::BfTree,
        }
    }
}

impl FromStr for Design {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|design| design.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            bad("design", format!("{name:?} is not one of {names}"))
        })
    }
}

/// Sizes of delta buffers and mini-pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BufferClasses {
    /// Sixteen bytes apart to 512 bytes, then sixteen to a doubling, to three quarters of a leaf, or to all of one where the background
    /// merges; mini-pages from 64 bytes on, four sizes to a doubling.
    #[default]
    Large,
    /// Those of the ZKV paper (section 3.3): 64, 128 and 256 bytes of records. Mini-pages, here and below: 64 bytes doubled, as in the
    /// Bf-Tree paper (section 3.1).
    Paper,
    /// The paper's with keys whole and a sixteenth of the largest left for the paper's fingerprints, which there are none of: at most 15
    /// pairs of 8 B + 8 B, as there.
    PaperWhole,
    /// The paper's, and one of 512 bytes.
    To512,
    /// The paper's, and those of 512 and of 1,024 bytes.
    To1024,
}

impl FromStr for BufferClasses {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "large" => Ok(Self::Large),
            "paper" => Ok(Self::Paper),
            "paper-whole" => Ok(Self::PaperWhole),
            "to-512" => Ok(Self::To512),
            "to-1024" => Ok(Self::To1024),
            _ => Err(bad("classes", format!("{name:?} is not one of large, paper, paper-whole, to-512, to-1024"))),
        }
    }
}

impl From<BufferClasses> for zonda_tree::BufferClasses {
    fn from(classes: BufferClasses) -> Self {
        match classes {
            BufferClasses::Large => Self::Large,
            BufferClasses::Paper => Self::Paper,
            BufferClasses::PaperWhole => Self::PaperWhole,
            BufferClasses::To512 => Self::To512,
            BufferClasses::To1024 => Self::To1024,
        }
    }
}

/// Which delta buffer or mini-page is merged first when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Eviction {
    /// The fullest: the most changes for each leaf written.
    #[default]
    Fullest,
    /// The oldest of the largest size, as in the ZKV paper (section 3.3); of mini-pages the oldest, as in the Bf-Tree paper (section 4.1).
    Oldest,
}

impl FromStr for Eviction {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "fullest" => Ok(Self::Fullest),
            "oldest" => Ok(Self::Oldest),
            _ => Err(bad("eviction", format!("{name:?} is not one of fullest, oldest"))),
        }
    }
}

impl From<Eviction> for zonda_tree::Eviction {
    fn from(eviction: Eviction) -> Self {
        match eviction {
            Eviction::Fullest => Self::Fullest,
            Eviction::Oldest => Self::Oldest,
        }
    }
}

/// Fixed shares of the memory that index, log and a margin leave, in place of memory that follows the work. Leaf buffers have at most 1/22
/// of the device; what that leaves of their share nobody has.
///
/// # Examples
/// ```
/// use zonda::{MemoryShares, Options};
///
/// assert_eq!("1:3:4".parse::<MemoryShares>()?, MemoryShares::ZKV);
/// let options = Options::new().memory_shares(Some(MemoryShares::ZKV));
/// # Ok::<(), zonda::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryShares {
    /// Of the merged filter.
    pub filter: u32,
    /// Of leaf buffers.
    pub buffers: u32,
    /// Of pages on their way to the device and the read cache.
    pub flusher: u32,
}

impl MemoryShares {
    /// Those of the ZKV paper (section 4.1).
    pub const ZKV: Self = Self { filter: 1, buffers: 3, flusher: 4 };
}

impl FromStr for MemoryShares {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Option<Vec<u32>> = text.split(':').map(|part| part.parse().ok()).collect();
        match parts.as_deref() {
            Some(&[filter, buffers @ 1..=u32::MAX, flusher]) => Ok(Self { filter, buffers, flusher }),
            _ => Err(bad(
                "memory_shares",
                format!("{text:?} is not like 1:3:4, filter : buffers (at least 1) : flusher"),
            )),
        }
    }
}

/// How a store lies on its device; fixed at creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StoreKind {
    /// On zones that are written in order and reset as a whole.
    #[default]
    Zoned,
    /// In blocks that are overwritten: on a conventional drive, or in a file as such a drive would have it. A changed leaf goes to a free
    /// place and its old one is used again, so nothing is moved to make room for leaves.
    InPlace,
}

impl StoreKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Zoned, Self::InPlace];

    /// The name that [`FromStr`] knows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zoned => "zoned",
            Self::InPlace => "in-place",
        }
    }
}

impl FromStr for StoreKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| bad("store", format!("{name:?} is not one of {}", Self::ALL.map(Self::name).join(", "))))
    }
}

/// An option that cannot be, and why.
pub(crate) fn bad(name: &'static str, why: String) -> Error {
    Error::BadOption { name, why }
}

/// # Errors
/// `BadOption` for a number that is not in its range.
pub(crate) fn within(name: &'static str, value: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(bad(name, format!("{value} is not between {min} and {max}")))
}

/// # Errors
/// `BadOption` for a number that is no multiple.
pub(crate) fn multiple(name: &'static str, value: u64, of: u64) -> Result<()> {
    if value.is_multiple_of(of) { Ok(()) } else { Err(bad(name, format!("{value} is not a multiple of {of}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_name_the_known() {
        for design in Design::ALL {
            assert_eq!(design.name().parse::<Design>().unwrap(), design);
        }
        assert!("lsm".parse::<Design>().unwrap_err().to_string().contains("adb, btree"));
        for kind in StoreKind::ALL {
            assert_eq!(kind.name().parse::<StoreKind>().unwrap(), kind);
        }
        assert!("disk".parse::<StoreKind>().unwrap_err().to_string().contains("zoned, in-place"));
        assert!("fast".parse::<Durability>().unwrap_err().to_string().contains("buffered, synced"));
    }
}
