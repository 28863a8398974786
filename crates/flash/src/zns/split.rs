//! Split zones on the flash: each subzone lies on one die (the paper says chip) of its zone's.
//!
//! What the SplitZNS paper adds to a drive, each part to be switched: the *chip allocator* (round robin, no chip twice in
//! a zone), the *SubZone Ring* ([`ring`]: writes are done when they are in memory, and flushed to all chips side by side),
//! the *Read Prefetcher* and the *Read Scheduler* ([`read`]). Without the ring a write to a subzone is done when its chip
//! has programmed it. States, limits and errors are those of the device that keeps the data.
mod read;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::zone::ZoneTiming;
use super::{Part, Purpose, ZonedModel};
use crate::core::{Class, Erase, HostWrite, Nanos, Program, RequestId};
use crate::model::{TOKEN_MAX, Ticket};
use read::Preread;
pub use read::{ReadCounts, ReadOrigin};
use ring::Ring;

/// What a drive that splits zones has. A zone has a subzone for each of its dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitShape {
    /// The ring's memory; 0: no ring.
    pub ring_bytes: u64,
    /// True if the ring survives a power cut; false is the paper's redo-log variant: a flush empties the ring, and the
    /// host deletes the inputs of a compaction after it.
    pub ring_durable: bool,
    /// Most bytes that are read ahead of each subzone; 0: nothing is.
    pub preread_bytes: u64,
    /// Bytes of a flash page, of one plane: reads that begin so near to the read pointer may be at it.
    pub page_bytes: u64,
    /// True if a read of a page or more that begins in the read pointer's page is at it, and a pointer in the first page has not left its
    /// start; by the paper's rule only a read at the very pointer is.
    pub near_reads: bool,
    /// True if a read of a subzone's first byte begins a new sequential pass; the paper's pointer goes back on reset only.
    pub restart_reads: bool,
    /// True if queries go before everything else on a chip; false: reads wait for their turn.
    pub queries_first: bool,
    /// True if what is still in the ring is read from there; false, to see what that is worth: it takes the time of a read from flash.
    pub ring_serves_reads: bool,
}

impl SplitShape {
    /// A read pointer that has come no farther has not left its start.
    fn start_bytes(&self) -> u64 {
        if self.near_reads { self.page_bytes } else { 0 }
    }
}

/// Memory that the parts take, as the paper's section 4.5.1 counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitMemory {
    /// The ring.
    pub ring_bytes: u64,
    /// Buffers of the prefetcher, for compactions of so many inputs side by side as the paper counts.
    pub preread_bytes: u64,
    /// Table from subzones to erase blocks, 8 bytes for each.
    pub table_bytes: u64,
}

/// Inputs of a compaction, and compactions side by side, in the paper: so many subzones have a buffer.
const PREREAD_SUBZONES: usize = 8 * 16;

/// What the ring and the reads of subzones did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitCounts {
    /// Reads, and how they were taken.
    pub reads: ReadCounts,
    /// Steps in which the ring was flushed.
    pub ring_steps: u64,
    /// Pages flushed in them: with full use, as many for each step as a zone has chips.
    pub ring_pages: u64,
    /// Writes that waited for room in the ring.
    pub ring_waits: u64,
}

/// One subzone.
#[derive(Debug, Default)]
struct Subzone {
    /// The chip, from its first write to its reset.
    chip: Option<u16>,
    /// How far it has come.
    timing: ZoneTiming,
    /// Bytes read in order from its start.
    read_pointer: u64,
    preread: Option<Preread>,
}

/// Zone and index.
type Id = (u32, u16);

/// All split zones.
#[derive(Debug)]
pub(super) struct Splits {
    shape: SplitShape,
    subzones: u16,
    subzone_bytes: u64,
    zones: HashMap<u32, Vec<Subzone>>,
    /// The chip allocator's counter.
    next_chip: u64,
    ring: Ring,
    /// Reads that wait for what is read ahead, by the tag of that.
    waiting: HashMap<u64, Vec<RequestId>>,
    /// Subzones that compactions are reading, so that the prefetcher need not look at all: no more than there are buffers.
    read_in_order: Vec<Id>,
    counts: SplitCounts,
    /// Erases of each block: by zone, then chip.
    wear: HashMap<u32, Vec<u32>>,
}

