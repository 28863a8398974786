//! A conventional drive in numbers.
use serde::Deserialize;

use crate::core::Nanos;

/// Which block is collected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The one with the least live data.
    Greedy,
    /// The one with the best of freed space times age over cost.
    CostBenefit,
}

/// Free superblocks that the host may not take: collection needs them to go on.
pub(super) const FOR_COLLECTION: usize = 2;

/// How the translation layer maps, places and collects.
///
/// A *superblock* is one erase block of every plane of every die: filled from die to die in program units, and erased as
/// a whole. A *slot* is room for one mapping unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConventionalShape {
    /// Bytes that the host sees.
    pub logical_bytes: u64,
    /// Bytes of a superblock.
    pub superblock_bytes: u64,
    /// Superblocks that can be used.
    pub superblocks: usize,
    /// Bytes programmed at once on one die.
    pub unit_bytes: u64,
    /// Bytes sensed at once.
    pub sense_bytes: u64,
    /// Bytes of a mapping unit.
    pub map_bytes: u64,
    /// Streams of the host, or placement ids: each fills its own superblock.
    pub streams: u32,
    /// True if collection fills superblocks of its own, false if it goes on in the host's first stream.
    pub separate_collection: bool,
    /// Whom it collects.
    pub policy: Policy,
    /// Collection runs while fewer superblocks are free; at least 3.
    pub collect_below: usize,
    /// While the host is idle, it runs while fewer are free.
    pub background_below: usize,
    /// Reads and programs of collection in flight when only superblocks that it needs itself are free.
    pub collect_depth: u32,
    /// The same when one superblock less is free than collection waits for; between the two it grows with what is missing, so
    /// that collection is as hard as the host makes it need to be. As `collect_depth`: always all of it.
    pub collect_depth_min: u32,
    /// True if what is in the write buffer survives a power cut.
    pub durable_buffer: bool,
    /// A flush with nothing to wait for.
    pub flush_ns: Nanos,
}

/// Slots are numbered with 32 bits, and one number stands for none.
const SLOTS_MAX: u64 = u32::MAX as u64 - 1;

impl ConventionalShape {
    /// Whether a drive can be made of it.
    ///
    /// # Errors
    /// The first number that does not fit the others.
    pub fn check(&self) -> Result<(), String> {
        let Self { superblock_bytes, superblocks, unit_bytes, map_bytes, streams, collect_below, .. } = *self;
        if map_bytes == 0 || !unit_bytes.is_multiple_of(map_bytes) {
            return Err(format!(
                "map_bytes is {map_bytes}: a program unit of {unit_bytes} bytes holds whole mapping units"
            ));
        }
        if !superblock_bytes.is_multiple_of(unit_bytes) {
            return Err(format!("a superblock of {superblock_bytes} bytes holds whole units of {unit_bytes}"));
        }
        if collect_below <= FOR_COLLECTION {
            return Err(format!(
                "collect_below is {collect_below}: the host waits at {FOR_COLLECTION} free superblocks, before collection begins"
            ));
        }
        if superblocks <= collect_below.saturating_add(streams as usize) {
            return Err(format!(
                "{superblocks} superblocks are too few for {streams} streams and a collect_below of {collect_below}"
            ));
        }
        let slots = superblock_bytes / map_bytes;
        let all = superblocks as u64 * slots;
        if all > SLOTS_MAX {
            return Err(format!("{all} mapping units are too many: use larger ones or a scale"));
        }
        // Of those that are sealed when the host waits for a superblock, one at least has something dead in it.
        let sealed = superblocks - FOR_COLLECTION - streams.max(1) as usize;
        if self.logical_units() >= sealed as u64 * slots {
            let bytes = self.logical_bytes;
            return Err(format!(
                "{bytes} bytes of the host in {superblocks} superblocks of {superblock_bytes}: too few are left for {streams} streams and \
                 for collection"
            ));
        }
        Ok(())
    }

    /// Bytes of flash that hold data.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.superblocks as u64 * self.superblock_bytes
    }

    /// Reads and programs that collection may have in flight while `free` superblocks are free or being erased.
    #[must_use]
    pub fn collect_depth_at(&self, free: usize) -> u32 {
        let steps = self.collect_below.saturating_sub(1 + FOR_COLLECTION).max(1);
        let missing = self.collect_below.saturating_sub(1 + free).min(steps);
        let more = u64::from(self.collect_depth.saturating_sub(self.collect_depth_min)) * missing as u64 / steps as u64;
        self.collect_depth_min + u32::try_from(more).unwrap_or(u32::MAX)
    }

    /// Slots of a superblock.
    #[must_use]
    pub fn slots_per_block(&self) -> u64 {
        self.superblock_bytes / self.map_bytes
    }

    /// Slots of a program unit.
    #[must_use]
    pub fn slots_per_unit(&self) -> u64 {
        self.unit_bytes / self.map_bytes
    }

    /// Mapping units of the host; of the last one it may see a part only.
    #[must_use]
    pub fn logical_units(&self) -> u64 {
        self.logical_bytes.div_ceil(self.map_bytes)
    }

    /// Bytes of the mapping table, at 4 bytes for each mapping unit: what such a drive needs DRAM for.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.logical_units() * 4
    }
}
