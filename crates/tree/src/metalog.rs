//! The MetaLog: structure, address records and buffer images in one stream (docs/decisions/0001).
//!
//! Life of a record: 1 [`MetaLog::append`] encodes it into memory, under the latch of the leaf it speaks of, so that the
//! stream has the order in which things happened; 2 [`MetaLog::flush`] settles the pages placed before it; 3 makes the
//! log durable up to the highest sequence number in them; 4 appends the records as one group of chunks, all or nothing;
//! 5 flushes the area.
//!
//! Invariants, cited by name:
//! - *settled*: a durable record names only durable pages. A flush takes exactly the records that were there when a
//!   settling began during which no page had to be placed again: the pages they name were placed before it;
//! - *write-ahead*: the log is durable up to the sequence numbers in those pages before the records are written;
//! - *one group*: what one flush takes is found whole or not at all;
//! - *one flush*: flushes happen one after the other; a group is durable before the next one begins.
//!
//! Memory: what is pending, and a copy of it while it is written.
//!
//! Lock order: flusher, then pending records. `append` takes only the latter and never waits for I/O.

mod group;
mod record;
mod recovery;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use zonda_pages::{Area, AreaKind, PageStore, SegmentId};
use zonda_rt::Mutex;
use zonda_rt::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

pub(crate) use record::{AboveLevel, Begin, MetaRecord, Records, Upsert};
pub(crate) use recovery::{CheckpointStart, MetaVisitor, newest_checkpoint, replay_from};

use crate::TreeError;
use crate::log::{Poison, Session};
use group::write_group;

type Result<T> = std::result::Result<T, TreeError>;

/// The most of [`MetaLog::flush_bytes`].
pub(crate) const FLUSH_BYTES: usize = 64 << 10;

/// In small zones a group takes no more than this share of one: what is left at its end fits no further group.
const FLUSH_SHARE_OF_ZONE: usize = 8;

/// How often one flush settles again because a zone failed meanwhile.
const SETTLE_ROUNDS_MAX: u32 = 64;

/// A place in this session's stream. A record is durable when [`MetaLog::flushed_position`] has reached the position
/// that `append` returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u64);

/// Bytes appended in this session, by what they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetaBytes {
    /// Moves and restructurings: the address journal.
    pub(crate) journal: u64,
    /// Leaves of checkpoints without their images, begins and ends, sessions.
    pub(crate) checkpoints: u64,
    /// Dirty records of leaf buffers, filter and batch array.
    pub(crate) images: u64,
}

/// How a flush reaches what must be durable before its records.
pub(crate) struct WriteAhead<'a> {
    /// Writes all placed pages and flushes the device. Calls [`MetaLog::placed_again`] for each page that it, or a
    /// concurrent `pump`, placed again, after its record was appended.
    pub(crate) settle: &'a mut dyn FnMut() -> Result<()>,
    /// Makes the log durable up to the given number, inclusive.
    pub(crate) sync_log: &'a mut dyn FnMut(u64) -> Result<()>,
}

/// Records that no flush has taken.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    /// Bytes of all records of this session.
    appended: u64,
    /// Highest sequence number in any page or image that was named, in this session; 0 = none.
    highest_sequence: u64,
    placed_again: u64,
    by_part: MetaBytes,
}

/// What a flush may take.
#[derive(Clone, Copy, Debug)]
struct Mark {
    position: u64,
    highest_sequence: u64,
    placed_again: u64,
    by_part: MetaBytes,
}

/// The one that writes.
#[derive(Debug)]
struct Flusher {
    /// Taken and not written yet: not empty only during a flush, or after one that found the store full.
    group: Vec<u8>,
    next_chunk: u64,
    /// Of what was written so far.
    by_part: MetaBytes,
    checkpoint: Option<OpenCheckpoint>,
    /// The newest segment of the life before, which the session may continue.
    before: Option<SegmentId>,
    /// The first segment that the session began.
    begun: Option<SegmentId>,
}

/// A checkpoint between `Begin` and `End`.
#[derive(Clone, Copy, Debug)]
struct OpenCheckpoint {
    number: u64,
    /// Bytes before the `Begin`.
    position: u64,
    /// The segment with its group, once written.
    segment: Option<SegmentId>,
}

/// The MetaLog of one life of a store.
///
/// After an error of an area or of settling, except `NoSpace` before anything was written, every later flush answers
/// the same cause.
pub(crate) struct MetaLog {
    store: Arc<dyn PageStore>,
    session: u32,
    pending: Mutex<Pending>,
    flusher: Mutex<Flusher>,
    flushed: AtomicU64,
    /// Bytes that the journal's part of each group took on the device, with as much of padding and heads.
    journal_written: AtomicU64,
    /// A group begins behind the first segment that this session began.
    outgrown: AtomicBool,
    poison: Poison,
}

