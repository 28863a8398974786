//! The plugin refuses a RocksDB that it was not built for, in one line, and harms nobody who does not use it.
#![cfg(with_rocksdb)]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{is_here, library, run, text_of};

/// `ldb` in a process that says it has RocksDB 0.0.1.
fn ldb(here: &Path, arguments: &[&str]) -> Output {
    let old = here.join("libold.so");
    let mut command = Command::new("ldb");
    command.env("LD_PRELOAD", format!("{} {}", old.display(), library().display()));
    command.args(arguments).output().unwrap()
}

#[test]
fn another_version_is_refused_in_one_line() {
    if !is_here(&["c++", "ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/old.cc");
    run(Command::new("c++").args(["-std=c++17", "-shared", "-fPIC", "-o"]).arg(here.join("libold.so")).arg(source));

    let uri = format!("--fs_uri=zonda://file:{}/zones?create=64MiB", here.display());
    let refused = ldb(here, &[&uri, "--db=/db", "--create_if_missing", "put", "key", "value"]);
    let text = text_of(&refused);
    let is_it = |line: &&str| line.starts_with("zonda: not loaded: built for RocksDB ");
    let lines: Vec<&str> = text.lines().filter(is_it).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].ends_with(", but this process has 0.0.1"), "{text}");
    assert!(
        refused.status.code().is_some_and(|code| code != 0),
        "it ends by itself, and not well: {}\n{text}",
        refused.status
    );
    assert!(!here.join("zones").exists(), "nothing was made");

    let host = format!("--db={}", here.join("host").display());
    let other = ldb(here, &[&host, "--create_if_missing", "put", "key", "value"]);
    assert!(other.status.success(), "the default file system is as it was: {}", text_of(&other));
}
