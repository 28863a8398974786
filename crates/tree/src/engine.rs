//! The engine: what the facade uses.
use std::{ops::Bound, sync::Arc};

use zonda_pages::PageStore;

use crate::{Durability, TreeError, TreeOptions};

type Result<T> = std::result::Result<T, TreeError>;

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
#[derive(Clone)]
pub struct Engine(Arc<()>);

/// A consistent view of one moment. Closes when dropped.
#[derive(Clone)]
pub struct Snapshot(Arc<()>);

/// Walks a range of one snapshot from both ends; holds no latch between items.
pub struct Cursor(());

#[expect(unused_variables, clippy::missing_errors_doc, reason = "API sketch, replaced by the implementation")]
impl Engine {
    /// Makes an empty tree in an empty store.
    pub fn create(store: Arc<dyn PageStore>, options: TreeOptions) -> Result<Self> { unimplemented!() }
    /// Recovers the tree of a store.
    pub fn open(store: Arc<dyn PageStore>, options: TreeOptions, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Self> { unimplemented!() }
    /// Maps `key` to `value`.
    pub fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> { unimplemented!() }
    /// Removes `key` (blind: does not say whether it was there).
    pub fn delete(&self, key: &[u8], durability: Durability) -> Result<()> { unimplemented!() }
    /// Appends the value of `key` to `into` (cleared first) and says whether it exists.
    pub fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> { unimplemented!() }
    /// Values of several keys, device reads in flight together.
    pub fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> { unimplemented!() }
    /// Atomically replaces the value of `key` by what `decide` says; returns the value before.
    pub fn update(&self, key: &[u8], durability: Durability, decide: &mut dyn FnMut(Option<&[u8]>) -> Update) -> Result<Option<Vec<u8>>> { unimplemented!() }
    /// Applies a batch atomically.
    pub fn write(&self, batch: &[BatchOp<'_>], durability: Durability) -> Result<()> { unimplemented!() }
    /// Makes every write that returned before durable.
    pub fn sync(&self) -> Result<()> { unimplemented!() }
    /// A snapshot of now; waits for batches in progress.
    pub fn snapshot(&self) -> Result<Snapshot> { unimplemented!() }
    /// A cursor over a key range of a snapshot.
    pub fn scan(&self, snapshot: &Snapshot, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<Cursor> { unimplemented!() }
    /// Merges all buffers and underfull leaves; `progress(done, total)` in leaves.
    pub fn compact(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> { unimplemented!() }
    /// Takes a checkpoint now and truncates the log.
    pub fn checkpoint(&self) -> Result<()> { unimplemented!() }
    /// Background step: writes log buffers that are older than the interval.
    pub fn log_step(&self) -> Result<Step> { unimplemented!() }
    /// Background step: checkpoint when the log is over its limit.
    pub fn checkpoint_step(&self) -> Result<Step> { unimplemented!() }
    /// Background step: reclaim.
    pub fn reclaim_step(&self) -> Result<Step> { unimplemented!() }
    /// Checkpoints and refuses further use.
    pub fn close(&self) -> Result<()> { unimplemented!() }
}

#[expect(clippy::missing_errors_doc, reason = "API sketch, replaced by the implementation")]
impl Cursor {
    /// The next pair from the front.
    #[expect(clippy::type_complexity, reason = "a pair")]
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> { unimplemented!() }
    /// The next pair from the back.
    #[expect(clippy::type_complexity, reason = "a pair")]
    pub fn prev(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> { unimplemented!() }
}
