//! Values of which each thread has a copy, on every back end.

mod common;

use std::sync::Arc;

use common::on_each_backend;
use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_rt::{PerThread, spawn};

/// More than there are copies, so that some are shared.
const THREADS: u64 = 20;

#[test]
fn nothing_that_threads_count_is_lost() {
    on_each_backend(|| {
        let counts = Arc::new(PerThread::<AtomicU64>::default());
        let threads: Vec<_> = (0..THREADS)
            .map(|nth| {
                let counts = Arc::clone(&counts);
                spawn(format!("counter {nth}"), move || {
                    for _ in 0..100 {
                        counts.mine().fetch_add(nth, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(counts.sum(|count| count.load(Ordering::Relaxed)), 100 * (0..THREADS).sum::<u64>());
    });
}
