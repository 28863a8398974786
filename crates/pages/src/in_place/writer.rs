//! Writing what waits: neighbours in one write, writes in flight together, one thread at a time.
//!
//! Headers of new segments go with the pages: both are durable after the next flush, and nothing names a page before. Blocks that cannot
//! be written are left alone; their pages are placed elsewhere by [`Core::replace_failed`].

use std::collections::HashMap;

use zonda_device::{Completion, DeviceError, ErrorKind, Io, IoQueue};
use zonda_rt::MutexGuard;
use zonda_rt::atomic::Ordering;

use super::core::{ATTEMPTS_MAX, Core};
use super::format::{SegmentHeader, SegmentKind};
use super::pending::{PendingPage, WriteRun};
use super::table::Unwritten;
use crate::flusher::Moved;
use crate::{Heat, NewPage, PageAddress, PageError, number};

/// How long `pump` waits for reclaim when a foreground writer found no room.
const PUMP_PATIENCE: std::time::Duration = std::time::Duration::from_millis(1);

/// The right to write, and the queue for it.
#[derive(Default)]
pub(crate) struct Writer {
    queue: Option<Box<dyn IoQueue>>,
}

impl Core {
    /// Writes what waits if it is enough, and gives reclaim a moment if a writer found no room.
    pub(crate) fn pump(&self, moved: Moved<'_>) -> Result<(), PageError> {
        self.make_way()?;
        self.replace_failed(moved)
    }

    /// What `pump` does, but for blocks that cannot be written: for reclaim, which cannot tell the tree of pages that moved.
    pub(crate) fn make_way(&self) -> Result<(), PageError> {
        let now = self.gate.now();
        if self.starved.swap(false, Ordering::Relaxed) && !self.is_reclaimer() && self.room_blocks() == 0 {
            self.gate.wait(now, PUMP_PATIENCE);
        }
        let waiting = self.with_pending(|pending| pending.waiting_blocks());
        let is_crowded = waiting >= self.pending_blocks_max || self.crowded.swap(false, Ordering::Relaxed);
        if waiting < self.pump_blocks && !is_crowded {
            return Ok(());
        }
        // Another thread may write already; wait for it only when no more pages can be placed.
        let writer = if is_crowded { Some(self.writer.lock()) } else { self.writer.try_lock() };
        writer.map_or(Ok(()), |writer| self.write_waiting(writer))
    }

    /// Writes everything placed before this call and flushes the device.
    pub(crate) fn settle(&self, moved: Moved<'_>) -> Result<(), PageError> {
        self.write_waiting(self.writer.lock())?;
        self.replace_failed(moved)?;
        Ok(self.disk.flush()?)
    }

    /// Writes all that waits.
    pub(crate) fn write_waiting(&self, mut writer: MutexGuard<'_, Writer>) -> Result<(), PageError> {
        let _label = zonda_device::cut_label_unless_named("page group");
        let runs = self.with_pending(|pending| pending.take());
        // Taken after the pages, so with the headers of all their segments.
        if let Err(error) = self.write_headers() {
            self.with_pending(|pending| runs.iter().for_each(|run| pending.put_back(run)));
            return Err(error.into());
        }
        match runs.as_slice() {
            [] => Ok(()),
            [run] => Ok(self.write_run(run)?),
            _ => Ok(self.write_runs(&mut writer, runs)?),
        }
    }

