//! What the databases of a file system are doing, learnt from outside: jobs from an event listener, the shape of the LSM-tree
//! from the MANIFEST.

mod edit;
mod first_key;
mod jobs;
mod record;
mod relay;
mod shape;
mod view;

pub use edit::{Damaged, TableFile, VersionEdit};
pub(crate) use first_key::first_key;
pub use jobs::{Begun, NewTable, Reason, Running};
pub use record::RecordReader;
pub use shape::{Applied, ColumnFamily, Shape};
pub use view::{LevelBytes, LevelCounts, View};
