//! Split zones of a replay: their subzones, their tokens, and what happened to them.
//!
//! A subzone is a zone with a number behind those of the zones, as in a store. It holds one table: 1 it is empty -> 2 the table is
//! written to it -> 3 it is full, or the file is closed: finished, what is left of it wasted -> 4 nothing in it is live: it is reset
//! alone, at once as in the paper (a store does so with its next commit), at no copy. A zone with nothing but empty subzones is
//! joined. Cleaning never takes one for a victim.

use std::collections::BTreeMap;

use super::model::zone_id;
use crate::policy::{Refusals, SplitZoneView};

/// What a subzone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartState {
    Empty,
    Written,
    Full,
}

/// A subzone.
#[derive(Clone, Copy, Debug)]
struct Part {
    state: PartState,
    written: u64,
    live: u64,
}

/// A zone that is split.
#[derive(Clone, Debug)]
struct SplitZone {
    parts: Vec<Part>,
    /// Whether it holds a token.
    active: bool,
    /// When a subzone of it was last given out; a counter.
    used: u64,
}

/// What happened to subzones since the mark, or since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitReport {
    /// Tables that got a subzone.
    pub tables: u64,
    /// Bytes written to subzones.
    pub bytes: u64,
    /// Tables that the policy wanted in a subzone and that went into a wide zone, because none could be had.
    pub refused: Refusals,
    /// Times that a table got an empty subzone because there was no wide zone left for it.
    pub pressed: u64,
    /// Tables that cleaning moved out of wide zones into empty subzones.
    pub moved: u64,
    /// Tables that were longer than their subzone.
    pub overflowing: u64,
    /// Bytes of these that are in wide zones.
    pub overflow_bytes: u64,
    /// Bytes that tables left unwritten in their subzones.
    pub wasted_bytes: u64,
    /// Zones that were split.
    pub splits: u64,
    /// Split zones that were finished because tokens were short; not those that were full.
    pub finishes: u64,
    /// Subzones that were reset alone: the paper's MERGE.
    pub merges: u64,
    /// Split zones that became ordinary ones again: the paper's RESET.
    pub joins: u64,
    /// The most zones that were split at a time.
    pub split_zones_max: u64,
    /// Live bytes in subzones at the end.
    pub live_bytes: u64,
}

/// All split zones of a device.
#[derive(Clone, Debug)]
pub(super) struct SplitZones {
    /// Zones of the device: the number of the first subzone.
    first: usize,
    /// Subzones of a zone.
    count: usize,
    /// Bytes that a subzone holds.
    part_bytes: u64,
    zones: BTreeMap<usize, SplitZone>,
    used: u64,
    pub(super) counts: SplitReport,
}

impl SplitZones {
    pub(super) fn new(zones: usize, count: u32, zone_bytes: u64) -> Self {
        let (count, part_bytes) = (count.max(1) as usize, zone_bytes / u64::from(count.max(1)));
        Self { first: zones, count, part_bytes, zones: BTreeMap::new(), used: 0, counts: SplitReport::default() }
    }

    /// Counts anew.
    pub(super) fn forget(&mut self) {
        self.counts = SplitReport { split_zones_max: self.zones.len() as u64, ..SplitReport::default() };
    }

    /// Bytes that a subzone holds.
    pub(super) fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    /// Whether a number is that of a subzone.
    pub(super) fn is_subzone(&self, at: usize) -> bool {
        at >= self.first
    }

    /// Whether a zone is split.
    pub(super) fn is_split(&self, zone: usize) -> bool {
        self.zones.contains_key(&zone)
    }

    /// As the allocator sees them.
    pub(super) fn views(&self) -> Vec<SplitZoneView> {
        let view = |(zone, split): (&usize, &SplitZone)| SplitZoneView {
            zone: zone_id(*zone),
            full: split.count(PartState::Full),
            empty: split.count(PartState::Empty),
            written: split.count(PartState::Written),
            active: split.active,
            used: split.used,
        };
        self.zones.iter().map(view).collect()
    }

    /// Split zones that hold a token.
    pub(super) fn active(&self) -> usize {
        self.zones.values().filter(|split| split.active).count()
    }

    /// Zones that are split.
    pub(super) fn zones(&self) -> u64 {
        self.zones.len() as u64
    }

    /// Live bytes in all subzones.
    pub(super) fn live(&self) -> u64 {
        self.zones.values().flat_map(|split| &split.parts).map(|part| part.live).sum()
    }

    /// Bytes of a split zone that nobody wants.
    pub(super) fn invalid(&self, zone: usize) -> u64 {
        self.zones.get(&zone).map_or(0, |split| split.parts.iter().map(|part| part.written - part.live).sum())
    }

