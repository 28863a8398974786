//! A reader-writer lock without poisoning.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use crate::backend;
use crate::mutex::Released;
use crate::sim::{self, Key, Op};

/// Many readers or one writer; like std's but never poisoned and owned by the simulator inside a
/// simulation.
///
/// Whether waiting writers keep new readers out depends on the back end: a thread must not
/// read-lock it twice.
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    inner: backend::RwLock<T>,
}

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { inner: backend::RwLock::new(value) }
    }

    /// The value, consuming the lock.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer holds the lock and shares it.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let taken = self.take_simulated(Op::Read, Self::try_read_raw);
        taken.unwrap_or_else(|| self.read_guard(self.inner.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Waits until nobody holds the lock and takes it alone.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let taken = self.take_simulated(Op::Write, Self::try_write_raw);
        taken.unwrap_or_else(|| self.write_guard(self.inner.write().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Shares the lock unless a writer holds it.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        sim::point(Op::TryLock);
        self.try_read_raw()
    }

    /// Takes the lock alone if nobody holds it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        sim::point(Op::TryLock);
        self.try_write_raw()
    }

    /// The value; no locking, as the borrow proves that nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inside a simulation, tries until `take` succeeds; `None` tells the caller to take it from
    /// the back end.
    #[inline]
    #[track_caller]
    fn take_simulated<'a, G>(&'a self, wait: Op, take: impl Fn(&'a Self) -> Option<G>) -> Option<G> {
        if !sim::possible() {
            return None;
        }
        let sim::Entry::Inside(here) = sim::enter() else {
            return None;
        };
        here.point(Op::Lock);
        loop {
            let taken = take(self);
            if taken.is_some() || here.block(wait, self.key(), None) == sim::Woken::Ended {
                return taken;
            }
        }
    }

    fn try_read_raw(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.inner.try_read() {
            Ok(inner) => Some(self.read_guard(inner)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.read_guard(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn try_write_raw(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.inner.try_write() {
            Ok(inner) => Some(self.write_guard(inner)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.write_guard(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn read_guard<'a>(&self, inner: backend::RwLockReadGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard { inner, _released: Released(self.key()) }
    }

    fn write_guard<'a>(&self, inner: backend::RwLockWriteGuard<'a, T>) -> RwLockWriteGuard<'a, T> {
        RwLockWriteGuard { inner, _released: Released(self.key()) }
    }

    fn key(&self) -> Key {
        Key::address(self)
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}

/// Proof that the lock is shared; dropping it releases the share.
#[must_use = "dropping the guard releases the lock at once"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // The order matters: fields drop in this order, and the simulator is told after the release.
    inner: backend::RwLockReadGuard<'a, T>,
    _released: Released,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

/// Proof that the lock is held alone; dropping it releases the lock.
#[must_use = "dropping the guard releases the lock at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    // The order matters: see `RwLockReadGuard`.
    inner: backend::RwLockWriteGuard<'a, T>,
    _released: Released,
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
