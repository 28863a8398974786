//! Writes: put, delete, batches. Atomic updates: `update.rs`.
//!
//! Life of a write: 1 limits are checked and room is made, while nothing is logged yet; 2 the key's stripe is taken, so that
//! writers of one key are ordered; 3 a large value goes to the value log; 4 the record is logged and gets its sequence number;
//! 5 it is applied to the filter, or without one to its leaf's buffer, which never fails while the store goes on; 6 leaves that grew too
//! large are merged; 7 with `Synced` the log is made durable.
//!
//! A leaf that cannot be merged keeps its records in its buffer, and a buffer has an end. So 1 refuses what a leaf that was found to be
//! such a one has no room for. Who logged a record all the same, and finds no room at 5, stops the store; where it was of a batch, reads
//! are refused, too, as they would see a part of it. The log has all of it for the next opening. See `buffer_end.rs`.

use std::{ops::RangeInclusive, time::Duration};

use zonda_pages::{PageId, RecordPressure};
use zonda_rt::{atomic::Ordering, epoch::Guard};

use crate::{
    BatchOp, Design, Durability, KEY_BYTES_MAX, TreeError, VALUE_BYTES_MAX,
    buffer::Buffer,
    buffer_end::{BUFFER_BYTES_LONG, BUFFER_END, Coming, DELETES_END, PUTS_END},
    filter::Filter,
    index::Path,
    key::{hash, range_prefix_bytes},
    leaf_table::{Exclusive, Location},
    record::{Kind, Record},
    recover::FIRST_SEQUENCE,
    relocate::can_wait,
    slots::{DENSE_HEADER_BYTES, SLOT_BYTES},
    stats::count,
    tree::{Result, Tree, is_no_space},
    waits::Cause,
};

/// Pages that a merge may need at most before more room is asked for.
pub(crate) const PAGES_ASKED: u32 = 2;

/// For how long checkpoints are tried after a zone of log or MetaLog was lost; then the store stops.
const OUTLIVE_MAX: Duration = Duration::from_secs(20);
/// The pause between two of them.
const OUTLIVE_PAUSE: Duration = Duration::from_millis(20);
/// Fruitless evictions, all in all, after which a writer goes on over the budget; admission then holds it if space is the reason.
const MISSES_MAX: u32 = 64;

/// A write whose value is inline or already in the value log.
pub(crate) struct Prepared<'a> {
    key: &'a [u8],
    kind: Kind,
    inline: &'a [u8],
    pointer: Vec<u8>,
}

impl Prepared<'_> {
    fn record(&self) -> Record<'_> {
        let value = if self.kind == Kind::Pointer { &self.pointer } else { self.inline };
        Record { key: self.key, kind: self.kind, value }
    }
}

/// What applying a record asks for afterwards.
pub(crate) enum Applied {
    /// As a buffer should be.
    Fine,
    /// The leaf's buffer has this many bytes, more than a buffer should.
    Overfull(PageId, usize),
    /// The record is nowhere but in the log: the leaf's buffer is at its end. The store has stopped, unless recovery puts it into the
    /// filter.
    Not,
}

/// A commit, and what is left to do when the stripes are released.
pub(crate) struct Committed {
    last: u64,
    /// Leaves, and what their buffers hold.
    overfull: Vec<(PageId, usize)>,
}

impl Tree {
    /// Maps `key` to `value`.
    ///
    /// # Errors
    /// Limits and `NoSpace` before anything is logged; `Poisoned`; those of the device.
    pub(crate) fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        let large = self.pages_for(key, value)?;
        let pages = PAGES_ASKED + large;
        self.make_room(false, pages)?;
        self.reclaim_for(large)?;
        self.make_ready(key, key.len() + value.len(), PUTS_END)?;
        let committed = self.with_stripes_free(pages, || {
            let _stripe = self.stripes.lock(hash(key));
            let prepared = self.prepare(key, value)?;
            self.commit(std::slice::from_ref(&prepared))
        })?;
        self.finish(committed, durability)
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// As [`put`](Self::put), but a full store takes deletes from its reserve.
    pub(crate) fn delete(&self, key: &[u8], durability: Durability) -> Result<()> {
        check_key(key)?;
        self.make_room(true, 0)?;
        self.make_ready(key, key.len(), DELETES_END)?;
        let committed = {
            let _stripe = self.stripes.lock(hash(key));
            self.commit(&[tombstone(key)])?
        };
        self.finish(committed, durability)
    }

