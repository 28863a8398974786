//! Page stores for trees.
//!
//! A [`PageStore`] keeps two kinds of things for a tree that knows nothing of zones: **pages** (leaves; placed as a
//! whole, found again by [`PageAddress`], released when superseded) and **areas** (append-only chunk sequences: log,
//! MetaLog, values). The zoned store ([`ZonedStore`]) writes pages through a write sequencer and a ring merger
//! (ZKV 3.4), keeps hot ones in a read cache (SIEVE) and reclaims zones by calling the tree back through [`Relocate`].
#![forbid(unsafe_code)]

mod address;
mod ahead;
mod area;
mod areas;
mod cache;
mod chunk_reads;
mod chunks;
mod counters;
mod error;
mod failed;
mod flusher;
mod format;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod group;
mod headers;
mod hope;
mod in_flight;
mod in_place;
mod live;
mod log_device;
mod map;
mod number;
mod open;
mod opening;
mod options;
mod pool;
mod read_queue;
mod reader;
mod reclaim;
mod recognise;
mod records;
mod released;
mod relocate;
mod reserve;
mod sequencer;
mod source;
mod store;
mod stream;
mod survey;
mod toil;
mod walk;
mod wanted;
mod zone_table;
mod zoned;

pub use address::{BLOCK_BYTES, PAGE_BLOCKS_MAX, PageAddress, PageId};
pub use area::{Area, AreaKind, Chunk, ChunkAddress, LiveValues, Segment, SegmentId};
pub use error::PageError;
pub use frame::chunk_blocks;
pub use in_place::{CachePolicy, InPlaceOptions, InPlaceStore};
pub use log_device::log_limit_bytes_max;
pub use map::ZoneMapEntry;
pub use options::{FLUSHERS_ANY, GARBAGE_ZONES_MIN, StoreOptions};
pub use records::RecordPressure;
pub use relocate::{Liveness, Relocate, Relocated, Stamp};
pub use store::{CacheUsage, Heat, NewPage, PageStore, PagesWanted, ReadAhead, Reclaimed, StoreUsage, WrittenBy};
pub use zonda_space::{StoreId, VictimPolicy, ZoneUse};
pub use zoned::ZonedStore;
