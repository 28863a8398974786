//! The memory of all leaf buffers, and which leaf gives its buffer up next.
//!
//! Owned by the tree. What buffers take may pass the limit for a moment, because applying a logged record never fails: writers
//! make room *before* they log (I6). When the limit is lowered, writers do not have to give up the difference: they see to it that buffers
//! do not grow (the *ceiling*), and the background merges down to the limit.
//!
//! Choice of victims. Delta buffers: the fullest, exactly, because the arena keeps buffers by size: the more records share
//! one page write, the fewer bytes are written (ZKV 3.3 takes "an ADB-256 as much as possible" for the same reason). A leaf that
//! its merge will split costs two page writes, so it must be larger than others by [`SPLIT_WORTH`] before it is taken; that
//! it fills its page meanwhile also makes fewer leaves. Or, as the paper has it, the oldest of the largest (`pool/oldest.rs`). Mirrored
//! pages: the first that a clock hand finds unused since it last passed.

pub(crate) mod arena;
mod aside;
pub(crate) mod class;
pub(crate) mod memory;
mod oldest;
pub(crate) mod ring;

use zonda_pages::PageId;
use zonda_rt::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{
    BufferClasses, Eviction, TreeOptions,
    leaf_table::{Exclusive, LeafTable},
    options::Design,
};
use arena::{Arena, Family};
use aside::Aside;
use class::{MINI_PAGES_PER_DOUBLING, Sizing, class_bytes};
use memory::Memory;
use oldest::Oldest;
use ring::Ring;

/// Instances of the pool where the oldest buffer goes (ZKV 3.3 and section 4.1).
const ADB_INSTANCES: usize = 32;
const DELTAS_INSTANCES: usize = 64;
/// Words that one choice passes at most before it takes what it has.
const WORDS_MAX: u32 = 1 << 16;
/// Tenths: what bytes of a buffer are worth whose merge writes two pages, against others.
const SPLIT_WORTH: usize = 7;
/// Memory of slabs beyond their cells counts as used up to this part of the limit: it comes back only as slabs become empty.
const OVERHEAD_SHARE: u64 = 3;
/// Below this part of the limit, nobody looks for memory that lies idle between buffers: heads of slabs and their ends take about as much.
const IDLE_SHARE: u64 = 40;
/// Part of the limit that the ring leaves to what must be outside of it for a moment, and to the time until it has followed a lower limit.
const OUTSIDE_SHARE: u64 = 16;
/// The odd number that SplitMix64 steps by.
const SPLIT_MIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Over the limit by more than this part of it is far over.
const FAR_SHARE: u64 = 16;
/// The background keeps this part of the limit free: what half a million small pairs a second fill until it looks again.
const AHEAD_SHARE: u64 = 128;

/// Owns the memory of buffers and picks victims.
pub(crate) struct Pool {
    design: Design,
    memory: Memory,
    oldest: Option<Oldest>,
    aside: Aside,
    /// What the owner set.
    granted_bytes: AtomicU64,
    /// What of that buffers may take just now.
    limit_bytes: AtomicU64,
    /// What writers keep slabs to: the limit, or what was taken when it was last set, as long as that is more.
    ceiling_bytes: AtomicU64,
    /// What slabs may hold just now, whatever is in them.
    held_bytes_max: AtomicU64,
    /// What writers let them hold beyond that: what there was too much when the limit was lowered, less what is gone of it.
    held_excess_bytes: AtomicU64,
    hand: AtomicU32,
    /// Chances drawn so far, from a stream that begins with the options' seed.
    draws: AtomicU64,
}

impl Pool {
    /// A pool as the options say.
    pub(crate) fn new(options: &TreeOptions) -> Self {
        let (sizing, instances) = match (options.design, options.classes, options.eviction) {
            (Design::BTree, _, _) => (Sizing::Exact, None),
            (Design::BfTree, _, _) => return Self::of_mini_pages(options),
            (Design::Deltas, _, _) => (Sizing::Chained, Some(DELTAS_INSTANCES)),
            (Design::Adb, classes, eviction) => {
                let sizing = classes.bytes_max().map_or(Sizing::Exact, |bytes_max| Sizing::Paper { bytes_max });
                (sizing, (eviction == Eviction::Oldest).then_some(ADB_INSTANCES))
            }
        };
        let memory = Memory::Slabs(Arena::sized(options.buffer_bytes, sizing));
        Self::of(options, memory, instances.map(Oldest::new))
    }

