use std::collections::BTreeSet;

use super::format::GroupHeader;
use super::*;
use crate::{
    AlignedBuf, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, PowerCut, ZoneId, ZoneState,
    conformance,
};
use zonda_rt::{DeviceCall, Rng};

const ZONE_BLOCKS: u64 = 16;

fn geometry(zones: u32) -> Geometry {
    Geometry::new(ZONE_BLOCKS * 4096, zones).with_limits(3, 3)
}

fn volume(zones: u32) -> HostFtl {
    HostFtl::open(Arc::new(MemDevice::new(geometry(zones)).unwrap()), &HostFtlOptions::default()).unwrap()
}

fn block(value: u64) -> AlignedBuf {
    let mut block = AlignedBuf::with_len(BLOCK);
    block.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&value.to_le_bytes()));
    block
}

/// The number in a block; a torn one would have two.
fn value(ftl: &HostFtl, at: u64) -> u64 {
    let mut found = AlignedBuf::with_len(BLOCK);
    ftl.read(Lba(at), &mut found).unwrap();
    let first = u64::from_le_bytes(found[..8].try_into().unwrap());
    assert!(*found == *block(first), "block {at} is torn");
    first
}

#[test]
fn the_rules_of_block_devices_hold() {
    conformance::block(&mut |block_bytes, blocks| {
        assert_eq!(block_bytes, 4096);
        let options = HostFtlOptions { capacity_blocks: Some(blocks), ..HostFtlOptions::default() };
        Arc::new(HostFtl::open(Arc::new(MemDevice::new(geometry(12)).unwrap()), &options).unwrap())
    })
    .assert_passed();
}

#[test]
fn a_volume_that_exists_has_the_over_provisioning_that_was_asked_for() {
    let device: Arc<dyn ZonedDevice> = Arc::new(MemDevice::new(geometry(12)).unwrap());
    let open = |percent| {
        let options = HostFtlOptions { over_provisioning_percent: percent, ..HostFtlOptions::default() };
        HostFtl::open(Arc::clone(&device), &options)
    };
    let ftl = open(Some(20)).unwrap();
    let blocks = ftl.capacity_blocks();
    ftl.write(Lba(0), &block(1)).unwrap();
    ftl.flush().unwrap();
    drop(ftl);
    for other in [0, 7, 50, 900] {
        let refused = open(Some(other)).unwrap_err();
        assert!(matches!(refused, DeviceError::Mismatch { found, .. } if found == blocks), "{other} %: {refused}");
    }
    for same in [Some(20), None] {
        assert_eq!(open(same).unwrap().capacity_blocks(), blocks);
    }
}

#[test]
fn a_full_volume_is_overwritten_for_ever() {
    let ftl = volume(12);
    let blocks = ftl.capacity_blocks();
    let mut wanted = vec![0; usize::try_from(blocks).unwrap()];
    let mut rng = Rng::seeded(3);
    for number in 1..20 * blocks {
        let at = if number <= blocks { number - 1 } else { rng.below(blocks) };
        ftl.write(Lba(at), &block(number)).unwrap();
        wanted[usize::try_from(at).unwrap()] = number;
        if rng.chance(0.02) {
            ftl.flush().unwrap();
        }
    }
    for (at, &wanted) in (0..).zip(&wanted) {
        assert_eq!(value(&ftl, at), wanted, "block {at}");
    }
    let stats = ftl.stats();
    assert!(stats.cleaned_zones > 50 && stats.moved_blocks > 0, "{stats:?}");
    let below = ftl.zones().counters().written_bytes / BLOCK as u64;
    assert!(below <= stats.host_blocks + stats.moved_blocks + stats.overhead_blocks, "{below} {stats:?}");
    assert!(stats.map_bytes >= 4 * blocks && stats.memory_bytes > stats.map_bytes);
    let again = HostFtl::open(Arc::clone(ftl.zones()), &HostFtlOptions::default());
    drop(ftl);
    let again = again.unwrap();
    assert_eq!(again.capacity_blocks(), blocks, "the volume knows its size");
}

/// What a block may be after a cut: what it was at the last flush, or anything written since.
struct Expected {
    allowed: Vec<BTreeSet<u64>>,
    now: Vec<u64>,
}

impl Expected {
    fn new(blocks: u64) -> Self {
        let blocks = usize::try_from(blocks).unwrap();
        Self { allowed: vec![BTreeSet::from([0]); blocks], now: vec![0; blocks] }
    }

