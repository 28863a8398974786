//! A store in place is a store like any other: made, closed, recovered, read only, checked, mapped; and never taken for the other kind.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use zonda::limits::SEGMENT_BYTES_MAX;
use zonda::{Batch, Db, Design, Durability, Error, Options, StoreKind};
use zonda_rt::Rng;

fn options() -> Options {
    Options::new().memory(4 << 20).zone_bytes(256 << 10).capacity(48 << 20).store(StoreKind::InPlace)
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let most = if rng.chance(0.01) { 30_000 } else { 60 };
    let mut value = vec![0; rng.index(most)];
    rng.fill(&mut value);
    value
}

fn change(db: &Db, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, rng: &mut Rng, changes: u64) {
    for _ in 0..changes {
        let key = rng.below(6000).to_be_bytes().to_vec();
        if rng.chance(0.2) {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = value(rng);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

fn all(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    db.range::<&[u8]>(..).unwrap().map(Result::unwrap).collect()
}

fn check(db: &Db) {
    let mut findings = Vec::new();
    let report = db.check(&mut |_, _| {}, &mut |finding| findings.push(finding)).unwrap();
    assert!(findings.is_empty() && report.leaves > 0, "{findings:?}");
}

/// The other number came from the options of the first opening.
#[test]
fn a_name_with_one_number_of_its_shape_opens_what_it_made() {
    let directory = tempfile::tempdir().unwrap();
    for (name, query) in [("one", "zone_size=1MiB"), ("two", "zones=64")] {
        let uri = format!("file:{}?{query}", directory.path().join(name).display());
        for life in 0..2_u8 {
            let db = Options::new().store(StoreKind::InPlace).capacity(64 << 20).open(&uri).unwrap();
            db.put([life], "pair").unwrap();
            assert_eq!(db.iter().unwrap().count(), usize::from(life) + 1, "{query}");
        }
    }
}

#[test]
fn every_design_keeps_its_pairs_over_lives_in_place() {
    let directory = tempfile::tempdir().unwrap();
    for design in Design::ALL {
        let path = directory.path().join(design.name());
        let path = path.to_str().unwrap();
        let (mut model, mut rng) = (BTreeMap::new(), Rng::seeded(7));
        for life in 0..4 {
            // The kind is asked for at creation alone; afterwards the file says it.
            let options = if life == 0 { options() } else { Options::new().memory(4 << 20) };
            let db = options.design(design).open(path).unwrap();
            assert_eq!(all(&db), model, "{} life {life}", design.name());
            change(&db, &mut model, &mut rng, 12_000);
            assert_eq!(all(&db), model);
            check(&db);
            if life % 2 == 0 {
                db.close().unwrap();
            } else {
                db.sync().unwrap();
            }
        }
    }
}

#[test]
fn a_store_in_place_is_read_only_mapped_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let path = path.to_str().unwrap();
    let (mut model, mut rng) = (BTreeMap::new(), Rng::seeded(1));
    let db = options().open(path).unwrap();
    change(&db, &mut model, &mut rng, 20_000);
    let mut batch = Batch::new();
    batch.put("a", "1").put("b", "2");
    db.write_with(&batch, Durability::Synced).unwrap();
    model.insert(b"a".to_vec(), b"1".to_vec());
    model.insert(b"b".to_vec(), b"2".to_vec());
    let stats = db.stats().unwrap();
    assert!(stats.device.description.ends_with("in place"), "{}", stats.device.description);
    assert!(stats.space.usable_bytes > 0 && stats.space.usable_bytes < stats.space.capacity_bytes);
    let map = db.zones().unwrap();
    assert_eq!(map.len(), 192);
    assert!(map.iter().any(|zone| zone.content == Some("pages") && zone.live_bytes > 0));
    assert!(map.iter().any(|zone| zone.content == Some("log")));
    assert!(matches!(Db::open_read_only(path), Err(Error::Locked { .. })));
    db.close().unwrap();
    let before = std::fs::metadata(path).unwrap().modified().unwrap();
    let db = Db::open_read_only(path).unwrap();
    assert_eq!(all(&db), model);
    check(&db);
    assert!(matches!(db.put("x", "y"), Err(Error::ReadOnly)));
    drop(db);
    assert_eq!(std::fs::metadata(path).unwrap().modified().unwrap(), before);
}

#[test]
fn the_other_kind_is_refused_by_name_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    for (made, asked) in [(StoreKind::Zoned, StoreKind::InPlace), (StoreKind::InPlace, StoreKind::Zoned)] {
        let path = directory.path().join(made.name());
        let path = path.to_str().unwrap();
        options().store(made).open(path).unwrap().put("key", "value").unwrap();
        let refused = options().store(asked).open(path).unwrap_err();
        assert!(matches!(refused, Error::BadOption { name: "store", .. }), "{refused}");
        assert!(refused.to_string().contains(made.name()) && refused.to_string().contains(asked.name()), "{refused}");
        let layout = if asked == StoreKind::Zoned { "zones" } else { "blocks" };
        assert!(matches!(Db::open(&format!("{path}?layout={layout}")), Err(Error::BadOption { name: "store", .. })));
        assert_eq!(Db::open(path).unwrap().get("key").unwrap(), Some(b"value".to_vec()));
    }
}

#[test]
fn a_store_of_the_preset_bftree_lies_in_place_unless_something_else_says_how() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let sized = |options: Options| options.memory(4 << 20).zone_bytes(1 << 20).capacity(80 << 20);
    let preset = || sized(Options::preset("bftree").unwrap());
    let design = || sized(Options::new().design(Design::BfTree));
    let is_in_place = |db: &Db| db.stats().unwrap().device.description.contains("in place");
    let open = |options: Options, uri: &str| is_in_place(&options.open(uri).unwrap());
    assert!(open(preset(), &path("alone")) && open(preset(), &path("alone")));
    assert!(open(preset(), "mem:?layout=blocks") && !open(preset(), "mem:?layout=zones"));
    assert!(!open(preset().store(StoreKind::Zoned), "mem:"));
    assert!(!open(design(), "mem:"), "the design alone leaves it to the store");
    // Stores of before stay what they are, whoever opens them.
    assert!(!open(design(), &path("zoned")) && !open(preset(), &path("zoned")));
    assert!(open(design(), &path("alone")));
    assert!(!open(preset(), "flash:test?time=untimed"), "a drive may leave no choice");
}

