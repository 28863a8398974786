//! The memory of leaf buffers: cells of slabs, class by class, so that no buffer is an allocation of its own.
//!
//! A **slab** is 4 to 16 KiB ([`Size`]) of cells of one class, behind a header and the leaf id of each cell; slabs are cut from chunks of
//! 256 KiB. A **list** has all slabs of one class and one [`Family`]. Because a list knows its cells and each cell its leaf, the lists are
//! also the exact order of leaf buffers by size: whoever wants the largest takes a cell of the highest list (`pool.rs`).
//! Classes above a quarter of a slab are *large*: runs of mapped segments, in a map by class and leaf.
//!
//! Cells are given back anywhere, and a list whose buffers become fewer would keep slabs of a few cells each. Such a slab is *sparse*
//! if its list has room for its cells elsewhere: whoever moves those buffers ([`Arena::sparse`]) has the slab back. And before a list
//! without room begins a slab, a cell of the next two classes does.
//!
//! Large buffers come and go with the work: what their segments have free meanwhile nobody counts, but free segments go back to the system,
//! and free pages of others when they are more than a sixteenth of what is used.
//!
//! Memory overhead of a buffer: 4 bytes, its share of the slab's header and end (some 2 %), and a part of a slab for each
//! list, and 256 KiB of free slabs that wait for the next: the memory of others goes back to the system as they become empty.
//! Cost of taking or giving a cell: one uncontended lock and a few stores; for a slab at times a call of the system.
//!
//! Unsafe code: cells are raw memory that buffers own, large ones too. An arena that is dropped while cells are taken leaks
//! its memory rather than leave them dangling.

mod chunks;
mod list;
mod slab;

use std::{
    alloc::{Layout, handle_alloc_error},
    collections::BTreeMap,
    ptr::NonNull,
    sync::Arc,
};

use zonda_pages::PageId;
use zonda_rt::{
    MappedCells, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use super::class::{SLAB_CLASSES, Sizing, class_bytes};
use chunks::Chunks;
use list::List;
pub(crate) use slab::Size;
use slab::{ALIGN, SlabAt};

/// Before a large cell: [`LargeHead`].
const LARGE_HEAD_BYTES: usize = size_of::<LargeHead>();
const _: () = assert!(LARGE_HEAD_BYTES == 16 && align_of::<LargeHead>() <= ALIGN);
/// What large cells are cut from, at least.
const LARGE_SEGMENT_BYTES_MIN: usize = 64 << 10;
/// Cells of a segment, at least: so little of it is too short for one more.
const LARGE_CELLS_MIN: usize = 16;
/// Of what large cells take, this part may be held beside them; free pages beyond go back to the system one by one.
const LARGE_IDLE_SHARE: usize = 16;

/// Whose a large cell is, and which segment it is of.
#[repr(C)]
struct LargeHead {
    inner: *const Inner,
    leaf: u32,
    segment: u32,
}

/// Large cells.
#[derive(Default)]
struct Large {
    cells: MappedCells,
    /// How many there are by class and leaf; a leaf that grows has two for a moment.
    of: BTreeMap<(usize, u32), u32>,
}

/// What the merge of a leaf is expected to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// One page.
    Stays,
    /// More than one: the leaf splits.
    Splits,
}

/// A buffer may have a cell of one of so many next classes where its own has none left: what would lie idle in slabs of few buffers it
/// grows into instead, and a record more is no copy.
const LARGER_CLASSES: usize = 2;

const FAMILIES: [Family; 2] = [Family::Stays, Family::Splits];
const LISTS: usize = FAMILIES.len() * SLAB_CLASSES;

/// Whose a cell is, and which list it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// The leaf.
    pub(crate) leaf: PageId,
    /// What its merge is expected to write.
    pub(crate) family: Family,
}

impl Owner {
    /// A leaf that is not expected to split.
    pub(crate) fn of(leaf: PageId) -> Self {
        Self { leaf, family: Family::Stays }
    }
}

fn large_bytes(class: usize) -> usize {
    LARGE_HEAD_BYTES + class_bytes(class)
}

struct Inner {
    size: Size,
    sizing: Sizing,
    lists: Box<[Mutex<List>]>,
    /// Cells taken of each list, as last seen under its lock.
    counts: Box<[AtomicU32]>,
    /// Slabs of each list, likewise.
    slabs: Box<[AtomicU32]>,
    chunks: Mutex<Chunks>,
    large: Mutex<Large>,
    large_count: AtomicU32,
    taken_bytes: AtomicU64,
    slab_count: AtomicU64,
    large_bytes: AtomicU64,
}

