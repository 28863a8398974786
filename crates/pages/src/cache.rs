//! Read cache: whole verified pages, evicted by SIEVE (ZKV 3.4 uses it for the pages that leave the write sequencer).
//!
//! SIEVE: a queue in order of entry; a hit only sets the page's visited bit; the hand walks from the oldest to the newest,
//! clears set bits and evicts the first page without one. A hit so costs a lookup under the shard's lock and no list change.
//!
//! Of a page only what its body fills is kept, to the next 256 bytes: leaves that grew at random are two thirds full, and the cache then
//! holds half as many again. Pages lie in mapped memory, and what counts is what of that the process holds (I6): pages between which too
//! little is free for another take that too, until one goes that lies beside it.
//!
//! **Admission**: a page that was read and for which another would have to go enters at its second read. The first only leaves a mark, so
//! that pages that nobody wants again, nearly all of uniform reads, displace nothing and are not copied. By simulation of Zipf-distributed
//! scans favourites are found as often as without, for a quarter of the entries.
//!
//! The key is (address, zone generation): a page of a zone that was reset is never found again (I5), it just ages out.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_rt::{MappedCopies, MappedCopy, Mutex, PerThread};

use crate::PageAddress;
use crate::format::PAGE_HEADER_BYTES;
use crate::frame::trusted_page;

/// Shards when the cache is large enough; a power of two.
const SHARDS_MAX: usize = 16;
/// A shard is made for this many bytes: smaller caches have fewer shards.
const SHARD_BYTES_MIN: usize = 256 << 10;
/// Memory of an entry beside its page: slab slot, map slot at its usual load, the page's place with reference counts, a mark.
const ENTRY_BYTES: usize =
    size_of::<Entry>() + 2 * size_of::<(Key, u32)>() + size_of::<MappedCopy>() + 16 + size_of::<u32>();
/// A shard's tables may have room for so many times its pages, and for a few more: a capacity that trembles costs nothing.
const TABLE_SLACK: usize = 4;
const TABLE_ENTRIES_MIN: usize = 64;
/// There is at most a mark for so many bytes of capacity.
const MARK_SPAN_BYTES: u64 = 4096;
/// Marks among which the oldest goes.
const MARKS_PER_SLOT: usize = 4;
/// What is kept of a page is a multiple of this, so that the memory of one often serves another.
const STEP_BYTES: usize = 256;
/// Memory comes in pieces of this.
const SYSTEM_PAGE_BYTES: usize = 4096;
const NONE: u32 = u32::MAX;

/// A page from its header to the end of its body, at least; shared with readers.
pub(crate) type CachedPage = Arc<MappedCopy>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    address: u64,
    generation: u64,
}

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(mix(self));
    }
}

/// Spreads a key over 64 bits (the finaliser of splitmix64).
fn mix(key: &Key) -> u64 {
    let mut x = key.address ^ key.generation.rotate_left(46);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// Passes on a hash that is already mixed.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys hash as one u64");
    }

    fn write_u64(&mut self, mixed: u64) {
        self.0 = mixed;
    }
}

struct Entry {
    key: Key,
    page: CachedPage,
    visited: bool,
    newer: u32,
    older: u32,
}

/// One shard: a slab of entries in a doubly linked queue.
struct Shard {
    index: HashMap<Key, u32, BuildHasherDefault<Mixed>>,
    entries: Vec<Option<Entry>>,
    vacant: Vec<u32>,
    newest: u32,
    oldest: u32,
    hand: u32,
    marks: Marks,
}

/// Which pages were turned away lately: prints of 32 bits, four in the slot that the key says, the latest first. To take one page for
/// another, once in tens of millions, costs a copy.
#[derive(Default)]
struct Marks(Box<[[u32; MARKS_PER_SLOT]]>);

impl Marks {
    /// Room for `count` marks, rounded down to a power of two of slots; twice as much stays, so that a capacity that trembles costs
    /// nothing. Marks are kept: slots of a larger table begin as those that they were part of.
    fn resize(&mut self, count: u64) {
        let slots = (count / MARKS_PER_SLOT as u64).checked_ilog2().map_or(0, |log| 1 << log);
        let before = self.0.len();
        if slots <= before && before <= 2 * slots {
            return;
        }
        let slot_before = |slot| self.0.get(slot & before.wrapping_sub(1)).copied().unwrap_or_default();
        self.0 = (0..slots).map(slot_before).collect();
    }

