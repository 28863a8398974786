//! The journal: what was synced comes back, from the newest complete snapshot on.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{COLD, as_zoned, device, format, geometry, new_store, options};
use zonda_device::{
    CrashModel, CutAt, DeviceError, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, MemDevice, PowerCut, ZoneId,
    ZoneState, ZonedDevice,
};
use zonda_rt::{DeviceCall, Rng};
use zonda_space::{
    ChunkHeader, ChunkKind, Journal, JournalEntry, JournalFound, SnapshotWriter, Space, SpaceError, SpaceOptions,
    StreamId, StreamSpec, Urgency, read_journal,
};

/// The stream of the journal in the tests' options: may hold two zones.
const JOURNAL: StreamId = StreamId(1);

/// What reading delivered.
#[derive(Debug, Default, PartialEq)]
struct Said {
    items: Vec<Vec<u8>>,
    records: Vec<Vec<u8>>,
}

fn read(device: &Arc<MemDevice>) -> (Space, JournalFound, Said) {
    try_read(as_zoned(device)).unwrap()
}

fn try_read(device: Arc<dyn ZonedDevice>) -> Result<(Space, JournalFound, Said), SpaceError> {
    let (space, recovered) = Space::open(device, &options())?;
    let mut said = Said::default();
    let found = read_journal(&space, JOURNAL, &recovered.zones, &mut |entry| {
        match entry {
            JournalEntry::Item(item) => said.items.push(item.to_vec()),
            JournalEntry::Record(record) => said.records.push(record.to_vec()),
        }
        Ok(())
    })?;
    Ok((space, found, said))
}

fn start(space: &Space, items: &[&[u8]]) -> Journal {
    start_after(space, JournalFound::default(), items)
}

fn start_after(space: &Space, found: JournalFound, items: &[&[u8]]) -> Journal {
    Journal::start(space, JOURNAL, found, &mut |snapshot| items.iter().try_for_each(|item| snapshot.put(item))).unwrap()
}

fn said(items: &[&[u8]], records: &[&[u8]]) -> Said {
    let owned = |list: &[&[u8]]| list.iter().map(|entry| entry.to_vec()).collect();
    Said { items: owned(items), records: owned(records) }
}

/// It is the removals that are recorded there which give space back.
#[test]
fn a_journal_that_finds_no_zone_for_a_snapshot_goes_on_in_the_one_it_has() {
    let device = device(14);
    let space = format(&device);
    let item = vec![1; 9_000];
    let mut journal = start(&space, &[&item]);
    let mut taken = Vec::new();
    while let Ok(writer) = space.open_zone(COLD, Urgency::Reserve) {
        taken.push(writer.zone());
        space.seal(writer);
    }
    assert_eq!(space.usage().free_zones, 0);
    let snapshot = |journal: &mut Journal| journal.snapshot(&mut |snapshot| snapshot.put(&item));
    // Zones of 15 blocks: two more fit, but not as surely as a snapshot wants.
    for record in [b"a", b"b", b"c", b"d"] {
        journal.append(record).unwrap();
        journal.sync().unwrap();
    }
    for record in [b"e", b"f"] {
        assert!(matches!(snapshot(&mut journal), Err(SpaceError::NoSpace { .. })));
        journal.append(record).unwrap();
        journal.sync().unwrap();
    }
    assert!(matches!(journal.append(&[0; 50_000]).and_then(|()| journal.sync()), Err(SpaceError::NoSpace { .. })));
    let (_, _, found) = read(&device);
    assert_eq!(found.records, [b"a", b"b", b"c", b"d", b"e", b"f"].map(|record| record.to_vec()));
    for &zone in &taken[..2] {
        space.reset(zone).unwrap();
    }
    snapshot(&mut journal).unwrap();
    assert_eq!(read(&device).2.items, [vec![1; 9_000]]);
}

fn reads_fail(faulty: &Faulty<MemDevice>, zone: ZoneId, when: FaultWhen) {
    let effect = FaultEffect::Error(ErrorKind::Media);
    faulty.inject(Fault { call: Some(DeviceCall::Read), zone: Some(zone), when, effect });
}

