//! Reading pages: sequencer, then read cache, then device (ZKV 3.4). A device read verifies checksum and identity (I5) and is
//! the only one of its page (I8).

use std::sync::Arc;

use zonda_device::{IoQueue, Lba};

use crate::ahead::AheadBudget;
use crate::cache::CachedPage;
use crate::flusher::Flusher;
use crate::frame::{Fault, Place, trusted_page};
use crate::pool::{BufferPool, PooledBuf};
use crate::sequencer::Pending;
use crate::source::{OnDevice, Source, Version};
use crate::{PageAddress, PageError, PageId, number};

/// Most reads in flight of one queue.
const QUEUE_DEPTH: u32 = 64;

/// A page that is in memory.
pub(crate) enum InMemory {
    Pending(Pending),
    Cached(CachedPage),
}

/// A page in one of the places where it can be: at this address, which differs from the one asked for after a failed zone.
pub(crate) enum Found {
    InMemory(InMemory),
    OnDevice(OnDevice),
}

impl Flusher {
    /// Calls `visit` with the body of page `id` at `at`.
    pub(crate) fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        let Some(OnDevice { at, generation }) = self.visit_in_memory(id, at, visit)? else { return Ok(()) };
        let mut buffer = self.press.pool.take(at.blocks());
        let read = self.space.read(at.block(), &mut buffer[..number::bytes(at.blocks())]);
        read.map_err(|error| PageError::from(error).of_read("page", at.block()))?;
        visit(self.accept(&buffer, id, at, generation)?);
        Ok(())
    }

    /// Where the page at `at` is. A page that waits is found until its group has been written, so whoever misses it
    /// there finds it below.
    pub(crate) fn locate(&self, at: PageAddress) -> Result<Found, PageError> {
        let mut at = at;
        loop {
            let found = self.zones.of_page(at).filter(|(_, zone)| zone.generation() != 0);
            let (_, zone) = found.ok_or_else(|| nothing_there(at))?;
            if let Some(page) = zone.sequencer().and_then(|sequencer| sequencer.find(at)) {
                return Ok(Found::InMemory(InMemory::Pending(page)));
            }
            // Follows pages that were placed again after their zone had failed; addresses never cycle.
            if let Some(next) = self.failed.forward(at) {
                at = next;
                continue;
            }
            let generation = zone.generation();
            return Ok(match self.cache.get(at, generation) {
                Some(page) => Found::InMemory(InMemory::Cached(page)),
                None => Found::OnDevice(OnDevice { at, generation }),
            });
        }
    }

    /// Verifies a page that came from the device, caches it and returns its body.
    pub(crate) fn accept<'a>(
        &self,
        buffer: &'a [u8],
        id: PageId,
        at: PageAddress,
        generation: u64,
    ) -> Result<&'a [u8], PageError> {
        let bytes = &buffer[..number::bytes(at.blocks())];
        self.counters.page_read(bytes.len());
        let place = Place { generation, block: at.block() };
        let page = self.press.framing.page(bytes, id, place).map_err(|fault| fault.at("page", at.block()))?;
        self.cache.offer(at, generation, bytes);
        Ok(page.body)
    }
}

impl Source for Flusher {
    fn on_device(&self, at: PageAddress) -> Option<(PageAddress, Version)> {
        let Ok(Found::OnDevice(OnDevice { at, generation })) = self.locate(at) else { return None };
        Some((at, Version { generation, writes: 0 }))
    }

    fn visit_in_memory(
        &self,
        id: PageId,
        at: PageAddress,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<OnDevice>, PageError> {
        match self.locate(at)? {
            Found::InMemory(page) => visit(body_in_memory(&page, id, at)?),
            Found::OnDevice(place) => return Ok(Some(place)),
        }
        Ok(None)
    }

    fn take_queue(&self) -> Result<Box<dyn IoQueue>, PageError> {
        Ok(self.queues.take(|| self.space.device().queue(QUEUE_DEPTH))?)
    }

    fn put_queue(&self, queue: Box<dyn IoQueue>) {
        self.queues.put(queue);
    }

    fn budget(&self) -> &AheadBudget {
        &self.ahead
    }

    fn buffers(&self) -> &Arc<BufferPool> {
        &self.press.pool
    }

    fn lba(&self, block: u64) -> Lba {
        self.space.lba_of(block)
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
pub(crate) fn body_in_memory(page: &InMemory, id: PageId, at: PageAddress) -> Result<&[u8], PageError> {
    let bytes: &[u8] = match page {
        InMemory::Pending(Pending::Shared(group, at)) => group.page_bytes(*at),
        InMemory::Pending(Pending::Copied(copy)) => copy as &PooledBuf,
        InMemory::Cached(page) => page,
    };
    let page = trusted_page(bytes).map_err(|fault| fault.at("page", at.block()))?;
    if page.id == id {
        return Ok(page.body);
    }
    Err(Fault::OtherPage { found: page.id, expected: id }.at("page", at.block()))
}

fn nothing_there(at: PageAddress) -> PageError {
    PageError::Damaged { what: "page address", block: at.block(), why: "no zone of the store is there".to_string() }
}
