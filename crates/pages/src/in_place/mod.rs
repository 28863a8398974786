//! The page store in place: on a block device, whose blocks can be overwritten.
//!
//! A changed page goes to a free slot; its old slot is free again after the next durable address record, when nobody reads it any
//! more. This alone covers torn writes and splits: nothing that anybody could ask for after a crash is ever overwritten (I3).

mod areas;
mod bitmap;
pub(crate) mod cache;
mod core;
mod disk;
pub(crate) mod format;
mod headers;
pub(crate) mod layout;
mod limbo;
mod lru;
mod open;
mod options;
mod pending;
mod reader;
mod reclaim;
mod run;
mod slots;
mod store;
mod table;
mod usage;
mod victim;
mod writer;

pub use options::{CachePolicy, InPlaceOptions};
pub use store::InPlaceStore;