/// What is not delivered because of it may be the last that was synced.
#[test]
fn a_block_that_cannot_be_read_is_named_and_not_taken_for_the_end() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let mut journal = start(&space, &[b"one"]);
    for record in [b"a", b"b", b"c"] {
        journal.append(record).unwrap();
        journal.sync().unwrap();
    }
    let zone = space.view().iter().find(|view| view.stream == Some(JOURNAL)).unwrap().zone;
    let first = space.first_block(zone);
    drop((journal, space));
    for whole in 0..6 {
        // After the header all blocks at once; then one by one; then those behind what is whole.
        reads_fail(&faulty, zone, FaultWhen::Nth(2));
        reads_fail(&faulty, zone, FaultWhen::From(3 + whole));
        let error = try_read(Arc::new(faulty.clone())).unwrap_err();
        let is_named = matches!(error, SpaceError::JournalUnreadable { zone: of, block, .. } if of == zone && block == first + 1 + whole);
        assert!(is_named, "{whole}: {error}");
        faulty.heal();
    }
    assert_eq!(try_read(Arc::new(faulty)).unwrap().2, said(&[b"one"], &[b"a", b"b", b"c"]));
}

#[test]
fn what_cannot_be_read_before_the_zone_of_the_snapshot_is_passed_over() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let mut journal = start(&space, &[b"one"]);
    let zones = |space: &Space| -> Vec<ZoneId> {
        space.view().iter().filter(|view| view.stream == Some(JOURNAL)).map(|view| view.zone).collect()
    };
    let old = zones(&space)[0];
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Error(ErrorKind::Media));
    faulty.inject(Fault { call, zone: Some(old), when: FaultWhen::From(1), effect });
    while zones(&space).len() < 2 {
        journal.append(&[0; 4000]).unwrap();
        journal.sync().unwrap();
    }
    journal.snapshot(&mut |snapshot| snapshot.put(b"two")).unwrap();
    assert!(zones(&space).contains(&old));
    drop((journal, space));
    reads_fail(&faulty, old, FaultWhen::From(2));
    assert_eq!(try_read(Arc::new(faulty)).unwrap().2, said(&[b"two"], &[]));
}

#[test]
fn snapshot_and_records_come_back_in_order() {
    let device = device(14);
    let mut journal = start(&format(&device), &[b"one", b"", b"three"]);
    for record in [&b"a"[..], b"bb", b""] {
        journal.append(record).unwrap();
    }
    journal.sync().unwrap();
    journal.append(b"c").unwrap();
    journal.sync().unwrap();
    journal.append(b"never synced").unwrap();
    drop(journal);
    let (_, found, delivered) = read(&device);
    assert_eq!(delivered, said(&[b"one", b"", b"three"], &[b"a", b"bb", b"", b"c"]));
    assert!(found.has_snapshot && found.ignored_chunks == 0);
}

#[test]
fn a_new_snapshot_replaces_everything_and_frees_the_old_zones() {
    let device = device(14);
    let space = format(&device);
    let mut journal = start(&space, &[b"old"]);
    for _ in 0..40 {
        journal.append(&[7; 4000]).unwrap();
        journal.sync().unwrap();
    }
    let before = space.usage().free_zones;
    journal.snapshot(&mut |snapshot| snapshot.put(b"new")).unwrap();
    assert!(space.usage().free_zones > before);
    assert_eq!((journal.snapshot_bytes(), journal.bytes_since_snapshot()), (3 * 4096, 0));
    journal.append(b"after").unwrap();
    journal.sync().unwrap();
    assert_eq!(read(&device).2, said(&[b"new"], &[b"after"]));
}

#[test]
fn a_snapshot_goes_on_in_the_open_zone_while_it_has_room() {
    let device = device(14);
    let space = format(&device);
    let mut journal = start(&space, &[b"old"]);
    let journal_zones = |space: &Space| space.view().iter().filter(|view| view.stream == Some(JOURNAL)).count();
    journal.append(b"before").unwrap();
    let before = (space.usage().free_zones, space.usage().zones_reset);
    journal.snapshot(&mut |snapshot| snapshot.put(b"new")).unwrap();
    assert_eq!((space.usage().free_zones, space.usage().zones_reset), before, "no zone was finished or reset for it");
    journal.append(b"after").unwrap();
    journal.sync().unwrap();
    assert_eq!(read(&device).2, said(&[b"new"], &[b"after"]));
    // However often, it is two zones at most, and what counts is the last.
    for round in 0..50_u8 {
        journal.snapshot(&mut |snapshot| snapshot.put(&[round])).unwrap();
        assert!(journal_zones(&space) <= 2);
    }
    assert!(space.usage().zones_reset > before.1);
    assert_eq!(read(&device).2, said(&[&[49]], &[]));
}

