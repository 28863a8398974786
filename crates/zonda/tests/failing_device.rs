//! A device that fails: the store says what happened, refuses further writes and still reads; reopened it has what was synced.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::{collections::BTreeSet, sync::Arc};

use common::{fill, options};
use zonda::{Batch, Db, Durability, Error};
use zonda_device::{
    ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemBlockDevice, MemDevice, ZoneId, ZoneState,
    ZonedDevice,
};
use zonda_rt::{DeviceCall, Rng};

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

/// What was acknowledged without a sync is gone, so closing must not say that all is well.
#[test]
fn closing_a_store_that_has_failed_says_so_to_everybody() {
    for call in [DeviceCall::Write, DeviceCall::Flush] {
        let (device, db) = store();
        fill(&db, 100);
        fail(&device, call, ErrorKind::Media);
        assert!(db.put_with("after", "x", Durability::Synced).is_err());
        let closed = [db.clone().close(), db.close()];
        assert!(closed.iter().all(|closed| matches!(closed, Err(Error::Poisoned { .. }))), "{call:?}: {closed:?}");
    }
    let (device, db) = store();
    fill(&db, 100);
    fail(&device, DeviceCall::Write, ErrorKind::Media);
    let closed = [db.clone().close(), db.close()];
    assert!(closed.iter().all(Result::is_err), "a checkpoint that failed: {closed:?}");
    let (_, db) = store();
    fill(&db, 100);
    assert!(db.clone().close().is_ok() && db.clone().close().is_ok(), "once it is done it is");
    assert!(matches!(db.get("0042"), Err(Error::Closed)));
}

