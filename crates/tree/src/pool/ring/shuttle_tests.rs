//! Evictions of one ring under many schedules.

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

#[test]
fn the_head_moves_in_order_whatever_the_order_in_which_evictions_finish() {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(SCHEDULES), config).run(evictions_finish_out_of_order);
}
