//! The B+-tree of Zonda: inner index, leaf formats, leaf buffers, log, checkpoint and recovery.
//!
//! [`Engine`] is an ordered map of byte keys over a page store. It knows nothing of zones or files: leaves, log, MetaLog and
//! large values go to a [`PageStore`](zonda_pages::PageStore).

mod batch;
mod buffer;
mod buffer_end;
mod check;
mod checkpoint;
mod checkpoint_extra;
mod codec;
mod compact;
#[cfg(test)]
mod damage_tests;
mod engine;
#[cfg(test)]
mod engine_tests;
mod error;
mod filter;
mod flush;
mod format;
#[cfg(test)]
mod format_doc_tests;
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod held_memory_tests;
mod image;
mod index;
mod inner;
mod key;
mod leaf_page;
mod leaf_queue;
mod leaf_table;
mod limits;
mod log;
#[cfg(test)]
mod long_prefix_tests;
mod merge;
mod metalog;
mod mini_page;
#[cfg(all(test, feature = "shuttle"))]
mod mini_page_shuttle_tests;
#[cfg(test)]
mod mini_page_tests;
#[cfg(test)]
mod mirror_tests;
mod multi_get;
mod options;
mod overfull;
mod page_cache;
mod pool;
mod read;
mod read_ahead;
mod record;
mod record_cache;
#[cfg(all(test, feature = "shuttle"))]
mod record_cache_shuttle_tests;
mod record_list;
mod recover;
mod relief;
mod relocate;
mod room;
mod run;
mod scan;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
mod slots;
mod snapshot;
mod sparse;
mod stats;
mod sweep;
#[cfg(test)]
#[cfg_attr(feature = "shuttle", expect(dead_code, reason = "the scenes of shuttle_tests need less of it"))]
mod testing;
mod tree;
mod unmerged;
mod update;
mod values;
mod waits;
mod write;

pub use check::{CheckReport, Finding};
pub use engine::{BatchOp, Cursor, Engine, RecoveryProgress, Snapshot, Step, Update};
pub use error::TreeError;
pub use limits::{BATCH_BYTES_MAX, KEY_BYTES_MAX, RING_BYTES_MAX, VALUE_BYTES_MAX};
pub use options::{
    BufferClasses, Design, Durability, Eviction, FilterEviction, INNER_CHILDREN_MAX, INNER_CHILDREN_MIN,
    LOG_RING_BYTES_MAX, LOG_RING_BYTES_MIN, MiniPages, TreeOptions,
};
pub use scan::PairRef;
pub use stats::{EngineStats, MiniPageStats};
pub use waits::{WaitStats, Waited};
