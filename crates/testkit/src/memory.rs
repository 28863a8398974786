//! Memory that moves between changes, records and pages, at random: what the governor of the facade does by its own rules, and more.

use std::sync::Arc;

use zonda_pages::PageStore;
use zonda_rt::{Mutex, Rng, Seed};
use zonda_tree::Engine;

/// Steps of which one moves memory.
const MOVES_ONE_IN: u64 = 8;
/// Buffers of less would make a tree merge all the time.
const BUFFER_BYTES_MIN: u64 = 16 << 10;

/// What an engine may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Leaf buffers at the most.
    pub buffer_bytes: u64,
    /// The record cache at the most.
    pub record_cache_bytes: u64,
    /// The cache of pages at the most.
    pub page_cache_bytes: u64,
    /// Whether memory moves; else each has its most all the time.
    pub moves: bool,
}

/// Moves the memory of one engine.
pub struct Mover {
    shares: Shares,
    rng: Mutex<Rng>,
}

impl Mover {
    /// Gives each its most; later moves are drawn from `seed`.
    #[must_use]
    pub fn begin(shares: Shares, engine: &Engine, seed: u64) -> Self {
        if shares.record_cache_bytes > 0 {
            engine.set_record_cache_bytes(shares.record_cache_bytes);
        }
        Self { shares, rng: Mutex::new(Seed(seed).derive("moves of memory").rng()) }
    }

    /// Whether memory moves at all.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.shares.moves
    }

    /// Moves memory now and then: what buffers no longer have they give up in steps of their own.
    pub fn step(&self, engine: &Engine, store: &Arc<dyn PageStore>) {
        if !self.moves() {
            return;
        }
        let mut rng = self.rng.lock();
        if rng.below(MOVES_ONE_IN) == 0 {
            let mut part = |most: u64| most * rng.below(5) / 4;
            engine.set_buffer_bytes(part(self.shares.buffer_bytes).clamp(BUFFER_BYTES_MIN, self.shares.buffer_bytes));
            engine.set_record_cache_bytes(part(self.shares.record_cache_bytes));
            store.set_read_cache_bytes(part(self.shares.page_cache_bytes));
            // Now and then what else grows takes it from the buffers.
            let held_bytes = engine.stats().memory_bytes;
            engine.set_memory_bytes_max(if rng.chance(0.3) { held_bytes } else { u64::MAX });
        }
    }
}
