//! I6 as the system sees it: what one part of the store gives up, the process gives up, before another part takes it.
//!
//! Alone in its program: resident memory is counted for a whole process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]
mod common;

use common::{Place, resident_bytes};
use zonda::Options;

const MIB: u64 = 1 << 20;
const BUDGET_BYTES: u64 = 24 * MIB;
/// What a store takes beside what it counts: stacks, device queues, and what the allocator keeps. 1.5 MiB were measured.
const BESIDE_BYTES: u64 = 2 * MIB;
const PAIRS: u64 = 700_000;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn memory_that_moves_from_buffers_to_the_cache_is_not_held_twice() {
    let place = Place::new();
    let before = resident_bytes();
    let db = Options::new().memory(BUDGET_BYTES).capacity(1 << 30).seed(7).open(&place.uri()).unwrap();
    let mut buffer_bytes = 0;
    // Buffers grow to the size of their leaves: first there must be leaves.
    let updates = (0..PAIRS).map(|step| step * 7_919 % PAIRS);
    for (count, number) in (0..PAIRS).chain(updates).enumerate() {
        db.put(key(number), number.to_be_bytes()).unwrap();
        if count % 10_000 == 0 {
            buffer_bytes = buffer_bytes.max(db.stats().unwrap().memory.buffer_bytes);
        }
    }
    db.compact(&mut |_, _| {}).unwrap();
    for step in 0..200_000 {
        let number = step * 7_919 % PAIRS;
        assert_eq!(db.get(key(number)).unwrap(), Some(number.to_be_bytes().to_vec()));
    }
    let (memory, resident) = (db.stats().unwrap().memory, resident_bytes() - before);
    assert!(buffer_bytes > BUDGET_BYTES / 3, "the load did not fill the buffers: {buffer_bytes}");
    assert!(memory.page_bytes > BUDGET_BYTES / 3, "the reads did not fill the cache: {memory:?}");
    assert!(resident <= memory.used_bytes + BESIDE_BYTES, "{resident} bytes are resident for the store: {memory:?}");
}