// SAFETY: slabs are reached under the locks of their lists, chunks under theirs; see the file's head.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Inner {
    fn taken(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// A cell of `class`, or of one a little larger before a slab is begun for it.
    fn take(&self, class: usize, owner: Owner) -> (NonNull<u8>, usize) {
        if let Some(cell) = self.take_where_room_is(class, owner) {
            return (cell, class);
        }
        let larger = class + 1..(class + 1 + LARGER_CLASSES).min(self.size.slab_classes());
        for class in larger.filter(|_| self.sizing == Sizing::Exact) {
            if self.seems_to_have_room(list_index(class, owner.family))
                && let Some(cell) = self.take_where_room_is(class, owner)
            {
                return (cell, class);
            }
        }
        let index = list_index(class, owner.family);
        let mut list = self.lists[index].lock();
        if !list.has_room() {
            let slab = self.chunks.lock().take(self.size);
            slab.begin(self, index, u32::try_from(list.slabs.len()).expect("a list has few slabs"));
            list.slabs.push(slab);
            self.slabs[index].fetch_add(1, Ordering::Relaxed);
            self.slab_count.fetch_add(1, Ordering::Relaxed);
        }
        (self.take_of(index, &mut list, owner.leaf), class)
    }

    fn take_where_room_is(&self, class: usize, owner: Owner) -> Option<NonNull<u8>> {
        let index = list_index(class, owner.family);
        let mut list = self.lists[index].lock();
        list.has_room().then(|| self.take_of(index, &mut list, owner.leaf))
    }

    fn take_of(&self, index: usize, list: &mut List, leaf: PageId) -> NonNull<u8> {
        let cell = list.take(leaf);
        self.counts[index].store(list.used, Ordering::Relaxed);
        cell
    }

    /// Cells of list `index` that are not taken, as last seen.
    fn spare(&self, index: usize) -> usize {
        let used = self.counts[index].load(Ordering::Relaxed) as usize;
        let slabs = self.slabs[index].load(Ordering::Relaxed) as usize;
        (slabs * self.size.cells_of(index % SLAB_CLASSES)).saturating_sub(used)
    }

    fn seems_to_have_room(&self, index: usize) -> bool {
        self.spare(index) > 0
    }

    /// # Safety
    /// `cell` was taken from a slab of this arena, and nobody uses it any more.
    unsafe fn give(&self, cell: NonNull<u8>) {
        let slab = SlabAt::around(cell, self.size);
        let index = slab.list();
        let mut list = self.lists[index].lock();
        let emptied = list.give(slab, slab.index_of(cell));
        self.counts[index].store(list.used, Ordering::Relaxed);
        if let Some(slab) = emptied {
            self.slabs[index].fetch_sub(1, Ordering::Relaxed);
            self.slab_count.fetch_sub(1, Ordering::Relaxed);
            self.chunks.lock().give(slab, self.size);
        }
    }

    fn take_large(&self, class: usize, leaf: PageId) -> NonNull<u8> {
        let bytes = large_bytes(class);
        let mut large = self.large.lock();
        let mut cell = large.cells.take(bytes);
        if cell.is_none() && large.cells.grow(bytes, LARGE_SEGMENT_BYTES_MIN.max(LARGE_CELLS_MIN * bytes)) {
            cell = large.cells.take(bytes);
        }
        let layout = || Layout::from_size_align(bytes, ALIGN).expect("class sizes are small");
        let Some(cell) = cell else { handle_alloc_error(layout()) };
        *large.of.entry((class, leaf.0)).or_default() += 1;
        self.large_count.fetch_add(1, Ordering::Relaxed);
        self.large_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let at = large.cells.start(cell);
        // SAFETY: the run is the caller's alone, as long as this and aligned to 256; what is mapped is initialised.
        unsafe {
            at.cast::<LargeHead>().write(LargeHead { inner: self, leaf: leaf.0, segment: cell.segment() });
            at.add(LARGE_HEAD_BYTES)
        }
    }

    /// # Safety
    /// `at` came from `take_large` of this class, and nobody uses it any more.
    unsafe fn give_large(&self, at: NonNull<u8>, class: usize) {
        // SAFETY: behind the head that `take_large` wrote.
        let (head, LargeHead { leaf, segment, .. }) = unsafe {
            let head = at.sub(LARGE_HEAD_BYTES);
            (head, head.cast::<LargeHead>().read())
        };
        let mut large = self.large.lock();
        let count = large.of.get_mut(&(class, leaf)).expect("it was entered when it was taken");
        *count -= 1;
        if *count == 0 {
            large.of.remove(&(class, leaf));
        }
        let cell = large.cells.run_at(segment, head, large_bytes(class));
        large.cells.give(cell);
        let idle_bytes_max = large.cells.taken_bytes() / LARGE_IDLE_SHARE;
        large.cells.release(segment, idle_bytes_max);
        self.large_count.fetch_sub(1, Ordering::Relaxed);
        self.large_bytes.fetch_sub(large_bytes(class) as u64, Ordering::Relaxed);
    }
}

