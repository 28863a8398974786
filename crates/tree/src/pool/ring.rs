//! The circular buffer of mini-pages (Bf-Tree section 4), as a chain of segments whose number may change at any time.
//!
//! Mini-pages are taken at the **tail**; when all is full, those at the **head** are evicted. Between them the **second-chance address**
//! divides the ring: a mini-page behind it is changed in place, one before it (the copy-on-access region, 10 % unless options say
//! otherwise) is copied to the tail by whoever uses it, and so escapes the head. What is given back, because a mini-page grew or moved, is
//! listed by size class and taken again first, unless it lies in the copy-on-access region and will soon be passed.
//!
//! States of a piece: 1 taken -> 2 claimed by an evictor -> 3 given back -> 4 passed by the head; or 1 -> listed -> 1. Evictions
//! run beside each other and *finish in order*: the head passes a piece only when all before it are given back (*in order*).
//!
//! Room: [`Ring::try_take`] refuses when the ring is full, at once; readers then do without. [`Ring::take`] never fails, because what is
//! logged must be applied: the ring gets longer than its limit, and whoever makes room next evicts it down again. What is too large for a
//! segment lies outside, is counted against the limit and evicted first. Writers make room before they log (I6), which keeps both rare.
//! Segments are long enough for mirrors of the store's leaves (`ring/segment_size.rs`). When the limit is lowered, the background evicts
//! down to it; writers meanwhile only keep the ring from growing (the *ceiling*, which follows what is there down to the limit).
//!
//! Cost: one lock and a few stores to take or give back; memory overhead 8 bytes a mini-page, one segment of the limit, and what lies
//! free between mini-pages. The lock is a leaf in the lock order: taken under leaf latches, nothing is taken under it.

mod chunks;
mod free;
mod piece;
mod segment_size;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
mod state;
#[cfg(test)]
mod tests;

use std::{ptr::NonNull, sync::Arc};

use zonda_pages::PageId;
use zonda_rt::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use piece::{Piece, Segment};
pub(crate) use segment_size::SegmentSize;
use state::State;

use super::AHEAD_SHARE;
use crate::limits::RING_BYTES_MAX;

/// Part of the ring that writers keep free for what they take between making room and writing. Readers leave as much again free for
/// writers: what readers cache is made room for by the background, which looks every few milliseconds, and a writer does not pay for it.
const HEADROOM_SHARE: u64 = 32;
/// But no more than this: 25 MB a second each.
const HEADROOM_BYTES_MAX: u64 = 128 << 10;
/// Where room is made ahead of readers, it is this part of the ring.
const READERS_AHEAD_SHARE: u64 = 32;
/// Over the limit by more than this part of it is far over.
const FAR_SHARE: u64 = 16;
/// Of what evictors are at, at the head, no more than this part of the ring counts as gone.
const GOING_SHARE: u64 = 16;

/// The memory of all mini-pages of a tree.
pub(crate) struct Ring {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    segment: SegmentSize,
    /// Part of the ring that is kept free, at the least.
    headroom_min: u64,
    copy_on_access_percent: u64,
    /// As of the last change, for those who do not take the lock.
    second_chance: AtomicU64,
    span_bytes: AtomicU64,
    going_bytes: AtomicU64,
    span_max: AtomicU64,
    /// What writers keep the ring to: `span_max`, or what there still is and was allowed before.
    ceiling: AtomicU64,
    held_bytes: AtomicU64,
    taken: AtomicU64,
    /// A reader found no room that it could have made without a write.
    wanted: AtomicBool,
}

// SAFETY: raw memory is reached under the lock of `state`, or by the buffers that own it (`piece.rs`).
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// Somebody's right to evict one mini-page. Dropping it says that he is done, or has given up.
pub(crate) struct Claim<'r> {
    ring: &'r Ring,
    content: NonNull<u8>,
    leaf: PageId,
    outside: bool,
}

impl Claim<'_> {
    /// Whose mini-page it was when it was claimed. The leaf may have given it up, or be another one by now.
    pub(crate) fn leaf(&self) -> PageId {
        self.leaf
    }

    /// Whether the mini-page lies outside of the ring.
    pub(crate) fn is_outside(&self) -> bool {
        self.outside
    }

    /// Where the mini-page is.
    pub(crate) fn address(&self) -> usize {
        self.content.addr().get()
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.outside {
            let mut state = self.ring.inner.state.lock();
            state.finish(self.content);
            self.ring.inner.publish(&state);
        }
    }
}

impl Inner {
    fn span_max(&self) -> u64 {
        self.span_max.load(Ordering::Relaxed)
    }

    /// Part of the ring that writers keep free; never more than half of it.
    fn headroom(&self) -> u64 {
        let span_max = self.span_max();
        (span_max / HEADROOM_SHARE).min(HEADROOM_BYTES_MAX).max(self.headroom_min.min(span_max / 2))
    }

