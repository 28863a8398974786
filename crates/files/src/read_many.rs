//! Several reads of one file at once: those of the device are in flight together.

use zonda_device::{Io, IoQueue};
use zonda_space::{AlignedBuf, BLOCK_BYTES, ReadOrigin, SpaceError};

use crate::extent::Piece;
use crate::reader::{DeviceRead, check_on_device};
use crate::trace::TraceEvent;
use crate::{FileReader, Result};

/// Device reads in flight of one caller, each of a MiB at most.
const QUEUE_DEPTH: u32 = 32;

/// One of several reads of a file.
#[derive(Debug)]
pub struct FileRead<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// What is filled, or as much of it as the file has.
    pub into: &'a mut [u8],
    /// How many bytes were read.
    pub bytes: usize,
}

/// What one device read brings: for which of the reads, and where in its buffer.
#[derive(Clone, Copy, Debug)]
struct Part {
    nth: usize,
    at: usize,
    read: DeviceRead,
}

impl FileReader {
    /// Does several reads, as [`read_told`](Self::read_told) each. Cost: as many device reads, up to 32 of them in flight; one after the
    /// other on a conventional drive, and on one that is told for whom it reads.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at); what was read is not known then.
    pub fn read_many(&self, reads: &mut [FileRead<'_>], origin: Option<ReadOrigin>) -> Result<()> {
        let has_queue = self.core.ground.blocks().is_none() && self.core.space().subzones().is_none();
        if !has_queue || reads.len() < 2 {
            return reads.iter_mut().try_for_each(|read| {
                read.bytes = self.read_told(read.offset, read.into, origin)?;
                Ok(())
            });
        }
        let content = self.file.content();
        let (mut parts, mut pieces) = (Vec::new(), Vec::new());
        for (nth, read) in reads.iter_mut().enumerate() {
            let end = read.offset.saturating_add(read.into.len() as u64);
            let here = content.extents.pieces(read.offset..end);
            read.bytes = 0;
            for part in here.iter().flat_map(Piece::device_reads) {
                parts.push(Part { nth, at: read.bytes, read: part });
                read.bytes += part.bytes;
            }
            let at = read.offset + read.bytes as u64;
            if let Some(at) = at.checked_sub(content.extents.bytes()) {
                read.bytes += content.read_waiting(at, &mut read.into[read.bytes..]);
            }
            pieces.extend(here);
        }
        self.read_pieces(&pieces, &parts, reads)?;
        for read in reads {
            let (file, offset, bytes) = (self.file.id(), read.offset, read.bytes as u64);
            self.core.trace(|| TraceEvent::Read { file, offset, bytes });
        }
        Ok(())
    }

    /// Reads all parts, from zones that hold these pieces; as to when that is asked see [`read_at`](Self::read_at).
    fn read_pieces(&self, pieces: &[Piece], parts: &[Part], reads: &mut [FileRead<'_>]) -> Result<()> {
        if !self.core.stop.is_read_only() {
            pieces.iter().try_for_each(|piece| self.check_generation(&piece.extent))?;
            return self.read_parts(parts, reads);
        }
        let read = self.read_parts(parts, reads);
        let mut zones: Vec<_> = pieces.iter().map(|piece| (piece.extent.zone, piece.extent.generation)).collect();
        zones.sort_unstable();
        zones.dedup();
        zones.iter().try_for_each(|(zone, generation)| check_on_device(self.core.space(), *zone, *generation))?;
        read
    }

    fn read_parts(&self, parts: &[Part], reads: &mut [FileRead<'_>]) -> Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        let open = || self.core.space().device().queue(QUEUE_DEPTH);
        let mut queue = self.core.queues.take(open).map_err(SpaceError::from)?;
        self.run(queue.as_mut(), parts, reads)?;
        // After an error it is dropped, which waits for what is in flight.
        self.core.queues.put(queue);
        Ok(())
    }

    fn run(&self, queue: &mut dyn IoQueue, parts: &[Part], reads: &mut [FileRead<'_>]) -> Result<()> {
        let (mut waiting, mut done) = (parts.iter().zip(0..), Vec::new());
        loop {
            while queue.in_flight() < queue.depth()
                && let Some((part, token)) = waiting.next()
            {
                let into = AlignedBuf::with_len((part.read.lead + part.read.bytes).next_multiple_of(BLOCK_BYTES));
                let at = self.core.space().lba_of(part.read.block);
                queue.submit(token, Io::Read { at, into }).map_err(|refused| SpaceError::from(refused.error))?;
            }
            if queue.in_flight() == 0 {
                return Ok(());
            }
            queue.complete(1, &mut done).map_err(SpaceError::from)?;
            for completion in done.drain(..) {
                completion.result.map_err(SpaceError::from)?;
                let Part { nth, at, read } = parts[usize::try_from(completion.token).expect("a part's number")];
                let buffer = completion.buffer.expect("a read brings its buffer back");
                reads[nth].into[at..at + read.bytes].copy_from_slice(&buffer[read.lead..read.lead + read.bytes]);
            }
        }
    }
}