impl MetaLog {
    /// The MetaLog of a new session, whose first chunk has the number `next_chunk` (0 in an empty store, else
    /// [`next_chunk`](recovery::MetaEnd::next_chunk) of recovery). Makes durable what recovery read, and then the session's record: before
    /// that no chunk of the session's log may be written. One device write, two flushes.
    ///
    /// # Errors
    /// Those of the area.
    pub(crate) fn start(store: Arc<dyn PageStore>, session: Session, next_chunk: u64) -> Result<Self> {
        let area = store.area(AreaKind::Meta);
        area.flush()?;
        let before = area.segments().last().map(|segment| segment.id);
        let by_part = MetaBytes::default();
        let flusher = Flusher { group: Vec::new(), next_chunk, by_part, checkpoint: None, before, begun: None };
        let metalog = Self {
            store,
            session: session.number,
            pending: Mutex::default(),
            flusher: Mutex::new(flusher),
            flushed: AtomicU64::new(0),
            journal_written: AtomicU64::new(0),
            outgrown: AtomicBool::new(false),
            poison: Poison::default(),
        };
        metalog.append(&MetaRecord::Session(session), 0);
        metalog.flush(&mut WriteAhead { settle: &mut || Ok(()), sync_log: &mut |_| Ok(()) })?;
        Ok(metalog)
    }

    /// Appends a record in memory. `max_sequence` is the highest sequence number whose effect is in the pages or the
    /// image that it names (0 = none). Call it under the latch of the leaf, after the page was placed.
    pub(crate) fn append(&self, record: &MetaRecord<'_>, max_sequence: u64) -> Position {
        self.pending.lock().append(record, max_sequence)
    }

    /// A placed page was placed again because a zone failed; its leaf's new `Move` was appended before, if the leaf was
    /// still there. Call it for every page that `pump` or `settle` report as moved.
    pub(crate) fn placed_again(&self) {
        self.pending.lock().placed_again += 1;
    }

    /// Makes every record durable that was appended before this call, after its pages and the log. With nothing
    /// pending it does nothing. Must be called with no leaf latch held.
    ///
    /// # Errors
    /// `Poisoned`; those of settling, of the log and of the area. After `NoSpace` all records are kept.
    pub(crate) fn flush(&self, ahead: &mut WriteAhead<'_>) -> Result<()> {
        self.flush_with(&mut self.flusher.lock(), ahead)
    }

    fn flush_with(&self, flusher: &mut Flusher, ahead: &mut WriteAhead<'_>) -> Result<()> {
        self.poison.check()?;
        if self.position() == self.flushed_position() {
            return Ok(());
        }
        let mark = self.poison.watch(self.settled_mark(ahead))?;
        if mark.highest_sequence > 0 {
            (ahead.sync_log)(mark.highest_sequence)?;
        }
        self.pending.lock().take(mark.position, &mut flusher.group);
        self.write_group(flusher, mark)
    }

    /// *settled*: settles until no page is placed again meanwhile; what was appended before that may be taken.
    fn settled_mark(&self, ahead: &mut WriteAhead<'_>) -> Result<Mark> {
        for _ in 0..SETTLE_ROUNDS_MAX {
            let mark = self.pending.lock().mark();
            (ahead.settle)()?;
            if self.pending.lock().placed_again == mark.placed_again {
                return Ok(mark);
            }
        }
        let why = format!("pages had to be placed again in each of {SETTLE_ROUNDS_MAX} rounds");
        Err(TreeError::Damaged { what: "device", why })
    }

    fn write_group(&self, flusher: &mut Flusher, mark: Mark) -> Result<()> {
        let bytes_before = self.store.written_by().meta;
        let written = write_group(self.area(), self.session, flusher.next_chunk, &flusher.group);
        if let Some(error) = written.error {
            // *one group*: a group that was begun cannot be begun again in this session.
            return if written.chunks == 0 { self.poison.watch(Err(error)) } else { Err(self.poison.set(error)) };
        }
        let outcome = self.area().flush().map_err(TreeError::from);
        self.poison.watch(outcome)?;
        let journal_bytes = flusher.journal_of(mark.by_part, self.store.written_by().meta - bytes_before);
        self.journal_written.fetch_add(journal_bytes, Relaxed);
        flusher.note_checkpoint(self.flushed.load(SeqCst)..mark.position, written.segment);
        flusher.begun = flusher.begun.or(written.segment.filter(|&segment| Some(segment) > flusher.before));
        self.outgrown.store(flusher.begun.is_some() && written.segment > flusher.begun, Relaxed);
        flusher.next_chunk += written.chunks;
        flusher.group.clear();
        flusher.group.shrink_to(2 * FLUSH_BYTES);
        self.flushed.store(mark.position, SeqCst);
        Ok(())
    }

    /// Begins a checkpoint; whoever calls appends the leaves in key order and calls `flush` whenever
    /// [`pending_bytes`](Self::pending_bytes) exceeds [`flush_bytes`](Self::flush_bytes). One begun before and not ended is given up.
    pub(crate) fn begin_checkpoint(&self, begin: Begin<'_>) {
        let mut flusher = self.flusher.lock();
        let mut pending = self.pending.lock();
        let position = pending.appended;
        flusher.checkpoint = Some(OpenCheckpoint { number: begin.checkpoint, position, segment: None });
        pending.append(&MetaRecord::Begin(begin), 0);
    }

