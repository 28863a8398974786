//! A store in a temporary directory.
#![allow(dead_code, reason = "each test file uses its part")]

use tempfile::TempDir;
use zonda::{Db, Options, Pair, Range, Result};

/// Small enough for a test, large enough for a store. The same on every machine, so that a seed of the simulation replays.
pub(crate) fn options() -> Options {
    Options::new().memory(4 << 20).zone_bytes(1 << 20).capacity(80 << 20).seed(7).log_instances(2)
}

/// A file that goes away with its directory.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// The name of the store, or of another one in the same directory.
    pub(crate) fn named(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn uri(&self) -> String {
        self.named("test.zonda")
    }

    pub(crate) fn open(&self) -> Db {
        options().open(&self.uri()).unwrap()
    }
}

/// A store in memory.
pub(crate) fn memory() -> Db {
    options().open("mem:").unwrap()
}

/// The keys of a range as text.
pub(crate) fn keys(range: Result<Range>) -> Vec<String> {
    let text = |pair: Result<Pair>| String::from_utf8(pair.unwrap().0).unwrap();
    range.unwrap().map(text).collect()
}

/// `0000`, `0001`, ...
pub(crate) fn fill(db: &Db, count: u32) {
    for number in 0..count {
        db.put(format!("{number:04}"), number.to_string()).unwrap();
    }
}

/// Memory of this process that is resident: heap, stacks and mapped segments. Not the pages of its program, which come as code is run.
#[cfg(target_os = "linux")]
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    of("RssAnon:") + of("RssShmem:")
}
