//! Zoned block devices of Linux: NVMe ZNS namespaces, SMR disks, null_blk.
//!
//! [`ZbdDevice`] believes its own [`ZoneMachine`](crate::ZoneMachine) and asks the device after every error. Below it:
//! the nodes and their plain I/O (`node`), the queue on `io_uring`, NVMe commands past the block layer (`passthrough`),
//! ioctls (`sys`) and sysfs (`attributes`).
mod attributes;
mod descriptor;
mod device;
mod failure;
mod node;
mod passthrough;
mod queue;
mod ring;
mod sys;
mod zones;

pub use descriptor::{Descriptor, ZoneKind};
pub(crate) use device::written_zones;
pub use device::{ZbdDevice, ZbdOptions};
