//! Leaves whose buffers are full: the background merges them, so that writers do not wait for pages.
//!
//! A buffer of the large classes that holds three quarters of a page is merged (`write.rs::is_overfull`). While somebody tends buffers, its
//! leaf waits for him, and the buffer takes more records until it holds as much as a page: then its writer merges it, as he does where
//! nobody tends, and where the store is nearly full. So a buffer's end never comes nearer. Only memory waits here: what buffers hold is in
//! the log already.

use std::collections::VecDeque;

use zonda_pages::PageId;
use zonda_rt::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::{
    BufferClasses, Design,
    tree::{Result, Tree},
};

/// Leaves that wait at the most: what one background merges in a tenth of a second.
const LEAVES_MAX: usize = 1024;

/// The leaves that wait, in the order in which they came.
#[derive(Default)]
pub(crate) struct Overfull {
    is_tended: AtomicBool,
    /// Records written when the background last looked.
    seen: AtomicU64,
    waiting: Mutex<VecDeque<PageId>>,
}

impl Overfull {
    /// Somebody merges what waits from now on, or nobody does any more: what waits by then is merged when its writers come back.
    pub(crate) fn tend(&self, is_tended: bool) {
        self.is_tended.store(is_tended, Ordering::Relaxed);
    }

    /// Whether so many records are more than at the last call. Where nobody writes, nothing is merged ahead: what readers cache would write
    /// pages.
    pub(crate) fn are_more(&self, written: u64) -> bool {
        self.seen.swap(written, Ordering::Relaxed) != written
    }

    /// Lets a leaf wait; `false` if nobody would come soon. The one that came last does not come again.
    fn push(&self, id: PageId) -> bool {
        if !self.is_tended.load(Ordering::Relaxed) {
            return false;
        }
        let mut waiting = self.waiting.lock();
        if waiting.back() == Some(&id) {
            return true;
        }
        let has_room = waiting.len() < LEAVES_MAX;
        if has_room {
            waiting.push_back(id);
        }
        has_room
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    fn pop(&self) -> Option<PageId> {
        self.waiting.lock().pop_front()
    }
}

impl Tree {
    /// Merges a leaf whose buffer holds `bytes`, more than it should, or leaves that to the background.
    ///
    /// # Errors
    /// As [`relieve`](Self::relieve).
    pub(crate) fn relieve_in_time(&self, id: PageId, bytes: usize) -> Result<()> {
        let may_wait = self.options.design == Design::Adb
            && self.options.classes == BufferClasses::Large
            && bytes <= self.body_bytes();
        if may_wait && self.has_room_to_spare() && self.overfull.push(id) { Ok(()) } else { self.relieve(id) }
    }