#[test]
fn starting_over_keeps_the_old_journal_until_the_new_snapshot_is_there() {
    let device = device(14);
    let mut journal = start(&format(&device), &[b"first"]);
    journal.append(b"change").unwrap();
    journal.sync().unwrap();
    drop(journal);

    let (space, found, _) = read(&device);
    let error = Journal::start(&space, JOURNAL, found, &mut |snapshot| {
        snapshot.put(b"half")?;
        Err(SpaceError::JournalFailed)
    });
    assert!(error.is_err());
    assert_eq!(read(&device).2, said(&[b"first"], &[b"change"]));

    let (space, found, _) = read(&device);
    drop(start_after(&space, found, &[b"second"]));
    let (space, found, delivered) = read(&device);
    assert_eq!(delivered, said(&[b"second"], &[]));
    assert!(space.usage().free_zones >= 14, "{:?} and {found:?}", space.usage());
}

#[test]
fn records_after_an_incomplete_snapshot_are_not_lost() {
    let device = device(14);
    let mut journal = start(&format(&device), &[b"base"]);
    let failed = journal.snapshot(&mut |snapshot| {
        for _ in 0..40 {
            snapshot.put(&[1; 4000])?;
        }
        Err(SpaceError::JournalFailed)
    });
    assert!(failed.is_err());
    journal.append(b"still here").unwrap();
    journal.sync().unwrap();
    assert_eq!(read(&device).2, said(&[b"base"], &[b"still here"]));
}

/// A zone that holds nothing but a part of it stands between the records: without that the next reading would end before it.
#[test]
fn a_zone_of_an_incomplete_snapshot_is_kept_while_records_are_behind_it() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let space = Space::format(Arc::new(faulty.clone()), new_store(1), &options()).unwrap();
    let mut journal = start(&space, &[b"one"]);
    journal.append(b"a").and_then(|()| journal.sync()).unwrap();
    let zones = || space.view().iter().filter(|view| view.stream == Some(JOURNAL)).count();
    let failed = journal.snapshot(&mut |snapshot| {
        loop {
            if zones() == 2 {
                // The zone is left for a third, which is not to be had for now.
                let effect = FaultEffect::Error(ErrorKind::Media);
                faulty.inject(Fault { call: Some(DeviceCall::Open), zone: None, when: FaultWhen::From(1), effect });
            }
            snapshot.put(&[2; 50_000])?;
        }
    });
    assert!(failed.is_err() && zones() == 2);
    faulty.heal();
    journal.append(b"b").and_then(|()| journal.sync()).unwrap();
    assert_eq!(zones(), 3);
    drop((journal, space));
    for reading in 1..=3 {
        let (_, found, delivered) = try_read(Arc::new(faulty.clone())).unwrap();
        assert_eq!((delivered, found.ignored_chunks), (said(&[b"one"], &[b"a", b"b"]), 0), "reading {reading}");
    }
    let (space, found, _) = try_read(Arc::new(faulty.clone())).unwrap();
    drop(start_after(&space, found, &[b"two"]));
    assert_eq!(space.view().iter().filter(|view| view.stream == Some(JOURNAL)).count(), 1, "then it is given back");
}

/// Nothing is recorded behind the snapshot that an opening did not end, so its zones are given back.
#[test]
fn openings_that_are_cut_short_take_no_more_zones_each_time() {
    let device = device(14);
    let mut journal = start(&format(&device), &[b"first"]);
    journal.append(b"change").and_then(|()| journal.sync()).unwrap();
    drop(journal);
    for opening in 0..20 {
        let (space, found, delivered) = read(&device);
        assert_eq!(delivered, said(&[b"first"], &[b"change"]), "opening {opening}");
        // One more waits until its generation is not the newest.
        assert!(space.view().iter().filter(|view| view.stream == Some(JOURNAL)).count() <= 2, "opening {opening}");
        let cut = Journal::start(&space, JOURNAL, found, &mut |snapshot| {
            (0..3).try_for_each(|_| snapshot.put(&[2; 50_000]))?;
            Err(SpaceError::JournalFailed)
        });
        assert!(matches!(cut, Err(SpaceError::JournalFailed)), "opening {opening}");
    }
}

