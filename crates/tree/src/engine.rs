//! The engine: what a facade uses of the tree.

use std::{ops::Bound, sync::Arc};

use zonda_pages::PageStore;
use zonda_rt::atomic::Ordering;

use crate::{
    CheckReport, Durability, EngineStats, Finding, TreeError, TreeOptions, recover,
    relocate::can_wait,
    scan::{PairRef, Range, Scan, owned},
    tree::{Result, Tree},
};

/// Rounds of waiting, of 640 us at the most, after which who shrinks buffers leaves the rest to the background.
const SHRINK_ROUNDS: u32 = 1_000;

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchOp<'a> {
    /// Maps `key` to `value`.
    Put {
        /// Key.
        key: &'a [u8],
        /// Value.
        value: &'a [u8],
    },
    /// Removes `key`.
    Delete {
        /// Key.
        key: &'a [u8],
    },
}

/// What an atomic update wants done with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Leave it.
    Keep,
    /// Store this value.
    Put(Vec<u8>),
    /// Remove it.
    Delete,
}

/// How far recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// What is being done: "metalog", "image", "log".
    pub phase: &'static str,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes in all, as far as known.
    pub total_bytes: u64,
}

/// What a background step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do.
    Idle,
    /// Did something: call again soon.
    Progress,
}

/// An ordered map over a page store. Cheap to clone; all clones are the same engine.
///
/// Isolation: a get is linearizable; a batch is all or nothing to snapshots and scans; a read may see a value that is not yet
/// synced. Background work (log, checkpoint, reclaim) is done by whoever calls the `*_step` functions; without them writers
/// do the most urgent of it themselves.
#[derive(Clone)]
pub struct Engine {
    pub(crate) tree: Arc<Tree>,
}

/// A consistent view of one moment. Closes when the last clone is dropped.
#[derive(Clone)]
pub struct Snapshot {
    open: Arc<OpenSnapshot>,
}

struct OpenSnapshot {
    tree: Arc<Tree>,
    number: u64,
}

impl Drop for OpenSnapshot {
    fn drop(&mut self) {
        self.tree.snapshots.close(self.number);
    }
}

/// Walks a range of one snapshot from both ends; holds no latch between items. Keeps its snapshot open.
pub struct Cursor {
    scan: Scan,
    snapshot: Snapshot,
}

impl Engine {
    fn over(tree: Tree) -> Self {
        Self { tree: Arc::new(tree) }
    }

    /// Makes an empty tree in an empty store.
    ///
    /// # Errors
    /// `BadOption`; those of the store.
    pub fn create(store: Arc<dyn PageStore>, options: TreeOptions) -> Result<Self> {
        options.check()?;
        recover::create(store, options).map(Self::over)
    }

    /// Recovers the tree of a store: newest checkpoint, then the log.
    ///
    /// # Errors
    /// `BadOption`; `Damaged` when there is no whole checkpoint; those of the store.
    pub fn open(
        store: Arc<dyn PageStore>,
        options: TreeOptions,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Self> {
        options.check()?;
        recover::open(store, options, progress).map(Self::over)
    }

    /// Refuses a closed engine.
    fn enter(&self) -> Result<&Tree> {
        self.tree.check_open()?;
        Ok(&self.tree)
    }

    /// Maps `key` to `value`.
    ///
    /// # Errors
    /// Limits and `NoSpace` with nothing written; `Poisoned`; those of the device.
    pub fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.enter()?.put(key, value, durability)
    }

    /// Removes `key` (blind: does not say whether it was there).
    ///
    /// # Errors
    /// As [`put`](Self::put); a full store takes deletes from its reserve.
    pub fn delete(&self, key: &[u8], durability: Durability) -> Result<()> {
        self.enter()?.delete(key, durability)
    }

