//! Checkpoints: what the filter holds, the structure and the buffer images, written while writers go on (decision 0001).

use zonda_pages::{AreaKind, RecordPressure};
use zonda_rt::atomic::Ordering;

use crate::{
    Step,
    checkpoint_extra::CheckpointExtra,
    filter::Records,
    leaf_table::{Location, Shared},
    log::can_go_on,
    metalog::{AboveLevel, MetaRecord, Position},
    stats::count,
    tree::{META_PENDING_BYTES, Result, Tree},
};

/// The least log that a checkpoint waits for, in bytes.
const LOG_LIMIT_BYTES_MIN: u64 = 4 << 20;

/// The last checkpoint.
#[derive(Debug)]
pub(crate) struct LastCheckpoint {
    number: u64,
    /// The next sequence number when it began, and the MetaLog's end when it had ended, if that is known.
    as_of: Option<(u64, Position)>,
}

impl LastCheckpoint {
    /// One of an earlier life, or none (0).
    pub(crate) fn of_earlier_life(number: u64) -> Self {
        Self { number, as_of: None }
    }
}

impl Tree {
    /// Says that what recovery found is what the checkpoint has, and that it needs no log. Before anything is written.
    ///
    /// # Errors
    /// Those of the area.
    pub(crate) fn note_checkpointed(&self) -> Result<()> {
        let next = self.log.next_sequence();
        self.checkpointing.lock().as_of = Some((next, self.meta.position()));
        self.log.truncate(next)
    }

    /// Whether nothing was logged since the last checkpoint began and nothing recorded since it ended: another one would say the same.
    pub(crate) fn is_checkpointed(&self) -> bool {
        self.checkpointing.lock().as_of == Some((self.log.next_sequence(), self.meta.position()))
    }

    /// The most log in bytes, at least 4 x the buffers and the filter (R) unless told otherwise: writers wait for a checkpoint there. One
    /// is begun in the background at 4/5 of it.
    pub(crate) fn log_limit_bytes(&self) -> u64 {
        match self.options.log_limit_bytes {
            0 => (5 * (self.pool.limit_bytes() + self.options.filter_bytes)).max(LOG_LIMIT_BYTES_MIN),
            bytes => bytes,
        }
    }

    fn checkpoint_due(&self) -> bool {
        self.log.bytes_since_truncation() > self.log_limit_bytes() / 5 * 4
            || self.store.record_pressure() >= RecordPressure::Due
    }

    /// Whether writers must wait for a checkpoint. Cheap.
    pub(crate) fn is_checkpoint_overdue(&self) -> bool {
        self.log.bytes_since_truncation() > self.log_limit_bytes()
            || self.store.record_pressure() >= RecordPressure::Over
    }

    /// Background step: writes address records that wait, and takes a checkpoint if log or MetaLog are due for one.
    ///
    /// # Errors
    /// Those of the device: the tree is poisoned.
    pub(crate) fn checkpoint_step(&self) -> Result<Step> {
        self.check_writable()?;
        if self.checkpoint_due() {
            self.checkpoint()?;
            return Ok(Step::Progress);
        }
        if self.meta.pending_bytes() > META_PENDING_BYTES {
            self.flush_meta()?;
            return Ok(Step::Progress);
        }
        Ok(Step::Idle)
    }

