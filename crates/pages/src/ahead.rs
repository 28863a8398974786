//! Reading ahead: pages that a scan will soon ask for are on their way while it works on the one before.
//!
//! A page that was read ahead is right whatever happened meanwhile: it is verified like any other (I5), and handed out only
//! while the device holds at its address what it held before it was read ([`Version`]). Nothing keeps its zone from being reset or its
//! blocks from being reused; then the page is simply not there.

use std::collections::VecDeque;
use std::sync::Arc;

use zonda_device::{AlignedBuf, Completion, Io, IoQueue};
use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::source::{Source, Version};
use crate::store::ReadAhead;
use crate::{PageAddress, PageId};

/// Bytes that all readers of a store hold ahead. Always: at most `bytes_max`.
pub(crate) struct AheadBudget {
    bytes: AtomicU64,
    bytes_max: u64,
}

impl AheadBudget {
    /// Nothing is held.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes: AtomicU64::new(0), bytes_max }
    }

    /// The most that may be held.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Whether `bytes` more may be held; they are then.
    fn take(&self, bytes: u64) -> bool {
        let more = |held: u64| held.checked_add(bytes).filter(|&held| held <= self.bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes of {before} are given back");
    }
}

/// A page on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sought {
    id: PageId,
    at: PageAddress,
    version: Version,
}

/// A page that was asked for.
struct Wanted {
    page: Sought,
    token: u64,
    state: State,
}

enum State {
    InFlight,
    Here(AlignedBuf),
    /// It could not be read, or was dropped by the device.
    Failed,
}

/// The pages that one reader wants next, oldest first.
///
/// Life cycle of a page: 1 wanted (its read waits or is in flight) -> 2 here, or failed -> 3 taken, or forgotten because
/// a later one is taken. Its bytes count against the store's budget until then; a buffer in flight until it is back.
pub(crate) struct PagesAhead<S: Source> {
    source: Arc<S>,
    /// `None` before the first read, and after the device refused: nothing more is read ahead then.
    queue: Option<Box<dyn IoQueue>>,
    wanted: VecDeque<Wanted>,
    done: Vec<Completion>,
    next_token: u64,
    /// What this reader has taken of the budget, and of the buffers.
    held_bytes: u64,
}

impl<S: Source> PagesAhead<S> {
    pub(crate) fn new(source: Arc<S>) -> Self {
        let queue = source.take_queue().ok();
        Self { source, queue, wanted: VecDeque::new(), done: Vec::new(), next_token: 0, held_bytes: 0 }
    }

    /// Submits the read of a page unless it is in memory or on its way; `false` if no more can be.
    fn want_page(&mut self, id: PageId, at: PageAddress) -> bool {
        let Some((at, version)) = self.source.on_device(at) else { return true };
        let page = Sought { id, at, version };
        if self.wanted.iter().any(|wanted| wanted.page == page) {
            return true;
        }
        let Some(queue) = self.queue.as_deref_mut().filter(|queue| queue.in_flight() < queue.depth()) else {
            return false;
        };
        if !self.source.budget().take(at.len_bytes()) {
            return false;
        }
        self.held_bytes += at.len_bytes();
        let into = self.source.buffers().take_exact(at.blocks());
        if let Err(rejected) = queue.submit(self.next_token, Io::Read { at: self.source.lba(at.block()), into }) {
            if let Io::Read { into, .. } = rejected.io {
                self.put_back(into);
            }
            return false;
        }
        self.wanted.push_back(Wanted { page, token: self.next_token, state: State::InFlight });
        self.next_token += 1;
        true
    }

    /// Waits until the read of the oldest page has ended.
    fn wait_for_oldest(&mut self) {
        while self.wanted.front().is_some_and(|oldest| matches!(oldest.state, State::InFlight)) {
            if !self.take_completions(1) {
                break;
            }
        }
    }

    /// Takes at least `min` completions; `false` if there will be none.
    fn take_completions(&mut self, min: usize) -> bool {
        let Some(queue) = self.queue.as_deref_mut().filter(|queue| queue.in_flight() > 0) else { return false };
        if queue.complete(min, &mut self.done).is_err() {
            self.give_up();
            return false;
        }
        let mut done = std::mem::take(&mut self.done);
        done.drain(..).for_each(|completion| self.completed(completion));
        self.done = done;
        true
    }

    fn completed(&mut self, completion: Completion) {
        let buffer = completion.buffer.expect("a read brings its buffer back");
        let wanted = self.wanted.iter_mut().find(|wanted| wanted.token == completion.token);
        match (wanted, completion.result) {
            (Some(wanted), Ok(_)) => wanted.state = State::Here(buffer),
            (wanted, _) => {
                wanted.into_iter().for_each(|wanted| wanted.state = State::Failed);
                self.put_back(buffer);
            }
        }
    }

    /// The system's queue failed: dropping it waits for what is in flight, and no page of it will come.
    fn give_up(&mut self) {
        self.queue = None;
        let lost = self.wanted.iter_mut().filter(|wanted| matches!(wanted.state, State::InFlight));
        lost.for_each(|wanted| wanted.state = State::Failed);
    }

    /// Forgets the oldest page and returns its bytes, if they are here.
    fn pop(&mut self) -> Option<AlignedBuf> {
        match self.wanted.pop_front()?.state {
            State::Here(buffer) => Some(buffer),
            // What is in flight is put back when it is completed.
            State::InFlight | State::Failed => None,
        }
    }

    fn put_back(&mut self, buffer: AlignedBuf) {
        self.held_bytes -= buffer.len() as u64;
        self.source.budget().give(buffer.len() as u64);
        self.source.buffers().put(buffer);
    }
}

impl<S: Source> ReadAhead for PagesAhead<S> {
    fn want(&mut self, pages: &[(PageId, PageAddress)]) {
        for &(id, at) in pages {
            if !self.want_page(id, at) {
                break;
            }
        }
        self.queue.iter_mut().for_each(|queue| queue.start());
    }

    fn take(&mut self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> bool {
        let Some((at, version)) = self.source.on_device(at) else { return false };
        let page = Sought { id, at, version };
        let Some(position) = self.wanted.iter().position(|wanted| wanted.page == page) else { return false };
        for _ in 0..position {
            let skipped = self.pop();
            skipped.into_iter().for_each(|buffer| self.put_back(buffer));
        }
        self.wait_for_oldest();
        let Some(buffer) = self.pop() else { return false };
        let body = self.source.verify(&buffer, (id, at), version.generation).map(visit);
        self.put_back(buffer);
        body.is_ok()
    }
}

impl<S: Source> Drop for PagesAhead<S> {
    fn drop(&mut self) {
        while let Some(in_flight) = self.queue.as_ref().map(|queue| queue.in_flight()).filter(|&count| count > 0) {
            self.take_completions(in_flight);
        }
        while !self.wanted.is_empty() {
            let left = self.pop();
            left.into_iter().for_each(|buffer| self.put_back(buffer));
        }
        self.queue.take().into_iter().for_each(|queue| self.source.put_queue(queue));
        // What was lost with a queue that failed.
        self.done.clear();
        self.source.budget().give(self.held_bytes);
        self.source.buffers().forget(self.held_bytes);
    }
}
