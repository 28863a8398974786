//! Condition variables.

use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use crate::backend;
use crate::mutex::{Mutex, MutexGuard};
use crate::sim::{self, Key, Op, Woken};
use crate::time::now;

/// A place to wait for a change of what a [`Mutex`] guards.
///
/// A wait may end without a notification, so callers loop over their condition. Which of several
/// waiters [`notify_one`](Condvar::notify_one) wakes is not defined; the simulator chooses by its
/// seed.
#[derive(Default)]
pub struct Condvar {
    inner: backend::Condvar,
}

impl Condvar {
    /// A condition variable that nobody waits for.
    pub const fn new() -> Self {
        Self { inner: backend::Condvar::new() }
    }

    /// Releases the lock, waits for a notification and takes the lock again.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        if sim::possible() {
            match sim::enter() {
                sim::Entry::Inside(here) => return self.wait_simulated(guard, &here, None).0,
                sim::Entry::Ended => return wait_ended(guard),
                sim::Entry::Outside => {}
            }
        }
        let MutexGuard { inner, mutex, released } = guard;
        let inner = self.inner.wait(inner).unwrap_or_else(PoisonError::into_inner);
        MutexGuard { inner, mutex, released }
    }

    /// As [`wait`](Condvar::wait), but for at most `timeout`; the flag is true if the time ran out.
    ///
    /// Under shuttle, which has no time, every such wait may run out at once.
    #[track_caller]
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        if sim::possible() {
            match sim::enter() {
                sim::Entry::Inside(here) => {
                    return self.wait_simulated(guard, &here, Some(timeout));
                }
                sim::Entry::Ended => return (wait_ended(guard), true),
                sim::Entry::Outside => {}
            }
        }
        self.wait_timeout_raw(guard, timeout)
    }

    /// Waits while `condition` holds.
    #[track_caller]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// Waits while `condition` holds, for at most `timeout`; the flag is true if it still holds.
    #[track_caller]
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, bool) {
        let deadline = now() + timeout;
        while condition(&mut guard) {
            let left = deadline.since(now());
            if left.is_zero() {
                return (guard, true);
            }
            guard = self.wait_timeout(guard, left).0;
        }
        (guard, false)
    }

    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        sim::notify(self.key(), false);
        self.inner.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        sim::notify(self.key(), true);
        self.inner.notify_all();
    }

    /// The scheduling point stands before the release: a notification sent without the lock may be
    /// missed here, as it may on a real machine. Between release and wait there is none, as `wait`
    /// is atomic.
    #[cold]
    #[track_caller]
    fn wait_simulated<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        here: &sim::Here,
        timeout: Option<Duration>,
    ) -> (MutexGuard<'a, T>, bool) {
        here.point(Op::Wait);
        let MutexGuard { inner, mutex, released } = guard;
        drop(inner);
        std::mem::forget(released);
        here.wake_all(mutex.key());
        let woken = here.block(Op::Wait, self.key(), timeout);
        (mutex.lock_inside(here), woken == Woken::TimedOut)
    }

    #[cfg(not(feature = "shuttle"))]
    fn wait_timeout_raw<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        let MutexGuard { inner, mutex, released } = guard;
        let (inner, result) = self.inner.wait_timeout(inner, timeout).unwrap_or_else(PoisonError::into_inner);
        (MutexGuard { inner, mutex, released }, result.timed_out())
    }

    /// shuttle's own never times out, which would turn every timer thread into a deadlock.
    #[cfg(feature = "shuttle")]
    fn wait_timeout_raw<'a, T>(&self, guard: MutexGuard<'a, T>, _timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        let mutex = guard.mutex;
        drop(guard);
        crate::yield_now();
        (mutex.lock(), true)
    }

    fn key(&self) -> Key {
        Key::address(self)
    }
}

/// A wait in a destructor after the simulation ended: let the others unwind, then return for no
/// reason.
fn wait_ended<T>(guard: MutexGuard<'_, T>) -> MutexGuard<'_, T> {
    let mutex: &Mutex<T> = guard.mutex;
    drop(guard);
    sim::pause_ended();
    mutex.lock()
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