    fn of_mini_pages(options: &TreeOptions) -> Self {
        let copy_on_access_percent = options.mini_pages.copy_on_access_percent;
        let ring = Ring::new(ring_bytes(options.buffer_bytes), copy_on_access_percent, options.leaf_bytes);
        let bytes_max = options.mini_pages.bytes_max as usize;
        let per_doubling = if options.classes == BufferClasses::Large { MINI_PAGES_PER_DOUBLING } else { 1 };
        Self::of(options, Memory::Ring(ring, Sizing::MiniPages { bytes_max, per_doubling }), None)
    }

    fn of(options: &TreeOptions, memory: Memory, oldest: Option<Oldest>) -> Self {
        Self {
            design: options.design,
            memory,
            oldest,
            aside: Aside::default(),
            granted_bytes: AtomicU64::new(options.buffer_bytes),
            limit_bytes: AtomicU64::new(options.buffer_bytes),
            ceiling_bytes: AtomicU64::new(options.buffer_bytes),
            held_bytes_max: AtomicU64::new(u64::MAX),
            held_excess_bytes: AtomicU64::new(0),
            hand: AtomicU32::new(0),
            draws: AtomicU64::new(options.seed),
        }
    }

    /// The latched leaf has a new buffer. Costs nothing where age does not count.
    pub(crate) fn entered(&self, table: &LeafTable, leaf: &Exclusive<'_>) {
        if let (Some(oldest), Some(buffer)) = (&self.oldest, leaf.location().buffer()) {
            oldest.entered(table, leaf.id(), buffer);
        }
    }

    /// Where buffers come from.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Draws a chance of `percent`. Costs one atomic addition; the sequence of all draws depends on the seed only.
    pub(crate) fn draws(&self, percent: u32) -> bool {
        // SplitMix64: the state is a counter, so it needs no lock.
        let state = self.draws.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % 100 < u64::from(percent)
    }