    /// Merges the leaf that has waited longest, if its buffer is still too full; `false` if none waits, or the store is full.
    ///
    /// # Errors
    /// As [`relieve`](Self::relieve).
    pub(crate) fn relieve_waiting(&self) -> Result<bool> {
        if self.overfull.is_empty() || !self.has_room_to_spare() {
            return Ok(false);
        }
        let Some(id) = self.overfull.pop() else { return Ok(false) };
        let is_overfull = {
            let leaf = self.table.lock_shared(id);
            leaf.location().buffer().is_some_and(|buffer| self.is_overfull(buffer))
        };
        if is_overfull {
            self.relieve(id)?;
        }
        Ok(true)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use zonda_pages::PageStore;

    use super::*;
    use crate::{
        Durability, Engine, Step, TreeOptions,
        testing::{MemOptions, MemStore},
    };

    fn put(engine: &Engine, number: u64) {
        engine.put(&number.to_be_bytes(), &[7; 24], Durability::Buffered).expect("room");
    }

    /// An engine with one leaf, whose buffer lacks little to be full, and how many pairs that are.
    fn nearly_full(tended: bool) -> (Engine, u64) {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions { buffer_bytes: 1 << 20, log_limit_bytes: 64 << 20, ..TreeOptions::default() };
        let engine = Engine::create(store as Arc<dyn PageStore>, options).expect("an empty store");
        engine.tend_buffers(tended);
        let pairs = engine.tree.body_bytes() as u64 * 3 / 4 / 32;
        (0..pairs).for_each(|number| put(&engine, number));
        assert_eq!(engine.stats().merges, 0);
        (engine, pairs)
    }

    #[test]
    fn a_full_buffer_waits_for_who_tends_and_not_beyond_a_page() {
        let (engine, pairs) = nearly_full(true);
        (pairs..pairs + 8).for_each(|number| put(&engine, number));
        assert_eq!(engine.stats().merges, 0, "a writer merged");
        assert_eq!(engine.buffer_step().expect("a whole store"), Step::Progress);
        assert_eq!(engine.stats().merges, 1);
        assert_eq!(engine.buffer_step().expect("a whole store"), Step::Idle, "it waits once");

        let (engine, pairs) = nearly_full(true);
        (pairs..2 * pairs).for_each(|number| put(&engine, number));
        assert!(engine.stats().merges > 0, "a buffer outgrew its page");
        while engine.buffer_step().expect("a whole store") == Step::Progress {}
        engine.check(&mut |_, _| (), &mut |problem| panic!("{problem}")).expect("a whole store");
    }

    #[test]
    fn where_nobody_tends_the_writer_merges() {
        let (engine, pairs) = nearly_full(false);
        (pairs..pairs + 8).for_each(|number| put(&engine, number));
        assert!(engine.stats().merges > 0);
        let (engine, pairs) = nearly_full(true);
        engine.tend_buffers(false);
        (pairs..pairs + 8).for_each(|number| put(&engine, number));
        assert!(engine.stats().merges > 0);
    }

    /// Each has written to the one leaf and not come to merging it yet.
    #[test]
    fn any_number_of_writers_that_have_not_merged_yet_find_room_in_a_buffer() {
        for design in [Design::Adb, Design::BfTree] {
            let store = MemStore::new(MemOptions::default());
            let options = TreeOptions { design, log_limit_bytes: 64 << 20, ..TreeOptions::default() };
            let value = vec![7; options.value_inline_bytes_max as usize];
            let engine = Engine::create(store as Arc<dyn PageStore>, options).expect("an empty store");
            let writers = (512 << 10) / value.len() as u64;
            for number in 0..writers {
                let key = number.to_be_bytes();
                let prepared = engine.tree.prepare(&key, &value).expect("inline");
                engine.tree.commit(std::slice::from_ref(&prepared)).expect("room");
            }
            engine.check(&mut |_, _| (), &mut |problem| panic!("{problem}")).expect("a whole store");
            for number in 0..writers {
                let mut got = Vec::new();
                let is_there = engine.get_into(&number.to_be_bytes(), &mut got).expect("readable");
                assert!(is_there && got == value, "{design:?} {number}");
            }
        }
    }

    #[test]
    fn where_nobody_writes_nothing_is_merged_ahead() {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions { buffer_bytes: 1 << 20, log_limit_bytes: 64 << 20, ..TreeOptions::default() };
        let engine = Engine::create(store as Arc<dyn PageStore>, options).expect("an empty store");
        let pool = &engine.tree.pool;
        let mut keys = (0..).map(|number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut write = || {
            while !pool.is_nearly_over() {
                put(&engine, keys.next().expect("endless"));
            }
        };
        write();
        assert_eq!(engine.buffer_step().expect("a whole store"), Step::Progress, "somebody writes");
        write();
        assert!(engine.tree.overfull.are_more(engine.tree.written()), "looked at");
        let merges = engine.stats().merges;
        assert_eq!(engine.buffer_step().expect("a whole store"), Step::Idle, "nobody does any more");
        assert!(pool.is_nearly_over() && engine.stats().merges == merges);
    }

    #[test]
    fn leaves_that_wait_are_bounded_and_the_last_comes_once() {
        let waiting = Overfull::default();
        assert!(!waiting.push(PageId(1)), "nobody tends");
        waiting.tend(true);
        assert!(waiting.push(PageId(1)) && waiting.push(PageId(1)));
        let most = (2..).find(|&id| !waiting.push(PageId(id))).expect("there is a bound");
        assert_eq!(most as usize, LEAVES_MAX + 1);
        assert_eq!(std::iter::from_fn(|| waiting.pop()).count(), LEAVES_MAX);
    }
}
