//! What the store counts as live value bytes is what the values take, also after reclaim has moved them and filled their zones again (I9).
mod common;

use common::{BLOCK_BYTES, Pairs, create, device, everything, reclaim};
use zonda_pages::PageStore;
use zonda_rt::Rng;
use zonda_tree::{Durability, Engine};

/// Chunk header and value chunk header.
const HEADERS_BYTES: usize = 24 + 16;
/// Longer values are in the value log.
const INLINE_BYTES_MAX: usize = 1024;

fn live_bytes(pairs: &Pairs) -> u64 {
    let values = pairs.iter().filter(|(_, value)| value.len() > INLINE_BYTES_MAX);
    let chunk =
        |(key, value): (&Vec<u8>, &Vec<u8>)| (HEADERS_BYTES + key.len() + value.len()).next_multiple_of(BLOCK_BYTES);
    values.map(chunk).sum::<usize>() as u64
}

fn change(engine: &Engine, pairs: &mut Pairs, rng: &mut Rng) {
    let key = rng.below(70).to_be_bytes().to_vec();
    if rng.chance(0.15) {
        engine.delete(&key, Durability::Buffered).expect("a delete");
        pairs.remove(&key);
        return;
    }
    let value = vec![7; rng.index(8_000)];
    engine.put(&key, &value, Durability::Buffered).expect("room");
    pairs.insert(key, value);
}

#[test]
fn over_overwrites_deletes_and_reclaim() {
    for seed in 1..5 {
        let mut rng = Rng::seeded(seed);
        let (store, engine) = create(device(64));
        let mut pairs = Pairs::new();
        for step in 0..4_000 {
            change(&engine, &mut pairs, &mut rng);
            engine.log_step().expect("room");
            engine.checkpoint_step().expect("room");
            engine.reclaim_step().expect("sound");
            if step % 1_000 == 999 {
                // Merges what buffers hold: values die at merge.
                engine.compact(&mut |_, _| ()).expect("room");
                reclaim(&engine);
                assert_eq!(store.usage().live_value_bytes, live_bytes(&pairs), "seed {seed}, step {step}");
            }
        }
        assert!(store.usage().zones_reset > 50, "reclaim has worked: {:?}", store.usage());
        assert_eq!(everything(&engine).expect("readable"), pairs);
    }
}
