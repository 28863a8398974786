//! Writes: put, delete, batches, atomic updates.
//!
//! Life of a write: 1 limits are checked and room is made, while nothing is logged yet; 2 the key's stripe is taken, so that
//! writers of one key are ordered; 3 a large value goes to the value log; 4 the record is logged and gets its sequence number;
//! 5 it is applied to its leaf's buffer, which never fails; 6 leaves that grew too large are merged; 7 with `Synced` the log is
//! made durable.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use zonda_pages::PageId;

use crate::{
    BATCH_BYTES_MAX, BatchOp, Durability, KEY_BYTES_MAX, TreeError, Update, VALUE_BYTES_MAX,
    buffer::Buffer,
    key::range_prefix_bytes,
    leaf_table::{Exclusive, Location},
    record::{Kind, Record},
    stats::count,
    tree::{Result, Tree},
};

/// Pages that a merge may need at most before more room is asked for.
const PAGES_ASKED: u32 = 2;

/// A buffer that grows past this because its leaf cannot be merged stops the store: another record of any size must fit
/// after it.
const BUFFER_BYTES_END: usize = 192 << 10;

/// Which stripe orders the writers of `key`.
pub(crate) fn hash(key: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}

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
enum Applied {
    Fine,
    /// The leaf's buffer is over the largest class of its design.
    Overfull(PageId),
}

impl Tree {
    /// Maps `key` to `value`.
    ///
    /// # Errors
    /// Limits and `NoSpace` before anything is logged; `Poisoned`; those of the device.
    pub(crate) fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.make_room(false, PAGES_ASKED)?;
        let _stripe = self.stripes.lock(hash(key));
        let prepared = self.prepare(key, value)?;
        self.commit(std::slice::from_ref(&prepared), durability)
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// As [`put`](Self::put), but a full store takes deletes from its reserve.
    pub(crate) fn delete(&self, key: &[u8], durability: Durability) -> Result<()> {
        check_key(key)?;
        self.make_room(true, 0)?;
        let _stripe = self.stripes.lock(hash(key));
        self.commit(&[tombstone(key)], durability)
    }

