//! Random operations against a plain model, with power cuts at any operation, mounts included: what was synced is there,
//! what was not is a prefix, names change in order and are all durable with the next sync of anything, deletes are never refused, and the
//! check finds nothing (I3, I4, I5, I9).
//!
//! A failure names its seed; `ZONDA_FILES_SEED=n cargo test -p zonda-files --test model` runs that one alone,
//! `ZONDA_FILES_RUNS=n` seeds 0 to n - 1.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use common::world::{Tally, World};

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("ZONDA_FILES_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..std::env::var("ZONDA_FILES_RUNS").map_or(count, |runs| runs.parse().unwrap())).collect(),
    }
}

#[test]
fn files_are_what_the_model_says_through_power_cuts() {
    let mut tally = Tally::default();
    for seed in seeds(120) {
        println!("seed {seed}");
        World::new(seed).run(700, &mut tally);
    }
    println!("{tally:?}");
    if std::env::var("ZONDA_FILES_SEED").is_err() {
        assert!(tally.cuts > 200 && tally.copied_bytes > 0 && tally.no_space > 0, "{tally:?}");
        assert!(tally.moved_while_open > 0 && tally.gone_on > 100, "{tally:?}");
        assert!(tally.placed_by_keys > 0, "{tally:?}");
        assert!(tally.held_bytes_most > 64 << 10 && tally.held_bytes_most <= 96 << 10, "{tally:?}");
    }
}
