//! An ordered key-value store for zoned flash and ordinary files.
//!
//! A [`Db`] maps byte keys to byte values, in key order, small pairs above all. It lives in one ordinary file by default, or on a device of
//! zones, with nothing but its name changed. Writes are atomic one by one and in a [`Batch`], over any number of named [`Tree`]s; reads and
//! scans see a consistent [`Snapshot`]; a crash loses nothing that was synced and never half of anything.
//!
//! ```
//! use zonda::{Batch, Db};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("app.zonda");
//! # let path = path.to_str().unwrap();
//! let db = Db::open(path)?;
//! db.put("bern", "capital")?;
//! assert_eq!(db.get("bern")?.as_deref(), Some(&b"capital"[..]));
//!
//! let mut batch = Batch::new();
//! batch.put("basel", "rhine").delete("bern");
//! let before = db.snapshot()?;
//! db.write(batch)?;
//! db.sync()?;
//!
//! let then: Vec<_> = before.prefix("b")?.collect::<Result<_, _>>()?;
//! assert_eq!(then, [(b"bern".to_vec(), b"capital".to_vec())]);
//! # Ok::<(), zonda::Error>(())
//! ```
//!
//! - Handles ([`Db`], [`Tree`], [`Snapshot`], [`View`]) are cheap to clone and shared between threads; calls block.
//! - [`Options`] holds what can be chosen: memory budget, durability, design, geometry. [`file_uri`] names the store in a file by its path.
//! - [`limits`] are constants; whoever exceeds one gets a typed [`Error`] with both numbers, and nothing is written.
//! - There is no compression and no encryption: values are stored as they come.
#![deny(unsafe_code)]

mod background;
mod backing;
mod backup;
mod batch;
mod catalogue;
mod check;
mod choices;
mod chunks;
mod db;
mod device;
mod ends;
mod error;
mod flusher;
#[expect(unsafe_code, reason = "registers a handler that notices forks")]
mod fork;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod governor;
mod key;
pub mod limits;
mod memory;
mod open;
mod opening;
mod options;
mod prefix;
mod range;
mod recovery;
mod shape;
mod snapshot;
mod stats;
mod store;
mod tree;
mod zones;

pub use batch::Batch;
pub use check::{CheckReport, Finding, KeySpan};
pub use choices::{BufferClasses, Design, Durability, Eviction, MemoryShares, StoreKind};
pub use db::Db;
pub use device::file_uri;
pub use error::{Error, Result};
pub use flusher::FlusherOptions;
pub use options::Options;
pub use range::{Keys, Pair, Range};
pub use recovery::RecoveryProgress;
pub use snapshot::{Snapshot, View};
pub use stats::{
    DeviceStats, MemoryStats, MiniPageStats, SpaceStats, Stats, TreeStats, WaitStats, Waited, WrittenStats,
};
pub use tree::{Swap, Tree, Update};
pub use zones::Zone;

/// The examples of the README compile; `tests/recipes.rs` runs them.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Those for whoever embeds the store do, and are run there.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;
