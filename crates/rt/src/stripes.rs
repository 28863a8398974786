//! Small latches by hash, for ordering the writers of one key without a latch per key.

use std::borrow::Cow;
use std::fmt;

use crate::atomic::{AtomicU32, Ordering};
use crate::condvar::Condvar;
use crate::mutex::Mutex;
use crate::sim;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody sleeps or is about to.
const CONTENDED: u32 = 2;

/// A power of two of latches, each in cache lines of its own (128 bytes).
///
/// Two keys may share a stripe, so a thread must not lock a second one while it holds one, except
/// all at once by [`lock_many`](Stripes::lock_many). Cost uncontended: one compare-and-swap to
/// lock, one swap to unlock.
pub struct Stripes {
    stripes: Box<[Stripe]>,
}

#[repr(align(128))]
#[derive(Default)]
struct Stripe {
    state: AtomicU32,
    /// Held by a waiter from its last look at `state` until it sleeps, so that no wake-up is lost.
    parking: Mutex<()>,
    woken: Condvar,
}

/// Proof that one or several stripes are held; dropping it releases them.
#[must_use = "dropping the guard releases the stripes at once"]
pub struct Guard<'a> {
    stripes: &'a Stripes,
    indexes: Indexes<'a>,
    /// The first so many of `indexes` are held.
    held: usize,
}

enum Indexes<'a> {
    One(usize),
    Many(Cow<'a, [usize]>),
}

impl Stripes {
    /// `stripes` free latches.
    ///
    /// # Panics
    /// If `stripes` is not a power of two.
    pub fn new(stripes: usize) -> Self {
        assert!(stripes.is_power_of_two(), "{stripes} stripes: not a power of two");
        Self { stripes: (0..stripes).map(|_| Stripe::default()).collect() }
    }

    /// How many stripes there are.
    pub fn count(&self) -> usize {
        self.stripes.len()
    }

    /// The stripe of `hash`. The hash is mixed, so any 64 bits that identify the key will do.
    pub fn index(&self, hash: u64) -> usize {
        let mask = self.stripes.len() as u64 - 1;
        usize::try_from(crate::rng::mix(hash) & mask).expect("below the number of stripes")
    }

    /// Waits for the stripe of `hash` and takes it.
    #[track_caller]
    pub fn lock(&self, hash: u64) -> Guard<'_> {
        let mut guard = Guard { stripes: self, indexes: Indexes::One(self.index(hash)), held: 0 };
        guard.acquire();
        guard
    }

    /// Takes the stripe of `hash` if it is free.
    pub fn try_lock(&self, hash: u64) -> Option<Guard<'_>> {
        let index = self.index(hash);
        sim::point(sim::Op::Latch);
        self.stripes[index].try_take().then(|| Guard { stripes: self, indexes: Indexes::One(index), held: 1 })
    }

    /// Waits for all stripes of `indexes` and takes them, in ascending order, so that two batches
    /// cannot deadlock.
    ///
    /// # Panics
    /// If `indexes` is not strictly ascending ([`sort_indexes`] makes it so) or names a stripe that
    /// does not exist.
    #[track_caller]
    pub fn lock_many<'a>(&'a self, indexes: impl Into<Cow<'a, [usize]>>) -> Guard<'a> {
        let indexes = indexes.into();
        assert!(indexes.is_sorted_by(|a, b| a < b), "lock_many: the indexes must ascend, each once: {indexes:?}");
        let mut guard = Guard { stripes: self, indexes: Indexes::Many(indexes), held: 0 };
        guard.acquire();
        guard
    }
}

/// Brings stripe indexes into the form that [`Stripes::lock_many`] takes: ascending, each once.
pub fn sort_indexes(indexes: &mut Vec<usize>) {
    indexes.sort_unstable();
    indexes.dedup();
}

impl Guard<'_> {
    /// Takes what is not held yet. If the thread unwinds meanwhile, the drop releases exactly what
    /// was taken.
    #[track_caller]
    fn acquire(&mut self) {
        while let Some(&index) = self.indexes.as_slice().get(self.held) {
            self.stripes.stripes[index].take();
            self.held += 1;
        }
    }
}

impl Indexes<'_> {
    fn as_slice(&self) -> &[usize] {
        match self {
            Indexes::One(index) => std::slice::from_ref(index),
            Indexes::Many(indexes) => indexes,
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        for &index in self.indexes.as_slice()[..self.held].iter().rev() {
            self.stripes.stripes[index].give_back();
        }
    }
}

impl Stripe {
    fn try_take(&self) -> bool {
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[track_caller]
    fn take(&self) {
        sim::point(sim::Op::Latch);
        if !self.try_take() {
            self.take_slowly();
        }
    }

    /// Sleeps until the stripe is free. Who took it here leaves it marked contended: others may
    /// sleep.
    #[cold]
    #[track_caller]
    fn take_slowly(&self) {
        let mut parking = self.parking.lock();
        while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
            parking = self.woken.wait(parking);
        }
    }

    fn give_back(&self) {
        if self.state.swap(FREE, Ordering::Release) == CONTENDED {
            // A waiter that saw the stripe held is asleep once we get this lock.
            drop(self.parking.lock());
            self.woken.notify_one();
        }
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("indexes", &self.indexes.as_slice()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Stripes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stripes").field("count", &self.count()).finish_non_exhaustive()
    }
}