    fn set(&mut self, at: u64, value: u64) {
        let at = usize::try_from(at).unwrap();
        self.allowed[at].insert(value);
        self.now[at] = value;
    }

    fn flushed(&mut self) {
        for (allowed, &now) in self.allowed.iter_mut().zip(&self.now) {
            *allowed = BTreeSet::from([now]);
        }
    }

    /// Takes over what a reopened volume says.
    fn check(&mut self, ftl: &HostFtl, seed: u64) {
        for at in 0..self.now.len() {
            let found = value(ftl, at as u64);
            assert!(
                self.allowed[at].contains(&found),
                "seed {seed}: block {at} is {found}, not of {:?}",
                self.allowed[at]
            );
            self.now[at] = found;
        }
        self.flushed();
    }
}

/// Random writes, trims and flushes until the power goes; true if it did.
fn work(ftl: &HostFtl, expected: &mut Expected, rng: &mut Rng, numbers: &mut u64) -> bool {
    for _ in 0..400 {
        let blocks = ftl.capacity_blocks();
        let at = rng.below(blocks);
        let outcome = match rng.below(20) {
            0 | 1 => {
                let count = rng.below(8).min(blocks - at);
                (at..at + count).for_each(|at| expected.set(at, 0));
                ftl.trim(Lba(at), count)
            }
            2 => ftl.flush().map(|()| expected.flushed()),
            _ => {
                *numbers += 1;
                expected.set(at, *numbers);
                ftl.write(Lba(at), &block(*numbers))
            }
        };
        if let Err(error) = outcome {
            assert!(matches!(error, DeviceError::PowerLost), "{error}");
            return true;
        }
    }
    false
}

#[test]
fn any_power_cut_leaves_what_was_flushed_and_nothing_torn() {
    let mut cuts = 0;
    for seed in 1..200 {
        let mut rng = Rng::seeded(seed);
        let mut device = MemDevice::new(geometry(9)).unwrap();
        let (mut expected, mut numbers) = (None, 0);
        for life in 0..6 {
            let power = PowerCut::over(device);
            // One life in eight ends while it begins.
            power.arm(rng.chance(0.125).then(|| crate::CutAt::Operation(1 + rng.below(40))));
            let ftl = match HostFtl::open(Arc::new(power.clone()), &HostFtlOptions::default()) {
                Err(DeviceError::PowerLost) => {
                    device = power.reopen(&mut rng);
                    continue;
                }
                opened => opened.unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}")),
            };
            let expected = expected.get_or_insert_with(|| Expected::new(ftl.capacity_blocks()));
            power.arm(None);
            expected.check(&ftl, seed);
            power.arm(crate::CutAt::Operation(1 + rng.below(160)));
            cuts += u32::from(work(&ftl, expected, &mut rng, &mut numbers));
            drop(ftl);
            power.cut();
            device = power.reopen(&mut rng);
        }
    }
    assert!(cuts > 200, "{cuts}");
}

#[test]
fn a_zone_that_fails_under_a_write_is_replaced() {
    for effect in [FaultEffect::Torn { blocks: 2 }, FaultEffect::Retire(ZoneState::ReadOnly)] {
        let faulty = Faulty::new(MemDevice::new(geometry(12)).unwrap(), 1);
        let ftl = HostFtl::open(Arc::new(faulty.clone()), &HostFtlOptions::default()).unwrap();
        let blocks = ftl.capacity_blocks();
        (0..blocks).for_each(|at| ftl.write(Lba(at), &block(at + 1)).unwrap());
        ftl.flush().unwrap();
        faulty.inject(Fault { call: Some(DeviceCall::Write), zone: None, when: FaultWhen::Nth(1), effect });
        (0..blocks / 2).for_each(|at| ftl.write(Lba(at), &block(at + 1_000)).unwrap());
        ftl.flush().unwrap();
        assert_eq!(faulty.injected(), 1);
        let wanted = |at: u64| if at < blocks / 2 { at + 1_000 } else { at + 1 };
        (0..blocks).for_each(|at| assert_eq!(value(&ftl, at), wanted(at), "{effect:?}, block {at}"));
        if matches!(effect, FaultEffect::Torn { .. }) {
            let again = HostFtl::open(Arc::new(faulty.clone()), &HostFtlOptions::default()).unwrap();
            (0..blocks).for_each(|at| assert_eq!(value(&again, at), wanted(at), "{effect:?}, block {at}, reopened"));
        }
    }
}

