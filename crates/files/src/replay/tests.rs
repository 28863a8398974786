//! Small traces whose outcome can be worked out by hand.

use zonda_space::{ZoneId, ZoneUse};

use super::*;
use crate::lsm::{KeyRange, LsmShape, TreeId};
use crate::policy::{Candidate, Choices, Decision, LizaCaza, Policy, Rule, VictimView, by_name};
use crate::trace::TraceEvent;
use crate::{FileId, FileKind, FilePath, FileTags, Lifetime};

const MB: u64 = 1_000_000;

fn options(policy: &str) -> ReplayOptions {
    let policy = by_name(policy).expect("known");
    ReplayOptions { zone_bytes: 10 * MB, zones: 10, reserve_zones: 2, ..ReplayOptions::of_the_paper(policy) }
}

/// A trace in the making.
#[derive(Default)]
struct Maker(Vec<TraceRecord>);

impl Maker {
    fn new() -> Self {
        let mut maker = Self::default();
        let directory = FilePath::root();
        maker.push(TraceEvent::Tree { tree: TreeId(5), order: "bytewise".into(), family: 0, directory });
        maker
    }

    fn push(&mut self, event: TraceEvent) {
        self.0.push(TraceRecord { at_us: self.0.len() as u64, event });
    }

    fn path(file: u64) -> FilePath {
        FilePath::parse(&format!("/{file}.sst")).expect("a good path")
    }

    fn table(&mut self, file: u64, bytes: u64, lifetime: Lifetime, keys: (u32, u32)) {
        let level = if lifetime == Lifetime::Medium { 1 } else { 2 };
        let (path, file) = (Self::path(file), FileId(file));
        let tags = FileTags::of(FileKind::Data).with_lifetime(lifetime).with_level(level);
        self.push(TraceEvent::Create { file, tags, path });
        let range = Some(KeyRange::new(format!("{:03}", keys.0), format!("{:03}", keys.1)));
        self.push(TraceEvent::Describe { file, tree: TreeId(5), job: None, level, range });
        self.push(TraceEvent::Append { file, bytes });
        self.push(TraceEvent::Sync { file });
        self.push(TraceEvent::Close { file });
    }

    /// A table of level 4.
    fn deep(&mut self, file: u64, bytes: u64) {
        let (path, file) = (Self::path(file), FileId(file));
        let tags = FileTags::of(FileKind::Data).with_lifetime(Lifetime::Extreme).with_level(4);
        self.push(TraceEvent::Create { file, tags, path });
        let range = Some(KeyRange::new("a", "b"));
        self.push(TraceEvent::Describe { file, tree: TreeId(5), job: None, level: 4, range });
        self.push(TraceEvent::Append { file, bytes });
        self.push(TraceEvent::Close { file });
    }

    fn remove(&mut self, file: u64) {
        self.push(TraceEvent::Edit { tree: TreeId(5), removed: vec![FileId(file)], added: Vec::new() });
        self.push(TraceEvent::Unlink { path: Self::path(file) });
    }
}

/// Tables that die soon, and now and then one that stays: apart, the zones of the dead are reset for nothing; mixed, what stays
/// is copied.
fn churn(rounds: u64, lifetimes: [Lifetime; 2]) -> Vec<TraceRecord> {
    let mut maker = Maker::new();
    for round in 0..rounds {
        let keys = (u32::try_from(round % 10).expect("small") * 10, u32::try_from(round % 10).expect("small") * 10 + 5);
        maker.table(2 * round, 2 * MB, lifetimes[0], keys);
        if round % 15 == 0 {
            maker.table(2 * round + 1, 2 * MB, lifetimes[1], keys);
        }
        if round >= 5 {
            maker.remove(2 * (round - 5));
        }
    }
    maker.0
}

#[test]
fn what_dies_together_lies_together_and_costs_no_copy() {
    let report = replay(&churn(200, [Lifetime::Medium, Lifetime::Extreme]), &options("ldp")).expect("it fits");
    assert_eq!(report.table_bytes, 428 * MB);
    assert_eq!((report.copied_bytes, report.resets_without_copy), (0, report.resets));
    assert!(report.resets > 30, "{report:?}");
    assert!((report.amplification - 1.0).abs() < 1e-9);
}