impl Splits {
    pub(super) fn new(shape: SplitShape, dies_per_zone: usize, zone_bytes: u64) -> Self {
        let subzones = u16::try_from(dies_per_zone).expect("a drive has fewer than 65,536 dies");
        Self {
            shape,
            subzones,
            subzone_bytes: zone_bytes / u64::from(subzones),
            zones: HashMap::new(),
            next_chip: 0,
            ring: Ring::new(dies_per_zone, shape.ring_bytes),
            waiting: HashMap::new(),
            read_in_order: Vec::new(),
            counts: SplitCounts::default(),
            wear: HashMap::new(),
        }
    }

    fn subzone(&mut self, (zone, index): Id) -> &mut Subzone {
        let count = usize::from(self.subzones);
        let subzones = self.zones.entry(zone).or_insert_with(|| (0..count).map(|_| Subzone::default()).collect());
        &mut subzones[usize::from(index)]
    }

    /// A subzone whose zone is split; what was begun for it may end after its zone was joined.
    fn find(&mut self, (zone, index): Id) -> Option<&mut Subzone> {
        self.zones.get_mut(&zone)?.get_mut(usize::from(index))
    }

    /// Forgets the subzones of a zone, and that compactions read them.
    fn forget(&mut self, zone: u32) {
        self.zones.remove(&zone);
        self.read_in_order.retain(|id| id.0 != zone);
    }

    /// A compaction reads a subzone. The one that was begun first makes room, with what was read ahead of it.
    fn note_in_order(&mut self, id: Id) {
        if self.read_in_order.contains(&id) {
            return;
        }
        if self.read_in_order.len() >= PREREAD_SUBZONES {
            let oldest = self.read_in_order.remove(0);
            self.subzone(oldest).preread = None;
        }
        self.read_in_order.push(id);
    }

    /// The chip of a subzone; one that has none takes the next that no other of its zone has.
    fn chip_of(&mut self, id: Id) -> u16 {
        if let Some(chip) = self.subzone(id).chip {
            return chip;
        }
        let chips = u64::from(self.subzones);
        loop {
            let chip = u16::try_from(self.next_chip % chips).expect("below the number of chips");
            self.next_chip += 1;
            if self.zones[&id.0].iter().all(|subzone| subzone.chip != Some(chip)) {
                self.subzone(id).chip = Some(chip);
                return chip;
            }
        }
    }
}

/// How often blocks were erased, since the model was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockWear {
    /// Of the block that was erased least.
    pub least: u64,
    /// Of the block that was erased most.
    pub most: u64,
    /// Of all blocks together.
    pub total: u64,
    /// Blocks: of a zone one on each chip.
    pub blocks: u64,
}

impl ZonedModel {
    fn splits(&mut self) -> &mut Splits {
        self.splits.as_mut().expect("commands on subzones come to drives that have them")
    }

    /// The die that is a chip of a zone.
    fn die_of_chip(&self, zone: u32, chip: u16) -> usize {
        let width = self.shape.dies_per_zone;
        let groups = self.core.shape().dies / width;
        zone as usize % groups * width + usize::from(chip)
    }

    /// The chip of a subzone, once it has one.
    #[must_use]
    pub fn chip_of_subzone(&self, zone: u32, index: u16) -> Option<u16> {
        self.splits.as_ref()?.zones.get(&zone)?.get(usize::from(index))?.chip
    }

    /// What ring, prefetcher and scheduler did.
    #[must_use]
    pub fn split_counts(&self) -> Option<SplitCounts> {
        self.splits.as_ref().map(|splits| splits.counts)
    }

    /// The memory they take.
    #[must_use]
    pub fn split_memory(&self) -> Option<SplitMemory> {
        let splits = self.splits.as_ref()?;
        Some(SplitMemory {
            ring_bytes: splits.shape.ring_bytes,
            preread_bytes: splits.shape.preread_bytes.saturating_mul(PREREAD_SUBZONES as u64),
            table_bytes: u64::from(self.shape.zones) * u64::from(splits.subzones) * 8,
        })
    }

    /// Times that the block of a zone on a chip was erased.
    #[must_use]
    pub fn block_wear(&self, zone: u32, chip: u16) -> u32 {
        let Some(splits) = &self.splits else { return self.wear(zone) };
        splits.wear.get(&zone).and_then(|chips| chips.get(usize::from(chip))).copied().unwrap_or(0)
    }

    /// Counts an erase of a zone's block on a die.
    pub(super) fn note_erase(&mut self, zone: u32, die: usize) {
        self.writes.erases += 1;
        let chips = self.shape.dies_per_zone;
        if let Some(splits) = &mut self.splits {
            splits.wear.entry(zone).or_insert_with(|| vec![0; chips])[die % chips] += 1;
        }
    }