#[test]
fn a_victim_that_cannot_be_read_is_left_as_it_is() {
    // The first read of cleaning is of headers, the next ones of what is live.
    for read in [1, 2, 3, 5, 9] {
        let faulty = Faulty::new(MemDevice::new(geometry(12)).unwrap(), 1);
        let ftl = HostFtl::open(Arc::new(faulty.clone()), &HostFtlOptions::default()).unwrap();
        let blocks = ftl.capacity_blocks();
        let mut wanted: Vec<u64> = (1..=blocks).collect();
        (0..blocks).for_each(|at| ftl.write(Lba(at), &block(at + 1)).unwrap());
        let effect = FaultEffect::Error(ErrorKind::Media);
        faulty.inject(Fault { call: Some(DeviceCall::Read), zone: None, when: FaultWhen::Nth(read), effect });
        let mut rng = Rng::seeded(read);
        for number in 1_000..1_000 + 3 * blocks {
            let at = rng.below(blocks);
            ftl.write(Lba(at), &block(number)).unwrap();
            wanted[usize::try_from(at).unwrap()] = number;
        }
        assert_eq!(faulty.injected(), 1, "read {read}: nothing was cleaned");
        (0..).zip(&wanted).for_each(|(at, &wanted)| assert_eq!(value(&ftl, at), wanted, "read {read}, block {at}"));
    }
}

/// Writes a group of these blocks and values to a zone, or its first `blocks` only.
fn put_group(device: &MemDevice, zone: u32, header: GroupHeader, values: &[(u64, u64)], blocks: usize) {
    let mut bytes = AlignedBuf::with_len((1 + values.len()) * BLOCK);
    for (&(_, value), into) in values.iter().zip(bytes[BLOCK..].chunks_exact_mut(BLOCK)) {
        into.copy_from_slice(&block(value));
    }
    let data = values.iter().map(|&(at, value)| (Some(at), crc32c::crc32c(&block(value)))).collect();
    GroupHeader { data, ..header }.encode_into(&mut bytes[..BLOCK]);
    device.append(ZoneId(zone), &bytes[..blocks * BLOCK]).unwrap();
}

#[test]
fn what_of_a_group_was_never_written_is_not_believed_however_much_was_flushed_since() {
    let device = MemDevice::new(geometry(9)).unwrap();
    let (trims, data) = (Vec::new(), Vec::new());
    let header = GroupHeader { capacity_blocks: 40, sequence: 1, durable_before: 1, moved_from: None, trims, data };
    let numbered = |sequence, moved_from| GroupHeader { sequence, moved_from, ..header.clone() };
    let victim: Vec<(u64, u64)> = (0..4).map(|at| (at, 100 + at)).collect();
    put_group(&device, 0, numbered(1, None), &victim, 5);
    put_group(&device, 1, numbered(2, None), &[(9, 109), (10, 110)], 3);
    // Cleaning could write the header and one block, here and elsewhere, and gave up.
    put_group(&device, 1, numbered(3, Some((0, 1))), &victim, 2);
    device.finish(ZoneId(1)).unwrap();
    put_group(&device, 2, numbered(4, None), &[(9, 209), (10, 210)], 3);
    put_group(&device, 3, GroupHeader { durable_before: 5, ..numbered(5, None) }, &[(11, 211)], 2);
    for _ in 0..2 {
        let ftl = HostFtl::open(Arc::new(device.clone()), &HostFtlOptions::default()).unwrap();
        let found = [0, 1, 2, 3, 9, 10, 11].map(|at| value(&ftl, at));
        assert_eq!(found, [100, 101, 102, 103, 209, 210, 211]);
    }
}

#[test]
fn what_went_bad_after_it_was_durable_is_not_taken_for_older_content() {
    let device = MemDevice::new(geometry(9)).unwrap();
    let (trims, data) = (Vec::new(), Vec::new());
    let header = GroupHeader { capacity_blocks: 40, sequence: 1, durable_before: 1, moved_from: None, trims, data };
    put_group(&device, 0, header.clone(), &[(9, 109)], 2);
    put_group(&device, 1, GroupHeader { sequence: 2, ..header.clone() }, &[(9, 209)], 1);
    device.append(ZoneId(1), &block(0xBAD)).unwrap();
    put_group(&device, 2, GroupHeader { sequence: 3, durable_before: 3, ..header }, &[(11, 211)], 2);
    let ftl = HostFtl::open(Arc::new(device), &HostFtlOptions::default()).unwrap();
    assert_eq!([9, 11].map(|at| value(&ftl, at)), [0xBAD, 211], "its user has checksums, and sees it");
}

