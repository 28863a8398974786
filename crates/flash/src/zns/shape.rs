//! A zoned drive in numbers.
use crate::core::Nanos;

/// How zones lie on the flash and what managing them costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonedShape {
    /// Bytes from zone to zone.
    pub zone_size_bytes: u64,
    /// Writable bytes of a zone.
    pub zone_capacity_bytes: u64,
    /// Zones.
    pub zones: u32,
    /// Dies that a zone is striped over: all for large zones, few for small ones. A divisor of the number of dies.
    pub dies_per_zone: usize,
    /// Bytes programmed at once on one die.
    pub unit_bytes: u64,
    /// Bytes sensed at once: one page of every plane.
    pub sense_bytes: u64,
    /// True if what is in the write buffer survives a power cut: a flush costs `flush_ns` only.
    pub durable_buffer: bool,
    /// A flush with a durable buffer.
    pub flush_ns: Nanos,
    /// Opening a zone.
    pub open_ns: Nanos,
    /// Closing a zone.
    pub close_ns: Nanos,
    /// Reporting zones.
    pub report_ns: Nanos,
    /// Resetting an empty zone.
    pub reset_empty_ns: Nanos,
    /// Resetting a written zone, whatever is in it.
    pub reset_base_ns: Nanos,
    /// What a reset costs more for a full zone; in proportion for others.
    pub reset_occupancy_ns: Nanos,
    /// What a reset costs more for a zone that was written in part and not finished.
    pub reset_unfinished_ns: Nanos,
    /// True where a zone is one erase block of each of its dies: a reset erases those in which something is, each in full. Else the
    /// erase on every die, too, is in proportion to what is written: so were drives measured of whose blocks nothing is known.
    pub reset_erases_blocks: bool,
    /// Finishing an empty zone.
    pub finish_empty_ns: Nanos,
    /// Least that finishing a written zone costs.
    pub finish_min_ns: Nanos,
    /// True if finishing programs what is left of a zone; else the drive only remembers that it is full.
    pub finish_pads: bool,
    /// On drives that split zones.
    pub split: Option<super::SplitShape>,
}
