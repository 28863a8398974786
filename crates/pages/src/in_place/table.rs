//! The table of segments: what each holds, who gets a free one, and where the next pages go. Memory only.
//!
//! Life of a segment: 1 free -> 2 of pages or of an area, with a new generation -> 1. A segment of pages is free again when all its
//! slots are; one of an area when it is reset ([`super::reclaim`]). *Lost*: its header could not be written.
//!
//! Where pages go: each heat fills the holes of one segment from its beginning to its end, so that neighbours in time are
//! neighbours on the device and leave in one write. The next segment is the one with the most holes, if they make up a quarter of it;
//! else a free one, while more than the low water of them are spare; else the one with the most holes all the same.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use zonda_rt::atomic::{AtomicU64, Ordering};

use super::layout::{Layout, SegmentIndex};
use super::run::Run;
use super::slots::Slots;
use crate::reserve::{FOREGROUND_FLOOR, GAIN_FLOOR, RELOCATION_FLOOR, Reserve};
use crate::stream::Claim;
use crate::{AreaKind, BLOCK_BYTES, Heat, PageAddress};

/// A segment is worth going to for its holes if one block in this many is free.
const WORTHWHILE_SHARE: u64 = 4;

/// Generations by segment, 0 = free; read without a lock by whoever holds an address there alive.
pub(crate) type Generations = Arc<[AtomicU64]>;

/// What a segment holds.
#[derive(Debug)]
pub(crate) enum Content {
    Free,
    Pages(Slots),
    Area(Run),
    Lost,
}

/// A segment of pages whose header is not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unwritten {
    pub(crate) segment: SegmentIndex,
    pub(crate) generation: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cursor {
    segment: SegmentIndex,
    next: u64,
}

/// All segments of a store.
pub(crate) struct Table {
    layout: Layout,
    reserve: Reserve,
    contents: Vec<Content>,
    generations: Generations,
    last_generation: u64,
    /// The lowest goes first, so that a sparse file stays short.
    free: BTreeSet<SegmentIndex>,
    /// Segments of pages in which nothing is left, until they are [given](Self::give): nobody writes there, so that they can be trimmed.
    emptied: Vec<SegmentIndex>,
    /// Segments of log, MetaLog and values that are not free.
    held: [u32; 3],
    /// Those of them that are not released.
    kept: [u32; 3],
    cursors: [Option<Cursor>; 3],
    open_areas: [Option<SegmentIndex>; 3],
    unwritten: Vec<Unwritten>,
    /// Segments that take no pages: reclaim empties them.
    closed: HashSet<SegmentIndex>,
    /// Free blocks of segments of pages that are not closed.
    hole_blocks: u64,
    slots_bytes: u64,
}

impl Table {
    /// All free.
    pub(crate) fn new(layout: Layout, reserve: Reserve) -> Self {
        let segments = layout.segments() as usize;
        Self {
            layout,
            reserve,
            contents: (0..segments).map(|_| Content::Free).collect(),
            emptied: Vec::new(),
            generations: (0..segments).map(|_| AtomicU64::new(0)).collect(),
            last_generation: 0,
            free: layout.all().collect(),
            held: [0; 3],
            kept: [0; 3],
            cursors: [None; 3],
            open_areas: [None; 3],
            unwritten: Vec::new(),
            closed: HashSet::new(),
            hole_blocks: 0,
            slots_bytes: 0,
        }
    }

    /// The generations, for readers.
    pub(crate) fn generations(&self) -> Generations {
        Arc::clone(&self.generations)
    }

    pub(crate) fn content(&self, segment: SegmentIndex) -> &Content {
        &self.contents[segment.index()]
    }

    pub(crate) fn generation(&self, segment: SegmentIndex) -> u64 {
        self.generations[segment.index()].load(Ordering::Relaxed)
    }

    /// Segments with nothing in them.
    pub(crate) fn free_segments(&self) -> u32 {
        u32::try_from(self.free.len()).expect("as many as segments")
    }

