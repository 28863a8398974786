//! Reads of subzones: from the ring, from what was read ahead, or from flash; as a query or as part of a compaction.
//!
//! A read at a subzone's read pointer is taken for part of a compaction, which reads a table in order, once; any other for
//! a query. A compaction's read moves the pointer on, and makes other chips read ahead for other compactions: on each chip
//! for one subzone whose pointer has left its start and of which nothing is read ahead. Queries go first on their chip.
//!
//! Beyond the paper, unless the drive keeps to its rule ([`near_reads`](super::SplitShape::near_reads)): a read of a flash page or more
//! that begins in the pointer's page is at the pointer, too, and only beyond the first page has it left its start; because hosts have
//! something of their own (our stores a block) before a subzone's table.
pub use zonda_device::ReadOrigin;

use super::{Id, Purpose, ZonedModel};
use crate::core::{Class, Nanos, ReadPart};
use crate::model::Ticket;

/// How reads of subzones were taken, and what answered them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Taken for parts of compactions.
    pub in_order: u64,
    /// Taken for queries.
    pub queries: u64,
    /// Of those whose origin the host told: taken for what they were.
    pub told_right: u64,
    /// Of those: taken for the other.
    pub told_wrong: u64,
    /// Bytes that were still in the ring.
    pub ring_bytes: u64,
    /// Reads answered from what was read ahead, or on its way, at least the first part of them.
    pub preread_hits: u64,
    /// Bytes answered so.
    pub preread_hit_bytes: u64,
    /// Stretches read ahead.
    pub prereads: u64,
}

/// What is read ahead of a subzone: an operation for each program unit, as of any read, so that queries come between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preread {
    start: u64,
    end: u64,
    /// Up to where it has come; the units of a subzone come in order.
    there: u64,
    /// Tag of the operation that brings the first unit. The others have those behind it.
    first_tag: u64,
}

/// What a read gets of what is read ahead.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Where it ends.
    end: u64,
    /// The operation that brings the last of it; `None` if all is there.
    tag: Option<u64>,
}

/// Reads of a stretch of a subzone, one for each program unit, and where in the subzone each ends.
fn by_units(
    (unit, sense): (u64, u64),
    (from, to): (u64, u64),
    (die, in_order): (usize, bool),
) -> impl Iterator<Item = (u64, ReadPart)> {
    let mut at = from;
    std::iter::from_fn(move || {
        if at >= to {
            return None;
        }
        let end = to.min((at / unit + 1) * unit);
        let senses = u32::try_from(end.div_ceil(sense) - at / sense).unwrap_or(u32::MAX);
        let part = ReadPart { die, senses, bytes: end - at, in_order };
        at = end;
        Some((end, part))
    })
}

impl ZonedModel {
    /// True if a zone's subzones are known here, so that reads of it go their way.
    pub(in crate::zns) fn is_split(&self, zone: u32) -> bool {
        self.splits.as_ref().is_some_and(|splits| splits.zones.contains_key(&zone))
    }

    /// A read of a split zone.
    pub(in crate::zns) fn read_split(
        &mut self,
        now: Nanos,
        token: u64,
        (zone, offset, bytes): (u32, u64, u64),
        origin: Option<ReadOrigin>,
    ) -> Ticket {
        let subzone_bytes = self.splits().subzone_bytes;
        let index = u16::try_from(offset / subzone_bytes).unwrap_or(u16::MAX).min(self.splits().subzones - 1);
        let id = (zone, index);
        let (from, to) = (offset % subzone_bytes, (offset % subzone_bytes + bytes).min(subzone_bytes));
        let in_order = self.take_read(id, from, to, origin);
        let ahead = if in_order { self.take_preread(id, from, to) } else { None };
        let mut parts = Vec::new();
        let is_first = !in_order && self.splits().shape.queries_first;
        let waits = self.core.shape().reads_in_order && !is_first;
        self.subzone_parts(id, (ahead.map_or(from, |ahead| ahead.end), to), waits, &mut parts);
        // A read may go on in the next subzones.
        let mut rest = bytes - (to - from);
        for next in index + 1..self.splits().subzones {
            let end = rest.min(subzone_bytes);
            self.subzone_parts((zone, next), (0, end), waits, &mut parts);
            rest -= end;
        }
        if in_order && !parts.is_empty() {
            self.read_ahead(now, id);
        }
        if let Some(tag) = ahead.and_then(|ahead| ahead.tag) {
            return self.wait_for_preread(now, (token, bytes), &parts, tag);
        }
        Ticket::Request(self.core.read(now, token, &parts, bytes))
    }

    /// A read waits for its beginning, which was asked for before; what is not read ahead of it is asked for now.
    fn wait_for_preread(&mut self, now: Nanos, (token, bytes): (u64, u64), rest: &[ReadPart], tag: u64) -> Ticket {
        let request = self.core.read(now, token, rest, bytes);
        self.core.expect_programs(request, 1);
        self.splits().waiting.entry(tag).or_default().push(request);
        Ticket::Request(request)
    }