    fn write_headers(&self) -> Result<(), DeviceError> {
        let headers = self.with_table(|table| table.take_unwritten());
        for (index, new) in headers.iter().enumerate() {
            match self.write_header(new.segment, &pages_header(*new)) {
                Err(error) if error.kind() == ErrorKind::Media => self.lose_segment(*new),
                Err(error) => {
                    self.with_table(|table| table.put_unwritten(headers[index..].iter().copied()));
                    return Err(error);
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Recovery would not know the segment: none of its pages counts as written.
    fn lose_segment(&self, new: Unwritten) {
        self.with_table(|table| table.lose(new.segment));
        let there =
            self.with_pending(|pending| pending.within(self.layout.first(new.segment)..self.layout.end(new.segment)));
        there.iter().for_each(|page| self.fail(page));
    }

    fn fail(&self, page: &PendingPage) {
        self.with_pending(|pending| pending.fail(page.at));
        self.any_failed.store(true, Ordering::Release);
    }

    /// Writes one run; what cannot be written of it fails page by page.
    fn write_run(&self, run: &WriteRun) -> Result<(), DeviceError> {
        let mut buffer = self.pool.take(run.blocks());
        let bytes = &mut buffer[..number::bytes(run.blocks())];
        run.copy_to(bytes);
        let outcome = self.disk.write(run.block(), bytes);
        self.conclude(run, outcome)
    }

    /// Writes runs, as many in flight together as the queue takes. After an error the other runs are written all the same.
    fn write_runs(&self, writer: &mut Writer, runs: Vec<WriteRun>) -> Result<(), DeviceError> {
        let mut queue = match writer.queue.take() {
            Some(queue) => queue,
            None => match self.disk.queue() {
                Ok(queue) => queue,
                Err(error) => return Err(self.give_back(runs, error)),
            },
        };
        let mut left: HashMap<u64, WriteRun> = HashMap::new();
        let mut failure = None;
        for (token, run) in runs.into_iter().enumerate() {
            if queue.in_flight() == queue.depth()
                && let Err(error) = self.complete(queue.as_mut(), &mut left)
            {
                failure.get_or_insert(error);
            }
            let mut from = self.pool.take_exact(run.blocks());
            run.copy_to(&mut from);
            let submitted = queue.submit(token as u64, Io::Write { at: self.disk.lba(run.block()), from });
            match submitted {
                Ok(()) => drop(left.insert(token as u64, run)),
                Err(rejected) => drop(failure.get_or_insert(self.give_back([run], rejected.error))),
            }
        }
        while !left.is_empty() {
            let in_flight = left.len();
            match self.complete(queue.as_mut(), &mut left) {
                // The queue itself fails: dropping it waits for what is in flight, whose outcome nobody tells.
                Err(error) if left.len() == in_flight => {
                    return Err(self.give_back(left.into_values(), failure.unwrap_or(error)));
                }
                Err(error) => drop(failure.get_or_insert(error)),
                Ok(()) => {}
            }
        }
        writer.queue = Some(queue);
        failure.map_or(Ok(()), Err)
    }

    fn give_back(&self, runs: impl IntoIterator<Item = WriteRun>, error: DeviceError) -> DeviceError {
        self.with_pending(|pending| runs.into_iter().for_each(|run| pending.put_back(&run)));
        error
    }

    /// Waits for at least one write and concludes all that are done.
    fn complete(&self, queue: &mut dyn IoQueue, left: &mut HashMap<u64, WriteRun>) -> Result<(), DeviceError> {
        let mut done = Vec::with_capacity(queue.depth());
        queue.complete(1, &mut done)?;
        let mut outcome = Ok(());
        for Completion { token, result, buffer } in done {
            buffer.into_iter().for_each(|buffer| self.pool.put(buffer));
            let run = left.remove(&token).expect("each write completes once");
            outcome = outcome.and(self.conclude(&run, result.map(|_| ())));
        }
        outcome
    }

    /// After a write: its pages are on the device, or fail, or wait again.
    fn conclude(&self, run: &WriteRun, outcome: Result<(), DeviceError>) -> Result<(), DeviceError> {
        match outcome {
            Ok(()) => {
                run.pages().iter().for_each(|page| self.after_write(page));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Media && run.pages().len() == 1 => {
                self.fail(&run.pages()[0]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Media => {
                run.single_pages().try_for_each(|single| self.write_run(&single))
            }
            Err(error) => Err(self.give_back([run.clone()], error)),
        }
    }

    fn after_write(&self, page: &PendingPage) {
        self.counters.page_written(page.heat, page.at.len_bytes());
        if self.cache.wants_written(page.reads(), self.cache_threshold_reads) {
            self.cache.insert(page.at, self.generation_at(page.at.block()), page.bytes());
        }
        // Before it leaves memory: whoever finds it on the device finds the new count (`ahead.rs::Version`).
        self.writes_at(page.at.block()).fetch_add(1, Ordering::AcqRel);
        self.with_pending(|pending| pending.written(page.at));
    }

    /// Places pages again whose blocks could not be written, writes them and tells `moved`; waits for another thread that does.
    ///
    /// # Errors
    /// `Damaged` if one place after the other fails; `NoSpace`.
    pub(crate) fn replace_failed(&self, moved: Moved<'_>) -> Result<(), PageError> {
        if !self.any_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let _replacing = self.replacing.lock();
        for _ in 0..ATTEMPTS_MAX {
            let failed = self.with_pending(|pending| pending.failed());
            if failed.is_empty() {
                return Ok(());
            }
            failed.iter().try_for_each(|page| self.replace(page, moved))?;
            self.write_waiting(self.writer.lock())?;
        }
        let why = format!("pages could not be written in any of {ATTEMPTS_MAX} places");
        Err(PageError::Damaged { what: "device", block: 0, why })
    }

    fn replace(&self, page: &PendingPage, moved: Moved<'_>) -> Result<(), PageError> {
        let trusted = crate::frame::trusted_page(page.bytes());
        let frame = trusted.map_err(|fault| fault.at("page in memory", page.at.block()))?;
        let copy = NewPage { id: page.id, sequence: frame.sequence, body: frame.body };
        let to = self.place_again(&copy)?;
        let released = self.with_pending(|pending| pending.moved(page.at, to));
        moved(page.id, page.at, to);
        // The old place keeps the copy in memory for those who still have its address.
        self.put_in_limbo(if released { to } else { page.at });
        Ok(())
    }

    /// Places a page in spite of what waits.
    fn place_again(&self, page: &NewPage<'_>) -> Result<PageAddress, PageError> {
        for _ in 0..ATTEMPTS_MAX {
            match self.place(Heat::Relocated, std::slice::from_ref(page)) {
                Ok(addresses) => return Ok(addresses[0]),
                Err(PageError::Busy) => self.write_waiting(self.writer.lock())?,
                Err(error) => return Err(error),
            }
        }
        Err(self.no_space())
    }
}

fn pages_header(new: Unwritten) -> SegmentHeader {
    SegmentHeader { kind: SegmentKind::Pages, generation: new.generation, written_blocks: 0 }
}