/// The most that is live is told to the byte, however much less than a zone that is: 14 MB when the sixth table of 2 MB is there and
/// the first has not gone, beside the one that stays.
#[test]
fn the_peak_of_live_bytes_is_seen_in_a_zone_that_stays_open() {
    for policy in crate::policy::NAMES {
        for zone_bytes in [10 * MB, 1000 * MB] {
            let options = ReplayOptions { zone_bytes, ..options(policy) };
            let mut trace = churn(15, [Lifetime::Medium, Lifetime::Extreme]);
            assert_eq!(replay(&trace, &options).expect("it fits").peak_live_bytes, 14 * MB, "{policy}");
            trace.push(TraceRecord { at_us: 1000, event: TraceEvent::Mark { name: "loaded".into() } });
            let after = ReplayOptions { measure_from: Some("loaded".into()), ..options };
            assert_eq!(replay(&trace, &after).expect("it fits").peak_live_bytes, 12 * MB, "live at the mark");
        }
    }
    // Of a table that is moved both copies are never live.
    let report = replay(&churn(200, [Lifetime::Medium, Lifetime::Medium]), &options("liza-caza")).expect("it fits");
    assert!(report.copied_bytes > 0 && report.peak_live_bytes == 40 * MB, "{report:?}");
}

#[test]
fn what_is_mixed_is_copied() {
    let report = replay(&churn(200, [Lifetime::Medium, Lifetime::Medium]), &options("liza-caza")).expect("it fits");
    assert!(report.copied_bytes > 0 && report.resets_without_copy < report.resets, "{report:?}");
    assert_eq!(report.copied_bytes, report.copied_per_reset.iter().sum::<u64>());
    let best = replay_oracle(&churn(200, [Lifetime::Medium, Lifetime::Medium]), &options("ldp")).expect("it fits");
    assert_eq!(best.copied_bytes, 0, "who knows the deaths copies nothing: {best:?}");
    assert!(best.allocations.keys().all(|(rule, _)| *rule == Rule::Death));
}

/// Every third table moves from level 1 to level 4 without being written again, and stays.
#[test]
fn a_moved_table_is_copied_as_one_of_its_level_now() {
    let mut maker = Maker::new();
    for file in 0..60 {
        maker.table(file, 2 * MB, Lifetime::Medium, (1, 2));
        if file % 3 == 0 {
            let added = vec![(FileId(file), 4, KeyRange::new("001", "002"))];
            maker.push(TraceEvent::Edit { tree: TreeId(5), removed: vec![FileId(file)], added });
        }
        if file >= 5 && (file - 5) % 3 != 0 {
            maker.remove(file - 5);
        }
    }
    let report = replay(&maker.0, &options("levels")).expect("it fits");
    let copied = &report.levels[4].copied_bytes;
    assert!(*copied > 0 && report.allocations.contains_key(&(Rule::Lifetime, Some(4))), "{report:?}");
}

#[test]
fn scale_multiplies_bytes_and_nothing_else() {
    let trace = churn(100, [Lifetime::Medium, Lifetime::Long]);
    let small = replay(&trace, &options("ldp")).expect("it fits");
    let large = ReplayOptions { zone_bytes: 160 * MB, scale: 16, ..options("ldp") };
    let large = replay(&trace, &large).expect("it fits");
    assert_eq!((large.table_bytes, large.resets), (16 * small.table_bytes, small.resets));
    assert_eq!(large.invalid, small.invalid);
}

#[test]
fn a_trace_that_does_not_fit_is_no_space_with_numbers() {
    let mut maker = Maker::new();
    (0..60).for_each(|file| maker.table(file, 2 * MB, Lifetime::Long, (0, 9)));
    for policy in crate::policy::NAMES {
        let refused = replay(&maker.0, &options(policy)).expect_err("120 MB on 80 MB");
        let FileError::NoSpace { live_bytes, usable_bytes, .. } = refused else { panic!("{policy}: {refused}") };
        assert!(live_bytes <= usable_bytes && live_bytes + 10 * MB >= usable_bytes, "{policy}: {live_bytes}");
    }
}

