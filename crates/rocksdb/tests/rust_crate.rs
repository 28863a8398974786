//! The crate `rocksdb` on zones, by the example that its users read.
//!
//! `cargo xtask rust-crate`; `ROCKSDB_LIB_DIR` and `LIBCLANG_PATH` where they are not found.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::env;
use std::path::Path;
use std::process::Command;

use common::{library, run};

#[test]
#[ignore = "fetches and builds the crate, which takes a minute, a registry and libclang"]
fn the_example_stores_and_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let libraries = library().parent().unwrap().to_owned();
    let target = directory.path().join("target");
    let of_system = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let mut build = Command::new("cargo");
    build.arg("build").current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("rust-example"));
    build.env("CARGO_TARGET_DIR", &target).env("ZONDA_LIB_DIR", &libraries);
    build.env("ROCKSDB_LIB_DIR", env::var_os("ROCKSDB_LIB_DIR").unwrap_or_else(|| of_system.into()));
    run(&mut build);
    let start = |uri: &str| {
        let mut command = Command::new(target.join("debug/rust-example"));
        command.arg(uri).env("LD_LIBRARY_PATH", &libraries);
        command
    };
    let uri = format!("zonda://file:{}/zones?create=64MiB", directory.path().display());
    for _ in 0..2 {
        let text = run(&mut start(&uri));
        assert!(text.contains("key = value"), "{text}");
    }
    let refused = start("zonda://file:/nowhere/at/all").output().unwrap();
    let text = common::text_of(&refused);
    assert!(!refused.status.success() && text.contains("/nowhere/at/all"), "{text}");
}
