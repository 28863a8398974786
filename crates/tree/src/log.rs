//! The write-ahead log: several in-memory instances that share one area (ZKV 3.5).
//!
//! Life of an operation: 1 [`Log::begin`] takes an in-flight slot; 2 [`Log::append`] draws its sequence numbers and
//! encodes it into the ring of one instance, under that instance's lock; 3 its effect is applied; 4 the slot is dropped;
//! 5 a writer (a full ring, the time limit or a sync) copies all rings to one chunk and appends it to the area; 6 a
//! flush makes it durable.
//!
//! Invariants, cited by name:
//! - *dense*: numbers are drawn one by one and every drawn number is encoded before the instance's lock is dropped;
//! - *collected*: a writer that read the next number `S` and then took every instance has taken all numbers below `S`,
//!   because whoever drew one held the instance's lock until it was encoded;
//! - *ordered*: chunks are appended under the writer's lock, in the order in which they were collected;
//! - *says what is durable*: a chunk carries a number below which everything was durable when it was written, so that recovery can
//!   tell damage of what was durable from a torn tail;
//! - *values first*: the values that a chunk points to are durable before it is written.
//!
//! Lock order: commit state, writer, one instance. None is held while another thread's effect is waited for.
//!
//! Memory: each instance's ring and as much again in the writer's chunk; after a batch longer than a ring both shrink.
//!
//! Costs: an append is one uncontended lock and a copy; a sync of small records is one device write of one block and
//! one flush, shared by everybody who waits meanwhile.

mod in_flight;
mod instance;
mod poison;
mod replay;
mod segments;
mod session;
#[cfg(test)]
mod tests;
mod unit;
mod writer;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use zonda_pages::{Area, AreaKind, PageStore};
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use zonda_rt::{Condvar, Mutex, Time, now};

pub(crate) use in_flight::InFlight;
pub(crate) use poison::{Poison, can_go_on};
pub(crate) use replay::{ReplayVisitor, Stretch, replay};
pub(crate) use session::{Session, SessionTable};

use crate::TreeError;
use crate::format::LogPartHeader;
use crate::limits::KEY_BYTES_MAX;
use crate::record::Record;
use crate::tree::is_no_space;
use in_flight::{InFlightSlots, Padded};
use instance::Instance;
use segments::Segments;
use unit::{Measure, measure};
use writer::{Writer, part_bytes_max};

type Result<T> = std::result::Result<T, TreeError>;

/// The most instances; replay's reordering is bounded with it.
const INSTANCES_MAX: u32 = 64;

/// The least room for a part that is worth starting with: the longest key and a value as long.
const PART_BYTES_MIN: usize = 4 * KEY_BYTES_MAX;

/// Options of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOptions {
    /// In-memory instances, 1 to 64; one per core is right.
    pub(crate) instances: u32,
    /// Bytes of an instance's ring; a full one is written out by whoever finds it full.
    pub(crate) ring_bytes: usize,
    /// How long an operation may stay in memory when [`Log::step`] is called in time.
    pub(crate) interval: Duration,
    /// `false`: sequence numbers are drawn, nothing is written, everything counts as durable (for measurements).
    pub(crate) enabled: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { instances: 2, ring_bytes: 64 << 10, interval: Duration::from_millis(1), enabled: true }
    }
}

/// Group commit: who syncs for whom.
struct Commit {
    /// Every number below is durable.
    durable: u64,
    /// A leader is writing and flushing.
    leading: bool,
}

/// Whoever leads a group commit, and forgets this when it is back: if it panics, nobody waits for it any more, and as what it wrote is
/// half done nobody goes on.
struct Leader<'a> {
    log: &'a Log,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.log.poison.set(TreeError::Panicked { thread: "log leader".into() });
        self.log.commit.lock().leading = false;
        self.log.committed.notify_all();
    }
}

/// The write-ahead log of one life of a store.
///
/// After an error of the area, except `NoSpace`, every later append and sync answers the same cause.
pub(crate) struct Log {
    store: Arc<dyn PageStore>,
    options: LogOptions,
    chunk_bytes_max: usize,
    next_sequence: Padded<AtomicU64>,
    in_flight: InFlightSlots,
    instances: Box<[Padded<Mutex<Instance>>]>,
    writer: Mutex<Writer>,
    /// The writer keeps a chunk that a full store refused. A copy, too, for who must not wait for the device.
    chunk_waits: AtomicBool,
    /// When the rings were last collected.
    written_at: Mutex<Time>,
    /// Copies of the writer's figures, so that asking does not wait for the device.
    live_bytes: AtomicU64,
    appended_bytes: AtomicU64,
    commit: Mutex<Commit>,
    /// A copy of the commit state's number, for chunks that are written meanwhile.
    durable_before: AtomicU64,
    committed: Condvar,
    poison: Poison,
}

