//! The examples of the paper: figures 1 and 2 and section 4.

use super::super::testing::zones;
use super::*;
use crate::lsm::{KeyOrder, LsmShape, TreeId};
use crate::{FileId, FileKind, FileTags, Lifetime, ZoneId};

/// A tree with tables of two-digit keys: file, level, first and last key, zones.
fn shape(tables: &[(u64, u8, u32, u32, &[u32])]) -> (LsmShape, TreeId) {
    let mut shape = LsmShape::default();
    let tree = shape.add_tree(KeyOrder::bytewise());
    for (file, level, smallest, largest, zones) in tables {
        let zones = zones.iter().map(|zone| ZoneId(*zone)).collect();
        shape.put(tree, FileId(*file), Table { level: *level, range: range(*smallest, *largest), zones });
    }
    (shape, tree)
}

fn range(smallest: u32, largest: u32) -> KeyRange {
    KeyRange::new(format!("{smallest:02}"), format!("{largest:02}"))
}

/// Where a table of `level` from one key to another goes.
fn place(
    (shape, tree): &(LsmShape, TreeId),
    level: u8,
    keys: (u32, u32),
    open: &[OpenZoneView],
    may_open: bool,
) -> Decision {
    let table = TableKeys { tree: *tree, level, range: range(keys.0, keys.1) };
    let tags = FileTags::of(FileKind::Data).with_lifetime(Lifetime::Medium).with_level(level);
    let candidate = Candidate { file: FileId(99), tags: &tags, bytes: 1, table: Some(&table) };
    Caza.choose(&candidate, &Choices { open, may_open, shape })
}

/// Figure 2(c): B and C of level 2 lie in zone 0; A of level 1, which overlaps both, joins them.
#[test]
fn a_table_joins_those_that_it_will_be_merged_with() {
    let tree = shape(&[(1, 2, 10, 20, &[0]), (2, 2, 21, 35, &[0]), (3, 2, 60, 70, &[1])]);
    let open = zones(&[Lifetime::Long, Lifetime::Medium]);
    assert_eq!(place(&tree, 1, (15, 30), &open, true), Choice::Open(ZoneId(0)).by(Rule::Overlap));
    assert_eq!(place(&tree, 1, (61, 62), &open, true), Choice::Open(ZoneId(1)).by(Rule::Overlap));
}

/// CAZA 3: by the number of overlapping tables, not of bytes or of all tables.
#[test]
fn the_zone_with_most_overlapping_tables_is_first() {
    let tree = shape(&[
        (1, 2, 10, 19, &[0]),
        (2, 2, 20, 29, &[1]),
        (3, 2, 30, 39, &[1]),
        (4, 2, 80, 81, &[0]),
        (5, 2, 82, 83, &[0]),
    ]);
    let mut open = zones(&[Lifetime::Long, Lifetime::Long]);
    assert_eq!(place(&tree, 1, (15, 35), &open, true).choice, Choice::Open(ZoneId(1)));
    // CAZA 4: full zones are not among the open ones; the next in order is taken, also for the rest of a table.
    open.remove(1);
    assert_eq!(place(&tree, 1, (15, 35), &open, true), Choice::Open(ZoneId(0)).by(Rule::Overlap));
}

#[test]
fn new_keys_and_full_zones_get_an_empty_zone() {
    let tree = shape(&[(1, 2, 10, 20, &[7]), (2, 1, 40, 50, &[0])]);
    let open = zones(&[Lifetime::Medium]);
    assert_eq!(place(&tree, 1, (60, 70), &open, true), Choice::New.by(Rule::NewKeys));
    assert_eq!(place(&tree, 1, (15, 17), &open, true), Choice::New.by(Rule::NoRoom));
}

/// Section 4: "SSTables with key ranges (10-20) and (25-35) can be bridged by SSTable with (15-30) in the upper level."
#[test]
fn without_an_empty_zone_the_nearest_keys_of_the_same_level_are_joined() {
    let tree = shape(&[(1, 1, 10, 20, &[0]), (2, 1, 70, 80, &[1]), (3, 2, 25, 35, &[7])]);
    let open = zones(&[Lifetime::Extreme, Lifetime::Medium]);
    assert_eq!(place(&tree, 1, (25, 35), &open, false), Choice::Open(ZoneId(0)).by(Rule::NearKeys));
    assert_eq!(place(&tree, 1, (60, 65), &open, false), Choice::Open(ZoneId(1)).by(Rule::NearKeys));
}

#[test]
fn without_a_neighbour_it_is_by_lifetime() {
    let tree = shape(&[(1, 1, 10, 20, &[7])]);
    let open = zones(&[Lifetime::Short, Lifetime::Long]);
    assert_eq!(place(&tree, 1, (25, 35), &open, false), Choice::Open(ZoneId(1)).by(Rule::Lifetime));
    let tags = FileTags::of(FileKind::Log);
    let candidate = Candidate { file: FileId(1), tags: &tags, bytes: 1, table: None };
    let decision = Caza.choose(&candidate, &Choices { open: &open, may_open: true, shape: &tree.0 });
    assert_eq!(decision, Choice::Open(ZoneId(0)).by(Rule::Lifetime), "a log has no keys");
}

#[test]
fn inputs_of_running_compactions_attract_nobody() {
    let mut tree = shape(&[(1, 2, 10, 20, &[0]), (2, 2, 21, 30, &[1])]);
    let open = zones(&[Lifetime::Long, Lifetime::Long]);
    let job = tree.0.begin_job(vec![FileId(1)]);
    assert_eq!(place(&tree, 1, (15, 25), &open, true), Choice::Open(ZoneId(1)).by(Rule::Overlap));
    assert_eq!(place(&tree, 1, (15, 17), &open, true), Choice::New.by(Rule::NewKeys));
    tree.0.end_job(job);
    assert_eq!(place(&tree, 1, (15, 17), &open, true), Choice::Open(ZoneId(0)).by(Rule::Overlap));
}

#[test]
fn gaps_are_between_ends_whatever_the_keys_begin_with() {
    let key = |number: u32| format!("user-table/{number:08}");
    let range = |from, to| KeyRange::new(key(from), key(to));
    let (near, far) = (gap(&range(20, 30), &range(33, 90)), gap(&range(20, 30), &range(1, 9)));
    assert!(near < far, "{near} {far}");
    assert_eq!(gap(&KeyRange::new("", ""), &KeyRange::new("", "")), 0);
}
