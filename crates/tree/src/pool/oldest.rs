//! The order in which buffers came, as the ZKV paper's pool keeps it (section 3.3): instances by leaf id, in each a list per size.
//!
//! A leaf enters the end of a list when its buffer is made or grows. Nobody takes it out when the buffer goes or grows on: whoever
//! meets an entry asks the leaf. Lists are swept when they have become a sixteenth longer than after the last sweep, so that each is at
//! most about that longer than its valid entries. Lock order: an instance after a leaf latch; leaves are only tried from here.
//!
//! What lists take, buffers lack: an entry is the place of the leaf among those of its instance, two bytes in stores of up to some 2
//! million leaves.

mod entries;

use entries::Entries;

use zonda_pages::PageId;
use zonda_rt::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use crate::buffer::Buffer;
use crate::leaf_table::LeafTable;

/// Lists of an instance: buffers with the paper's 64, 128 and 256 bytes for pairs, with 512 and 1,024, or less than a step of the classes
/// more; larger ones.
const RANK_BYTES: [usize; 5] = [64 + 15, 128 + 15, 256 + 15, 512 + 15, 1024 + 15];
const RANKS: usize = RANK_BYTES.len() + 1;
/// A list is swept when it is longer by this part than after the last sweep. Less often would cost less time and more memory.
const GROWTH_SHARE: usize = 16;
/// Entries of a list below which it is not swept.
const SWEEP_MIN: usize = 64;

struct List {
    /// Places of leaves in their instance.
    places: Entries,
    sweep_at: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { places: Entries::default(), sweep_at: SWEEP_MIN }
    }
}

/// All instances.
pub(super) struct Oldest {
    instances: Box<[Mutex<[List; RANKS]>]>,
    hand: AtomicU32,
    /// Memory of the lists' entries; a sweep's comes and goes under one lock.
    bytes: AtomicU64,
}

/// By what is there for pairs, however long the prefix of their keys is.
fn rank_of(buffer: &Buffer) -> usize {
    RANK_BYTES.iter().position(|&bytes| buffer.payload_bytes() <= bytes).unwrap_or(RANK_BYTES.len())
}

/// The leaves of one instance: every so many-th.
#[derive(Clone, Copy)]
struct Every {
    first: usize,
    step: usize,
}

impl Every {
    fn leaf(self, place: u32) -> PageId {
        let id = place as usize * self.step + self.first;
        PageId(u32::try_from(id).expect("the id of a leaf, divided before"))
    }
}

/// The list that leaf `id` belongs to; `None` if it has no buffer, an error if somebody has it latched.
fn rank_now(table: &LeafTable, id: PageId) -> Result<Option<usize>, ()> {
    let leaf = table.try_lock_shared(id).ok_or(())?;
    Ok(leaf.location().buffer().map(rank_of))
}

impl Oldest {
    /// Empty lists in `instances` instances.
    pub(super) fn new(instances: usize) -> Self {
        let instances = (0..instances).map(|_| Mutex::default()).collect();
        Self { instances, hand: AtomicU32::new(0), bytes: AtomicU64::new(0) }
    }

