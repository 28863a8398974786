//! What callers wait for: the same times as the model alone, in virtual and in real time, from one thread and from many.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{AlignedBuf, Geometry, Io, Lba, MemDevice, ZoneId, ZonedDevice};
use zonda_flash::drive::{FlashZoned, TimeMode};
use zonda_flash::profile::Profile;
use zonda_rt::{now, sim, sleep, spawn};

fn drive(profile: &str, mode: TimeMode) -> FlashZoned {
    let geometry = Geometry::new(4 << 20, 32).with_limits(14, 14);
    let data = Arc::new(MemDevice::new(geometry).unwrap());
    FlashZoned::over(data, &Profile::named(profile).unwrap(), mode, 1).unwrap()
}

/// Zones are full and nothing of them is in the buffer any more.
fn filled(profile: &str, mode: TimeMode, zones: u32) -> FlashZoned {
    let geometry = Geometry::new(4 << 20, 32).with_limits(14, 14);
    let data = Arc::new(MemDevice::new(geometry).unwrap());
    let bytes = AlignedBuf::with_len(4 << 20);
    for zone in 0..zones {
        data.append(ZoneId(zone), &bytes).unwrap();
    }
    FlashZoned::over(data, &Profile::named(profile).unwrap(), mode, 1).unwrap()
}

#[test]
fn a_read_takes_the_time_of_the_model_in_virtual_time() {
    let took = sim::run(5, || {
        let drive = filled("zn540", TimeMode::Timed { k: 1 }, 1);
        let mut block = AlignedBuf::with_len(4096);
        let start = now();
        drive.read(Lba(17), &mut block).unwrap();
        now().since(start)
    });
    assert!((70..76).contains(&took.as_micros()), "{took:?}");
}

#[test]
fn dilation_makes_it_slower() {
    let drive = filled("zn540", TimeMode::Timed { k: 200 }, 1);
    let mut block = AlignedBuf::with_len(4096);
    let start = now();
    for at in 0..5 {
        drive.read(Lba(at), &mut block).unwrap();
    }
    let took = now().since(start);
    assert!(took >= Duration::from_micros(5 * 70 * 200), "{took:?}");
}

#[test]
fn a_queue_keeps_dies_busy() {
    let (one, many) = sim::run(9, || {
        let drive = filled("zn540", TimeMode::Timed { k: 1 }, 8);
        let mut queue = drive.queue(64).unwrap();
        let mut run = |depth: usize, count: u64| {
            let start = now();
            let mut done = Vec::new();
            let mut submitted = 0;
            while (done.len() as u64) < count {
                while submitted < count && queue.in_flight() < depth {
                    let at = Lba(submitted * 7919 % (8 * 1024));
                    queue.submit(submitted, Io::Read { at, into: AlignedBuf::with_len(4096) }).unwrap();
                    submitted += 1;
                }
                queue.complete(1, &mut done).unwrap();
            }
            now().since(start).as_secs_f64() / count as f64
        };
        (run(1, 100), run(32, 3_200))
    });
    assert!(one / many > 12.0, "depth 32 is only {:.1} times faster", one / many);
}

#[test]
fn a_report_is_of_now_and_not_of_the_last_call() {
    sim::run(3, || {
        let drive = drive("test", TimeMode::Timed { k: 1 });
        let bytes = AlignedBuf::with_len(4 << 20);
        for zone in 0..4 {
            drive.append(ZoneId(zone), &bytes).unwrap();
        }
        let programmed = || drive.flash_report().core.dies.iter().map(|die| die.program_ns).sum::<u64>();
        sleep(Duration::from_millis(100));
        let before = programmed();
        drive.read(Lba(0), &mut AlignedBuf::with_len(4096)).unwrap();
        assert_eq!(programmed(), before, "nothing was programmed meanwhile");
        assert_eq!(before, (16 << 20) / (16 << 10) * 600_000);
    });
}

#[test]
fn no_die_is_busy_for_longer_than_time_goes_on() {
    sim::run(3, || {
        let drive = drive("test", TimeMode::Timed { k: 1 });
        drive.append(ZoneId(0), &AlignedBuf::with_len(4 << 20)).unwrap();
        let report = || (now(), drive.flash_report().core, now());
        let mut last = report();
        for _ in 0..100 {
            sleep(Duration::from_micros(250));
            let next = report();
            let passed = next.2.since(last.0).as_nanos();
            for (number, (die, before)) in next.1.dies.iter().zip(&last.1.dies).enumerate() {
                let busy = u128::from(die.busy_ns() - before.busy_ns());
                assert!(busy <= passed, "die {number}: {busy} ns in {passed}");
            }
            last = next;
        }
    });
}

/// Eight threads write and read; the trace is a function of the seed.
fn many_threads(seed: u64) -> (u64, u64) {
    let ends_at = sim::run(seed, || {
        let drive = drive("test", TimeMode::Timed { k: 1 });
        let began = now();
        let work = |zone: u32| {
            let drive = drive.clone();
            move || {
                let mut block = AlignedBuf::with_len(16 << 10);
                for _ in 0..40 {
                    let at = drive.append(ZoneId(zone), &block).unwrap();
                    drive.read(at, &mut block).unwrap();
                }
                drive.flush().unwrap();
            }
        };
        let threads: Vec<_> = (0..8).map(|zone| spawn(format!("writer {zone}"), work(zone))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let report = drive.flash_report();
        assert_eq!(report.writes.host_bytes, 8 * 40 * (16 << 10), "flushed bytes are on flash");
        assert!(report.core.answered >= 8 * 80, "{}", report.core.answered);
        let waits = report.waits;
        assert_eq!((waits.reads.commands, waits.writes.commands, waits.flushes.commands), (8 * 40, 8 * 40, 8));
        assert!(waits.reads.total_ns > 0 && waits.writes.total_ns > 0, "{waits:?}");
        let of_all = u128::from(waits.reads.total_ns + waits.writes.total_ns + waits.flushes.total_ns);
        assert!(
            of_all <= 8 * now().since(began).as_nanos(),
            "eight threads waited longer than there was time: {waits:?}"
        );
        report.core.answers_hash
    });
    (ends_at, sim::trace_hash())
}

#[test]
fn a_seed_decides_everything() {
    assert_eq!(many_threads(1), many_threads(1));
    assert_ne!(many_threads(1).0, many_threads(2).0);
}
