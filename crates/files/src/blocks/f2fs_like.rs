//! A model of how f2fs places the data of files.
//!
//! The device is segments of 2 MiB. Three logs take segments and fill them in order: hot, warm and cold data, by the expected
//! lifetime, as f2fs takes RocksDB's hints; what cleaning moves is cold. (The other three logs of f2fs are of nodes: what they
//! hold is in the journal and the zones in front of these blocks.) While more than a few segments are free each log opens a free
//! one when its own is full. Below that the logs write into the *slack* of used segments instead, that of the emptiest first, and
//! cleaning empties the segment with the fewest live blocks. The last free segments are left to what is moved until there is
//! nothing else.

use std::collections::BTreeSet;

use super::{Allocator, Run, Want};
use crate::Lifetime;

/// Blocks of a segment of 2 MiB.
const SEGMENT_BLOCKS: u64 = 512;
const WORDS: usize = (SEGMENT_BLOCKS / 64) as usize;
const LOGS: usize = 3;
/// Free segments below which new data goes into slack, in permille of all; as f2fs's over-provisioned segments, 2 at least.
const SHORT_PERMILLE: usize = 20;

/// Segments, and which of their blocks somebody has.
#[derive(Debug)]
pub(crate) struct F2fsLike {
    segments: Vec<Segment>,
    /// The segment that each log fills, and the next block in it. With slack there is no such.
    open: [Option<(usize, u64)>; LOGS],
    /// Segments with nothing in them that no log fills.
    empty: BTreeSet<usize>,
    emptied: Option<usize>,
    free: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    used: [u64; WORDS],
    count: u64,
    /// Blocks that it has: the last one may be short.
    blocks: u64,
    is_open: bool,
}

impl Segment {
    fn has(&self, block: u64) -> bool {
        let at = usize::try_from(block).expect("within a segment");
        self.used[at / 64] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, blocks: std::ops::Range<u64>, used: bool) {
        self.count =
            if used { self.count + (blocks.end - blocks.start) } else { self.count - (blocks.end - blocks.start) };
        for block in blocks {
            let at = usize::try_from(block).expect("within a segment");
            let bit = 1 << (at % 64);
            if used { self.used[at / 64] |= bit } else { self.used[at / 64] &= !bit }
        }
    }

    /// Its first run of at most `blocks_max` free blocks.
    fn slack(&self, blocks_max: u64) -> Option<(u64, u64)> {
        let first = (0..self.blocks).find(|block| !self.has(*block))?;
        let end = (first..self.blocks.min(first + blocks_max)).find(|block| self.has(*block));
        Some((first, end.unwrap_or(self.blocks.min(first + blocks_max)) - first))
    }
}

impl F2fsLike {
    /// All blocks are free.
    pub(crate) fn new(blocks: u64) -> Self {
        let count = blocks.div_ceil(SEGMENT_BLOCKS);
        let segment = |segment| {
            let blocks = SEGMENT_BLOCKS.min(blocks - segment * SEGMENT_BLOCKS);
            Segment { used: [0; WORDS], count: 0, blocks, is_open: false }
        };
        let segments: Vec<Segment> = (0..count).map(segment).collect();
        let empty = (0..segments.len()).collect();
        Self { segments, open: [None; LOGS], empty, emptied: None, free: blocks }
    }

    fn short_below(&self) -> usize {
        (self.segments.len() * SHORT_PERMILLE / 1000).max(2)
    }

    fn log_of(want: &Want) -> usize {
        match want.lifetime {
            _ if want.is_moved => 2,
            Lifetime::Short => 0,
            Lifetime::NotSet | Lifetime::None | Lifetime::Medium | Lifetime::Long => 1,
            Lifetime::Extreme => 2,
        }
    }

    /// In the log's own segment, or a free one that it opens.
    fn in_log(&mut self, log: usize, want: &Want) -> Option<Run> {
        let kept = if want.is_moved { 0 } else { self.short_below() };
        let (segment, next) = match self.open[log] {
            Some(open) => open,
            None if self.empty.len() > kept => self.open_empty()?,
            None => return None,
        };
        let blocks = want.blocks.min(self.segments[segment].blocks - next);
        self.segments[segment].set(next..next + blocks, true);
        let end = next + blocks;
        let is_full = end == self.segments[segment].blocks;
        self.segments[segment].is_open = !is_full;
        self.open[log] = (!is_full).then_some((segment, end));
        Some(self.given(segment, next, blocks))
    }

    fn open_empty(&mut self) -> Option<(usize, u64)> {
        let segment = self.empty.pop_first()?;
        self.segments[segment].is_open = true;
        Some((segment, 0))
    }

    /// In the slack of the emptiest segment that no log fills; free segments are left alone.
    fn in_slack(&mut self, want: &Want) -> Option<Run> {
        let may = |(number, segment): &(usize, &Segment)| {
            let has_slack = segment.count > 0 && segment.count < segment.blocks;
            has_slack && !segment.is_open && self.emptied != Some(*number)
        };
        let (segment, _) = self.segments.iter().enumerate().filter(may).min_by_key(|(_, segment)| segment.count)?;
        let (first, blocks) = self.segments[segment].slack(want.blocks)?;
        self.segments[segment].set(first..first + blocks, true);
        Some(self.given(segment, first, blocks))
    }

