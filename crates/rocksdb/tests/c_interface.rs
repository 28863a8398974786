//! The C interface, by the example that its users read.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{is_here, library, run};

#[test]
fn the_example_stores_and_reports() {
    if !is_here(&["cc"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("env");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let libraries = library().parent().unwrap().to_owned();
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Werror", "-o"]).arg(&program).arg("-I").arg(here.join("include"));
    compiler.arg(here.join("examples/env.c")).arg("-L").arg(&libraries).args(["-lzonda_rocksdb", "-lrocksdb"]);
    run(&mut compiler);
    let start = |uri: &str| {
        let mut command = Command::new(&program);
        command.arg(uri).env("LD_LIBRARY_PATH", &libraries);
        command
    };
    let uri = format!("zonda://file:{}/zones?create=64MiB", directory.path().display());
    for _ in 0..2 {
        let text = run(&mut start(&uri));
        assert!(text.contains("key = value") && text.contains("\"written_bytes\""), "{text}");
        assert!(text.contains("\"clean_rate\": 33554432"), "{text}");
    }
    let without = format!("{uri}&clean_threshold=0");
    let refused = common::text_of(&start(&without).output().unwrap());
    assert!(refused.contains("nothing cleans it in the background"), "{refused}");
    let refused = start("zonda://file:/nowhere/at/all").output().unwrap();
    let text = common::text_of(&refused);
    assert!(!refused.status.success() && text.lines().count() == 1 && text.contains("/nowhere/at/all"), "{text}");
}
