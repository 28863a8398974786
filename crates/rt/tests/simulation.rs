//! The simulator: determinism, virtual time, deadlocks, panics.
#![cfg(not(feature = "shuttle"))]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use zonda_rt::sim::{self, Options};
use zonda_rt::{
    Condvar, DeviceCall, Mutex, Spin, Time, channel, device_call, now, sleep, spawn, spin_wait, thread_ordinal,
    yield_now,
};

/// Three threads write their names with locks, sleeps and device calls; the order is the
/// interleaving.
fn interleaving() -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let work = |order: Arc<Mutex<Vec<usize>>>, me: usize| {
        move || {
            for round in 0..10 {
                order.lock().push(me);
                if round % 3 == me {
                    sleep(Duration::from_micros(5));
                }
                device_call(DeviceCall::Write, || order.lock().push(10 + me));
            }
        }
    };
    let threads: Vec<_> = (0..3).map(|me| spawn(format!("writer {me}"), work(Arc::clone(&order), me))).collect();
    for thread in threads {
        thread.join().expect("writers do not panic");
    }
    order.lock().clone()
}

/// The message of the panic that `f` must raise.
fn panic_of(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("a panic was expected");
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("a message")
}

#[test]
fn the_same_seed_gives_the_same_interleaving() {
    for seed in 0..20 {
        let runs: BTreeSet<_> = (0..3)
            .map(|_| {
                let order = sim::run(seed, interleaving);
                (order, sim::trace_hash())
            })
            .collect();
        assert_eq!(runs.len(), 1, "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_interleavings() {
    let traces: BTreeSet<u64> = (0..50)
        .map(|seed| {
            sim::run(seed, interleaving);
            sim::trace_hash()
        })
        .collect();
    let orders: BTreeSet<_> = (0..50).map(|seed| sim::run(seed, interleaving)).collect();
    assert_eq!(traces.len(), 50);
    assert!(orders.len() > 40, "{} of 50", orders.len());
}

#[test]
fn simulations_run_side_by_side_without_meeting() {
    let alone: Vec<_> = (0..4).map(|seed| sim::run(seed, interleaving)).collect();
    let threads: Vec<_> = (0..4).map(|seed| spawn("runner", move || sim::run(seed, interleaving))).collect();
    for (seed, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), alone[seed], "seed {seed}");
    }
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    for seed in 0..20 {
        let order = sim::run(seed, || {
            let order = Arc::new(Mutex::new(Vec::new()));
            let doze = |order: Arc<Mutex<Vec<u64>>>, seconds| {
                move || {
                    sleep(Duration::from_secs(seconds));
                    order.lock().push(seconds);
                }
            };
            let threads: Vec<_> = [30, 10, 20].map(|s| spawn(format!("{s} s"), doze(Arc::clone(&order), s))).into();
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(now() >= Time::ZERO + Duration::from_secs(30));
            assert!(now() < Time::ZERO + Duration::from_secs(31));
            order.lock().clone()
        });
        assert_eq!(order, [10, 20, 30], "seed {seed}");
    }
}

#[test]
fn a_condition_variable_times_out_in_virtual_time_or_is_notified_before() {
    sim::run(1, || {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let start = now();
        let (guard, timed_out) = shared.1.wait_timeout(shared.0.lock(), Duration::from_secs(5));
        drop(guard);
        assert!(timed_out);
        assert!(now().since(start) >= Duration::from_secs(5));

        let notifier = Arc::clone(&shared);
        let thread = spawn("notifier", move || {
            sleep(Duration::from_secs(1));
            *notifier.0.lock() = true;
            notifier.1.notify_all();
        });
        let start = now();
        let ready = |ready: &mut bool| !*ready;
        let (guard, timed_out) = shared.1.wait_timeout_while(shared.0.lock(), Duration::from_secs(5), ready);
        assert!(*guard && !timed_out);
        drop(guard);
        assert!(now().since(start) < Duration::from_secs(2));
        thread.join().unwrap();
    });
}