/// Writes what is in the journal's zone again, with one bit flipped: the device has nothing to say.
fn flip(device: &Arc<MemDevice>, zone: ZoneId, block: usize) {
    let report = device.report(zone, 1).unwrap()[0];
    let mut bytes = common::blocks(0, report.written_blocks());
    device.read(report.start, &mut bytes).unwrap();
    bytes[block * 4096 + 8] ^= 1;
    device.reset(zone).unwrap();
    device.write(report.start, &bytes).unwrap();
}

#[test]
fn a_snapshot_behind_a_damaged_chunk_counts() {
    let device = device(14);
    let space = format(&device);
    let mut journal = start(&space, &[b"one"]);
    journal.append(b"a").and_then(|()| journal.sync()).unwrap();
    journal.snapshot(&mut |snapshot| snapshot.put(b"two")).unwrap();
    journal.append(b"b").and_then(|()| journal.sync()).unwrap();
    let zone = space.view().iter().find(|view| view.stream == Some(JOURNAL)).unwrap().zone;
    drop((journal, space));
    // Header, three of the snapshot, a record, three of the next, a record.
    for (block, expected, ignored) in
        [(1, said(&[b"two"], &[b"b"]), 0), (4, said(&[b"two"], &[b"b"]), 0), (6, said(&[b"one"], &[b"a"]), 2)]
    {
        flip(&device, zone, block);
        let (_, found, delivered) = read(&device);
        assert_eq!((delivered, found.ignored_chunks), (expected, ignored), "block {block}");
        flip(&device, zone, block);
    }
}

/// A crash leaves a gap before what nobody waited for, and not before what was synced since.
#[test]
fn a_gap_before_what_was_synced_is_damage() {
    let device = device(14);
    let space = format(&device);
    let mut journal = start(&space, &[b"one"]);
    for record in [b"a", b"b", b"c", b"d"] {
        journal.append(record).and_then(|()| journal.sync()).unwrap();
    }
    let zone = space.view().iter().find(|view| view.stream == Some(JOURNAL)).unwrap().zone;
    drop((journal, space));
    // The header, three of the snapshot, and the records. Behind the third there is one, of which nobody knows if it was flushed.
    for (block, ignored, damaged) in [(4, 3, 3), (5, 2, 2), (6, 1, 0), (7, 0, 0)] {
        flip(&device, zone, block);
        let (_, found, _) = read(&device);
        assert_eq!((found.ignored_chunks, found.damaged_chunks), (ignored, damaged), "block {block}");
        flip(&device, zone, block);
    }
}

#[test]
fn a_gap_in_what_one_sync_wrote_is_no_damage() {
    let device = device(14);
    let space = format(&device);
    let mut journal = start(&space, &[b"one"]);
    // One chunk each, in a zone of its own.
    let long = vec![5; 50_000];
    (0..5).try_for_each(|_| journal.append(&long)).and_then(|()| journal.sync()).unwrap();
    let mut views: Vec<_> = space.view().into_iter().filter(|view| view.stream == Some(JOURNAL)).collect();
    views.sort_by_key(|view| view.generation);
    let first = views[1].zone;
    drop((journal, space));
    flip(&device, first, 1);
    let (_, found, delivered) = read(&device);
    assert_eq!((delivered, found.ignored_chunks, found.damaged_chunks), (said(&[b"one"], &[]), 4, 0));
}

/// What an earlier life wrote behind a gap was never delivered, and its numbers may have been given again.
#[test]
fn a_chunk_of_an_earlier_life_fills_no_gap() {
    use ChunkKind::{Records, SnapshotBegin, SnapshotEnd, SnapshotItems};
    let chunk = |(kind, sequence, item): (ChunkKind, u64, u8), generation| {
        let mut chunk = common::blocks(0, 1);
        chunk[32..37].copy_from_slice(&[1, 0, 0, 0, item]);
        let payload_bytes = if matches!(kind, Records | SnapshotItems) { 5 } else { 0 };
        ChunkHeader { kind, sequence, generation, payload_bytes }.encode(&mut chunk);
        chunk
    };
    for (kind, lost) in [(SnapshotItems, 6), (Records, 6), (Records, 9)] {
        let device = device(14);
        let space = format(&device);
        let write = |chunks: &[(ChunkKind, u64, u8)]| {
            let mut writer = space.open_zone(JOURNAL, Urgency::Foreground).unwrap();
            let generation = writer.generation();
            for &described in chunks {
                let block = if described.1 == 0 { common::blocks(9, 1) } else { chunk(described, generation) };
                writer.write(&block).unwrap();
            }
            space.seal(writer);
        };
        // Number 5 was lost, and what came behind it does not count.
        let first = [(SnapshotBegin, 1, 0), (SnapshotItems, 2, 1), (SnapshotEnd, 3, 0), (Records, 4, 2)];
        write(&[&first[..], &[(Records, 0, 0), (kind, lost, 3)]].concat());
        let mut second = [
            (SnapshotBegin, 5, 0),
            (SnapshotItems, 6, 4),
            (SnapshotEnd, 7, 0),
            (Records, 8, 5),
            (Records, 9, 6),
            (Records, 10, 7),
        ];
        second.iter_mut().filter(|chunk| chunk.1 == lost).for_each(|chunk| chunk.1 = 0);
        write(&second);
        drop(space);
        let expected = if lost == 6 { said(&[&[1]], &[&[2]]) } else { said(&[&[4]], &[&[5]]) };
        assert_eq!(read(&device).2, expected, "{kind:?} {lost}");
    }
}

