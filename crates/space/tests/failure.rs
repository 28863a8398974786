//! Zones that fail: the writer adopts the device's write pointer and seals them; worn and lost zones drop out.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{
    COLD, DATA_BLOCKS, HOT, LOG, META, RELOCATED, VALUES, as_zoned, blocks, byte_at, device, format, geometry,
    new_store, options,
};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, MemDevice, ZoneState};
use zonda_rt::DeviceCall;
use zonda_space::{
    Journal, JournalEntry, JournalFound, Space, SpaceError, Urgency, VictimPolicy, ZoneUse, read_journal,
};

#[test]
fn a_writer_whose_zone_turns_read_only_says_what_is_written() {
    let device = device(14);
    let space = format(&device);
    let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    let first = writer.write(&blocks(1, 2)).unwrap();
    space.add_live(zone, 2 * 4096);
    device.retire(zone, ZoneState::ReadOnly).unwrap();

    let error = writer.write(&blocks(2, 1)).unwrap_err();
    let SpaceError::ZoneFailed { written_up_to, source, .. } = error else { panic!("{error}") };
    assert_eq!((written_up_to, source.kind()), (first + 2, ErrorKind::ReadOnly));
    assert!(writer.is_closed());
    assert!(matches!(writer.write(&blocks(2, 1)), Err(SpaceError::DoesNotFit { remaining: 0, .. })));
    assert_eq!(byte_at(&space, first + 1), 1);
    assert_eq!((space.usage().active, space.usage().lost_zones), (0, 1));

    let victim = space.victim(VictimPolicy::CostBenefit, &|_| true).unwrap();
    assert_eq!((victim.zone, victim.state), (zone, ZoneUse::ReadOnly), "its data is moved first");
    space.sub_live(zone, 2 * 4096);
    space.reset(zone).unwrap();
    assert_eq!(space.victim(VictimPolicy::CostBenefit, &|_| true), None);
    assert_eq!(space.view()[zone.0 as usize].state, ZoneUse::ReadOnly);
}

#[test]
fn a_misplaced_pointer_seals_the_zone_where_the_device_says() {
    let device = device(14);
    let space = format(&device);
    let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let first = writer.write(&blocks(1, 2)).unwrap();
    // Somebody else's block moves the pointer under the writer.
    zonda_device::ZonedDevice::append(device.as_ref(), writer.zone(), &blocks(9, 1)).unwrap();
    let error = writer.write(&blocks(2, 1)).unwrap_err();
    assert!(matches!(error, SpaceError::ZoneFailed { written_up_to, .. } if written_up_to == first + 3), "{error}");
    assert_eq!(space.view()[writer.zone().0 as usize].state, ZoneUse::Sealed);
    assert_eq!(space.usage().active, 0);
}

#[test]
fn a_refused_buffer_leaves_the_writer_as_it_was() {
    let space = format(&device(14));
    let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let buffer = blocks(1, 2);
    assert!(matches!(writer.write(&buffer[8..4104]), Err(SpaceError::Device(_))));
    writer.write(&buffer).unwrap();
}

#[test]
fn a_free_zone_that_is_lost_is_passed_over() {
    let device = device(14);
    let space = format(&device);
    device.retire(zonda_device::ZoneId(1), ZoneState::Offline).unwrap();
    device.retire(zonda_device::ZoneId(2), ZoneState::ReadOnly).unwrap();
    let writer = space.open_zone(COLD, Urgency::Foreground).unwrap();
    assert_eq!(writer.zone().0, 3);
    assert_eq!(space.usage().lost_zones, 2);
    assert_eq!(space.usage().active, 1);
}