#[test]
fn a_device_call_takes_time_and_lets_others_see_before_and_after() {
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        seen.insert(sim::run(seed, || {
            let done = Arc::new(AtomicBool::new(false));
            let written = Arc::clone(&done);
            let start = now();
            let writer = spawn("writer", move || {
                device_call(DeviceCall::Flush, || written.store(true, Ordering::Relaxed));
                now().since(start)
            });
            sleep(Duration::from_micros(100));
            let early = done.load(Ordering::Relaxed);
            let took = writer.join().unwrap();
            assert!(took >= Duration::from_micros(100) && took < Duration::from_micros(310), "{took:?}");
            assert!(done.load(Ordering::Relaxed));
            early
        }));
    }
    assert_eq!(seen.len(), 2, "both orders should occur");
}

#[test]
fn a_deadlock_is_found_and_everybody_is_named() {
    let deadlock = || {
        sim::run(77, || {
            let locks = Arc::new((Mutex::new(()), Mutex::new(())));
            let others = Arc::clone(&locks);
            let thread = spawn("crossing", move || {
                let _second = others.1.lock();
                sleep(Duration::from_micros(50));
                let _first = others.0.lock();
            });
            let _first = locks.0.lock();
            sleep(Duration::from_micros(50));
            let _second = locks.1.lock();
            thread.join().unwrap();
        });
    };
    let report = panic_of(deadlock);
    for part in ["seed 77", "deadlock", "thread 0 'main'", "thread 1 'crossing'", "waits for a mutex", "simulation.rs:"]
    {
        assert!(report.contains(part), "no {part:?} in: {report}");
    }
    assert_eq!(report, panic_of(deadlock), "reports replay");
}

#[test]
fn waiting_for_a_thread_that_waits_for_ever_names_the_line() {
    let report = panic_of(|| {
        sim::run(3, || {
            let (sender, receiver) = channel::bounded::<u32>(1);
            let thread = spawn("consumer", move || receiver.recv());
            let _ = thread.join();
            drop(sender);
        });
    });
    assert!(report.contains("waits for the end of thread 1 'consumer'"), "{report}");
    assert!(report.contains("waits for a condition variable"), "{report}");
    assert!(report.contains("simulation.rs:") && !report.contains("channel.rs:"), "the caller's line: {report}");
}

#[test]
fn a_lost_wakeup_is_found_by_some_seed() {
    let lost = (0..100).filter(|&seed| {
        let run = || {
            sim::run(seed, || {
                let shared = Arc::new((AtomicBool::new(false), Mutex::new(()), Condvar::new()));
                let setter = Arc::clone(&shared);
                let thread = spawn("setter", move || {
                    // The bug: the flag changes and the notification goes out without the lock.
                    setter.0.store(true, Ordering::SeqCst);
                    setter.2.notify_all();
                });
                let mut guard = shared.1.lock();
                while !shared.0.load(Ordering::SeqCst) {
                    guard = shared.2.wait(guard);
                }
                drop(guard);
                thread.join().unwrap();
            })
        };
        catch_unwind(run).is_err()
    });
    assert!(lost.count() > 0, "no seed of 100 loses the wake-up");
}

#[test]
fn spinning_for_ever_is_a_livelock() {
    let report = panic_of(|| {
        sim::run(4, || {
            let mut spin = Spin::new();
            loop {
                spin_wait(&mut spin);
            }
        });
    });
    assert!(report.contains("livelock"), "{report}");
}

#[test]
fn polling_for_longer_than_a_livelock_takes_is_none_if_somebody_sleeps() {
    sim::run(4, || {
        let thread = spawn("sleeper", || sleep(Duration::from_secs(2)));
        let deadline = now() + Duration::from_secs(2);
        while now() < deadline {
            yield_now();
        }
        thread.join().unwrap();
        for _ in 0..500_000 {
            yield_now();
        }
    });
}

