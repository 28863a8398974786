//! Zones with a random write area: the rules of their windows, and what they cost.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{
    AlignedBuf, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, Io, Lba, MemDevice, RandomWriteArea,
    ZoneId, ZoneState, ZonedDevice, conformance,
};
use zonda_flash::drive::{FlashZoned, Spec, TimeMode, WindowData};
use zonda_flash::profile::Profile;
use zonda_rt::{DeviceCall, now, sim, sleep, spawn};

/// Windows of 8 blocks, granules of 2, two windows at most; zones of 32 blocks.
fn drive() -> WindowData {
    faulty().1
}

/// The same, with what can make it fail.
fn faulty() -> (Faulty<MemDevice>, WindowData) {
    let below = Faulty::new(MemDevice::new(Geometry::new(32 * 4096, 6).with_limits(4, 4)).unwrap(), 1);
    (below.clone(), WindowData::over(Arc::new(below), (8, 2), 2).unwrap())
}

fn blocks(count: usize, value: u8) -> AlignedBuf {
    let mut buffer = AlignedBuf::with_len(count * 4096);
    buffer.fill(value);
    buffer
}

fn first_bytes(drive: &dyn ZonedDevice, at: u64, count: usize) -> Vec<u8> {
    let mut found = blocks(count, 0xEE);
    drive.read(Lba(at), &mut found).unwrap();
    found.chunks(4096).map(|block| block[0]).collect()
}

fn pointer(drive: &dyn ZonedDevice, zone: u32) -> Option<Lba> {
    drive.report(ZoneId(zone), 1).unwrap()[0].write_pointer
}

#[test]
fn zones_without_windows_keep_the_contract() {
    conformance::zoned(&mut |geometry| {
        let data = WindowData::over(Arc::new(MemDevice::new(geometry).unwrap()), (1, 1), 1).unwrap();
        let profile = Profile::named("test").unwrap();
        Arc::new(FlashZoned::over_windows(Arc::new(data), &profile, TimeMode::Untimed, 1).unwrap())
    })
    .assert_passed();
}

#[test]
fn a_window_takes_writes_in_any_order_and_again() {
    let drive = drive();
    drive.open_with_window(ZoneId(1)).unwrap();
    drive.write(Lba(32 + 5), &blocks(2, 5)).unwrap();
    drive.write(Lba(32), &blocks(1, 1)).unwrap();
    drive.write(Lba(32 + 5), &blocks(1, 6)).unwrap();
    assert_eq!(first_bytes(&drive, 32, 8), [1, 0, 0, 0, 0, 6, 5, 0]);
    assert_eq!(pointer(&drive, 1), Some(Lba(32)), "the write pointer stands still");
    drive.commit(ZoneId(1), Lba(32 + 6)).unwrap();
    assert_eq!(pointer(&drive, 1), Some(Lba(32 + 6)));
    assert_eq!(drive.write(Lba(32 + 5), &blocks(1, 7)).unwrap_err().kind(), ErrorKind::InvalidWrite);
    drive.write(Lba(32 + 6), &blocks(1, 8)).unwrap();
    assert_eq!(first_bytes(&drive, 32, 8), [1, 0, 0, 0, 0, 6, 8, 0]);
}

#[test]
fn a_write_behind_the_window_moves_it() {
    let drive = drive();
    drive.open_with_window(ZoneId(0)).unwrap();
    drive.write(Lba(0), &blocks(4, 1)).unwrap();
    drive.write(Lba(10), &blocks(1, 2)).unwrap();
    assert_eq!(pointer(&drive, 0), Some(Lba(4)), "three blocks more, in granules of two");
    assert_eq!(drive.write(Lba(20), &blocks(1, 3)).unwrap_err().kind(), ErrorKind::InvalidWrite, "behind both windows");
    drive.write(Lba(19), &blocks(1, 3)).unwrap();
    assert_eq!((pointer(&drive, 0), first_bytes(&drive, 0, 12)[10]), (Some(Lba(12)), 2));
    drive.close(ZoneId(0)).unwrap();
    assert_eq!(pointer(&drive, 0), Some(Lba(20)), "what was written is committed");
    drive.write(Lba(20), &blocks(1, 4)).unwrap();
    assert_eq!(drive.write(Lba(22), &blocks(1, 4)).unwrap_err().kind(), ErrorKind::InvalidWrite, "the window is gone");
}

