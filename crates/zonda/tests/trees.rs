//! Named trees are apart from each other, and their names survive.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Place, fill, keys, memory, options};
use zonda::limits::{MEMORY_BYTES_MIN, TREE_NAME_BYTES_MAX};
use zonda::{Batch, Db, Durability, Error, Options, Update};
use zonda_device::{Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, PowerCut};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{DeviceCall, Rng, sim, spawn};

/// Options of a run of the simulation: all that happens comes from the seed, whatever the machine.
fn seeded(memory_bytes: u64, seed: u64) -> Options {
    Options::new().memory(memory_bytes).seed(seed).log_instances(2).background(false)
}

fn is_dropped<T>(result: zonda::Result<T>) -> bool {
    matches!(result, Err(Error::TreeDropped { .. }))
}

#[test]
fn trees_do_not_see_each_other() {
    let db = memory();
    let (a, b) = (db.tree("a").unwrap(), db.tree("b").unwrap());
    db.put("k", "default").unwrap();
    a.put("k", "a").unwrap();
    b.put("\u{ff}", "b").unwrap();
    assert_eq!((a.name(), db.name()), ("a", ""));
    assert_eq!(keys(a.iter()), ["k"]);
    assert_eq!(keys(db.iter()), ["k"]);
    assert_eq!(b.get("k").unwrap(), None);
    a.delete_range::<&str>(..).unwrap();
    assert_eq!((a.first().unwrap(), db.iter().unwrap().count(), b.iter().unwrap().count()), (None, 1, 1));
}

#[test]
fn many_trees_survive_reopening() {
    let place = Place::new();
    let db = place.open();
    for number in 0..300_u32 {
        db.tree(&format!("tree {number:03}")).unwrap().put("n", number.to_be_bytes()).unwrap();
    }
    db.close().unwrap();
    let db = place.open();
    assert_eq!(db.tree_names().unwrap().len(), 300);
    for number in [0_u32, 117, 118, 119, 299] {
        let value = db.tree(&format!("tree {number:03}")).unwrap().get("n").unwrap();
        assert_eq!(value, Some(number.to_be_bytes().to_vec()));
    }
}

#[test]
fn a_dropped_tree_is_gone_and_its_handles_say_so() {
    let place = Place::new();
    let db = place.open();
    let tree = db.tree("t").unwrap();
    for number in 0..3000_u32 {
        tree.put(number.to_be_bytes(), "x").unwrap();
    }
    assert!(db.drop_tree("t").unwrap());
    assert!(!db.drop_tree("t").unwrap());
    assert!(is_dropped(tree.put("k", "v")) && is_dropped(tree.ingest([("k", "v")])) && is_dropped(tree.delete("k")));
    assert!(is_dropped(tree.delete_range("a".."b")) && is_dropped(tree.delete_range("b".."a")));
    assert!(is_dropped(tree.fetch_update("k", |_| Update::Keep)) && is_dropped(tree.compare_and_swap("k", None, None)));
    let mut batch = Batch::new();
    batch.put("k", "v").put_in(&tree, "k", "v");
    assert!(is_dropped(db.write(batch)));
    assert!(is_dropped(tree.get("k")) && is_dropped(tree.get_into("k", &mut Vec::new())));
    assert!(is_dropped(tree.contains_key("k")) && is_dropped(tree.multi_get(["k"])));
    assert!(is_dropped(tree.iter()) && is_dropped(tree.range("a".."b")) && is_dropped(tree.prefix("a")));
    assert!(is_dropped(tree.first()) && is_dropped(tree.last()));
    assert_eq!(db.get("k").unwrap(), None);
    drop((db, tree));
    let db = place.open();
    assert!(db.tree_names().unwrap().is_empty());
    assert_eq!(db.tree("t").unwrap().first().unwrap(), None);
}

#[test]
fn what_was_taken_of_a_tree_before_it_was_dropped_still_has_it() {
    let db = memory();
    let tree = db.tree("t").unwrap();
    tree.ingest([("a", ""), ("b", "")]).unwrap();
    let (range, view) = (tree.iter(), db.snapshot().unwrap().tree("t").unwrap());
    assert!(db.drop_tree("t").unwrap());
    assert_eq!(keys(range), ["a", "b"]);
    assert_eq!(keys(view.iter()), ["a", "b"]);
}