    /// The circular buffer, if leaves have mini-pages.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.memory.ring()
    }

    /// Memory of what tells the order of buffers, in bytes; it comes on top of theirs.
    pub(crate) fn order_bytes(&self) -> u64 {
        self.oldest.as_ref().map_or(0, Oldest::memory_bytes)
    }

    /// Bytes that buffers hold.
    pub(crate) fn used_bytes(&self) -> u64 {
        match &self.memory {
            Memory::Slabs(arena) => arena.held_bytes().max(arena.taken_bytes()),
            Memory::Ring(ring, _) => ring.held_bytes(),
        }
    }

    /// What buffers may take.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes what buffers may take: they follow once the background has merged what is more ([`is_far_over`](Self::is_far_over)).
    pub(crate) fn set_limit_bytes(&self, limit_bytes: u64) {
        let is_lower = limit_bytes < self.granted_bytes.swap(limit_bytes, Ordering::Relaxed);
        self.held_bytes_max.store(u64::MAX, Ordering::Relaxed);
        if is_lower {
            // Known once somebody says what they may hold.
            self.held_excess_bytes.store(u64::MAX, Ordering::Relaxed);
        }
        self.change_limit_bytes(limit_bytes);
        if let Memory::Slabs(arena) = &self.memory {
            let had = self.ceiling_bytes.load(Ordering::Relaxed);
            let ceiling = self.counted_bytes(arena).min(had).max(limit_bytes);
            self.ceiling_bytes.store(ceiling, Ordering::Relaxed);
        }
    }

    /// Until the limit is next set, buffers may hold `bytes` at the most, what lies idle between them included; half of what was set at the
    /// least.
    pub(crate) fn hold_to(&self, bytes: u64) {
        let most = bytes.max(self.granted_bytes.load(Ordering::Relaxed) / 2);
        match &self.memory {
            Memory::Slabs(arena) => {
                let most = self.held_bytes_max.fetch_min(most, Ordering::Relaxed).min(most);
                self.held_excess_bytes.fetch_min(arena.held_bytes().saturating_sub(most), Ordering::Relaxed);
            }
            Memory::Ring(..) if most < self.limit_bytes() => self.change_limit_bytes(most),
            Memory::Ring(..) => {}
        }
    }

    fn change_limit_bytes(&self, limit_bytes: u64) {
        if self.limit_bytes.swap(limit_bytes, Ordering::Relaxed) == limit_bytes {
            return;
        }
        if let Some(ring) = self.ring() {
            ring.set_limit_bytes(ring_bytes(limit_bytes));
        }
    }

    /// Whether a writer must make room before it goes on.
    pub(crate) fn is_over(&self) -> bool {
        match &self.memory {
            Memory::Slabs(arena) => {
                let (ceiling, excess) = (&self.ceiling_bytes, &self.held_excess_bytes);
                self.over_bytes(arena, ceiling.load(Ordering::Relaxed), excess.load(Ordering::Relaxed)) > 0
            }
            Memory::Ring(ring, _) => ring.is_over(),
        }
    }

    /// Whether buffers take more than the limit, however little.
    pub(crate) fn is_over_limit(&self) -> bool {
        match &self.memory {
            Memory::Slabs(arena) => self.over_bytes(arena, self.limit_bytes(), 0) > 0,
            Memory::Ring(ring, _) => ring.is_over_limit(),
        }
    }

    /// Whether buffers could hold less memory, and hold more than the limit: a ring's chunks are as long as they are, however little of one
    /// is left.
    pub(crate) fn holds_too_much(&self) -> bool {
        match &self.memory {
            Memory::Slabs(_) => self.is_over_limit(),
            Memory::Ring(ring, _) => ring.is_over_limit() || ring.holds_more_than(self.limit_bytes()),
        }
    }

    /// Whether there is more to be given up than writers do in passing.
    pub(crate) fn is_far_over(&self) -> bool {
        match &self.memory {
            Memory::Slabs(arena) => {
                let (limit, ceiling) = (self.limit_bytes(), self.ceiling_bytes.load(Ordering::Relaxed));
                // Above the limit nobody else gives anything up.
                let follows = ceiling > limit || self.held_excess_bytes.load(Ordering::Relaxed) > 0;
                let slack = if follows { 0 } else { limit / FAR_SHARE };
                self.over_bytes(arena, limit, 0) > slack
            }
            Memory::Ring(ring, _) => ring.is_far_over() || ring.is_room_wanted(),
        }
    }

    /// By how much slabs are over `most`, or hold more than `excess` beyond what they may.
    fn over_bytes(&self, arena: &Arena, most: u64, excess: u64) -> u64 {
        let held_most = self.held_bytes_max.load(Ordering::Relaxed).saturating_add(excess);
        let over_held = arena.held_bytes().saturating_sub(held_most);
        self.counted_bytes(arena).saturating_sub(most).max(over_held)
    }

    /// Whether writers will have to make room soon: the background does it for them, if it has the time.
    pub(crate) fn is_nearly_over(&self) -> bool {
        match &self.memory {
            Memory::Slabs(arena) => {
                let limit = self.limit_bytes();
                self.counted_bytes(arena) > limit - limit / AHEAD_SHARE
            }
            Memory::Ring(ring, _) => ring.is_nearly_over(),
        }
    }

    /// What slabs take, as far as it counts.
    fn counted_bytes(&self, arena: &Arena) -> u64 {
        let (taken, held) = (arena.taken_bytes(), arena.held_bytes());
        taken + held.saturating_sub(taken).min(self.limit_bytes() / OVERHEAD_SHARE)
    }

    /// Leaves of buffers that would take less memory elsewhere, when what lies idle between buffers is a good part of it; see
    /// [`Arena::sparse`].
    pub(crate) fn sparse(&self) -> Option<Vec<PageId>> {
        let Memory::Slabs(arena) = &self.memory else { return None };
        let idle = arena.held_bytes().saturating_sub(arena.taken_bytes());
        if idle > self.limit_bytes() / IDLE_SHARE { arena.sparse() } else { None }
    }

    /// A leaf whose buffer should go, or `None` if none was found. The buffer may change before the caller
    /// latches the leaf; no latch is held on return. Mini-pages are claimed from the ring instead ([`Ring::claim`]).
    pub(crate) fn victim(&self, table: &LeafTable) -> Option<PageId> {
        self.aside.count_choice();
        match (self.design, &self.oldest, &self.memory) {
            (Design::BTree, _, _) => self.unused(table),
            (_, Some(oldest), _) => oldest.next(table, &|leaf| self.aside.has(leaf)),
            (_, None, Memory::Slabs(arena)) => self.fullest(arena),
            (_, None, Memory::Ring(..)) => None,
        }
    }

    /// The page of leaf `id` is damaged, so its buffer cannot be merged: others go before it.
    pub(crate) fn set_aside(&self, id: PageId) {
        self.aside.add(id);
    }

    /// What was set aside may be chosen again.
    pub(crate) fn forget_aside(&self) {
        self.aside.forget();
    }

    /// A buffer was merged or dropped: what it gave up nobody takes again while buffers are above their limit.
    pub(crate) fn gave_up(&self) {
        let (limit, ceiling) = (self.limit_bytes(), self.ceiling_bytes.load(Ordering::Relaxed));
        if let Memory::Slabs(arena) = &self.memory
            && ceiling > limit
        {
            self.ceiling_bytes.fetch_min(self.counted_bytes(arena).max(limit), Ordering::Relaxed);
        }
    }

    fn fullest(&self, arena: &Arena) -> Option<PageId> {
        let largest = |family| arena.largest(family, self.aside.len(), &|leaf| self.aside.has(leaf));
        let (stays, splits) = (largest(Family::Stays), largest(Family::Splits));
        let stays_bytes = stays.map_or(0, |(class, _)| class_bytes(class));
        let worth = |class| class_bytes(class) * SPLIT_WORTH / 10;
        splits.filter(|&(class, _)| worth(class) > stays_bytes).or(stays).or(splits).map(|(_, leaf)| leaf)
    }

    fn step(&self, table: &LeafTable) -> PageId {
        PageId(self.hand.fetch_add(1, Ordering::Relaxed) % table.len().max(1))
    }

    fn unused(&self, table: &LeafTable) -> Option<PageId> {
        let mut fallback = None;
        for _ in 0..table.len().min(WORDS_MAX).saturating_mul(2) {
            let id = self.step(table);
            if !table.seems_buffered(id) || self.aside.has(id) {
                continue;
            }
            let Some(leaf) = table.try_lock_shared(id) else { continue };
            match leaf.location().buffer() {
                Some(buffer) if !buffer.take_reference() => return Some(id),
                Some(_) => fallback = Some(id),
                None => {}
            }
        }
        fallback
    }
}