#[test]
fn few_active_zones_are_shared_as_in_a_store() {
    let trace = churn(100, [Lifetime::Medium, Lifetime::Long]);
    for active in [3, 4, 6, 14] {
        for policy in crate::policy::NAMES {
            let options = ReplayOptions { active_max: Some(active), ..options(policy) };
            let report = replay(&trace, &options).expect("it fits");
            assert!(report.resets > 0, "{policy} with {active}");
        }
    }
    let one = ReplayOptions { active_max: Some(1), ..options("ldp") };
    assert!(matches!(replay(&trace, &one), Err(FileError::Space(_))));
}

#[test]
fn only_what_comes_after_the_mark_is_counted() {
    let mut trace = churn(50, [Lifetime::Medium, Lifetime::Long]);
    let mut maker = Maker(std::mem::take(&mut trace));
    maker.push(TraceEvent::Mark { name: "loaded".into() });
    maker.table(1_000, 3 * MB, Lifetime::Medium, (1, 2));
    let measured = ReplayOptions { measure_from: Some("loaded".into()), ..options("caza") };
    assert_eq!(replay(&maker.0, &measured).expect("it fits").table_bytes, 3 * MB);
    let missing = ReplayOptions { measure_from: Some("unloaded".into()), ..options("caza") };
    assert!(matches!(replay(&maker.0, &missing), Err(FileError::NoSuchMark { mark }) if mark == "unloaded"));
}

#[test]
fn absurd_traces_are_refused_or_do_not_fit() {
    let mut twice = Maker::new();
    twice.table(3, MB, Lifetime::Long, (1, 2));
    twice.table(3, MB, Lifetime::Long, (1, 2));
    assert!(matches!(replay(&twice.0, &options("caza")), Err(FileError::BadTrace { line: 7, .. })));
    let mut endless = Maker::new();
    (0..3).for_each(|file| endless.table(file, u64::MAX, Lifetime::Long, (1, 2)));
    for policy in crate::policy::NAMES {
        assert!(matches!(replay(&endless.0, &options(policy)), Err(FileError::NoSpace { .. })), "{policy}");
    }
}

#[test]
fn absurd_options_are_refused() {
    let base = ReplayOptions::of_the_paper(Arc::new(LizaCaza));
    for bad in [
        ReplayOptions { zones: 3, ..base.clone() },
        ReplayOptions { zone_bytes: 0, ..base.clone() },
        ReplayOptions { zone_bytes: u64::MAX, ..base.clone() },
        ReplayOptions { reserve_zones: 99, ..base.clone() },
        ReplayOptions { threshold_percent: 91, ..base.clone() },
        ReplayOptions { scale: 0, ..base.clone() },
    ] {
        assert!(matches!(replay(&[], &bad), Err(FileError::BadOption { .. })), "{bad:?}");
    }
    assert_eq!(replay(&[], &base).expect("an empty trace is a trace").table_bytes, 0);
}

/// Tables of level 4 of these bytes, each of which goes five tables later.
fn deep_churn(tables: u64, bytes: u64) -> Vec<TraceRecord> {
    let mut maker = Maker::new();
    for file in 0..tables {
        maker.deep(file, bytes);
        if file >= 5 {
            maker.remove(file - 5);
        }
    }
    maker.0
}

#[test]
fn subzones_of_tables_that_go_are_reset_alone() {
    for name in ["splitzns", "splitzns+"] {
        for active_max in [None, Some(14), Some(6)] {
            let options = ReplayOptions { subzones: 4, active_max, ..options(name) };
            let report = replay(&deep_churn(200, 2_500_000), &options).expect("it fits");
            let split = report.split.expect("it splits");
            assert_eq!(
                (split.tables, split.refused.total(), split.merges),
                (200, 0, 195),
                "{name} {active_max:?}: {split:?}"
            );
            assert_eq!((report.copied_bytes, split.wasted_bytes, split.overflow_bytes), (0, 0, 0), "{name}");
            assert_eq!((split.bytes, split.live_bytes), (500 * MB, 12_500_000), "{name}");
            assert_eq!(report.levels[4].created_bytes, 500 * MB);
            assert!(split.split_zones_max <= 3 && split.splits - split.joins <= 3, "{split:?}");
        }
    }
}

#[test]
fn what_does_not_fit_a_subzone_goes_wide_and_what_does_not_fill_it_is_waste() {
    let options = ReplayOptions { subzones: 4, ..options("splitzns") };
    let split = replay(&deep_churn(20, 3 * MB), &options).expect("it fits").split.expect("it splits");
    assert_eq!((split.overflowing, split.overflow_bytes, split.wasted_bytes), (20, 10 * MB, 0));
    let split = replay(&deep_churn(20, 2 * MB), &options).expect("it fits").split.expect("it splits");
    assert_eq!((split.overflowing, split.overflow_bytes, split.wasted_bytes), (0, 0, 10 * MB));
}

