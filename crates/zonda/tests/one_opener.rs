//! One writer, or readers, never both.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::fs;

use common::{Place, fill, keys, options};
use zonda::{Db, Error};

#[test]
fn a_second_opener_is_refused_until_the_first_is_gone() {
    let place = Place::new();
    let db = place.open();
    let snapshot = db.snapshot().unwrap();
    let refused = || matches!(options().open(&place.uri()), Err(Error::Locked { .. }));
    assert!(refused());
    assert!(matches!(Db::open_read_only(&place.uri()), Err(Error::Locked { .. })));
    db.close().unwrap();
    assert!(refused(), "a snapshot keeps the store");
    drop(snapshot);
    place.open();
}

#[test]
fn readers_share_a_store_and_keep_writers_out() {
    let place = Place::new();
    fill(&place.open(), 100);
    let readers = [Db::open_read_only(&place.uri()).unwrap(), Db::open_read_only(&place.uri()).unwrap()];
    for reader in &readers {
        assert_eq!(reader.iter().unwrap().count(), 100);
    }
    assert!(matches!(options().open(&place.uri()), Err(Error::Locked { .. })));
}

#[test]
fn a_reader_writes_nothing_and_refuses_to() {
    let place = Place::new();
    let db = place.open();
    fill(&db, 100);
    db.tree("t").unwrap().put("k", "v").unwrap();
    drop(db);
    let before = fs::read(place.uri()).unwrap();
    let db = options().open_read_only(&place.uri()).unwrap();
    assert!(matches!(db.put("k", "v"), Err(Error::ReadOnly)));
    assert!(matches!(db.delete_range("a"..), Err(Error::ReadOnly)));
    assert!(matches!(db.sync(), Err(Error::ReadOnly)));
    assert!(matches!(db.drop_tree("t"), Err(Error::ReadOnly)));
    assert!(matches!(db.tree("other"), Err(Error::NoSuchTree { .. })));
    assert_eq!(keys(db.tree("t").unwrap().iter()), ["k"]);
    db.close().unwrap();
    assert!(before == fs::read(place.uri()).unwrap(), "the file changed");
}

#[test]
fn a_store_that_was_not_closed_is_read_without_writing() {
    let place = Place::new();
    let db = place.open();
    fill(&db, 1000);
    db.sync().unwrap();
    let crashed = place.named("crashed.zonda");
    fs::copy(place.uri(), &crashed).unwrap();
    drop(db);
    let before = fs::read(&crashed).unwrap();
    let db = options().open_read_only(&crashed).unwrap();
    assert_eq!(db.iter().unwrap().count(), 1000);
    drop(db);
    assert!(before == fs::read(&crashed).unwrap(), "the file changed");
    assert_eq!(options().open(&crashed).unwrap().iter().unwrap().count(), 1000);
}

#[test]
fn nothing_to_read_is_not_found() {
    let place = Place::new();
    assert!(matches!(Db::open_read_only(&place.uri()), Err(Error::NotFound { .. })));
    assert!(matches!(Db::open_read_only("mem:"), Err(Error::NotFound { .. })));
    assert!(!fs::exists(place.uri()).unwrap());
}
