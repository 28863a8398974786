//! The contract of drives that can split a zone into subzones, as SplitZNS proposes.
use std::fmt::Debug;

use crate::{Lba, Result, ZoneId, ZoneState};

/// For what somebody reads, where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrigin {
    /// Somebody waits for a value.
    Query,
    /// A compaction reads a table in order.
    Compaction,
}

/// A subzone: a part of a split zone that lies on one chip and is written and reset alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubzoneId {
    /// The split zone.
    pub zone: ZoneId,
    /// Which of its subzones, from 0.
    pub index: u16,
}

/// What a drive says of a subzone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubzoneReport {
    /// The subzone.
    pub id: SubzoneId,
    /// `Empty`, `ImplicitOpen` or `Full`; `ReadOnly` or `Offline` if it can never be written again.
    pub state: ZoneState,
    /// Its first block: subzones lie one behind the other from the start of their zone.
    pub start: Lba,
    /// Next block to write; `None` if it is full, or can never be written again.
    pub write_pointer: Option<Lba>,
    /// The chip that holds it; known from its first write to its reset.
    pub chip: Option<u16>,
}

/// Zones that can be split: [`ZonedDevice::split_zones`](crate::ZonedDevice::split_zones) gives it where a drive can.
///
/// Life cycle of a split zone: 1 an empty zone -> 2 [`split`](Self::split): open, all its subzones empty; it holds one open
/// and one active resource, whatever its subzones do -> 3 [`finish`](Self::finish): inactive; a write to an empty subzone
/// takes the resources again, and fails with `TooManyActive` or `TooManyOpen` if there are none -> 4
/// [`join`](Self::join): an ordinary empty zone. Of a subzone: empty -> written in order -> full, at its end or by
/// [`finish_subzone`](Self::finish_subzone) -> empty, by [`reset_subzone`](Self::reset_subzone).
///
/// Reads, flushes and durability are those of the device: a subzone's blocks are blocks of its zone. The rules of writing
/// (I1) hold for each subzone instead of the zone. Ordinary commands on a split zone answer `InvalidTransition`.
///
/// A split zone that is lost as a whole is read-only or offline in the report of its zone, whatever is said of its subzones: it holds no
/// resources any more, and the commands here fail on it.
pub trait SplitZones: Send + Sync + Debug {
    /// Subzones of a split zone.
    fn subzones(&self) -> u16;

    /// Blocks of a subzone.
    fn subzone_blocks(&self) -> u64;

    /// Makes a split zone of an empty one.
    ///
    /// # Errors
    /// `InvalidTransition` unless it is empty; `TooManyActive`, `TooManyOpen`.
    fn split(&self, zone: ZoneId) -> Result<()>;

    /// All subzones of a split zone, in their order.
    ///
    /// # Errors
    /// `InvalidTransition` if it is not split; `Offline` from one that is lost as a whole.
    fn report_subzones(&self, zone: ZoneId) -> Result<Vec<SubzoneReport>>;

    /// Writes whole blocks at the write pointer of a subzone. Its first write decides its chip.
    ///
    /// # Errors
    /// As [`ZonedDevice::append`](crate::ZonedDevice::append).
    fn append_subzone(&self, subzone: SubzoneId, from: &[u8]) -> Result<Lba>;

    /// Makes a subzone full where it stands.
    ///
    /// # Errors
    /// `InvalidTransition` from read-only or offline.
    fn finish_subzone(&self, subzone: SubzoneId) -> Result<()>;

    /// Empties a subzone: an erase on its chip alone. The paper calls it MERGE.
    ///
    /// # Errors
    /// `InvalidTransition` from read-only or offline.
    fn reset_subzone(&self, subzone: SubzoneId) -> Result<()>;

    /// Gives the resources of a split zone back.
    ///
    /// # Errors
    /// `InvalidTransition` unless all its subzones are empty or full.
    fn finish(&self, zone: ZoneId) -> Result<()>;

    /// Makes an ordinary empty zone of a split one.
    ///
    /// # Errors
    /// `InvalidTransition` unless all its subzones are empty.
    fn join(&self, zone: ZoneId) -> Result<()>;
}