#[test]
fn a_name_says_that_a_store_is_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let name = format!("file:{}?layout=blocks&zone_size=256KiB&zones=128", path.display());
    let db = Options::new().memory(4 << 20).open(&name).unwrap();
    assert_eq!(db.zones().unwrap().len(), 128);
    let memory = Options::new().memory(4 << 20).open("mem:?layout=blocks&zone_size=256KiB&zones=128").unwrap();
    for db in [db, memory] {
        db.put("key", "value").unwrap();
        assert!(db.stats().unwrap().device.description.contains("in place"));
        assert_eq!(db.get("key").unwrap(), Some(b"value".to_vec()));
    }
}

#[test]
fn a_full_store_in_place_refuses_with_numbers_and_goes_on_after_deletes() {
    let db = options().capacity(16 << 20).open("mem:").unwrap();
    let mut written = 0u64;
    loop {
        match db.put(written.to_be_bytes(), [7; 1000]) {
            Ok(()) => written += 1,
            Err(Error::NoSpace { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(written > 2000, "{written} pairs");
    assert_eq!(db.get(0u64.to_be_bytes()).unwrap(), Some(vec![7; 1000]));
    for key in 0..written {
        db.delete(key.to_be_bytes()).unwrap();
    }
    for key in 0..written / 2 {
        db.put(key.to_be_bytes(), [8; 1000]).unwrap();
    }
    check(&db);
}

#[test]
fn segments_that_are_too_large_are_refused_by_the_name_of_the_option() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.zonda");
    let large = |zone_bytes| {
        let options = Options::new().store(StoreKind::InPlace).zone_bytes(zone_bytes).capacity(64 << 30);
        ["mem:", path.to_str().unwrap()].map(|uri| options.open(uri).unwrap_err())
    };
    for error in large(8 << 30) {
        assert!(matches!(&error, Error::BadOption { name: "zone_bytes", .. }), "{error:?}");
        assert!(error.to_string().contains(&SEGMENT_BYTES_MAX.to_string()), "{error}");
    }
    for error in large(SEGMENT_BYTES_MAX) {
        assert!(matches!(error, Error::UnsuitableDevice { .. }), "the capacity is too small for such: {error:?}");
    }
    assert!(!path.exists());
    let error = Options::new().open("mem:?layout=blocks&zone_size=16KiB&zones=64").unwrap_err();
    assert!(matches!(&error, Error::BadOption { .. }), "{error:?}");
}
