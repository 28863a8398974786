//! Evictions of one ring, and changes of its limit beside writers and readers, under many schedules.

use std::collections::BTreeSet;

use shuttle::{Config, Runner, scheduler::RandomScheduler};
use zonda_rt::spawn;

use super::*;
use crate::pool::class::class_for;

const SCHEDULES: usize = 500;
const STACK_BYTES: usize = 256 << 10;
const EVICTORS: usize = 3;

/// A ring whose mini-pages are evicted, and the addresses of those that no evictor is done with.
struct Scene {
    ring: Ring,
    class: usize,
    unfinished: Mutex<BTreeSet<u64>>,
}

impl Scene {
    /// With two mini-pages for each evictor.
    fn new() -> Self {
        let (ring, class) = (Ring::new(64 << 10, 10, 4 << 10), class_for(2048));
        let taken = (0..2 * EVICTORS).map(|_| ring.try_take(class, PageId(1)).expect("an empty ring"));
        let unfinished = taken.map(|at| ring.inner.state.lock().address_of(at).expect("in the ring")).collect();
        Self { ring, class, unfinished: Mutex::new(unfinished) }
    }

    /// Claims two mini-pages and finishes the later one first.
    fn evict(&self) {
        let claims = [(); 2].map(|()| self.ring.claim().expect("two for each"));
        for claim in claims.into_iter().rev() {
            // SAFETY: taken from the ring, and claimed by this thread alone.
            unsafe { give(claim.content, self.ring.segment_size()) }
            self.check();
            let address = self.ring.inner.state.lock().address_of(claim.content).expect("in the ring");
            assert!(self.unfinished.lock().remove(&address), "two evictors, one mini-page");
            drop(claim);
            self.check();
        }
    }

    /// The head has passed none that an evictor is not done with.
    fn check(&self) {
        let unfinished = self.unfinished.lock();
        let head = self.ring.inner.state.lock().head;
        assert!(unfinished.first().is_none_or(|first| head <= *first), "head {head}, {unfinished:?}");
    }
}

fn evictions_finish_out_of_order() {
    let scene = Arc::new(Scene::new());
    let evictors: Vec<_> = (0..EVICTORS)
        .map(|name| {
            let scene = Arc::clone(&scene);
            spawn(format!("evictor {name}"), move || scene.evict())
        })
        .collect();
    evictors.into_iter().for_each(|evictor| evictor.join().expect("no panic"));
    {
        let state = scene.ring.inner.state.lock();
        assert_eq!(state.head, state.tail, "the head passed all");
    }
    let at = scene.ring.try_take(scene.class, PageId(2)).expect("an empty ring");
    // SAFETY: just taken, and used by nobody.
    unsafe { give(at, scene.ring.segment_size()) }
}

const LIMITS_KIB: [u64; 4] = [256, 64, 160, 96];
const WRITES: usize = 12;

/// A ring whose limit moves, and the mini-pages that are in it.
struct Moving {
    ring: Ring,
    class: usize,
    taken: Mutex<BTreeSet<usize>>,
}

impl Moving {
    fn add(&self, at: Option<NonNull<u8>>) {
        let address = at.map(|at| at.addr().get());
        assert!(address.is_none_or(|address| self.taken.lock().insert(address)), "nobody else has it");
    }

    /// Evicts one mini-page, if there is one that nobody else evicts.
    fn evict(&self) -> bool {
        let Some(claim) = self.ring.claim() else { return false };
        // One outside may be claimed twice.
        if self.taken.lock().remove(&claim.address()) {
            // SAFETY: taken from the ring, and removed from those taken by this thread alone.
            unsafe { give(claim.content, self.ring.segment_size()) }
        }
        true
    }

    fn write(&self) {
        for _ in 0..WRITES {
            while self.ring.is_over() && self.evict() {}
            self.add(Some(self.ring.take(self.class, PageId(1))));
        }
    }

    fn read(&self) {
        for _ in 0..WRITES {
            if self.ring.is_over_for_readers() {
                self.ring.want_room();
            } else {
                self.add(self.ring.try_take(self.class, PageId(2)));
            }
        }
    }

    fn step_in_background(&self) {
        while (self.ring.is_far_over() || self.ring.is_room_wanted()) && self.evict() {}
    }

    fn move_limit(&self) {
        for kib in LIMITS_KIB {
            self.ring.set_limit_bytes(kib << 10);
            self.step_in_background();
        }
    }
}

fn a_limit_moves_beside_writers_and_readers() {
    let ring = Ring::new(128 << 10, 10, 4 << 10);
    let scene = Arc::new(Moving { ring, class: class_for(4096), taken: Mutex::new(BTreeSet::new()) });
    let tasks: [(&str, fn(&Moving)); 4] = [
        ("writer", Moving::write),
        ("another writer", Moving::write),
        ("reader", Moving::read),
        ("limit", Moving::move_limit),
    ];
    let threads = tasks.map(|(name, task)| {
        let scene = Arc::clone(&scene);
        spawn(name.to_owned(), move || task(&scene))
    });
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let inner = &scene.ring.inner;
    scene.step_in_background();
    let (span_bytes, span_max) = (inner.span_bytes.load(Ordering::Relaxed), inner.span_max());
    assert!(!scene.ring.is_far_over() && span_bytes <= span_max + span_max / FAR_SHARE, "{span_bytes} of {span_max}");
    while scene.evict() {}
    assert!(scene.taken.lock().is_empty(), "none is forgotten");
    let left = [&inner.span_bytes, &inner.taken].map(|bytes| bytes.load(Ordering::Relaxed));
    assert_eq!((left, inner.ceiling()), ([0, 0], inner.span_max()), "all passed, and the ceiling is the limit");
}

#[test]
fn the_ring_follows_its_limit_and_keeps_every_mini_page() {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(SCHEDULES), config).run(a_limit_moves_beside_writers_and_readers);
}

#[test]
fn the_head_moves_in_order_whatever_the_order_in_which_evictions_finish() {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(SCHEDULES), config).run(evictions_finish_out_of_order);
}
