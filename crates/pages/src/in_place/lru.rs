//! LRU pool of pages: what the baselines have in place of ZFlusher's read cache (ZKV, Exp#11).
//!
//! Pages enter when they are read from the device and when they are written to it; a hit makes a page the newest; the oldest go.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_rt::{MappedCopies, MappedCopy, Mutex, PerThread};

use crate::PageAddress;
use crate::cache::CachedPage;

/// A page's address and the generation of its place: a zone that was reset holds other pages at the same addresses (I5).
pub(crate) type PlaceKey = (PageAddress, u64);

/// Shards when the pool is large enough; a power of two.
const SHARDS_MAX: usize = 16;
/// A shard holds at least this many bytes.
const SHARD_BYTES_MIN: usize = 256 << 10;
/// Memory of an entry beside its page: map and order slots at their usual load, the page's place with reference counts.
const ENTRY_BYTES: usize =
    2 * size_of::<(PlaceKey, Entry)>() + 2 * size_of::<(u64, PlaceKey)>() + size_of::<MappedCopy>() + 16;

struct Entry {
    age: u64,
    page: CachedPage,
}

/// One shard. Always: `order` has each entry once, under its age.
struct Shard {
    pages: MappedCopies,
    entries: HashMap<PlaceKey, Entry>,
    order: BTreeMap<u64, PlaceKey>,
    clock: u64,
    bytes: usize,
    bytes_max: usize,
}

/// The pool. Always: all shards together take at most the capacity.
pub(crate) struct LruPool {
    shards: Box<[Mutex<Shard>]>,
    hits: PerThread<AtomicU64>,
    bytes_max: AtomicU64,
}

impl LruPool {
    /// A pool of at most `capacity_bytes`; 0 keeps nothing.
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        let shards = (capacity_bytes / SHARD_BYTES_MIN).next_power_of_two().clamp(1, SHARDS_MAX);
        let shard = |_| Mutex::new(Shard::new(capacity_bytes / shards));
        let bytes_max = AtomicU64::new(capacity_bytes as u64);
        Self { shards: (0..shards).map(shard).collect(), hits: PerThread::default(), bytes_max }
    }

    /// Gives the pool another capacity; what no longer fits goes at once.
    pub(crate) fn resize(&self, capacity_bytes: u64) {
        if self.bytes_max.swap(capacity_bytes, Ordering::Relaxed) == capacity_bytes {
            return;
        }
        let shard_bytes = usize::try_from(capacity_bytes).unwrap_or(usize::MAX) / self.shards.len();
        self.shards.iter().for_each(|shard| shard.lock().resize(shard_bytes));
    }

    /// The most that it may take, in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Pages found so far.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.sum(|mine| mine.load(Ordering::Relaxed))
    }

    /// The page at `at`, which is the newest now.
    pub(crate) fn get(&self, at: PageAddress, generation: u64) -> Option<CachedPage> {
        let found = self.shard(at).lock().get((at, generation));
        if found.is_some() {
            self.hits.mine().fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Keeps the blocks of a page.
    pub(crate) fn insert(&self, at: PageAddress, generation: u64, blocks: &[u8]) {
        self.shard(at).lock().insert((at, generation), blocks);
    }

    /// Drops a page.
    pub(crate) fn remove(&self, at: PageAddress, generation: u64) {
        self.shard(at).lock().remove((at, generation));
    }

    /// Bytes of pages and tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes as u64).sum()
    }

    fn shard(&self, at: PageAddress) -> &Mutex<Shard> {
        // Neighbours are read together: they go to different shards.
        &self.shards[crate::number::index(at.block()) & (self.shards.len() - 1)]
    }
}

impl Shard {
    fn new(bytes_max: usize) -> Self {
        let pages = MappedCopies::default();
        Self { pages, entries: HashMap::new(), order: BTreeMap::new(), clock: 0, bytes: 0, bytes_max }
    }

