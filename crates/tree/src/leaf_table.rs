//! The leaf table: from leaf id to one word of latch and location (Bf-Tree 3.3).
//!
//! Word: bit 63 exclusive latch | bits 48..63 count of shared holders | bit 47 "exclusive wanted" | bit 46 "is a buffer" | bits 0..46
//! location: a page address, or the address of a [`Buffer`] divided by 8; 0 = neither (an empty leaf that was never written).
//!
//! Latches (lock order: ARCHITECTURE): exclusive holders own the location, shared holders may read it and the buffer behind
//! it. Memory: 9 bytes a leaf, in segments of 4,096, these in groups of 256, that appear as leaves do. Unsafe code here turns words back
//! into the buffers that the words own.

use std::{mem::ManuallyDrop, sync::OnceLock};

use zonda_pages::{PageAddress, PageId};
use zonda_rt::{
    Mutex, Spin,
    atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    spin_wait,
};

use crate::{TreeError, buffer::Buffer};

/// Segments and groups are small, so that a store of few leaves pays for few, and one of many hardly for more than it has.
const SEGMENT_LEAVES: usize = 1 << 12;
const GROUP_SEGMENTS: usize = 1 << 8;
const GROUPS_MAX: usize = 1 << 7;

const EXCLUSIVE: u64 = 1 << 63;
const SHARED_ONE: u64 = 1 << 48;
const SHARED_MASK: u64 = EXCLUSIVE - SHARED_ONE;
/// Somebody waits for the exclusive latch: no new shared holders.
const WANTED: u64 = 1 << 47;
const IS_BUFFER: u64 = 1 << PageAddress::BITS;
const LOCATION_MASK: u64 = IS_BUFFER - 1;
const WORD_MASK: u64 = IS_BUFFER | LOCATION_MASK;

/// Most leaves of one tree: 134,217,728.
pub(crate) const LEAVES_MAX: usize = SEGMENT_LEAVES * GROUP_SEGMENTS * GROUPS_MAX;

/// Where a leaf's content is.
pub(crate) enum Location {
    /// Nowhere: no record, no page.
    Empty,
    /// On the device only.
    Page(PageAddress),
    /// In a buffer, whose header holds the page's address.
    Buffered(Buffer),
}

impl Location {
    fn into_word(self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Page(address) => address.raw(),
            Self::Buffered(buffer) => {
                let raw = buffer.into_raw();
                assert!(raw & 7 == 0 && raw >> 3 <= LOCATION_MASK, "user addresses have 47 bits");
                raw >> 3 | IS_BUFFER
            }
        }
    }

    /// # Safety
    /// As for [`Buffer::from_raw`].
    unsafe fn from_word(word: u64) -> Self {
        let location = word & LOCATION_MASK;
        if word & IS_BUFFER != 0 {
            // SAFETY: passed on to the caller.
            return Self::Buffered(unsafe { Buffer::from_raw(location << 3) });
        }
        PageAddress::from_raw(location).map_or(Self::Empty, Self::Page)
    }

    /// The page's address, wherever it stands.
    pub(crate) fn page(&self) -> Option<PageAddress> {
        match self {
            Self::Empty => None,
            Self::Page(address) => Some(*address),
            Self::Buffered(buffer) => buffer.page(),
        }
    }

    /// The buffer, if there is one (I7: at most one).
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Buffered(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// The buffer, to be changed.
    pub(crate) fn buffer_mut(&mut self) -> Option<&mut Buffer> {
        match self {
            Self::Buffered(buffer) => Some(buffer),
            _ => None,
        }
    }
}

/// Words of leaves, and how full their pages are.
struct Segment {
    words: Box<[AtomicU64]>,
    /// In 255ths of a normal page, as far as this life of the store knows; a hint.
    fills: Box<[AtomicU8]>,
}

impl Segment {
    fn new() -> Self {
        Self {
            words: (0..SEGMENT_LEAVES).map(|_| AtomicU64::new(0)).collect(),
            fills: (0..SEGMENT_LEAVES).map(|_| AtomicU8::new(0)).collect(),
        }
    }
}

type Group = Box<[OnceLock<Segment>]>;

