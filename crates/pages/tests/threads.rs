//! Many threads place, pump, read and reclaim at a time: on the operating system, and in virtual time from seeds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::sync::Arc;

use common::{Toy, create, device_of, id};
use zonda_device::{Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, PowerCut};
use zonda_pages::{AreaKind, PageStore};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{DeviceCall, Rng, sim, spawn};

const PAGES: u64 = 400;

fn writer(toy: &Toy, thread: u64, writes: u64) {
    let mut rng = Rng::seeded(thread);
    for n in 0..writes {
        toy.put(id(rng.below(PAGES)), n << 8 | thread, 1).unwrap();
        toy.check(id(rng.below(PAGES)));
        if n % 50 == 49 {
            toy.settle().unwrap();
        }
        if n % 10 == 0 {
            toy.store.area(AreaKind::Log).append(&[7; 100]).unwrap();
        }
    }
}

/// Runs writers beside a thread that reclaims; returns the zones reset.
fn run(threads: u64, writes: u64, active: u32) -> u64 {
    let toy = Arc::new(Toy::new(create(&device_of(40, active))));
    for n in 0..PAGES {
        toy.put(id(n), 0, 1).unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let reclaim = {
        let (toy, done) = (Arc::clone(&toy), Arc::clone(&done));
        spawn("reclaim", move || {
            while !done.load(Ordering::Relaxed) {
                toy.store.reclaim_step(&*toy).unwrap();
                let log = toy.store.area(AreaKind::Log);
                let segments = log.segments();
                segments.iter().rev().skip(1).for_each(|old| log.release(old.id).unwrap());
                zonda_rt::yield_now();
            }
        })
    };
    let writers: Vec<_> = (1..=threads)
        .map(|thread| {
            let toy = Arc::clone(&toy);
            spawn(format!("writer {thread}"), move || writer(&toy, thread, writes))
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    done.store(true, Ordering::Relaxed);
    reclaim.join().unwrap();
    toy.settle().unwrap();
    toy.check_all();
    assert_eq!(toy.store.usage().live_page_bytes, PAGES * 4096);
    toy.store.usage().zones_reset
}

#[test]
fn threads_of_the_operating_system() {
    assert!(run(4, 2500, 8) > 50);
}

/// A zone that somebody else has filled and finishes has its token still: whoever needs the next one waits for that.
#[test]
fn nobody_is_refused_while_a_zone_is_being_finished() {
    for (seed, active, kind) in
        (0..3).flat_map(|seed| [(seed, 4, AreaKind::Values), (seed, 8, AreaKind::Values), (seed, 8, AreaKind::Log)])
    {
        sim::run(seed, || {
            let geometry = Geometry::new(256 << 10, 64).with_limits(active, active);
            let device = Arc::new(Faulty::new(MemDevice::new(geometry).unwrap(), 1));
            let effect = FaultEffect::Delay(std::time::Duration::from_micros(20));
            let (call, when) = (Some(DeviceCall::Finish), FaultWhen::From(1));
            device.inject(Fault { call, zone: None, when, effect });
            let toy = Arc::new(Toy::new(create(&device)));
            let done = Arc::new(AtomicBool::new(false));
            let pump = |thread: u64| {
                let (toy, done) = (Arc::clone(&toy), Arc::clone(&done));
                spawn(format!("pump {thread}"), move || {
                    while !done.load(Ordering::Relaxed) {
                        toy.pump().unwrap();
                        zonda_rt::sleep(std::time::Duration::from_micros(2));
                    }
                })
            };
            let pumps: Vec<_> = (0..3).map(pump).collect();
            let mut rng = Rng::seeded(seed);
            let area = toy.store.area(kind);
            for n in 0..80 {
                let bytes = usize::try_from(rng.below(60_000)).unwrap();
                let appended = area.append(&vec![7; bytes]);
                assert!(appended.is_ok(), "{kind:?}, {active} active, seed {seed}: {n} appended, then {appended:?}");
            }
            done.store(true, Ordering::Relaxed);
            pumps.into_iter().for_each(|pump| pump.join().unwrap());
        });
    }
}

#[test]
fn threads_of_the_operating_system_at_four_active_zones() {
    assert!(run(3, 1500, 4) > 20);
}

#[test]
fn threads_in_virtual_time() {
    for seed in 0..12 {
        let resets = sim::run(seed, || run(3, 400, if seed % 2 == 0 { 8 } else { 4 }));
        assert!(resets > 0, "seed {seed}: {resets} resets");
    }
}

#[test]
fn a_writer_that_waits_for_space_wakes_when_reclaim_makes_some() {
    for seed in 0..8 {
        sim::run(seed, || {
            let toy = Arc::new(Toy::new(create(&device_of(40, 8))));
            let mut written = 0;
            for n in 0.. {
                match toy.put_without_waiting(id(n % PAGES), n) {
                    Ok(()) => written = n,
                    Err(_) => break,
                }
            }
            assert!(toy.store.is_short() && written > PAGES);
            let waiting = {
                let toy = Arc::clone(&toy);
                spawn("writer", move || {
                    common::admit(&*toy.store, 1).unwrap();
                    toy.put_at(zonda_pages::Heat::Hot, id(0), 1 << 40, 1).unwrap();
                })
            };
            zonda_rt::sleep(std::time::Duration::from_millis(100));
            toy.reclaim();
            waiting.join().unwrap();
            toy.check_all();
        });
    }
}

#[test]
fn a_writer_that_waits_for_space_is_refused_when_reclaim_fails() {
    for seed in 0..8 {
        sim::run(seed, || {
            let device = Arc::new(PowerCut::new(Geometry::new(256 << 10, 40).with_limits(8, 8)).unwrap());
            let toy = Arc::new(Toy::new(create(&device)));
            (0..).find(|&n| toy.put_without_waiting(id(n % PAGES), n).is_err()).unwrap();
            let waiting = {
                let toy = Arc::clone(&toy);
                spawn("writer", move || common::admit(&*toy.store, 1).is_err())
            };
            zonda_rt::sleep(std::time::Duration::from_millis(100));
            device.cut();
            (0..1000).find(|_| toy.store.reclaim_step(&*toy).is_err()).unwrap();
            assert!(waiting.join().unwrap(), "refused");
        });
    }
}

#[test]
fn threads_in_virtual_time_over_failing_zones() {
    for seed in 0..6 {
        sim::run(seed, || {
            let geometry = Geometry::new(256 << 10, 60).with_limits(8, 8);
            let device = Arc::new(Faulty::new(MemDevice::new(geometry).unwrap(), seed));
            let toy = Arc::new(Toy::new(create(&device)));
            let effect = FaultEffect::Torn { blocks: seed % 3 };
            device.inject(Fault { call: Some(DeviceCall::Write), zone: None, when: FaultWhen::Chance(0.03), effect });
            let writers: Vec<_> = (1..4)
                .map(|thread| {
                    let toy = Arc::clone(&toy);
                    spawn(format!("writer {thread}"), move || {
                        // Each thread its own pages, so that each knows what it reads.
                        for n in 0..250 {
                            let page = id(thread * 1000 + n % 60);
                            toy.put(page, n, 1 + n % 2).unwrap();
                            toy.check(page);
                            if n % 20 == 19 {
                                toy.settle().unwrap();
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert!(device.injected() > 0);
            toy.settle().unwrap();
            toy.check_all();
            let live: u64 = toy.leaves.lock().values().map(|leaf| leaf.at.len_bytes()).sum();
            assert_eq!(toy.store.usage().live_page_bytes, live, "seed {seed}");
        });
    }
}
