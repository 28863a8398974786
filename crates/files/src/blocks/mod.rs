//! Blocks that can be overwritten: where a file store on a conventional drive keeps all files but write-ahead logs.
//!
//! A conventional drive has zones only in front ([`BlockZones`](zonda_device::BlockZones)), for the journal and write-ahead
//! logs, whose recovery walks them. All behind is given to files by an [`Allocator`], of which there are two, models of how
//! two file systems of Linux place data; neither is that file system, and neither shares code with it.
//!
//! Life of a run of blocks: 1 free -> 2 [allocated](Blocks::allocate) to the writer of a file and written -> 3 recorded as an
//! extent -> 4 dead: no recorded file owns it any more ([`bury`](Blocks::bury)) -> 5 the removal is durable: trimmed, and free
//! again. Between 4 and 5 it is never given away, so that a crash finds what the journal names (I3).

mod f2fs_like;
mod xfs_like;

use std::collections::VecDeque;
use std::sync::Arc;

use zonda_device::{BlockDevice, Lba};
use zonda_rt::{Condvar, Mutex};
use zonda_space::SpaceError;

use crate::tags::Lifetime;

pub(crate) use f2fs_like::F2fsLike;
pub(crate) use xfs_like::XfsLike;

/// Blocks one behind the other; counted from the first that an allocator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) blocks: u64,
}

impl Run {
    /// The block behind it.
    pub(crate) fn end(self) -> u64 {
        self.first + self.blocks
    }

    /// Its first `blocks`, and the rest if there is one.
    pub(crate) fn split(self, blocks: u64) -> (Self, Option<Self>) {
        let rest = Self { first: self.first + blocks, blocks: self.blocks - blocks };
        (Self { blocks, ..self }, (rest.blocks > 0).then_some(rest))
    }
}

/// Why a writer gets no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRun {
    /// Nothing is free, and nothing is dead.
    Full,
    /// Something is dead; so many runs had ever become free again. See [`wait_for_freed`](Blocks::wait_for_freed).
    Dead { freed: u64 },
}

/// What a writer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    /// Blocks, at least one; fewer may be given.
    pub(crate) blocks: u64,
    /// Blocks that would be good to have for what the file will get next.
    pub(crate) more: u64,
    /// The block behind what the file has.
    pub(crate) after: Option<u64>,
    /// Expected lifetime.
    pub(crate) lifetime: Lifetime,
    /// Whether cleaning moves something.
    pub(crate) is_moved: bool,
}

/// Gives blocks to files: pure, in memory, rebuilt from the extents at each mount.
///
/// To add one: implement this, give it a name in [`Placement`], and run `tests/blocks.rs` over it. Always: a block is free or in
/// one run that was given; groups are of equal size, and no run that is given crosses from one to the next.
pub(crate) trait Allocator: Send + std::fmt::Debug {
    /// Blocks of a group: what extents name as their zone, and what is cleaned together.
    fn group_blocks(&self) -> u64;

    /// Blocks that nobody has.
    fn free_blocks(&self) -> u64;

    /// Blocks of a group that somebody has.
    fn used_in(&self, group: u64) -> u64;

    /// A run of free blocks, within one group; `None` if there is nothing free that may be given for this.
    fn allocate(&mut self, want: &Want) -> Option<Run>;

    /// Takes a run as given: it was before the mount. False, and nothing is done, unless all of it is free.
    fn mark(&mut self, run: Run) -> bool;

    /// Takes a run back.
    fn free(&mut self, run: Run);

    /// The group that is best emptied by moving what is in it, of those that `may` be; `None` if that never makes room.
    fn victim(&self, may: &dyn Fn(u64) -> bool) -> Option<u64>;

    /// While a group is emptied, nothing is allocated in it, as long as something is left there.
    fn set_emptied(&mut self, group: Option<u64>);

    /// Whole groups that are free, for allocators that need such.
    fn free_groups(&self) -> Option<u64>;
}

