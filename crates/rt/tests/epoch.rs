//! Epochs on every back end: nothing is reused under a reader.

mod common;

use std::sync::Arc;

use common::on_each_backend;
use zonda_rt::atomic::{AtomicBool, AtomicUsize, Ordering};
use zonda_rt::{Epoch, spawn, yield_now};

#[test]
fn a_ticket_waits_for_older_guards_only() {
    on_each_backend(|| {
        let epoch = Epoch::new();
        let older = epoch.pin();
        let ticket = epoch.advance();
        let newer = epoch.pin();
        assert!(!epoch.has_drained(ticket));
        drop(older);
        assert!(epoch.has_drained(ticket));
        let second = epoch.advance();
        assert!(second > ticket);
        assert!(!epoch.has_drained(second));
        drop(newer);
        epoch.wait_drained(second);
    });
}

#[test]
fn guards_may_outnumber_slots() {
    on_each_backend(|| {
        let epoch = Epoch::with_slots(2);
        let mut guards: Vec<_> = (0..9).map(|_| epoch.pin()).collect();
        let ticket = epoch.advance();
        guards.push(epoch.pin());
        while let Some(guard) = guards.pop() {
            assert!(!epoch.has_drained(ticket));
            drop(guard);
        }
        assert!(epoch.has_drained(ticket));
    });
}

/// Of many guards that overlap, each new one joins those that are newest: what was before all of them drains.
#[test]
fn guards_that_always_outnumber_slots_let_older_ones_drain() {
    on_each_backend(|| {
        let epoch = Epoch::with_slots(2);
        let old = [epoch.pin(), epoch.pin(), epoch.pin()];
        let ticket = epoch.advance();
        let [first, second, third] = old;
        drop((first, second));
        let newer = [epoch.pin(), epoch.pin(), epoch.pin()];
        assert!(!epoch.has_drained(ticket));
        drop(third);
        assert!(epoch.has_drained(ticket), "a newer guard holds back what an older one did");
        drop(newer);
    });
}

/// A block is reused by its writer only after the ticket drained: no reader may find it reused.
#[test]
fn nothing_is_reused_under_a_reader() {
    const BLOCKS: usize = 4;
    struct Store {
        epoch: Epoch,
        current: AtomicUsize,
        reused: [AtomicBool; BLOCKS],
    }
    on_each_backend(|| {
        let store =
            Arc::new(Store { epoch: Epoch::with_slots(2), current: AtomicUsize::new(0), reused: Default::default() });
        let read = |store: Arc<Store>| {
            move || {
                for _ in 0..6 {
                    let _guard = store.epoch.pin();
                    let block = store.current.load(Ordering::Acquire);
                    yield_now();
                    assert!(!store.reused[block].load(Ordering::Relaxed), "block {block} reused under a reader");
                }
            }
        };
        let readers: Vec<_> = (0..3).map(|i| spawn(format!("reader {i}"), read(Arc::clone(&store)))).collect();
        for block in 1..BLOCKS {
            let old = store.current.swap(block, Ordering::AcqRel);
            store.epoch.wait_drained(store.epoch.advance());
            store.reused[old].store(true, Ordering::Relaxed);
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn garbage_is_dropped_once_readers_are_gone_and_is_accounted() {
    struct Counted(Arc<std::sync::atomic::AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    on_each_backend(|| {
        let drops = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let epoch = Epoch::new();
        let guard = epoch.pin();
        for _ in 0..3 {
            epoch.defer(Box::new(Counted(Arc::clone(&drops))), 100);
        }
        assert_eq!((epoch.collect(), epoch.garbage_bytes()), (0, 300));
        drop(guard);
        assert_eq!((epoch.collect(), epoch.garbage_bytes()), (300, 0));
        assert_eq!(drops.load(Ordering::Relaxed), 3);
        epoch.defer(Box::new(Counted(Arc::clone(&drops))), 100);
        drop(epoch);
        assert_eq!(drops.load(Ordering::Relaxed), 4);
    });
}

#[test]
fn deferring_for_ever_collects_by_itself() {
    on_each_backend(|| {
        let epoch = Epoch::new();
        for _ in 0..200 {
            epoch.defer(Box::new(0u64), 8);
        }
        assert!(epoch.garbage_bytes() <= 64 * 8, "{} bytes", epoch.garbage_bytes());
    });
}

#[test]
fn large_values_are_collected_before_they_are_many() {
    on_each_backend(|| {
        let epoch = Epoch::new();
        for _ in 0..50 {
            // As whoever unlinks does: under a guard, which holds its own value back and no earlier one.
            let guard = epoch.pin();
            epoch.defer(Box::new(0u64), 100_000);
            drop(guard);
            assert!(epoch.garbage_bytes() <= 2 * 100_000, "{} bytes", epoch.garbage_bytes());
        }
    });
}
