//! Runs of bytes in mapped segments, for what comes and goes with the work.
//!
//! Memory that an allocator gives to pages or buffers of a few KiB comes back full of holes, between which small things of every kind lie:
//! no budget counts them, and a process that was told 22 MiB held 35 (I6). Segments from here go back to the system whole, and free pages
//! of those that are in use when there are many.
//!
//! Unsafe code: pointers into segments, for those who keep what is not bytes there, and the call that gives free pages of a segment back.

use std::ptr::NonNull;

use crate::huge_pages::prefer_small_pages;
use crate::{MappedBytes, discard_memory};

/// Runs are multiples of this.
const CELL_STEP_BYTES: usize = 256;
/// What the system hands out.
pub(crate) const SYSTEM_PAGE_BYTES: usize = 4096;

/// A run that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedCell {
    segment: u32,
    unit: u32,
    units: u32,
}

impl MappedCell {
    /// The number of its segment.
    #[must_use]
    pub fn segment(self) -> u32 {
        self.segment
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.units as usize * CELL_STEP_BYTES
    }

    fn range(self) -> std::ops::Range<usize> {
        let start = self.unit as usize * CELL_STEP_BYTES;
        start..start + self.bytes()
    }
}

/// Units of one page of the system, and a bit for each.
const PAGE_UNITS: usize = SYSTEM_PAGE_BYTES / CELL_STEP_BYTES;
const PAGE_MASK: u64 = (1 << PAGE_UNITS) - 1;

/// Mapped memory, and which of its units are taken: a bit for each.
struct Segment {
    memory: MappedBytes,
    taken: Box<[u64]>,
    free: u32,
    /// No free run is longer: where none is long enough, nobody searches twice.
    longest: u32,
    /// Pages that the system has until a run takes them: all of them at first.
    discarded: Box<[bool]>,
}

/// Segments, and runs in them: the first that is long enough is taken, from where a run was last taken or given back, so that each search
/// looks at as many segments as there are at the most. Memory overhead: a bit for 256 bytes. Always: `bytes` is the sum of the segments'
/// lengths, `taken` that of the runs in use, `discarded` that of their pages that the system has.
#[derive(Default)]
pub struct MappedCells {
    segments: Vec<Option<Segment>>,
    /// Where the next search begins.
    next: usize,
    bytes: usize,
    taken: usize,
    discarded: usize,
}

impl MappedCells {
    /// What the system was asked for, with pages that it has for now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Pages that runs touch or touched and that the system does not have back.
    #[must_use]
    pub fn resident_bytes(&self) -> usize {
        self.bytes - self.discarded
    }

    /// What runs in use take.
    #[must_use]
    pub fn taken_bytes(&self) -> usize {
        self.taken
    }

