//! What the harness tests: any ordered map on a zoned device, seen through as few calls as possible.

use std::{ops::Bound, sync::Arc};

use thiserror::Error;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Maps a key to a value.
    Put {
        /// Key.
        key: Vec<u8>,
        /// Value.
        value: Vec<u8>,
    },
    /// Removes a key.
    Delete {
        /// Key.
        key: Vec<u8>,
    },
}

impl Change {
    /// The key that changes.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    /// The value that the key has afterwards.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Put { value, .. } => Some(value),
            Self::Delete { .. } => None,
        }
    }
}

/// Why a subject did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The device is full: nothing was changed.
    #[error("no space: {0}")]
    NoSpace(String),
    /// A snapshot was given up.
    #[error("snapshot too old: {0}")]
    TooOld(String),
    /// Anything else. Legal only after the power went.
    #[error("{0}")]
    Failed(String),
}

/// How a subject answers.
pub type Answer<T> = Result<T, Refusal>;

/// Kinds of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Write the log's buffers.
    Log,
    /// Take a checkpoint if the log is long.
    Checkpoint,
    /// Clean zones.
    Reclaim,
    /// Move memory between changes, records and pages.
    Memory,
    /// Merge buffers before writers have to, and where readers want their room.
    Buffers,
    /// Join what deletes left sparse.
    Join,
}

impl Work {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Log, Self::Checkpoint, Self::Reclaim, Self::Memory, Self::Buffers, Self::Join];
}

/// What a subject has done since it was opened: tells a campaign what its cuts fell into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Leaves made by splits.
    pub splits: u64,
    /// Leaves that went away.
    pub leaf_merges: u64,
    /// Buffers merged into pages.
    pub merges: u64,
    /// Of these, mini-pages that made room for readers as their ring was turned.
    pub merged_in_turns: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Zones reset.
    pub zones_reset: u64,
    /// MetaLog bytes written.
    pub meta_bytes: u64,
    /// Bytes of pages that reclaim moved.
    pub relocated_bytes: u64,
    /// Bytes of memory that are kept for snapshots now.
    pub kept_bytes: u64,
}

impl Tally {
    /// Asked for when no snapshot is open: what is kept then is kept for ever, and in the end so much that every snapshot is given up.
    ///
    /// # Errors
    /// How much is kept.
    pub(crate) fn nothing_is_kept(&self) -> Result<(), String> {
        match self.kept_bytes {
            0 => Ok(()),
            bytes => Err(format!("I6 {bytes} bytes are kept for snapshots, and none is open")),
        }
    }
}

/// An ordered map that a harness can drive. What calls mean is said at `zonda_tree::Engine`.
///
/// A change that returned is visible at once; it is durable if `synced`, or after the next `sync`, or never if the power goes
/// before. An error other than `NoSpace` leaves open whether the change happened.
#[expect(clippy::missing_errors_doc, reason = "every call answers a Refusal, explained there")]
pub trait Subject: Send + Sync {
    /// Changes one key, or several atomically.
    fn write(&self, changes: &[Change], synced: bool) -> Answer<()>;
    /// Puts `value` if the key has the value `expected`; answers the value before.
    fn replace(&self, key: &[u8], expected: Option<&[u8]>, value: &[u8], synced: bool) -> Answer<Option<Vec<u8>>>;
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Answer<Option<Vec<u8>>>;
    /// The values of several keys.
    fn get_many(&self, keys: &[&[u8]]) -> Answer<Vec<Option<Vec<u8>>>>;
    /// A view of now.
    fn snapshot(&self) -> Answer<Box<dyn View>>;
    /// Makes everything durable that has returned.
    fn sync(&self) -> Answer<()>;
    /// Takes a checkpoint.
    fn checkpoint(&self) -> Answer<()>;
    /// Tidies up everything.
    fn compact(&self) -> Answer<()>;
    /// Background work; true if there was some.
    fn step(&self, work: Work) -> Answer<bool>;
    /// Walks everything and verifies checksums and invariants.
    fn check(&self) -> Answer<()>;
    /// Makes everything durable and ends.
    fn close(&self) -> Answer<()>;
    /// What was done since opening.
    fn tally(&self) -> Tally;
    /// Bytes that live data may fill.
    fn usable_bytes(&self) -> u64;
    /// Values of up to so many bytes take no block of their own.
    fn inline_bytes(&self) -> usize {
        INLINE_BYTES_MIN
    }
}

/// Shorter values are in leaves, wherever a subject says nothing else.
pub(crate) const INLINE_BYTES_MIN: usize = 64;

/// A view of one moment.
pub trait View: Send {
    /// A walk over a range of keys.
    ///
    /// # Errors
    /// `TooOld`; others only after the power went.
    fn walk(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Answer<Box<dyn Walk + '_>>;

    /// The values of several keys.
    ///
    /// # Errors
    /// As [`walk`](Self::walk).
    fn get_many(&self, keys: &[&[u8]]) -> Answer<Vec<Option<Vec<u8>>>> {
        let get = |key: &&[u8]| {
            let pair = self.walk(Bound::Included(key), Bound::Included(key))?.next()?;
            Ok(pair.map(|(_, value)| value))
        };
        keys.iter().map(get).collect()
    }
}

/// A walk from both ends of a range; the ends meet.
pub trait Walk {
    /// The next pair from the front.
    ///
    /// # Errors
    /// As [`View::walk`].
    fn next(&mut self) -> Answer<Option<Pair>>;

    /// The next pair from the back.
    ///
    /// # Errors
    /// As [`View::walk`].
    fn prev(&mut self) -> Answer<Option<Pair>>;
}

/// Makes subjects on devices.
pub trait Maker: Send {
    /// A new subject on an empty device.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn create(&self, ground: crate::Ground) -> Answer<Arc<dyn Subject>>;

    /// The subject that a device holds.
    ///
    /// # Errors
    /// Whatever goes wrong; legal only if the power went.
    fn open(&self, ground: crate::Ground) -> Answer<Arc<dyn Subject>>;
}

/// Everything that a view holds, in order.
///
/// # Errors
/// As [`View::walk`].
pub fn collect(view: &dyn View) -> Answer<Vec<Pair>> {
    let mut walk = view.walk(Bound::Unbounded, Bound::Unbounded)?;
    let mut pairs = Vec::new();
    while let Some(pair) = walk.next()? {
        pairs.push(pair);
    }
    Ok(pairs)
}

/// As [`collect`], from the back; the order is the same.
///
/// # Errors
/// As [`View::walk`].
pub fn collect_backwards(view: &dyn View) -> Answer<Vec<Pair>> {
    let mut walk = view.walk(Bound::Unbounded, Bound::Unbounded)?;
    let mut pairs = Vec::new();
    while let Some(pair) = walk.prev()? {
        pairs.push(pair);
    }
    pairs.reverse();
    Ok(pairs)
}

/// A put is refused only when the store is full: not while what it holds, at most `live` bytes with the put, would fit twice.
///
/// # Errors
/// That it would.
pub(crate) fn check_refusal(live: u64, subject: &dyn Subject, why: &str) -> Result<(), String> {
    let usable = subject.usable_bytes();
    if 2 * live > usable {
        return Ok(());
    }
    Err(format!("I9 a put was refused although what is live takes at most {live} of {usable} usable bytes: {why}"))
}