    /// Whether the page was turned away lately; if not, it is now.
    fn takes_back(&mut self, key: &Key) -> bool {
        let mixed = mix(key);
        let slot = (mixed & 0xffff_ffff) as usize & self.0.len().wrapping_sub(1);
        let Some(marks) = self.0.get_mut(slot) else { return true };
        let [first, second, third, fourth, ..] = mixed.to_be_bytes();
        let print = u32::from_be_bytes([first, second, third, fourth]) | 1;
        if let Some(mark) = marks.iter_mut().find(|mark| **mark == print) {
            *mark = 0;
            return true;
        }
        marks.rotate_right(1);
        marks[0] = print;
        false
    }
}

/// The read cache. Always: all shards together take at most the capacity, counted with their tables; but for the marks, at most 2
/// thousandths of it, for what tables are larger than their pages need ([`TABLE_SLACK`], or more until the next [`resize`](Self::resize)),
/// and for a page's part of the tables for each thread that enters one just now.
///
/// The capacity is that of all shards together, not a part for each: else a small cache of long leaves would hold one in a shard, or none.
/// A page that comes displaces those of its own shard first, and where that has none, of the next that has some. No two shards are locked
/// at a time.
pub(crate) struct ReadCache {
    shards: Box<[Mutex<Shard>]>,
    hits: PerThread<AtomicU64>,
    pages: MappedCopies,
    /// Pages that are in shards, or about to be.
    len: AtomicU64,
    bytes_max: AtomicU64,
}

impl ReadCache {
    /// A cache of at most `capacity_bytes`; 0 caches nothing.
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        let shards = (capacity_bytes / SHARD_BYTES_MIN).next_power_of_two().clamp(1, SHARDS_MAX);
        let shards = (0..shards).map(|_| Mutex::new(Shard::new())).collect();
        let (len, bytes_max) = (AtomicU64::new(0), AtomicU64::new(0));
        let cache = Self { shards, hits: PerThread::default(), pages: MappedCopies::default(), len, bytes_max };
        cache.resize(capacity_bytes as u64);
        cache
    }

    /// Gives the cache another capacity; what no longer fits goes at once, from all shards alike, and so do tables that are much too large.
    pub(crate) fn resize(&self, capacity_bytes: u64) {
        self.bytes_max.store(capacity_bytes, Ordering::Relaxed);
        let marks = capacity_bytes / MARK_SPAN_BYTES / self.shards.len() as u64;
        self.shards.iter().for_each(|shard| shard.lock().marks.resize(marks));
        let mut evicted = true;
        while evicted && self.bytes() > capacity_bytes {
            evicted = false;
            for shard in &self.shards {
                if self.bytes() > capacity_bytes {
                    evicted |= self.evict(&mut shard.lock()).is_some();
                }
            }
        }
        self.shards.iter().for_each(|shard| shard.lock().shrink());
    }

    /// The most that it may take, in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Pages found so far.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.sum(|mine| mine.load(Ordering::Relaxed))
    }

    /// The page at `at`, if it is cached.
    pub(crate) fn get(&self, at: PageAddress, generation: u64) -> Option<CachedPage> {
        let key = Key { address: at.raw(), generation };
        let found = self.home(&key).lock().get(&key);
        if found.is_some() {
            self.hits.mine().fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Caches a page that was read, given by its blocks: while there is room at once, else at its second read.
    pub(crate) fn offer(&self, at: PageAddress, generation: u64, blocks: &[u8]) {
        let key = Key { address: at.raw(), generation };
        let blocks = filled_part(blocks);
        let is_full = self.bytes() + (blocks.len() + ENTRY_BYTES) as u64 > self.bytes_max();
        if !is_full || self.home(&key).lock().marks.takes_back(&key) {
            self.enter(key, blocks);
        }
    }

    /// Caches a page, given by its blocks.
    pub(crate) fn insert(&self, at: PageAddress, generation: u64, blocks: &[u8]) {
        self.enter(Key { address: at.raw(), generation }, filled_part(blocks));
    }

    fn enter(&self, key: Key, blocks: &[u8]) {
        let home = self.home(&key);
        if home.lock().index.contains_key(&key) {
            return;
        }
        self.len.fetch_add(1, Ordering::Relaxed);
        let copy = self.copy(&key, blocks);
        let mut shard = home.lock();
        match copy {
            Some(page) if !shard.index.contains_key(&key) => shard.link(key, Arc::new(page)),
            // It does not fit, or somebody else read it at the same time.
            _ => _ = self.len.fetch_sub(1, Ordering::Relaxed),
        }
    }

    /// Drops a page that is superseded, so that its memory serves others.
    pub(crate) fn remove(&self, at: PageAddress, generation: u64) {
        let key = Key { address: at.raw(), generation };
        let removed = self.home(&key).lock().remove(&key);
        self.note_gone(removed.as_ref());
    }

    /// Bytes of pages and tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.resident_bytes() + self.table_bytes()
    }

    fn table_bytes(&self) -> u64 {
        self.len.load(Ordering::Relaxed) * ENTRY_BYTES as u64
    }

    /// A copy of `blocks` within the capacity, for which other pages go, of the shard of `key` first. `None`: there is no such room.
    fn copy(&self, key: &Key, blocks: &[u8]) -> Option<MappedCopy> {
        let bytes_alone = blocks.len().next_multiple_of(SYSTEM_PAGE_BYTES) + ENTRY_BYTES;
        if bytes_alone as u64 > self.bytes_max() {
            return None;
        }
        let first = self.index(key);
        for turn in 0..self.shards.len() {
            let shard = &self.shards[(first + turn) & (self.shards.len() - 1)];
            loop {
                let room_bytes = self.bytes_max().saturating_sub(self.table_bytes());
                let copy = self.pages.copy(blocks, room_bytes);
                if copy.is_some() {
                    return copy;
                }
                if self.evict(&mut shard.lock()).is_none() {
                    break;
                }
            }
        }
        None
    }

    fn evict(&self, shard: &mut Shard) -> Option<CachedPage> {
        let page = shard.evict();
        self.note_gone(page.as_ref());
        page
    }

    fn note_gone(&self, page: Option<&CachedPage>) {
        page.into_iter().for_each(|_| _ = self.len.fetch_sub(1, Ordering::Relaxed));
    }

    fn home(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[self.index(key)]
    }

    fn index(&self, key: &Key) -> usize {
        // The map uses the low bits of the same hash.
        (mix(key) >> 48) as usize & (self.shards.len() - 1)
    }
}

