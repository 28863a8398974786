//! The page map and the state of every superblock: where each mapping unit is, and what is live where. No time in here.
use std::collections::VecDeque;

use super::shape::{ConventionalShape, Policy};

/// Not mapped, not used.
const NONE: u32 = u32::MAX;
/// Of a mapping unit: written in an earlier life of the drive, who knows where.
const HELD: u32 = u32::MAX - 1;

/// Place of one mapping unit on flash: superblock times slots of a superblock plus slot in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u32);

/// What a superblock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Sealed,
    Victim,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    state: State,
    live: u32,
    filled: u32,
    erases: u32,
    /// Number of the placement that sealed it: its age.
    sealed_at: u64,
}

/// The map. Always: the live slots of a superblock are those that the map points to.
#[derive(Debug)]
pub struct Ftl {
    slots_per_block: u32,
    policy: Policy,
    separate_collection: bool,
    map: Vec<u32>,
    back: Vec<u32>,
    blocks: Vec<Block>,
    free: VecDeque<u32>,
    /// Open superblock of each host stream, and of collection behind them.
    open: Vec<u32>,
    host_slots: u64,
    moved_slots: u64,
}

impl Ftl {
    /// An empty drive.
    ///
    /// # Panics
    /// If it has more slots than 32 bits count: see [`ConventionalShape::check`].
    #[must_use]
    pub fn new(shape: &ConventionalShape) -> Self {
        let slots = shape.slots_per_block() * shape.superblocks as u64;
        assert!(slots < u64::from(NONE), "{slots} mapping units are too many: the last one's slot is below `HELD`");
        let block = Block { state: State::Free, live: 0, filled: 0, erases: 0, sealed_at: 0 };
        let blocks = u32::try_from(shape.superblocks).expect("fewer than the slots");
        Self {
            slots_per_block: u32::try_from(shape.slots_per_block()).expect("fewer than all slots"),
            policy: shape.policy,
            separate_collection: shape.separate_collection,
            map: vec![NONE; usize::try_from(shape.logical_units()).expect("a table that fits memory")],
            back: vec![NONE; usize::try_from(slots).expect("a table that fits memory")],
            blocks: vec![block; shape.superblocks],
            free: (0..blocks).collect(),
            open: vec![NONE; shape.streams.max(1) as usize + 1],
            host_slots: 0,
            moved_slots: 0,
        }
    }

    /// Superblocks that are free.
    #[must_use]
    pub fn free_blocks(&self) -> usize {
        self.free.len()
    }

    /// Slots written by the host, and by collection.
    #[must_use]
    pub fn slots_written(&self) -> (u64, u64) {
        (self.host_slots, self.moved_slots)
    }