    /// Makes the leaf of `key` ready for `bytes` bytes of records, before they are logged: where no filter takes them first, its page is
    /// brought in ([`bring_in`](Self::bring_in)); and a leaf that cannot be merged must have room for them. `end`: how far its buffer may
    /// grow, in bytes and records (`buffer_end.rs`).
    ///
    /// # Errors
    /// Those of merging, of a leaf that cannot be merged and whose buffer would grow past `end`; those of the device.
    pub(crate) fn make_ready(&self, key: &[u8], bytes: usize, end: (usize, usize)) -> Result<()> {
        self.bring_in_unfiltered(key)?;
        self.check_ready(key, bytes, end)
    }

    fn bring_in_unfiltered(&self, key: &[u8]) -> Result<()> {
        if self.filter.is_some() { Ok(()) } else { self.bring_in(key) }
    }

    /// Call it after the page was brought in: a clean buffer that leaves no room for a record is dropped here, and must not come back.
    fn check_ready(&self, key: &[u8], bytes: usize, end: (usize, usize)) -> Result<()> {
        if self.unmerged.any() {
            self.check_takes(key, bytes, end)?;
        } else if self.store.is_short() {
            // What a key outside of a prefix asks to be merged may find no room once it is logged.
            self.check_takes(key, 0, BUFFER_END)?;
        }
        Ok(())
    }

