//! MultiGet of stock RocksDB finds what it finds on the default file system, with reads that are in flight together.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::process::Command;

use common::{is_here, reported, run, with_library};

/// Half of the keys, then gets of 32 at a time that find them in no cache; what `db_bench` says was found.
fn found(command: &mut Command, direct: &str) -> String {
    command.args(["--num=8000", "--writes=4000", "--key_size=16", "--value_size=400", "--compression_type=none"]);
    command.args(["--seed=11", "--cache_size=1", "--batch_size=32", "--multiread_batched=true", "--reads=3200"]);
    let text = run(command.args(["--benchmarks=fillrandom,compact,multireadrandom", direct]));
    let line = text.lines().find(|line| line.starts_with("multireadrandom")).unwrap_or_else(|| panic!("{text}"));
    line[line.rfind('(').unwrap()..].to_owned()
}

#[test]
fn multi_gets_find_the_same_and_read_together() {
    if !is_here(&["db_bench"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let on_host = format!("--db={}", here.join("db").display());
    let expected = found(Command::new("db_bench").arg(on_host), "--use_direct_reads=false");
    assert!(expected.contains(" of ") && !expected.contains("(0 of"), "{expected}");
    for direct in ["--use_direct_reads=false", "--use_direct_reads=true"] {
        let uri = format!("--fs_uri=zonda://file:{}/{direct}?create=64MiB&zone_size=1MiB", here.display());
        let mut command = with_library("db_bench");
        command.env("ZONDA_REPORT", here.join("report")).args([&uri, "--db=/db"]);
        assert_eq!(found(&mut command, direct), expected, "{direct}");
        let together = reported(&here.join("report"), "reads_together");
        assert!(together > 1000, "{direct}: {together} reads");
    }
}
