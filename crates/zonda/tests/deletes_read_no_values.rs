//! Deleting a range or a tree looks at keys only: large values are neither read nor copied.
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
