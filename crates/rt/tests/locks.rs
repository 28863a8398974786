//! Mutexes, reader-writer locks and condition variables on every back end.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::on_each_backend;
use zonda_rt::{Condvar, Mutex, RwLock, spawn, yield_now};

#[test]
fn a_mutex_excludes() {
    on_each_backend(|| {
        let total = Arc::new(Mutex::new(0));
        let add = |total: Arc<Mutex<u32>>| {
            move || {
                for _ in 0..10 {
                    let mut total = total.lock();
                    let before = *total;
                    yield_now();
                    *total = before + 1;
                }
            }
        };
        let threads: Vec<_> = (0..3).map(|i| spawn(format!("adder {i}"), add(Arc::clone(&total)))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*total.lock(), 30);
    });
}

#[test]
fn try_lock_fails_while_held_and_the_value_comes_out() {
    on_each_backend(|| {
        let mut mutex = Mutex::new(1);
        let guard = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(guard);
        *mutex.try_lock().unwrap() += 1;
        *mutex.get_mut() += 1;
        assert_eq!(mutex.into_inner(), 3);
    });
}

#[cfg(not(feature = "shuttle"))]
#[test]
fn a_panic_does_not_poison() {
    let mutex = Arc::new(Mutex::new(7));
    let held = Arc::clone(&mutex);
    let failed = spawn("holder", move || {
        let _guard = held.lock();
        panic!("while holding the lock");
    });
    assert!(failed.join().is_err());
    assert_eq!(*mutex.lock(), 7);
}

#[test]
fn readers_share_and_writers_do_not() {
    on_each_backend(|| {
        let lock = Arc::new(RwLock::new((0, 0)));
        let first = lock.read();
        assert!(lock.try_write().is_none());
        let second = Arc::clone(&lock);
        let reader = spawn("second reader", move || second.try_read().is_some());
        assert_eq!(reader.join(), Ok(true));
        drop(first);
        lock.try_write().unwrap().0 = 5;
        assert!(lock.write().0 == 5);
        let mut lock = Arc::into_inner(lock).unwrap();
        lock.get_mut().1 = 6;
        assert_eq!(lock.into_inner(), (5, 6));
    });
}

#[test]
fn readers_never_see_half_a_write() {
    on_each_backend(|| {
        let lock = Arc::new(RwLock::new((0, 0)));
        let written = Arc::clone(&lock);
        let writer = spawn("writer", move || {
            for value in 1..10 {
                let mut pair = written.write();
                pair.0 = value;
                yield_now();
                pair.1 = value;
            }
        });
        for _ in 0..10 {
            let pair = lock.read();
            assert_eq!(pair.0, pair.1);
            drop(pair);
            yield_now();
        }
        writer.join().unwrap();
        assert_eq!(*lock.read(), (9, 9));
    });
}

#[test]
fn a_waiter_is_woken() {
    on_each_backend(|| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let setter = Arc::clone(&shared);
        let thread = spawn("setter", move || {
            *setter.0.lock() = true;
            setter.1.notify_one();
        });
        let ready = shared.1.wait_while(shared.0.lock(), |ready| !*ready);
        assert!(*ready);
        drop(ready);
        thread.join().unwrap();
    });
}

#[test]
fn notify_all_wakes_everybody() {
    on_each_backend(|| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let wait = |shared: Arc<(Mutex<bool>, Condvar)>| move || drop(shared.1.wait_while(shared.0.lock(), |go| !*go));
        let threads: Vec<_> = (0..3).map(|i| spawn(format!("waiter {i}"), wait(Arc::clone(&shared)))).collect();
        *shared.0.lock() = true;
        shared.1.notify_all();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_wait_times_out() {
    on_each_backend(|| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let (guard, timed_out) = condvar.wait_timeout(mutex.lock(), Duration::from_millis(1));
        assert!(timed_out);
        drop(guard);
    });
}

#[cfg(not(feature = "shuttle"))]
#[test]
fn a_wait_for_a_condition_lasts_its_whole_timeout() {
    on_each_backend(|| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let start = zonda_rt::now();
        let (guard, still) = condvar.wait_timeout_while(mutex.lock(), Duration::from_millis(2), |_| true);
        assert!(still);
        drop(guard);
        assert!(zonda_rt::now().since(start) >= Duration::from_millis(2));
    });
}