#[test]
fn a_damaged_tail_is_cut_off_and_nothing_is_refused() {
    let device = device(14);
    let space = format(&device);
    let mut journal = start(&space, &[b"base"]);
    journal.append(b"whole").unwrap();
    journal.sync().unwrap();
    drop((journal, space));
    let (space, recovered) = Space::open(as_zoned(&device), &options()).unwrap();
    let mut writer = space.adopt_for_writing(recovered.zones[0].zone).unwrap();
    writer.write(&common::blocks(0x5a, 2)).unwrap();
    drop((writer, space));
    assert_eq!(read(&device).2, said(&[b"base"], &[b"whole"]));
}

#[test]
fn long_snapshots_and_records_span_zones_within_two_tokens() {
    let device = device(4);
    let space = format(&device);
    let bytes_max = start(&space, &[]).record_bytes_max();
    let (space, found, _) = read(&device);
    let long = vec![3; bytes_max];
    let mut journal = start_after(&space, found, &[&long, &long, &long]);
    assert!(matches!(journal.append(&vec![0; bytes_max + 1]), Err(SpaceError::RecordTooLong { .. })));
    journal.append(&long).unwrap();
    journal.append(b"short").unwrap();
    journal.sync().unwrap();
    assert!(space.usage().active <= 1);
    assert_eq!(read(&device).2, said(&[&long, &long, &long], &[&long, b"short"]));
}

#[test]
fn a_failing_zone_costs_no_record() {
    let device = device(14);
    let space = format(&device);
    let mut journal = start(&space, &[b"base"]);
    journal.append(b"before").unwrap();
    journal.sync().unwrap();
    let zone = space.view().iter().find(|view| view.stream == Some(JOURNAL)).unwrap().zone;
    device.retire(zone, ZoneState::ReadOnly).unwrap();
    journal.append(b"behind").unwrap();
    journal.sync().unwrap();
    assert_eq!(read(&device).2, said(&[b"base"], &[b"before", b"behind"]));
    journal.snapshot(&mut |snapshot| snapshot.put(b"moved")).unwrap();
    assert_eq!(read(&device).2, said(&[b"moved"], &[]));
}

/// The first was written although its write failed, and when there was a zone for it again there was more to record.
#[test]
fn of_two_chunks_with_one_number_the_later_counts() {
    let device = Arc::new(Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1));
    let space = Space::format(device.clone(), new_store(1), &options()).unwrap();
    let mut journal = start(&space, &[b"base"]);
    let mut taken = Vec::new();
    while let Ok(writer) = space.open_zone(COLD, Urgency::Reserve) {
        taken.push(writer.zone());
        space.seal(writer);
    }
    let effect = FaultEffect::Torn { blocks: 1 };
    device.inject(Fault { call: Some(DeviceCall::Write), zone: None, when: FaultWhen::Nth(1), effect });
    journal.append(b"one").unwrap();
    assert!(matches!(journal.sync(), Err(SpaceError::NoSpace { .. })));
    assert_eq!(device.injected(), 1);
    taken.iter().take(8).for_each(|&zone| _ = space.reset(zone).unwrap());
    journal.append(b"two").unwrap();
    journal.sync().unwrap();
    assert_eq!(try_read(device).unwrap().2, said(&[b"base"], &[b"one", b"two"]));
}

