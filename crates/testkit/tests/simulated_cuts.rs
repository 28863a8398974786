//! A short campaign: the engine survives power cuts under one and under several clients.

use zonda_testkit::{
    Outcome,
    campaign::{GroundKind, Settings, simulate},
    world::CUT_POINTS,
};
use zonda_tree::Design;

fn campaign(seeds: impl IntoIterator<Item = u64>, clients: u64) -> Outcome {
    let settings = Settings { steps: 400, clients: Some(clients), ..Settings::default() };
    let mut all = Outcome::default();
    for seed in seeds {
        let replay =
            || format!("cargo run -p zonda-testkit -- sim --seed {seed} --steps 400 --clients {clients} --verbose");
        let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| panic!("{trouble}\n  replay: {}", replay()));
        all.add(&outcome);
    }
    all
}

#[test]
fn one_client_finds_what_it_synced_and_a_prefix_of_the_rest() {
    // 81, 86 and 101 are cut while values are reclaimed, the last four while leaves have joined and no record says so: rarely met.
    let all = campaign((1..25).chain([81, 86, 101, 42, 54, 60, 67]), 1);
    assert!(all.cuts > 100 && all.survived > 0 && all.lost > 0, "{all:?}");
    all.snapshots_show_something().unwrap();
    assert!(all.done.splits > 0 && all.done.checkpoints > 0 && all.done.zones_reset > 0, "{all:?}");
    assert!(all.closes > 0 && all.failures > 0, "{all:?}");
    // A label that the engine loses is missed here. Where cuts fall every change of the engine moves: other seeds may be needed.
    // Turns of the ring have a test of their own, of mini-pages alone.
    let others = CUT_POINTS.into_iter().filter(|point| *point != "turn");
    let missed: Vec<_> = others.filter(|point| !all.hits.contains_key(point)).collect();
    assert!(missed.is_empty(), "never cut: {missed:?} of {all:?}");
}

/// Else no failure of these campaigns could be looked at again.
#[test]
fn a_seed_replays() {
    for ground in [GroundKind::Zones, GroundKind::Blocks] {
        for design in [Design::Adb, Design::BTree, Design::BfTree, Design::Deltas] {
            let (design, ground) = (Some(design), Some(ground));
            let settings = Settings { steps: 200, design, ground, clients: Some(3), ..Settings::default() };
            let run = |seed| {
                let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
                (format!("{outcome:?}"), zonda_rt::sim::trace_hash())
            };
            assert_eq!(run(3), run(3), "{design:?} {ground:?}");
            assert_ne!(run(3), run(4), "{design:?} {ground:?}");
        }
    }
}

#[test]
fn several_clients_see_registers_and_whole_batches() {
    let all = campaign(100..120, 3);
    assert!(all.cuts > 50 && all.hits.get("recovery").is_some_and(|&hits| hits > 10), "{all:?}");
    all.snapshots_show_something().unwrap();
}

#[test]
fn several_clients_see_registers_over_mini_pages_on_zones_and_in_place() {
    for (ground, store) in [(GroundKind::Zones, "zoned"), (GroundKind::Blocks, "in-place")] {
        let (design, ground) = (Some(Design::BfTree), Some(ground));
        let settings = Settings { steps: 400, design, ground, clients: Some(4), ..Settings::default() };
        let mut all = Outcome::default();
        for seed in 600..610 {
            let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| {
                let replay =
                    format!("sim --seed {seed} --steps 400 --clients 4 --design bftree --store {store} --verbose");
                panic!("{trouble}\n  replay: cargo run -p zonda-testkit -- {replay}")
            });
            all.add(&outcome);
        }
        assert!(all.cuts > 25, "{store}: {all:?}");
        all.snapshots_show_something().unwrap();
    }
}