    /// Free segments beyond those that log and MetaLog are still entitled to.
    pub(crate) fn spare_segments(&self) -> u32 {
        let log = self.reserve.log_zones.saturating_sub(self.held[area_index(AreaKind::Log)]);
        let meta = self.reserve.meta_zones.saturating_sub(self.held[area_index(AreaKind::Meta)]);
        self.free_segments().saturating_sub(log + meta)
    }

    /// Segments that pages or areas fill at the moment.
    pub(crate) fn open_segments(&self) -> u32 {
        let cursors: BTreeSet<_> = self.cursors.iter().flatten().map(|cursor| cursor.segment).collect();
        let open = cursors.len() + self.open_areas.iter().flatten().count();
        u32::try_from(open).expect("at most six")
    }

    /// Blocks that foreground pages can still take.
    pub(crate) fn room_blocks(&self) -> u64 {
        let spare = self.spare_segments().saturating_sub(FOREGROUND_FLOOR);
        self.hole_blocks + u64::from(spare) * self.layout.data_blocks_min()
    }

    /// Free blocks of segments that take pages.
    pub(crate) fn hole_blocks(&self) -> u64 {
        self.hole_blocks
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        // Generation, and the count of writes that stands beside the table.
        let entry = size_of::<Content>() + 2 * size_of::<AtomicU64>() + 2 * size_of::<SegmentIndex>();
        self.contents.len() as u64 * entry as u64 + self.slots_bytes
    }

    /// Takes blocks for pages of these lengths: all or none.
    pub(crate) fn take(&mut self, heat: Heat, lengths: &[u64], claim: Claim) -> Option<Vec<PageAddress>> {
        let mut taken = Vec::with_capacity(lengths.len());
        for &blocks in lengths {
            match self.take_one(heat_index(heat), blocks, claim) {
                Some(at) => taken.push(at),
                None => {
                    taken.into_iter().for_each(|at| self.give_back(at));
                    return None;
                }
            }
        }
        Some(taken)
    }

    fn take_one(&mut self, cursor: usize, blocks: u64, claim: Claim) -> Option<PageAddress> {
        let here = self.cursors[cursor].and_then(|at| Some((at.segment, self.find(at, blocks)?)));
        let (segment, offset) = match here {
            Some(found) => found,
            None => {
                let segment = self.next_segment(blocks, claim)?;
                (segment, self.find(Cursor { segment, next: 0 }, blocks)?)
            }
        };
        self.cursors[cursor] = Some(Cursor { segment, next: offset + blocks });
        let at = self.layout.first(segment) + offset;
        let took = self.slots_mut(segment)?.take(offset, blocks);
        assert!(took, "free blocks were just found");
        self.hole_blocks -= blocks;
        Some(PageAddress::new(at, blocks))
    }

    fn find(&self, at: Cursor, blocks: u64) -> Option<u64> {
        match self.content(at.segment) {
            Content::Pages(slots) if !self.closed.contains(&at.segment) => slots.find(at.next, blocks),
            _ => None,
        }
    }

    /// Blocks that were taken and never written.
    fn give_back(&mut self, at: PageAddress) {
        let (segment, offset) = self.locate(at).expect("taken here");
        let slots = self.slots_mut(segment).expect("of pages");
        slots.release(offset, at.blocks());
        slots.free(offset, at.blocks());
        self.hole_blocks += at.blocks();
    }

    fn next_segment(&mut self, blocks: u64, claim: Claim) -> Option<SegmentIndex> {
        let most = self.most_holes(blocks);
        let worthwhile =
            |&(segment, holes): &(SegmentIndex, u64)| holes * WORTHWHILE_SHARE >= self.layout.data_blocks(segment);
        if let Some((segment, _)) = most.filter(worthwhile) {
            return Some(segment);
        }
        if (self.has_plenty() || most.is_none()) && self.may_open(claim) {
            return self.open_pages();
        }
        most.map(|(segment, _)| segment)
    }