    /// Reads the value of `key` into `into` (cleared first) and says whether it exists. At most one leaf read.
    ///
    /// # Errors
    /// `Damaged`; those of the device.
    pub fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.enter()?.get_into(key, into)
    }

    /// Whether `key` exists. At most one leaf read; a large value is not read.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.enter()?.contains(None, key)
    }

    /// As [`contains`](Self::contains), as `snapshot` sees it.
    ///
    /// # Errors
    /// As `contains`; `SnapshotTooOld`.
    pub fn contains_as_of(&self, snapshot: &Snapshot, key: &[u8]) -> Result<bool> {
        self.enter()?.contains(Some(snapshot.open.number), key)
    }

    /// Values of several keys, device reads in flight together.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.enter()?.multi_get(None, keys)
    }

    /// As [`get_into`](Self::get_into), as `snapshot` sees it.
    ///
    /// # Errors
    /// As `get_into`; `SnapshotTooOld`.
    pub fn get_into_as_of(&self, snapshot: &Snapshot, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.enter()?.get_as_of(snapshot.open.number, key, into)
    }

    /// As [`multi_get`](Self::multi_get), as `snapshot` sees them.
    ///
    /// # Errors
    /// As [`get_into_as_of`](Self::get_into_as_of).
    pub fn multi_get_as_of(&self, snapshot: &Snapshot, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.enter()?.multi_get(Some(snapshot.open.number), keys)
    }

    /// Atomically replaces the value of `key` by what `decide` says; returns the value before. `decide` must not
    /// use the engine; it is called again if another writer changes the key while room is made for what it wants written.
    ///
    /// # Errors
    /// As [`put`](Self::put); a full store takes deletes from its reserve.
    pub fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Update,
    ) -> Result<Option<Vec<u8>>> {
        self.enter()?.update(key, durability, decide)
    }

    /// Applies a batch: all of it or nothing, also over a crash; later operations on a key win.
    ///
    /// # Errors
    /// As [`put`](Self::put); `BatchTooLong`.
    pub fn write(&self, batch: &[BatchOp<'_>], durability: Durability) -> Result<()> {
        self.enter()?.write(batch, durability)
    }

    /// The most bytes that one batch takes in the log, where each operation takes some beside key and value: less than
    /// [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX) where zones are short.
    #[must_use]
    pub fn log_batch_bytes_max(&self) -> usize {
        self.tree.log.unit_bytes_max()
    }

    /// As [`write`](Self::write), but a full store takes it from its reserve like a delete: for one by which more goes than comes.
    ///
    /// # Errors
    /// As there.
    pub fn write_from_reserve(&self, batch: &[BatchOp<'_>], durability: Durability) -> Result<()> {
        self.enter()?.write_from_reserve(batch, durability)
    }

    /// Makes every write that returned before durable.
    ///
    /// # Errors
    /// `Poisoned`; those of the device.
    pub fn sync(&self) -> Result<()> {
        let tree = self.enter()?;
        tree.check_writable()?;
        tree.sync_to(tree.log.next_sequence() - 1)
    }

    /// A snapshot of now; waits for batches in progress.
    ///
    /// # Errors
    /// `Closed`.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let tree = self.enter()?;
        let number = {
            let _gate = tree.batch_gate.write();
            tree.open_snapshot()
        };
        Ok(Snapshot { open: Arc::new(OpenSnapshot { tree: Arc::clone(&self.tree), number }) })
    }

    /// A cursor over a key range of a snapshot.
    ///
    /// # Errors
    /// `Closed`; `SnapshotTooOld`.
    pub fn scan(&self, snapshot: &Snapshot, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<Cursor> {
        self.enter()?.snapshots.verify(snapshot.open.number)?;
        let range = Range { low: owned(low), high: owned(high) };
        Ok(Cursor { scan: Scan::new(snapshot.open.number, range), snapshot: snapshot.clone() })
    }

    /// Merges all buffers and underfull leaves; `progress(done, total)` in leaves.
    ///
    /// # Errors
    /// `NoSpace`; those of the device.
    pub fn compact(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.enter()?.compact(progress)
    }

    /// Takes a checkpoint now and truncates the log.
    ///
    /// # Errors
    /// Those of the device.
    pub fn checkpoint(&self) -> Result<()> {
        let tree = self.enter()?;
        tree.check_writable()?;
        tree.checkpoint()?;
        tree.outlive_lost_records()
    }

    /// Background step: writes log buffers that are older than the interval.
    ///
    /// # Errors
    /// Those of the device. A full store is none.
    pub fn log_step(&self) -> Result<Step> {
        let tree = self.enter()?;
        tree.check_writable()?;
        let wrote = tree.poison.watch(tree.log.step())?;
        Ok(if wrote { Step::Progress } else { Step::Idle })
    }

    /// Background step: address records and checkpoints.
    ///
    /// # Errors
    /// Those of the device.
    pub fn checkpoint_step(&self) -> Result<Step> {
        self.enter()?.checkpoint_step()
    }

    /// Background step: reclaim. Snapshots are not hurt by it: only a writer that waits for space gives old ones up.
    ///
    /// # Errors
    /// Those of the device.
    pub fn reclaim_step(&self) -> Result<Step> {
        let tree = self.enter()?;
        tree.check_writable()?;
        tree.reclaim_step()
    }

    /// Says whether somebody calls [`buffer_step`](Self::buffer_step) every few milliseconds, or more often as long as it makes progress:
    /// then writers leave full buffers to it, up to a page's worth in each. At first nobody does.
    pub fn tend_buffers(&self, is_tended: bool) {
        self.tree.overfull.tend(is_tended);
    }

    /// Background step: merges a buffer before writers have to, and down to a limit that was lowered, while they only keep buffers from
    /// growing. Takes out empty leaves that waited for snapshots. Serves the filter where reclaim fills it.
    ///
    /// # Errors
    /// Those of the device. A full store is none.
    pub fn buffer_step(&self) -> Result<Step> {
        let tree = self.enter()?;
        tree.check_writable()?;
        tree.remove_put_off();
        match tree.relieve_filter() {
            Err(error) if !can_wait(&error) => return Err(error),
            Ok(true) => return Ok(Step::Progress),
            Ok(false) | Err(_) => {}
        }
        if tree.relieve_waiting()? {
            return Ok(Step::Progress);
        }
        match tree.sweep() {
            Err(error) if !can_wait(&error) => return Err(error),
            Ok(true) => return Ok(Step::Progress),
            Ok(false) | Err(_) => {}
        }
        let is_ahead = tree.pool.is_nearly_over() && tree.overfull.are_more(tree.written()) && tree.has_room_to_spare();
        if !is_ahead && !tree.pool.is_far_over() {
            return Ok(Step::Idle);
        }
        match tree.evict() {
            Ok(true) => Ok(Step::Progress),
            Err(error) if !can_wait(&error) => Err(error),
            Ok(false) | Err(_) => Ok(Step::Idle),
        }
    }

    /// Merges buffers until they are within what they and the whole tree may take, a leaf each at the most, beside whoever else merges: for
    /// who lowered a limit and cannot wait for [`buffer_step`](Self::buffer_step). If others are in the way for half a second without a
    /// pause, it leaves the rest to that.
    ///
    /// # Errors
    /// Those of the device. A full store is none, nor is a damaged page.
    pub fn shrink_buffers(&self) -> Result<()> {
        let tree = self.enter()?;
        tree.check_writable()?;
        let mut spin = zonda_rt::Spin::new();
        let mut left = tree.leaves.load(Ordering::Relaxed);
        while left > 0 && spin.rounds() < SHRINK_ROUNDS {
            tree.hold_memory();
            if !tree.pool.holds_too_much() {
                break;
            }
            match tree.evict() {
                Ok(true) => (left, spin) = (left - 1, zonda_rt::Spin::new()),
                Ok(false) => zonda_rt::spin_wait(&mut spin),
                Err(error) if !can_wait(&error) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Background step: joins what deletes left sparse.
    ///
    /// # Errors
    /// Those of the device.
    pub fn join_step(&self) -> Result<Step> {
        self.enter()?.join_sparse_step()
    }

    /// Verifies everything; `finding` hears what is wrong.
    ///
    /// # Errors
    /// `Closed`.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64), finding: &mut dyn FnMut(Finding)) -> Result<CheckReport> {
        self.enter()?.check(progress, finding)
    }

    /// Whether the log was damaged when it was opened with [`TreeOptions::log_up_to_damage`](crate::TreeOptions::log_up_to_damage), and how
    /// many operations are known to have been durable behind what was read; others may have been.
    #[must_use]
    pub fn log_left_out(&self) -> Option<u64> {
        self.tree.log_left_out
    }

    /// Counts and memory.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        self.tree.stats()
    }

    /// The most that [`EngineStats::memory_bytes`] was, looked at now and at every merge, since the last call of this.
    #[must_use]
    pub fn take_memory_peak(&self) -> u64 {
        self.tree.counters.memory_peak.swap(0, Ordering::Relaxed).max(self.tree.memory_bytes())
    }

    /// Changes the memory for leaf buffers, in bytes. Less takes effect as [`buffer_step`](Self::buffer_step) or
    /// [`shrink_buffers`](Self::shrink_buffers) merge them; until then they do not grow.
    pub fn set_buffer_bytes(&self, bytes: u64) {
        self.tree.pool.set_limit_bytes(bytes);
    }

    /// Changes what snapshots may keep, in bytes ([`TreeOptions::snapshot_bytes_max`]). Takes effect at once: the oldest are given up until
    /// the others fit.
    pub fn set_snapshot_bytes(&self, bytes: u64) {
        self.tree.snapshots.set_bytes_max(bytes + self.tree.options.filter_bytes / 3);
    }

    /// Changes the memory of the record cache, in bytes, up to [`TreeOptions::record_cache_bytes_max`]; at first it has none. Takes effect
    /// at once.
    pub fn set_record_cache_bytes(&self, bytes: u64) {
        self.tree.records.resize(bytes);
    }

    /// Changes what the whole tree may take, in bytes; at first there is no limit. What else grows beyond it until buffers are
    /// next given a size, they give up, down to half of what they were given.
    pub fn set_memory_bytes_max(&self, bytes: u64) {
        self.tree.memory_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// A thread that works for the tree panicked: from now on writes are refused.
    pub fn note_panic(&self, thread: &str) {
        self.tree.poison.set(TreeError::Panicked { thread: thread.to_owned() });
    }

    /// Refuses further use, without a checkpoint: for one that only read.
    pub fn shut(&self) {
        self.tree.closed.store(true, Ordering::SeqCst);
    }

    /// Checkpoints, unless nothing was written since the last one, and refuses further use, once: who closes it again waits for that and
    /// hears the same. A checkpoint that failed for want of space is not tried again: each try takes of what an opening needs.
    ///
    /// # Errors
    /// Those of the device: the store is still whole, as after a crash. `Poisoned`: what was written without being synced may be lost.
    pub fn close(&self) -> Result<()> {
        let mut outcome = self.tree.close_outcome.lock();
        outcome.get_or_insert_with(|| self.close_now()).clone()
    }

    fn close_now(&self) -> Result<()> {
        let tree = &self.tree;
        self.shut();
        tree.poison.check()?;
        // Writers that passed the door before it was shut, with their numbers or about to draw them.
        let mut spin = zonda_rt::Spin::new();
        while !tree.log.is_idle() {
            zonda_rt::spin_wait(&mut spin);
        }
        // Its cost grows with the store, whatever was written.
        if !tree.is_checkpointed() {
            tree.checkpoint()?;
        }
        tree.outlive_lost_records()
    }
}

impl Cursor {
    /// The same range without values: pairs have empty ones, and no large value is read.
    #[must_use]
    pub fn keys_only(self) -> Self {
        Self { scan: self.scan.keys_only(), ..self }
    }

    /// Says that about `pairs` pairs will be taken, so that the leaves they need are read at once.
    pub fn expect_pairs(&mut self, pairs: u64) {
        self.scan.expect_pairs(pairs);
    }

    /// Where a scan from the front stands that failed between two leaves: all pairs before it were taken, on this snapshot. `None` within a
    /// leaf, and where nothing is left.
    #[must_use]
    pub fn rest_low(&self) -> Option<Bound<Vec<u8>>> {
        self.scan.rest_low().cloned()
    }

    /// The next pair from the front, without an allocation.
    ///
    /// # Errors
    /// `SnapshotTooOld`; `Damaged`; those of the device.
    #[expect(clippy::should_implement_trait, reason = "fallible, and from both ends; facades make iterators of it")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<PairRef<'_>>> {
        let tree = &self.snapshot.open.tree;
        tree.check_open()?;
        self.scan.next(tree)
    }

    /// The next pair from the back.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    #[inline]
    pub fn prev(&mut self) -> Result<Option<PairRef<'_>>> {
        let tree = &self.snapshot.open.tree;
        tree.check_open()?;
        self.scan.prev(tree)
    }
}