    /// What is left in open segments of other logs, or in the last free ones: when there is nothing else.
    fn anywhere(&mut self, want: &Want) -> Option<Run> {
        let other = (0..LOGS).find(|&log| self.open[log].is_some());
        if let Some(log) = other {
            return self.in_log(log, want);
        }
        let moved = Want { is_moved: true, ..*want };
        self.in_log(Self::log_of(want), &moved)
    }

    fn given(&mut self, segment: usize, first: u64, blocks: u64) -> Run {
        self.free -= blocks;
        Run { first: segment as u64 * SEGMENT_BLOCKS + first, blocks }
    }

    fn place_of(run: Run) -> (usize, std::ops::Range<u64>) {
        let first = run.first % SEGMENT_BLOCKS;
        (usize::try_from(run.first / SEGMENT_BLOCKS).expect("a segment in memory"), first..first + run.blocks)
    }
}

impl Allocator for F2fsLike {
    fn group_blocks(&self) -> u64 {
        SEGMENT_BLOCKS
    }

    fn free_blocks(&self) -> u64 {
        self.free
    }

    fn used_in(&self, group: u64) -> u64 {
        let segment = usize::try_from(group).ok().and_then(|group| self.segments.get(group));
        segment.map_or(0, |segment| segment.count)
    }

    fn allocate(&mut self, want: &Want) -> Option<Run> {
        let log = Self::log_of(want);
        self.in_log(log, want).or_else(|| self.in_slack(want)).or_else(|| self.anywhere(want))
    }

    fn mark(&mut self, run: Run) -> bool {
        let (segment, blocks) = Self::place_of(run);
        let Some(found) = self.segments.get_mut(segment) else { return false };
        if blocks.end > found.blocks || blocks.clone().any(|block| found.has(block)) {
            return false;
        }
        if found.count == 0 {
            self.empty.remove(&segment);
        }
        found.set(blocks, true);
        self.free -= run.blocks;
        true
    }

    fn free(&mut self, run: Run) {
        let (segment, blocks) = Self::place_of(run);
        let found = &mut self.segments[segment];
        found.set(blocks, false);
        self.free += run.blocks;
        if found.count == 0 && !found.is_open {
            self.empty.insert(segment);
        }
    }

    fn victim(&self, may: &dyn Fn(u64) -> bool) -> Option<u64> {
        let is_one = |(number, segment): &(usize, &Segment)| {
            let has_both = segment.count > 0 && segment.count < segment.blocks;
            has_both && !segment.is_open && may(*number as u64)
        };
        let candidates = self.segments.iter().enumerate().filter(is_one);
        candidates.min_by_key(|(_, segment)| segment.count).map(|(number, _)| number as u64)
    }

    fn set_emptied(&mut self, group: Option<u64>) {
        self.emptied = group.and_then(|group| usize::try_from(group).ok());
    }

    fn free_groups(&self) -> Option<u64> {
        Some(self.empty.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(blocks: u64, lifetime: Lifetime) -> Want {
        Want { blocks, more: 0, after: None, lifetime, is_moved: false }
    }

    #[test]
    fn lifetimes_fill_segments_of_their_own_in_order() {
        let mut f2fs = F2fsLike::new(20 * SEGMENT_BLOCKS);
        let groups = [Lifetime::Short, Lifetime::Long, Lifetime::Extreme, Lifetime::Medium, Lifetime::Short]
            .map(|lifetime| f2fs.allocate(&want(300, lifetime)).expect("free"));
        assert_eq!(groups.map(|run| run.first / SEGMENT_BLOCKS), [0, 1, 2, 1, 0]);
        assert_eq!(groups.map(|run| run.blocks), [300, 300, 300, 212, 212], "to the segment's end");
    }

    #[test]
    fn slack_is_used_when_whole_segments_are_short() {
        let mut f2fs = F2fsLike::new(5 * SEGMENT_BLOCKS);
        let full: Vec<Run> =
            (0..3).map(|_| f2fs.allocate(&want(SEGMENT_BLOCKS, Lifetime::Long)).expect("free")).collect();
        f2fs.free(Run { first: full[1].first + 7, blocks: 40 });
        f2fs.free(Run { first: full[2].first + 1, blocks: 9 });
        // Two segments are free, and kept for what is moved.
        assert_eq!(f2fs.free_groups(), Some(2));
        assert_eq!(f2fs.allocate(&want(99, Lifetime::Long)), Some(Run { first: full[1].first + 7, blocks: 40 }));
        let moved = Want { is_moved: true, ..want(99, Lifetime::Long) };
        assert_eq!(f2fs.allocate(&moved).map(|run| (run.first / SEGMENT_BLOCKS, run.blocks)), Some((3, 99)));
    }

    #[test]
    fn the_victim_is_the_segment_with_the_fewest_live_blocks() {
        let mut f2fs = F2fsLike::new(9 * SEGMENT_BLOCKS);
        let full: Vec<Run> =
            (0..3).map(|_| f2fs.allocate(&want(SEGMENT_BLOCKS, Lifetime::Long)).expect("free")).collect();
        assert_eq!(f2fs.victim(&|_| true), None, "nothing to be won");
        f2fs.free(full[0].split(100).0);
        f2fs.free(full[2].split(200).0);
        assert_eq!(f2fs.victim(&|_| true), Some(2));
        assert_eq!(f2fs.victim(&|group| group != 2), Some(0));
        f2fs.free(full[2].split(200).1.expect("more"));
        assert_eq!(f2fs.used_in(2), 0);
        assert_eq!(f2fs.free_groups(), Some(7), "emptied by deletions alone");
    }
}