impl Log {
    /// The log of session `session`, whose first number is `first_sequence` (at least 1, what recovery's
    /// [`ReplayEnd::next_sequence`](replay::ReplayEnd) said). Flushes the area, so that what recovery read of earlier lives cannot be lost
    /// behind what this life adds; a session's record must not be durable before that, so recovery did it already.
    ///
    /// # Errors
    /// `BadOption`; those of the area.
    pub(crate) fn start(
        store: Arc<dyn PageStore>,
        options: LogOptions,
        session: u32,
        first_sequence: u64,
    ) -> Result<Self> {
        assert!(first_sequence > 0, "number 0 means none");
        let area = store.area(AreaKind::Log);
        let chunk_bytes_max = area.chunk_bytes_max();
        let options = check_options(options, part_bytes_max(chunk_bytes_max))?;
        area.flush()?;
        let segments = Segments::of_earlier_lives(&area.segments(), first_sequence);
        let live_bytes = AtomicU64::new(segments.bytes_since_truncation());
        let instance = |_| Padded(Mutex::new(Instance::with_capacity(options.ring_bytes)));
        Ok(Self {
            store,
            options,
            chunk_bytes_max,
            next_sequence: Padded(AtomicU64::new(first_sequence)),
            in_flight: InFlightSlots::new(),
            instances: (0..options.instances).map(instance).collect(),
            writer: Mutex::new(Writer::new(session, first_sequence, segments)),
            chunk_waits: AtomicBool::new(false),
            written_at: Mutex::new(now()),
            live_bytes,
            appended_bytes: AtomicU64::new(0),
            commit: Mutex::new(Commit { durable: first_sequence, leading: false }),
            durable_before: AtomicU64::new(first_sequence),
            committed: Condvar::new(),
            poison: Poison::default(),
        })
    }