/// What opening finds of blocks 9 and 10, whose newest group is the last of its zone: how many of its blocks were `written`, header
/// included, and whether the zone was `finished`. Of the reads in that zone those with these numbers fail, 1 being the first of data.
fn opened_with_failing_reads(written: usize, finished: bool, failing: &[u64]) -> Result<[Option<u64>; 2]> {
    let device = MemDevice::new(geometry(9)).unwrap();
    let (trims, data) = (Vec::new(), Vec::new());
    let header = GroupHeader { capacity_blocks: 40, sequence: 1, durable_before: 1, moved_from: None, trims, data };
    put_group(&device, 0, header.clone(), &[(9, 109), (10, 110)], 3);
    put_group(&device, 1, GroupHeader { sequence: 2, ..header.clone() }, &[(9, 209), (10, 210)], written);
    if finished {
        device.finish(ZoneId(1)).unwrap();
    }
    put_group(&device, 2, GroupHeader { sequence: 3, durable_before: 3, ..header }, &[(11, 211)], 2);
    let faulty = Faulty::new(device, 1);
    for number in failing {
        // The two before are of headers.
        let (call, when) = (Some(DeviceCall::Read), FaultWhen::Nth(2 + number));
        let effect = FaultEffect::Error(ErrorKind::Io);
        faulty.inject(Fault { call, zone: Some(ZoneId(1)), when, effect });
    }
    let ftl = HostFtl::open(Arc::new(faulty.clone()), &HostFtlOptions::default())?;
    assert_eq!(faulty.injected(), failing.len() as u64);
    Ok([9, 10].map(|at| {
        let mut found = AlignedBuf::with_len(BLOCK);
        ftl.read(Lba(at), &mut found).ok().map(|()| u64::from_le_bytes(found[..8].try_into().unwrap()))
    }))
}

#[test]
fn a_durable_group_that_answers_io_does_not_keep_the_volume_from_opening() {
    let (whole, older) = ([Some(209), Some(210)], [Some(209), Some(110)]);
    // Together, then one by one from the end.
    for failing in [&[][..], &[1], &[1, 2], &[1, 3], &[1, 2, 3]] {
        assert_eq!(opened_with_failing_reads(3, false, failing).unwrap(), whole, "{failing:?}");
    }
    for failing in [&[][..], &[1], &[1, 3]] {
        assert_eq!(opened_with_failing_reads(3, true, failing).unwrap(), whole, "{failing:?}, finished");
        assert_eq!(
            opened_with_failing_reads(2, true, &failing[..failing.len().min(1)]).unwrap(),
            older,
            "{failing:?}, torn"
        );
    }
    for written in [2, 3] {
        let refused = opened_with_failing_reads(written, true, &[1, 2]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io, "nothing tells whether the last block of the group was written");
    }
    for failing in [&[1, 2][..], &[1, 3]] {
        assert_eq!(
            opened_with_failing_reads(2, false, failing).unwrap(),
            older,
            "{failing:?}, behind the write pointer"
        );
    }
}