/// Pairs go after the tree does: a read that is not told of it sees all of them.
#[test]
fn a_read_beside_a_drop_finds_all_or_hears_of_it() {
    const PAIRS: u32 = 500;
    let db = memory();
    for round in 0..50 {
        let tree = db.tree("t").unwrap();
        tree.ingest((0..PAIRS).map(|number| (number.to_be_bytes(), "x"))).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| db.drop_tree("t").unwrap());
            for number in (0..PAIRS).cycle() {
                if number % 50 == 0
                    && let Ok(range) = tree.iter()
                {
                    assert_eq!(range.map(Result::unwrap).count(), 500, "round {round}");
                }
                match tree.get(number.to_be_bytes()) {
                    Ok(value) => assert!(value.is_some(), "round {round}, {number}"),
                    gone => {
                        assert!(is_dropped(gone));
                        break;
                    }
                }
            }
        });
    }
}

/// The drop may take all pairs between two batches of the delete, or before its first.
#[test]
fn a_range_deleted_beside_a_drop_was_all_there_or_hears_of_it() {
    const PAIRS: u64 = 3;
    let mut dropped = 0;
    for seed in 0..300 {
        let deleted = sim::run(seed, || {
            let db = seeded(4 << 20, seed).open("mem:").unwrap();
            let tree = db.tree("t").unwrap();
            tree.ingest((0..PAIRS).map(|number| (number.to_be_bytes(), "x"))).unwrap();
            let dropper = spawn("dropper", move || db.drop_tree("t").unwrap());
            let deleted = tree.delete_range::<&[u8]>(..);
            assert!(dropper.join().unwrap());
            deleted
        });
        match deleted {
            Ok(deleted) => assert_eq!(deleted, PAIRS, "seed {seed}"),
            gone => {
                assert!(is_dropped(gone), "seed {seed}");
                dropped += 1;
            }
        }
    }
    assert!((1..300).contains(&dropped), "{dropped}");
}

/// What they read is found on snapshots that writers beside them outdate while a slow device is read.
#[test]
fn ranges_are_deleted_and_trees_dropped_beside_writes_that_outdate_snapshots() {
    const PAIRS: u32 = 6_000;
    for seed in 0..4 {
        sim::run(seed, || {
            let device = MemDevice::new(Geometry::new(1 << 20, 96).with_limits(14, 14)).unwrap();
            let slow = Faulty::new(device, seed);
            let db = Db::open_device(Arc::new(slow.clone()), &seeded(MEMORY_BYTES_MIN, seed)).unwrap();
            let tree = db.tree("t").unwrap();
            let pairs = || (0..PAIRS).map(|number| (number.to_be_bytes(), [7; 200]));
            tree.ingest(pairs()).unwrap();
            db.ingest(pairs()).unwrap();
            db.compact(&mut |_, _| {}).unwrap();
            let effect = FaultEffect::Delay(Duration::from_millis(5));
            slow.inject(Fault { call: Some(DeviceCall::Read), zone: None, when: FaultWhen::From(1), effect });
            let is_done = Arc::new(AtomicBool::new(false));
            let writer = {
                let (db, is_done, mut rng) = (db.clone(), Arc::clone(&is_done), Rng::seeded(seed));
                let mut number = move || u32::try_from(rng.below(u64::from(PAIRS))).unwrap();
                spawn("writer", move || {
                    while !is_done.load(Ordering::Acquire) {
                        db.put(number().to_be_bytes(), [8; 200]).unwrap();
                    }
                })
            };
            assert_eq!(tree.first().unwrap().unwrap().0, 0_u32.to_be_bytes());
            assert_eq!(tree.last().unwrap().unwrap().0, (PAIRS - 1).to_be_bytes());
            assert_eq!(tree.delete_range(..(PAIRS / 2).to_be_bytes()).unwrap(), u64::from(PAIRS / 2));
            // Once more over leaves whose pairs are all deleted.
            assert_eq!(tree.delete_range(..(PAIRS / 2).to_be_bytes()).unwrap(), 0);
            assert!(db.drop_tree("t").unwrap());
            is_done.store(true, Ordering::Release);
            writer.join().unwrap();
        });
    }
}

