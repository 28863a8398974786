//! Other engines as subjects of this project's bench, and the comparisons that need them.
//!
//! Each engine is one file that implements [`zonda_bench::Subject`]. The C libraries are opened at run time, from Debian's
//! packages: building needs none of them, and one that is missing is named with its package. Every engine gets the same
//! budget of memory as its own settings allow it to be said; what it really took is measured (RSS), and an engine that
//! reads through the system's page cache says so in its device column.

mod bftree;
pub mod engines;
mod fjall;
mod library;
mod lmdb;
mod peer;
mod redb;
mod rocksdb;
pub mod speed;
mod wiredtiger;
