//! What the options of a mount take from this process.

/// The clock for modification times.
#[expect(clippy::disallowed_types, reason = "the plugin ends the graph: nothing simulates RocksDB's own clock")]
pub(crate) fn seconds_since_1970() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// Something that differs between processes and calls: std seeds its hash maps from the operating system.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