    /// What nobody uses and the system does not have back.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        self.resident_bytes() - self.taken
    }

    /// A free run of `bytes` rounded up to whole units; `None` if there is none.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> Option<MappedCell> {
        self.take_within(bytes, usize::MAX)
    }

    /// As [`take`](Self::take) one with which [`resident_bytes`](Self::resident_bytes) are at most so many.
    #[must_use]
    pub fn take_within(&mut self, bytes: usize, resident_bytes_max: usize) -> Option<MappedCell> {
        let units = units_of(bytes);
        let more_bytes_max = resident_bytes_max.checked_sub(self.resident_bytes())?;
        let count = self.segments.len();
        let places = (0..count).map(|step| (self.next + step) % count);
        for place in places {
            let Some(segment) = self.segments[place].as_mut().filter(|segment| segment.longest >= units) else {
                continue;
            };
            let number = u32::try_from(place).expect("segments are few");
            if let Some(unit) = segment.find(units, more_bytes_max) {
                self.next = place;
                let cell = MappedCell { segment: number, unit, units };
                segment.take(cell);
                self.taken += cell.bytes();
                self.discarded -= segment.hold(cell);
                return Some(cell);
            }
        }
        None
    }

    /// Maps one more segment, of `segment_bytes` or, if that is more, as a run of `bytes` needs; `false` if the system has no memory.
    pub fn grow(&mut self, bytes: usize, segment_bytes: usize) -> bool {
        let length = segment_bytes.max(bytes).next_multiple_of(SYSTEM_PAGE_BYTES);
        let Some(memory) = MappedBytes::new(length) else { return false };
        // It is counted by pages of 4 KiB.
        prefer_small_pages(memory.start(), length);
        self.bytes += memory.len();
        self.discarded += memory.len();
        let place = self.segments.iter().position(Option::is_none).unwrap_or(self.segments.len());
        if place == self.segments.len() {
            self.segments.push(None);
        }
        self.segments[place] = Some(Segment::new(memory));
        self.next = place;
        true
    }

    /// Gives a run back; the next search begins there.
    pub fn give(&mut self, cell: MappedCell) {
        self.taken -= cell.bytes();
        self.next = cell.segment as usize;
        self.segment(cell.segment).give(cell);
    }

    /// Gives back to the system what a segment has free: its memory if all of it is free, its free pages if more than `idle_bytes_max` of
    /// all segments' memory is idle. Costs a call of the system, if there is something to be given back, and a look at each page of the
    /// segment.
    pub fn release(&mut self, segment: u32, idle_bytes_max: usize) {
        let is_idle = self.idle_bytes() > idle_bytes_max;
        let place = &mut self.segments[segment as usize];
        if let Some(free) = place.take_if(|segment| segment.is_free()) {
            self.bytes -= free.memory.len();
            self.discarded -= free.discarded_bytes();
        } else if let Some(used) = place.as_mut().filter(|_| is_idle) {
            self.discarded += used.discard_free_pages();
        }
    }

    /// Where a run begins. It stays there until it is given back.
    #[must_use]
    pub fn start(&self, cell: MappedCell) -> NonNull<u8> {
        let segment = self.segments[cell.segment as usize].as_ref().expect("a taken cell's segment is mapped");
        // SAFETY: the run lies within the segment.
        unsafe { segment.memory.start().add(cell.range().start) }
    }

    /// The run of `bytes` of segment `segment` that begins at `at`.
    #[must_use]
    pub fn run_at(&self, segment: u32, at: NonNull<u8>, bytes: usize) -> MappedCell {
        let start = self.segments[segment as usize].as_ref().expect("a taken cell's segment is mapped").memory.start();
        let unit = units_of(at.addr().get() - start.addr().get());
        MappedCell { segment, unit, units: units_of(bytes) }
    }

    fn segment(&mut self, segment: u32) -> &mut Segment {
        self.segments[segment as usize].as_mut().expect("a taken cell's segment is mapped")
    }
}

impl Segment {
    fn new(memory: MappedBytes) -> Self {
        let units = units_of(memory.len());
        let taken = vec![0; units.div_ceil(u64::BITS) as usize].into();
        let discarded = vec![true; memory.len() / SYSTEM_PAGE_BYTES].into();
        Self { memory, taken, free: units, longest: units, discarded }
    }

    fn discarded_bytes(&self) -> usize {
        self.discarded.iter().filter(|discarded| **discarded).count() * SYSTEM_PAGE_BYTES
    }

    /// A run that is in use from now on holds its pages again. How many bytes of them the system had.
    fn hold(&mut self, cell: MappedCell) -> usize {
        self.discarded[pages_of(cell.unit, cell.units)]
            .iter_mut()
            .map(|page| usize::from(std::mem::take(page)) * SYSTEM_PAGE_BYTES)
            .sum()
    }

    /// What of a run the system has.
    fn bytes_to_hold(&self, unit: u32, units: u32) -> usize {
        self.discarded[pages_of(unit, units)].iter().filter(|discarded| **discarded).count() * SYSTEM_PAGE_BYTES
    }

