//! A backup is like the store that it copies: in zones or in place, leaves, long values, room.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{Place, fill, memory, options};
use zonda::{Db, Error, Options, StoreKind};

/// A store that differs from the default in all that a copy takes over.
fn unusual(kind: StoreKind) -> Options {
    Options::new().memory(4 << 20).store(kind).leaf_bytes(8192).zone_bytes(32 << 20).capacity(100 << 30)
}

/// Bytes of the value log of a store.
fn long_bytes(db: &Db) -> u64 {
    db.stats().unwrap().space.live_value_bytes
}

#[test]
fn a_copy_has_kind_leaves_and_room_of_its_original() {
    for kind in StoreKind::ALL {
        let place = Place::new();
        let copy = place.named("copy");
        let db = unusual(kind).value_inline(2048).open(&place.uri()).unwrap();
        fill(&db, 100);
        db.tree("long").unwrap().put("k", [7; 1500]).unwrap();
        let mut told = 0;
        let copied = db.backup_with(&copy, &Options::new(), &mut |pairs| told = pairs).unwrap();
        assert_eq!((copied, told), (101, 101), "100 and 1; what the tree is called is no pair");
        assert_eq!(Options::new().store_kind(&copy).unwrap(), kind);
        assert!(matches!(Options::new().leaf_bytes(4096).open(&copy), Err(Error::BadOption { .. })), "{kind:?}");
        let copied = Options::new().leaf_bytes(8192).open(&copy).unwrap();
        let (there, needed) = (copied.stats().unwrap().space, db.stats().unwrap().space);
        // Segments in place are shorter there, and have more headers.
        let differs = there.capacity_bytes.abs_diff(needed.capacity_bytes);
        assert!(differs <= needed.capacity_bytes / 1_000, "{kind:?}: {there:?}");
        assert_eq!(long_bytes(&copied), 0, "{kind:?}");
        assert_eq!(copied.tree("long").unwrap().get("k").unwrap(), Some(vec![7; 1500]));
    }
}

#[test]
fn options_and_the_name_come_before_the_original() {
    let place = Place::new();
    let db = unusual(StoreKind::InPlace).open(&place.uri()).unwrap();
    let (named, said) = (place.named("named"), place.named("said"));
    db.backup(&(named.clone() + "?layout=zones&zones=100&zone_size=1MiB")).unwrap();
    assert_eq!(Options::new().store_kind(&named).unwrap(), StoreKind::Zoned);
    let capacity = |name: &str| Options::new().open(name).unwrap().stats().unwrap().space.capacity_bytes;
    assert!(capacity(&named) <= 100 << 20);
    let options = Options::new().store(StoreKind::Zoned).leaf_bytes(4096).zone_bytes(1 << 20).capacity(200 << 20);
    db.backup_with(&said, &options, &mut |_| {}).unwrap();
    assert_eq!(Options::new().store_kind(&said).unwrap(), StoreKind::Zoned);
    assert!(Options::new().leaf_bytes(4096).open(&said).is_ok() && capacity(&said) <= 200 << 20);
}

/// Whatever zones the original has, which a capacity that is said must hold enough of.
#[test]
fn a_copy_of_small_capacity_has_zones_that_fit_it() {
    let place = Place::new();
    let small = Options::new().memory(4 << 20).capacity(64 << 20);
    for (name, options) in [("small", small.clone()), ("large", Options::new().memory(4 << 20))] {
        let db = options.open(&place.named(name)).unwrap();
        fill(&db, 100);
        let copy = place.named(&format!("copy of {name}"));
        assert_eq!(db.backup_with(&copy, &small, &mut |_| {}).unwrap(), 100, "{name}");
        let there = small.open(&copy).unwrap().stats().unwrap().space;
        assert!(there.usable_bytes > 16 << 20, "{name}: {there:?}");
    }
}

/// What a killed process leaves is what the file held at some moment of the copy.
#[test]
fn part_of_a_copy_is_no_store() {
    const PAIRS: u32 = 4000;
    for (kind, has_log) in StoreKind::ALL.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let place = Place::new();
        let db = memory();
        db.ingest((0..PAIRS).map(|key| (key.to_be_bytes(), [7; 100]))).unwrap();
        let copy = place.named("copy");
        let like = options().store(kind).log(has_log);
        let killed_at = [1, PAIRS / 2, PAIRS].map(u64::from);
        let killed = |pairs: u64| place.named(&format!("killed at {pairs}"));
        let mut progress = |pairs| {
            if killed_at.contains(&pairs) {
                std::fs::copy(&copy, killed(pairs)).unwrap();
            }
        };
        assert_eq!(db.backup_with(&copy, &like, &mut progress).unwrap(), u64::from(PAIRS));
        for uri in killed_at.map(killed) {
            let read_only = like.open_read_only(&uri).unwrap_err();
            assert!(
                matches!(&read_only, Error::CopyUnfinished { uri: named } if *named == uri),
                "{kind:?}: {read_only}"
            );
            assert!(matches!(like.open(&uri), Err(Error::CopyUnfinished { .. })), "{kind:?} {has_log} {uri}");
            assert!(matches!(db.backup(&uri), Err(Error::AlreadyExists { .. })));
        }
        let whole = like.open(&copy).unwrap();
        assert_eq!(whole.iter().unwrap().count(), PAIRS as usize);
        assert_eq!(
            whole.backup(&place.named("copy of the copy")).unwrap(),
            u64::from(PAIRS),
            "no record is left of it"
        );
    }
}