    fn get(&mut self, at: PlaceKey) -> Option<CachedPage> {
        let entry = self.entries.get_mut(&at)?;
        self.order.remove(&entry.age);
        self.clock += 1;
        entry.age = self.clock;
        self.order.insert(self.clock, at);
        Some(Arc::clone(&entry.page))
    }

    fn insert(&mut self, at: PlaceKey, blocks: &[u8]) {
        let needed = blocks.len() + ENTRY_BYTES;
        if needed > self.bytes_max || self.entries.contains_key(&at) {
            return;
        }
        self.evict_to(self.bytes_max - needed);
        // Whole blocks: what is free between them is whole pages of the system, which go back to it.
        let Some(page) = self.pages.copy(blocks, u64::MAX) else { return };
        self.clock += 1;
        self.order.insert(self.clock, at);
        self.entries.insert(at, Entry { age: self.clock, page: Arc::new(page) });
        self.bytes += needed;
    }

    fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.evict_to(bytes_max);
        // Twice what is there may come before it grows again.
        self.entries.shrink_to(2 * self.entries.len());
    }

    fn evict_to(&mut self, bytes: usize) {
        while self.bytes > bytes {
            let Some((_, oldest)) = self.order.first_key_value() else { break };
            self.remove(*oldest);
        }
    }

    fn remove(&mut self, at: PlaceKey) {
        if let Some(entry) = self.entries.remove(&at) {
            self.order.remove(&entry.age);
            self.bytes -= entry.page.len() + ENTRY_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(block: u64) -> PageAddress {
        PageAddress::new(block, 1)
    }

    #[test]
    fn the_page_that_was_used_longest_ago_goes_first() {
        let pool = LruPool::new(3 * (4096 + ENTRY_BYTES));
        (1..=3).for_each(|block| pool.insert(at(block), 1, &[1; 4096]));
        assert!(pool.get(at(1), 1).is_some());
        pool.insert(at(4), 1, &[4; 4096]);
        assert!(pool.get(at(4), 2).is_none(), "I5 another generation");
        assert!(pool.get(at(2), 1).is_none(), "2 was the oldest after 1 had been used");
        assert!([1, 3, 4].iter().all(|&block| pool.get(at(block), 1).is_some()));
    }

    #[test]
    fn the_capacity_holds_and_removed_pages_are_gone() {
        let pool = LruPool::new(8 * (4096 + ENTRY_BYTES));
        for block in 1..100 {
            pool.insert(at(block), 1, &[1; 4096]);
            assert!(pool.bytes() <= 8 * (4096 + ENTRY_BYTES) as u64);
        }
        (92..100).for_each(|block| pool.remove(at(block), 1));
        assert_eq!(pool.bytes(), 0);
        LruPool::new(0).insert(at(1), 1, &[1; 4096]);
    }

    #[test]
    fn a_smaller_pool_forgets_the_oldest_at_once() {
        let pool = LruPool::new(8 * (4096 + ENTRY_BYTES));
        (1..=8).for_each(|block| pool.insert(at(block), 1, &[1; 4096]));
        pool.resize(2 * (4096 + ENTRY_BYTES) as u64);
        assert!((1..=6).all(|block| pool.get(at(block), 1).is_none()));
        assert!((7..=8).all(|block| pool.get(at(block), 1).is_some()));
        assert_eq!(pool.hits(), 2);
    }

    #[test]
    fn the_table_shrinks_with_the_pool() {
        let pool = LruPool::new(16 << 20);
        (1..=4_000).for_each(|block| pool.insert(at(block), 1, &[1; 4096]));
        pool.resize(1 << 20);
        let room = || pool.shards.iter().map(|shard| shard.lock().entries.capacity()).sum::<usize>();
        assert!(room() < 1_000, "room for {} pages", room());
        assert!((3_800..=4_000).all(|block| pool.get(at(block), 1).is_some()));
    }
}