#[test]
fn no_more_zones_are_split_than_the_share_and_tokens_are_passed_on() {
    let options = ReplayOptions { subzones: 2, active_max: Some(6), ..options("splitzns,share=20") };
    // Six tables at a time, and four subzones in two zones.
    let report = replay(&deep_churn(60, 5 * MB), &options).expect("it fits");
    let split = report.split.expect("it splits");
    assert_eq!(split.split_zones_max, 2, "{split:?}");
    assert!(split.refused.total() > 10 && split.tables + split.refused.total() == 60, "{split:?}");
    // One token for split zones: the first is full by the time when the second needs it.
    let options = ReplayOptions { active_max: Some(6), subzones: 2, ..super::tests::options("splitzns") };
    let report = replay(&deep_churn(60, 5 * MB), &options).expect("it fits");
    let split = report.split.expect("it splits");
    assert!(split.finishes == 0 && split.split_zones_max > 2, "{split:?}");
    // With three active zones there is one token for tables: nothing is split.
    let options = ReplayOptions { active_max: Some(3), ..options };
    assert!(replay(&deep_churn(60, 5 * MB), &options).expect("it fits").split.is_none());
}

#[test]
fn a_table_without_a_wide_zone_takes_a_subzone_rather_than_none() {
    let mut maker = Maker(deep_churn(4, 1_250_000));
    // Level 2: wide. Five zones for 54 MB, and half of the one that is split.
    (100..127).for_each(|file| maker.table(file, 2 * MB, Lifetime::Long, (0, 9)));
    let options = ReplayOptions { subzones: 8, threshold_percent: 0, ..options("splitzns") };
    let report = replay(&maker.0, &options).expect("it fits, in subzones if need be");
    assert!(report.split.expect("it splits").pressed > 0, "{report:?}");
}

/// All that is empty is kept for logs and for cleaning; half of what is in wide zones is dead.
#[test]
fn by_the_papers_rule_no_zone_is_emptied_for_a_table() {
    let mut maker = Maker::new();
    (0..4).for_each(|file| maker.deep(file, 2_500_000));
    (100..124).for_each(|file| maker.table(file, 2 * MB, Lifetime::Long, (0, 9)));
    (100..124).step_by(2).for_each(|file| maker.remove(file));
    maker.deep(4, 2 * MB);
    let of = |policy| {
        let trigger = CleaningTrigger::WhenEmpty;
        let (free, zones) = (FreeSpace::AsStore, 12);
        let options = ReplayOptions { subzones: 4, threshold_percent: 0, zones, free, trigger, ..options(policy) };
        let report = replay(&maker.0, &options).expect("it fits");
        let split = report.split.expect("it splits");
        (split.tables, split.refused.zones, report.copied_bytes > 0)
    };
    assert_eq!(of("splitzns,rule=paper"), (4, 1, false));
    assert_eq!(of("splitzns"), (5, 0, true));
}

/// Four found subzones, three of which are empty by now; of the others every second is gone.
#[test]
fn by_the_papers_rule_a_deep_table_that_is_moved_stays_in_wide_zones() {
    let mut maker = Maker::new();
    (0..20).for_each(|file| maker.deep(file, 2_500_000));
    (0..3).chain((4..20).step_by(2)).for_each(|file| maker.remove(file));
    (100..110).for_each(|file| maker.table(file, 2 * MB, Lifetime::Long, (0, 9)));
    let of = |policy| {
        let options = ReplayOptions { subzones: 4, active_max: Some(6), ..options(policy) };
        let report = replay(&maker.0, &options).expect("it fits");
        (report.split.expect("it splits").moved, report.copied_bytes)
    };
    assert_eq!(of("splitzns,share=10,rule=paper"), (0, 10 * MB));
    assert_eq!(of("splitzns,share=10"), (2, 5 * MB));
}