fn list_index(class: usize, family: Family) -> usize {
    family as usize * SLAB_CLASSES + class
}

/// The memory of all buffers of a tree.
pub(crate) struct Arena {
    inner: Arc<Inner>,
}

impl Arena {
    /// An arena for buffers of `bytes` in all, each of the size that it needs; it takes memory as they come.
    pub(crate) fn new(bytes: u64) -> Self {
        Self::sized(bytes, Sizing::Exact)
    }

    /// As [`new`](Self::new) with other sizes.
    pub(crate) fn sized(bytes: u64, sizing: Sizing) -> Self {
        let inner = Inner {
            size: Size::of(bytes),
            sizing,
            lists: (0..LISTS).map(|_| Mutex::new(List::default())).collect(),
            counts: (0..LISTS).map(|_| AtomicU32::new(0)).collect(),
            slabs: (0..LISTS).map(|_| AtomicU32::new(0)).collect(),
            chunks: Mutex::new(Chunks::default()),
            large: Mutex::new(Large::default()),
            large_count: AtomicU32::new(0),
            taken_bytes: AtomicU64::new(0),
            slab_count: AtomicU64::new(0),
            large_bytes: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Memory for a buffer of `owner` and its class: `class`, or up to two more where buffers have the size that they need. It is
    /// initialised, aligned to 16, and goes back by [`give`].
    pub(crate) fn take(&self, class: usize, owner: Owner) -> (NonNull<u8>, usize) {
        let (at, class) = if class < self.size().slab_classes() {
            self.inner.take(class, owner)
        } else {
            (self.inner.take_large(class, owner.leaf), class)
        };
        self.inner.taken_bytes.fetch_add(class_bytes(class) as u64, Ordering::Relaxed);
        (at, class)
    }

    /// How much memory records get.
    pub(crate) fn sizing(&self) -> Sizing {
        self.inner.sizing
    }

    /// The size of its slabs, which [`give`] asks for.
    pub(crate) fn size(&self) -> Size {
        self.inner.size
    }

    /// Bytes of all cells that are taken.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.inner.taken()
    }

    /// Bytes held for them: whole slabs, and large cells without what their segments have free, as it comes back only with a whole segment.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.inner.slab_count.load(Ordering::Relaxed) * self.size().slab_bytes() as u64
            + self.inner.large_bytes.load(Ordering::Relaxed)
    }

    /// Leaf of one of the largest buffers of `family` and its class; of those above slabs if `family` is [`Family::Stays`]. Leaves that are
    /// set `aside`, so many at the most, are passed over.
    pub(crate) fn largest(
        &self,
        family: Family,
        aside_max: u32,
        aside: &dyn Fn(PageId) -> bool,
    ) -> Option<(usize, PageId)> {
        if family == Family::Stays && self.inner.large_count.load(Ordering::Relaxed) > 0 {
            let large = self.inner.large.lock();
            if let Some(&(class, leaf)) = large.of.keys().rev().find(|(_, leaf)| !aside(PageId(*leaf))) {
                return Some((class, PageId(leaf)));
            }
        }
        (0..SLAB_CLASSES).rev().find_map(|class| {
            let mut next = (0..=aside_max).map_while(|_| self.next_of(class, family));
            Some((class, next.find(|&leaf| !aside(leaf))?))
        })
    }

    /// Leaves whose buffers fill a sparse slab, of the list with the most cells to spare: each buffer that is made anew, as large as it is,
    /// leaves it, and with the last the slab is free. `None` if no list has more than a slab's cells to spare. Costs a look at every
    /// list.
    pub(crate) fn sparse(&self) -> Option<Vec<PageId>> {
        let spare = |index: usize| {
            let cells = self.size().cells_of(index % SLAB_CLASSES);
            // More than a slab's: a list that has just emptied one is not to ask for the next at once.
            let wanted = cells + cells / 4 + 1;
            let spare = self.inner.spare(index);
            (spare >= wanted).then_some((spare * class_bytes(index % SLAB_CLASSES), index))
        };
        let (_, index) = (0..LISTS).filter_map(spare).max()?;
        self.inner.lists[index].lock().sparse()
    }

