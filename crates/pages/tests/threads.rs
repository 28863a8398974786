//! Many threads place, pump, read and reclaim at a time: on the operating system, and in virtual time from seeds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::sync::Arc;

use common::{Toy, create, device_of, id};
use zonda_pages::{AreaKind, PageStore};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{Rng, sim, spawn};

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