/// All leaves of a tree.
pub(crate) struct LeafTable {
    groups: Box<[OnceLock<Group>]>,
    len: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl LeafTable {
    /// An empty table.
    pub(crate) fn new() -> Self {
        let groups = (0..GROUPS_MAX).map(|_| OnceLock::new()).collect();
        Self { groups, len: AtomicU32::new(0), free: Mutex::new(Vec::new()) }
    }

    fn segment(&self, id: PageId) -> &Segment {
        let segment = id.0 as usize / SEGMENT_LEAVES;
        let group = self.groups[segment / GROUP_SEGMENTS].get();
        group.and_then(|group| group[segment % GROUP_SEGMENTS].get()).expect("ids come from this table")
    }

    fn word(&self, id: PageId) -> &AtomicU64 {
        &self.segment(id).words[id.0 as usize % SEGMENT_LEAVES]
    }

    fn fill(&self, id: PageId) -> &AtomicU8 {
        &self.segment(id).fills[id.0 as usize % SEGMENT_LEAVES]
    }

    /// About how many bytes the page of leaf `id` uses of `page_bytes`; 0 if that is not known. A hint.
    pub(crate) fn fill_bytes(&self, id: PageId, page_bytes: usize) -> usize {
        usize::from(self.fill(id).load(Ordering::Relaxed)) * page_bytes / usize::from(u8::MAX)
    }

    /// Notes that a page of leaf `id` uses `bytes` of `page_bytes`.
    pub(crate) fn set_fill_bytes(&self, id: PageId, bytes: usize, page_bytes: usize) {
        let fill = u8::try_from(bytes * usize::from(u8::MAX) / page_bytes).unwrap_or(u8::MAX);
        // 0 says that it is not known.
        self.fill(id).store(fill.max(1), Ordering::Relaxed);
    }

    /// A fresh leaf id; its location is empty.
    ///
    /// # Errors
    /// `Damaged` past [`LEAVES_MAX`] leaves.
    pub(crate) fn allocate(&self) -> Result<PageId, TreeError> {
        let mut free = self.free.lock();
        if let Some(id) = free.pop() {
            return Ok(PageId(id));
        }
        let id = self.len.load(Ordering::Relaxed);
        self.reach(id)?;
        self.len.store(id + 1, Ordering::Release);
        Ok(PageId(id))
    }

    fn reach(&self, id: u32) -> Result<(), TreeError> {
        let index = id as usize;
        if index >= LEAVES_MAX {
            return Err(TreeError::Damaged { what: "leaf table", why: format!("more than {LEAVES_MAX} leaves") });
        }
        let segment = index / SEGMENT_LEAVES;
        let group = self.groups[segment / GROUP_SEGMENTS]
            .get_or_init(|| (0..GROUP_SEGMENTS).map(|_| OnceLock::new()).collect());
        group[segment % GROUP_SEGMENTS].get_or_init(Segment::new);
        Ok(())
    }

    /// Gives ids back for reuse; the caller has waited for readers and the durable record of their removal.
    pub(crate) fn recycle(&self, ids: impl IntoIterator<Item = PageId>) {
        self.free.lock().extend(ids.into_iter().map(|id| id.0));
    }

    /// Recovery: places `id` at `page`, making ids up to it exist.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub(crate) fn restore(&self, id: PageId, page: Option<PageAddress>) -> Result<(), TreeError> {
        for id in self.len.load(Ordering::Relaxed)..=id.0 {
            self.reach(id)?;
        }
        self.len.fetch_max(id.0 + 1, Ordering::Relaxed);
        self.word(id).store(page.map_or(0, PageAddress::raw), Ordering::Release);
        Ok(())
    }

    /// Ids given out so far: all are below.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Memory in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let segments = (self.len() as usize).div_ceil(SEGMENT_LEAVES);
        let groups = segments.div_ceil(GROUP_SEGMENTS);
        let heads =
            groups * GROUP_SEGMENTS * size_of::<OnceLock<Segment>>() + GROUPS_MAX * size_of::<OnceLock<Group>>();
        (segments * SEGMENT_LEAVES * 9 + heads) as u64
    }

    /// Waits for the exclusive latch. Nobody waits here while holding another leaf latch, except left to right under one
    /// parent (lock order).
    pub(crate) fn lock(&self, id: PageId) -> Exclusive<'_> {
        let word = self.word(id);
        let mut spin = Spin::new();
        loop {
            if let Some(guard) = Exclusive::try_take(word, id) {
                return guard;
            }
            // Whoever gets it first clears the mark for all; the others set it again.
            word.fetch_or(WANTED, Ordering::Relaxed);
            spin_wait(&mut spin);
        }
    }

    /// The exclusive latch if nobody holds any.
    pub(crate) fn try_lock(&self, id: PageId) -> Option<Exclusive<'_>> {
        Exclusive::try_take(self.word(id), id)
    }

    /// Waits for a shared latch.
    pub(crate) fn lock_shared(&self, id: PageId) -> Shared<'_> {
        let word = self.word(id);
        let mut spin = Spin::new();
        loop {
            if let Some(guard) = Shared::try_take(word, id) {
                return guard;
            }
            spin_wait(&mut spin);
        }
    }

    /// A shared latch if nobody holds the exclusive one.
    pub(crate) fn try_lock_shared(&self, id: PageId) -> Option<Shared<'_>> {
        Shared::try_take(self.word(id), id)
    }

    /// Whether leaf `id` has a buffer just now; a hint, taken without a latch.
    pub(crate) fn seems_buffered(&self, id: PageId) -> bool {
        self.word(id).load(Ordering::Relaxed) & IS_BUFFER != 0
    }
}