    /// Registers an operation before it draws its numbers. Keep the guard until the effect is applied; hold one at a
    /// time. No allocation, no lock.
    pub(crate) fn begin(&self) -> InFlight<'_> {
        self.in_flight.begin(&self.next_sequence.0)
    }

    /// Whether every operation that was registered before the call is applied, whether it has drawn its numbers by then or not.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_idle()
    }

    /// Every operation with a number below this one is applied.
    pub(crate) fn low_water(&self) -> u64 {
        self.in_flight.low_water(&self.next_sequence.0)
    }

    /// The number that will be drawn next.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence.0.load(SeqCst)
    }

    /// Logs the operations as one batch and returns their numbers. In memory, unless the ring is full; then this
    /// thread writes it out first.
    ///
    /// # Errors
    /// `BatchTooLong` and `NoSpace` with nothing logged; `Poisoned`; those of the area.
    ///
    /// # Panics
    /// If there is no operation: an empty batch is not logged.
    pub(crate) fn append<'a>(
        &self,
        in_flight: &InFlight<'_>,
        ops: impl Iterator<Item = Record<'a>> + Clone,
    ) -> Result<RangeInclusive<u64>> {
        loop {
            if let Some(numbers) = self.append_in_memory(in_flight, ops.clone())? {
                return Ok(numbers);
            }
            self.make_room(in_flight, ops.clone())?;
        }
    }

    /// As [`append`](Self::append) without the device, for who holds a latch. `None`, with nothing logged, if the ring is full: then
    /// [`make_room`](Self::make_room) comes next.
    ///
    /// # Errors
    /// As `append`.
    ///
    /// # Panics
    /// As `append`.
    pub(crate) fn append_in_memory<'a>(
        &self,
        in_flight: &InFlight<'_>,
        ops: impl Iterator<Item = Record<'a>> + Clone,
    ) -> Result<Option<RangeInclusive<u64>>> {
        self.poison.check()?;
        let unit = self.measure(ops.clone())?;
        let mut instance = self.instance_of(in_flight).lock();
        if !instance.has_room(&unit, self.options.ring_bytes) {
            return Ok(None);
        }
        let first = self.next_sequence.0.fetch_add(unit.count, SeqCst);
        if self.options.enabled {
            instance.push(first, &unit, ops);
        }
        Ok(Some(first..=first + unit.count - 1))
    }

    fn instance_of(&self, in_flight: &InFlight<'_>) -> &Mutex<Instance> {
        &self.instances[in_flight.index() % self.instances.len()].0
    }

    /// Whether operations that are as long as these can be logged as one batch.
    ///
    /// # Errors
    /// `BatchTooLong`.
    pub(crate) fn check<'a>(&self, ops: impl Iterator<Item = Record<'a>>) -> Result<()> {
        self.measure(ops).map(|_| ())
    }

    /// The most bytes that a batch takes in the log.
    pub(crate) fn unit_bytes_max(&self) -> usize {
        unit_bytes_max(part_bytes_max(self.chunk_bytes_max))
    }

    fn measure<'a>(&self, ops: impl Iterator<Item = Record<'a>>) -> Result<Measure> {
        let unit = measure(ops);
        assert!(unit.count > 0, "an empty batch is not logged");
        let bytes_max = self.unit_bytes_max();
        if unit.bytes_max > bytes_max {
            return Err(TreeError::BatchTooLong { bytes: unit.bytes_max, bytes_max });
        }
        Ok(unit)
    }

    /// Writes out for operations that find the ring full, unless another thread has done so while this one waited for its turn.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub(crate) fn make_room<'a>(&self, in_flight: &InFlight<'_>, ops: impl Iterator<Item = Record<'a>>) -> Result<()> {
        let unit = self.measure(ops)?;
        let mut writer = self.writer.lock();
        self.poison.check()?;
        let full = { !self.instance_of(in_flight).lock().has_room(&unit, self.options.ring_bytes) };
        if full {
            self.write_out_with(&mut writer)?;
        }
        Ok(())
    }

    /// Writes everything that was appended before this call to the device, without a flush. Returns a number such that
    /// every lower one is on the device.
    ///
    /// # Errors
    /// `NoSpace` (everything is kept, try again); `Poisoned`; those of the area.
    pub(crate) fn write_out(&self) -> Result<u64> {
        let mut writer = self.writer.lock();
        self.poison.check()?;
        self.write_out_with(&mut writer)
    }

    fn write_out_with(&self, writer: &mut Writer) -> Result<u64> {
        *self.written_at.lock() = now();
        let outcome = self.collect_and_append(writer);
        self.chunk_waits.store(writer.has_chunk(), SeqCst);
        self.publish(&writer.segments);
        self.poison.watch(outcome)
    }

    fn publish(&self, segments: &Segments) {
        self.live_bytes.store(segments.bytes_since_truncation(), SeqCst);
        self.appended_bytes.store(segments.appended_bytes(), SeqCst);
    }

    /// *collected*: reads the next number, then takes every instance.
    fn collect_and_append(&self, writer: &mut Writer) -> Result<u64> {
        self.append_chunk(writer)?; // what a full store left behind
        let complete_before = self.next_sequence();
        for Padded(instance) in &self.instances {
            self.collect(writer, instance)?;
        }
        writer.complete(complete_before);
        self.append_chunk(writer)?;
        Ok(complete_before)
    }

    fn collect(&self, writer: &mut Writer, instance: &Mutex<Instance>) -> Result<()> {
        let mut ring = instance.lock();
        if !writer.fits(ring.part_bytes(), self.chunk_bytes_max) {
            drop(ring); // an append need not wait for the device
            self.append_chunk(writer)?;
            ring = instance.lock();
        }
        if !ring.is_empty() {
            writer.collect(&mut ring, self.options.ring_bytes);
        }
        Ok(())
    }

    fn append_chunk(&self, writer: &mut Writer) -> Result<()> {
        let keep_bytes = self.instances.len() * self.options.ring_bytes;
        writer.append(&*self.store, self.durable_before.load(SeqCst), keep_bytes)
    }

    /// Background step: writes out what may be older than the interval, and what a full store refused. Returns whether it wrote.
    ///
    /// # Errors
    /// As [`write_out`](Self::write_out). A full store is none: the next step tries again.
    pub(crate) fn step(&self) -> Result<bool> {
        let is_early = now().since(*self.written_at.lock()) < self.options.interval;
        if is_early || !self.holds_any() {
            return Ok(false);
        }
        match self.write_out() {
            Err(error) if is_no_space(&error) => Ok(false),
            outcome => outcome.map(|_| true),
        }
    }

    /// Whether anything is in memory only.
    fn holds_any(&self) -> bool {
        self.chunk_waits.load(SeqCst) || self.instances.iter().any(|instance| !instance.0.lock().is_empty())
    }

    /// Returns when `sequence` and everything below is durable. Group commit: one thread writes and flushes for all
    /// that wait; whoever comes while it does shares the next round.
    ///
    /// # Errors
    /// As [`write_out`](Self::write_out); those of the flush; `Poisoned` if the thread that led panicked.
    ///
    /// # Panics
    /// If `sequence` was not drawn yet.
    pub(crate) fn sync_to(&self, sequence: u64) -> Result<()> {
        assert!(sequence < self.next_sequence(), "number {sequence} was not drawn yet");
        let mut commit = self.commit.lock();
        while self.options.enabled && commit.durable <= sequence {
            self.poison.check()?;
            if commit.leading {
                commit = self.committed.wait(commit);
                continue;
            }
            commit.leading = true;
            drop(commit);
            let leader = Leader { log: self };
            let outcome = self.write_and_flush();
            std::mem::forget(leader);
            commit = self.commit.lock();
            commit.leading = false;
            self.committed.notify_all();
            commit.durable = commit.durable.max(outcome?);
            self.durable_before.store(commit.durable, SeqCst);
        }
        Ok(())
    }

    /// Makes everything durable whose append returned before this call.
    ///
    /// # Errors
    /// As [`sync_to`](Self::sync_to).
    pub(crate) fn sync(&self) -> Result<()> {
        self.sync_to(self.next_sequence() - 1)
    }

    fn write_and_flush(&self) -> Result<u64> {
        let written = self.write_out()?;
        let outcome = self.area().flush().map_err(TreeError::from);
        self.poison.watch(outcome)?;
        Ok(written)
    }

    /// Every number below this one is durable.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(crate) fn durable(&self) -> u64 {
        if self.options.enabled { self.commit.lock().durable } else { self.next_sequence() }
    }

    /// Releases the segments that hold nothing at or above `before`: a durable checkpoint must make replay begin
    /// there. The open segment goes too, when the log is idle.
    ///
    /// # Errors
    /// Those of the area.
    pub(crate) fn truncate(&self, before: u64) -> Result<()> {
        let mut writer = self.writer.lock();
        writer.segments.truncated(before);
        self.publish(&writer.segments);
        while let Some(oldest) = writer.segments.releasable(before) {
            let outcome = self.area().release(oldest).map_err(TreeError::from);
            self.poison.watch(outcome)?;
            writer.segments.released();
        }
        Ok(())
    }

    /// Bytes on the device that replay would have to look at, to within 64 KiB above the truth: when to checkpoint.
    /// One load.
    pub(crate) fn bytes_since_truncation(&self) -> u64 {
        self.live_bytes.load(SeqCst)
    }

    /// Bytes appended in this life, padding included.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended_bytes.load(SeqCst)
    }

    fn area(&self) -> &dyn Area {
        self.store.area(AreaKind::Log)
    }
}