/// Of the runs of one client a third of the time has no writes.
#[test]
fn a_ring_of_mini_pages_is_turned_beside_failing_calls_and_cuts() {
    let mut beside_failures = 0;
    for (ground, store) in [(GroundKind::Zones, "zoned"), (GroundKind::Blocks, "in-place")] {
        let (design, ground) = (Some(Design::BfTree), Some(ground));
        let settings = Settings { steps: 800, design, ground, clients: Some(1), ..Settings::default() };
        let mut all = Outcome::default();
        for seed in 1_000..1_030 {
            let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| {
                let replay =
                    format!("sim --seed {seed} --steps 800 --clients 1 --design bftree --store {store} --verbose");
                panic!("{trouble}\n  replay: cargo run -p zonda-testkit -- {replay}")
            });
            beside_failures += if outcome.failures > 0 { outcome.done.merged_in_turns } else { 0 };
            all.add(&outcome);
        }
        assert!(all.hits.get("turn").is_some_and(|&hits| hits > 5), "{store}: {all:?}");
        assert!(all.done.merged_in_turns > 50, "{store}: {all:?}");
    }
    assert!(beside_failures > 0, "no call failed beside a turn");
}

/// The first two found a store that did not open, and puts that waited for ever in one that was nearly full.
#[test]
fn values_that_are_all_separated_survive_on_small_devices() {
    let settings = Settings { steps: 800, clients: Some(1), separated: true, ..Settings::default() };
    let mut all = Outcome::default();
    for seed in [5172, 140_050].into_iter().chain(700..708) {
        let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| {
            let replay = format!("sim --seed {seed} --steps 800 --clients 1 --separated --verbose");
            panic!("{trouble}\n  replay: cargo run -p zonda-testkit -- {replay}")
        });
        all.add(&outcome);
    }
    assert!(all.cuts > 50, "{all:?}");
    all.snapshots_show_something().unwrap();
}

/// In the other runs no value is longer than a quarter of a zone. Of several chunks reclaim moves some and leaves others.
#[test]
fn values_of_several_chunks_survive() {
    let settings = Settings { steps: 600, clients: Some(1), long_values: true, ..Settings::default() };
    let mut all = Outcome::default();
    // The last are cut while reclaim moves values, which is rarely met.
    for seed in (1_000..1_008).chain([1_021, 1_047, 1_085, 1_092]) {
        let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| {
            let replay = format!("sim --seed {seed} --steps 600 --clients 1 --long-values --verbose");
            panic!("{trouble}\n  replay: cargo run -p zonda-testkit -- {replay}")
        });
        all.add(&outcome);
    }
    assert!(all.cuts > 100 && all.survived > 0 && all.done.zones_reset > 0, "{all:?}");
    assert!(all.hits.get("values").is_some_and(|&hits| hits > 5), "{all:?}");
    all.snapshots_show_something().unwrap();
}

#[test]
fn a_store_in_place_survives_cuts_of_a_block_device() {
    let ground = Some(GroundKind::Blocks);
    let settings = Settings { steps: 400, ground, ..Settings::default() };
    let mut all = Outcome::default();
    // 31 found pages reused whose readers had come after the stamp; 5 a segment of values reset by a count that was an estimate.
    for seed in (200..212).chain([5, 31]) {
        let replay =
            || format!("cargo run -p zonda-testkit -- sim --seed {seed} --steps 400 --store in-place --verbose");
        let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| panic!("{trouble}\n  replay: {}", replay()));
        all.add(&outcome);
    }
    assert!(all.cuts > 50 && all.survived > 0 && all.done.zones_reset > 0, "{all:?}");
    assert!(all.failures > 0, "no call failed: {all:?}");
    all.snapshots_show_something().unwrap();
}

#[test]
fn a_store_with_its_log_elsewhere_survives_cuts_of_both_devices() {
    both_devices_are_cut(GroundKind::Split, "split");
}

#[test]
fn a_store_in_place_with_its_log_elsewhere_survives_cuts_of_both_devices() {
    both_devices_are_cut(GroundKind::SplitBlocks, "in-place-split");
}