/// Where a store on a conventional drive puts the data of files. The numbers stand on disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Placement {
    /// A model of XFS: allocation groups, long extents near each other, written in place of what was deleted, discarded online.
    XfsLike = 1,
    /// A model of f2fs: segments of 2 MiB filled in order by logs of hot, warm and cold data, cleaning, reuse of the slack of
    /// used segments when whole ones are short.
    F2fsLike = 2,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::XfsLike, Self::F2fsLike];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::XfsLike => "xfs-like",
            Self::F2fsLike => "f2fs-like",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.name() == name)
    }

    fn allocator(self, blocks: u64) -> Box<dyn Allocator> {
        match self {
            Self::XfsLike => Box::new(XfsLike::new(blocks)),
            Self::F2fsLike => Box::new(F2fsLike::new(blocks)),
        }
    }
}

/// Stream of the journal, of logs and meta files, and of what has no lifetime; lifetimes from medium on have streams of their own.
const STREAM_OF_THE_REST: u32 = 0;

/// Blocks are short when fewer than one of so many are free.
const SHORT_OF: u64 = 20;

/// The blocks of one device behind its zones, and who has them.
#[derive(Debug)]
pub(crate) struct Blocks {
    device: Arc<dyn BlockDevice>,
    placement: Placement,
    /// Where they begin on the device.
    first: Lba,
    blocks: u64,
    group_blocks: u64,
    /// Whether lifetimes become streams.
    streams: bool,
    state: Mutex<State>,
    /// Signalled when `State::freed` grows.
    has_freed: Condvar,
}

#[derive(Debug)]
struct State {
    allocator: Box<dyn Allocator>,
    /// Nobody's, but their removal may not be durable.
    dead: VecDeque<Run>,
    /// Durably nobody's, and the device is just being told.
    trimmed: Vec<Run>,
    /// Of both.
    dead_blocks: u64,
    /// Runs that ever were dead, how many of them became more than dead, and how many are free again: fewer while some are trimmed.
    died: u64,
    drained: u64,
    freed: u64,
}

impl Blocks {
    /// The blocks of a device from `first` on, all of them free.
    pub(crate) fn new(device: Arc<dyn BlockDevice>, first: Lba, placement: Placement, streams: bool) -> Self {
        let blocks = device.capacity_blocks().saturating_sub(first.0);
        let allocator = placement.allocator(blocks);
        let group_blocks = allocator.group_blocks();
        let (dead, trimmed, dead_blocks, died, drained, freed) = Default::default();
        let state = Mutex::new(State { allocator, dead, trimmed, dead_blocks, died, drained, freed });
        Self { device, placement, first, blocks, group_blocks, streams, state, has_freed: Condvar::new() }
    }

    /// How they are given away.
    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// All of them.
    pub(crate) fn count(&self) -> u64 {
        self.blocks
    }

    /// Groups.
    pub(crate) fn groups(&self) -> u64 {
        self.blocks.div_ceil(self.group_blocks)
    }

    /// The group of a block.
    pub(crate) fn group_of(&self, block: u64) -> u64 {
        block / self.group_blocks
    }

