//! Deleting a range or a tree, keys alone and whether a key is there: large values are neither read nor copied.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::sync::Arc;

use common::options;
use zonda::Db;
use zonda_device::{Geometry, MemDevice, ZonedDevice};

const VALUES: u32 = 60;
const VALUE_BYTES: usize = 200_000;

fn store() -> (Arc<MemDevice>, Db) {
    let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 96).with_limits(14, 14)).unwrap());
    let db = Db::open_device(Arc::clone(&device) as Arc<dyn ZonedDevice>, &options()).unwrap();
    (device, db)
}

/// Bytes read from the device while `work` runs.
fn read_bytes(device: &MemDevice, work: impl FnOnce()) -> u64 {
    let before = device.counters().read_bytes;
    work();
    device.counters().read_bytes - before
}

#[test]
fn of_a_range() {
    let (device, db) = store();
    for number in 0..VALUES {
        db.put(number.to_be_bytes(), vec![7; VALUE_BYTES]).unwrap();
    }
    let (low, high) = (10_u32.to_be_bytes(), 50_u32.to_be_bytes());
    let read = read_bytes(&device, || assert_eq!(db.delete_range(low..high).unwrap(), 40));
    assert!(read < VALUE_BYTES as u64, "{read} bytes read to delete 40 values of {VALUE_BYTES}");
    assert_eq!(db.iter().unwrap().count(), 20);
}

#[test]
fn of_keys_alone() {
    let (device, db) = store();
    for number in 0..VALUES {
        db.put(number.to_be_bytes(), vec![7; VALUE_BYTES]).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let read = read_bytes(&device, || {
        for number in 0..VALUES {
            assert!(db.contains_key(number.to_be_bytes()).unwrap());
            assert!(snapshot.contains_key(number.to_be_bytes()).unwrap());
        }
        assert!(!db.contains_key("none").unwrap() && !snapshot.contains_key("none").unwrap());
        let keys: Vec<_> = db.iter().unwrap().keys().map(Result::unwrap).collect();
        assert_eq!(keys, (0..VALUES).map(|number| number.to_be_bytes()).collect::<Vec<_>>());
        let mut both = snapshot.range(5_u32.to_be_bytes()..9_u32.to_be_bytes()).unwrap().keys();
        let ends = (both.next().unwrap().unwrap(), both.next_back().unwrap().unwrap());
        assert_eq!((ends, both.count()), ((vec![0, 0, 0, 5], vec![0, 0, 0, 8]), 2));
    });
    assert!(read < VALUE_BYTES as u64, "{read} bytes read to look at keys of values of {VALUE_BYTES}");
}

/// Leaves that were begun with values go on without.
#[test]
fn of_the_keys_that_are_left() {
    let (device, db) = store();
    for number in 0..VALUES {
        db.put(number.to_be_bytes(), vec![7; VALUE_BYTES]).unwrap();
    }
    let mut range = db.iter().unwrap();
    assert_eq!(range.next().unwrap().unwrap().1, vec![7; VALUE_BYTES]);
    assert_eq!(range.next_back().unwrap().unwrap().1, vec![7; VALUE_BYTES]);
    let read = read_bytes(&device, || assert_eq!(range.keys().map(Result::unwrap).count(), VALUES as usize - 2));
    assert!(read < VALUE_BYTES as u64, "{read} bytes read to look at keys of values of {VALUE_BYTES}");
}

#[test]
fn of_a_tree() {
    let (device, db) = store();
    let tree = db.tree("large").unwrap();
    for number in 0..VALUES {
        tree.put(number.to_be_bytes(), vec![7; VALUE_BYTES]).unwrap();
    }
    drop(tree);
    let read = read_bytes(&device, || assert!(db.drop_tree("large").unwrap()));
    assert!(read < VALUE_BYTES as u64, "{read} bytes read to drop {VALUES} values of {VALUE_BYTES}");
}