    /// How many instances there are.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(super) fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Memory of all lists in bytes. Costs a load.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.instances.len() * size_of::<Mutex<[List; RANKS]>>()) as u64 + self.bytes.load(Ordering::Relaxed)
    }

    fn instance(&self, first: usize) -> Every {
        Every { first, step: self.instances.len() }
    }

    /// The latched leaf `id` has this new buffer.
    pub(super) fn entered(&self, table: &LeafTable, id: PageId, buffer: &Buffer) {
        let rank = rank_of(buffer);
        let count = self.instances.len();
        let (place, first) = (id.0 as usize / count, id.0 as usize % count);
        let mut lists = self.instances[first].lock();
        let list = &mut lists[rank];
        let before = list.places.memory_bytes();
        list.places.push(u32::try_from(place).expect("a part of an id"));
        if list.places.len() >= list.sweep_at {
            sweep(list, self.instance(first), table, rank);
        }
        // Added first: the lists that others hold keep the sum from falling below nought.
        self.bytes.fetch_add(list.places.memory_bytes(), Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// The oldest buffer of the highest list that has one, by turns over the instances; leaves that are set `aside` are passed over. It
    /// goes to the end, in case that it is not merged after all.
    pub(super) fn next(&self, table: &LeafTable, aside: &dyn Fn(PageId) -> bool) -> Option<PageId> {
        let hand = self.hand.fetch_add(1, Ordering::Relaxed) as usize;
        let count = self.instances.len();
        (0..RANKS).rev().find_map(|rank| {
            (0..count).find_map(|turn| {
                let first = (hand + turn) % count;
                let mut lists = self.instances[first].lock();
                first_valid(&mut lists[rank], self.instance(first), table, rank, aside)
            })
        })
    }
}

fn first_valid(
    list: &mut List,
    every: Every,
    table: &LeafTable,
    rank: usize,
    aside: &dyn Fn(PageId) -> bool,
) -> Option<PageId> {
    for _ in 0..list.places.len() {
        let place = list.places.pop()?;
        match rank_now(table, every.leaf(place)) {
            Ok(Some(now)) if now == rank => {
                list.places.push(place);
                if !aside(every.leaf(place)) {
                    return Some(every.leaf(place));
                }
            }
            Ok(_) => {}
            Err(()) => list.places.push(place),
        }
    }
    None
}

/// Drops entries that do not hold any more, and all but the newest of a leaf.
fn sweep(list: &mut List, every: Every, table: &LeafTable, rank: usize) {
    list.places.retain_last(|place| rank_now(table, every.leaf(place)).map_or(true, |now| now == Some(rank)));
    list.sweep_at = (list.places.len() + list.places.len() / GROWTH_SHARE).max(SWEEP_MIN);
    // Exactly what it will hold until then.
    list.places.resize(list.sweep_at);
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        buffer::Buffer,
        leaf_table::Location,
        pool::{
            arena::{Arena, Owner},
            class::Sizing,
            memory::Memory,
        },
    };

    fn give(table: &LeafTable, arena: &Memory, oldest: &Oldest, id: PageId, payload: usize) {
        give_with_prefix(table, arena, oldest, id, (b"", payload));
    }

    fn give_with_prefix(
        table: &LeafTable,
        arena: &Memory,
        oldest: &Oldest,
        id: PageId,
        (prefix, payload): (&[u8], usize),
    ) {
        let mut leaf = table.lock(id);
        let buffer = Buffer::new(arena, Owner::of(id), None, prefix, payload);
        drop(leaf.replace(Location::Buffered(buffer)));
        oldest.entered(table, id, leaf.location().buffer().expect("just given"));
    }

    #[test]
    fn the_oldest_of_the_largest_goes_first_and_stale_entries_are_passed_over() {
        let (table, oldest) = (LeafTable::new(), Oldest::new(1));
        let arena = Memory::slabs(1 << 20);
        let ids: Vec<PageId> = (0..4).map(|_| table.allocate().expect("room")).collect();
        for (id, payload) in ids.iter().zip([64, 256, 256, 128]) {
            give(&table, &arena, &oldest, *id, payload);
        }
        assert_eq!(oldest.next(&table, &|_| false), Some(ids[1]));
        drop(table.lock(ids[1]).replace(Location::Empty));
        assert_eq!(oldest.next(&table, &|_| false), Some(ids[2]));
        drop(table.lock(ids[2]).replace(Location::Empty));
        assert_eq!(oldest.next(&table, &|_| false), Some(ids[3]));
        drop(table.lock(ids[3]).replace(Location::Empty));
        assert_eq!(oldest.next(&table, &|_| false), Some(ids[0]));
        drop(table.lock(ids[0]).replace(Location::Empty));
        assert_eq!(oldest.next(&table, &|_| false), None);
    }

    #[test]
    fn buffers_of_a_size_share_a_list_however_long_their_prefix_is() {
        let arena = Memory::Slabs(Arena::sized(1 << 20, Sizing::Paper { bytes_max: 256 }));
        let prefix = [7; 200];
        for (rank, payload) in [(0, 30), (0, 64), (1, 65), (1, 128), (2, 200), (2, 256), (3, 280), (4, 800), (5, 1_100)]
        {
            for prefix_bytes in [0, 1, 15, 24, 25, 40, 41, 200] {
                let buffer = Buffer::new(&arena, Owner::of(PageId(0)), None, &prefix[..prefix_bytes], payload);
                assert_eq!(rank_of(&buffer), rank, "{payload} bytes behind a prefix of {prefix_bytes}");
            }
        }
    }

    #[test]
    fn the_largest_go_first_behind_long_prefixes_too() {
        let (table, oldest) = (LeafTable::new(), Oldest::new(1));
        let arena = Memory::Slabs(Arena::sized(1 << 20, Sizing::Paper { bytes_max: 256 }));
        let ids: Vec<PageId> = (0..3).map(|_| table.allocate().expect("room")).collect();
        for (id, payload) in ids.iter().zip([128, 256, 128]) {
            give_with_prefix(&table, &arena, &oldest, *id, (&[7; 32], payload));
        }
        assert_eq!(oldest.next(&table, &|_| false), Some(ids[1]), "the oldest is smaller");
    }

    #[test]
    fn instances_take_turns_and_each_has_every_so_many_th_leaf() {
        let (table, oldest) = (LeafTable::new(), Oldest::new(4));
        let arena = Memory::slabs(1 << 20);
        let ids: Vec<PageId> = (0..12).map(|_| table.allocate().expect("room")).collect();
        ids.iter().for_each(|id| give(&table, &arena, &oldest, *id, 64));
        let gone = |id: PageId| drop(table.lock(id).replace(Location::Empty));
        let order: Vec<u32> = (0..12)
            .map(|_| oldest.next(&table, &|_| false).expect("some are left"))
            .inspect(|id| gone(*id))
            .map(|id| id.0)
            .collect();
        assert_eq!(order, (0..12).collect::<Vec<_>>(), "the oldest of each instance in turn");
        assert_eq!(oldest.next(&table, &|_| false), None);
    }

    #[test]
    fn lists_stay_short_however_often_a_leaf_comes_back() {
        let (table, oldest) = (LeafTable::new(), Oldest::new(2));
        let arena = Memory::slabs(1 << 20);
        let ids: Vec<PageId> = (0..6).map(|_| table.allocate().expect("room")).collect();
        for round in 0..5_000 {
            give(&table, &arena, &oldest, ids[round % ids.len()], 64 << (round % 3));
        }
        for instance in &oldest.instances {
            assert!(instance.lock().iter().all(|list| list.places.len() <= SWEEP_MIN));
        }
    }

    #[test]
    fn the_memory_of_the_lists_is_counted_whatever_is_swept() {
        let (table, oldest) = (LeafTable::new(), Oldest::new(3));
        let arena = Memory::slabs(4 << 20);
        let ids: Vec<PageId> = (0..3_000).map(|_| table.allocate().expect("room")).collect();
        let counted = |oldest: &Oldest| {
            let lists = oldest
                .instances
                .iter()
                .map(|lists| lists.lock().iter().map(|list| list.places.memory_bytes()).sum::<u64>());
            lists.sum::<u64>() + (3 * size_of::<Mutex<[List; RANKS]>>()) as u64
        };
        let empty = oldest.memory_bytes();
        assert_eq!(empty, counted(&oldest));
        ids.iter().for_each(|id| give(&table, &arena, &oldest, *id, 64));
        assert!(oldest.memory_bytes() >= empty + 2 * 3_000, "{} bytes", oldest.memory_bytes());
        assert_eq!(oldest.memory_bytes(), counted(&oldest));
        // Most buffers go; the entries go as the lists are swept, and most of their memory with them.
        let full = oldest.memory_bytes();
        ids.iter().skip(30).for_each(|id| drop(table.lock(*id).replace(Location::Empty)));
        for _ in 0..300 {
            ids[..30].iter().for_each(|id| give(&table, &arena, &oldest, *id, 64));
        }
        assert_eq!(oldest.memory_bytes(), counted(&oldest));
        assert!(oldest.memory_bytes() < full / 2, "{} of {full} bytes", oldest.memory_bytes());
    }
}