#[test]
fn marking_asks_the_device() {
    let device = device(14);
    let space = format(&device);
    let writer = space.open_zone(COLD, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    space.seal(writer);
    assert_eq!(space.mark_bad(zone).unwrap(), ZoneUse::Sealed);
    device.retire(zone, ZoneState::Offline).unwrap();
    assert_eq!(space.mark_bad(zone).unwrap(), ZoneUse::Offline);
    assert_eq!(space.reset(zone).unwrap(), ZoneUse::Offline, "there is nothing left to reset");
}

#[test]
fn a_reset_that_fails_on_a_worn_zone_strikes_it_off() {
    let device = device(14);
    let space = format(&device);
    let writer = space.open_zone(COLD, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    space.seal(writer);
    let _newer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    device.retire(zone, ZoneState::ReadOnly).unwrap();
    assert_eq!(space.reset(zone).unwrap(), ZoneUse::ReadOnly);
    let view = space.view()[zone.0 as usize];
    assert_eq!((view.state, view.stream, view.generation), (ZoneUse::ReadOnly, None, 0), "it holds nothing");
    assert_eq!(space.usage().lost_zones, 1);
}

#[test]
fn a_reset_that_fails_for_another_reason_can_be_tried_again() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let writer = space.open_zone(COLD, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    space.seal(writer);
    let _newer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let effect = FaultEffect::Error(ErrorKind::Media);
    faulty.inject(Fault { call: Some(DeviceCall::Reset), zone: Some(zone), when: FaultWhen::From(1), effect });
    assert!(matches!(space.reset(zone), Err(SpaceError::Device(_))));
    assert_eq!(space.view()[zone.0 as usize].state, ZoneUse::Sealed);
    faulty.heal();
    assert_eq!(space.reset(zone).unwrap(), ZoneUse::Free);
}

#[test]
fn a_journal_goes_on_when_its_old_zone_is_worn() {
    let device = device(14);
    let space = format(&device);
    let mut journal =
        Journal::start(&space, LOG, JournalFound::default(), &mut |snapshot| snapshot.put(b"one")).unwrap();
    let old = space.view().iter().find(|view| view.stream == Some(LOG)).unwrap().zone;
    device.retire(old, ZoneState::Offline).unwrap();
    // Its zone cannot be written; then it cannot be reset.
    journal.snapshot(&mut |snapshot| snapshot.put(b"two")).unwrap();
    journal.append(b"three").unwrap();
    journal.sync().unwrap();
    let of_journal = space.view().iter().filter(|view| view.stream == Some(LOG)).count();
    assert_eq!((of_journal, space.usage().lost_zones), (1, 1));
}

#[expect(clippy::unwrap_used, reason = "a test that fails says where")]
fn read_again(device: Arc<dyn zonda_device::ZonedDevice>) -> Vec<Vec<u8>> {
    let (space, recovered) = Space::open(device, &options()).unwrap();
    let mut said = Vec::new();
    read_journal(&space, LOG, &recovered.zones, &mut |entry| {
        let (JournalEntry::Item(bytes) | JournalEntry::Record(bytes)) = entry;
        said.push(bytes.to_vec());
        Ok(())
    })
    .unwrap();
    said
}

/// With the zone go the snapshot and the records before: to write the last one again elsewhere makes none of them durable.
#[test]
fn a_journal_whose_zone_is_lost_records_nothing_before_a_snapshot() {
    for is_sealed in [false, true] {
        let device = device(14);
        let space = format(&device);
        let mut journal =
            Journal::start(&space, LOG, JournalFound::default(), &mut |snapshot| snapshot.put(b"one")).unwrap();
        let old = space.view().iter().find(|view| view.stream == Some(LOG)).unwrap().zone;
        device.retire(old, ZoneState::Offline).unwrap();
        // Found by a write, or by what seals the zone for a record that does not fit.
        let record = vec![7; if is_sealed { 50_000 } else { 10 }];
        for _ in 0..2 {
            let refused = journal.append(&record).and_then(|()| journal.sync()).unwrap_err();
            assert!(matches!(refused, SpaceError::SnapshotNeeded { zone } if zone == old), "{refused}");
        }
        journal.snapshot(&mut |snapshot| snapshot.put(b"two")).unwrap();
        journal.append(b"three").and_then(|()| journal.sync()).unwrap();
        drop((journal, space));
        assert_eq!(read_again(device), [b"two".to_vec(), b"three".to_vec()]);
    }
}

/// Whichever zone of it is lost, at whichever write or after it was sealed, it is written again before what it replaces is reset.
#[test]
fn a_snapshot_whose_zone_is_lost_is_written_again() {
    let long = vec![2; 50_000];
    let fill = |snapshot: &mut zonda_space::SnapshotWriter<'_>| (0..3).try_for_each(|_| snapshot.put(&long));
    for write in 1..=8 {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
        let mut journal =
            Journal::start(&space, LOG, JournalFound::default(), &mut |snapshot| snapshot.put(b"one")).unwrap();
        let (call, effect) = (Some(DeviceCall::Write), FaultEffect::Retire(ZoneState::Offline));
        faulty.inject(Fault { call, zone: None, when: FaultWhen::Nth(write), effect });
        assert!(journal.snapshot(&mut { fill }).unwrap());
        journal.append(b"three").and_then(|()| journal.sync()).unwrap();
        drop((journal, space));
        assert_eq!(faulty.injected(), 1, "write {write}");
        let found = read_again(Arc::new(faulty));
        assert_eq!(found, [long.clone(), long.clone(), long.clone(), b"three".to_vec()], "write {write}");
    }
}

/// A zone that the snapshot has left is lost while it goes on in another.
#[test]
fn a_snapshot_asks_for_its_zones_before_the_old_ones_are_reset() {
    let device = device(14);
    let space = format(&device);
    let mut journal =
        Journal::start(&space, LOG, JournalFound::default(), &mut |snapshot| snapshot.put(b"one")).unwrap();
    let mut lost = None;
    let mut fill = |snapshot: &mut zonda_space::SnapshotWriter<'_>| {
        (0..3).try_for_each(|_| snapshot.put(&[2; 50_000]))?;
        let zones = space.view().into_iter().filter(|view| view.stream == Some(LOG) && view.state == ZoneUse::Sealed);
        let newest = zones.max_by_key(|view| view.generation).unwrap().zone;
        if lost.is_none() {
            device.retire(*lost.insert(newest), ZoneState::Offline).unwrap();
        }
        Ok(())
    };
    assert!(journal.snapshot(&mut fill).unwrap());
    drop((journal, space));
    assert!(lost.is_some());
    assert_eq!(read_again(device), vec![vec![2; 50_000]; 3]);
}

/// The device answers to `finish` as it should and retires the zone at the reset.
#[test]
fn a_journal_goes_on_when_its_old_zone_wears_out_at_the_reset() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let mut journal =
        Journal::start(&space, LOG, JournalFound::default(), &mut |snapshot| snapshot.put(b"one")).unwrap();
    let old = space.view().iter().find(|view| view.stream == Some(LOG)).unwrap().zone;
    let effect = FaultEffect::Retire(ZoneState::ReadOnly);
    faulty.inject(Fault { call: Some(DeviceCall::Reset), zone: Some(old), when: FaultWhen::Nth(1), effect });
    while space.view().iter().filter(|view| view.stream == Some(LOG)).count() < 2 {
        journal.append(&[0; 4000]).unwrap();
        journal.sync().unwrap();
    }
    journal.snapshot(&mut |snapshot| snapshot.put(b"two")).unwrap();
    journal.append(b"three").unwrap();
    journal.sync().unwrap();
    assert_eq!((space.usage().lost_zones, space.view()[old.0 as usize].stream), (1, None));
}