impl Shard {
    fn new() -> Self {
        Self {
            index: HashMap::default(),
            entries: Vec::new(),
            vacant: Vec::new(),
            newest: NONE,
            oldest: NONE,
            hand: NONE,
            marks: Marks::default(),
        }
    }

    fn get(&mut self, key: &Key) -> Option<CachedPage> {
        let entry = self.entries[*self.index.get(key)? as usize].as_mut()?;
        entry.visited = true;
        Some(Arc::clone(&entry.page))
    }

    fn remove(&mut self, key: &Key) -> Option<CachedPage> {
        let slot = self.index.get(key).copied()?;
        self.unlink(slot)
    }

    /// Moves the hand to the first page that was not visited since it last passed, and takes that page out.
    fn evict(&mut self) -> Option<CachedPage> {
        let mut slot = if self.hand == NONE { self.oldest } else { self.hand };
        while let Some(entry) = self.entry(slot).filter(|entry| entry.visited) {
            entry.visited = false;
            let newer = entry.newer;
            slot = if newer == NONE { self.oldest } else { newer };
        }
        self.hand = slot;
        self.unlink(slot)
    }

    fn entry(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// Enters a page as the newest.
    fn link(&mut self, key: Key, page: CachedPage) {
        let entry = Entry { key, page, visited: false, newer: NONE, older: self.newest };
        let slot = self.store(entry);
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.entry(newest).expect("the newest entry exists").newer = slot,
        }
        self.newest = slot;
        self.index.insert(key, slot);
    }

    fn store(&mut self, entry: Entry) -> u32 {
        let Some(slot) = self.vacant.pop() else {
            self.entries.push(Some(entry));
            return u32::try_from(self.entries.len() - 1).expect("a shard has fewer than 2^32 pages");
        };
        self.entries[slot as usize] = Some(entry);
        slot
    }

