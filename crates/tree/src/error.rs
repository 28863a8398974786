//! Errors of the tree.

use std::sync::Arc;

use thiserror::Error;
use zonda_pages::PageError;

/// Why an operation of the tree failed. Cloneable: a poisoned tree answers the same cause to everyone.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A key over the limit; nothing was written.
    #[error("a key of {bytes} bytes; the limit is {bytes_max}")]
    KeyTooLong {
        /// Given.
        bytes: usize,
        /// Limit.
        bytes_max: usize,
    },
    /// A value over the limit; nothing was written.
    #[error("a value of {bytes} bytes; the limit is {bytes_max}")]
    ValueTooLong {
        /// Given.
        bytes: usize,
        /// Limit.
        bytes_max: usize,
    },
    /// A batch over the limit; nothing was written.
    #[error("a batch of {bytes} bytes; the limit is {bytes_max}")]
    BatchTooLong {
        /// Given.
        bytes: usize,
        /// Limit.
        bytes_max: usize,
    },
    /// Options that cannot work.
    #[error("option {name}: {why}")]
    BadOption {
        /// Which.
        name: &'static str,
        /// Why not, with numbers.
        why: String,
    },
    /// The snapshot was given up because keeping it cost too much.
    #[error(
        "the snapshot is too old: {kept_bytes} bytes were kept for snapshots, of {bytes_max} at most, or writers needed the space that it held"
    )]
    SnapshotTooOld {
        /// Kept when it was given up.
        kept_bytes: u64,
        /// Limit.
        bytes_max: u64,
    },
    /// The page store failed. Writes stop if it was a write; what cannot be read fails who reads it.
    #[error(transparent)]
    Store(Arc<PageError>),
    /// An earlier write or sync failed: the tree refuses writes. Reads go on, unless it stopped within a batch.
    #[error("the store refuses writes since an earlier failure: {0}")]
    Poisoned(Arc<TreeError>),
    /// A thread that works for the tree panicked: what it was doing is half done.
    #[error("the background thread {thread} panicked, which is a bug")]
    Panicked {
        /// Its name.
        thread: String,
    },
    /// Something on the device does not fit together.
    #[error("damaged {what}: {why}")]
    Damaged {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The engine was closed.
    #[error("the store is closed")]
    Closed,
}

impl From<PageError> for TreeError {
    fn from(error: PageError) -> Self {
        Self::Store(Arc::new(error))
    }
}

/// What the store's reclaim tells apart keeps its kind; everything else is a failure of the tree.
impl From<TreeError> for PageError {
    fn from(error: TreeError) -> Self {
        let cause = match &error {
            TreeError::Store(cause) => cause,
            TreeError::Damaged { what, why } => return Self::Damaged { what, block: 0, why: why.clone() },
            _ => return Self::Tree(error.to_string()),
        };
        match &**cause {
            Self::Busy => Self::Busy,
            &Self::NoSpace { live_bytes, usable_bytes, free_zones, reserve_bytes } => {
                Self::NoSpace { live_bytes, usable_bytes, free_zones, reserve_bytes }
            }
            Self::Damaged { what, block, why } => Self::Damaged { what, block: *block, why: why.clone() },
            _ => Self::Tree(error.to_string()),
        }
    }
}
