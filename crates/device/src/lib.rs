//! Zoned and conventional block devices: the two traits everything else stores through, and what implements them.
//!
//! - [`ZonedDevice`] and [`BlockDevice`] are the contracts; [`IoQueue`] keeps many requests in flight from one thread.
//! - [`ZoneMachine`] is the one zone state machine (NVMe ZNS, without I/O) that every backend drives.
//! - Backends: [`MemDevice`] and [`MemBlockDevice`] in memory; [`FileDevice`] and [`FileBlockDevice`] in a sparse file
//!   ([`mod@format`]); [`ZbdDevice`] on a zoned block device of Linux.
//! - [`Overlay`] and [`BlockOverlay`] keep in memory what is written to them, over a device that is only read.
//! - [`HostFtl`] makes a block device of a zoned one, [`BlockZones`] makes zones of the first blocks of a block device.
//! - Decorators for tests: [`PowerCut`] and [`PowerCutBlock`] lose what was not flushed (I4); [`Faulty`] makes any
//!   device fail.
//! - [`DeviceUri`] opens any of them by name; [`conformance`] checks any of them.
//!
//! This crate knows nothing of keys or files of a store. All blocking calls go through [`zonda_rt::device_call`].
mod address;
mod block;
mod block_zones;
mod buffer;
pub mod conformance;
mod counters;
mod error;
mod faulty;
mod file;
pub mod format;
mod geometry;
pub mod host_ftl;
mod mem;
mod mem_block;
mod overlay;
mod owner;
mod power_cut;
mod queue;
mod queues;
mod split;
mod syncs;
mod uri;
mod window;
#[cfg(target_os = "linux")]
mod zbd;
mod zone;
mod zone_machine;
mod zoned;

pub use address::{Lba, ZoneId};
pub use block::BlockDevice;
pub use block_zones::BlockZones;
pub use buffer::{AlignedBuf, BUFFER_ALIGNMENT};
pub use counters::DeviceCounters;
pub use error::{DeviceError, ErrorKind, Result, ZoneFault};
pub use faulty::{Fault, FaultEffect, FaultWhen, Faulty};
pub use file::{Direct, FileBlockDevice, FileDevice, FileOptions, QueueKind};
pub use geometry::{BLOCK_BYTES_RANGE, DEVICE_BLOCKS_MAX, Geometry, ZONE_COUNT_MAX};
pub use host_ftl::{HostFtl, HostFtlOptions, HostFtlStats};
pub use mem::MemDevice;
pub use mem_block::MemBlockDevice;
pub use overlay::{BlockOverlay, Overlay};
pub use power_cut::{
    CrashModel, CutAt, CutLabel, CutReport, PowerCut, PowerCutBlock, cut_label, cut_label_unless_named,
};
pub use queue::{Completion, Io, IoQueue, QUEUE_DEPTH_MAX, Rejected};
pub use queues::Queues;
pub use split::{ReadOrigin, SplitZones, SubzoneId, SubzoneReport};
pub use uri::{DeviceUri, OpenMode, OverZones, Place, ShapeOverrides, default_geometry, parse_size, query_pairs};
pub use window::RandomWriteArea;
#[cfg(target_os = "linux")]
pub use zbd::{Descriptor, ZbdDevice, ZbdOptions, ZoneKind};
pub use zone::{ZoneReport, ZoneState};
pub use zone_machine::{WriteGrant, ZoneMachine};
pub use zoned::ZonedDevice;