    /// Takes a read for one of a compaction or a query, and moves the read pointer.
    fn take_read(&mut self, id: Id, from: u64, to: u64, origin: Option<ReadOrigin>) -> bool {
        let splits = self.splits();
        let (shape, page) = (splits.shape, splits.shape.page_bytes);
        let has_a_page = to - from >= page;
        let restarts = shape.restart_reads && (from == 0 || (from < page && has_a_page));
        let subzone = splits.subzone(id);
        let is_near = shape.near_reads && has_a_page && from / page == subzone.read_pointer / page;
        let goes_on = from == subzone.read_pointer || is_near;
        let in_order = goes_on || restarts;
        if in_order {
            subzone.read_pointer = to;
            if !goes_on {
                // Another pass: what the last one left is of use to it only if it comes next.
                subzone.preread = subzone.preread.filter(|ahead| (ahead.start..ahead.end).contains(&to));
            }
            // In an empty one there is nothing to read ahead.
            if to > shape.start_bytes() && subzone.timing.admitted() > 0 {
                splits.note_in_order(id);
            }
        }
        let counts = &mut splits.counts.reads;
        *(if in_order { &mut counts.in_order } else { &mut counts.queries }) += 1;
        match origin {
            Some(origin) if (origin == ReadOrigin::Compaction) == in_order => counts.told_right += 1,
            Some(_) => counts.told_wrong += 1,
            None => {}
        }
        in_order
    }

    /// What was read ahead of a read's beginning; a stretch that is used up, but for less than a page, makes room for the next.
    fn take_preread(&mut self, id: Id, from: u64, to: u64) -> Option<Ahead> {
        let unit = self.shape.unit_bytes;
        let splits = self.splits();
        let page = splits.shape.page_bytes;
        let preread = splits.subzone(id).preread?;
        if to + page > preread.end {
            splits.subzone(id).preread = None;
        }
        if from < preread.start || from >= preread.end {
            return None;
        }
        let end = to.min(preread.end);
        splits.counts.reads.preread_hits += 1;
        splits.counts.reads.preread_hit_bytes += end - from;
        let last_unit = (end - 1) / unit - preread.start / unit;
        Some(Ahead { end, tag: (end > preread.there).then_some(preread.first_tag + last_unit) })
    }

    /// What is read ahead has come up to `end`.
    pub(in crate::zns) fn preread_done(&mut self, tag: u64, id: Id, end: u64) {
        let splits = self.splits();
        let preread = splits.find(id).and_then(|subzone| subzone.preread.as_mut());
        // What was read ahead before, and given up, has older tags.
        if let Some(preread) = preread.filter(|preread| tag >= preread.first_tag) {
            preread.there = end;
        }
        for request in splits.waiting.remove(&tag).unwrap_or_default() {
            self.core.release(request);
        }
    }

    /// Die reads for what is on flash of a stretch of a subzone, unit by unit; the rest is in the ring, or nowhere.
    fn subzone_parts(&mut self, id: Id, (from, to): (u64, u64), in_order: bool, parts: &mut Vec<ReadPart>) {
        let sizes = (self.shape.unit_bytes, self.shape.sense_bytes);
        let splits = self.splits();
        let from_ring = splits.shape.ring_serves_reads;
        let subzone = splits.subzone(id);
        let Some(chip) = subzone.chip else { return };
        let (on_flash, written) = (subzone.timing.on_flash(), subzone.timing.admitted());
        splits.counts.reads.ring_bytes += to.min(written).saturating_sub(from.max(on_flash));
        let die = self.die_of_chip(id.0, chip);
        let end = to.min(if from_ring { on_flash } else { written });
        parts.extend(by_units(sizes, (from, end), (die, in_order)).map(|(_, part)| part));
    }

    /// Makes every other chip read ahead for one subzone that is read in order.
    fn read_ahead(&mut self, now: Nanos, reader: Id) {
        let bytes = self.splits().shape.preread_bytes;
        if bytes == 0 {
            return;
        }
        let zone_chip =
            |model: &mut Self, id: Id| model.splits().subzone(id).chip.map(|chip| model.die_of_chip(id.0, chip));
        let mut busy = vec![zone_chip(self, reader)];
        let start_bytes = self.splits().shape.start_bytes();
        for at in 0..self.splits().read_in_order.len() {
            let id = self.splits().read_in_order[at];
            let die = zone_chip(self, id);
            let subzone = self.splits().subzone(id);
            let (start, on_flash) = (subzone.read_pointer, subzone.timing.on_flash());
            if busy.contains(&die) || subzone.preread.is_some() || start <= start_bytes || start >= on_flash {
                continue;
            }
            let Some(die_number) = die else { continue };
            busy.push(die);
            self.ask_ahead(now, id, die_number, (start, on_flash.min(start + bytes)));
        }
        self.forget_read();
    }

    /// Reads a stretch of a subzone ahead.
    fn ask_ahead(&mut self, now: Nanos, id: Id, die: usize, (start, end): (u64, u64)) {
        let first_tag = self.tags + 1;
        self.splits().subzone(id).preread = Some(Preread { start, end, there: start, first_tag });
        self.splits().counts.reads.prereads += 1;
        let sizes = (self.shape.unit_bytes, self.shape.sense_bytes);
        for (end, part) in by_units(sizes, (start, end), (die, self.core.shape().reads_in_order)) {
            let tag = self.tag(Purpose::Preread { id, end });
            self.core.collect(now, &part, Class::Host, tag);
        }
    }

    /// Subzones that were read to their ends are no candidates any more.
    fn forget_read(&mut self) {
        let bytes_max = self.splits().subzone_bytes;
        let mut ids = std::mem::take(&mut self.splits().read_in_order);
        ids.retain(|&id| {
            let subzone = self.splits().subzone(id);
            let is_whole = subzone.timing.is_finished() || subzone.timing.admitted() >= bytes_max;
            subzone.read_pointer < subzone.timing.admitted() || !is_whole
        });
        self.splits().read_in_order = ids;
    }
}
