//! What the tests share.
#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

pub(crate) mod disturbed;
pub(crate) mod losing;
pub(crate) mod split;
pub(crate) mod switch;
pub(crate) mod tables;
pub(crate) mod world;

use zonda_device::Geometry;
use zonda_files::{FilePath, FileStoreOptions, policy};

/// 24 zones of 64 KiB.
pub(crate) fn geometry(active_max: u32) -> Geometry {
    Geometry::new(64 << 10, 24).with_limits(active_max, active_max)
}

/// Small buffers, so that zones are crossed often.
pub(crate) fn options(which: u64) -> FileStoreOptions {
    let names = policy::NAMES;
    options_with(names[usize::try_from(which).unwrap() % names.len()])
}

/// The same for one policy.
pub(crate) fn options_with(name: &str) -> FileStoreOptions {
    FileStoreOptions {
        policy: policy::by_name(name).unwrap(),
        write_buffer_bytes: 16 << 10,
        log_buffer_bytes: 8 << 10,
        held_bytes_max: 96 << 10,
        ..FileStoreOptions::default()
    }
}

pub(crate) fn path(text: &str) -> FilePath {
    FilePath::parse(text).unwrap()
}