    /// Part of the ring that readers leave free; never more than half of it.
    fn headroom_of_readers(&self) -> u64 {
        (2 * self.headroom()).min(self.span_max() / 2)
    }

    fn ceiling(&self) -> u64 {
        self.ceiling.load(Ordering::Relaxed)
    }

    /// Lets those see who do not take the lock.
    fn publish(&self, state: &MutexGuard<'_, State>) {
        let (span_bytes, span_max) = (state.span_bytes(), self.span_max());
        let in_place = span_max / 100 * (100 - self.copy_on_access_percent);
        self.second_chance.store(state.tail.saturating_sub(in_place), Ordering::Relaxed);
        self.span_bytes.store(span_bytes, Ordering::Relaxed);
        self.going_bytes.store(state.going_bytes(), Ordering::Relaxed);
        self.ceiling.store((span_bytes + self.headroom()).min(self.ceiling()).max(span_max), Ordering::Relaxed);
        self.held_bytes.store(state.held_bytes(), Ordering::Relaxed);
    }

    /// A listed piece, or one at the tail if head and tail are then at most `span_max` apart.
    fn try_take(&self, state: &mut State, (class, leaf): (usize, PageId), span_max: u64) -> Option<NonNull<u8>> {
        let listed = state.take_listed(class, leaf, self.second_chance.load(Ordering::Relaxed));
        listed.or_else(|| state.take_at_tail(self, (class, leaf), span_max))
    }
}

impl Ring {
    /// An empty ring of up to `limit_bytes`, of which `copy_on_access_percent`, to 100, is the copy-on-access region when it is full. Its
    /// segments are as long as mirrors of leaves of `leaf_bytes` ask for, if so many bytes allow it ([`SegmentSize::of`]); the limit may
    /// change, they stay.
    pub(crate) fn new(limit_bytes: u64, copy_on_access_percent: u32, leaf_bytes: u32) -> Self {
        let segment = SegmentSize::of(leaf_bytes, limit_bytes);
        let inner = Inner {
            state: Mutex::new(State::new(segment)),
            segment,
            headroom_min: segment.headroom_for_mirror(leaf_bytes),
            copy_on_access_percent: u64::from(copy_on_access_percent.min(100)),
            second_chance: AtomicU64::new(0),
            span_bytes: AtomicU64::new(0),
            going_bytes: AtomicU64::new(0),
            span_max: AtomicU64::new(0),
            ceiling: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
        };
        let ring = Self { inner: Arc::new(inner) };
        ring.set_limit_bytes(limit_bytes);
        ring
    }

    /// How long its segments are.
    pub(crate) fn segment_size(&self) -> SegmentSize {
        self.inner.segment
    }

    /// Changes the limit. A ring that has more gives it back as mini-pages are evicted.
    pub(crate) fn set_limit_bytes(&self, limit_bytes: u64) {
        let mut state = self.inner.state.lock();
        let span_max = state.set_limit_bytes(limit_bytes);
        self.inner.span_max.store(span_max, Ordering::Relaxed);
        self.inner.publish(&state);
    }

    /// Memory of `class` for a mini-page of `leaf`, initialised, aligned to 8. It goes back by [`give`].
    pub(crate) fn take(&self, class: usize, leaf: PageId) -> NonNull<u8> {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        let taken = inner.try_take(&mut state, (class, leaf), RING_BYTES_MAX);
        let taken = taken.unwrap_or_else(|| state.take_outside(inner, class, leaf));
        inner.taken.fetch_add(1, Ordering::Relaxed);
        inner.publish(&state);
        taken
    }

    /// As [`take`](Self::take), outside of the ring and [set aside](Self::set_aside).
    pub(crate) fn take_aside(&self, class: usize, leaf: PageId) -> NonNull<u8> {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        let taken = state.take_outside(inner, class, leaf);
        state.set_aside(taken);
        inner.taken.fetch_add(1, Ordering::Relaxed);
        inner.publish(&state);
        taken
    }

    /// As [`take`](Self::take) if there is room without an eviction.
    pub(crate) fn try_take(&self, class: usize, leaf: PageId) -> Option<NonNull<u8>> {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        let taken = inner.try_take(&mut state, (class, leaf), inner.span_max())?;
        inner.taken.fetch_add(1, Ordering::Relaxed);
        inner.publish(&state);
        Some(taken)
    }

    /// Whether the mini-page at `content`, whose leaf is latched, lies in the copy-on-access region.
    pub(crate) fn in_second_chance(&self, content: NonNull<u8>) -> bool {
        let before = self.inner.second_chance.load(Ordering::Relaxed);
        Piece::of(content).is_before(before, self.inner.segment)
    }

    /// Where the next mini-page goes that no listed piece is good for.
    pub(crate) fn tail(&self) -> u64 {
        self.inner.state.lock().tail
    }

    /// Whether a claimed mini-page lies before the address, or outside of the ring.
    pub(crate) fn is_before(&self, claim: &Claim<'_>, address: u64) -> bool {
        !self.inner.state.lock().address_of(claim.content).is_ok_and(|at| at >= address)
    }