    /// The next leaf in a round over the buffers of one class.
    fn next_of(&self, class: usize, family: Family) -> Option<PageId> {
        let index = list_index(class, family);
        if self.inner.counts[index].load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.inner.lists[index].lock().next()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.inner.taken() > 0 {
            std::mem::forget(Arc::clone(&self.inner));
        }
    }
}

/// Gives memory of `class` back to the arena that it came from.
///
/// # Safety
/// `at` came from [`Arena::take`] with this class by an arena of this size, and nobody uses it any more.
pub(crate) unsafe fn give(at: NonNull<u8>, class: usize, size: Size) {
    if class < size.slab_classes() {
        // SAFETY: a slab of which a cell is taken keeps its arena, which outlives its cells.
        unsafe {
            let inner = &*SlabAt::around(at, size).inner();
            inner.give(at);
            inner.taken_bytes.fetch_sub(class_bytes(class) as u64, Ordering::Relaxed);
        }
    } else {
        // SAFETY: the head before it names its arena, which outlives it.
        unsafe {
            let inner = &*at.sub(LARGE_HEAD_BYTES).cast::<LargeHead>().read().inner;
            inner.give_large(at, class);
            inner.taken_bytes.fetch_sub(class_bytes(class) as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use zonda_rt::{Rng, Seed};

    use super::*;

    struct Taken {
        at: NonNull<u8>,
        class: usize,
        owner: Owner,
        mark: u8,
    }

    impl Taken {
        fn new(arena: &Arena, class: usize, owner: Owner, mark: u8) -> Self {
            let (at, taken) = arena.take(class, owner);
            assert!((class..=class + LARGER_CLASSES).contains(&taken));
            let class = taken;
            assert!(at.addr().get().is_multiple_of(ALIGN));
            // SAFETY: the memory has the class's bytes and is ours.
            unsafe { at.write_bytes(mark, class_bytes(class)) };
            Self { at, class, owner, mark }
        }

        fn give(self, arena: &Arena) {
            // SAFETY: as above; all bytes were written.
            let bytes = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), class_bytes(self.class)) };
            assert!(bytes.iter().all(|&byte| byte == self.mark), "somebody else wrote there");
            // SAFETY: taken with this class from this arena.
            unsafe { give(self.at, self.class, arena.size()) }
        }
    }

    fn owner(leaf: u32, splits: bool) -> Owner {
        Owner { leaf: PageId(leaf), family: if splits { Family::Splits } else { Family::Stays } }
    }

    /// Random taking and giving back: nobody shares memory, the counts hold and the largest is the largest.
    fn churn(arena_bytes: u64, seed: u64) {
        let arena = Arena::new(arena_bytes);
        let mut rng = Rng::seeded(Seed(seed).0);
        let mut taken: Vec<Taken> = Vec::new();
        for round in 0..6_000_u32 {
            if rng.chance(0.52) {
                let class = if rng.chance(0.02) { rng.index(120) } else { rng.index(40) };
                taken.push(Taken::new(&arena, class, owner(round, rng.chance(0.3)), rng.index(256).to_le_bytes()[0]));
            } else if !taken.is_empty() {
                let index = rng.index(taken.len());
                taken.swap_remove(index).give(&arena);
            }
            let bytes: usize = taken.iter().map(|cell| class_bytes(cell.class)).sum();
            assert_eq!(arena.taken_bytes(), bytes as u64);
            assert!(arena.held_bytes() >= arena.taken_bytes());
            for family in FAMILIES {
                check_largest(&arena, &taken, family);
            }
        }
        taken.drain(..).for_each(|cell| cell.give(&arena));
        assert_eq!((arena.taken_bytes(), arena.held_bytes()), (0, 0), "empty slabs went back");
        arena.inner.chunks.lock().assert_all_free(arena.size());
    }

    fn check_largest(arena: &Arena, taken: &[Taken], family: Family) {
        // Above slabs there are no families.
        let large = |cell: &Taken| cell.class >= arena.size().slab_classes();
        let ours = |cell: &&Taken| if large(cell) { family == Family::Stays } else { cell.owner.family == family };
        let want = taken.iter().filter(ours).map(|cell| cell.class).max();
        let got = arena.largest(family, 0, &|_| false);
        assert_eq!(got.map(|(class, _)| class), want);
        if let Some((class, leaf)) = got {
            assert!(taken.iter().any(|cell| cell.class == class && cell.owner.leaf == leaf));
        }
    }

    #[test]
    fn cells_are_nobody_elses_and_the_largest_is_found() {
        for (bytes, seed) in [(1 << 20, 1), (16 << 20, 2), (64 << 20, 3)] {
            churn(bytes, seed);
        }
    }

    /// Of every three buffers two go, all over the slabs; then sparse slabs are emptied until there are none.
    #[test]
    fn what_is_spread_thin_is_gathered() {
        for arena_bytes in [1 << 20, 16 << 20, 64 << 20] {
            let arena = Arena::new(arena_bytes);
            let cell = |leaf| Taken::new(&arena, 5 + leaf as usize % 3, owner(leaf, leaf % 2 == 0), 7);
            let mut kept: BTreeMap<u32, Taken> = (0..6_000).map(|leaf| (leaf, cell(leaf))).collect();
            let gone: Vec<u32> = kept.keys().copied().filter(|leaf| leaf % 9 >= 3).collect();
            gone.iter().filter_map(|leaf| kept.remove(leaf)).for_each(|cell| cell.give(&arena));
            let before = arena.held_bytes();
            let mut moves = 0;
            while let Some(leaves) = arena.sparse() {
                let held = arena.held_bytes();
                for leaf in leaves {
                    let old = kept.remove(&leaf.0).expect("a buffer of a leaf that has one");
                    kept.insert(leaf.0, Taken::new(&arena, old.class, old.owner, old.mark));
                    old.give(&arena);
                    moves += 1;
                }
                assert!(arena.held_bytes() < held, "the slab is free");
            }
            let lists = 6 * 3 * arena.size().slab_bytes() as u64;
            let (taken, held) = (arena.taken_bytes(), arena.held_bytes());
            assert!(held < taken + taken / 8 + lists, "{held} for {taken}, {before} before");
            assert!(moves < kept.len(), "{moves} moves of {} buffers", kept.len());
            kept.into_values().for_each(|cell| cell.give(&arena));
        }
    }

    /// One buffer of each class would hold a slab each.
    #[test]
    fn idle_cells_of_the_next_classes_are_taken_before_a_slab_is_begun() {
        let arena = Arena::new(64 << 20);
        let slab_bytes = arena.size().slab_bytes() as u64;
        let largest = Taken::new(&arena, 12, owner(0, false), 1);
        let near: Vec<Taken> = (10..12).map(|class| Taken::new(&arena, class, owner(1, false), 2)).collect();
        assert!(near.iter().all(|cell| cell.class == 12));
        assert_eq!(arena.held_bytes(), slab_bytes);
        let others =
            [(9, false), (13, false), (12, true)].map(|(class, splits)| Taken::new(&arena, class, owner(2, splits), 3));
        assert_eq!(others.each_ref().map(|cell| cell.class), [9, 13, 12], "too small, too large, of the other family");
        assert_eq!(arena.held_bytes(), 4 * slab_bytes);
        near.into_iter().chain(others).chain([largest]).for_each(|cell| cell.give(&arena));
    }

    #[test]
    fn the_papers_classes_stay_what_they_are() {
        let arena = Arena::sized(64 << 20, Sizing::Paper { bytes_max: 256 });
        let cells: Vec<Taken> = [12, 11, 10].map(|class| Taken::new(&arena, class, owner(0, false), 1)).into();
        assert_eq!(cells.iter().map(|cell| cell.class).collect::<Vec<_>>(), [12, 11, 10]);
        cells.into_iter().for_each(|cell| cell.give(&arena));
    }

    #[test]
    fn a_round_over_a_class_meets_every_leaf() {
        let arena = Arena::new(1 << 20);
        let taken: Vec<Taken> = (0..300).map(|leaf| Taken::new(&arena, 5, owner(leaf, false), 1)).collect();
        let met: std::collections::BTreeSet<u32> =
            (0..310).filter_map(|_| arena.largest(Family::Stays, 0, &|_| false)).map(|(_, leaf)| leaf.0).collect();
        assert_eq!(met.len(), 300);
        taken.into_iter().for_each(|cell| cell.give(&arena));
        assert_eq!(arena.largest(Family::Stays, 0, &|_| false), None);
    }
}