/// The zones before it are what a crash would find.
#[test]
fn a_snapshot_behind_which_the_host_is_full_resets_nothing() {
    let device = Arc::new(Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1));
    let space = Space::format(device.clone(), new_store(1), &options()).unwrap();
    let mut journal = start(&space, &[b"base"]);
    let resets = || device.counters().resets;
    // Two zones of 15 blocks.
    for _ in 0..20 {
        journal.append(&[1; 4000]).and_then(|()| journal.sync()).unwrap();
    }
    let before = resets();
    let effect = FaultEffect::Error(ErrorKind::NoSpaceOnHost);
    device.inject(Fault { call: Some(DeviceCall::Flush), zone: None, when: FaultWhen::Nth(1), effect });
    assert!(!journal.snapshot(&mut |snapshot| snapshot.put(b"waits")).unwrap());
    assert_eq!((device.injected(), resets()), (1, before));
    assert!(journal.snapshot(&mut |snapshot| snapshot.put(b"durable")).unwrap());
    assert!(resets() > before);
    assert_eq!(try_read(device.clone()).unwrap().2, said(&[b"durable"], &[]));
}

#[test]
fn a_full_device_refuses_a_record_and_keeps_the_rest_and_room_for_a_snapshot_of_it() {
    let device = device(14);
    let streams = vec![StreamSpec::new(JOURNAL, "journal", 0).zones(2, 2).alone()];
    let only_journal = SpaceOptions { streams, ..options() };
    let space = Space::format(as_zoned(&device), new_store(1), &only_journal).unwrap();
    let mut journal = start(&space, &[b"base"]);
    let mut synced = 0;
    let error = loop {
        match journal.append(&[1; 4000]).and_then(|()| journal.sync()) {
            Ok(()) => synced += 1,
            Err(error) => break error,
        }
    };
    let owed = journal.zones_owed();
    assert!(matches!(error, SpaceError::NoSpace { free_zones, .. } if free_zones >= owed), "{error}");
    let Said { records, .. } = read(&device).2;
    assert_eq!(records.len(), synced);
    assert!(synced > 70 && owed >= 5, "{synced} records, {owed} zones");
    assert!(journal.has_room_for(records.iter().map(Vec::len), 0));
    journal.snapshot(&mut |snapshot| records.iter().try_for_each(|record| snapshot.put(record))).unwrap();
    journal.append(b"goes on").unwrap();
    journal.sync().unwrap();
    let found = read(&device).2;
    assert_eq!((found.items, found.records), (records, vec![b"goes on".to_vec()]));
}

#[test]
fn a_snapshot_that_fails_owes_no_more_than_before() {
    let space = format(&device(14));
    let mut journal = start(&space, &[]);
    journal.append(&[1; 4_000]).and_then(|()| journal.sync()).unwrap();
    let owed = journal.zones_owed();
    let too_long = vec![2; journal.record_bytes_max() + 1];
    for _ in 0..3 {
        let items = |snapshot: &mut SnapshotWriter<'_>| {
            (0..20).try_for_each(|_| snapshot.put(&[2; 4_000])).and_then(|()| snapshot.put(&too_long))
        };
        assert!(matches!(journal.snapshot(&mut { items }), Err(SpaceError::RecordTooLong { .. })));
        assert_eq!((journal.zones_owed(), owed), (1, 1));
    }
}

#[test]
fn a_snapshot_has_room_for_what_it_says_it_has_room_for() {
    for seed in 0..40 {
        let prepared = || {
            let (device, mut rng) = (device(14), Rng::seeded(seed));
            let mut journal = start(&format(&device), &[]);
            (0..rng.index(20)).for_each(|_| journal.append(&[2; 3_000]).and_then(|()| journal.sync()).unwrap());
            let longest = 1 + rng.index(journal.record_bytes_max());
            let items: Vec<Vec<u8>> = (0..1_000).map(|_| vec![1; rng.index(longest)]).collect();
            (device, journal, items)
        };
        let snapshot = |journal: &mut Journal, items: &[Vec<u8>]| {
            journal.snapshot(&mut |snapshot| items.iter().try_for_each(|item| snapshot.put(item)))
        };
        let (device, mut journal, items) = prepared();
        let fits = |count: &usize| journal.has_room_for(items[..*count].iter().map(Vec::len), 0);
        let count = (0..=items.len()).rev().find(fits).expect("nothing always fits");
        snapshot(&mut journal, &items[..count]).unwrap();
        assert_eq!(read(&device).2.items, items[..count], "seed {seed}");
        let (_device, mut journal, items) = prepared();
        if let Some(more) = items.get(..count + 1) {
            let refused = snapshot(&mut journal, more);
            assert!(matches!(refused, Err(SpaceError::NoSpace { .. })), "seed {seed}: {refused:?}");
        }
    }
}