    /// The segment with the most holes that has one of `blocks`. Cost: one pass over the table.
    fn most_holes(&self, blocks: u64) -> Option<(SegmentIndex, u64)> {
        let holes = |segment: SegmentIndex| match self.content(segment) {
            Content::Pages(slots) if slots.free_blocks() >= blocks && !self.closed.contains(&segment) => {
                (blocks == 1 || slots.find(0, blocks).is_some()).then(|| (segment, slots.free_blocks()))
            }
            _ => None,
        };
        self.layout.all().filter_map(holes).max_by_key(|&(segment, holes)| (holes, std::cmp::Reverse(segment)))
    }

    /// Whether somebody may take a free segment.
    pub(crate) fn may_open(&self, claim: Claim) -> bool {
        match claim {
            Claim::Foreground => self.spare_segments() > FOREGROUND_FLOOR,
            Claim::Gain => self.spare_segments() > GAIN_FLOOR,
            Claim::Relocation | Claim::Rescue => self.spare_segments() > RELOCATION_FLOOR,
            Claim::Record => !self.free.is_empty(),
        }
    }

    fn open_pages(&mut self) -> Option<SegmentIndex> {
        let segment = self.free.pop_first()?;
        let generation = self.next_generation();
        self.begin_pages(segment, generation);
        self.unwritten.push(Unwritten { segment, generation });
        Some(segment)
    }

    fn begin_pages(&mut self, segment: SegmentIndex, generation: u64) {
        let slots = Slots::new(self.layout.data_blocks(segment));
        self.slots_bytes += slots.bytes();
        self.hole_blocks += slots.free_blocks();
        self.set(segment, generation, Content::Pages(slots));
    }

    /// A free segment for an area, with its generation; it is the area's open one then. The caller writes its header.
    pub(crate) fn open_area(&mut self, kind: AreaKind, claim: Claim) -> Option<Unwritten> {
        let segment = self.may_open(claim).then(|| self.free.pop_first()).flatten()?;
        let generation = self.next_generation();
        self.begin_area(segment, generation, Run::new(kind, self.layout.first(segment)));
        self.open_areas[area_index(kind)] = Some(segment);
        Some(Unwritten { segment, generation })
    }

    fn begin_area(&mut self, segment: SegmentIndex, generation: u64, run: Run) {
        self.held[area_index(run.kind())] += 1;
        self.kept[area_index(run.kind())] += 1;
        self.set(segment, generation, Content::Area(run));
    }

    fn next_generation(&mut self) -> u64 {
        self.last_generation += 1;
        self.last_generation
    }

    fn set(&mut self, segment: SegmentIndex, generation: u64, content: Content) {
        self.contents[segment.index()] = content;
        self.generations[segment.index()].store(generation, Ordering::Release);
    }

    /// The last generation of an earlier life, as far as its headers tell. At most one unknown one per segment was given out after its
    /// last flush: these are passed over.
    pub(crate) fn restore_generation(&mut self, highest: u64) {
        self.last_generation = highest + u64::from(self.layout.segments());
    }

    /// Takes over a segment of an earlier life. Pages in it are adopted one by one.
    pub(crate) fn restore(&mut self, segment: SegmentIndex, generation: u64, run: Option<Run>) {
        self.free.remove(&segment);
        match run {
            Some(run) => self.begin_area(segment, generation, run),
            None => self.begin_pages(segment, generation),
        }
    }

    /// Appends to the area of a restored segment again.
    pub(crate) fn go_on(&mut self, segment: SegmentIndex, kind: AreaKind) {
        if let Some(run) = self.run_mut(segment) {
            run.go_on();
            self.open_areas[area_index(kind)] = Some(segment);
        }
    }

