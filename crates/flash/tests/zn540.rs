//! The model meets what was measured on a ZN540: the rows that it was fitted on, and those that were held out.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use zonda_flash::experiments::zn540::{Compared, Operation, Set, rows, run};
use zonda_flash::profile::Profile;

fn compare(which: impl Fn(Set, Operation) -> bool) -> Vec<Compared> {
    let profile = Profile::named("zn540").unwrap();
    let rows = rows().unwrap();
    let chosen = rows.iter().filter(|row| which(row.set, row.operation));
    chosen.map(|row| run(&profile, row, 0.5, 1).unwrap()).collect()
}

fn assert_within(compared: &[Compared], limit: f64) {
    for row in compared {
        assert!(row.error().abs() <= limit, "{:+.1} %: {row:?}", row.error() * 100.0);
    }
}

#[test]
fn held_out_rows_are_met() {
    let held = compare(|set, _| set == Set::Held);
    assert_eq!(held.len(), 19);
    let mean = held.iter().map(|row| row.error().abs()).sum::<f64>() / held.len() as f64;
    assert!(mean <= 0.05, "mean error {mean:.3}");
    for row in &held {
        assert!(row.p99_error().is_none_or(|error| error.abs() <= 0.20), "p99 of {row:?}");
    }
}

#[test]
fn writes_appends_resets_and_finishes_are_within_five_percent() {
    assert_within(&compare(|_, operation| !matches!(operation, Operation::Read | Operation::Mixed)), 0.05);
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let profile = Profile::named("zn540").unwrap();
    let rows = rows().unwrap();
    let row = rows.iter().find(|row| row.operation == Operation::Mixed && row.depth == 32).unwrap();
    let once = |seed| run(&profile, row, 0.1, seed).unwrap().model;
    assert_eq!(once(4), once(4));
    assert_ne!(once(4), once(5));
}