#[test]
fn what_windows_do_not_do() {
    let drive = drive();
    drive.open_with_window(ZoneId(0)).unwrap();
    drive.open_with_window(ZoneId(1)).unwrap();
    assert_eq!(drive.open_with_window(ZoneId(2)).unwrap_err().kind(), ErrorKind::TooManyOpen);
    assert_eq!(drive.append(ZoneId(0), &blocks(1, 1)).unwrap_err().kind(), ErrorKind::InvalidTransition);
    assert_eq!(drive.commit(ZoneId(2), Lba(66)).unwrap_err().kind(), ErrorKind::InvalidTransition);
    assert_eq!(drive.commit(ZoneId(0), Lba(3)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(drive.commit(ZoneId(0), Lba(10)).unwrap_err().kind(), ErrorKind::InvalidWrite);
    drive.reset(ZoneId(0)).unwrap();
    drive.write(Lba(64), &blocks(1, 1)).unwrap();
    assert_eq!(drive.open_with_window(ZoneId(2)).unwrap_err().kind(), ErrorKind::InvalidTransition);
    drive.open_with_window(ZoneId(3)).unwrap();
    (0..4).for_each(|part| drive.write(Lba(96 + part * 8), &blocks(8, 1)).unwrap());
    assert_eq!(drive.write(Lba(127), &blocks(2, 1)).unwrap_err().kind(), ErrorKind::Boundary);
    drive.commit(ZoneId(3), Lba(128)).unwrap();
    assert_eq!(drive.report(ZoneId(3), 1).unwrap()[0].state, ZoneState::Full);
    drive.open_with_window(ZoneId(4)).unwrap();
}

#[test]
fn what_a_window_could_not_commit_is_still_in_it() {
    let (below, drive) = faulty();
    drive.open_with_window(ZoneId(0)).unwrap();
    drive.write(Lba(0), &blocks(6, 7)).unwrap();
    let fail =
        |effect| below.inject(Fault { call: Some(DeviceCall::Write), zone: None, when: FaultWhen::Nth(1), effect });
    fail(FaultEffect::Torn { blocks: 2 });
    assert_eq!(drive.close(ZoneId(0)).unwrap_err().kind(), ErrorKind::Media);
    assert_eq!((pointer(&drive, 0), first_bytes(&drive, 0, 8)), (Some(Lba(2)), vec![7, 7, 7, 7, 7, 7, 0, 0]));
    fail(FaultEffect::Retire(ZoneState::ReadOnly));
    assert_eq!(drive.finish(ZoneId(0)).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(first_bytes(&drive, 0, 8), [7, 7, 7, 7, 7, 7, 0, 0], "acknowledged");
    assert_eq!(drive.write(Lba(6), &blocks(1, 8)).unwrap_err().kind(), ErrorKind::ReadOnly);
    (1..3).for_each(|zone| drive.open_with_window(ZoneId(zone)).unwrap());
    assert_eq!(drive.open_with_window(ZoneId(3)).unwrap_err().kind(), ErrorKind::TooManyOpen);
}

/// Of what a commit did before it failed the flash is told, too: it is not committed again.
#[test]
fn a_commit_that_fails_half_way_programs_what_it_did() {
    type Commits = fn(&FlashZoned) -> zonda_device::Result<()>;
    let commits: [Commits; 4] = [
        |drive| drive.close(ZoneId(0)),
        |drive| drive.commit(ZoneId(0), Lba(6)),
        |drive| drive.write(Lba(12), &blocks(2, 8)),
        |drive| {
            let mut queue = drive.queue(1).unwrap();
            queue.submit(0, Io::Write { at: Lba(12), from: blocks(2, 8) }).unwrap();
            let mut completed = Vec::new();
            queue.complete(1, &mut completed).unwrap();
            completed.remove(0).result.map(drop)
        },
    ];
    for (which, commit) in commits.into_iter().enumerate() {
        let [whole, torn] = [false, true].map(|is_torn| {
            let (below, data) = faulty();
            let profile = Profile::named("test").unwrap();
            let drive = FlashZoned::over_windows(Arc::new(data), &profile, TimeMode::Untimed, 1).unwrap();
            drive.open_with_window(ZoneId(0)).unwrap();
            drive.write(Lba(0), &blocks(8, 7)).unwrap();
            if is_torn {
                let (call, effect) = (Some(DeviceCall::Write), FaultEffect::Torn { blocks: 2 });
                below.inject(Fault { call, zone: None, when: FaultWhen::Nth(1), effect });
            }
            assert_eq!(commit(&drive).is_err(), is_torn);
            drive.finish(ZoneId(0)).unwrap();
            drive.flush().unwrap();
            drive.flash_report().writes.host_bytes
        });
        assert_eq!(torn, whole, "{which}");
    }
}

#[test]
fn a_read_beside_a_commit_finds_what_was_written() {
    for delay_us in (0..400).step_by(10) {
        sim::run(delay_us, || {
            let drive = Arc::new(drive());
            drive.open_with_window(ZoneId(0)).unwrap();
            drive.write(Lba(0), &blocks(8, 7)).unwrap();
            let commit = {
                let drive = Arc::clone(&drive);
                move || {
                    sleep(Duration::from_micros(delay_us));
                    drive.commit(ZoneId(0), Lba(8)).unwrap();
                }
            };
            let committer = spawn("committer".to_owned(), commit);
            for _ in 0..3 {
                assert_eq!(first_bytes(&*drive, 0, 8), [7; 8], "a commit {delay_us} us after the first read began");
            }
            committer.join().unwrap();
        });
    }
}

#[test]
fn overwriting_in_a_window_costs_no_flash() {
    let spec: Spec = "test?zrwa=65536".parse().unwrap();
    zonda_rt::sim::run(1, || {
        let drive = spec.open_zoned().unwrap();
        let area = drive.random_write_area().expect("it has windows");
        area.open_with_window(ZoneId(0)).unwrap();
        for value in 0..50 {
            drive.write(Lba(3), &blocks(1, value)).unwrap();
        }
        assert_eq!(drive.flash_report().writes.host_bytes, 0);
        let start = now();
        drive.write(Lba(16), &blocks(8, 1)).unwrap();
        assert!(now() > start, "a write takes its time");
        drive.finish(ZoneId(0)).unwrap();
        assert!(drive.flash_report().writes.host_bytes >= 24 * 4096, "{:?}", drive.flash_report().writes);
        assert_eq!(first_bytes(&drive, 0, 4), [0, 0, 0, 49]);
    });
    assert!(
        "test-conv?zrwa=65536".parse::<Spec>().is_err() && "test?zrwa=5".parse::<Spec>().unwrap().open_zoned().is_err()
    );
}