    /// Blocks that can be had now, and those that can be had once what is dead is durably so.
    pub(crate) fn free(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.allocator.free_blocks(), state.dead_blocks)
    }

    /// Blocks of a group that files have, dead ones left out.
    pub(crate) fn live_in(&self, group: u64) -> u64 {
        let state = self.state.lock();
        let dead = state.dead.iter().chain(&state.trimmed);
        let dead = dead.filter(|run| self.group_of(run.first) == group).map(|run| run.blocks).sum::<u64>();
        state.allocator.used_in(group) - dead
    }

    /// A run for a writer, which leaves at least `kept` blocks free. Where few are free none is given for later: what one file may
    /// need must not be refused to another.
    ///
    /// # Errors
    /// Why there is none: what others are about to free they may have freed by the time that this is known.
    pub(crate) fn allocate(&self, want: &Want, kept: u64) -> Result<Run, NoRun> {
        let mut state = self.state.lock();
        let no_run = if state.died > state.freed { NoRun::Dead { freed: state.freed } } else { NoRun::Full };
        let allocator = &mut state.allocator;
        let may = allocator.free_blocks().saturating_sub(kept);
        let is_short = may < self.blocks / SHORT_OF;
        let more = if is_short { 0 } else { want.more.min(may.saturating_sub(want.blocks)) };
        let want = Want { blocks: want.blocks.min(may), more, ..*want };
        let run = if want.blocks == 0 { None } else { allocator.allocate(&want) };
        run.ok_or(no_run)
    }

    /// Takes back what was allocated and never recorded.
    pub(crate) fn give_back(&self, run: Run) {
        self.state.lock().allocator.free(run);
    }

    /// Takes a run as given; see [`Allocator::mark`].
    pub(crate) fn mark(&self, run: Run) -> bool {
        run.blocks > 0
            && run.first.checked_add(run.blocks).is_some_and(|end| end <= self.blocks)
            && self.state.lock().allocator.mark(run)
    }

    /// Nobody has a run any more; it becomes free by [`free_dead`](Self::free_dead).
    pub(crate) fn bury(&self, run: Run) {
        let mut state = self.state.lock();
        state.dead_blocks += run.blocks;
        state.died += 1;
        state.dead.push_back(run);
    }

    /// The number of the last run that died, if it is not free again: when all changes that were made until now are durable, it
    /// and all before it can be freed.
    pub(crate) fn last_dead(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.died > state.freed).then_some(state.died)
    }

    /// Frees the dead runs up to number `last`, whose removal is durable, and tells the device; those that another thread is just freeing
    /// are left to it. A trim that fails is no error of whoever made something durable: the runs are free all the same, and the drive has
    /// more to keep.
    pub(crate) fn free_dead(&self, last: u64) {
        let mut dead: Vec<Run> = {
            let mut state = self.state.lock();
            let runs = usize::try_from(last.saturating_sub(state.drained)).expect("as many as are in memory");
            let dead: Vec<Run> = state.dead.drain(..runs).collect();
            state.drained = state.drained.max(last);
            state.trimmed.extend(&dead);
            dead
        };
        dead.sort_unstable();
        // Trimmed before somebody else has them and writes.
        for run in joined(&dead) {
            let _ = self.device.trim(self.lba(run.first), run.blocks);
        }
        let mut state = self.state.lock();
        state.trimmed.retain(|run| dead.binary_search(run).is_err());
        state.freed += dead.len() as u64;
        state.dead_blocks -= dead.iter().map(|run| run.blocks).sum::<u64>();
        dead.into_iter().for_each(|run| state.allocator.free(run));
        drop(state);
        self.has_freed.notify_all();
    }

    /// Waits until more runs are free again than `freed`, as long as somebody is freeing some.
    pub(crate) fn wait_for_freed(&self, freed: u64) {
        let is_to_wait = |state: &mut State| state.freed == freed && state.drained > state.freed;
        drop(self.has_freed.wait_while(self.state.lock(), is_to_wait));
    }

    /// The group to be emptied next. Until [`end_emptying`](Self::end_emptying) no file grows there: what is found in it stays as it is.
    pub(crate) fn begin_emptying(&self, may: &dyn Fn(u64) -> bool) -> Option<u64> {
        let allocator = &mut self.state.lock().allocator;
        let group = allocator.victim(may)?;
        allocator.set_emptied(Some(group));
        Some(group)
    }

    /// The group is used as all others are.
    pub(crate) fn end_emptying(&self) {
        self.state.lock().allocator.set_emptied(None);
    }

    /// See [`Allocator::free_groups`].
    pub(crate) fn free_groups(&self) -> Option<u64> {
        self.state.lock().allocator.free_groups()
    }

    /// Writes whole blocks.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn write(&self, block: u64, bytes: &[u8], lifetime: Lifetime) -> std::result::Result<(), SpaceError> {
        let stream = if self.streams { stream_of(lifetime) } else { STREAM_OF_THE_REST };
        Ok(self.device.write_stream(self.lba(block), bytes, stream)?)
    }

    /// Reads whole blocks.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn read(&self, block: u64, into: &mut [u8]) -> std::result::Result<(), SpaceError> {
        Ok(self.device.read(self.lba(block), into)?)
    }

    fn lba(&self, block: u64) -> Lba {
        Lba(self.first.0 + block)
    }
}

