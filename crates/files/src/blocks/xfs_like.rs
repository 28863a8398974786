//! A model of how XFS places the data of files.
//!
//! The device is four allocation groups. Free space of a group is known by place and by length. A file goes on where it ended,
//! if that is free; else it gets the shortest free run that is long enough, in the group that was used last, else in the next
//! one; else the longest run of all. While it grows it is given more than it asks for, as much as it has up to 64 MiB, so that
//! files that are written side by side do not interleave; what it did not need is given back when it is closed. There is no
//! cleaning: what is deleted is discarded, and written again in place.

use std::collections::{BTreeMap, BTreeSet};

use super::{Allocator, Run, Want};

const GROUPS: u64 = 4;

/// Free runs of each group, by place and by length.
#[derive(Debug)]
pub(crate) struct XfsLike {
    group_blocks: u64,
    groups: Vec<Group>,
    /// The group that a new file is placed in.
    current: usize,
    free: u64,
}

#[derive(Debug, Default)]
struct Group {
    by_place: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    blocks: u64,
    free: u64,
}

impl XfsLike {
    /// All blocks are free.
    pub(crate) fn new(blocks: u64) -> Self {
        let group_blocks = blocks.div_ceil(GROUPS).max(1);
        let mut all = Self { group_blocks, groups: Vec::new(), current: 0, free: blocks };
        for first in (0..blocks).step_by(usize::try_from(group_blocks).unwrap_or(usize::MAX)) {
            let mut group = Group { blocks: group_blocks.min(blocks - first), ..Group::default() };
            group.insert(Run { first, blocks: group.blocks });
            all.groups.push(group);
        }
        all
    }

    fn group_of(&self, block: u64) -> usize {
        usize::try_from(block / self.group_blocks).expect("four groups")
    }

    /// Where the file ended.
    fn continued(&self, want: &Want) -> Option<Run> {
        let after = want.after?;
        let group = self.groups.get(self.group_of(after))?;
        let blocks = *group.by_place.get(&after)?;
        Some(Run { first: after, blocks })
    }

    /// The shortest free run that is long enough, from the current group on.
    fn best_fit(&self, blocks: u64) -> Option<Run> {
        let from_current = (0..self.groups.len()).map(|step| (self.current + step) % self.groups.len());
        let fit = |group: usize| self.groups[group].by_length.range((blocks, 0)..).next();
        from_current.filter_map(fit).next().map(|&(blocks, first)| Run { first, blocks })
    }

    fn longest(&self) -> Option<Run> {
        let longest = self.groups.iter().filter_map(|group| group.by_length.last()).max();
        longest.map(|&(blocks, first)| Run { first, blocks })
    }
}

impl Group {
    fn insert(&mut self, run: Run) {
        self.by_place.insert(run.first, run.blocks);
        self.by_length.insert((run.blocks, run.first));
        self.free += run.blocks;
    }

    fn remove(&mut self, run: Run) {
        self.by_place.remove(&run.first);
        self.by_length.remove(&(run.blocks, run.first));
        self.free -= run.blocks;
    }

    /// The free run that holds all of `run`.
    fn holding(&self, run: Run) -> Option<Run> {
        let (&first, &blocks) = self.by_place.range(..=run.first).next_back()?;
        (first + blocks >= run.end()).then_some(Run { first, blocks })
    }

    /// Takes `run` out of the free one that holds it.
    fn take(&mut self, run: Run, from: Run) {
        self.remove(from);
        let (before, after) = (run.first - from.first, from.end() - run.end());
        if before > 0 {
            self.insert(Run { first: from.first, blocks: before });
        }
        if after > 0 {
            self.insert(Run { first: run.end(), blocks: after });
        }
    }

    fn free(&mut self, mut run: Run) {
        let before = self.by_place.range(..run.first).next_back().map(|(&first, &blocks)| Run { first, blocks });
        if let Some(before) = before.filter(|before| before.end() == run.first) {
            self.remove(before);
            run = Run { first: before.first, blocks: before.blocks + run.blocks };
        }
        if let Some(&blocks) = self.by_place.get(&run.end()) {
            self.remove(Run { first: run.end(), blocks });
            run.blocks += blocks;
        }
        self.insert(run);
    }
}

impl Allocator for XfsLike {
    fn group_blocks(&self) -> u64 {
        self.group_blocks
    }

    fn free_blocks(&self) -> u64 {
        self.free
    }

    fn used_in(&self, group: u64) -> u64 {
        let group = usize::try_from(group).ok().and_then(|group| self.groups.get(group));
        group.map_or(0, |group| group.blocks - group.free)
    }

    fn allocate(&mut self, want: &Want) -> Option<Run> {
        let wanted = want.blocks + want.more;
        let found = self.continued(want).or_else(|| self.best_fit(wanted)).or_else(|| self.longest())?;
        let run = Run { first: found.first, blocks: found.blocks.min(wanted) };
        self.current = self.group_of(run.first);
        self.groups[self.current].take(run, found);
        self.free -= run.blocks;
        Some(run)
    }

    fn mark(&mut self, run: Run) -> bool {
        let group = self.group_of(run.first);
        let Some(from) = self.groups.get(group).and_then(|group| group.holding(run)) else { return false };
        self.groups[group].take(run, from);
        self.free -= run.blocks;
        true
    }

    fn free(&mut self, run: Run) {
        let group = self.group_of(run.first);
        self.groups[group].free(run);
        self.free += run.blocks;
    }

    fn victim(&self, _: &dyn Fn(u64) -> bool) -> Option<u64> {
        None
    }

    fn set_emptied(&mut self, _: Option<u64>) {}

    fn free_groups(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lifetime;

    fn want(blocks: u64, after: Option<u64>) -> Want {
        Want { blocks, more: 0, after, lifetime: Lifetime::NotSet, is_moved: false }
    }

    #[test]
    fn a_file_goes_on_where_it_ended() {
        let mut xfs = XfsLike::new(400);
        let first = xfs.allocate(&want(10, None)).expect("free");
        let second = xfs.allocate(&want(10, Some(first.end()))).expect("free");
        assert_eq!((first, second), (Run { first: 0, blocks: 10 }, Run { first: 10, blocks: 10 }));
    }

    #[test]
    fn holes_that_fit_are_used_before_longer_ones() {
        let mut xfs = XfsLike::new(400);
        let runs: Vec<Run> = [10, 1, 5, 1, 20, 1].map(|blocks| xfs.allocate(&want(blocks, None)).expect("free")).into();
        [0, 2, 4].into_iter().for_each(|which| xfs.free(runs[which]));
        assert_eq!(xfs.allocate(&want(5, None)), Some(runs[2]));
        assert_eq!(xfs.allocate(&want(7, None)).map(|run| run.first), Some(runs[0].first));
    }

    #[test]
    fn a_full_group_is_followed_by_the_next_and_the_longest_run_is_better_than_none() {
        let mut xfs = XfsLike::new(400);
        assert_eq!(xfs.allocate(&want(100, None)), Some(Run { first: 0, blocks: 100 }));
        assert_eq!(xfs.allocate(&want(60, None)), Some(Run { first: 100, blocks: 60 }));
        assert_eq!(xfs.allocate(&want(900, None)).map(|run| run.blocks), Some(100));
        assert_eq!(xfs.used_in(0), 100);
    }
}