/// What the ring may take of the memory for buffers.
fn ring_bytes(limit_bytes: u64) -> u64 {
    limit_bytes - limit_bytes / OUTSIDE_SHARE
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use zonda_rt::Rng;

    use super::*;
    use crate::{BufferClasses, buffer::Buffer, leaf_table::Location, pool::arena::Owner};

    const LEAVES: u64 = 2_000;
    const CACHED: u64 = 250;
    const VISITS: u64 = 200_000;

    #[test]
    fn the_papers_pools_have_32_and_64_instances() {
        let instances = |design, classes, eviction| {
            let pool = Pool::new(&TreeOptions { design, classes, eviction, ..TreeOptions::default() });
            pool.oldest.map(|oldest| oldest.instances())
        };
        let (oldest, fullest) = (Eviction::Oldest, Eviction::Fullest);
        assert_eq!(instances(Design::Adb, BufferClasses::Paper, oldest), Some(32), "ZKV, section 3.3");
        assert_eq!(instances(Design::Deltas, BufferClasses::Large, fullest), Some(64), "ZKV, section 4.1");
        assert_eq!(instances(Design::Adb, BufferClasses::Large, fullest), None);
    }

    /// Visits of leaves, some far more often than others.
    fn visits(seed: u64, skew: u32) -> Vec<u32> {
        let mut rng = Rng::seeded(seed);
        // The product of some draws of 0 to 1 crowds at 0 the more, the more there are.
        let leaf = |rng: &mut Rng| (0..=skew).fold(LEAVES, |end, _| rng.below(end.max(1)));
        (0..VISITS).map(|_| u32::try_from(leaf(&mut rng)).expect("few leaves")).collect()
    }

    /// Hits where what was used longest ago goes.
    fn lru_hits(visits: &[u32]) -> u64 {
        let (mut by_time, mut times, mut hits) = (BTreeMap::new(), HashMap::new(), 0);
        for (now, leaf) in visits.iter().enumerate() {
            match times.insert(*leaf, now) {
                Some(before) => {
                    by_time.remove(&before);
                    hits += 1;
                }
                None if by_time.len() as u64 == CACHED => {
                    times.remove(&by_time.pop_first().expect("full").1);
                }
                None => {}
            }
            by_time.insert(now, *leaf);
        }
        hits
    }

    /// Hits where the pool's clock hand chooses.
    fn clock_hits(visits: &[u32]) -> u64 {
        let pool = Pool::new(&TreeOptions { design: Design::BTree, ..TreeOptions::default() });
        let table = LeafTable::new();
        (0..LEAVES).for_each(|_| _ = table.allocate().expect("room"));
        let (mut cached, mut hits) = (0, 0);
        for id in visits.iter().map(|leaf| PageId(*leaf)) {
            if let Some(buffer) = table.lock_shared(id).location().buffer() {
                buffer.touch();
                hits += 1;
                continue;
            }
            if cached == CACHED {
                let victim = pool.victim(&table).expect("there are some");
                drop(table.lock(victim).replace(Location::Empty));
                cached -= 1;
            }
            let buffer = Buffer::new(pool.memory(), Owner::of(id), None, b"", 64);
            drop(table.lock(id).replace(Location::Buffered(buffer)));
            cached += 1;
        }
        hits
    }

    /// Decision 0031: the clock stands for the LRU pages of the papers' B+-tree.
    #[test]
    fn the_clock_hits_about_as_often_as_lru() {
        for (seed, skew) in [(1, 0), (2, 1), (3, 2), (4, 4)] {
            let visits = visits(seed, skew);
            let percent = |hits: u64| hits * 1_000 / VISITS;
            let (clock, lru) = (percent(clock_hits(&visits)), percent(lru_hits(&visits)));
            println!("skew {skew}: {clock} of a thousand with the clock, {lru} with LRU");
            assert!(clock.abs_diff(lru) <= 20, "skew {skew}: {clock} and {lru} of a thousand");
        }
    }

    fn take(pool: &Pool) -> Buffer {
        Buffer::new(pool.memory(), Owner::of(PageId(0)), None, b"", 200)
    }

    /// A pool of delta buffers of a MiB, and what fills it.
    fn full_pool() -> (Pool, Vec<Buffer>) {
        let pool = Pool::new(&TreeOptions { buffer_bytes: 1 << 20, ..TreeOptions::default() });
        let buffers = std::iter::repeat_with(|| take(&pool)).take_while(|_| !pool.is_over()).collect();
        (pool, buffers)
    }

    /// I6 without a put that merges all of the difference.
    #[test]
    fn what_the_whole_tree_lowers_is_not_the_next_writer_s_to_give_up() {
        let (pool, mut buffers) = full_pool();
        pool.set_limit_bytes(512 << 10);
        pool.hold_to(512 << 10);
        assert!(!pool.is_over() && pool.is_over_limit() && pool.is_far_over());
        // Something else of the tree grows.
        pool.hold_to(448 << 10);
        assert!(pool.is_over());
        let before = buffers.len();
        while pool.is_over() {
            buffers.pop();
        }
        assert!((before - buffers.len()) * 200 < 96 << 10, "{} of {before} were given up", before - buffers.len());
        buffers.truncate(buffers.len() / 2);
        pool.hold_to(448 << 10);
        buffers.extend(std::iter::repeat_with(|| take(&pool)).take_while(|_| !pool.is_over()).take(before));
        assert!(pool.used_bytes() < 640 << 10, "what is gone is not taken again");
    }

    #[test]
    fn what_was_given_up_above_a_lower_limit_is_not_taken_again() {
        let (pool, mut buffers) = full_pool();
        let take = || take(&pool);
        buffers.truncate(buffers.len() - 20);
        pool.set_limit_bytes(512 << 10);
        assert!(!pool.is_over() && pool.is_over_limit(), "writers keep what they have");
        buffers.truncate(buffers.len() - 100);
        pool.gave_up();
        let again = std::iter::repeat_with(take).take_while(|_| !pool.is_over()).take(100).collect::<Vec<_>>();
        assert!(again.len() < 50, "{} were taken again", again.len());
        drop((buffers, again));
        pool.gave_up();
        assert_eq!(pool.ceiling_bytes.load(Ordering::Relaxed), pool.limit_bytes());
    }
}