#[test]
fn a_victim_is_not_lost_because_what_moves_cannot_be_written() {
    let faulty = Faulty::new(MemDevice::new(geometry(12)).unwrap(), 1);
    let ftl = HostFtl::open(Arc::new(faulty.clone()), &HostFtlOptions::default()).unwrap();
    let blocks = ftl.capacity_blocks();
    let (mut wanted, mut rng) = (vec![0; usize::try_from(blocks).unwrap()], Rng::seeded(7));
    let mut put = |at: u64, number: u64| {
        let mut failed = 0;
        while let Err(error) = ftl.write(Lba(at), &block(number)) {
            assert_eq!(error.kind(), ErrorKind::Media);
            failed += 1;
            assert!(failed < 3, "the device is healthy again");
        }
        wanted[usize::try_from(at).unwrap()] = number;
        failed
    };
    (0..blocks).for_each(|at| assert_eq!(put(at, at + 1), 0));
    // Until cleaning goes on in a zone in which it has written before, and has two more to try.
    let zones_of_cleaning = || {
        let writer = ftl.shared.writer.lock();
        let open = writer.open[Stream::Moved as usize].filter(|open| (2..8).contains(&open.offset))?;
        (writer.free.len() == 2).then(|| [open.zone, writer.free[0], writer.free[1]])
    };
    let mut numbers = 1_000..;
    let zones = loop {
        put(rng.below(blocks), numbers.next().unwrap());
        if let Some(zones) = zones_of_cleaning() {
            break zones;
        }
    };
    for zone in zones.map(ZoneId) {
        let (call, when) = (Some(DeviceCall::Write), FaultWhen::Nth(1));
        faulty.inject(Fault { call, zone: Some(zone), when, effect: FaultEffect::Torn { blocks: 1 } });
    }
    let failed: u32 = (0..4 * blocks).map(|_| put(rng.below(blocks), numbers.next().unwrap())).sum();
    ftl.flush().unwrap();
    assert_eq!((faulty.injected(), failed), (3, 1), "all three attempts failed, and were told");
    assert_eq!(ftl.shared.writer.lock().lost, 0);
    drop(ftl);
    let again = HostFtl::open(Arc::new(faulty), &HostFtlOptions::default()).unwrap();
    (0..).zip(&wanted).for_each(|(at, &wanted)| assert_eq!(value(&again, at), wanted, "block {at}"));
}

#[test]
fn what_cannot_be_a_volume_is_refused() {
    let open = |geometry: Geometry| {
        let device = Arc::new(MemDevice::new(geometry).unwrap());
        HostFtl::open(device, &HostFtlOptions::default()).map(|_| ()).unwrap_err()
    };
    assert!(open(Geometry { block_bytes: 512, ..geometry(9) }).to_string().contains("4096"));
    assert!(matches!(open(geometry(5)), DeviceError::Geometry { .. }));
    assert!(matches!(open(geometry(9).with_limits(1, 1)), DeviceError::Geometry { .. }));
    let foreign = MemDevice::new(geometry(9)).unwrap();
    foreign.write(Lba(0), &block(7)).unwrap();
    assert!(matches!(
        HostFtl::open(Arc::new(foreign), &HostFtlOptions::default()).unwrap_err(),
        DeviceError::Damaged { .. }
    ));
    let offline = MemDevice::new(geometry(9)).unwrap();
    offline.retire(ZoneId(3), ZoneState::Offline).unwrap();
    let error = HostFtl::open(Arc::new(offline), &HostFtlOptions::default()).unwrap_err();
    assert!(matches!(error, DeviceError::Offline { .. }));
}

#[test]
fn readers_go_on_while_zones_are_cleaned() {
    let ftl = volume(12);
    let blocks = ftl.capacity_blocks();
    (0..blocks).for_each(|at| ftl.write(Lba(at), &block(at)).unwrap());
    let reader = |seed: u64| {
        let ftl = ftl.clone();
        move || {
            let mut rng = Rng::seeded(seed);
            for _ in 0..3_000 {
                let at = rng.below(blocks);
                assert_eq!(value(&ftl, at) % blocks, at);
            }
        }
    };
    let readers: Vec<_> = (0..2).map(|seed| zonda_rt::spawn(format!("reader {seed}"), reader(seed))).collect();
    let mut rng = Rng::seeded(9);
    for round in 1..4_000 {
        let at = rng.below(blocks);
        ftl.write(Lba(at), &block(round * blocks + at)).unwrap();
    }
    readers.into_iter().for_each(|reader| reader.join().expect("a reader found what was written"));
}

#[test]
fn a_volume_that_is_open_for_reading_refuses_every_change() {
    let device = Arc::new(MemDevice::new(geometry(12)).unwrap());
    let writer = HostFtl::open(device.clone(), &HostFtlOptions::default()).unwrap();
    writer.write(Lba(0), &block(7)).unwrap();
    writer.flush().unwrap();
    let options = HostFtlOptions { read_only: true, ..HostFtlOptions::default() };
    let reader = HostFtl::open(device.clone(), &options).unwrap();
    let written_bytes = device.counters().written_bytes;
    let refused = [reader.write(Lba(0), &block(8)), reader.trim(Lba(0), 1), reader.flush()];
    assert!(refused.iter().all(|r| r.as_ref().is_err_and(|e| e.kind() == ErrorKind::WriteProtected)), "{refused:?}");
    assert_eq!((value(&reader, 0), device.counters().written_bytes), (7, written_bytes));
}
