//! Steps of the allocator, one by one.

use zonda_space::ZoneId;

use super::super::Choice;
use super::super::testing::zones;
use super::*;
use crate::{FileId, FileKind, FileTags, Lifetime};

fn view(zone: u32, [full, empty, written]: [u32; 3], active: bool) -> SplitZoneView {
    SplitZoneView { zone: ZoneId(zone), full, empty, written, active, used: zone.into() }
}

fn choices(split: &[SplitZoneView]) -> SplitChoices<'_> {
    SplitChoices { split, zones: 10, empty_zones: 3, percent_max: SPLIT_PERCENT_MAX, has_token: true }
}

#[test]
fn low_levels_are_wide_and_high_ones_are_not() {
    let paper = SubzoneLevels::From(4);
    assert_eq!([3, 4, 6].map(|level| paper.contains(level, 6)), [false, true, true]);
    let moving = SubzoneLevels::FromBottom(1);
    assert_eq!([4, 5, 6].map(|level| moving.contains(level, 6)), [false, false, true]);
}

#[test]
fn the_fullest_zone_with_a_token_comes_first() {
    let split =
        [view(1, [2, 10, 4], true), view(2, [9, 1, 6], true), view(3, [15, 1, 0], false), view(4, [16, 0, 0], true)];
    assert_eq!(choose_subzone(&choices(&split)), Ok(SplitChoice::Subzone(ZoneId(2))));
    assert_eq!(
        choose_subzone(&choices(&split[2..])),
        Ok(SplitChoice::Subzone(ZoneId(3))),
        "a finished one is reopened"
    );
    assert_eq!(choose_subzone(&choices(&[])), Ok(SplitChoice::Split));
}

#[test]
fn not_too_many_zones_are_split() {
    let full: Vec<_> = (0..6).map(|zone| view(zone, [16, 0, 0], false)).collect();
    assert_eq!(choose_subzone(&choices(&full[..5])), Ok(SplitChoice::Split));
    assert_eq!(choose_subzone(&choices(&full)), Err(Lacking::Share), "six of ten are");
    let none = SplitChoices { empty_zones: 0, ..choices(&[]) };
    assert_eq!(choose_subzone(&none), Err(Lacking::Zones));
}

#[test]
fn a_token_is_taken_from_who_was_used_longest_ago_and_never_waited_for() {
    let split = [view(1, [14, 0, 2], true), view(2, [16, 0, 0], true), view(3, [16, 0, 0], true)];
    let short = SplitChoices { has_token: false, ..choices(&split) };
    assert_eq!(choose_subzone(&short), Ok(SplitChoice::Finish(ZoneId(2), AfterFinish::Split)));
    let with_finished = [split[0], split[2], view(7, [5, 11, 0], false)];
    let short = SplitChoices { split: &with_finished, ..short };
    assert_eq!(choose_subzone(&short), Ok(SplitChoice::Finish(ZoneId(3), AfterFinish::Subzone(ZoneId(7)))));
    let busy = SplitChoices { split: &split[..1], ..short };
    assert_eq!(choose_subzone(&busy), Err(Lacking::Tokens), "all tokens are held by writers");
}

#[test]
fn in_wide_zones_deep_tables_are_apart_from_others_of_their_lifetime() {
    let level = |level| FileTags::of(FileKind::Data).with_lifetime(Lifetime::Extreme).with_level(level);
    let mut open = zones(&[Lifetime::Extreme, Lifetime::Extreme, Lifetime::Long]);
    (open[0].level, open[1].level) = (Some(3), Some(5));
    let choose = |tags: &FileTags, open: &[OpenZoneView]| {
        let candidate = Candidate { file: FileId(1), tags, bytes: 1, table: None };
        let choices = Choices { open, may_open: true, shape: &LsmShape::default() };
        SplitZns::default().choose(&candidate, &choices).choice
    };
    assert_eq!(choose(&level(3), &open), Choice::Open(ZoneId(0)));
    assert_eq!(choose(&level(4), &open), Choice::Open(ZoneId(1)));
    assert_eq!(choose(&level(4), &open[..1]), Choice::New);
    assert_eq!(choose(&level(2), &open[1..]), Choice::New);
}

#[test]
fn by_the_papers_rule_a_deep_table_without_a_subzone_goes_by_its_lifetime() {
    let strict: SplitZns = "splitzns,rule=paper,share=50".parse().unwrap();
    assert_eq!(strict, SplitZns { is_strict: true, split_percent_max: 50, ..SplitZns::default() });
    assert!(!strict.insists_on_subzones() && SplitZns::default().insists_on_subzones());
    let tags = FileTags::of(FileKind::Data).with_lifetime(Lifetime::Extreme).with_level(4);
    let mut open = zones(&[Lifetime::Extreme]);
    open[0].level = Some(3);
    let candidate = Candidate { file: FileId(1), tags: &tags, bytes: 1, table: None };
    let choices = Choices { open: &open, may_open: true, shape: &LsmShape::default() };
    assert_eq!(strict.choose(&candidate, &choices).choice, Choice::Open(ZoneId(0)));
    assert_eq!(SplitZns::default().choose(&candidate, &choices).choice, Choice::New);
    assert!("splitzns,rule=ours".parse::<SplitZns>().is_err());
}

#[test]
fn to_wait_for_what_is_doomed_is_asked_for_by_name() {
    let waits: SplitZns = "splitzns,from=3,wait=doomed".parse().unwrap();
    assert_eq!(
        waits,
        SplitZns { levels: SubzoneLevels::From(3), waits_for_doomed: true, ..SplitZns::default() },
        "all else is as it was"
    );
    assert!(Policy::waits_for_doomed(&waits) && !Policy::waits_for_doomed(&SplitZns::default()));
    assert!("splitzns,wait=dead".parse::<SplitZns>().is_err());
}