/// It holds up the drop of its own tree, and nothing else.
#[test]
fn other_trees_are_found_made_and_dropped_beside_a_write_that_waits() {
    for seed in 0..20 {
        sim::run(seed, || {
            let db = seeded(MEMORY_BYTES_MIN, seed).open("mem:").unwrap();
            let (busy, old) = (db.tree("busy").unwrap(), db.tree("old").unwrap());
            let (waits, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let writer = {
                let (waits, goes_on) = (Arc::clone(&waits), Arc::clone(&goes_on));
                let wait = move || {
                    waits.store(true, Ordering::Release);
                    while !goes_on.load(Ordering::Acquire) {
                        zonda_rt::sleep(Duration::from_millis(1));
                    }
                };
                spawn("writer", move || {
                    let decide = |_: Option<&[u8]>| {
                        wait();
                        Update::Put(vec![1])
                    };
                    busy.fetch_update("k", decide).unwrap()
                })
            };
            while !waits.load(Ordering::Acquire) {
                zonda_rt::sleep(Duration::from_millis(1));
            }
            let dropper = {
                let db = db.clone();
                spawn("dropper", move || db.drop_tree("busy").unwrap())
            };
            old.put("k", "v").unwrap();
            db.tree("new").unwrap().put("k", "v").unwrap();
            assert!(db.drop_tree("old").unwrap());
            goes_on.store(true, Ordering::Release);
            assert_eq!(writer.join().unwrap(), None);
            assert!(dropper.join().unwrap());
            assert_eq!(db.tree_names().unwrap(), ["new"]);
        });
    }
}

#[test]
fn what_trees_are_called_is_as_durable_as_the_store_says() {
    type Change = fn(&Db) -> bool;
    let changes: [(&str, Change, &[&str]); 2] =
        [("made", |db| db.tree("new").is_ok(), &["new", "old"]), ("dropped", |db| db.drop_tree("old").unwrap(), &[])];
    for (name, change, expected) in changes {
        let power = PowerCut::new(Geometry::new(1 << 20, 96).with_limits(14, 14)).unwrap();
        let options = options().background(false).durability(Durability::Synced);
        let db = Db::open_device(Arc::new(power.clone()), &options).unwrap();
        db.tree("old").unwrap().put("k", "v").unwrap();
        assert!(change(&db), "{name}");
        power.cut();
        drop(db);
        for seed in 0..4 {
            let survivor = Arc::new(power.reopen(&mut Rng::seeded(seed)));
            let db = Db::open_device(survivor, &options).unwrap();
            assert_eq!(db.tree_names().unwrap(), expected, "{name}");
            assert_eq!(db.tree("old").unwrap().get("k").unwrap().is_some(), name == "made");
        }
    }
}

#[test]
fn the_default_tree_is_no_named_one() {
    let db = memory();
    fill(&db, 10);
    assert!(db.tree_names().unwrap().is_empty());
    assert!(!db.drop_tree("").unwrap());
    assert_eq!(db.iter().unwrap().count(), 10);
}

#[test]
fn names_at_the_limit() {
    let db = memory();
    assert!(matches!(db.tree(""), Err(Error::TreeName { bytes: 0, .. })));
    db.tree(&"n".repeat(TREE_NAME_BYTES_MAX)).unwrap();
    let long = "n".repeat(TREE_NAME_BYTES_MAX + 1);
    assert!(matches!(db.tree(&long), Err(Error::TreeName { bytes: 256, bytes_max: 255 })));
}

#[test]
fn ingest_may_use_other_trees_meanwhile() {
    let db = memory();
    let tree = db.tree("numbers").unwrap();
    let items = (0..5000_u32).map(|number| {
        if number % 1000 == 0 {
            db.tree(&format!("side {number}")).unwrap().put("k", "v").unwrap();
        }
        (number.to_be_bytes(), "x")
    });
    assert_eq!(tree.ingest(items).unwrap(), 5000);
    assert_eq!(db.tree_names().unwrap().len(), 6);
}
