//! What the store counts as live value bytes is what the values take, also after reclaim has moved them and filled their zones again (I9).
mod common;

use common::{BLOCK_BYTES, Pairs, create, device, everything, open, reclaim};
use zonda_pages::{AreaKind, PageStore};
use zonda_rt::Rng;
use zonda_tree::{Durability, Engine};

/// Chunk header and value chunk header.
const HEADERS_BYTES: usize = 24 + 16;
const VALUE_HEADER_BYTES: usize = 16;
/// Longer values are in the value log.
const INLINE_BYTES_MAX: usize = 1024;

/// Values of a life.
struct Values {
    keys: u64,
    bytes_max: usize,
    steps: u64,
    /// Steps between two comparisons.
    round: u64,
    zones_reset: u64,
}

/// What the value log takes where a chunk has so many bytes of payload at the most.
fn live_bytes(pairs: &Pairs, chunk_bytes_max: usize) -> u64 {
    let values = pairs.iter().filter(|(_, value)| value.len() > INLINE_BYTES_MAX);
    let chunks = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        let chunk = |part: &[u8]| (HEADERS_BYTES + key.len() + part.len()).next_multiple_of(BLOCK_BYTES);
        value.chunks(chunk_bytes_max - VALUE_HEADER_BYTES - key.len()).map(chunk).sum::<usize>()
    };
    values.map(chunks).sum::<usize>() as u64
}

fn change(engine: &Engine, pairs: &mut Pairs, rng: &mut Rng, values: &Values) {
    let key = rng.below(values.keys).to_be_bytes().to_vec();
    if rng.chance(0.15) {
        engine.delete(&key, Durability::Buffered).expect("a delete");
        pairs.remove(&key);
        return;
    }
    let mut value = vec![0; rng.index(values.bytes_max)];
    rng.fill(&mut value);
    engine.put(&key, &value, Durability::Buffered).expect("room");
    pairs.insert(key, value);
}

fn over_overwrites_deletes_and_reclaim(values: &Values) {
    for seed in 1..5 {
        let (mut rng, disk) = (Rng::seeded(seed), device(64));
        let (store, engine) = create(disk.clone());
        let chunk_bytes_max = store.area(AreaKind::Values).chunk_bytes_max();
        let mut pairs = Pairs::new();
        for step in 1..=values.steps {
            change(&engine, &mut pairs, &mut rng, values);
            engine.log_step().expect("room");
            engine.checkpoint_step().expect("room");
            engine.reclaim_step().expect("sound");
            if step % values.round == 0 {
                // Merges what buffers hold: values die at merge.
                engine.compact(&mut |_, _| ()).expect("room");
                reclaim(&engine);
                let (found, expected) = (store.usage().live_value_bytes, live_bytes(&pairs, chunk_bytes_max));
                assert_eq!(found, expected, "seed {seed}, step {step}");
            }
        }
        assert!(store.usage().zones_reset > values.zones_reset, "reclaim has worked: {:?}", store.usage());
        assert!(everything(&engine).expect("readable") == pairs, "seed {seed}");
        engine.close().expect("room");
        drop((store, engine));
        let found = everything(&open(disk).expect("closed cleanly")).expect("readable");
        assert!(found == pairs, "seed {seed}, opened again");
    }
}

#[test]
fn of_one_chunk_each() {
    over_overwrites_deletes_and_reclaim(&Values {
        keys: 70,
        bytes_max: 8_000,
        steps: 4_000,
        round: 1_000,
        zones_reset: 50,
    });
}

/// Reclaim moves one chunk of a value and leaves the others, which the old pointer and the new one share.
#[test]
fn of_several_chunks_each() {
    over_overwrites_deletes_and_reclaim(&Values {
        keys: 8,
        bytes_max: 140_000,
        steps: 400,
        round: 100,
        zones_reset: 50,
    });
}