/// What lay in it is in memory still: a checkpoint is taken before the next sync is acknowledged.
#[test]
fn a_zone_of_the_log_that_goes_offline_takes_nothing_with_it() {
    let device = Faulty::new(MemDevice::new(Geometry::new(1 << 20, 64).with_limits(14, 14)).unwrap(), 1);
    let options = options().background(false);
    let db = Db::open_device(Arc::new(device.clone()), &options).unwrap();
    fill(&db, 100);
    db.sync().unwrap();
    let written = || -> Vec<_> {
        let zones = device.report(ZoneId(0), 64).unwrap();
        zones.into_iter().map(|zone| (zone.zone, zone.write_pointer)).collect()
    };
    let before = written();
    db.put_with("synced", "x", Durability::Synced).unwrap();
    let grown: Vec<_> = written().iter().zip(&before).filter(|(now, then)| now != then).map(|(now, _)| now.0).collect();
    assert_eq!(grown.len(), 1, "the log's");
    let effect = FaultEffect::Retire(ZoneState::Offline);
    device.inject(Fault { call: Some(DeviceCall::Write), zone: Some(grown[0]), when: FaultWhen::Nth(1), effect });
    db.put_with("after", "x", Durability::Synced).unwrap();
    // The process dies.
    std::mem::forget(db);
    let db = Db::open_device(Arc::new(device.clone()), &options).unwrap();
    assert_eq!(db.iter().unwrap().count(), 102);
    assert_eq!(device.report(grown[0], 1).unwrap()[0].state, ZoneState::Offline);
    db.put_with("later", "x", Durability::Synced).unwrap();
    // A zone that fails at its first chunk has taken nothing, and is nobody's concern: the log's, its header, the next.
    for nth in [1, 3] {
        let effect = FaultEffect::Retire(ZoneState::Offline);
        device.inject(Fault { call: Some(DeviceCall::Write), zone: None, when: FaultWhen::Nth(nth), effect });
    }
    db.put_with("last", "x", Durability::Synced).unwrap();
    let checkpoints = db.stats().unwrap().tree.checkpoints;
    db.put_with("very last", "x", Durability::Synced).unwrap();
    assert_eq!(db.stats().unwrap().tree.checkpoints, checkpoints, "nothing is lost any more");
    assert_eq!(device.injected(), 3);
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

/// Reads that fail, one in so many: of pages, of what reclaim walks, of values. Whoever needs what is not read hears of it, and nobody
/// else: no write is refused for it, and all of it is there when the device reads again.
fn reads_that_fail_stop_nobody_else(db: &Db, break_reads: &dyn Fn(), heal: &dyn Fn()) {
    let mut rng = Rng::seeded(7);
    let mut model = vec![None; 6_000];
    let key = |at: usize| format!("{at:05}");
    let value = |round: usize, at: usize| {
        let byte = u8::try_from((round + at) % 251).unwrap();
        vec![byte; if at.is_multiple_of(7) { 3_000 } else { 300 }]
    };
    let mut put = |round: usize, at: usize, must: bool| match db.put(key(at), value(round, at)) {
        Ok(()) => model[at] = Some(round),
        Err(Error::Damaged { .. }) if !must => {}
        Err(error) => panic!("round {round}, key {at}: {error}"),
    };
    (0..6_000).for_each(|at| put(0, at, true));
    break_reads();
    let mut unread = 0;
    for round in 1..12 {
        for _ in 0..6_000 {
            put(round, usize::try_from(rng.below(6_000)).unwrap(), false);
        }
        for _ in 0..500 {
            match db.get(key(usize::try_from(rng.below(6_000)).unwrap())) {
                Ok(found) => assert!(found.is_some()),
                Err(Error::Damaged { .. }) => unread += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
        }
    }
    heal();
    assert!(unread > 0, "no read failed");
    for (at, round) in model.iter().enumerate() {
        let found = db.get(key(at)).unwrap();
        assert!(found == Some(value(round.unwrap(), at)), "key {at} of round {round:?}");
    }
    db.check(&mut |_, _| {}, &mut |finding| panic!("{finding}")).unwrap();
}

fn rarely(kind: ErrorKind) -> Fault {
    let effect = FaultEffect::Error(kind);
    Fault { call: Some(DeviceCall::Read), zone: None, when: FaultWhen::Chance(0.03), effect }
}

#[test]
fn what_the_device_does_not_read_stops_only_who_needs_it() {
    for kind in [ErrorKind::Media, ErrorKind::Io] {
        let (device, db) = store();
        reads_that_fail_stop_nobody_else(&db, &|| device.inject(rarely(kind)), &|| device.heal());
        assert!(db.stats().unwrap().space.zones_reset > 20, "reclaim was at work");
        let device = Faulty::new(MemBlockDevice::new(4096, 12_288).unwrap(), 1);
        let db = Db::open_block_devices(Arc::new(device.clone()), None, &options()).unwrap();
        reads_that_fail_stop_nobody_else(&db, &|| device.inject(rarely(kind)), &|| device.heal());
    }
}

/// A batch that overflows its leaf, whose merges find that the device does not write: readers see all of it, or nothing, or hear that the
/// store has stopped; and so does whoever opens it again.
#[test]
fn a_batch_within_which_merges_fail_takes_effect_as_a_whole() {
    let (mut refused, mut unread) = (0, 0);
    for records in [40, 100, 150, 300, 900] {
        let (device, db) = store();
        fill(&db, 100);
        db.checkpoint().unwrap();
        fail(&device, DeviceCall::Write, ErrorKind::Io);
        let key = |n: u32| format!("0042-{n:03}");
        for round in 0..8_u8 {
            let mut batch = Batch::new();
            for n in 0..records {
                batch.put(key(n), [round; 1_000]);
            }
            let written = db.write(batch);
            refused += u32::from(written.is_err());
            let (mut seen, mut failed) = (0, 0);
            for n in 0..records {
                match db.get(key(n)) {
                    Ok(value) => seen += u32::from(value.is_some_and(|value| value == [round; 1_000])),
                    Err(Error::Poisoned { .. }) => failed += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            let is_whole = failed == records || failed == 0 && (seen == 0 || seen == records);
            assert!(is_whole, "{records} records, round {round}, {written:?}: {seen} of the batch, {failed} refused");
            unread += failed;
        }
        drop(db);
        device.heal();
        let db = Db::open_device(Arc::new(device), &options()).unwrap();
        let rounds: BTreeSet<_> = (0..records).map(|n| db.get(key(n)).unwrap().map(|value| value[0])).collect();
        assert_eq!(rounds.len(), 1, "{records} records: {rounds:?}");
    }
    assert!(unread > 0, "no batch was left half in memory");
    assert!(refused > 0, "no merge failed");
}
