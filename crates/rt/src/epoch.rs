//! Waiting until every reader that could still see something has gone: for zone resets, block
//! reuse, leaf ids and immutable inner nodes.
//!
//! A reader [`pin`](Epoch::pin)s before it takes an address or a pointer and drops the guard after
//! its last use. Who removes something first unlinks it, then calls [`advance`](Epoch::advance),
//! and reuses it once [`has_drained`](Epoch::has_drained) says that no guard is left from before.
//! Readers never wait.
//!
//! Why it is safe (E1): a guard publishes its epoch in a slot, then a fence, then reads; a remover
//! unlinks, then advances, then a fence, then reads the slots. Either the remover sees the guard,
//! or the guard's reads see the unlink.

use std::collections::VecDeque;
use std::fmt;

use crate::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::mutex::Mutex;
use crate::sim;
use crate::spin::{Spin, spin_wait};
use crate::thread::thread_ordinal;

/// Guards that can be held at once before they begin to share slots.
const SLOTS: usize = 64;
/// One collection per this many deferred values, so that garbage is bounded by what pinned readers
/// hold back.
const DEFERS_PER_COLLECT: usize = 64;
/// And one per this many deferred bytes: few values may be large.
const BYTES_PER_COLLECT: usize = 32 << 10;
/// A slot is `epoch << COUNT_BITS | guards`; zero is free.
const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Epochs, the guards in them and the garbage that waits for them. 8 KiB, no allocation to pin.
pub struct Epoch {
    /// The epoch of new guards; starts at 1.
    current: AtomicU64,
    /// Every ticket up to this has drained; only grows, so that a ticket once drained stays so.
    drained: AtomicU64,
    slots: Box<[Slot]>,
    garbage: Mutex<Garbage>,
    garbage_bytes: AtomicUsize,
}

/// Two cache lines, as processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Slot(AtomicU64);

#[derive(Default)]
struct Garbage {
    /// Oldest first: tickets ascend.
    queue: VecDeque<Deferred>,
    /// Values and their bytes since the last collection.
    defers: usize,
    defers_bytes: usize,
}

struct Deferred {
    ticket: Ticket,
    size_bytes: usize,
    value: Box<dyn Send>,
}

/// A point in time: guards taken before it may still be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// While it lives, nothing that was reachable when it was taken is reused. Cheap: one
/// compare-and-swap each way.
#[must_use = "dropping the guard ends the protection at once"]
pub struct Guard<'e> {
    epoch: &'e Epoch,
    slot: usize,
}

impl Default for Epoch {
    fn default() -> Self {
        Self::new()
    }
}

impl Epoch {
    /// With 64 slots: as many guards at once at full precision.
    pub fn new() -> Self {
        Self::with_slots(SLOTS)
    }

    /// With `slots` slots. More guards than slots share them: they stay safe, but each then holds
    /// back what the oldest in its slot holds back.
    ///
    /// # Panics
    /// If `slots` is 0.
    pub fn with_slots(slots: usize) -> Self {
        assert!(slots > 0, "an epoch needs at least one slot");
        Self {
            current: AtomicU64::new(1),
            drained: AtomicU64::new(0),
            slots: (0..slots).map(|_| Slot::default()).collect(),
            garbage: Mutex::default(),
            garbage_bytes: AtomicUsize::new(0),
        }
    }

