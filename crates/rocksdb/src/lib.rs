//! RocksDB on zones: `libzonda_rocksdb.so`, a `FileSystem` for unmodified RocksDB.
//!
//! Loaded into a program that uses librocksdb (by `LD_PRELOAD` or by linking), it registers file systems called
//! `zonda://DEVICE?key=value`; what the keys are stands at [`Uri`]. Three parts:
//!
//! 1. The shim (`shim/*.cc`, C++): RocksDB's interface, translated into plain C calls (`shim/bridge.h`), errors into `IOStatus`.
//! 2. [`System`]: RocksDB's idea of a file system on a [`FileStore`](zonda_files::FileStore), in safe Rust. What kind of file a
//!    name is decides how it is stored (`name.rs`).
//! 3. [`lsm`]: what the database is doing, learnt without changing it: which job writes a table and for which level, from an
//!    event listener; which tables are where, from the MANIFEST as it passes through.
//!
//! Panics end at the border (`abi`), as an error of the call that met them.
//!
//! Where librocksdb's headers are not, the crate is built without part 1 (`build.rs`).
#![deny(unsafe_op_in_unsafe_fn)]

mod abi;
mod devices;
mod failure;
mod first_record;
mod locks;
mod log_order;
pub mod lsm;
mod mount;
mod name;
mod options;
mod report;
mod system;
mod tell;
mod uri;
mod writable;

pub use devices::offer_device;
pub use failure::{Failure, Kind};
pub use mount::{Mounted, mounted, mounted_before};
pub use name::{Role, role_of};
pub use system::{Info, Readable, Reader, System};
pub use uri::Uri;
pub use writable::{Order, Writable};
