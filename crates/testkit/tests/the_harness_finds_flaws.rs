//! The harness is worth something: it finds nothing wrong with a subject that is right, and each of the flaws of one that is not.

use zonda_rt::{Rng, Seed, sim};
use zonda_testkit::{
    Crowd, Outcome, Profile, Single, Trouble, World,
    double::{self, Flaw, LogMapMaker},
};

fn single(flaw: Option<Flaw>, seed: u64) -> Result<Outcome, Trouble> {
    let mut rng: Rng = Seed(seed).derive("test").rng();
    let world = World::new(double::geometry(), Box::new(LogMapMaker { flaw }), None).expect("a good geometry");
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
    for flaw in Flaw::ALL.into_iter().filter(|flaw| !matches!(flaw, Flaw::LooseReplace | Flaw::GivesUp)) {
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
    let rng: Rng = Seed(seed).derive("test").rng();
    let world = World::new(double::geometry(), Box::new(LogMapMaker { flaw }), None).expect("a good geometry");
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
    for flaw in Flaw::ALL.into_iter().filter(|flaw| *flaw != Flaw::GivesUp) {
        let found = (0..40).find(|&seed| crowd(Some(flaw), seed).is_err());
        assert!(found.is_some(), "{flaw:?} was not found");
    }
}
