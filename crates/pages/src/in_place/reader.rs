//! Reading pages: those that wait, then the cache, then the device. A device read verifies checksum and identity (I5) and is the only one
//! of its page (I8). The caller's epoch guard keeps the slot from being reused meanwhile.

use std::sync::Arc;

use zonda_device::{Completion, Io, IoQueue, Lba};
use zonda_rt::atomic::Ordering;

use super::core::Core;
use super::pending::PendingPage;
use crate::ahead::{AheadBudget, AheadSource, Version};
use crate::cache::CachedPage;
use crate::frame::{Fault, Place, trusted_page};
use crate::pool::BufferPool;
use crate::walk::Blocks;
use crate::{PageAddress, PageError, PageId, number};

/// Most blocks in flight of one caller, but for the last page.
const IN_FLIGHT_BLOCKS_MAX: u64 = 64;

/// Where a page is.
enum Found {
    Pending(Arc<PendingPage>),
    Cached(CachedPage),
    /// In a segment of this generation.
    OnDevice(u64),
}

/// A page that must be read from the device.
struct Missing {
    index: usize,
    id: PageId,
    at: PageAddress,
    generation: u64,
}

impl Core {
    /// Calls `visit` with the body of page `id` at `at`.
    pub(crate) fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        match self.find(at)? {
            Found::Pending(page) => visit(body_in_memory(page.bytes(), id, at)?),
            Found::Cached(page) => visit(body_in_memory(&page, id, at)?),
            Found::OnDevice(generation) => {
                let mut buffer = self.pool.take(at.blocks());
                self.disk.read(at.block(), &mut buffer[..number::bytes(at.blocks())])?;
                visit(self.accept(&buffer, id, at, generation)?);
            }
        }
        Ok(())
    }

    /// Reads several pages, those on the device in flight together.
    pub(crate) fn read_many(
        &self,
        pages: &[(PageId, PageAddress)],
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PageError> {
        let mut missing = Vec::new();
        for (index, &(id, at)) in pages.iter().enumerate() {
            match self.find(at)? {
                Found::Pending(page) => visit(index, body_in_memory(page.bytes(), id, at)?),
                Found::Cached(page) => visit(index, body_in_memory(&page, id, at)?),
                Found::OnDevice(generation) => missing.push(Missing { index, id, at, generation }),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let mut queue = self.read_queue()?;
        // After an error the queue is dropped with what is in flight.
        self.read_queued(queue.as_mut(), &missing, visit)?;
        self.queues.lock().push(queue);
        Ok(())
    }

    /// A queue for reading with nothing in flight.
    pub(crate) fn read_queue(&self) -> Result<Box<dyn IoQueue>, PageError> {
        let kept = self.queues.lock().pop();
        Ok(kept.map_or_else(|| self.disk.queue(), Ok)?)
    }

    fn read_queued(
        &self,
        queue: &mut dyn IoQueue,
        missing: &[Missing],
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PageError> {
        let mut todo = missing.iter().enumerate();
        let mut done = Vec::with_capacity(queue.depth());
        let (mut left, mut blocks) = (missing.len(), 0);
        while left > 0 {
            while blocks < IN_FLIGHT_BLOCKS_MAX && queue.in_flight() < queue.depth() {
                let Some((token, page)) = todo.next() else { break };
                blocks += page.at.blocks();
                let into = self.pool.take_exact(page.at.blocks());
                let io = Io::Read { at: self.disk.lba(page.at.block()), into };
                queue.submit(token as u64, io).map_err(|rejected| rejected.error)?;
            }
            queue.complete(1, &mut done)?;
            for completion in done.drain(..) {
                blocks -= missing[number::index(completion.token)].at.blocks();
                self.completed(missing, completion, visit)?;
                left -= 1;
            }
        }
        Ok(())
    }

    fn completed(
        &self,
        missing: &[Missing],
        completion: Completion,
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PageError> {
        completion.result?;
        let page = &missing[number::index(completion.token)];
        let buffer = completion.buffer.expect("a read brings its buffer back");
        visit(page.index, self.accept(&buffer, page.id, page.at, page.generation)?);
        self.pool.put(buffer);
        Ok(())
    }

    fn find(&self, at: PageAddress) -> Result<Found, PageError> {
        let inside = self.layout.segment_of(at.block(), at.blocks()).is_some();
        let generation = if inside { self.generation_at(at.block()) } else { 0 };
        if generation == 0 {
            let why = "nothing of the store is there".to_string();
            return Err(PageError::Damaged { what: "page address", block: at.block(), why });
        }
        // A page that waits is found until its write has completed: whoever misses it finds it below.
        if let Some(page) = self.find_pending(at) {
            return Ok(Found::Pending(page));
        }
        Ok(self.cache.get(at, generation).map_or(Found::OnDevice(generation), Found::Cached))
    }

    /// Verifies a page that came from the device, caches it and returns its body.
    fn accept<'a>(
        &self,
        buffer: &'a [u8],
        id: PageId,
        at: PageAddress,
        generation: u64,
    ) -> Result<&'a [u8], PageError> {
        let bytes = &buffer[..number::bytes(at.blocks())];
        self.counters.page_read(bytes.len());
        let place = Place { generation, block: at.block() };
        let page = self.framing.page(bytes, id, place).map_err(|fault| fault.at("page", at.block()))?;
        self.cache.offer(at, generation, bytes);
        Ok(page.body)
    }
}

impl AheadSource for Core {
    fn on_device(&self, at: PageAddress) -> Option<(PageAddress, Version)> {
        let writes = || self.writes_at(at.block()).load(Ordering::Acquire);
        // Before the page is looked for, as what is read is not older than that; and after, as it may have left memory meanwhile.
        let before = writes();
        let Ok(Found::OnDevice(generation)) = self.find(at) else { return None };
        (writes() == before).then_some((at, Version { generation, writes: before }))
    }

    fn take_queue(&self) -> Option<Box<dyn IoQueue>> {
        self.read_queue().ok()
    }

    fn put_queue(&self, queue: Box<dyn IoQueue>) {
        self.queues.lock().push(queue);
    }

    fn budget(&self) -> &AheadBudget {
        &self.ahead
    }

    fn buffers(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    fn lba(&self, block: u64) -> Lba {
        self.disk.lba(block)
    }

    fn verify<'a>(
        &self,
        buffer: &'a [u8],
        page: (PageId, PageAddress),
        generation: u64,
    ) -> Result<&'a [u8], PageError> {
        self.accept(buffer, page.0, page.1, generation)
    }
}

/// The body of a page in memory, whose bytes were made or verified here.
fn body_in_memory(bytes: &[u8], id: PageId, at: PageAddress) -> Result<&[u8], PageError> {
    let page = trusted_page(bytes).map_err(|fault| fault.at("page", at.block()))?;
    if page.id == id {
        return Ok(page.body);
    }
    Err(Fault::OtherPage { found: page.id, expected: id }.at("page", at.block()))
}