    /// An empty zone is split: the paper's SPLIT.
    pub(super) fn split(&mut self, zone: usize) {
        let part = Part { state: PartState::Empty, written: 0, live: 0 };
        let split = SplitZone { parts: vec![part; self.count], active: true, used: self.used };
        assert!(self.zones.insert(zone, split).is_none(), "zone {zone} is split already");
        self.counts.splits += 1;
        self.counts.split_zones_max = self.counts.split_zones_max.max(self.zones.len() as u64);
    }

    /// A split zone gives its token back: the paper's FINISH.
    pub(super) fn finish(&mut self, zone: usize) {
        let split = self.zones.get_mut(&zone).expect("the allocator chose a split zone");
        assert!(split.count(PartState::Written) == 0, "zone {zone} is finished while it is written");
        split.active = false;
        self.counts.finishes += 1;
    }

    /// Gives out an empty subzone of a zone, which takes a token if it has none.
    pub(super) fn take(&mut self, zone: usize) -> usize {
        self.used += 1;
        let split = self.zones.get_mut(&zone).expect("the allocator chose a split zone");
        let index = split.parts.iter().position(|part| part.state == PartState::Empty);
        let index = index.expect("the allocator chose a zone with an empty subzone");
        split.parts[index].state = PartState::Written;
        (split.active, split.used) = (true, self.used);
        self.first + zone * self.count + index
    }

    /// Writes what fits; returns how much.
    pub(super) fn write(&mut self, at: usize, bytes: u64) -> u64 {
        let part_bytes = self.part_bytes;
        let part = self.part(at);
        let bytes = bytes.min(part_bytes - part.written);
        part.written += bytes;
        part.live += bytes;
        if part.written == part_bytes {
            part.state = PartState::Full;
        }
        self.counts.bytes += bytes;
        bytes
    }

    /// Whether a subzone takes nothing more.
    pub(super) fn is_full(&self, at: usize) -> bool {
        let (zone, index) = self.place(at);
        self.zones.get(&zone).is_none_or(|split| split.parts[index].state == PartState::Full)
    }

    /// Its file is closed: what is left of it is wasted until the file is gone.
    pub(super) fn close(&mut self, at: usize) {
        let part_bytes = self.part_bytes;
        let part = self.part(at);
        if part.state != PartState::Written {
            return self.give_up_full(at);
        }
        let unwritten = part_bytes - part.written;
        (part.state, part.written) = (PartState::Full, part_bytes);
        let is_dead = part.live == 0;
        self.counts.wasted_bytes += unwritten;
        self.give_up_full(at);
        if is_dead {
            self.merge(at);
        }
    }

    /// A split zone of which all subzones are full gives its token back.
    fn give_up_full(&mut self, at: usize) {
        let (zone, _) = self.place(at);
        let split = self.zones.get_mut(&zone).expect("a subzone is of a split zone");
        split.active &= split.parts.iter().any(|part| part.state != PartState::Full);
    }

    /// Finishes the split zone that was used longest ago and in which nothing is written, for a wide zone, if another keeps its token.
    /// Returns whether there was one.
    pub(super) fn take_token(&mut self) -> bool {
        let is_idle = |split: &SplitZone| split.active && split.count(PartState::Written) == 0;
        let idle = self.zones.iter().filter(|(_, split)| is_idle(split)).min_by_key(|(_, split)| split.used);
        let Some(zone) = idle.map(|(zone, _)| *zone).filter(|_| self.active() > 1) else { return false };
        self.finish(zone);
        true
    }

    /// Bytes die; a subzone that is done and in which nothing is live is reset.
    pub(super) fn kill(&mut self, at: usize, bytes: u64) {
        let part = self.part(at);
        part.live -= bytes;
        if part.live == 0 && part.state == PartState::Full {
            self.merge(at);
        }
    }

    fn merge(&mut self, at: usize) {
        *self.part(at) = Part { state: PartState::Empty, written: 0, live: 0 };
        self.counts.merges += 1;
        let (zone, _) = self.place(at);
        if self.zones[&zone].parts.iter().all(|part| part.state == PartState::Empty) {
            self.zones.remove(&zone);
            self.counts.joins += 1;
        }
    }

    fn place(&self, at: usize) -> (usize, usize) {
        ((at - self.first) / self.count, (at - self.first) % self.count)
    }

    fn part(&mut self, at: usize) -> &mut Part {
        let (zone, index) = self.place(at);
        &mut self.zones.get_mut(&zone).expect("bytes of a subzone are of a split zone").parts[index]
    }
}

impl SplitZone {
    fn count(&self, state: PartState) -> u32 {
        let count = self.parts.iter().filter(|part| part.state == state).count();
        u32::try_from(count).expect("at most 1024 subzones")
    }
}
