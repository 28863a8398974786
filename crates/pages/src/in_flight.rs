//! Many pages from one thread: their device reads are in flight together, and begin while the caller still looks for the next.

use zonda_device::Completion;

use crate::read_queue::ReadQueue;
use crate::source::{OnDevice, Source};
use crate::store::PagesWanted;
use crate::{PageError, PageId, number};

/// Most bytes in flight of one caller, but always one page.
const BYTES_MAX: u64 = 256 << 10;
/// Of the reads in flight one in so many is waited for at a time: few calls of the system, and nobody waits for many.
const WAIT_SHARE: usize = 8;
/// Reads that are handed to the device together: it begins while the next are looked for.
const START_READS: usize = 8;

/// Reads all pages that `wanted` names. What is in memory is taken at once.
///
/// # Errors
/// Those of [`PageStore::read_many`](crate::PageStore::read_many).
pub(crate) fn read_many<S: Source>(source: &S, wanted: &mut dyn PagesWanted) -> Result<(), PageError> {
    let mut reads = Reads { source, wanted, pages: 0, held: None, begun: Vec::new(), in_flight_bytes: 0 };
    // No queue for pages that are all in memory.
    reads.held = reads.next_on_device()?;
    if reads.held.is_none() {
        return Ok(());
    }
    reads.run(&mut ReadQueue::take(source)?)
}

/// A page that must be read from the device: the `nth` that the caller named.
#[derive(Clone, Copy)]
struct Missing {
    nth: usize,
    id: PageId,
    place: OnDevice,
}

/// The reads of one caller, and how far they are.
struct Reads<'a, S> {
    source: &'a S,
    wanted: &'a mut dyn PagesWanted,
    /// Pages that the caller has named.
    pages: usize,
    /// The next page to read, found while there was no room for it.
    held: Option<Missing>,
    /// By token.
    begun: Vec<Missing>,
    in_flight_bytes: u64,
}

impl<S: Source> Reads<'_, S> {
    fn run(&mut self, queue: &mut ReadQueue<'_, S>) -> Result<(), PageError> {
        let mut done = Vec::with_capacity(queue.depth());
        loop {
            self.begin(queue)?;
            if queue.in_flight() == 0 {
                return Ok(());
            }
            queue.complete(WAIT_SHARE, &mut done)?;
            // What has become free is asked for before anything is decoded.
            self.in_flight_bytes -= done.iter().filter_map(|done| done.buffer.as_deref()).map(bytes_of).sum::<u64>();
            self.begin(queue)?;
            done.drain(..).try_for_each(|completion| self.completed(queue, completion))?;
        }
    }

    /// Fills the queue.
    fn begin(&mut self, queue: &mut ReadQueue<'_, S>) -> Result<(), PageError> {
        let mut waiting = 0;
        while queue.in_flight() < queue.depth() {
            let next = self.held.take().map_or_else(|| self.next_on_device(), |held| Ok(Some(held)))?;
            let Some(page) = next else { break };
            let bytes = page.place.at.len_bytes();
            if self.in_flight_bytes > 0 && self.in_flight_bytes + bytes > BYTES_MAX {
                self.held = Some(page);
                break;
            }
            self.submit(queue, page)?;
            self.in_flight_bytes += bytes;
            waiting += 1;
            if waiting == START_READS {
                queue.start();
                waiting = 0;
            }
        }
        if waiting > 0 {
            queue.start();
        }
        Ok(())
    }

    /// The next page that is not in memory; the caller takes those before it now.
    fn next_on_device(&mut self) -> Result<Option<Missing>, PageError> {
        while let Some((id, at)) = self.wanted.next_page() {
            let nth = self.pages;
            self.pages += 1;
            let elsewhere = self.source.visit_in_memory(id, at, &mut |body| self.wanted.take(nth, body))?;
            if let Some(place) = elsewhere {
                return Ok(Some(Missing { nth, id, place }));
            }
        }
        Ok(None)
    }

    fn submit(&mut self, queue: &mut ReadQueue<'_, S>, page: Missing) -> Result<(), PageError> {
        queue.read(self.begun.len(), page.place.at.block(), page.place.at.blocks())?;
        self.begun.push(page);
        Ok(())
    }

    fn completed(&mut self, queue: &mut ReadQueue<'_, S>, completion: Completion) -> Result<(), PageError> {
        let Missing { nth, id, place } = self.begun[number::index(completion.token)];
        completion.result.map_err(|error| PageError::from(error).of_read("page", place.at.block()))?;
        let buffer = completion.buffer.expect("a read brings its buffer back");
        self.wanted.take(nth, self.source.verify(&buffer, (id, place.at), place.generation)?);
        queue.give_back(buffer);
        Ok(())
    }
}

fn bytes_of(buffer: &[u8]) -> u64 {
    buffer.len() as u64
}
