//! What survives closing, dropping and backing up.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::sync::Arc;

use common::{Place, fill, keys, memory, options};
use zonda::{Batch, Db, Durability, Error, Options};
use zonda_device::{Geometry, MemDevice, ZonedDevice};

#[test]
fn everything_survives_a_close_and_a_drop() {
    let place = Place::new();
    for round in 0..4_u32 {
        let db = place.open();
        assert_eq!(db.iter().unwrap().count(), 2 * round as usize);
        db.put(format!("{round} a"), "x").unwrap();
        db.put_with(format!("{round} b"), "y", Durability::Synced).unwrap();
        if round % 2 == 0 {
            db.close().unwrap();
        }
    }
}

#[test]
fn a_closed_store_says_so_to_every_handle() {
    let db = memory();
    let (clone, tree, snapshot) = (db.clone(), db.tree("t").unwrap(), db.snapshot().unwrap());
    let mut range = db.iter().unwrap();
    fill(&db, 3);
    db.close().unwrap();
    assert!(matches!(clone.put("k", "v"), Err(Error::Closed)));
    assert!(matches!(tree.get("k"), Err(Error::Closed)));
    // Also where there is nothing to be written.
    assert!(matches!(clone.write(Batch::new()), Err(Error::Closed)));
    assert!(matches!(tree.ingest([("", ""); 0]), Err(Error::Closed)));
    assert!(matches!(tree.delete_range("b".."a"), Err(Error::Closed)));
    assert!(matches!(snapshot.get("k"), Err(Error::Closed)));
    assert!(matches!(range.next(), Some(Err(Error::Closed))));
    assert!(range.next().is_none(), "an error ends the range");
    clone.close().unwrap();
}

/// The checkpoint that is there has everything; another one would have an entry for each leaf.
#[test]
fn a_life_that_writes_nothing_costs_a_block_however_large_the_store_is() {
    let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 80).with_limits(14, 14)).unwrap());
    let open = || Db::open_device(Arc::clone(&device) as Arc<dyn ZonedDevice>, &options()).unwrap();
    let db = open();
    db.ingest((0..100_000_u32).map(|number| (number.to_be_bytes(), [7; 60]))).unwrap();
    db.compact(&mut |_, _| {}).unwrap();
    db.close().unwrap();
    // Now and then one takes a checkpoint, so that there are never many of them to be read.
    let (mut cheap, mut dear) = (0, 0);
    for _ in 0..70 {
        let before = device.counters().written_bytes;
        let db = open();
        assert_eq!(db.get(99_999_u32.to_be_bytes()).unwrap().as_deref(), Some(&[7; 60][..]));
        db.close().unwrap();
        let written = device.counters().written_bytes - before;
        if written <= 2 * 4096 { cheap += 1 } else { dear += 1 }
    }
    assert!(dear <= 2, "{dear} of {cheap} lives wrote more than a block");
    let db = open();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    assert_eq!(open().get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn ten_thousand_pairs_come_back_in_order() {
    let place = Place::new();
    let db = place.open();
    fill(&db, 10_000);
    drop(db);
    let db = place.open();
    let found = keys(db.iter());
    assert_eq!(found.len(), 10_000);
    assert!(found.is_sorted());
    let report = db.check(&mut |_, _| {}, &mut |finding| panic!("{finding}")).unwrap();
    assert_eq!(report.findings, 0);
}

#[test]
fn options_of_creation_are_kept() {
    let place = Place::new();
    options().leaf_bytes(8192).open(&place.uri()).unwrap().put("k", "v").unwrap();
    assert_eq!(place.open().get("k").unwrap(), Some(b"v".to_vec()));
    let refused = options().leaf_bytes(4096).open(&place.uri()).unwrap_err();
    assert!(refused.to_string().contains("8192"), "{refused}");
    let refused = Options::new().create_new(true).open(&place.uri()).unwrap_err();
    assert!(matches!(refused, Error::AlreadyExists { .. }));
    let refused = Options::new().create_if_missing(false).open(&place.named("other")).unwrap_err();
    assert!(matches!(refused, Error::NotFound { .. }));
}

#[test]
fn a_backup_holds_the_moment_it_began_with_all_trees() {
    let place = Place::new();
    let db = place.open();
    fill(&db, 3000);
    db.tree("users").unwrap().put("ada", "1815").unwrap();
    let copy = place.named("copy.zonda");
    let mut seen = 0;
    db.backup_with(&copy, &options(), &mut |pairs| seen = pairs).unwrap();
    assert!(seen > 3000, "{seen}");
    db.put("later", "").unwrap();
    let copied = options().open(&copy).unwrap();
    assert_eq!(copied.iter().unwrap().count(), 3000);
    assert_eq!(copied.tree("users").unwrap().get("ada").unwrap(), Some(b"1815".to_vec()));
    assert_eq!(copied.tree_names().unwrap(), ["users"]);
    drop(copied);
    assert!(matches!(db.backup(&copy), Err(Error::AlreadyExists { .. })), "never over something");
}

#[test]
fn ingest_says_which_item_is_out_of_order() {
    let db = memory();
    let refused = db.ingest([("a", "1"), ("b", "2"), ("b", "3"), ("c", "4")]).unwrap_err();
    assert!(matches!(refused, Error::OutOfOrder { item: 2 }));
    assert_eq!(keys(db.iter()), ["a", "b"]);
}

#[test]
fn a_store_without_threads_works_by_steps() {
    let place = Place::new();
    let db = options().background(false).open(&place.uri()).unwrap();
    fill(&db, 2000);
    for _ in 0..100 {
        db.step().unwrap();
    }
    drop(db);
    assert_eq!(place.open().iter().unwrap().count(), 2000);
}

#[test]
fn numbers_add_up() {
    let db = memory();
    fill(&db, 2000);
    db.sync().unwrap();
    let stats = db.stats().unwrap();
    assert!(stats.written.log_bytes > 0);
    assert!(stats.device.written_bytes >= stats.written.total_bytes(), "{stats:?}");
    assert_eq!(stats.memory.budget_bytes, 4 << 20);
    assert!(stats.memory.used_bytes <= stats.memory.budget_bytes, "{stats:?}");
    let zones = db.zones().unwrap();
    assert_eq!(zones.len(), stats.space.zones as usize);
    assert!(zones.iter().any(|zone| zone.content == Some("log")));
}

/// Of a store that was not closed, by either kind of opening.
#[test]
fn whoever_recovers_a_store_hears_how_far_it_is() {
    let place = Place::new();
    let db = place.open();
    fill(&db, 20_000);
    db.sync().unwrap();
    let crashed = place.named("crashed");
    std::fs::copy(place.uri(), &crashed).unwrap();
    let (mut read, mut written) = (Vec::new(), Vec::new());
    let reader = options().open_read_only_with_progress(&crashed, &mut |step| read.push(step)).unwrap();
    assert_eq!(reader.iter().unwrap().count(), 20_000);
    drop(reader);
    options().open_with_progress(&crashed, &mut |step| written.push(step)).unwrap();
    let is_log = |step: &&zonda::RecoveryProgress| step.phase == "log" && step.done_bytes > 20_000;
    assert!(read.iter().filter(is_log).count() > 2, "{read:?}");
    assert_eq!(read, written);
}
