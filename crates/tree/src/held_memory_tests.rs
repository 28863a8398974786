//! I6 while somebody who was interrupted keeps what others took out of use.
#![cfg(not(feature = "shuttle"))]

use std::sync::Arc;

use zonda_pages::PageStore;
use zonda_rt::{Rng, atomic::Ordering};

use crate::{
    Durability, FilterEviction, TreeOptions, recover,
    testing::{MemOptions, MemStore},
    tree::Tree,
};

const BUFFER_BYTES: u64 = 800 << 10;
const FILTER_BYTES: u64 = 400 << 10;
/// Less than all of it together.
const MEMORY_BYTES_MAX: u64 = 1_300 << 10;
/// What one write may take before the next makes room.
const WRITE_BYTES_MAX: u64 = 8 << 10;
const KEYS: u64 = 100_000;
const PUTS: u64 = 400_000;
/// Puts during which nothing that was taken out of use can be freed.
const INTERRUPTED: usize = 1_000;

fn create(filter_eviction: FilterEviction) -> Tree {
    let options = TreeOptions {
        buffer_bytes: BUFFER_BYTES,
        filter_bytes: FILTER_BYTES,
        filter_eviction,
        ..TreeOptions::default()
    };
    let store = MemStore::new(MemOptions::default());
    recover::create(store as Arc<dyn PageStore>, options).expect("an empty store")
}

#[test]
fn what_cannot_be_freed_yet_leaf_buffers_give_up() {
    for eviction in [FilterEviction::Nodes, FilterEviction::Pairs] {
        let tree = create(eviction);
        let mut rng = Rng::seeded(1);
        let mut put = |number: u64| {
            let below = 1 << rng.below(18);
            let key = if number < KEYS { number } else { rng.below(below) };
            let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            tree.put(&key, &number.to_be_bytes(), Durability::Buffered).expect("room");
        };
        (0..KEYS).for_each(&mut put);
        tree.memory_bytes_max.store(MEMORY_BYTES_MAX, Ordering::Relaxed);
        let (mut held_back, mut buffer_bytes_max) = (0, 0);
        for began in (KEYS..PUTS).step_by(INTERRUPTED) {
            tree.pool.set_limit_bytes(BUFFER_BYTES);
            let interrupted = tree.epoch.pin();
            for number in began..began + INTERRUPTED as u64 {
                put(number);
                let bytes = tree.memory_bytes();
                let stats = || tree.stats();
                assert!(bytes <= MEMORY_BYTES_MAX + WRITE_BYTES_MAX, "{eviction:?}, put {number}: {:?}", stats());
            }
            let stats = tree.stats();
            held_back = held_back.max(stats.garbage_bytes);
            buffer_bytes_max = buffer_bytes_max.max(stats.buffer_bytes);
            drop(interrupted);
        }
        assert!(held_back > FILTER_BYTES / 8, "{eviction:?}: {held_back} bytes could not be freed, too few to tell");
        assert!(
            buffer_bytes_max > BUFFER_BYTES * 5 / 8,
            "{eviction:?}: buffers had {buffer_bytes_max} bytes at the most"
        );
    }
}
