//! The B+-tree of Zonda: inner index, leaf formats, leaf buffers, log, checkpoint and recovery.
//!
//! [`Engine`] is an ordered map of byte keys over a page store. It knows nothing of zones or files: leaves, log, MetaLog and
//! large values go to a [`PageStore`](zonda_pages::PageStore).

mod engine;
mod error;
mod limits;
mod options;
mod record;
#[cfg(test)]
mod testing;

pub use engine::{BatchOp, Cursor, Engine, RecoveryProgress, Snapshot, Step, Update};
pub use error::TreeError;
pub use limits::{BATCH_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use options::{Design, Durability, TreeOptions};