    /// Applies all of `batch` or nothing, in order.
    ///
    /// # Errors
    /// As [`put`](Self::put); `BatchTooLong`.
    pub(crate) fn write(&self, batch: &[BatchOp<'_>], durability: Durability) -> Result<()> {
        let deletes = batch.iter().all(|op| matches!(op, BatchOp::Delete { .. }));
        self.write_as(batch, durability, deletes)
    }

    /// As [`write`](Self::write), counted as a delete.
    ///
    /// # Errors
    /// As there, but a full store takes it from its reserve.
    pub(crate) fn write_from_reserve(&self, batch: &[BatchOp<'_>], durability: Durability) -> Result<()> {
        self.write_as(batch, durability, true)
    }

    fn write_as(&self, batch: &[BatchOp<'_>], durability: Durability, deletes: bool) -> Result<()> {
        let bytes = self.check_batch(batch)?;
        if batch.is_empty() {
            return self.check_writable();
        }
        let large = batch.iter().map(|op| self.pages_of_op(op)).try_fold(0, add_pages)?;
        let pages = (PAGES_ASKED + pages_of(bytes)).saturating_add(large);
        self.make_room(deletes, pages)?;
        self.reclaim_for(large)?;
        let end = if deletes { DELETES_END } else { PUTS_END };
        let (bytes, end) = (bytes + batch.len() * SLOT_BYTES, (end.0, end.1.saturating_sub(batch.len())));
        batch.iter().try_for_each(|op| self.bring_in_unfiltered(op.key()))?;
        batch.iter().try_for_each(|op| self.check_ready(op.key(), bytes, end))?;
        self.check_shares(batch, bytes)?;
        let mut indexes: Vec<usize> = batch.iter().map(|op| self.stripes.index(hash(op.key()))).collect();
        zonda_rt::stripes::sort_indexes(&mut indexes);
        let committed = self.with_stripes_free(pages, || {
            let _stripes = self.stripes.lock_many(indexes.clone());
            let prepared = self.prepare_batch(batch)?;
            self.commit(&prepared)
        })?;
        self.finish(committed, durability)
    }

    /// Calls `attempt`, which locks stripes and finds no zone for a large value, again after waiting for room without them: reclaim
    /// needs the stripes of the keys whose values it moves.
    ///
    /// # Errors
    /// Those of `attempt`; `NoSpace` when waiting makes no sense.
    fn with_stripes_free<T>(&self, pages: u32, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            match attempt() {
                Err(error) if is_no_space(&error) && self.admit_again(pages, tries)? => tries += 1,
                outcome => return outcome,
            }
        }
    }

    fn prepare_batch<'a>(&self, batch: &[BatchOp<'a>]) -> Result<Vec<Prepared<'a>>> {
        let mut prepared = Vec::with_capacity(batch.len());
        for op in batch {
            let next = match op {
                BatchOp::Put { key, value } => self.prepare(key, value),
                BatchOp::Delete { key } => Ok(tombstone(key)),
            };
            prepared.push(next.inspect_err(|_| self.abandon(&prepared))?);
        }
        Ok(prepared)
    }

    /// Large values of a write that is not logged: nothing will refer to them.
    fn abandon(&self, records: &[Prepared<'_>]) {
        for record in records.iter().filter(|record| record.kind == Kind::Pointer) {
            self.release_pointer(record.key.len(), &record.pointer, None);
        }
    }

    /// Pages that a value takes, whether its leaf holds it or the value log: there even one of a byte has a block to itself.
    pub(crate) fn pages_for(&self, key: &[u8], value: &[u8]) -> Result<u32> {
        if value.len() <= self.options.value_inline_bytes_max as usize {
            return Ok(pages_of(value.len()));
        }
        self.values.blocks(key.len(), value.len())
    }

    fn pages_of_op(&self, op: &BatchOp<'_>) -> Result<u32> {
        match op {
            BatchOp::Put { key, value } => self.pages_for(key, value),
            BatchOp::Delete { .. } => Ok(0),
        }
    }

    /// Writes a large value to the value log.
    pub(crate) fn prepare<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Result<Prepared<'a>> {
        if value.len() <= self.options.value_inline_bytes_max as usize {
            return Ok(Prepared { key, kind: Kind::Inline, inline: value, pointer: Vec::new() });
        }
        let written = self.values.write(key, value);
        let mut pointer = Vec::new();
        self.poison.watch(written)?.encode(&mut pointer);
        Ok(Prepared { key, kind: Kind::Pointer, inline: &[], pointer })
    }

    /// Logs and applies; the stripes of all keys are held, so nothing here waits for reclaim, which may wait for them.
    pub(crate) fn commit(&self, records: &[Prepared<'_>]) -> Result<Committed> {
        let _gate = (records.len() > 1).then(|| self.batch_gate.read());
        let logged = self.with_room(|| {
            let in_flight = self.log.begin();
            // Whoever closes the tree sees the slot, or this sees that it is closed.
            self.check_open()?;
            let numbers = self.log.append(&in_flight, records.iter().map(Prepared::record))?;
            Ok((in_flight, numbers))
        });
        let logged = logged.inspect_err(|_| self.abandon(records));
        // Held until the effect is applied.
        let (_in_flight, numbers) = self.poison.watch(logged)?;
        // All of a batch takes effect, whatever a merge within it meets: else readers would see a part of it.
        let (mut overfull, mut relieved) = (Vec::new(), Ok(()));
        for prepared in records {
            let applied = self.deliver(&prepared.record(), &numbers);
            // Once it is applied, not before: whoever searches for space takes every record that is counted for one that he has looked at.
            count(&self.counters.mine().puts);
            self.note_if_deleted(&prepared.record());
            match applied {
                Applied::Fine => {}
                Applied::Overfull(id, bytes) => {
                    overfull.push((id, bytes));
                    if bytes > BUFFER_BYTES_LONG && relieved.is_ok() {
                        relieved = self.relieve_now(id);
                    }
                }
                Applied::Not => {
                    if records.len() > 1 {
                        self.is_torn.store(true, Ordering::SeqCst);
                    }
                    relieved = self.poison.check();
                    break;
                }
            }
        }
        relieved.map_err(|error| self.stopped_by(error))?;
        Ok(Committed { last: *numbers.end(), overfull })
    }

    /// The error to tell of a write that is logged: `Poisoned` if the store has stopped since. From the error itself, of the merge or sync
    /// that stopped it, a caller would conclude that nothing was written (`NoSpace`, say).
    fn stopped_by(&self, error: TreeError) -> TreeError {
        self.poison.check().err().unwrap_or(error)
    }

    /// Applies a record that was logged under one of `numbers`.
    fn deliver(&self, record: &Record<'_>, numbers: &RangeInclusive<u64>) -> Applied {
        let Some(filter) = &self.filter else { return self.apply(record, *numbers.end()) };
        self.filter_record(filter, record, numbers);
        Applied::Fine
    }

    /// What follows a commit with no stripe held: merges leaves that grew too large, makes the log durable if asked.
    pub(crate) fn finish(&self, committed: Committed, durability: Durability) -> Result<()> {
        let mut overfull = committed.overfull.into_iter();
        let relieved = overfull.try_for_each(|(id, bytes)| self.relieve_in_time(id, bytes));
        let finished = relieved.and_then(|()| match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.sync_to(committed.last),
        });
        finished.map_err(|error| self.stopped_by(error))
    }

    /// Makes everything up to `sequence` durable: the log, and where a zone of records is lost that recovery would read, a checkpoint that
    /// needs it no more. No latch and no stripe is held.
    ///
    /// # Errors
    /// `Poisoned`, those of the device.
    pub(crate) fn sync_to(&self, sequence: u64) -> Result<()> {
        self.sync_log_to(sequence)?;
        self.outlive_lost_records()
    }

    /// Makes the log durable up to `sequence`.
    ///
    /// # Errors
    /// `Poisoned`, those of the device.
    pub(crate) fn sync_log_to(&self, sequence: u64) -> Result<()> {
        let synced = self.with_room(|| self.log.sync_to(sequence));
        self.poison.watch(synced)
    }

    /// Takes checkpoints until recovery needs nothing any more that is lost. Usually one, or none: it keeps the log from the first
    /// operation on that is under way, and the MetaLog from where it began itself; another needs less of both. One load where nothing is.
    ///
    /// # Errors
    /// `Poisoned`, those of the device. Not `NoSpace`: what is written is there.
    pub(crate) fn outlive_lost_records(&self) -> Result<()> {
        let mut began = None;
        while self.store.record_pressure() == RecordPressure::Lost {
            let now = zonda_rt::now();
            if now.since(*began.get_or_insert(now)) > OUTLIVE_MAX {
                return self.stop_for_lost_records();
            }
            match self.checkpoint_if_due() {
                Err(error) if is_no_space(&error) => {}
                outcome => outcome?,
            }
            if self.store.record_pressure() == RecordPressure::Lost {
                zonda_rt::sleep(OUTLIVE_PAUSE);
            }
        }
        Ok(())
    }

    #[cold]
    fn stop_for_lost_records(&self) -> Result<()> {
        let why = "a zone of log or MetaLog is lost, and no checkpoint could do without it".to_owned();
        self.poison.set(TreeError::Damaged { what: "records", why });
        self.poison.check()
    }

    /// The way to the leaf that holds `key`, and that leaf, latched: it walks again when the way has changed meanwhile.
    pub(crate) fn latch<'g>(&self, key: &[u8], guard: &'g Guard<'_>) -> (Path<'g>, Exclusive<'_>) {
        loop {
            let path = self.index.find(key, guard);
            let leaf = self.table.lock(path.leaf());
            if path.is_current() {
                return (path, leaf);
            }
        }
    }

    /// Applies a record that is logged (or is being recovered) to its leaf. Never fails for want of memory or space: where others have put
    /// more into the leaf's buffer than they have merged yet, it merges first, and only a store that stops for that goes without.
    fn apply(&self, record: &Record<'_>, sequence: u64) -> Applied {
        loop {
            let guard = self.epoch.pin();
            let (path, mut leaf) = self.latch(record.key, &guard);
            let coming = Coming::one(record.key);
            if self.is_at_end(leaf.location(), coming) && !self.drop_if_clean(&mut leaf) {
                let id = leaf.id();
                drop((leaf, path));
                drop(guard);
                // What recovery finds no room for goes into the filter.
                let made = match self.recovering.load(Ordering::Acquire) {
                    true => self.makes_room_for_run(id, coming).is_ok(),
                    false => self.makes_room_in(id, coming),
                };
                if !made {
                    return Applied::Not;
                }
                continue;
            }
            self.before_change(&leaf, &path);
            return self.apply_latched(&mut leaf, &path, std::iter::once(*record), sequence);
        }
    }

    /// Puts sorted records, at least one, into the buffer of their latched leaf, under sequence numbers up to `sequence`. Snapshots have
    /// had their chance to keep what was there.
    pub(crate) fn apply_latched<'r>(
        &self,
        leaf: &mut Exclusive<'_>,
        path: &Path<'_>,
        records: impl Iterator<Item = Record<'r>> + Clone,
        sequence: u64,
    ) -> Applied {
        let is_due = self.is_due_near_head(leaf);
        if leaf.location().buffer().is_none() {
            self.start_buffer(leaf, path, records.clone());
        }
        match records.fold(Applied::Fine, |_, record| self.upsert(leaf, &record, sequence)) {
            Applied::Fine if is_due => Applied::Overfull(leaf.id(), 0),
            applied => applied,
        }
    }

    /// Gives a leaf a buffer with room for `records`.
    fn start_buffer<'r>(
        &self,
        leaf: &mut Exclusive<'_>,
        path: &Path<'_>,
        mut records: impl Iterator<Item = Record<'r>> + Clone,
    ) {
        let low = path.low();
        let keeps_whole = self.options.design == Design::Adb && self.options.classes.keeps_keys_whole();
        let prefix_bytes = if keeps_whole { 0 } else { range_prefix_bytes(&low, path.high().as_deref()) };
        let (mut payload, mut whole) = (0, 0);
        for record in records.clone() {
            payload += record.key.len() - prefix_bytes + record.value.len();
            whole += record.key.len() + record.value.len();
        }
        let first = records.next().expect("at least one record");
        let prefix = &first.key[..prefix_bytes];
        let (memory, owner) = (self.pool.memory(), self.owner(leaf.id(), payload));
        let room = memory.sizing().at_first(payload, whole);
        let mut buffer = Buffer::new(memory, owner, leaf.location().page(), prefix, room);
        if buffer.page().is_none() {
            buffer.set_complete();
        }
        self.relocate_leaf(leaf, Location::Buffered(buffer));
    }

    fn upsert(&self, leaf: &mut Exclusive<'_>, record: &Record<'_>, sequence: u64) -> Applied {
        let id = leaf.id();
        let buffer = leaf.buffer_mut().expect("the caller made one");
        buffer.find_own(record.key).iter().for_each(|old| self.note_overwritten(old, record));
        if buffer.upsert(record) {
            buffer.note_change(sequence);
        } else {
            let owner = self.owner(id, buffer.slots().used_bytes());
            let mut grown = buffer.grown(self.pool.memory(), owner, record);
            grown.note_change(sequence);
            self.relocate_leaf(leaf, Location::Buffered(grown));
        }
        let buffer = leaf.location().buffer().expect("just placed");
        if !buffer.is_mini_page() {
            buffer.touch();
        }
        if self.is_overfull(buffer) { Applied::Overfull(id, buffer.slots().used_bytes()) } else { Applied::Fine }
    }

    /// A value pointer that is overwritten in memory dies at once.
    pub(crate) fn note_overwritten(&self, old: &Record<'_>, record: &Record<'_>) {
        if old.kind == Kind::Pointer {
            self.release_pointer(record.key.len(), old.value, (record.kind == Kind::Pointer).then_some(record.value));
        }
    }

    /// Whether a buffer holds as much as its design and classes let it, so that its leaf is merged.
    pub(crate) fn is_overfull(&self, buffer: &Buffer) -> bool {
        if buffer.is_mini_page() && buffer.page().is_some() {
            let used = buffer.slots().used_bytes() + buffer.prefix().len();
            let is_long = buffer.bytes() > self.options.mini_pages.bytes_max as usize;
            // A mirror has no other limit than the page that it will become.
            return if buffer.is_complete() { used > self.body_bytes() } else { is_long };
        }
        let (records, used) = (buffer.slots().len(), buffer.slots().used_bytes());
        if buffer.is_complete() && buffer.page().is_some() {
            return used + buffer.prefix().len() > self.body_bytes();
        }
        let options = &self.options;
        used > self.body_bytes() * 3 / 4
            || match (options.design, options.classes) {
                (Design::Deltas, _) => records > options.delta_records_max as usize,
                (Design::Adb, classes) => {
                    classes.used_bytes_max().is_some_and(|bytes_max| used > bytes_max + DENSE_HEADER_BYTES)
                }
                _ => false,
            }
    }

    /// Recovery and images: applies without logging.
    ///
    /// # Errors
    /// As merging.
    pub(crate) fn apply_recovered(&self, record: &Record<'_>, sequence: u64) -> Result<()> {
        self.evict_recovering()?;
        self.note_if_deleted(record);
        // Where an older record of the key found no room, this one goes, too (*down*).
        let is_above = |filter: &&Filter| filter.find(record.key, &self.epoch.pin(), &mut |_| ()).is_some();
        if let Some(filter) = self.filter.as_ref().filter(|filter| !filter.is_empty()).filter(is_above) {
            self.filter_record(filter, record, &(FIRST_SEQUENCE..=sequence));
            return Ok(());
        }
        match self.apply(record, sequence) {
            Applied::Fine => Ok(()),
            Applied::Overfull(id, _) => self.relieve_in_round(id),
            Applied::Not => {
                self.poison.check()?;
                let filter = self.filter.as_ref().expect("recovery has one");
                // It may be of an image, which does not tell the number.
                self.filter_record(filter, record, &(FIRST_SEQUENCE..=sequence));
                Ok(())
            }
        }
    }

    /// Evicts buffers while they are over their budget. Without zones recovery goes over it rather than wait for reclaim, which waits for
    /// recovery, and does not try again for each record.
    fn evict_recovering(&self) -> Result<()> {
        let is_in_vain = || self.unmerged.evicts_none(self.reclaim_steps()) && self.store.is_short();
        while self.pool.is_over() && !is_in_vain() {
            match self.evict() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if can_wait(&error) => {
                    if is_no_space(&error) {
                        self.unmerged.none_evicted(self.reclaim_steps());
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Evicts buffers while they are over their budget, unless others are in the way all the time.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn make_buffer_room(&self) -> Result<()> {
        if !self.pool.is_over() {
            return Ok(());
        }
        self.waits.during(Cause::Evict, || {
            let mut misses = 0;
            while self.pool.is_over() && misses < MISSES_MAX {
                misses += u32::from(!self.evict()?);
            }
            Ok(())
        })
    }

    /// Keeps buffers and filter within their memory. No latch, no stripe may be held.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn make_memory_room(&self) -> Result<()> {
        // The filter is served also when buffers cannot be evicted: what deletes is on its way down through it.
        let (evicted, served) = (self.make_buffer_room(), self.serve_filter());
        evicted.and(served)
    }

    /// Makes room for one more write before it is logged: checkpoints when the log is far over its limit, evicts buffers while they are
    /// over theirs. `deletes`: may draw on the store's reserve. `pages`: what the write may need in the end.
    ///
    /// # Errors
    /// `Closed`, `Poisoned`, `NoSpace`, those of the device.
    pub(crate) fn make_room(&self, deletes: bool, pages: u32) -> Result<()> {
        self.check_writable()?;
        if self.is_checkpoint_overdue() {
            self.waits.during(Cause::Checkpoint, || self.checkpoint_if_due())?;
        }
        match self.make_memory_room() {
            Err(error) if deletes && can_wait(&error) => return Ok(()),
            outcome => outcome?,
        }
        if deletes { Ok(()) } else { self.admit_pressing(pages) }
    }
}

/// Pages that `bytes` fill.
fn pages_of(bytes: usize) -> u32 {
    u32::try_from(bytes / zonda_pages::BLOCK_BYTES).unwrap_or(u32::MAX / 2)
}

fn add_pages(all: u32, pages: Result<u32>) -> Result<u32> {
    Ok(all.saturating_add(pages?))
}

pub(crate) fn tombstone(key: &[u8]) -> Prepared<'_> {
    Prepared { key, kind: Kind::Tombstone, inline: &[], pointer: Vec::new() }
}

pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        Ok(())
    } else {
        Err(TreeError::KeyTooLong { bytes: key.len(), bytes_max: KEY_BYTES_MAX })
    }
}

pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    let (bytes, bytes_max) = (value.len(), VALUE_BYTES_MAX);
    if bytes <= bytes_max { Ok(()) } else { Err(TreeError::ValueTooLong { bytes, bytes_max }) }
}