/// Of each full zone a table is dead, two left their version and wait for an older job, and two live on.
#[test]
fn who_waits_for_what_is_doomed_copies_nothing_for_it() {
    let mut maker = Maker::new();
    (0..40).for_each(|file| maker.table(file, 2 * MB, Lifetime::Long, (0, 9)));
    (0..40).step_by(5).for_each(|file| maker.remove(file));
    let doomed = || (0..40).filter(|file| [1, 2].contains(&(file % 5)));
    let removed = doomed().map(FileId).collect();
    maker.push(TraceEvent::Edit { tree: TreeId(5), removed, added: Vec::new() });
    (40..50).for_each(|file| maker.table(file, 2 * MB, Lifetime::Long, (0, 9)));
    doomed().for_each(|file| maker.remove(file));
    let copied = |policy, threshold_percent| {
        let (free, zones) = (FreeSpace::AsStore, 20);
        let options = ReplayOptions { threshold_percent, zones, free, ..options(policy) };
        replay(&maker.0, &options).expect("it fits").copied_bytes
    };
    assert!(copied("splitzns", 60) > 0);
    assert_eq!(copied("splitzns,wait=doomed", 60), 0, "three zones are doomed, and two are wanted");
    assert!(copied("splitzns,wait=doomed", 80) > 0, "six are");
}

#[test]
fn moves_are_counted_where_they_go() {
    let mut maker = Maker::new();
    maker.table(1, 3 * MB, Lifetime::Long, (1, 2));
    let range = KeyRange::new("001", "002");
    maker.push(TraceEvent::Edit { tree: TreeId(5), removed: vec![FileId(1)], added: vec![(FileId(1), 3, range)] });
    let report = replay(&maker.0, &options("ldp")).expect("it fits");
    assert_eq!(report.levels[3], LevelBytes { created_bytes: 0, moved_bytes: 3 * MB, copied_bytes: 0 });
    assert_eq!((report.levels[2].created_bytes, report.live_bytes, report.tables), (3 * MB, 3 * MB, 1));
}

/// CAZA opens a zone for all keys that are new: what it leaves of the device must do for logs and for cleaning.
#[test]
fn without_a_limit_of_active_zones_nobody_starves() {
    let mut maker = Maker::new();
    for round in 0..400_u64 {
        let first = u32::try_from(round % 97).expect("small") * 10;
        let log = FileId(10_000 + round);
        let path = FilePath::parse(&format!("/{round}.log")).expect("a good path");
        maker.push(TraceEvent::Create { file: log, tags: FileTags::of(FileKind::Log), path: path.clone() });
        maker.push(TraceEvent::Append { file: log, bytes: MB });
        maker.push(TraceEvent::Close { file: log });
        maker.table(round, MB, Lifetime::Extreme, (first, first + 5));
        maker.push(TraceEvent::Unlink { path });
        if round >= 60 {
            maker.remove(round - 60);
        }
    }
    for policy in crate::policy::NAMES {
        for threshold_percent in [5, 15, 25] {
            let options = ReplayOptions { threshold_percent, zones: 24, reserve_zones: 4, ..options(policy) };
            let report = replay(&maker.0, &options).unwrap_or_else(|error| panic!("{policy}: {error}"));
            assert_eq!((report.table_bytes, report.log_bytes), (400 * MB, 400 * MB), "{policy}");
        }
    }
}

/// Past the memory budget tables are placed before their keys are described: by their first key and the last one of the job's inputs.
#[test]
fn past_the_budget_the_first_key_counts_as_in_a_store() {
    let mut maker = Maker::new();
    maker.table(1, 6 * MB, Lifetime::Long, (100, 199));
    maker.table(2, 6 * MB, Lifetime::Long, (300, 399));
    let file = FileId(3);
    let tags = FileTags::of(FileKind::Flushed).with_lifetime(Lifetime::Medium).with_level(1);
    maker.push(TraceEvent::Create { file, tags, path: Maker::path(3) });
    maker.push(TraceEvent::Describe { file, tree: TreeId(5), job: None, level: 1, range: None });
    maker.push(TraceEvent::Append { file, bytes: MB });
    let range = Some(KeyRange::new("310", "320"));
    maker.push(TraceEvent::Describe { file, tree: TreeId(5), job: None, level: 1, range });
    maker.push(TraceEvent::Sync { file });
    maker.push(TraceEvent::Close { file });
    for (held_bytes_max, name) in [(0, "placed early"), (100 * MB, "placed with its keys")] {
        let report = replay(&maker.0, &ReplayOptions { held_bytes_max, ..options("caza") }).expect("it fits");
        assert_eq!(report.allocations.get(&(Rule::Overlap, Some(1))), Some(&1), "{name}: {:?}", report.allocations);
    }
}