#[test]
fn the_time_limit_ends_a_wait_beside_a_ticking_timer() {
    let report = panic_of(|| {
        let options = Options { time_limit: Duration::from_secs(1), ..Options::seeded(5) };
        sim::run_with(&options, || {
            spawn("timer", || {
                loop {
                    sleep(Duration::from_millis(1));
                }
            });
            let mutex = Mutex::new(());
            drop(Condvar::new().wait(mutex.lock()));
        });
    });
    assert!(report.contains("limit of virtual time") && report.contains("'timer'"), "{report}");
}

#[test]
fn polling_an_atomic_with_spin_wait_ends() {
    sim::run(6, || {
        sim::schedule_probability(0.0);
        let flag = Arc::new(AtomicBool::new(false));
        let setter = Arc::clone(&flag);
        let thread = spawn("setter", move || {
            sleep(Duration::from_millis(3));
            setter.store(true, Ordering::Release);
        });
        let mut spin = Spin::new();
        while !flag.load(Ordering::Acquire) {
            spin_wait(&mut spin);
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_panic_in_any_thread_comes_out_of_run_after_all_threads_are_gone() {
    struct Gone(Arc<AtomicUsize>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for seed in 0..20 {
        let gone = Arc::new(AtomicUsize::new(0));
        let message = panic_of(|| {
            sim::run(seed, || {
                let mutex = Arc::new((Mutex::new(()), Condvar::new()));
                for index in 0..3 {
                    let (mutex, gone) = (Arc::clone(&mutex), Gone(Arc::clone(&gone)));
                    spawn(format!("waiter {index}"), move || {
                        let _gone = gone;
                        let guard = mutex.1.wait(mutex.0.lock());
                        drop(guard);
                    });
                }
                spawn("faller", || {
                    sleep(Duration::from_micros(1));
                    panic!("the faller fell");
                });
                drop(mutex.1.wait(mutex.0.lock()));
            });
        });
        assert_eq!(message, "the faller fell", "seed {seed}");
        assert_eq!(gone.load(Ordering::SeqCst), 3, "seed {seed}");
        assert!(!sim::active());
    }
}

#[test]
fn destructors_may_wait_for_threads_while_a_panic_unwinds() {
    struct Service {
        stop: channel::Sender<()>,
        thread: Option<zonda_rt::JoinHandle<()>>,
    }
    impl Drop for Service {
        fn drop(&mut self) {
            self.stop.send(()).expect("the service listens");
            self.thread.take().expect("joined once").join().expect("the service does not panic");
        }
    }
    let message = panic_of(|| {
        sim::run(8, || {
            let (stop, stopped) = channel::bounded(1);
            let thread = Some(spawn("service", move || stopped.recv().unwrap_or(())));
            let _service = Service { stop, thread };
            panic!("the user's code fell");
        });
    });
    assert_eq!(message, "the user's code fell");
}

#[test]
fn threads_left_over_end_with_the_first() {
    let ticks = Arc::new(AtomicUsize::new(0));
    let ticked = Arc::clone(&ticks);
    let result = sim::run(9, || {
        spawn("ticker", move || {
            loop {
                sleep(Duration::from_millis(1));
                ticked.fetch_add(1, Ordering::Relaxed);
            }
        });
        sleep(Duration::from_millis(100));
        "done"
    });
    assert_eq!(result, "done");
    assert!((90..=100).contains(&ticks.load(Ordering::Relaxed)));
    assert_eq!(Arc::strong_count(&ticks), 1, "the ticker is gone");
}

#[test]
fn a_thread_can_be_asked_where_it_is() {
    assert!(!sim::active());
    assert_eq!(sim::seed(), None);
    sim::run(11, || {
        assert!(sim::active());
        assert_eq!(sim::seed(), Some(11));
        assert_eq!(thread_ordinal(), 0);
        assert_eq!(spawn("second", thread_ordinal).join(), Ok(1));
    });
    assert!(panic_of(|| sim::run(1, || sim::run(2, || ()))).contains("do not nest"));
}