    /// As [`checkpoint`](Self::checkpoint), but not if another thread just took one.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn checkpoint_if_due(&self) -> Result<()> {
        let mut last = self.checkpointing.lock();
        if !self.checkpoint_due() {
            return Ok(());
        }
        self.checkpoint_as(&mut last)
    }

    /// Takes a checkpoint if that gives zones of log back to others: many short lives each leave a little log in a zone of its own. Not
    /// while the log keeps within what is reserved for it: nobody else could have those zones, and on a full device writers are short
    /// of zones all the time. Returns whether it did.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn checkpoint_for_zones(&self) -> Result<bool> {
        if self.store.record_pressure() < RecordPressure::Due || self.recovering.load(Ordering::Acquire) {
            return Ok(false);
        }
        let zones = || self.store.area(AreaKind::Log).segments().len();
        let before = zones();
        let Some(mut last) = self.checkpointing.try_lock() else { return Ok(false) };
        self.checkpoint_as(&mut last)?;
        Ok(zones() < before)
    }

    /// Takes a checkpoint and truncates the log to it. Writers go on meanwhile.
    ///
    /// # Errors
    /// Those of the device: the tree is poisoned; the previous checkpoint stays valid.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let mut last = self.checkpointing.lock();
        self.checkpoint_as(&mut last)
    }

    /// As [`checkpoint`](Self::checkpoint), unless somebody is at it; returns whether it did.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn try_checkpoint(&self) -> Result<bool> {
        let Some(mut last) = self.checkpointing.try_lock() else { return Ok(false) };
        self.checkpoint_as(&mut last)?;
        Ok(true)
    }

    fn checkpoint_as(&self, last: &mut LastCheckpoint) -> Result<()> {
        let number = last.number + 1;
        let replay_from = self.log.low_water();
        let log_is_durable = self.log_is_durable_before(replay_from)?;
        let extra = CheckpointExtra { log_is_durable, live_values: self.store.live_values() }.encode();
        self.meta.begin_checkpoint(self.begin_record(number, replay_from, &extra));
        self.record_filter()?;
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            next = self.record_leaf(&key);
            self.flush_meta_when_long()?;
        }
        self.flush_meta()?;
        let mut end = None;
        self.with_write_ahead(|ahead| {
            end = Some(self.meta.end_checkpoint(ahead)?);
            Ok(())
        })?;
        *last = LastCheckpoint { number, as_of: end.map(|end| (replay_from, end)) };
        count(&self.counters.checkpoints);
        self.poison.watch(self.log.truncate(replay_from))
    }

    /// Makes the log durable up to where its replay will begin. Recovery from an older checkpoint, should it be unable to read the end of
    /// this one, then knows what it must find in the log. Without zones for the log the checkpoint goes on: it is what gives zones back.
    fn log_is_durable_before(&self, replay_from: u64) -> Result<bool> {
        match self.sync_log_to(replay_from - 1) {
            Err(error) if can_go_on(&error) => Ok(false),
            outcome => outcome.map(|()| self.options.log),
        }
    }

    /// Records what filter and array hold, in this order (*checkpoint order*): memory only, and a flush when much of it waits.
    fn record_filter(&self) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            next = filter.visit(&key, &self.epoch.pin(), &mut |records, newest, oldest| {
                self.record_above(AboveLevel::Filter, records, oldest, newest);
            });
            self.flush_meta_when_long()?;
        }
        let array = filter.array(&self.epoch.pin());
        for batch in array.iter().flat_map(|array| array.batches()) {
            self.record_above(AboveLevel::Array, &batch.records, batch.oldest, batch.newest);
            self.flush_meta_when_long()?;
        }
        Ok(())
    }

    fn record_above(&self, level: AboveLevel, records: &Records, oldest: u64, newest: u64) {
        let image = crate::image::encode_records(&[], records.slots().iter());
        self.meta.append(&MetaRecord::Above { level, oldest, image: &image }, newest);
    }

    fn flush_meta_when_long(&self) -> Result<()> {
        self.hold_memory();
        if self.meta.pending_bytes() > self.meta.flush_bytes() { self.flush_meta() } else { Ok(()) }
    }

    /// Records the leaf that holds `key`; returns where the next one begins.
    fn record_leaf(&self, key: &[u8]) -> Option<Vec<u8>> {
        let guard = self.epoch.pin();
        loop {
            let path = self.index.find(key, &guard);
            let leaf = self.table.lock_shared(path.leaf());
            if path.is_current() {
                let (image, sequence) = image_of(&leaf);
                let record = MetaRecord::Leaf {
                    id: leaf.id(),
                    low_key: &path.low(),
                    address: leaf.location().page(),
                    image: &image,
                };
                self.meta.append(&record, sequence);
                if leaf.location().page().is_some() {
                    self.record_if_sparse(leaf.id());
                }
                return path.high();
            }
        }
    }
}

/// The dirty records of a leaf, and the highest sequence number in them.
fn image_of(leaf: &Shared<'_>) -> (Vec<u8>, u64) {
    match leaf.location() {
        Location::Buffered(buffer) if buffer.is_dirty() => (crate::image::encode(buffer), buffer.sequence()),
        _ => (Vec::new(), 0),
    }
}
