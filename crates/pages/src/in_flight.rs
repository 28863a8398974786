//! Device reads in flight together: many pages at once from one thread, and the queues that this takes.

use zonda_device::{Completion, Io, IoQueue, ZonedDevice};
use zonda_rt::Mutex;

use crate::flusher::Flusher;
use crate::reader::{Found, body_in_memory};
use crate::{PageAddress, PageError, PageId, number};

/// Most reads in flight of one queue.
const DEPTH: u32 = 64;
/// Most bytes in flight of one [`read_many`](Flusher::read_many), but always one page.
const IN_FLIGHT_BYTES_MAX: u64 = 256 << 10;
/// Of the reads in flight one in so many is waited for at a time: few calls of the system, and nobody waits for many.
const WAIT_SHARE: usize = 8;
/// Reads that are handed to the device together: it begins while the next are prepared.
const START_READS: usize = 8;
/// Queues kept for the next who needs one.
const QUEUES_KEPT_MAX: usize = 16;

/// Device queues that are not in use; nothing is in flight in them.
#[derive(Default)]
pub(crate) struct Queues(Mutex<Vec<Box<dyn IoQueue>>>);

impl Queues {
    /// A queue of some `DEPTH`.
    pub(crate) fn take(&self, device: &dyn ZonedDevice) -> Result<Box<dyn IoQueue>, PageError> {
        let kept = self.0.lock().pop();
        Ok(kept.map_or_else(|| device.queue(DEPTH), Ok)?)
    }

    /// Takes back a queue with nothing in flight.
    pub(crate) fn put(&self, queue: Box<dyn IoQueue>) {
        assert!(queue.in_flight() == 0, "a queue is kept with {} requests in flight", queue.in_flight());
        let mut kept = self.0.lock();
        if kept.len() < QUEUES_KEPT_MAX {
            kept.push(queue);
        }
    }
}

/// A page that must be read from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) id: PageId,
    pub(crate) at: PageAddress,
    pub(crate) generation: u64,
}

/// The pages that [`read_many`](Flusher::read_many) reads from the device, and how far it is.
struct Batch<'a> {
    /// With the index into the caller's pages.
    missing: Vec<(usize, Missing)>,
    begun: usize,
    in_flight_bytes: u64,
    visit: &'a mut dyn FnMut(usize, &[u8]),
}

impl Flusher {
    /// Reads several pages, those on the device in flight together. What is in memory is visited first.
    pub(crate) fn read_many(
        &self,
        pages: &[(PageId, PageAddress)],
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PageError> {
        let mut batch = Batch { missing: Vec::new(), begun: 0, in_flight_bytes: 0, visit };
        for (index, &(id, at)) in pages.iter().enumerate() {
            match self.locate(at)? {
                Found::InMemory(page) => (batch.visit)(index, body_in_memory(&page, id, at)?),
                Found::OnDevice(at, generation) => batch.missing.push((index, Missing { id, at, generation })),
            }
        }
        if batch.missing.is_empty() {
            return Ok(());
        }
        let mut queue = self.queues.take(self.space.device().as_ref())?;
        // After an error the queue is dropped, which waits for what is in flight.
        self.read_batch(queue.as_mut(), &mut batch)?;
        self.queues.put(queue);
        Ok(())
    }

    fn read_batch(&self, queue: &mut dyn IoQueue, batch: &mut Batch<'_>) -> Result<(), PageError> {
        let mut done = Vec::with_capacity(batch.missing.len().min(queue.depth()));
        while batch.begun < batch.missing.len() || queue.in_flight() > 0 {
            self.begin(queue, batch)?;
            queue.complete(queue.in_flight().div_ceil(WAIT_SHARE), &mut done)?;
            // What has become free is asked for before anything is decoded.
            batch.in_flight_bytes -= done.iter().filter_map(|done| done.buffer.as_deref()).map(bytes_of).sum::<u64>();
            self.begin(queue, batch)?;
            queue.start();
            done.drain(..).try_for_each(|completion| self.completed(batch, completion))?;
        }
        Ok(())
    }

    /// Fills the queue.
    fn begin(&self, queue: &mut dyn IoQueue, batch: &mut Batch<'_>) -> Result<(), PageError> {
        while let Some((_, page)) = batch.missing.get(batch.begun) {
            let bytes = page.at.len_bytes();
            let is_full = batch.in_flight_bytes > 0 && batch.in_flight_bytes + bytes > IN_FLIGHT_BYTES_MAX;
            if is_full || queue.in_flight() == queue.depth() {
                break;
            }
            self.submit_read(queue, batch.begun as u64, page.at)?;
            batch.in_flight_bytes += bytes;
            batch.begun += 1;
            if batch.begun.is_multiple_of(START_READS) {
                queue.start();
            }
        }
        Ok(())
    }

    /// Submits the read of a page into a buffer of the pool.
    pub(crate) fn submit_read(&self, queue: &mut dyn IoQueue, token: u64, at: PageAddress) -> Result<(), PageError> {
        let into = self.press.pool.take_exact(at.blocks());
        let io = Io::Read { at: self.space.lba_of(at.block()), into };
        Ok(queue.submit(token, io).map_err(|rejected| rejected.error)?)
    }

    fn completed(&self, batch: &mut Batch<'_>, completion: Completion) -> Result<(), PageError> {
        completion.result?;
        let (index, page) = batch.missing[number::index(completion.token)];
        let buffer = completion.buffer.expect("a read brings its buffer back");
        (batch.visit)(index, self.accept(&buffer, page.id, page.at, page.generation)?);
        self.press.pool.put(buffer);
        Ok(())
    }
}

fn bytes_of(buffer: &[u8]) -> u64 {
    buffer.len() as u64
}
