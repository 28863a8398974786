//! What a mount takes from this process.

use std::time::Duration;

/// The clock for modification times.
#[expect(clippy::disallowed_types, reason = "the plugin ends the graph: nothing simulates RocksDB's own clock")]
pub(crate) fn seconds_since_1970() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// CPU time of this thread so far, as of the last tick of the system; zero where `/proc` does not say.
pub(crate) fn thread_cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// Something that differs between processes and calls: std seeds its hash maps from the operating system.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