impl Drop for LeafTable {
    fn drop(&mut self) {
        let groups = self.groups.iter().filter_map(OnceLock::get);
        for segment in groups.flat_map(|group| group.iter().filter_map(OnceLock::get)) {
            for word in &segment.words {
                // SAFETY: the table is going away, so its words own their buffers alone.
                drop(unsafe { Location::from_word(word.load(Ordering::Relaxed)) });
            }
        }
    }
}

/// An exclusive latch; the new location is stored when it is dropped.
pub(crate) struct Exclusive<'a> {
    word: &'a AtomicU64,
    id: PageId,
    location: ManuallyDrop<Location>,
}

impl<'a> Exclusive<'a> {
    fn try_take(word: &'a AtomicU64, id: PageId) -> Option<Self> {
        let seen = word.load(Ordering::Relaxed);
        if seen & (EXCLUSIVE | SHARED_MASK) != 0 {
            return None;
        }
        let taken = seen & WORD_MASK | EXCLUSIVE;
        word.compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: the latch makes this guard the only owner until it is dropped.
        let location = unsafe { Location::from_word(seen & WORD_MASK) };
        Some(Self { word, id, location: ManuallyDrop::new(location) })
    }

    /// Whose latch this is.
    pub(crate) fn id(&self) -> PageId {
        self.id
    }

    /// Where the leaf is.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// The buffer, to be changed.
    pub(crate) fn buffer_mut(&mut self) -> Option<&mut Buffer> {
        self.location.buffer_mut()
    }

    /// Moves the leaf; returns where it was.
    pub(crate) fn replace(&mut self, location: Location) -> Location {
        std::mem::replace(&mut *self.location, location)
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        // SAFETY: taken once, here; the guard is not used afterwards.
        let location = unsafe { ManuallyDrop::take(&mut self.location) };
        self.word.store(location.into_word(), Ordering::Release);
    }
}

/// A shared latch.
pub(crate) struct Shared<'a> {
    word: &'a AtomicU64,
    id: PageId,
    location: ManuallyDrop<Location>,
}

impl<'a> Shared<'a> {
    fn try_take(word: &'a AtomicU64, id: PageId) -> Option<Self> {
        let seen = word.load(Ordering::Relaxed);
        if seen & (EXCLUSIVE | WANTED) != 0 || seen & SHARED_MASK == SHARED_MASK {
            return None;
        }
        word.compare_exchange(seen, seen + SHARED_ONE, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: while shared latches are held nobody changes or drops the location; this copy is never dropped.
        let location = unsafe { Location::from_word(seen & WORD_MASK) };
        Some(Self { word, id, location: ManuallyDrop::new(location) })
    }

    /// Whose latch this is.
    pub(crate) fn id(&self) -> PageId {
        self.id
    }

    /// Where the leaf is.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.word.fetch_sub(SHARED_ONE, Ordering::Release);
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        pool::{arena::Owner, memory::Memory},
        record::{Kind, Record},
    };

    #[test]
    fn a_fill_of_next_to_nothing_is_known_all_the_same() {
        let table = LeafTable::new();
        let id = table.allocate().expect("room");
        assert_eq!(table.fill_bytes(id, 32 << 10), 0);
        table.set_fill_bytes(id, 24, 32 << 10);
        assert!((1..200).contains(&table.fill_bytes(id, 32 << 10)), "{}", table.fill_bytes(id, 32 << 10));
        table.set_fill_bytes(id, 32 << 10, 32 << 10);
        assert_eq!(table.fill_bytes(id, 32 << 10), 32 << 10);
    }

    #[test]
    fn latches_exclude() {
        let table = LeafTable::new();
        let id = table.allocate().expect("room");
        let shared = table.lock_shared(id);
        assert!(table.try_lock(id).is_none());
        assert!(table.try_lock_shared(id).is_some());
        drop(shared);
        let exclusive = table.lock(id);
        assert!(table.try_lock_shared(id).is_none());
        drop(exclusive);
        assert!(table.try_lock(id).is_some());
    }

    #[test]
    fn a_buffer_survives_in_its_word() {
        let table = LeafTable::new();
        let id = table.allocate().expect("room");
        let mut guard = table.lock(id);
        let arena = Memory::slabs(1 << 20);
        let mut buffer = Buffer::new(&arena, Owner::of(id), None, b"", 100);
        assert!(buffer.upsert(&Record { key: b"k", kind: Kind::Inline, value: b"v" }));
        guard.replace(Location::Buffered(buffer));
        drop(guard);
        let shared = table.lock_shared(id);
        assert_eq!(shared.location().buffer().expect("there").find(b"k").expect("there").value, b"v");
    }

    #[test]
    fn ids_are_reused() {
        let table = LeafTable::new();
        let id = table.allocate().expect("room");
        table.recycle([id]);
        assert_eq!(table.allocate().expect("room"), id);
        assert_eq!(table.allocate().expect("room"), PageId(id.0 + 1));
    }
}