/// The stream of a lifetime, on drives that have some.
fn stream_of(lifetime: Lifetime) -> u32 {
    match lifetime {
        Lifetime::NotSet | Lifetime::None | Lifetime::Short => STREAM_OF_THE_REST,
        Lifetime::Medium => 1,
        Lifetime::Long => 2,
        Lifetime::Extreme => 3,
    }
}

/// Sorted runs with neighbours made one.
fn joined(runs: &[Run]) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
    for run in runs {
        match joined.last_mut() {
            Some(last) if last.end() == run.first => last.blocks += run.blocks,
            _ => joined.push(*run),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(run: Run) -> std::ops::Range<usize> {
        let index = |block: u64| usize::try_from(block).expect("few");
        index(run.first)..index(run.end())
    }

    proptest! {
        #[test]
        fn no_block_is_given_twice(ops in prop::collection::vec((0_u8..10, 1_u64..900, 0_usize..6, any::<prop::sample::Index>()), 1..200)) {
            for placement in Placement::ALL {
                let mut allocator = placement.allocator(5000);
                let mut owner = vec![false; 5000];
                let mut given: Vec<Run> = Vec::new();
                for (op, blocks, lifetime, which) in &ops {
                    if *op < 6 {
                        let after = given.last().map(|run| run.end());
                        let lifetime = Lifetime::ALL[*lifetime];
                        let want = Want { blocks: *blocks, more: blocks / 2, after, lifetime, is_moved: *op == 5 };
                        let free = allocator.free_blocks();
                        match allocator.allocate(&want) {
                            Some(run) => {
                                prop_assert!(run.blocks > 0 && run.blocks <= want.blocks + want.more);
                                let group = allocator.group_blocks();
                                prop_assert_eq!(run.first / group, (run.end() - 1) / group, "within one group");
                                prop_assert!(owner[range(run)].iter().all(|owned| !owned), "{:?} is another's too", run);
                                owner[range(run)].fill(true);
                                given.push(run);
                            }
                            None => prop_assert_eq!(free, 0, "refused with {} free", free),
                        }
                    } else if !given.is_empty() {
                        let run = given.swap_remove(which.index(given.len()));
                        // In two pieces, as extents that were joined and cut are.
                        let (front, rest) = run.split(run.blocks.div_ceil(2));
                        [Some(front), rest].into_iter().flatten().for_each(|run| allocator.free(run));
                        owner[range(run)].fill(false);
                    }
                    let used = owner.iter().filter(|used| **used).count() as u64;
                    prop_assert_eq!(allocator.free_blocks(), 5000 - used);
                }
                // What a mount finds is what was given.
                let mut again = placement.allocator(5000);
                prop_assert!(given.iter().all(|run| again.mark(*run)));
                prop_assert!(given.iter().all(|run| !again.mark(*run)), "a block is marked once");
                prop_assert_eq!(again.free_blocks(), allocator.free_blocks());
            }
        }
    }

    #[test]
    fn neighbours_are_trimmed_together() {
        let run = |first, blocks| Run { first, blocks };
        assert_eq!(joined(&[run(1, 2), run(3, 4), run(9, 1)]), [run(1, 6), run(9, 1)]);
    }
}
