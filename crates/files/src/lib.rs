//! A file store on zones: names, extents, placement policies, cleaning.
//!
//! For engines that write whole files and delete them, LSM-trees above all: a file is appended to by one writer, synced,
//! read by many, and removed. [`FileStore`] puts the bytes of files into zones that a [`policy`] chooses, so that what dies
//! together lies together, and cleans the zones in which this did not work out. It needs no other file system: names and
//! extents are in a journal in zones of the same device.
//!
//! Life of an appended byte: [`FileWriter::append`] keeps it in memory; the buffer is full, or synced; a policy chooses an
//! open zone, or a new one; the buffer is written there and becomes an [`Extent`]; a sync makes it durable: for tables by a
//! record in the journal, for logs because each of their chunks says what it is; [`FileReader`] finds it by offset; cleaning
//! may move it; with the last name and the last reader of its file it dies, and its zone is reset when all in it is dead.
//!
//! ```
//! use std::sync::Arc;
//! use zonda_device::{Geometry, MemDevice};
//! use zonda_files::{FileKind, FilePath, FileStore, FileStoreOptions, FileTags, StoreId};
//!
//! let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 16).with_limits(6, 6))?);
//! let store = FileStore::format(device.clone(), StoreId(1), false, FileStoreOptions::default())?;
//! let path = FilePath::parse("/greeting")?;
//! let mut writer = store.create(&path, FileTags::of(FileKind::Data))?;
//! writer.append(b"hello")?;
//! writer.sync()?;
//! writer.close()?;
//!
//! drop(store);
//! let (store, _) = FileStore::mount(device, FileStoreOptions::default())?;
//! let mut bytes = [0; 5];
//! store.open(&path)?.read_at(0, &mut bytes)?;
//! assert_eq!(&bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod blocks;
mod bytes;
mod call;
mod catalogue;
mod change;
mod check;
mod chunk;
mod claim;
mod clean;
mod cleaner;
mod commit;
mod copy;
mod crc;
mod error;
mod extent;
mod file;
mod follow;
mod ground;
mod lanes;
pub mod lsm;
mod mount;
mod names;
mod options;
mod pace;
mod path;
pub mod policy;
mod put_off;
mod read_many;
mod reader;
mod record;
pub mod replay;
mod reset;
mod room;
mod stop;
mod store;
mod subzones;
mod tags;
mod tail;
pub mod trace;
mod unit;
mod usage;
mod walk;
mod work;
mod writer;

pub use blocks::Placement;
pub use check::{CheckReport, FileNames, Finding};
pub use claim::Claim;
pub use clean::Cleaned;
pub use cleaner::{Cleaner, CleanerReport};
pub use error::{FileError, Result};
pub use extent::Extent;
pub use mount::MountReport;
pub use options::{FileStoreOptions, stream_name};
pub use path::{FilePath, NAME_BYTES_MAX, PATH_BYTES_MAX};
pub use read_many::FileRead;
pub use reader::FileReader;
pub use store::{FileInfo, FileStore};
pub use subzones::SplitUsage;
pub use tags::{FileKind, FileTags, Lifetime};
pub use usage::{BlocksUsage, FileUsage, LEVELS_COUNTED, WriteCounts};
pub use work::Work;
pub use writer::FileWriter;
pub use zonda_space::{BLOCK_BYTES, ReadOrigin, StoreId, VictimPolicy, ZoneId};

/// Number of a file: never used twice in the life of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);