    /// Times that each superblock was erased.
    pub fn wear(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|block| block.erases)
    }

    /// Times that a superblock was erased.
    #[must_use]
    pub fn erases(&self, block: u32) -> u32 {
        self.blocks[block as usize].erases
    }

    /// Where a mapping unit is.
    #[must_use]
    pub fn lookup(&self, unit: u64) -> Option<Slot> {
        let slot = *self.map.get(usize::try_from(unit).ok()?)?;
        (slot < HELD).then_some(Slot(slot))
    }

    /// Everything that is not mapped was written in an earlier life: it has no slot, and is in nobody's way.
    pub fn hold_all(&mut self) {
        self.map.iter_mut().filter(|slot| **slot == NONE).for_each(|slot| *slot = HELD);
    }

    /// True if a mapping unit was written in an earlier life, and neither written nor trimmed in this one.
    #[must_use]
    pub fn is_held(&self, unit: u64) -> bool {
        usize::try_from(unit).is_ok_and(|unit| self.map.get(unit) == Some(&HELD))
    }

    /// The mapping unit that is live in a slot.
    #[must_use]
    pub fn live_in(&self, slot: Slot) -> Option<u64> {
        let unit = self.back[slot.0 as usize];
        (unit != NONE).then_some(u64::from(unit))
    }

    fn collection_stream(&self) -> usize {
        if self.separate_collection { self.open.len() - 1 } else { 0 }
    }

    /// True if the next unit of a host stream would take a free superblock.
    #[must_use]
    pub fn needs_block(&self, stream: u32) -> bool {
        self.open[self.host_stream(stream)] == NONE
    }

    /// True if a host stream and collection fill the same superblock.
    #[must_use]
    pub fn shares_with_collection(&self, stream: u32) -> bool {
        self.host_stream(stream) == self.collection_stream()
    }

    /// The host's stream that a number stands for: 0 if the drive has none of that number.
    fn host_stream(&self, stream: u32) -> usize {
        let (stream, streams) = (stream as usize, self.open.len() - 1);
        if stream < streams { stream } else { 0 }
    }

    /// Places a mapping unit that the host writes; `None` if it needs a superblock and none is free.
    pub fn write(&mut self, unit: u64, stream: u32) -> Option<Slot> {
        let slot = self.place(self.host_stream(stream))?;
        self.host_slots += 1;
        self.forget(unit);
        self.link(unit, slot);
        Some(slot)
    }

    /// Moves what is live in a slot; `None` if nothing is, or no superblock is free.
    pub fn relocate(&mut self, from: Slot) -> Option<Slot> {
        let unit = self.live_in(from)?;
        let slot = self.place(self.collection_stream())?;
        self.moved_slots += 1;
        self.forget(unit);
        self.link(unit, slot);
        Some(slot)
    }

    /// The host does not need a mapping unit any more.
    pub fn trim(&mut self, unit: u64) {
        self.forget(unit);
    }

    fn forget(&mut self, unit: u64) {
        let entry = &mut self.map[usize::try_from(unit).expect("checked by the device")];
        let slot = std::mem::replace(entry, NONE);
        if slot < HELD {
            self.back[slot as usize] = NONE;
            self.blocks[(slot / self.slots_per_block) as usize].live -= 1;
        }
    }

    fn link(&mut self, unit: u64, slot: Slot) {
        self.map[usize::try_from(unit).expect("checked by the device")] = slot.0;
        self.back[slot.0 as usize] = u32::try_from(unit).expect("fewer units than slots");
        self.blocks[(slot.0 / self.slots_per_block) as usize].live += 1;
    }

    fn place(&mut self, stream: usize) -> Option<Slot> {
        if self.open[stream] == NONE {
            let block = self.free.pop_front()?;
            self.open[stream] = block;
            self.blocks[block as usize].state = State::Open;
        }
        let number = self.open[stream];
        let now = self.host_slots;
        let block = &mut self.blocks[number as usize];
        let slot = Slot(number * self.slots_per_block + block.filled);
        block.filled += 1;
        if block.filled == self.slots_per_block {
            (block.state, block.sealed_at) = (State::Sealed, now);
            self.open[stream] = NONE;
        }
        Some(slot)
    }

    /// Takes the superblock to collect, if one would free anything. It is no victim for others until it is erased.
    pub fn take_victim(&mut self) -> Option<u32> {
        let sealed = self.blocks.iter().enumerate().filter(|(_, block)| block.state == State::Sealed);
        let (best, block) = match self.policy {
            Policy::Greedy => sealed.min_by_key(|(_, block)| block.live)?,
            Policy::CostBenefit => sealed.max_by(|a, b| self.benefit(a.1).total_cmp(&self.benefit(b.1)))?,
        };
        if block.live == self.slots_per_block {
            return None;
        }
        self.blocks[best].state = State::Victim;
        u32::try_from(best).ok()
    }

    fn benefit(&self, block: &Block) -> f64 {
        let used = f64::from(block.live) / f64::from(self.slots_per_block);
        (1.0 - used) / (1.0 + used) * (self.host_slots - block.sealed_at) as f64
    }

    /// Slots of a superblock.
    #[must_use]
    pub fn slots_of(&self, block: u32) -> std::ops::Range<u32> {
        block * self.slots_per_block..(block + 1) * self.slots_per_block
    }

    /// A victim is erased.
    ///
    /// # Panics
    /// If something in it is live.
    pub fn erased(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        assert_eq!(block.live, 0, "superblock {number} is erased with live data");
        *block = Block { state: State::Free, filled: 0, erases: block.erases + 1, ..*block };
        self.free.push_back(number);
    }

    /// Collects at once until `free` superblocks are: what a drive without time does.
    pub fn collect_until(&mut self, free: usize) {
        while self.free_blocks() < free {
            let Some(victim) = self.take_victim() else { return };
            for slot in self.slots_of(victim) {
                self.relocate(Slot(slot));
            }
            self.erased(victim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonda_rt::Rng;

    /// So many blocks of so many slots, `over` percent more than the host sees.
    fn shape(blocks: usize, slots: u64, over: u64, policy: Policy) -> ConventionalShape {
        let physical = blocks as u64 * slots * 4096;
        ConventionalShape {
            logical_bytes: physical * 100 / (100 + over) / 4096 * 4096,
            superblock_bytes: slots * 4096,
            superblocks: blocks,
            unit_bytes: 4096,
            sense_bytes: 4096,
            map_bytes: 4096,
            streams: 1,
            separate_collection: true,
            policy,
            collect_below: 3,
            background_below: 0,
            collect_depth: 1,
            collect_depth_min: 1,
            durable_buffer: true,
            flush_ns: 0,
        }
    }

    /// Write amplification of uniform random writes once it is steady.
    fn random_amplification(shape: &ConventionalShape, passes: u64) -> f64 {
        let mut ftl = Ftl::new(shape);
        let units = shape.logical_units();
        let mut rng = Rng::seeded(7);
        let mut before = (0, 0);
        for write in 0..units * passes {
            if write == units * (passes - 2) {
                before = ftl.slots_written();
            }
            let unit = if write < units { write } else { rng.below(units) };
            ftl.collect_until(2);
            ftl.write(unit, 0).unwrap();
        }
        let after = ftl.slots_written();
        1.0 + (after.1 - before.1) as f64 / (after.0 - before.0) as f64
    }

    /// The law of large blocks: live share `p` of a victim solves `p = exp(-(1 - p) * physical / logical)`.
    fn law(over_percent: f64) -> f64 {
        let ratio = 1.0 + over_percent / 100.0;
        let mut p: f64 = 0.5;
        for _ in 0..10_000 {
            p = (-(1.0 - p) * ratio).exp();
        }
        1.0 / (1.0 - p)
    }

    #[test]
    fn greedy_meets_the_law_of_uniform_random_writes() {
        for (over, passes) in [(28, 6), (7, 8)] {
            let shape = shape(2_000, 512, over, Policy::Greedy);
            let (found, wanted) = (random_amplification(&shape, passes), law(over as f64));
            assert!((found / wanted - 1.0).abs() <= 0.03, "{over} %: {found:.3}, the law says {wanted:.3}");
        }
    }

    #[test]
    fn the_map_agrees_with_a_plain_one() {
        let shape = shape(40, 128, 25, Policy::CostBenefit);
        let mut ftl = Ftl::new(&shape);
        let units = shape.logical_units();
        let mut mapped = vec![false; usize::try_from(units).unwrap()];
        let mut rng = Rng::seeded(11);
        for _ in 0..50_000 {
            let unit = rng.below(units);
            ftl.collect_until(2);
            let write = rng.chance(0.8);
            if write {
                ftl.write(unit, 0).unwrap();
            } else {
                ftl.trim(unit);
            }
            mapped[usize::try_from(unit).unwrap()] = write;
        }
        let mut slots = std::collections::BTreeSet::new();
        for (unit, mapped) in (0..).zip(mapped) {
            let slot = ftl.lookup(unit);
            assert_eq!(slot.is_some(), mapped, "unit {unit}");
            if let Some(slot) = slot {
                assert!(slots.insert(slot.0), "two units in {slot:?}");
                assert_eq!(ftl.live_in(slot), Some(unit));
            }
        }
        let live: u32 = ftl.blocks.iter().map(|block| block.live).sum();
        assert_eq!(live as usize, slots.len());
    }
}
