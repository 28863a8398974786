//! Each bug that is seeded on purpose is found within a few runs, by a seed with which nothing is wrong without it; `zonda-testkit sim
//! --runs 500 --bug NAME` says in how many.

use zonda_testkit::{
    Bug,
    campaign::{Settings, found, simulate},
};

fn found_within(bug: Bug, runs: u64) -> bool {
    let settings = Settings { steps: 800, bug: Some(bug), ..Settings::default() };
    (1..=runs).any(|seed| found(seed, &settings).is_some())
}

#[test]
fn a_flush_that_is_dropped() {
    assert!(found_within(Bug::FlushDropped, 20));
}

#[test]
fn a_zone_that_is_reset_early() {
    assert!(found_within(Bug::ResetEarly, 200));
}

#[test]
fn address_records_that_are_durable_before_their_pages() {
    assert!(found_within(Bug::WriteAhead, 40));
}

#[test]
fn half_a_batch() {
    assert!(found_within(Bug::HalfBatch, 20));
}

#[test]
fn a_cache_that_outlives_its_zone() {
    assert!(found_within(Bug::StaleCache, 200));
}

/// What the decorator does by itself is nobody's bug.
#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    for seed in 1..=40 {
        let settings = Settings { steps: 800, bug: Some(Bug::None), ..Settings::default() };
        simulate(seed, &settings).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
    }
}