/// Bytes that the ops of one unit may take when a part may take `part_bytes_max`.
const fn unit_bytes_max(part_bytes_max: usize) -> usize {
    part_bytes_max.saturating_sub(size_of::<LogPartHeader>())
}

/// Fits the rings to the area's chunks.
fn check_options(mut options: LogOptions, part_bytes_max: usize) -> Result<LogOptions> {
    let bad = |name, why| Err(TreeError::BadOption { name, why });
    if !(1..=INSTANCES_MAX).contains(&options.instances) {
        return bad("log_instances", format!("{} is not in 1..={INSTANCES_MAX}", options.instances));
    }
    if part_bytes_max < PART_BYTES_MIN {
        return bad("zone size", format!("a log chunk of {part_bytes_max} bytes holds no record of the longest key"));
    }
    options.ring_bytes = options.ring_bytes.min(unit_bytes_max(part_bytes_max));
    Ok(options)
}

/// The unit of `ops` without a gap, for tests that look at bytes.
#[cfg(all(test, not(feature = "shuttle")))]
pub(crate) fn encoded_unit(ops: &[Record<'_>]) -> Vec<u8> {
    let mut unit = Vec::new();
    unit::put_unit(&mut unit, 0, ops.len() as u64, ops.iter().copied());
    unit
}
