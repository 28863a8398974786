//! Whole clean pages in memory. Unlike zones, slots are reused under the same generation: a page must be removed here before its slot
//! is free, when no reader of the old page is left that could put it back (I5).

use super::lru::LruPool;
use super::options::CachePolicy;
use crate::cache::{CachedPage, ReadCache};
use crate::{CacheUsage, PageAddress};

/// The cache of the chosen policy.
pub(crate) enum PageCache {
    Sieve(ReadCache),
    Lru(LruPool),
}

impl PageCache {
    pub(crate) fn new(policy: CachePolicy, capacity_bytes: u64) -> Self {
        let bytes = usize::try_from(capacity_bytes).unwrap_or(usize::MAX);
        match policy {
            CachePolicy::Sieve => Self::Sieve(ReadCache::new(bytes)),
            CachePolicy::Lru => Self::Lru(LruPool::new(bytes)),
        }
    }

    pub(crate) fn get(&self, at: PageAddress, generation: u64) -> Option<CachedPage> {
        match self {
            Self::Sieve(cache) => cache.get(at, generation),
            Self::Lru(pool) => pool.get(at, generation),
        }
    }

    /// Caches a page that was read, if the policy thinks that it will be wanted again.
    pub(crate) fn offer(&self, at: PageAddress, generation: u64, blocks: &[u8]) {
        match self {
            Self::Sieve(cache) => cache.offer(at, generation, blocks),
            Self::Lru(pool) => pool.insert(at, generation, blocks),
        }
    }

    /// Caches a page.
    pub(crate) fn insert(&self, at: PageAddress, generation: u64, blocks: &[u8]) {
        match self {
            Self::Sieve(cache) => cache.insert(at, generation, blocks),
            Self::Lru(pool) => pool.insert(at, generation, blocks),
        }
    }

    pub(crate) fn remove(&self, at: PageAddress, generation: u64) {
        match self {
            Self::Sieve(cache) => cache.remove(at, generation),
            Self::Lru(pool) => pool.remove(at, generation),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Sieve(cache) => cache.bytes(),
            Self::Lru(pool) => pool.bytes(),
        }
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        match self {
            Self::Sieve(cache) => cache.bytes_max(),
            Self::Lru(pool) => pool.bytes_max(),
        }
    }

    pub(crate) fn usage(&self) -> CacheUsage {
        let hits = match self {
            Self::Sieve(cache) => cache.hits(),
            Self::Lru(pool) => pool.hits(),
        };
        CacheUsage { bytes: self.bytes(), bytes_max: self.bytes_max(), hits }
    }

    /// Gives the cache another capacity; what no longer fits goes at once.
    pub(crate) fn resize(&self, capacity_bytes: u64) {
        match self {
            Self::Sieve(cache) => cache.resize(capacity_bytes),
            Self::Lru(pool) => pool.resize(capacity_bytes),
        }
    }

    /// Whether a page that was just written is kept, after so many reads while it waited.
    pub(crate) fn wants_written(&self, reads: u32, threshold_reads: u32) -> bool {
        match self {
            Self::Sieve(_) => reads > threshold_reads,
            Self::Lru(_) => true,
        }
    }
}