    /// A page that recovery found live; `false` if its blocks are another's, or not in a segment of pages.
    pub(crate) fn adopt(&mut self, at: PageAddress) -> bool {
        let Some((segment, offset)) = self.locate(at) else { return false };
        if self.free.remove(&segment) {
            // Its header is damaged: what lies there must not be overwritten (I3).
            self.set(segment, 0, Content::Lost);
        }
        let adopted = self.slots_mut(segment).is_some_and(|slots| slots.take(offset, at.blocks()));
        if adopted {
            self.hole_blocks -= at.blocks();
        }
        adopted
    }

    /// Gives segments of pages back in which recovery found nothing live.
    pub(crate) fn free_unused(&mut self) {
        for segment in self.layout.all() {
            self.empty_if_unused(segment);
        }
        self.take_emptied().into_iter().for_each(|segment| self.give(segment));
    }

    /// A live page is superseded; `false` if there is none at `at`.
    pub(crate) fn release(&mut self, at: PageAddress) -> bool {
        let Some((segment, offset)) = self.locate(at) else { return false };
        self.slots_mut(segment).is_some_and(|slots| slots.release(offset, at.blocks()))
    }

    /// A superseded page's blocks may be reused. The segment is [emptied](Self::take_emptied) when all its blocks are free.
    pub(crate) fn free(&mut self, at: PageAddress) {
        let (segment, offset) = self.locate(at).expect("released here");
        self.slots_mut(segment).expect("of pages").free(offset, at.blocks());
        if !self.closed.contains(&segment) {
            self.hole_blocks += at.blocks();
        }
        self.empty_if_unused(segment);
    }

    fn empty_if_unused(&mut self, segment: SegmentIndex) {
        let Content::Pages(slots) = self.content(segment) else { return };
        if slots.free_blocks() < self.layout.data_blocks(segment) {
            return;
        }
        self.slots_bytes -= slots.bytes();
        if !self.closed.remove(&segment) {
            self.hole_blocks -= self.layout.data_blocks(segment);
        }
        for cursor in &mut self.cursors {
            cursor.take_if(|cursor| cursor.segment == segment);
        }
        self.set(segment, 0, Content::Free);
        self.emptied.push(segment);
    }

    /// Segments in which nothing is left: the caller gives each.
    pub(crate) fn take_emptied(&mut self) -> Vec<SegmentIndex> {
        std::mem::take(&mut self.emptied)
    }

    /// An emptied segment is free.
    pub(crate) fn give(&mut self, segment: SegmentIndex) {
        self.free.insert(segment);
    }

    /// Whether so many segments are free that a free one need not be filled again soon.
    pub(crate) fn has_plenty(&self) -> bool {
        self.spare_segments() > self.reserve.low_water
    }

    /// The segment takes no pages any more: it is being emptied.
    pub(crate) fn close(&mut self, segment: SegmentIndex) {
        if let Content::Pages(slots) = self.content(segment) {
            let holes = slots.free_blocks();
            if self.closed.insert(segment) {
                self.hole_blocks -= holes;
            }
        }
    }

    /// It does again.
    pub(crate) fn reopen(&mut self, segment: SegmentIndex) {
        if self.closed.remove(&segment)
            && let Content::Pages(slots) = self.content(segment)
        {
            self.hole_blocks += slots.free_blocks();
        }
    }

    /// Whether the next pages go there.
    pub(crate) fn is_filling(&self, segment: SegmentIndex) -> bool {
        self.cursors.iter().flatten().any(|cursor| cursor.segment == segment)
    }

    pub(crate) fn is_closed(&self, segment: SegmentIndex) -> bool {
        self.closed.contains(&segment)
    }

    /// Headers of segments of pages that must be written before what lies in them is durable.
    pub(crate) fn take_unwritten(&mut self) -> Vec<Unwritten> {
        std::mem::take(&mut self.unwritten)
    }

    /// Whether the header of a segment of pages is still to be written.
    pub(crate) fn is_unwritten(&self, segment: SegmentIndex) -> bool {
        self.unwritten.iter().any(|new| new.segment == segment)
    }

