//! Limits of keys, values, batches and names. Each is checked before anything is written; those of keys, values and names are tested at
//! +-1.

use crate::prefix::PREFIX_BYTES_MAX;

/// The longest key in bytes. The empty key is a key like any other.
pub const KEY_BYTES_MAX: usize = 1024;

/// The longest value in bytes (16 MiB). Long values go to the value log: they are written once, and read
/// with a read for each MiB, all in flight together.
pub const VALUE_BYTES_MAX: usize = zonda_tree::VALUE_BYTES_MAX;

/// The most bytes that one [`Batch`](crate::Batch) may bring to the log (1 MiB): its keys with the prefixes of named trees, and its values
/// up to [`Options::value_inline`](crate::Options::value_inline); longer ones go to the value log and count 24 bytes for each MiB that they
/// begin, or what a zone holds if that is less. One batch is one log record, so that it is atomic; a log record lies in one zone, so zones
/// of 1 MiB and less hold smaller batches, and `BatchTooLong` says how large they may be.
pub const BATCH_BYTES_MAX: usize = zonda_tree::BATCH_BYTES_MAX;

/// The longest name of a tree in bytes.
pub const TREE_NAME_BYTES_MAX: usize = 255;

/// The most trees that a store ever had; numbers of dropped trees are not used again.
pub const TREES_MAX: u32 = u32::MAX;

/// The least ring of a log instance in bytes: one block.
pub const LOG_RING_BYTES_MIN: u32 = zonda_tree::LOG_RING_BYTES_MIN;

/// The largest ring of a log instance in bytes (64 KiB).
pub const LOG_RING_BYTES_MAX: u32 = zonda_tree::LOG_RING_BYTES_MAX;

/// The largest leaf in bytes (32 KiB); the least and default is 4 KiB.
pub const LEAF_BYTES_MAX: u32 = 32 << 10;

/// The least memory budget in bytes; smaller ones cannot hold a page of everything that moves.
pub const MEMORY_BYTES_MIN: u64 = 2 << 20;

/// The largest memory budget in bytes (16 TiB).
pub const MEMORY_BYTES_MAX: u64 = 1 << 44;

/// The least zone of a new file or memory store in bytes (64 KiB).
pub const ZONE_BYTES_MIN: u64 = 64 << 10;

/// The largest zone of a new file or memory store in bytes (64 GiB).
pub const ZONE_BYTES_MAX: u64 = 1 << 36;

/// The largest segment of a new store in place in bytes (4 GiB).
pub const SEGMENT_BYTES_MAX: u64 = 1 << 32;

/// The largest capacity of a new file or memory store in bytes (4 PiB).
pub const CAPACITY_BYTES_MAX: u64 = 1 << 52;

/// The most instances of the log.
pub const LOG_INSTANCES_MAX: u32 = 64;

/// The longest time in milliseconds that buffered writes may wait for the background (a minute).
pub const LOG_INTERVAL_MS_MAX: u64 = 60_000;

/// The largest part of the memory budget for the merged filter.
pub const FILTER_SHARE_MAX: f64 = 0.5;

/// The largest memory budget of [`Design::BfTree`](crate::Design::BfTree) in bytes (16 GiB): its circular buffer is no longer.
pub const BF_TREE_MEMORY_BYTES_MAX: u64 = zonda_tree::RING_BYTES_MAX;

const _: () =
    assert!(KEY_BYTES_MAX + PREFIX_BYTES_MAX <= zonda_tree::KEY_BYTES_MAX, "a user's longest key must fit the tree");
