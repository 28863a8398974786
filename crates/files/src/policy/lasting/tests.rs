//! What is moved first, and where to.

use zonda_space::{StreamId, StreamSet, ZoneUse, ZoneView};

use super::*;
use crate::lsm::{KeyOrder, KeyRange, Table};
use crate::policy::{Choice, testing};
use crate::{FileId, FileKind, FileTags, Lifetime};

/// Level 1, whose tables live while ten more are written, and level 2, in which none died yet: files 1000 and 2000 are theirs.
fn shape() -> LsmShape {
    let mut shape = LsmShape::default();
    let tree = shape.add_tree(KeyOrder::bytewise());
    let table = |level| Table { level, range: KeyRange::new("a", "b"), zones: Vec::new() };
    shape.put(tree, FileId(2000), table(2));
    for file in 0..100 {
        shape.wrote(100);
        shape.put(tree, FileId(file), table(1));
        if file >= 10 {
            shape.remove_file(FileId(file - 10));
        }
    }
    shape.put(tree, FileId(1000), table(1));
    shape
}

/// A zone with so many live bytes of 100, all of one file.
fn zone(zone: u32, live_bytes: u64, file: u64) -> VictimView {
    let view = ZoneView {
        zone: ZoneId(zone),
        state: ZoneUse::Sealed,
        stream: Some(StreamId(3)),
        holds: StreamSet::of(StreamId(3)),
        generation: u64::from(zone) + 1,
        written_bytes: 100,
        capacity_bytes: 100,
        live_bytes,
        age_blocks: 0,
        relocating: false,
    };
    VictimView { zone: view, gain_bytes: 100 - live_bytes, live: vec![(FileId(file), live_bytes)] }
}

fn chosen(zones: &[VictimView], shape: &LsmShape) -> Option<u32> {
    Lasting.victim(zones, shape).map(|zone| zone.0)
}

#[test]
fn what_lasts_is_moved_before_what_soon_dies() {
    let shape = shape();
    assert_eq!(chosen(&[zone(0, 73, 1000), zone(1, 75, 2000)], &shape), Some(1), "it would have to be moved anyhow");
    assert_eq!(chosen(&[zone(0, 30, 1000), zone(1, 75, 2000)], &shape), Some(0), "but not at any price");
    assert_eq!(chosen(&[zone(0, 70, 1000), zone(1, 70, 1000)], &shape), Some(0), "the older of equals");
    assert_eq!(chosen(&[], &shape), None);
}

#[test]
fn inputs_of_running_jobs_are_left_alone() {
    let mut shape = shape();
    let job = shape.begin_job(vec![FileId(2000)]);
    assert_eq!(chosen(&[zone(0, 90, 1000), zone(1, 75, 2000)], &shape), Some(0));
    shape.end_job(job);
    assert_eq!(chosen(&[zone(0, 90, 1000), zone(1, 75, 2000)], &shape), Some(1));
}

#[test]
fn without_tables_the_emptiest_of_equal_age_is_taken() {
    let shape = LsmShape::default();
    assert_eq!(chosen(&[zone(0, 50, 1), zone(1, 40, 2), zone(2, 60, 3)], &shape), Some(1));
}

#[test]
fn the_old_have_less_to_live() {
    assert!(life_left(0, 100) > life_left(50, 100));
    assert!(life_left(50, 100) > life_left(1_000_000, 100));
    assert!(life_left(0, 0).is_finite() && life_left(u64::MAX, 1) >= 1.0);
}

#[test]
fn moved_bytes_fill_one_zone() {
    let tags = FileTags::of(FileKind::Data).with_lifetime(Lifetime::Extreme).with_level(3);
    let candidate = Candidate { file: FileId(1), tags: &tags, bytes: 1, table: None };
    let shape = LsmShape::default();
    let mut open = testing::zones(&[Lifetime::Medium]);
    open[0].level = Some(2);
    let moved =
        |open: &[_]| Lasting.choose_for_moved(&candidate, &Choices { open, may_open: true, shape: &shape }).choice;
    assert_eq!(moved(&open), Choice::Open(ZoneId(0)), "of whatever level");
    assert_eq!(moved(&[]), Choice::New);
    assert_eq!(Lasting.choose(&candidate, &Choices { open: &open, may_open: true, shape: &shape }).choice, Choice::New);
}
