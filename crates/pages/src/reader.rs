//! Reading pages: sequencer, then read cache, then device (ZKV 3.4). A device read verifies checksum and identity (I5) and is
//! the only one of its page (I8).

use zonda_device::{Completion, Io, IoQueue};
use zonda_rt::Mutex;

use crate::cache::CachedPage;
use crate::flusher::Flusher;
use crate::frame::{Fault, Place, trusted_page};
use crate::pool::PooledBuf;
use crate::sequencer::Pending;
use crate::{PageAddress, PageError, PageId, number};

/// Reads in flight of one [`read_many`](Flusher::read_many).
const DEPTH: u32 = 32;

/// Device queues that are not in use.
#[derive(Default)]
pub(crate) struct Queues(Mutex<Vec<Box<dyn IoQueue>>>);

/// A page that is in memory.
enum InMemory {
    Pending(Pending),
    Cached(CachedPage),
}

/// A page in one of the places where it can be: at this address, which differs from the one asked for after a failed zone.
enum Found {
    InMemory(InMemory),
    OnDevice(PageAddress, u64),
}

impl Flusher {
    /// Calls `visit` with the body of page `id` at `at`.
    pub(crate) fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        match self.locate(at)? {
            Found::InMemory(page) => visit(body_in_memory(&page, id, at)?),
            Found::OnDevice(at, generation) => {
                let mut buffer = self.press.pool.take(at.blocks());
                self.space.read(at.block(), &mut buffer[..number::bytes(at.blocks())])?;
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
            match self.locate(at)? {
                Found::InMemory(page) => visit(index, body_in_memory(&page, id, at)?),
                Found::OnDevice(at, generation) => missing.push(Missing { index, id, at, generation }),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let kept = self.queues.0.lock().pop();
        let mut queue = match kept {
            Some(queue) => queue,
            None => self.space.device().queue(DEPTH)?,
        };
        // After an error the queue is dropped with what is in flight.
        self.read_queued(queue.as_mut(), &missing, visit)?;
        self.queues.0.lock().push(queue);
        Ok(())
    }

    fn read_queued(
        &self,
        queue: &mut dyn IoQueue,
        missing: &[Missing],
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PageError> {
        let mut todo = missing.iter().enumerate();
        let mut done = Vec::with_capacity(queue.depth());
        let mut left = missing.len();
        while left > 0 {
            while queue.in_flight() < queue.depth() {
                let Some((token, page)) = todo.next() else { break };
                let into = self.press.pool.take_exact(page.at.blocks());
                let io = Io::Read { at: self.space.lba_of(page.at.block()), into };
                queue.submit(token as u64, io).map_err(|rejected| rejected.error)?;
            }
            queue.complete(1, &mut done)?;
            for completion in done.drain(..) {
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
        self.press.pool.put(buffer);
        Ok(())
    }

    /// Where the page at `at` is. A page that waits is found until its group has been written, so whoever misses it
    /// there finds it below.
    fn locate(&self, at: PageAddress) -> Result<Found, PageError> {
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
                None => Found::OnDevice(at, generation),
            });
        }
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
        let page = self.press.framing.page(bytes, id, place).map_err(|fault| fault.at("page", at.block()))?;
        self.cache.insert(at, generation, bytes);
        Ok(page.body)
    }
}

/// A page that must be read from the device.
struct Missing {
    index: usize,
    id: PageId,
    at: PageAddress,
    generation: u64,
}

/// The body of a page in memory, whose bytes were made or verified here.
fn body_in_memory(page: &InMemory, id: PageId, at: PageAddress) -> Result<&[u8], PageError> {
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
