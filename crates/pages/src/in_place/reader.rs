//! Reading pages: those that wait, then the cache, then the device. A device read verifies checksum and identity (I5) and is the only one
//! of its page (I8). The caller's epoch guard keeps the slot from being reused meanwhile.

use std::sync::Arc;

use zonda_device::{IoQueue, Lba};
use zonda_rt::atomic::Ordering;

use super::core::Core;
use super::pending::PendingPage;
use crate::ahead::AheadBudget;
use crate::cache::CachedPage;
use crate::frame::{Fault, Place, trusted_page};
use crate::pool::BufferPool;
use crate::source::{OnDevice, Source, Version};
use crate::walk::Blocks;
use crate::{PageAddress, PageError, PageId, number};

/// Where a page is.
enum Found {
    Pending(Arc<PendingPage>),
    Cached(CachedPage),
    /// In a segment of this generation.
    OnDevice(u64),
}

impl Core {
    /// Calls `visit` with the body of page `id` at `at`.
    pub(crate) fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        let Some(OnDevice { generation, .. }) = self.visit_in_memory(id, at, visit)? else { return Ok(()) };
        let mut buffer = self.pool.take(at.blocks());
        let read = self.disk.read(at.block(), &mut buffer[..number::bytes(at.blocks())]);
        read.map_err(|error| error.of_read("page", at.block()))?;
        visit(self.accept(&buffer, id, at, generation)?);
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

impl Source for Core {
    fn on_device(&self, at: PageAddress) -> Option<(PageAddress, Version)> {
        let writes = || self.writes_at(at.block()).load(Ordering::Acquire);
        // Before the page is looked for, as what is read is not older than that; and after, as it may have left memory meanwhile.
        let before = writes();
        let Ok(Found::OnDevice(generation)) = self.find(at) else { return None };
        (writes() == before).then_some((at, Version { generation, writes: before }))
    }

    fn visit_in_memory(
        &self,
        id: PageId,
        at: PageAddress,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<OnDevice>, PageError> {
        match self.find(at)? {
            Found::Pending(page) => visit(body_in_memory(page.bytes(), id, at)?),
            Found::Cached(page) => visit(body_in_memory(&page, id, at)?),
            Found::OnDevice(generation) => return Ok(Some(OnDevice { at, generation })),
        }
        Ok(None)
    }

    fn take_queue(&self) -> Result<Box<dyn IoQueue>, PageError> {
        Ok(self.queues.take(|| self.disk.queue())?)
    }

    fn put_queue(&self, queue: Box<dyn IoQueue>) {
        self.queues.put(queue);
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