#[test]
fn a_retired_zone_that_is_lost_stops_nobody() {
    let device = device(14);
    let space = format(&device);
    device.retire(zonda_device::ZoneId(0), ZoneState::ReadOnly).unwrap();
    let writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert_eq!((writer.zone().0, space.usage().lost_zones), (1, 1), "the anchor's zone is struck off");
}

/// A zone for a while, and time at the next opening, is all that it costs.
#[test]
fn a_journal_goes_on_while_the_reset_of_its_old_zone_fails() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let mut journal =
        Journal::start(&space, LOG, JournalFound::default(), &mut |snapshot| snapshot.put(b"one")).unwrap();
    let zones = |space: &Space| -> Vec<_> {
        space.view().iter().filter(|view| view.stream == Some(LOG)).map(|view| view.zone).collect()
    };
    let old = zones(&space)[0];
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Error(ErrorKind::Media));
    faulty.inject(Fault { call, zone: Some(old), when: FaultWhen::From(1), effect });
    while zones(&space).len() < 2 {
        journal.append(&[0; 4000]).unwrap();
        journal.sync().unwrap();
    }
    journal.snapshot(&mut |snapshot| snapshot.put(b"two")).unwrap();
    journal.append(b"three").unwrap();
    journal.sync().unwrap();
    assert!(zones(&space).contains(&old) && space.live_bytes(old) > 0, "nobody else takes it for dead");
    drop((journal, space));

    let (space, recovered) = Space::open(Arc::new(faulty.clone()), &options()).unwrap();
    let mut said = Vec::new();
    let found = read_journal(&space, LOG, &recovered.zones, &mut |entry| {
        let (JournalEntry::Item(bytes) | JournalEntry::Record(bytes)) = entry;
        said.push(bytes.to_vec());
        Ok(())
    });
    assert_eq!(said, [b"two".to_vec(), b"three".to_vec()]);
    faulty.heal();
    let journal = Journal::start(&space, LOG, found.unwrap(), &mut |snapshot| snapshot.put(b"four")).unwrap();
    assert!(zones(&space).len() == 1 && !zones(&space).contains(&old));
    drop(journal);
}