    fn is_page_free(&self, page: usize) -> bool {
        let unit = page * PAGE_UNITS;
        self.taken[unit / u64::BITS as usize] >> (unit % u64::BITS as usize) & PAGE_MASK == 0
    }

    /// Gives all free pages back to the system that it does not have yet. How many bytes these are.
    fn discard_free_pages(&mut self) -> usize {
        let mut bytes = 0;
        let mut page = 0;
        while page < self.discarded.len() {
            let first = page;
            while page < self.discarded.len() && !self.discarded[page] && self.is_page_free(page) {
                self.discarded[page] = true;
                page += 1;
            }
            let run_bytes = (page - first) * SYSTEM_PAGE_BYTES;
            if run_bytes == 0 {
                page += 1;
                continue;
            }
            // SAFETY: the pages lie within the segment, which is ours, and no run has any byte of them; whoever takes one finds initialised
            // memory, zero or not.
            unsafe { discard_memory(self.memory.start().add(first * SYSTEM_PAGE_BYTES), run_bytes) };
            bytes += run_bytes;
        }
        bytes
    }

    fn units(&self) -> u32 {
        units_of(self.memory.len())
    }

    fn is_free(&self) -> bool {
        self.free == self.units()
    }

    /// Where the first free run of so many units begins that holds at most so many bytes more than now.
    fn find(&mut self, units: u32, more_bytes_max: usize) -> Option<u32> {
        let (mut from, mut longest) = (0, 0);
        while let Some(unit) = self.first_from(from, false) {
            let end = self.first_from(unit, true).unwrap_or_else(|| self.units());
            if end - unit >= units && self.bytes_to_hold(unit, units) <= more_bytes_max {
                return Some(unit);
            }
            longest = longest.max(end - unit);
            from = end;
        }
        self.longest = longest;
        None
    }

    fn take(&mut self, cell: MappedCell) {
        self.mark(cell.unit, cell.units, true);
        self.free -= cell.units;
    }

    fn give(&mut self, cell: MappedCell) {
        self.mark(cell.unit, cell.units, false);
        self.free += cell.units;
        self.longest = self.free;
    }

    /// The first unit from `from` on that is taken, or free.
    fn first_from(&self, from: u32, is_taken: bool) -> Option<u32> {
        let mut unit = from;
        while unit < self.units() {
            let word = self.taken[(unit / u64::BITS) as usize];
            let wanted = if is_taken { word } else { !word } >> (unit % u64::BITS);
            if wanted != 0 {
                return Some(unit + wanted.trailing_zeros()).filter(|unit| *unit < self.units());
            }
            unit = (unit / u64::BITS + 1) * u64::BITS;
        }
        None
    }

    fn mark(&mut self, unit: u32, units: u32, is_taken: bool) {
        for unit in unit..unit + units {
            let bit = 1 << (unit % u64::BITS);
            let word = &mut self.taken[(unit / u64::BITS) as usize];
            *word = if is_taken { *word | bit } else { *word & !bit };
        }
    }
}

/// Pages of the system that have a part of a run.
fn pages_of(unit: u32, units: u32) -> std::ops::Range<usize> {
    unit as usize / PAGE_UNITS..((unit + units) as usize).div_ceil(PAGE_UNITS)
}

