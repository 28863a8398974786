//! Mutual exclusion without poisoning.
//!
//! A panic while a lock is held does not lock others out: our code keeps no half-done state behind
//! a lock that it cannot bear (a failed engine is poisoned explicitly), and a simulator must be
//! able to unwind threads anywhere.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use crate::backend;
use crate::sim::{self, Key, Op};

/// A mutual exclusion lock, like std's but never poisoned and owned by the simulator inside a
/// simulation.
///
/// A lock must not be shared between simulated and other threads. Cost uncontended: one
/// compare-and-swap and one relaxed load to lock, the same to unlock.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    inner: backend::Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self { inner: backend::Mutex::new(value) }
    }

    /// The value, consuming the lock.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the lock is free and takes it. Not reentrant: locking twice in one thread is a
    /// deadlock, which the simulator reports.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if sim::possible() {
            return self.lock_simulated();
        }
        self.lock_raw()
    }

    /// Takes the lock if it is free, else `None` at once.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        sim::point(Op::TryLock);
        self.try_lock_raw()
    }

    /// The value; no locking, as the borrow proves that nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    #[track_caller]
    fn lock_simulated(&self) -> MutexGuard<'_, T> {
        let sim::Entry::Inside(here) = sim::enter() else {
            return self.lock_raw();
        };
        here.point(Op::Lock);
        self.lock_inside(&here)
    }

    /// Takes the lock in a simulation, without a scheduling point unless it is held.
    #[track_caller]
    pub(crate) fn lock_inside(&self, here: &sim::Here) -> MutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock_raw() {
                return guard;
            }
            if here.block(Op::Lock, self.key(), None) == sim::Woken::Ended {
                return self.lock_raw();
            }
        }
    }

    fn lock_raw(&self) -> MutexGuard<'_, T> {
        self.guard(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn try_lock_raw(&self) -> Option<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(self.guard(inner)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.guard(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn guard<'a>(&'a self, inner: backend::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard { inner, mutex: self, released: Released(self.key()) }
    }

    pub(crate) fn key(&self) -> Key {
        Key::address(self)
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// Proof that the lock is held; dropping it releases the lock.
#[must_use = "dropping the guard releases the lock at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    // The order matters: fields drop in this order, and the simulator is told after the release.
    pub(crate) inner: backend::MutexGuard<'a, T>,
    pub(crate) mutex: &'a Mutex<T>,
    pub(crate) released: Released,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Tells the simulator on drop that the lock of this key has just been released.
pub(crate) struct Released(pub(crate) Key);

impl Drop for Released {
    #[inline]
    fn drop(&mut self) {
        if sim::possible() {
            sim::released(self.0);
        }
    }
}