#[test]
fn a_zone_that_was_not_finished_is_finished_when_its_token_is_needed() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let writer = space.open_zone(LOG, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    let state = |space: &Space| space.view()[zone.0 as usize].state;
    let (call, effect) = (Some(DeviceCall::Finish), FaultEffect::Error(ErrorKind::Media));
    faulty.inject(Fault { call, zone: Some(zone), when: FaultWhen::From(1), effect });
    space.seal(writer);
    assert_eq!((state(&space), space.usage().active), (ZoneUse::Partial, 1));
    // Its stream has another, and tries again only when the device's tokens are all held.
    let _next = space.open_zone(LOG, Urgency::Foreground).unwrap();
    assert_eq!((faulty.injected(), space.usage().active), (1, 2));
    let streams = [META, META, HOT, HOT, HOT, HOT, VALUES, COLD, COLD, RELOCATED, RELOCATED];
    let _others: Vec<_> = streams.map(|stream| space.open_zone(stream, Urgency::Reserve).unwrap()).into();
    assert_eq!((space.usage().active, space.usage().active_max), (13, 14));
    faulty.heal();
    assert!(matches!(space.open_zone(LOG, Urgency::Reserve), Err(SpaceError::StreamFull { held: 1, .. })));
    assert_eq!((state(&space), space.usage().active), (ZoneUse::Sealed, 12));
}

/// At four active zones each is promised to a stream: one that is not finished costs another stream its own.
#[test]
fn who_finds_all_tokens_held_hears_which_zone_is_not_finished() {
    let faulty = Faulty::new(MemDevice::new(geometry(4)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let zone = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let (call, effect) = (Some(DeviceCall::Finish), FaultEffect::Error(ErrorKind::Media));
    faulty.inject(Fault { call, zone: Some(zone.zone()), when: FaultWhen::From(1), effect });
    space.seal(zone);
    let _open = [LOG, META, META].map(|stream| space.open_zone(stream, Urgency::Foreground).unwrap());
    assert!(matches!(space.open_zone(HOT, Urgency::Foreground), Err(SpaceError::Device(_))));
    assert_eq!(space.usage().active, 4);
    faulty.heal();
    let _next = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert_eq!(space.usage().active, 4);
}

/// In virtual time, so that the other thread finishes as long as this one looks.
#[test]
fn a_zone_that_another_thread_finishes_is_reset_later() {
    zonda_rt::sim::run(1, || {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let space = Arc::new(Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap());
        let writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
        let zone = writer.zone();
        let state = || space.view()[zone.0 as usize].state;
        // A newer header, so that the zone is not kept for its generation.
        let _newer = space.open_zone(COLD, Urgency::Foreground).unwrap();
        let (call, effect) = (Some(DeviceCall::Finish), FaultEffect::Delay(Duration::from_millis(200)));
        faulty.inject(Fault { call, zone: Some(zone), when: FaultWhen::Nth(1), effect });
        let sealing = Arc::clone(&space);
        let sealer = zonda_rt::spawn("sealer", move || sealing.seal(writer));
        zonda_rt::sleep(Duration::from_millis(100));
        assert_eq!(state(), ZoneUse::Changing);
        let error = space.reset(zone).unwrap_err();
        assert!(error.is_changing(), "{error}");
        sealer.join().unwrap();
        assert_eq!(state(), ZoneUse::Sealed);
        assert_eq!(space.reset(zone).unwrap(), ZoneUse::Free);
        assert!(!space.reset(zone).unwrap_err().is_changing(), "a free zone stays free");
    });
}

#[test]
fn a_free_zone_whose_header_cannot_be_written_is_passed_over() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let free = space.view().iter().find(|view| view.state == ZoneUse::Free).unwrap().zone;
    let effect = FaultEffect::Error(ErrorKind::Media);
    faulty.inject(Fault { call: Some(DeviceCall::Write), zone: Some(free), when: FaultWhen::From(1), effect });
    let first = space.open_zone(COLD, Urgency::Foreground).unwrap();
    let second = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert_ne!(first.zone(), free);
    assert_ne!(second.zone(), free);
    assert_eq!(space.usage().active, 2, "the zone that failed holds no token");
}

#[test]
fn a_zone_that_can_be_neither_written_nor_reset_holds_up_nobody() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let free = space.view().iter().find(|view| view.state == ZoneUse::Free).unwrap().zone;
    for call in [DeviceCall::Write, DeviceCall::Reset] {
        let effect = FaultEffect::Error(ErrorKind::Media);
        faulty.inject(Fault { call: Some(call), zone: Some(free), when: FaultWhen::From(1), effect });
    }
    assert_ne!(space.open_zone(COLD, Urgency::Foreground).unwrap().zone(), free);
    assert_ne!(space.open_zone(HOT, Urgency::Foreground).unwrap().zone(), free);
}