    /// Gives back tables that are much too large. Cost then: one pass over the pages; their order, marks and the hand stay.
    fn shrink(&mut self) {
        // The map's own capacity leaves out what removed keys block.
        if self.entries.capacity() <= TABLE_SLACK * self.index.len() + TABLE_ENTRIES_MIN {
            return;
        }
        let mut large = std::mem::replace(self, Self::new());
        self.marks = std::mem::take(&mut large.marks);
        self.index.reserve(large.index.len());
        self.entries.reserve(large.index.len());
        let mut slot = large.oldest;
        while let Some(entry) = large.entries.get_mut(slot as usize).and_then(Option::take) {
            self.link(entry.key, entry.page);
            let newest = self.newest;
            self.entry(newest).expect("just linked").visited = entry.visited;
            if slot == large.hand {
                self.hand = newest;
            }
            slot = entry.newer;
        }
    }

    fn unlink(&mut self, slot: u32) -> Option<CachedPage> {
        let entry = self.entries.get_mut(slot as usize)?.take()?;
        match self.entry(entry.newer) {
            Some(newer) => newer.older = entry.older,
            None => self.newest = entry.older,
        }
        match self.entry(entry.older) {
            Some(older) => older.newer = entry.newer,
            None => self.oldest = entry.newer,
        }
        if self.hand == slot {
            self.hand = entry.newer;
        }
        self.index.remove(&entry.key);
        self.vacant.push(slot);
        Some(entry.page)
    }
}

