//! A device that fails: the store says what happened, refuses further writes and still reads; reopened it has what was synced.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::sync::Arc;

use common::{fill, options};
use zonda::{Db, Durability, Error};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, ZonedDevice};
use zonda_rt::DeviceCall;

fn store() -> (Faulty<MemDevice>, Db) {
    let geometry = Geometry::new(1 << 20, 64).with_limits(14, 14);
    let device = Faulty::new(MemDevice::new(geometry).unwrap(), 1);
    let db = Db::open_device(Arc::new(device.clone()) as Arc<dyn ZonedDevice>, &options()).unwrap();
    (device, db)
}

fn fail(device: &Faulty<MemDevice>, call: DeviceCall, kind: ErrorKind) {
    device.inject(Fault { call: Some(call), zone: None, when: FaultWhen::From(1), effect: FaultEffect::Error(kind) });
}

#[test]
fn a_failed_sync_poisons_visibly_and_loses_nothing_that_was_synced() {
    let (device, db) = store();
    fill(&db, 100);
    db.sync().unwrap();
    fail(&device, DeviceCall::Flush, ErrorKind::Media);
    assert!(db.put_with("after", "x", Durability::Synced).is_err());
    let refused = db.put("later", "x").unwrap_err();
    assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
    assert!(refused.to_string().contains("open it again"), "{refused}");
    assert_eq!(db.get("0042").unwrap(), Some(b"42".to_vec()));
    device.heal();
    assert!(matches!(db.put("later", "x"), Err(Error::Poisoned { .. })), "a poisoned store stays so");
    drop(db);
    let db = Db::open_device(Arc::new(device), &options()).unwrap();
    assert!(db.iter().unwrap().count() >= 100);
    assert_eq!(db.get("later").unwrap(), None);
    db.put("later", "x").unwrap();
}

#[test]
fn a_full_file_system_is_named() {
    let (device, db) = store();
    fill(&db, 100);
    db.sync().unwrap();
    fail(&device, DeviceCall::Write, ErrorKind::NoSpaceOnHost);
    let error = (0..100).find_map(|_| db.put_with("k", "v", Durability::Synced).err()).unwrap();
    assert!(!error.to_string().is_empty());
    assert_eq!(db.get("0042").unwrap(), Some(b"42".to_vec()));
    device.heal();
    drop(db);
    assert_eq!(Db::open_device(Arc::new(device), &options()).unwrap().get("0042").unwrap(), Some(b"42".to_vec()));
}