#[test]
fn a_retired_zone_that_cannot_be_reset_holds_up_nobody() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let writer = space.open_zone(COLD, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    space.seal(writer);
    assert_eq!(space.reset(zone).unwrap(), ZoneUse::Retired);
    let effect = FaultEffect::Error(ErrorKind::Media);
    faulty.inject(Fault { call: Some(DeviceCall::Reset), zone: Some(zone), when: FaultWhen::From(1), effect });
    space.seal(space.open_zone(HOT, Urgency::Foreground).unwrap());
    faulty.heal();
    space.seal(space.open_zone(HOT, Urgency::Foreground).unwrap());
    assert_eq!(space.view()[zone.0 as usize].state, ZoneUse::Free);
}

/// The others are as they were: whoever comes next tries them.
#[test]
fn at_most_eight_zones_are_tried_in_one_opening() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let free = space.usage().free_zones;
    let fault = |when| {
        let effect = FaultEffect::Error(ErrorKind::Media);
        Fault { call: Some(DeviceCall::Write), zone: None, when, effect }
    };
    faulty.inject(fault(FaultWhen::From(1)));
    assert!(matches!(space.open_zone(COLD, Urgency::Foreground), Err(SpaceError::Device(_))));
    assert_eq!((faulty.injected(), space.usage().free_zones, space.usage().active), (8, free, 0));
    faulty.heal();
    let tried: Vec<_> = space.view().iter().filter(|view| view.state == ZoneUse::Free).map(|view| view.zone).collect();
    let writer = space.open_zone(COLD, Urgency::Foreground).unwrap();
    assert_eq!(writer.zone(), tried[8], "those that failed are taken last");
}

/// A header that was damaged in a zone that the device still counts as active: it is finished for its token, if the device does that.
#[test]
fn a_damaged_zone_that_is_active_and_not_finished_holds_up_nobody() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let mut writer = space.open_zone(COLD, Urgency::Foreground).unwrap();
    writer.write(&blocks(1, 2)).unwrap();
    let zone = writer.zone();
    space.seal(space.open_zone(HOT, Urgency::Foreground).unwrap());
    drop((writer, space));
    let fault = |call, when| {
        let effect = FaultEffect::Error(ErrorKind::Media);
        faulty.inject(Fault { call: Some(call), zone: Some(zone), when, effect });
    };
    fault(DeviceCall::Read, FaultWhen::Nth(1));
    let (space, recovered) = Space::open(Arc::new(faulty.clone()), &options()).unwrap();
    assert_eq!(recovered.damaged.iter().map(|damaged| damaged.zone).collect::<Vec<_>>(), [zone]);
    assert_eq!(space.usage().active, 1);
    fault(DeviceCall::Finish, FaultWhen::From(1));
    let _first = space.open_zone(COLD, Urgency::Foreground).unwrap();
    let _second = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert_eq!(space.usage().active, 3, "it keeps its token");
    faulty.heal();
    let _third = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert_eq!((space.usage().active, space.usage().damaged_zones), (3, 1), "it gave it back");
}

