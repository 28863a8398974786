//! What placement knows of the LSM-trees whose tables are files here: plain data that the user of the store fills in.
//!
//! # Who calls what, when
//! For an engine with levels, jobs and version edits, as `RocksDB`. All calls may come from any thread; none of them does
//! device I/O. Policies that look at levels or lifetimes only need none of this; CAZA needs 1 to 5.
//!
//! 1. A column family is opened: [`FileStore::tree`](crate::FileStore::tree) gives its [`TreeId`]; then the version that the
//!    MANIFEST holds, as one edit ([`FileStore::apply_edit`](crate::FileStore::apply_edit)). Closed or dropped:
//!    [`FileStore::forget_tree`](crate::FileStore::forget_tree).
//! 2. A flush or compaction begins: [`FileStore::begin_job`](crate::FileStore::begin_job), with its inputs; these are left out
//!    of what CAZA looks for, because they are about to die. [`FileStore::end_job`](crate::FileStore::end_job) when it has ended,
//!    whether it succeeded or not.
//! 3. A table is created: [`FileStore::create`](crate::FileStore::create), and
//!    [`FileWriter::describe`](crate::FileWriter::describe) with tree, job and level as soon as they are known. Policies of levels
//!    place its first bytes at the first full buffer.
//! 4. Its key range is known, before its first sync: `describe` again, with the range. Under CAZA its bytes are still in memory
//!    and can be read through a [`FileReader`](crate::FileReader). The sync places it. Without a range, because too
//!    many wait, it is placed by the range of its job's inputs, behind the key that
//!    [`FileWriter::begins_with`](crate::FileWriter::begins_with) gave.
//! 5. A version edit is written to the MANIFEST: `apply_edit`, with what it adds and removes. A trivial move is one edit that
//!    removes and adds the same file. Until then a placed table counts at the level it was described with.
//!
//! A file that loses its last name leaves the shape by itself.

mod lives;
mod shape;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::FilePath;

pub use shape::{LsmShape, Table};

/// Number of an LSM-tree: one column family of one directory. Given by [`FileStore::tree`](crate::FileStore::tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u32);

/// Number of a flush or compaction that runs. Given by [`FileStore::begin_job`](crate::FileStore::begin_job).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// The keys of a table: both ends belong to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first key.
    pub smallest: Vec<u8>,
    /// The last key.
    pub largest: Vec<u8>,
}

impl KeyRange {
    /// From one key to another.
    #[must_use]
    pub fn new(smallest: impl Into<Vec<u8>>, largest: impl Into<Vec<u8>>) -> Self {
        Self { smallest: smallest.into(), largest: largest.into() }
    }
}

type Compare = dyn Fn(&[u8], &[u8]) -> Ordering + Send + Sync;

/// The order of a tree's keys: the engine's comparator.
#[derive(Clone)]
pub struct KeyOrder {
    name: &'static str,
    compare: Arc<Compare>,
}

impl KeyOrder {
    /// By bytes: the usual one.
    #[must_use]
    pub fn bytewise() -> Self {
        Self { name: "bytewise", compare: Arc::new(|one, other| one.cmp(other)) }
    }

    /// By bytes, backwards.
    #[must_use]
    pub fn reverse() -> Self {
        Self { name: "reverse", compare: Arc::new(|one, other| other.cmp(one)) }
    }

    /// A comparator of the engine's user. A replay cannot know it and takes the keys by their bytes.
    #[must_use]
    pub fn custom(compare: Arc<Compare>) -> Self {
        Self { name: "custom", compare }
    }

    /// The word for it in traces.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Compares two keys.
    #[must_use]
    pub fn compare(&self, one: &[u8], other: &[u8]) -> Ordering {
        (self.compare)(one, other)
    }

    /// Whether two ranges have a key in common.
    #[must_use]
    pub fn overlap(&self, one: &KeyRange, other: &KeyRange) -> bool {
        self.compare(&one.smallest, &other.largest).is_le() && self.compare(&other.smallest, &one.largest).is_le()
    }

    /// The least range that holds both.
    #[must_use]
    pub fn union(&self, one: &KeyRange, other: &KeyRange) -> KeyRange {
        let first = self.compare(&one.smallest, &other.smallest).is_le();
        let last = self.compare(&one.largest, &other.largest).is_ge();
        KeyRange {
            smallest: if first { one } else { other }.smallest.clone(),
            largest: if last { one } else { other }.largest.clone(),
        }
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Writes a table from memory.
    Flush,
    /// Merges tables.
    Compaction,
}

/// A flush or compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Of which tree.
    pub tree: TreeId,
    /// What it does.
    pub kind: JobKind,
    /// The level of what it writes, if that is known.
    pub output_level: Option<u8>,
    /// Tables that it reads, and that die when it succeeds.
    pub inputs: Vec<FilePath>,
}

/// What is known of a table that is being written; more of it may come later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHint {
    /// Of which tree.
    pub tree: TreeId,
    /// Written by which job.
    pub job: Option<JobId>,
    /// Level that it is written for.
    pub level: u8,
    /// Its keys.
    pub range: Option<KeyRange>,
}

/// A change of a tree's version: one record of its MANIFEST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Tables removed: applied first.
    pub removed: Vec<FilePath>,
    /// Tables added, with level and keys.
    pub added: Vec<(FilePath, u8, KeyRange)>,
}