    /// Bytes of memory held.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.inner.held_bytes.load(Ordering::Relaxed)
    }

    /// Whether it holds more than that for mini-pages that are in it.
    pub(crate) fn holds_more_than(&self, bytes: u64) -> bool {
        self.held_bytes() > bytes && self.inner.span_bytes.load(Ordering::Relaxed) > 0
    }

    /// Whether a writer must make room before it goes on.
    pub(crate) fn is_over(&self) -> bool {
        self.is_within_of(self.inner.headroom(), self.inner.ceiling())
    }

    /// Whether one will have to soon.
    pub(crate) fn is_nearly_over(&self) -> bool {
        let ahead = self.inner.span_max() / AHEAD_SHARE;
        self.is_within_of(self.inner.headroom() + ahead, self.inner.ceiling())
    }

    /// Whether it would have to if the ring had followed its limit already.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.is_within_of(self.inner.headroom(), self.inner.span_max())
    }

    /// Whether a reader must make room before it caches anything.
    pub(crate) fn is_over_for_readers(&self) -> bool {
        self.is_within_of(self.inner.headroom_of_readers(), self.inner.span_max())
    }

    /// Whether readers have room for as much as they may cache until the background comes again.
    pub(crate) fn has_room_ahead_of_readers(&self) -> bool {
        let ahead = self.inner.span_max() / READERS_AHEAD_SHARE;
        !self.is_within_of(self.inner.headroom_of_readers() + ahead, self.inner.span_max())
    }

    /// Whether less than `headroom` is left of `most`.
    fn is_within_of(&self, headroom: u64, most: u64) -> bool {
        self.span_bytes_to_be() + headroom > most
    }

    /// Bytes from head to tail once those are done who evict at the head: as long as one reads the page that he merges, the head stands,
    /// and who makes room would drop whatever is behind it. Only a part of the ring, as he may take long, and writers go on meanwhile (I6).
    fn span_bytes_to_be(&self) -> u64 {
        let going_bytes = self.inner.going_bytes.load(Ordering::Relaxed).min(self.inner.span_max() / GOING_SHARE);
        self.inner.span_bytes.load(Ordering::Relaxed).saturating_sub(going_bytes)
    }

    /// Whether there is more to be given up than writers do in passing.
    pub(crate) fn is_far_over(&self) -> bool {
        let (span_max, ceiling) = (self.inner.span_max(), self.inner.ceiling());
        // Above the limit nobody else gives anything up.
        let slack = if ceiling > span_max { 0 } else { span_max / FAR_SHARE };
        self.span_bytes_to_be() > span_max + slack
    }

    /// Says that a reader found no room.
    pub(crate) fn want_room(&self) {
        self.inner.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether a reader found no room since there last was some for readers.
    pub(crate) fn is_room_wanted(&self) -> bool {
        if !self.inner.wanted.load(Ordering::Relaxed) {
            return false;
        }
        let over = self.is_over_for_readers();
        if !over {
            self.inner.wanted.store(false, Ordering::Relaxed);
        }
        over
    }

    /// The next mini-page to be evicted: one outside of the ring, else the first from the head that nobody evicts yet. One that was set
    /// aside only if there is nothing else, not even in the hands of others.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        let mut state = self.inner.state.lock();
        if let Some((content, leaf)) = state.next_outside() {
            return Some(Claim { ring: self, content, leaf, outside: true });
        }
        let claimed = state.claim();
        self.inner.publish(&state);
        if let Some((content, leaf)) = claimed {
            return Some(Claim { ring: self, content, leaf, outside: false });
        }
        let (content, leaf) = if state.head == state.tail { state.next_aside() } else { None }?;
        Some(Claim { ring: self, content, leaf, outside: true })
    }

    /// The mini-page at `content`, whose leaf is latched, cannot be evicted: if it lies outside of the ring it is claimed last from now on,
    /// so that others can be.
    pub(crate) fn set_aside(&self, content: NonNull<u8>) {
        self.inner.state.lock().set_aside(content);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // As for slabs: mini-pages that are still there keep their memory.
        if self.inner.taken.load(Ordering::Relaxed) > 0 {
            std::mem::forget(Arc::clone(&self.inner));
        }
    }
}

/// Gives memory back to the ring that it came from, whose segments are of this size.
///
/// # Safety
/// `content` came from [`Ring::take`] or [`Ring::try_take`] of such a ring, and nobody uses it any more.
pub(crate) unsafe fn give(content: NonNull<u8>, segment: SegmentSize) {
    // SAFETY: a segment of which a piece is taken names its ring, which outlives its pieces.
    let inner = unsafe { &*Segment::around(content, segment).inner() };
    let mut state = inner.state.lock();
    state.give(content, inner.second_chance.load(Ordering::Relaxed));
    inner.taken.fetch_sub(1, Ordering::Relaxed);
    inner.publish(&state);
}