/// All of the zone is written: nobody has to write it again, and its token is given back when it is needed.
#[test]
fn a_last_write_is_no_failure_where_the_device_does_not_report_the_zone() {
    for finishes in [true, false] {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
        let mut writer = space.open_zone(LOG, Urgency::Foreground).unwrap();
        let zone = writer.zone();
        let calls = if finishes { vec![DeviceCall::Report] } else { vec![DeviceCall::Report, DeviceCall::Finish] };
        for call in calls {
            let effect = FaultEffect::Error(ErrorKind::Media);
            faulty.inject(Fault { call: Some(call), zone: None, when: FaultWhen::From(1), effect });
        }
        let first = writer.write(&blocks(7, DATA_BLOCKS)).unwrap();
        assert!(writer.is_closed() && faulty.injected() > 0);
        faulty.heal();
        let (state, active) = if finishes { (ZoneUse::Sealed, 0) } else { (ZoneUse::Partial, 1) };
        assert_eq!((space.view()[zone.0 as usize].state, space.usage().active), (state, active));
        let _next = space.open_zone(LOG, Urgency::Foreground).unwrap();
        assert!(space.finish_unfinished().is_none());
        assert_eq!((space.view()[zone.0 as usize].state, space.usage().active), (ZoneUse::Sealed, 1));
        assert!((first..first + DATA_BLOCKS).all(|block| byte_at(&space, block) == 7));
    }
}

/// A stream of one zone: what it could not finish is not its zone, before and after somebody tried to reset that.
#[test]
fn a_zone_that_is_neither_finished_nor_reset_is_not_counted_against_its_stream() {
    for is_newest in [true, false] {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
        let writer = space.open_zone(LOG, Urgency::Foreground).unwrap();
        let zone = writer.zone();
        for call in [DeviceCall::Finish, DeviceCall::Reset] {
            let effect = FaultEffect::Error(ErrorKind::Media);
            faulty.inject(Fault { call: Some(call), zone: Some(zone), when: FaultWhen::From(1), effect });
        }
        space.seal(writer);
        // The newest is kept for its generation, and is finished for that.
        let _newer = (!is_newest).then(|| space.open_zone(HOT, Urgency::Foreground).unwrap());
        assert!(matches!(space.reset(zone), Err(SpaceError::Device(_))));
        assert_eq!(space.view()[zone.0 as usize].state, ZoneUse::Partial);
        let _next = space.open_zone(LOG, Urgency::Foreground).unwrap();
        faulty.heal();
        assert!(space.finish_unfinished().is_none());
        assert_eq!(space.view()[zone.0 as usize].state, ZoneUse::Sealed);
        assert_eq!(space.reset(zone).unwrap(), ZoneUse::Free);
    }
}

/// What was in a lost zone is not written again elsewhere.
#[test]
fn what_is_offline_takes_no_room() {
    let device = device(14);
    let space = format(&device);
    for (state, live) in [(ZoneState::Offline, 0), (ZoneState::ReadOnly, 2)] {
        let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
        writer.write(&blocks(1, 2)).unwrap();
        space.add_live(writer.zone(), 2 * 4096);
        device.retire(writer.zone(), state).unwrap();
        assert!(matches!(writer.write(&blocks(2, 1)), Err(SpaceError::ZoneFailed { .. })));
        assert_eq!((space.usage().live_bytes, space.live_bytes(writer.zone())), (live * 4096, 2 * 4096), "{state:?}");
    }
}

/// Whoever finishes damaged zones for their tokens hears that one is lost: the device counts it no more.
#[test]
fn a_damaged_zone_that_is_lost_holds_no_token() {
    for state in [ZoneState::ReadOnly, ZoneState::Offline] {
        let device = device(14);
        drop(format(&device));
        let damaged = zonda_device::ZoneId(5);
        // Where a header should be.
        zonda_device::ZonedDevice::append(device.as_ref(), damaged, &blocks(9, 2)).unwrap();
        let (space, recovered) = Space::open(as_zoned(&device), &options()).unwrap();
        assert_eq!((recovered.damaged.len(), space.usage().active), (1, 1));
        device.retire(damaged, state).unwrap();
        let _writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
        let usage = space.usage();
        assert_eq!((usage.active, usage.lost_zones, usage.damaged_zones), (1, 1, 0), "{state:?}");
    }
}
