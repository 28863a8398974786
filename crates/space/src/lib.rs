//! Which zone a writer gets.
//!
//! [`Space`] sits on one zoned device and knows nothing of what is written: streams of data with one expected lifetime
//! ([`StreamSpec`]), the budget of active zones ([`Budget`]), a header at the start of each zone that names the store
//! ([`ZoneHeader`]), live bytes, the choice of zones to clean ([`victim`]), the reserve and back-pressure.
//!
//! A zone's life: [`Space::open_zone`] gives it to a [`ZoneWriter`]; full or [sealed](Space::seal) it returns its token; its
//! bytes die ([`Space::sub_live`]); it becomes a [victim](Space::victim), its live bytes move, and
//! [`Space::reset`] makes it free. Clients that keep no metadata log of their own have the [`Journal`].
//!
//! ```
//! use std::sync::Arc;
//! use zonda_device::{AlignedBuf, Geometry, MemDevice};
//! use zonda_space::{NewStore, Space, SpaceOptions, StoreId, StreamId, StreamSpec, Urgency};
//!
//! let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 16).with_limits(4, 4))?);
//! let options = SpaceOptions {
//!     client: *b"example\0",
//!     streams: vec![StreamSpec::new(StreamId(0), "data", 0)],
//!     known_features: 0,
//!     reserve_zones: 2,
//!     active_limit: None,
//! };
//! let new = NewStore { id: StoreId(42), features: 0, superblock: b"mine".to_vec(), overwrite: false };
//! let space = Space::format(device, new, &options)?;
//!
//! let mut writer = space.open_zone(StreamId(0), Urgency::Foreground)?;
//! let block = writer.write(&AlignedBuf::from_slice(&[7; 4096]))?;
//! space.add_live(writer.zone(), 4096);
//! space.flush()?;
//! let mut read = AlignedBuf::with_len(4096);
//! space.read(block, &mut read)?;
//! assert_eq!(read[0], 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod allocate;
mod budget;
mod create;
mod error;
mod format;
mod gauge;
mod journal;
mod journal_read;
mod offline;
mod options;
mod recognise;
mod recover;
mod release;
mod scan;
mod space;
mod stream;
mod subzones;
mod table;
mod units;
mod usage;
pub mod victim;
mod view;
mod wait;
mod writer;

pub use budget::{Budget, Share};
pub use error::{Result, SpaceError};
pub use format::{ChunkHeader, ChunkKind, HeaderFault, Identity, VERSION, ZoneHeader, items};
pub use journal::{Journal, SnapshotWriter};
pub use journal_read::{JournalEntry, JournalFound, look_at_journal, read_journal};
pub use offline::OfflineZones;
pub use options::{NewStore, SUPERBLOCK_BYTES_MAX, SpaceOptions, StoreId, Urgency};
pub use recognise::Recognised;
pub use recover::{DamagedZone, Recovered, RecoveredZone};
pub use space::{Space, WrittenBytes};
pub use stream::{STREAM_ID_MAX, StreamId, StreamSet, StreamSpec};
pub use subzones::SplitZoneUse;
pub use units::ZONE_BLOCKS_MIN;
pub use usage::{SpaceUsage, ZoneCounts};
pub use victim::VictimPolicy;
pub use view::{ZoneUse, ZoneView};
pub use writer::ZoneWriter;
/// What the interface of this crate is made of, for clients that know no devices.
pub use zonda_device::{AlignedBuf, ErrorKind, ReadOrigin, ZoneId, ZonedDevice};

/// Bytes of one block: the unit of every address. A device with smaller blocks is addressed in these all the same.
pub const BLOCK_BYTES: usize = 4096;
