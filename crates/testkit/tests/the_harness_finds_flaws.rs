//! The harness is worth something: it finds nothing wrong with a subject that is right, and each of the flaws of one that is not.

use zonda_rt::{Rng, Seed, sim};
use zonda_testkit::{
    Crowd, Outcome, Profile, Single, Trouble, World,
    double::{self, Flaw, LogMapMaker},
};

fn world(flaw: Option<Flaw>) -> World {
    World::new(double::geometry(), Box::new(LogMapMaker { flaw }), None).expect("a good geometry")
}

/// Flaws that make some answer wrong, or a promise, on a device whose calls do not fail.
fn flaws() -> impl Iterator<Item = Flaw> {
    Flaw::ALL.into_iter().filter(|flaw| !matches!(flaw, Flaw::GivesUp | Flaw::TrustsFailedFlushes))
}

fn single(flaw: Option<Flaw>, seed: u64) -> Result<Outcome, Trouble> {
    single_on(world(flaw), seed)
}

fn single_on(world: World, seed: u64) -> Result<Outcome, Trouble> {
    let mut rng: Rng = Seed(seed).derive("test").rng();
    let profile = Profile::draw(&mut rng, 1 << 20, 1 << 14);
    sim::run(seed, || Single::new(world, profile, rng, 400).run())
}

#[test]
fn nothing_is_wrong_with_a_subject_that_is_right() {
    let mut all = Outcome::default();
    for seed in 0..20 {
        let outcome = single(None, seed).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
        all.add(&outcome);
    }
    assert!(all.cuts > 50 && all.survived > 0 && all.lost > 0, "{all:?}");
    all.snapshots_show_something().unwrap();
}

/// Nothing is wrong with what it answers, but the answers prove nothing.
#[test]
fn a_subject_that_gives_all_snapshots_up_is_told() {
    for outcome in [single(Some(Flaw::GivesUp), 1), crowd(Some(Flaw::GivesUp), 1)] {
        assert!(outcome.unwrap().snapshots_show_something().is_err());
    }
}

#[test]
fn each_flaw_that_one_client_can_see_is_found() {
    for flaw in flaws().filter(|flaw| *flaw != Flaw::LooseReplace) {
        let found = (0..40).find(|&seed| single(Some(flaw), seed).is_err());
        assert!(found.is_some(), "{flaw:?} was not found");
    }
}

#[test]
fn a_seed_replays() {
    let run = |seed| (single(None, seed).unwrap(), sim::trace_hash());
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

fn crowd(flaw: Option<Flaw>, seed: u64) -> Result<Outcome, Trouble> {
    crowd_on(world(flaw), seed)
}

fn crowd_on(world: World, seed: u64) -> Result<Outcome, Trouble> {
    let rng: Rng = Seed(seed).derive("test").rng();
    sim::run(seed, || Crowd::new(world, rng, 3, 400, 1 << 14).run())
}

#[test]
fn nothing_is_wrong_with_a_subject_that_several_clients_share() {
    let mut all = Outcome::default();
    for seed in 0..20 {
        all.add(&crowd(None, seed).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}")));
    }
    assert!(all.cuts > 50, "{all:?}");
    all.snapshots_show_something().unwrap();
}

#[test]
fn each_flaw_is_found_by_several_clients() {
    for flaw in flaws() {
        let found = (0..40).find(|&seed| crowd(Some(flaw), seed).is_err());
        assert!(found.is_some(), "{flaw:?} was not found");
    }
}

#[test]
fn nothing_is_wrong_with_a_subject_whose_flushes_fail() {
    let mut all = Outcome::default();
    for seed in 0..20 {
        for run in [single_on, crowd_on] {
            let outcome = run(world(None).with_failures(seed), seed);
            all.add(&outcome.unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}")));
        }
    }
    assert!(all.failures > 20, "{all:?}");
}

#[test]
fn a_failed_flush_that_counts_as_done_is_found_where_flushes_fail() {
    let flaw = Some(Flaw::TrustsFailedFlushes);
    for run in [single_on, crowd_on] {
        assert!((0..40).any(|seed| run(world(flaw).with_failures(seed), seed).is_err()));
        assert!((0..5).all(|seed| run(world(flaw), seed).is_ok()), "it needs one that fails");
    }
}