    /// How often blocks were erased, over all of them.
    #[must_use]
    pub fn wear_of_blocks(&self) -> BlockWear {
        let chips = self.splits.as_ref().map_or(1, |splits| splits.subzones);
        let blocks = (0..self.shape.zones).flat_map(|zone| (0..chips).map(move |chip| (zone, chip)));
        let none = BlockWear { least: u64::MAX, ..BlockWear::default() };
        let all = blocks.fold(none, |all, (zone, chip)| {
            let wear = u64::from(self.block_wear(zone, chip));
            let BlockWear { least, most, total, blocks } = all;
            BlockWear { least: least.min(wear), most: most.max(wear), total: total + wear, blocks: blocks + 1 }
        });
        if all.blocks == 0 { BlockWear::default() } else { all }
    }

    /// Bytes of a subzone that are on flash, of those that are not all there.
    #[must_use]
    pub fn in_ring(&self) -> Vec<(u32, u16, u64)> {
        let Some(splits) = &self.splits else { return Vec::new() };
        let mut found: Vec<_> = splits
            .zones
            .iter()
            .flat_map(|(&zone, subzones)| (0..).zip(subzones).map(move |(index, subzone)| (zone, index, subzone)))
            .filter(|(_, _, subzone)| subzone.timing.on_flash() < subzone.timing.admitted())
            .map(|(zone, index, subzone)| (zone, index, subzone.timing.on_flash()))
            .collect();
        found.sort_unstable();
        found
    }

    /// Says that a subzone already holds so many bytes, all on flash.
    pub fn preset_subzone(&mut self, zone: u32, index: u16, written_bytes: u64, finished: bool) {
        let splits = self.splits();
        if written_bytes > 0 {
            splits.chip_of((zone, index));
        }
        splits.subzone((zone, index)).timing = ZoneTiming::holding(written_bytes, finished);
    }

    /// A zone is split: all its subzones are as after a reset.
    pub(super) fn split_zone(&mut self, now: Nanos, token: u64, zone: u32) -> RequestId {
        let splits = self.splits();
        splits.forget(zone);
        splits.subzone((zone, 0));
        self.core.delay(now, token, self.shape.open_ns)
    }

    /// A split zone is an ordinary one again.
    pub(super) fn join(&mut self, now: Nanos, token: u64, zone: u32) -> RequestId {
        self.splits().forget(zone);
        self.core.delay(now, token, self.shape.reset_empty_ns)
    }

    /// A write to a subzone: its first decides its chip.
    pub(super) fn append_subzone(&mut self, now: Nanos, token: u64, id: Id, bytes: u64) -> RequestId {
        self.splits().chip_of(id);
        let request = self.core.write(now, token, bytes, HostWrite::Append);
        self.aim(request, id.0, Part::Subzone(id.1))
    }

    /// A write to a subzone has left the front end: into the ring, or to its chip.
    pub(super) fn subzone_admitted(&mut self, at: Nanos, request: RequestId, id: Id, bytes: u64) {
        if self.splits().shape.ring_bytes > 0 {
            if !self.core.shape().early_ack {
                self.core.expect_programs(request, 1);
            }
            return self.ring_takes(at, request, id, bytes);
        }
        let unit = self.shape.unit_bytes;
        let timing = &mut self.splits().subzone(id).timing;
        timing.admit(bytes);
        let (from, end) = (timing.dispatched(), timing.admitted());
        let waits = (!self.core.shape().early_ack).then_some(request);
        // With a buffer whole units are programmed, else all of it.
        let end = if waits.is_some() || end >= self.splits().subzone_bytes { end } else { end / unit * unit };
        if let Some(request) = waits {
            self.core.expect_programs(request, u32::try_from(end.div_ceil(unit) - from / unit).unwrap_or(u32::MAX));
        }
        self.program_subzone(at, id, end, waits);
    }

    /// Programs what a subzone holds up to `end`, unit by unit.
    fn program_subzone(&mut self, at: Nanos, id: Id, end: u64, for_write: Option<RequestId>) {
        let unit = self.shape.unit_bytes;
        loop {
            let from = self.splits().subzone(id).timing.dispatched();
            if from >= end {
                return;
            }
            self.program_page(at, id, end.min((from / unit + 1) * unit), for_write);
        }
    }