    /// Ends the checkpoint: makes it durable and releases the segments that only older ones need. Returns the position behind it.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    ///
    /// # Panics
    /// If no checkpoint was begun.
    pub(crate) fn end_checkpoint(&self, ahead: &mut WriteAhead<'_>) -> Result<Position> {
        let mut flusher = self.flusher.lock();
        let open = flusher.checkpoint.expect("end_checkpoint follows begin_checkpoint");
        let end = self.append(&MetaRecord::End { checkpoint: open.number }, 0);
        self.flush_with(&mut flusher, ahead)?;
        let open = flusher.checkpoint.take().expect("nobody else had the lock");
        let first = open.segment.expect("its begin was appended before its end, and all is flushed");
        self.poison.watch(self.release_before(first)).map(|()| end)
    }

    fn release_before(&self, first: SegmentId) -> Result<()> {
        let segments = self.area().segments().into_iter();
        segments.filter(|old| old.id < first).try_for_each(|old| Ok(self.area().release(old.id)?))
    }

    /// Whether this session has filled the segment that it began: what the reserve counts for a short life.
    pub(crate) fn has_outgrown_a_segment(&self) -> bool {
        self.outgrown.load(Relaxed)
    }

    /// Pending bytes at which whoever appends many records (a checkpoint) should flush.
    pub(crate) fn flush_bytes(&self) -> usize {
        FLUSH_BYTES.min(self.area().chunk_bytes_max() / FLUSH_SHARE_OF_ZONE)
    }

    /// Bytes of records that are not durable.
    pub(crate) fn pending_bytes(&self) -> usize {
        let flushed = self.flushed_position(); // first: it may grow up to the position meanwhile
        usize::try_from(self.position().0 - flushed.0).expect("they are in memory")
    }

    /// The position behind the newest record.
    pub(crate) fn position(&self) -> Position {
        Position(self.pending.lock().appended)
    }

    /// The position behind the newest durable record.
    pub(crate) fn flushed_position(&self) -> Position {
        Position(self.flushed.load(SeqCst))
    }

    /// Bytes that the address journal took on the device in this session, its share of padding and heads included. Never falls.
    pub(crate) fn journal_written_bytes(&self) -> u64 {
        self.journal_written.load(Relaxed)
    }

    fn area(&self) -> &dyn Area {
        self.store.area(AreaKind::Meta)
    }
}

impl Pending {
    fn append(&mut self, record: &MetaRecord<'_>, max_sequence: u64) -> Position {
        let before = self.bytes.len();
        record.encode(&mut self.bytes);
        let bytes = (self.bytes.len() - before) as u64;
        self.appended += bytes;
        self.highest_sequence = self.highest_sequence.max(max_sequence);
        self.by_part.count(record, bytes);
        Position(self.appended)
    }

    fn mark(&self) -> Mark {
        let &Self { appended: position, highest_sequence, placed_again, by_part, .. } = self;
        Mark { position, highest_sequence, placed_again, by_part }
    }

    /// Moves the records before `position` to the end of `group`.
    fn take(&mut self, position: u64, group: &mut Vec<u8>) {
        let first = self.appended - self.bytes.len() as u64;
        let len = usize::try_from(position - first).expect("they are in memory");
        if group.is_empty() && len == self.bytes.len() {
            return std::mem::swap(group, &mut self.bytes);
        }
        group.extend(self.bytes.drain(..len));
    }
}

impl MetaBytes {
    fn all(&self) -> u64 {
        self.journal + self.checkpoints + self.images
    }

    fn count(&mut self, record: &MetaRecord<'_>, bytes: u64) {
        match record {
            MetaRecord::Move { .. } | MetaRecord::Restructure { .. } | MetaRecord::Sparse { .. } => {
                self.journal += bytes
            }
            MetaRecord::Leaf { image, .. } => {
                self.images += image.len() as u64;
                self.checkpoints += bytes - image.len() as u64;
            }
            MetaRecord::Above { .. } => self.images += bytes,
            MetaRecord::Begin(_) | MetaRecord::End { .. } | MetaRecord::Session(_) => self.checkpoints += bytes,
        }
    }
}

impl Flusher {
    /// The journal's part of a group that took so many bytes on the device, and up to whose end `by_part` was appended.
    fn journal_of(&mut self, by_part: MetaBytes, bytes: u64) -> u64 {
        let before = std::mem::replace(&mut self.by_part, by_part);
        let (journal, all) = (by_part.journal - before.journal, (by_part.all() - before.all()).max(1));
        u64::try_from(u128::from(bytes) * u128::from(journal) / u128::from(all)).unwrap_or(bytes)
    }

    /// Remembers the segment of the group that holds the open checkpoint's `Begin`.
    fn note_checkpoint(&mut self, group: std::ops::Range<u64>, segment: Option<SegmentId>) {
        if let Some(open) = self.checkpoint.as_mut().filter(|open| group.contains(&open.position)) {
            open.segment = segment;
        }
    }
}
