//! The report tells what users read from what compactions read.
#![cfg(with_rocksdb)]

mod common;

use std::path::Path;

use common::{is_here, reported, run, with_library};

/// Runs `db_bench` with nothing that compacts by itself; what users read and what compactions read, by the report.
fn read_by(directory: &Path, policy: &str, benchmarks: &str, more: &[&str]) -> (u64, u64) {
    let report = directory.join("report");
    let mut command = with_library("db_bench");
    command.env("ZONDA_REPORT", &report);
    let uri = format!("zonda://file:{}/zones?create=256MiB&zone_size=1MiB&policy={policy}", directory.display());
    command.arg(format!("--fs_uri={uri}"));
    command.args([
        "--db=/db",
        "--num=30000",
        "--key_size=16",
        "--value_size=400",
        "--compression_type=none",
        "--seed=11",
    ]);
    command.args(["--write_buffer_size=8388608", "--disable_auto_compactions=true"]);
    run(command.arg(format!("--benchmarks={benchmarks}")).args(more));
    (reported(&report, "user_read_bytes"), reported(&report, "compaction_read_bytes"))
}

#[test]
fn reads_of_users_and_of_compactions_are_told_apart() {
    if !is_here(&["db_bench"]) {
        return;
    }
    for direct in ["false", "true"] {
        let directory = tempfile::tempdir().unwrap();
        let read = |benchmarks, more: &[&str]| {
            let direct = format!("--use_direct_reads={direct}");
            read_by(directory.path(), "liza-zenfs", benchmarks, &[&[direct.as_str()], more].concat())
        };
        // Twice the keys, in few tables that overlap. What was in a log would be read when the store is opened, and not by a compaction.
        read("fillrandom,overwrite,flush", &[]);
        let written = 2 * 30_000 * 416;
        let there = ["--use_existing_db=true"];
        let (user, compaction) = read("readseq", &[&there[..], &["--readonly=true"]].concat());
        assert!(user > written * 3 / 4, "direct {direct}: {user} of some {written}");
        assert_eq!(compaction, 0, "direct {direct}");
        let (user, compaction) = read("compact", &there);
        assert!(compaction > written * 3 / 4, "direct {direct}: {compaction} of some {written}");
        // Tables are opened for users: half a MiB at their ends is read.
        assert!(user < compaction / 4, "direct {direct}: {user} beside {compaction}");
    }
}

/// The plugin reads each table that it places by its keys, for itself.
#[test]
fn looking_for_keys_is_no_read_of_a_user() {
    if !is_here(&["db_bench"]) {
        return;
    }
    let [plain, by_keys] = ["liza-zenfs", "caza"].map(|policy| {
        let directory = tempfile::tempdir().unwrap();
        read_by(directory.path(), policy, "fillrandom,overwrite,flush", &[]).0
    });
    assert!(plain > 0 && by_keys <= plain + plain / 10, "{by_keys} beside {plain}");
}