/// What the page in `blocks` fills of them.
fn filled_part(blocks: &[u8]) -> &[u8] {
    let end = trusted_page(blocks).map_or(blocks.len(), |page| PAGE_HEADER_BYTES + page.body.len());
    &blocks[..end.next_multiple_of(STEP_BYTES).min(blocks.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(block: u64) -> PageAddress {
        PageAddress::new(block, 1)
    }

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; 4096]
    }

    /// A cache of one shard with room for `pages` pages.
    fn room_for(pages: usize) -> ReadCache {
        ReadCache::new(pages * (4096 + ENTRY_BYTES))
    }

    #[test]
    fn a_page_is_found_only_under_its_generation() {
        let cache = room_for(4);
        cache.insert(at(5), 1, &page(7));
        assert_eq!(cache.get(at(5), 1).as_deref().map(|page| &page[..]), Some(&page(7)[..]));
        assert!(cache.get(at(5), 2).is_none());
        assert!(cache.get(at(6), 1).is_none());
    }

    #[test]
    fn of_a_page_that_is_partly_full_only_that_part_takes_room() {
        use crate::frame::{Framing, Place};
        use crate::{NewPage, PageId};
        let cache = room_for(8);
        let body: Vec<u8> = (0..=255).cycle().take(2_500).collect();
        let mut blocks = vec![0; 4096];
        let new = NewPage { id: PageId(9), sequence: 1, body: &body };
        Framing::new(1).write_page(&mut blocks, &new, Place { generation: 1, block: 5 });
        (1..=11).for_each(|block| cache.insert(at(block), 1, &blocks));
        let there = (1..=11).filter_map(|block| cache.get(at(block), 1));
        let bodies: Vec<_> = there.map(|page| trusted_page(&page).unwrap().body.to_vec()).collect();
        assert!(bodies.len() == 11 && bodies.iter().all(|kept| *kept == body), "{} pages", bodies.len());
        let bytes = (11_usize * 2_560).next_multiple_of(SYSTEM_PAGE_BYTES) + 11 * ENTRY_BYTES;
        assert_eq!(cache.bytes(), bytes as u64);
    }

    #[test]
    fn visited_pages_survive_one_pass_of_the_hand() {
        let cache = room_for(3);
        for block in 1..=3 {
            cache.insert(at(block), 0, &page(1));
        }
        assert!(cache.get(at(1), 0).is_some());
        cache.insert(at(4), 0, &page(1));
        assert!(cache.get(at(1), 0).is_some() && cache.get(at(2), 0).is_none());
        cache.insert(at(5), 0, &page(1));
        assert!(cache.get(at(3), 0).is_none(), "the hand went on from where it stood");
    }

    #[test]
    fn a_page_that_was_read_displaces_others_when_it_is_read_again() {
        let cache = room_for(4);
        let is_there = |block| cache.get(at(block), 0).is_some();
        (1..=4).for_each(|block| cache.offer(at(block), 0, &page(1)));
        assert!((1..=4).all(is_there), "there was room");
        cache.offer(at(5), 0, &page(1));
        assert!(!is_there(5) && (1..=4).all(is_there));
        cache.offer(at(5), 0, &page(1));
        assert_eq!((1..=5).filter(|&block| is_there(block)).count(), 4);
        assert!(is_there(5));
        cache.offer(at(5), 1, &page(1));
        assert!(cache.get(at(5), 1).is_none(), "another generation is another page");
    }

    #[test]
    fn pages_that_come_once_leave_those_there_that_come_often() {
        let cache = ReadCache::new(4 << 20);
        let often = 200;
        (1..=4_000).for_each(|block| cache.offer(at(block), 0, &page(1)));
        for once in 10_000..14_000 {
            let favourite = once % often + 5_000;
            if cache.get(at(favourite), 0).is_none() {
                cache.offer(at(favourite), 0, &page(1));
            }
            cache.offer(at(once), 0, &page(1));
            assert!(cache.get(at(once), 0).is_none());
        }
        assert!((5_000..5_000 + often).all(|block| cache.get(at(block), 0).is_some()));
    }

    #[test]
    fn marks_outlive_a_capacity_that_trembles_or_grows() {
        let mut marks = Marks::default();
        let key = |address| Key { address, generation: 1 };
        marks.resize(64);
        assert!((1..=16).all(|address| !marks.takes_back(&key(address))), "none was turned away before");
        for count in [63, 64, 40, 64, 128, 127, 512] {
            marks.resize(count);
        }
        assert_eq!(marks.0.len(), 128);
        let kept = (1..=16).filter(|&address| marks.takes_back(&key(address))).count();
        assert!(kept >= 14, "{kept} of 16; slots hold four");
    }

    #[test]
    fn marks_follow_the_capacity_and_none_turn_nobody_away() {
        let cache = ReadCache::new(16 << 20);
        let marks = |cache: &ReadCache| cache.shards.iter().map(|shard| 4 * shard.lock().marks.0.len()).sum::<usize>();
        assert_eq!(marks(&cache), 4_096);
        cache.resize(6 << 20);
        assert_eq!(marks(&cache), 1_024, "rounded down in each of 16 shards");
        cache.resize(0);
        assert_eq!(marks(&cache), 0);
        assert!(Marks::default().takes_back(&Key { address: 1, generation: 1 }));
    }

    #[test]
    fn the_capacity_holds_and_memory_is_reused() {
        let cache = room_for(8);
        for block in 1..1000 {
            cache.insert(at(block), 0, &page(1));
            assert!(cache.bytes() <= 8 * (4096 + ENTRY_BYTES) as u64);
        }
        assert_eq!(cache.shards[0].lock().entries.len(), 8);
    }

    #[test]
    fn a_removed_page_is_gone_and_the_queue_stays_whole() {
        let cache = room_for(3);
        for block in 1..=3 {
            cache.insert(at(block), 0, &page(1));
        }
        for block in [2, 1, 3] {
            cache.remove(at(block), 0);
            assert!(cache.get(at(block), 0).is_none());
        }
        assert_eq!(cache.bytes(), 0);
        cache.insert(at(9), 0, &page(1));
        assert!(cache.get(at(9), 0).is_some());
    }

    #[test]
    fn a_smaller_cache_forgets_and_a_larger_one_holds_more() {
        let cache = room_for(8);
        for block in 1..=8 {
            cache.insert(at(block), 0, &page(1));
        }
        let three = 3 * (4096 + ENTRY_BYTES) as u64;
        cache.resize(three);
        assert!(cache.bytes() <= three && cache.bytes_max() == three);
        assert!(cache.get(at(8), 0).is_some() && cache.get(at(1), 0).is_none());
        cache.resize(0);
        assert_eq!(cache.bytes(), 0);
        cache.resize(2 * three);
        for block in 1..=6 {
            cache.insert(at(block), 0, &page(1));
        }
        assert!((1..=6).all(|block| cache.get(at(block), 0).is_some()));
        assert_eq!(cache.hits(), 7);
    }

    #[test]
    fn tables_shrink_with_the_cache() {
        let entries =
            |cache: &ReadCache| cache.shards.iter().map(|shard| shard.lock().entries.capacity()).sum::<usize>();
        let cache = ReadCache::new(16 << 20);
        (1..=4_000).for_each(|block| cache.insert(at(block), 1, &page(1)));
        cache.resize(15 << 20);
        assert!(entries(&cache) >= 3_900, "they have about as much as they need");
        cache.resize(1 << 20);
        let there: Vec<u64> = (1..=4_000).filter(|&block| cache.get(at(block), 1).is_some()).collect();
        assert_eq!(there.len() as u64 * ENTRY_BYTES as u64, cache.table_bytes());
        assert!((200..256).contains(&there.len()), "{} pages", there.len());
        assert!(entries(&cache) <= there.len() * TABLE_SLACK + SHARDS_MAX * TABLE_ENTRIES_MIN);
        let indexes = || cache.shards.iter().map(|shard| shard.lock().index.capacity());
        assert!(indexes().all(|capacity| capacity <= 64), "{:?}", indexes().collect::<Vec<_>>());
    }

    #[test]
    fn tables_that_shrink_keep_the_order_in_which_pages_go() {
        let pages = MappedCopies::default();
        let key = |number: u32| Key { address: number.into(), generation: 1 };
        // 40 of 1,000 pages are left, some visited, and the hand is in their midst.
        let used = || {
            let mut shard = Shard::new();
            for number in 0..1_000_u32 {
                let page = pages.copy(&number.to_le_bytes(), u64::MAX).expect("memory");
                shard.link(key(number), Arc::new(page));
            }
            (0..1_000)
                .filter(|number| number % 25 != 0)
                .for_each(|number| assert!(shard.remove(&key(number)).is_some()));
            (0..20).for_each(|nth| assert!(shard.get(&key(nth * 50)).is_some()));
            (0..10).for_each(|_| assert!(shard.evict().is_some()));
            (10..20).for_each(|nth| assert!(shard.get(&key(nth * 50)).is_some()));
            shard
        };
        let (mut shrunk, mut same) = (used(), used());
        shrunk.shrink();
        assert!(shrunk.entries.capacity() < 100 && same.entries.capacity() >= 1_000);
        let evictions = |shard: &mut Shard| -> Vec<Vec<u8>> {
            std::iter::from_fn(|| shard.evict()).map(|page| page.to_vec()).collect()
        };
        let order = evictions(&mut shrunk);
        assert!(order.len() == 30 && order == evictions(&mut same), "{order:?}");
    }

    #[test]
    fn a_cache_of_many_shards_that_became_small_holds_what_fits_it() {
        let long = |block: u64| (PageAddress::new(8 * block, 8), vec![7; 32 << 10]);
        let long_bytes = (32 << 10) + ENTRY_BYTES as u64;
        let cache = ReadCache::new(16 << 20);
        assert_eq!(cache.shards.len(), SHARDS_MAX);
        let insert = |block| {
            let (at, page) = long(block);
            cache.insert(at, 1, &page);
            assert!(cache.bytes() <= cache.bytes_max());
        };
        (1..=400).for_each(insert);
        assert_eq!(cache.bytes(), 400 * long_bytes);
        // Less than a page for a shard.
        cache.resize(3 * long_bytes + 100);
        assert_eq!(cache.bytes(), 3 * long_bytes);
        for block in 500..600 {
            insert(block);
            assert!(cache.get(long(block).0, 1).is_some(), "what came last is there");
            assert_eq!(cache.bytes(), 3 * long_bytes);
        }
        cache.resize(long_bytes - 1);
        assert_eq!(cache.bytes(), 0);
        insert(1);
        assert_eq!(cache.bytes(), 0, "it does not fit");
        let entries: usize = cache.shards.iter().map(|shard| shard.lock().index.len()).sum();
        assert_eq!(entries, 0);
    }

    #[test]
    fn no_capacity_caches_nothing() {
        let cache = ReadCache::new(0);
        cache.insert(at(1), 0, &page(1));
        assert!(cache.get(at(1), 0).is_none());
    }

    #[test]
    fn all_visited_pages_are_evicted_after_a_full_turn() {
        let cache = room_for(2);
        cache.insert(at(1), 0, &page(1));
        cache.insert(at(2), 0, &page(1));
        assert!(cache.get(at(1), 0).is_some() && cache.get(at(2), 0).is_some());
        cache.insert(at(3), 0, &page(1));
        assert!(cache.get(at(3), 0).is_some() && cache.get(at(1), 0).is_none());
    }
}