fn both_devices_are_cut(ground: GroundKind, store: &str) {
    let ground = Some(ground);
    let settings = Settings { steps: 400, ground, ..Settings::default() };
    let mut all = Outcome::default();
    for seed in 300..314 {
        let replay =
            || format!("cargo run -p zonda-testkit -- sim --seed {seed} --steps 400 --store {store} --verbose");
        let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| panic!("{trouble}\n  replay: {}", replay()));
        all.add(&outcome);
    }
    assert!(all.cuts > 50 && all.survived > 0 && all.lost > 0 && all.done.checkpoints > 0, "{all:?}");
    all.snapshots_show_something().expect("snapshots show something");
    assert!(all.hits.get("log").is_some_and(|&hits| hits > 0), "{all:?}");
}

#[test]
fn without_a_log_what_a_checkpoint_had_or_later_values_survive() {
    // 1022 found a pointer to a value that was never durable.
    for (seed, kind, store) in [(1022, GroundKind::Zones, "zoned"), (404, GroundKind::Blocks, "in-place")] {
        let ground = Some(kind);
        let settings = Settings { steps: 800, ground, ..Settings::default() };
        let replay = format!("cargo run -p zonda-testkit -- sim --seed {seed} --steps 800 --store {store} --verbose");
        let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| panic!("{trouble}\n  replay: {replay}"));
        assert!(outcome.hits.get("no log").is_some_and(|&hits| hits > 5), "there is a log: {outcome:?}");
    }
}

#[test]
fn a_merge_longer_than_a_segment_is_carried_out_in_place() {
    // After a cut on a device of segments of 16 blocks a leaf's records wait for space until they are more than a segment holds.
    let ground = Some(GroundKind::Blocks);
    let settings = Settings { steps: 800, ground, ..Settings::default() };
    let replay = "cargo run -p zonda-testkit -- sim --seed 40134 --steps 800 --store in-place --verbose";
    let outcome = simulate(40134, &settings).unwrap_or_else(|trouble| panic!("{trouble}\n  replay: {replay}"));
    assert!(outcome.cuts > 5, "{outcome:?}");
}

#[test]
fn a_scan_of_what_recovery_left_makes_no_mirror_longer_than_a_buffer() {
    // Hundreds of KiB were logged for one leaf of 32 KiB, and wait above its page when a scan would keep both together.
    let settings = Settings { steps: 800, clients: Some(1), ..Settings::default() };
    let replay = "cargo run -p zonda-testkit -- sim --seed 270035 --steps 800 --clients 1 --verbose";
    simulate(270_035, &settings).unwrap_or_else(|trouble| panic!("{trouble}\n  replay: {replay}"));
}

#[test]
fn recovery_of_a_full_store_leaves_zones_for_the_next_opening() {
    // Recovery reclaimed page by page, each with a block of MetaLog, until no segment was left; the power went, and opening failed. Later a
    // cut within recovery left a page with records of an image over newer ones, which the next recovery took for merged. Both were met by
    // the first seed, whose course every change of the division of memory alters; the others meet more cuts in stores that are full.
    let ground = Some(GroundKind::Blocks);
    let settings = Settings { steps: 800, ground, ..Settings::default() };
    let mut all = Outcome::default();
    for seed in [92004, 92006, 92024] {
        let replay =
            || format!("cargo run -p zonda-testkit -- sim --seed {seed} --steps 800 --store in-place --verbose");
        let outcome = simulate(seed, &settings).unwrap_or_else(|trouble| panic!("{trouble}\n  replay: {}", replay()));
        let is_full = outcome.done.leaf_merges > 0;
        assert!(is_full || seed == 92004, "not full: {outcome:?}\n  replay: {}", replay());
        all.add(&outcome);
    }
    assert!(all.cuts > 20, "{all:?}");
    all.snapshots_show_something().unwrap();
}