    /// They could not be written.
    pub(crate) fn put_unwritten(&mut self, headers: impl IntoIterator<Item = Unwritten>) {
        self.unwritten.extend(headers);
    }

    /// The open segment of an area.
    pub(crate) fn open_run(&mut self, kind: AreaKind) -> Option<(SegmentIndex, &mut Run)> {
        let segment = self.open_areas[area_index(kind)]?;
        Some((segment, self.run_mut(segment)?))
    }

    /// The area has no open segment any more.
    pub(crate) fn seal(&mut self, kind: AreaKind) -> Option<SegmentIndex> {
        let (segment, run) = self.open_run(kind)?;
        run.seal();
        self.open_areas[area_index(kind)] = None;
        Some(segment)
    }

    /// The area in a segment, if it still is the one of this generation.
    pub(crate) fn run_mut_of(&mut self, segment: SegmentIndex, generation: u64) -> Option<&mut Run> {
        if self.generation(segment) == generation { self.run_mut(segment) } else { None }
    }

    pub(crate) fn run_mut(&mut self, segment: SegmentIndex) -> Option<&mut Run> {
        match &mut self.contents[segment.index()] {
            Content::Area(run) => Some(run),
            _ => None,
        }
    }

    fn slots_mut(&mut self, segment: SegmentIndex) -> Option<&mut Slots> {
        match &mut self.contents[segment.index()] {
            Content::Pages(slots) => Some(slots),
            _ => None,
        }
    }

    /// Nobody needs a segment of an area any more: it waits for its reset.
    pub(crate) fn release_area(&mut self, segment: SegmentIndex) {
        let Some(run) = self.run_mut(segment).filter(|run| !run.is_released()) else { return };
        run.release();
        let area = area_index(run.kind());
        self.kept[area] -= 1;
    }

    /// Segments of log and of MetaLog that are not released.
    pub(crate) fn kept_records(&self) -> (u32, u32) {
        (self.kept[area_index(AreaKind::Log)], self.kept[area_index(AreaKind::Meta)])
    }

    /// A segment of an area may be used for something else.
    pub(crate) fn reset(&mut self, segment: SegmentIndex) {
        self.leave_area(segment);
        self.set(segment, 0, Content::Free);
        self.free.insert(segment);
    }

    /// A segment whose header cannot be written is not used again in this life.
    pub(crate) fn lose(&mut self, segment: SegmentIndex) {
        self.leave_area(segment);
        self.close(segment);
        if matches!(self.content(segment), Content::Area(_)) {
            self.set(segment, 0, Content::Lost);
        }
    }

    fn leave_area(&mut self, segment: SegmentIndex) {
        let Content::Area(run) = self.content(segment) else { return };
        let area = area_index(run.kind());
        self.kept[area] -= u32::from(!run.is_released());
        self.held[area] -= 1;
        self.open_areas[area].take_if(|open| *open == segment);
    }

    /// Bytes of lost segments.
    pub(crate) fn lost_bytes(&self) -> u64 {
        let lost = |segment: &SegmentIndex| matches!(self.content(*segment), Content::Lost);
        self.layout.all().filter(lost).map(|segment| self.layout.data_blocks(segment)).sum::<u64>() * BLOCK_BYTES as u64
    }

    /// Segment and offset of a page.
    fn locate(&self, at: PageAddress) -> Option<(SegmentIndex, u64)> {
        let segment = self.layout.segment_of(at.block(), at.blocks())?;
        Some((segment, at.block() - self.layout.first(segment)))
    }
}

/// The place of an area in arrays.
pub(crate) fn area_index(kind: AreaKind) -> usize {
    match kind {
        AreaKind::Log => 0,
        AreaKind::Meta => 1,
        AreaKind::Values => 2,
    }
}

fn heat_index(heat: Heat) -> usize {
    match heat {
        Heat::Hot => 0,
        Heat::Cold => 1,
        Heat::Relocated => 2,
    }
}
