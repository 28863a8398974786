//! Stripes on every back end.

mod common;

use std::sync::Arc;

use common::on_each_backend;
use zonda_rt::stripes::sort_indexes;
use zonda_rt::{Mutex, Stripes, spawn, yield_now};

#[test]
fn writers_of_one_key_take_turns() {
    on_each_backend(|| {
        let shared = Arc::new((Stripes::new(4), Mutex::new(0)));
        let add = |shared: Arc<(Stripes, Mutex<u32>)>| {
            move || {
                for _ in 0..5 {
                    let _guard = shared.0.lock(17);
                    let before = *shared.1.lock();
                    yield_now();
                    *shared.1.lock() = before + 1;
                }
            }
        };
        let threads: Vec<_> = (0..3).map(|i| spawn(format!("writer {i}"), add(Arc::clone(&shared)))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*shared.1.lock(), 15);
    });
}

#[test]
fn batches_of_several_stripes_do_not_deadlock() {
    on_each_backend(|| {
        let stripes = Arc::new(Stripes::new(8));
        let lock = |stripes: Arc<Stripes>, first: usize| {
            move || {
                for round in 0..5 {
                    let mut indexes = vec![(first + round) % 8, first, 3, 3, (first * 5) % 8];
                    sort_indexes(&mut indexes);
                    let _guard = stripes.lock_many(indexes);
                    yield_now();
                }
            }
        };
        let threads: Vec<_> = (1..4).map(|i| spawn(format!("batch {i}"), lock(Arc::clone(&stripes), i))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let all: Vec<usize> = (0..stripes.count()).collect();
        drop(stripes.lock_many(all.as_slice()));
    });
}

#[test]
fn a_held_stripe_is_not_taken_and_a_guard_releases_all_its_own() {
    on_each_backend(|| {
        let stripes = Stripes::new(2);
        let hash_of = |index| (0..).find(|&hash| stripes.index(hash) == index).unwrap();
        let both = stripes.lock_many(vec![0, 1]);
        assert!(stripes.try_lock(hash_of(0)).is_none());
        assert!(stripes.try_lock(hash_of(1)).is_none());
        drop(both);
        let zero = stripes.try_lock(hash_of(0)).unwrap();
        assert!(stripes.try_lock(hash_of(1)).is_some());
        drop(zero);
        drop(stripes.lock(hash_of(0)));
    });
}

#[cfg(not(feature = "shuttle"))]
#[test]
#[should_panic(expected = "must ascend")]
fn unsorted_indexes_are_refused() {
    drop(Stripes::new(4).lock_many(vec![2, 1]));
}

#[cfg(not(feature = "shuttle"))]
#[test]
#[should_panic(expected = "not a power of two")]
fn a_count_that_is_no_power_of_two_is_refused() {
    drop(Stripes::new(3));
}

#[cfg(not(feature = "shuttle"))]
#[test]
fn neighbouring_hashes_spread() {
    let stripes = Stripes::new(64);
    let used: std::collections::BTreeSet<usize> = (0..1_000).map(|hash| stripes.index(hash)).collect();
    assert_eq!(used.len(), 64);
}