fn units_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(CELL_STEP_BYTES)).expect("segments are small")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::Seed;

    use super::*;

    /// What a run holds.
    fn content(cells: &mut MappedCells, cell: MappedCell) -> &mut [u8] {
        // SAFETY: a taken run of mapped memory, which nobody else looks at.
        unsafe { std::slice::from_raw_parts_mut(cells.start(cell).as_ptr(), cell.bytes()) }
    }

    /// Runs of random lengths come and go; none overlaps another, and all memory is found again.
    #[test]
    fn runs_keep_what_they_hold_and_free_ones_join() {
        const SEGMENT_BYTES: usize = 32 << 10;
        let mut rng = Seed(11).rng();
        let mut cells = MappedCells::default();
        let mut held: BTreeMap<u64, (MappedCell, u8)> = BTreeMap::new();
        for step in 0..20_000_u64 {
            let bytes = 1 + usize::try_from(rng.next_u64() % 5_000).unwrap();
            let taken = cells.take(bytes).or_else(|| {
                let grown = cells.held_bytes() < 3 * SEGMENT_BYTES && cells.grow(bytes, SEGMENT_BYTES);
                grown.then(|| cells.take(bytes)).flatten()
            });
            if let Some(cell) = taken {
                assert!(cell.bytes() >= bytes && cell.bytes() < bytes + CELL_STEP_BYTES);
                let byte = rng.next_u64().to_le_bytes()[0];
                content(&mut cells, cell).fill(byte);
                held.insert(step, (cell, byte));
            } else {
                let nth = usize::try_from(rng.next_u64() % held.len() as u64).unwrap();
                let key = *held.keys().nth(nth).unwrap();
                let (cell, byte) = held.remove(&key).unwrap();
                assert!(content(&mut cells, cell).iter().all(|held| *held == byte), "step {step}");
                cells.give(cell);
                if step.is_multiple_of(3) {
                    cells.release(cell.segment(), SEGMENT_BYTES / 4);
                }
            }
            assert!(cells.held_bytes() <= 3 * SEGMENT_BYTES);
            let discarded = cells.segments.iter().flatten().map(Segment::discarded_bytes).sum::<usize>();
            assert_eq!(cells.idle_bytes(), cells.held_bytes() - cells.taken_bytes() - discarded);
        }
        assert!(held.len() > 20, "{} runs", held.len());
        for (cell, byte) in held.into_values() {
            assert!(content(&mut cells, cell).iter().all(|held| *held == byte));
            let start = cells.start(cell);
            assert_eq!(cells.run_at(cell.segment(), start, cell.bytes()), cell);
            cells.give(cell);
            cells.release(cell.segment(), 0);
        }
        assert_eq!((cells.held_bytes(), cells.taken_bytes(), cells.idle_bytes()), (0, 0, 0));
    }

    #[test]
    fn free_pages_of_a_segment_in_use_go_back_when_there_are_many() {
        const PAGES: usize = 16;
        let mut cells = MappedCells::default();
        assert!(cells.grow(1, PAGES * SYSTEM_PAGE_BYTES));
        let runs: Vec<_> = (0..PAGES / 2).map(|_| cells.take(2 * SYSTEM_PAGE_BYTES).expect("room")).collect();
        runs.iter().for_each(|&run| content(&mut cells, run).fill(7));
        for &run in &runs[1..] {
            cells.give(run);
            cells.release(run.segment(), 5 * SYSTEM_PAGE_BYTES);
        }
        assert!(cells.idle_bytes() <= 5 * SYSTEM_PAGE_BYTES, "{} bytes idle", cells.idle_bytes());
        assert!(content(&mut cells, runs[0]).iter().all(|byte| *byte == 7), "what is in use stays");
        // A run in the middle of what was given back holds its pages, and those alone.
        let before = cells.idle_bytes();
        let long = cells.take(7 * SYSTEM_PAGE_BYTES + 1).expect("room");
        content(&mut cells, long).fill(9);
        cells.give(long);
        assert!(cells.idle_bytes() > before);
        cells.release(long.segment(), 0);
        assert_eq!(cells.idle_bytes(), 0);
    }

    #[test]
    fn a_run_longer_than_a_segment_has_one_of_its_own() {
        let mut cells = MappedCells::default();
        assert!(cells.take(1).is_none() && cells.grow(40 << 10, 4 << 10));
        let cell = cells.take(40 << 10).unwrap();
        assert_eq!((cell.bytes(), cells.held_bytes()), (40 << 10, 40 << 10));
        cells.release(cell.segment(), 0);
        assert!(cells.take(1).is_none() && cells.held_bytes() > 0, "a segment in use stays");
    }
}