    /// Takes a guard. A thread may hold several; each has a share of a slot of its own.
    pub fn pin(&self) -> Guard<'_> {
        let epoch = self.current.load(Ordering::SeqCst);
        let home = thread_ordinal() % self.slots.len();
        let slot = self.claim(home, epoch).unwrap_or_else(|| self.share(home));
        // E1: the slot is published before anything is read.
        fence(Ordering::SeqCst);
        sim::point(sim::Op::Pin);
        Guard { epoch: self, slot }
    }

    /// Ends the current epoch: every guard taken later is after the ticket.
    pub fn advance(&self) -> Ticket {
        Ticket(self.current.fetch_add(1, Ordering::SeqCst))
    }

    /// Whether every guard older than `ticket` is gone. Once true it stays true. Costs a pass over
    /// the slots at most.
    pub fn has_drained(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.drained.load(Ordering::Acquire) || ticket.0 <= self.scan()
    }

    /// Waits until every guard older than `ticket` is gone; the caller must hold none of them
    /// itself.
    #[track_caller]
    pub fn wait_drained(&self, ticket: Ticket) {
        let mut spin = Spin::new();
        while !self.has_drained(ticket) {
            spin_wait(&mut spin);
        }
    }

    /// Drops `value` once every guard held now is gone; `size_bytes` is what it counts as until
    /// then.
    ///
    /// Every 64th call also collects, and every one that makes 32 KiB full, so values are dropped in any thread that defers: they must be
    /// plain memory, with no lock or device call in their `Drop`.
    pub fn defer(&self, value: Box<dyn Send>, size_bytes: usize) {
        self.garbage_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        let mut garbage = self.garbage.lock();
        // Under the lock, so that tickets ascend in the queue.
        let ticket = self.advance();
        garbage.queue.push_back(Deferred { ticket, size_bytes, value });
        garbage.defers += 1;
        garbage.defers_bytes += size_bytes;
        let due = garbage.defers >= DEFERS_PER_COLLECT || garbage.defers_bytes >= BYTES_PER_COLLECT;
        if due {
            (garbage.defers, garbage.defers_bytes) = (0, 0);
        }
        drop(garbage);
        if due {
            self.collect();
        }
    }

    /// Drops the deferred values whose guards are gone; returns their bytes.
    pub fn collect(&self) -> usize {
        let mut freed_bytes = 0;
        while let Some(deferred) = self.next_drained() {
            drop(deferred.value);
            self.garbage_bytes.fetch_sub(deferred.size_bytes, Ordering::Relaxed);
            freed_bytes += deferred.size_bytes;
        }
        freed_bytes
    }

    /// Bytes of deferred values not dropped yet.
    pub fn garbage_bytes(&self) -> usize {
        self.garbage_bytes.load(Ordering::Relaxed)
    }

    fn next_drained(&self) -> Option<Deferred> {
        let mut garbage = self.garbage.lock();
        let oldest = garbage.queue.front()?.ticket;
        if self.has_drained(oldest) { garbage.queue.pop_front() } else { None }
    }

    /// Takes a free slot, looking from `home` on.
    fn claim(&self, home: usize, epoch: u64) -> Option<usize> {
        let word = (epoch << COUNT_BITS) | 1;
        let slots = self.slots.len();
        (home..home + slots).map(|index| index % slots).find(|&index| {
            let slot = &self.slots[index].0;
            slot.load(Ordering::Relaxed) == 0
                && slot.compare_exchange(0, word, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        })
    }

    /// Joins the guards of an occupied slot, whose epoch is older or the same, hence safe: of the slot with the newest epoch, so that all
    /// others empty, however many guards there are at any time.
    fn share(&self, home: usize) -> usize {
        let mut spin = Spin::new();
        loop {
            let has_room = |word: u64| word & COUNT_MASK != 0 && word & COUNT_MASK != COUNT_MASK;
            let words = self.slots.iter().enumerate().map(|(index, slot)| (slot.0.load(Ordering::Relaxed), index));
            let newest = words.filter(|(word, _)| has_room(*word)).max_by_key(|(word, _)| word >> COUNT_BITS);
            let join = |word: u64| has_room(word).then_some(word + 1);
            if let Some((_, index)) = newest
                && self.slots[index].0.fetch_update(Ordering::SeqCst, Ordering::Relaxed, join).is_ok()
            {
                return index;
            }
            if let Some(index) = self.claim(home, self.current.load(Ordering::SeqCst)) {
                return index;
            }
            spin_wait(&mut spin);
        }
    }

    fn unpin(&self, slot: usize) {
        let leave = |word: u64| Some(if word & COUNT_MASK == 1 { 0 } else { word - 1 });
        let left = self.slots[slot].0.fetch_update(Ordering::Release, Ordering::Relaxed, leave);
        debug_assert!(left.is_ok_and(|word| word & COUNT_MASK != 0), "a guard left a slot that it was not in");
    }

    /// The newest ticket that has drained, remembered in `drained`.
    fn scan(&self) -> u64 {
        let current = self.current.load(Ordering::SeqCst);
        // E1: the unlink and the advance come before the slots are read.
        fence(Ordering::SeqCst);
        let words = self.slots.iter().map(|slot| slot.0.load(Ordering::Acquire));
        let oldest = words.filter(|&word| word != 0).map(|word| word >> COUNT_BITS).min();
        let drained = oldest.map_or(current, |oldest| oldest.min(current)) - 1;
        self.drained.fetch_max(drained, Ordering::AcqRel).max(drained)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.epoch.unpin(self.slot);
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("current", &self.current.load(Ordering::Relaxed))
            .field("garbage_bytes", &self.garbage_bytes())
            .finish_non_exhaustive()
    }
}