    /// Lets `decide` see the value of `key` and change it, with all other writers of `key` kept out. Returns the value before.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Update,
    ) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        self.make_room(false, PAGES_ASKED)?;
        let _stripe = self.stripes.lock(hash(key));
        let mut value = Vec::new();
        let before = self.get_into(key, &mut value)?.then_some(value);
        match decide(before.as_deref()) {
            Update::Keep => {}
            Update::Delete => self.commit(&[tombstone(key)], durability)?,
            Update::Put(value) => {
                check_value(&value)?;
                let prepared = self.prepare(key, &value)?;
                self.commit(std::slice::from_ref(&prepared), durability)?;
            }
        }
        Ok(before)
    }

    /// Applies all of `batch` or nothing, in order.
    ///
    /// # Errors
    /// As [`put`](Self::put); `BatchTooLong`.
    pub(crate) fn write(&self, batch: &[BatchOp<'_>], durability: Durability) -> Result<()> {
        let bytes = check_batch(batch, self.options.value_inline_bytes_max)?;
        if batch.is_empty() {
            return self.check_writable();
        }
        let deletes = batch.iter().all(|op| matches!(op, BatchOp::Delete { .. }));
        self.make_room(deletes, PAGES_ASKED + bytes / zonda_pages::BLOCK_BYTES as u32)?;
        let mut indexes: Vec<usize> = batch.iter().map(|op| self.stripes.index(hash(op.key()))).collect();
        zonda_rt::stripes::sort_indexes(&mut indexes);
        let _stripes = self.stripes.lock_many(indexes);
        let prepared = self.prepare_batch(batch)?;
        self.commit(&prepared, durability)
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

    /// Writes a large value to the value log.
    fn prepare<'a>(&self, key: &'a [u8], value: &'a [u8]) -> Result<Prepared<'a>> {
        if value.len() <= self.options.value_inline_bytes_max as usize {
            return Ok(Prepared { key, kind: Kind::Inline, inline: value, pointer: Vec::new() });
        }
        let written = self.values.write(key, value);
        let mut pointer = Vec::new();
        self.poison.watch(written)?.encode(&mut pointer);
        Ok(Prepared { key, kind: Kind::Pointer, inline: &[], pointer })
    }

    /// Logs and applies; the stripes of all keys are held.
    fn commit(&self, records: &[Prepared<'_>], durability: Durability) -> Result<()> {
        let last = {
            let _gate = (records.len() > 1).then(|| self.batch_gate.read());
            let in_flight = self.log.begin();
            let logged = self.log.append(&in_flight, records.iter().map(Prepared::record));
            let logged = logged.inspect_err(|_| self.abandon(records));
            let last = *self.poison.watch(logged)?.end();
            for prepared in records {
                count(&self.counters.puts);
                // Between the records of a batch too: write-ahead holds, since pages carry the batch's last number.
                if let Applied::Overfull(id) = self.apply(&prepared.record(), last) {
                    self.relieve(id)?;
                }
            }
            last
        };
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.poison.watch(self.log.sync_to(last)),
        }
    }

    /// Logs and applies one ready record, for reclaim: no room is made, nothing is merged. The key's stripe is held.
    ///
    /// # Errors
    /// `Poisoned`, those of the log.
    pub(crate) fn commit_record(&self, record: &Record<'_>) -> Result<()> {
        let in_flight = self.log.begin();
        let logged = self.log.append(&in_flight, std::iter::once(*record));
        let last = *self.poison.watch(logged)?.end();
        self.apply(record, last);
        Ok(())
    }

    /// Applies a record that is logged (or is being recovered). Never fails for want of memory or space.
    fn apply(&self, record: &Record<'_>, sequence: u64) -> Applied {
        let guard = self.epoch.pin();
        loop {
            let path = self.index.find(record.key, &guard);
            let mut leaf = self.table.lock(path.leaf());
            if !path.is_current() {
                continue;
            }
            let epoch = self.before_change(&leaf, &path);
            if leaf.location().buffer().is_none() {
                let low = path.low();
                let prefix = range_prefix_bytes(&low, path.high().as_deref());
                self.start_buffer(&mut leaf, &record.key[..prefix], record);
            }
            return self.upsert(&mut leaf, record, sequence, epoch);
        }
    }

    fn start_buffer(&self, leaf: &mut Exclusive<'_>, prefix: &[u8], record: &Record<'_>) {
        let payload = record.key.len() - prefix.len() + record.value.len();
        let mut buffer = Buffer::new(leaf.location().page(), prefix, payload);
        if buffer.page().is_none() {
            buffer.set_complete();
        }
        self.relocate_leaf(leaf, Location::Buffered(buffer));
    }

    fn upsert(&self, leaf: &mut Exclusive<'_>, record: &Record<'_>, sequence: u64, epoch: u64) -> Applied {
        let buffer = leaf.buffer_mut().expect("the caller made one");
        self.note_replaced(buffer, record);
        if !buffer.upsert(record) {
            let mut grown = buffer.grown(record);
            grown.note_change(sequence, epoch);
            self.relocate_leaf(leaf, Location::Buffered(grown));
        } else {
            buffer.note_change(sequence, epoch);
        }
        let buffer = leaf.location().buffer().expect("just placed");
        buffer.touch();
        let over = buffer.slots().used_bytes() > self.buffer_bytes_max();
        if over { Applied::Overfull(leaf.id()) } else { Applied::Fine }
    }

    /// A value pointer that is overwritten in the buffer dies at once.
    fn note_replaced(&self, buffer: &Buffer, record: &Record<'_>) {
        if let Some(old) = buffer.find(record.key).filter(|old| old.kind == Kind::Pointer) {
            self.release_pointer(record.key.len(), old.value, (record.kind == Kind::Pointer).then_some(record.value));
        }
    }

    /// The most bytes of records a buffer holds before its leaf is merged.
    fn buffer_bytes_max(&self) -> usize {
        self.body_bytes() * 3 / 4
    }

    /// Recovery and images: applies without logging.
    ///
    /// # Errors
    /// As merging.
    pub(crate) fn apply_recovered(&self, record: &Record<'_>, sequence: u64) -> Result<()> {
        while self.pool.is_over() {
            match self.evict() {
                Err(error) if crate::log::can_go_on(&error) => break,
                outcome => outcome?,
            }
        }
        match self.apply(record, sequence) {
            Applied::Fine => Ok(()),
            Applied::Overfull(id) => self.relieve(id),
        }
    }

    /// Merges a leaf whose buffer is too large. A full store is no error here: the record is safe in the log and the
    /// buffer, and the next writer is refused. But a buffer has an end: then the store stops writing.
    fn relieve(&self, id: PageId) -> Result<()> {
        match self.flush_leaf(id) {
            Err(error) if crate::log::can_go_on(&error) && !self.is_near_its_end(id) => Ok(()),
            Err(error) if crate::log::can_go_on(&error) => Err(self.poison.set(error)),
            outcome => self.poison.watch(outcome),
        }
    }

    fn is_near_its_end(&self, id: PageId) -> bool {
        let leaf = self.table.lock_shared(id);
        leaf.location().buffer().is_some_and(|buffer| buffer.slots().used_bytes() > BUFFER_BYTES_END)
    }

    /// Makes room for one more write before it is logged: checkpoints when the log is far over its limit, evicts buffers
    /// while they are over theirs. `deletes`: may draw on the store's
    /// reserve. `pages`: what the write may need in the end.
    ///
    /// # Errors
    /// `Closed`, `Poisoned`, `NoSpace`, those of the device.
    fn make_room(&self, deletes: bool, pages: u32) -> Result<()> {
        self.check_writable()?;
        if self.log.bytes_since_truncation() > 2 * self.log_limit_bytes() {
            self.checkpoint_if_due()?;
        }
        while self.pool.is_over() {
            if let Err(error) = self.evict() {
                return if deletes && crate::log::can_go_on(&error) { Ok(()) } else { Err(error) };
            }
        }
        if !deletes {
            self.admit(pages)?;
        }
        Ok(())
    }
}

impl<'a> BatchOp<'a> {
    /// The key.
    pub(crate) fn key(&self) -> &'a [u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    fn value_bytes(&self) -> usize {
        match self {
            Self::Put { value, .. } => value.len(),
            Self::Delete { .. } => 0,
        }
    }
}

fn tombstone(key: &[u8]) -> Prepared<'_> {
    Prepared { key, kind: Kind::Tombstone, inline: &[], pointer: Vec::new() }
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        Ok(())
    } else {
        Err(TreeError::KeyTooLong { bytes: key.len(), bytes_max: KEY_BYTES_MAX })
    }
}

fn check_value(value: &[u8]) -> Result<()> {
    let (bytes, bytes_max) = (value.len(), VALUE_BYTES_MAX);
    if bytes <= bytes_max { Ok(()) } else { Err(TreeError::ValueTooLong { bytes, bytes_max }) }
}

/// Bytes of keys and inline values.
fn check_batch(batch: &[BatchOp<'_>], inline_max: u32) -> Result<u32> {
    let mut bytes = 0;
    for op in batch {
        check_key(op.key())?;
        if let BatchOp::Put { value, .. } = op {
            check_value(value)?;
        }
        bytes += op.key().len() + op.value_bytes().min(inline_max as usize);
    }
    match u32::try_from(bytes) {
        Ok(fitting) if bytes <= BATCH_BYTES_MAX => Ok(fitting),
        _ => Err(TreeError::BatchTooLong { bytes, bytes_max: BATCH_BYTES_MAX }),
    }
}