    /// Brings to flash what waits for the rest of its unit, and what is in the ring.
    pub(super) fn drain_subzones(&mut self, at: Nanos) {
        let Some(splits) = &self.splits else { return };
        if splits.shape.ring_bytes > 0 {
            return self.drain_ring(at);
        }
        for (zone, index, _) in self.in_ring() {
            let end = self.splits().subzone((zone, index)).timing.admitted();
            self.program_subzone(at, (zone, index), end, None);
        }
    }

    /// Programs one unit of a subzone, or what there is of it, up to `to`.
    fn program_page(&mut self, at: Nanos, id: Id, to: u64, for_write: Option<RequestId>) {
        let chip = self.splits().chip_of(id);
        let timing = &mut self.splits().subzone(id).timing;
        let bytes = to - timing.dispatched();
        let cycle = timing.dispatch(to);
        let tag = self.tag(Purpose::SubzoneUnit { id, cycle, end: to, bytes });
        self.writes.host_bytes += bytes;
        self.programs_in_flight += 1;
        let die = self.die_of_chip(id.0, chip);
        self.core.program(at, &Program { die, bytes, buffer_bytes: bytes, class: Class::Host, tag, for_write });
    }

    /// A program of a subzone is done.
    pub(super) fn subzone_programmed(&mut self, at: Nanos, id: Id, (cycle, end, bytes): (u32, u64, u64)) {
        if let Some(subzone) = self.splits().find(id) {
            subzone.timing.programmed(cycle, end);
        }
        if self.splits().shape.ring_bytes > 0 {
            self.ring_flushed(at, bytes);
        }
    }

    /// The host has finished a subzone: what is left of its last unit goes to flash.
    pub(super) fn finish_subzone(&mut self, now: Nanos, token: u64, id: Id) -> RequestId {
        if self.splits().shape.ring_bytes > 0 {
            self.ring_takes_rest(id);
        } else {
            let end = self.splits().subzone(id).timing.admitted();
            self.program_subzone(now, id, end, None);
        }
        self.splits().subzone(id).timing.finish();
        self.core.delay(now, token, self.shape.finish_empty_ns)
    }

    /// The power is gone and back, with nothing in flight: what was in the ring is on flash if capacitors wrote it, else it is lost, and
    /// subzones that lost some are not finished any more. Nobody knows what was read.
    pub fn lose_power(&mut self) {
        let Some(splits) = &mut self.splits else { return };
        let durable = splits.shape.ring_durable || splits.shape.ring_bytes == 0;
        for subzone in splits.zones.values_mut().flatten() {
            let timing = &subzone.timing;
            let (kept, finished) = (if durable { timing.admitted() } else { timing.on_flash() }, timing.is_finished());
            self.core.release_buffer(timing.admitted() - timing.dispatched());
            subzone.timing.hold(kept, finished && kept == timing.admitted());
            (subzone.read_pointer, subzone.preread) = (0, None);
        }
        splits.read_in_order.clear();
        splits.ring.forget();
    }

    /// Erases a subzone's block, on its chip alone, if anything of it left memory.
    pub(super) fn reset_subzone(&mut self, now: Nanos, token: u64, id: Id) -> Ticket {
        let Some(chip) = self.splits().subzone(id).chip else {
            // Nothing was written; it may have been read all the same.
            let subzone = self.splits().subzone(id);
            subzone.timing.reset();
            subzone.read_pointer = 0;
            return Ticket::Request(self.core.delay(now, token, self.shape.reset_empty_ns));
        };
        let was_programmed = self.splits().subzone(id).timing.dispatched() > 0;
        let dropped = self.splits().subzone(id).timing.reset();
        self.core.release_buffer(dropped);
        self.ring_drops(now, id, dropped);
        let splits = self.splits();
        splits.read_in_order.retain(|&other| other != id);
        let subzone = splits.subzone(id);
        (subzone.chip, subzone.read_pointer, subzone.preread) = (None, 0, None);
        if !was_programmed {
            return Ticket::Request(self.core.delay(now, token, self.shape.reset_base_ns));
        }
        let job = self.jobs.begin(token, now, 2);
        self.core.delay(now, TOKEN_MAX + job, self.shape.reset_base_ns);
        let tag = self.tag(Purpose::Job(job));
        let (die, cell_ns) = (self.die_of_chip(id.0, chip), self.core.shape().erase_ns);
        self.note_erase(id.0, die);
        self.core.erase(now, &Erase { die, cell_ns, class: Class::Host, tag });
        Ticket::Job
    }
}