/// A policy wants an empty zone and there is none but for cleaning and logs: a store lets the table join an open one.
#[test]
fn a_store_does_not_clean_for_a_choice() {
    let mut maker = Maker::new();
    // Five full zones, each with a dead table, and one that is open; so many are empty as are kept from tables.
    (0..26).for_each(|file| maker.table(file, 2 * MB, Lifetime::Medium, (0, 9)));
    (0..25).step_by(5).for_each(|file| maker.remove(file));
    maker.table(30, 2 * MB, Lifetime::Extreme, (0, 9));
    let trigger = CleaningTrigger::WhenEmpty;
    let copied = |free, zones| {
        let report = replay(&maker.0, &ReplayOptions { trigger, free, zones, ..options("ldp") }).expect("it fits");
        (report.copied_bytes, report.allocations.get(&(Rule::Lifetime, Some(2))).copied())
    };
    assert_eq!(copied(FreeSpace::AsStore, 12), (0, Some(1)));
    assert!(copied(FreeSpace::EmptyZones, 10).0 > 0, "who counts otherwise cleans for it");
}

/// Of full zones it empties the one with most live bytes.
#[derive(Debug)]
struct Fullest;

impl Policy for Fullest {
    fn name(&self) -> &'static str {
        "fullest"
    }

    fn chooses_victims(&self) -> bool {
        true
    }

    fn victim(&self, zones: &[VictimView], _: &LsmShape) -> Option<ZoneId> {
        let full = zones.iter().filter(|view| view.zone.state == ZoneUse::Sealed);
        full.max_by_key(|view| view.zone.live_bytes).map(|view| view.zone.zone)
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        LizaCaza.choose(candidate, choices)
    }
}

/// What was copied for the first zone that was emptied and not dead.
fn first_copied(trace: &Maker, options: &ReplayOptions) -> u64 {
    let report = replay(&trace.0, options).expect("it fits");
    report.copied_per_reset.into_iter().find(|copied| *copied > 0).unwrap_or(0)
}

#[test]
fn a_policys_victims_are_emptied_however_free_space_is_counted() {
    let mut maker = Maker::new();
    for (zone, dying) in (0..).zip([5, 2, 5, 4, 5, 5]) {
        maker.table(2 * zone, (10 - dying) * MB, Lifetime::Long, (0, 9));
        maker.table(2 * zone + 1, dying * MB, Lifetime::Long, (0, 9));
        maker.remove(2 * zone + 1);
    }
    for (free, zones) in [(FreeSpace::EmptyZones, 10), (FreeSpace::AsStore, 12), (FreeSpace::Room, 8)] {
        let policy = Arc::new(Fullest);
        let options = ReplayOptions { policy, free, zones, finish_percent: 0, ..options("ldp") };
        assert_eq!(first_copied(&maker, &options), 8 * MB, "{free:?}");
    }
}

/// A zone that is old and nearly all live has most benefit for its costs, and is not worth it: the next best is emptied, and none that
/// waits for more.
#[test]
fn where_costs_and_benefits_have_a_zone_first_that_is_not_worth_it_the_next_is_emptied() {
    let mut maker = Maker::new();
    let mut put = |file, bytes| maker.table(file, bytes, Lifetime::Long, (0, 9));
    [9_800_000, 200_000, 5 * MB, 5 * MB, 10 * MB, 10 * MB, 10 * MB]
        .into_iter()
        .zip(0..)
        .for_each(|(bytes, file)| put(file, bytes));
    maker.remove(1);
    (10..12).for_each(|file| maker.table(file, MB, Lifetime::Long, (0, 9)));
    [3, 11].iter().for_each(|file| maker.remove(*file));
    maker.table(20, MB, Lifetime::Long, (0, 9));
    let (victims, free) = (VictimPolicy::CostBenefit, FreeSpace::EmptyZones);
    let options = ReplayOptions { victims, free, finish_percent: 0, ..options("liza-caza") };
    assert_eq!(first_copied(&maker, &options), 5 * MB);
}