/// A counter per key, kept in a journal: the state after any crash must be one between the last sync and the last record.
struct Counters {
    values: [u64; 8],
    synced: [u64; 8],
}

impl Counters {
    fn from(said: &Said) -> [u64; 8] {
        let mut values = [0; 8];
        for entry in said.items.iter().chain(&said.records) {
            values[usize::from(entry[0])] = u64::from_le_bytes(entry[1..9].try_into().unwrap());
        }
        values
    }

    fn entry(key: usize, value: u64) -> Vec<u8> {
        [&[u8::try_from(key).unwrap()], &value.to_le_bytes()[..], &[0; 700]].concat()
    }

    /// Records, syncs and snapshots until the power goes.
    fn run(&mut self, journal: &mut Journal, rng: &mut Rng) -> SpaceError {
        loop {
            let key = rng.index(8);
            self.values[key] += 1;
            let done = match rng.below(12) {
                0 => self.snapshot(journal),
                1..5 => journal.append(&Self::entry(key, self.values[key])).and_then(|()| self.sync(journal)),
                _ => journal.append(&Self::entry(key, self.values[key])),
            };
            if let Err(error) = done {
                return error;
            }
        }
    }

    fn snapshot(&mut self, journal: &mut Journal) -> Result<(), SpaceError> {
        journal.snapshot(&mut |snapshot| fill(&self.values, snapshot))?;
        self.synced = self.values;
        Ok(())
    }

    fn sync(&mut self, journal: &mut Journal) -> Result<(), SpaceError> {
        journal.sync()?;
        self.synced = self.values;
        Ok(())
    }
}

fn fill(values: &[u64; 8], snapshot: &mut SnapshotWriter<'_>) -> Result<(), SpaceError> {
    values.iter().enumerate().try_for_each(|(key, &value)| snapshot.put(&Counters::entry(key, value)))
}

/// Opens the store and its journal again, as often as the power goes meanwhile.
fn restart(
    mut switch: PowerCut,
    counters: &mut Counters,
    rng: &mut Rng,
    how: CrashModel,
) -> (PowerCut, Space, Journal) {
    loop {
        let next = PowerCut::over(switch.reopen_as(rng, how));
        switch = next;
        switch.arm(CutAt::Change(1 + rng.below(50)));
        let started = try_read(Arc::new(switch.clone())).and_then(|(space, found, said)| {
            space.clear_damaged()?;
            assert_eq!(found.damaged_chunks, 0, "{found:?}");
            let values = Counters::from(&said);
            for key in 0..8 {
                assert!((counters.synced[key]..=counters.values[key]).contains(&values[key]), "key {key}: {values:?}");
            }
            (counters.values, counters.synced) = (values, values);
            let journal = Journal::start(&space, JOURNAL, found, &mut |snapshot| fill(&values, snapshot))?;
            Ok((space, journal))
        });
        match started {
            Ok((space, journal)) => return (switch, space, journal),
            Err(error) => assert!(is_power_lost(&error), "{error}"),
        }
    }
}

fn is_power_lost(error: &SpaceError) -> bool {
    matches!(error, SpaceError::Device(DeviceError::PowerLost))
}

#[test]
fn what_was_synced_survives_any_cut() {
    for seed in 0..80 {
        let how = if seed % 2 == 0 { CrashModel::Prefix } else { CrashModel::PageCache };
        let mut rng = Rng::seeded(seed);
        let mut switch = PowerCut::new(common::geometry([4, 14][usize::try_from(seed / 2 % 2).unwrap()])).unwrap();
        let mut space = Space::format(Arc::new(switch.clone()), new_store(1), &options()).unwrap();
        let mut journal = start(&space, &[]);
        let mut counters = Counters { values: [0; 8], synced: [0; 8] };
        switch.arm(CutAt::Change(1 + rng.below(50)));
        for _ in 0..10 {
            let error = counters.run(&mut journal, &mut rng);
            assert!(is_power_lost(&error), "seed {seed}: {error}");
            assert!(space.usage().active <= 2, "the journal keeps to its share");
            (switch, space, journal) = restart(switch, &mut counters, &mut rng, how);
        }
    }
}
