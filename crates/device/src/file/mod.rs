//! The file backends: a zoned and a block device in one sparse file each, which survive `kill -9` at any moment and
//! power cuts after a flush.
mod ahead;
mod beside;
mod blanks;
mod block_device;
mod chunks;
mod device;
mod host_file;
mod open;
mod options;
mod probe;
mod queue;
mod readable;
mod sys;
#[cfg(target_os = "linux")]
mod uring;
mod zones;

pub use block_device::FileBlockDevice;
pub use device::FileDevice;
pub(crate) use open::kind_of;
pub use options::{Direct, FileOptions, QueueKind};
