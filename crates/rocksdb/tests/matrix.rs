//! What stock `db_bench` leaves on zones, however it is told to work, is what it leaves on the default file system.
#![cfg(with_rocksdb)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{is_here, reported, run, with_library};

/// Small tables, many levels: a lot happens in few bytes.
const SHAPE: [&str; 9] = [
    "--num=6000",
    "--seed=11",
    "--key_size=16",
    "--value_size=100",
    "--write_buffer_size=65536",
    "--target_file_size_base=32768",
    "--max_bytes_for_level_base=131072",
    "--max_bytes_for_level_multiplier=4",
    "--max_background_jobs=4",
];

/// One after the other on one database, and whether it then has what the keys' seed says: what two threads write does not, so it
/// is deleted again.
const STEPS: [(&str, &[&str], bool); 4] = [
    ("fillseq", &[], true),
    ("fillrandom,overwrite,readrandom,deleterandom", &[], true),
    ("overwrite,readwhilewriting,deleteseq", &["--use_existing_db=true", "--threads=2", "--reads=2000"], false),
    ("overwrite,deleterandom,readseq,compact,readrandom", &["--use_existing_db=true"], true),
];

const ONE: &str = "--subcompactions=1";
const FOUR: &str = "--subcompactions=4";
const DIRECT: [&str; 2] = ["--use_direct_reads=true", "--use_direct_io_for_flush_and_compaction=true"];
const PARALLEL: [&str; 2] = ["--compression_type=lz4", "--compression_parallel_threads=4"];
const PLAIN: &str = "--compression_type=none";
const DYNAMIC: &str = "--level_compaction_dynamic_level_bytes=true";
const UNIVERSAL: &str = "--compaction_style=1";

/// Every two of subcompactions, direct I/O and shape of the tree meet, and parallel compression meets each.
const MODES: [&[&str]; 6] = [
    &[ONE, PLAIN],
    &[FOUR, DIRECT[0], DIRECT[1], PARALLEL[0], PARALLEL[1]],
    &[ONE, DIRECT[0], DIRECT[1], DYNAMIC, PARALLEL[0], PARALLEL[1]],
    &[FOUR, DYNAMIC, PLAIN],
    &[ONE, UNIVERSAL, PARALLEL[0], PARALLEL[1]],
    &[FOUR, DIRECT[0], DIRECT[1], UNIVERSAL, PLAIN],
];

/// Does one step and looks at what is there.
fn step(
    program: &dyn Fn(&str) -> Command,
    (benchmarks, more, is_known): (&str, &[&str], bool),
    mode: &[&str],
) -> String {
    let mut bench = program("db_bench");
    let text = run(bench.args(SHAPE).arg(format!("--benchmarks={benchmarks}")).args(more).args(mode));
    assert!(!text.contains("error") && !text.contains("Error"), "{text}");
    let checked = run(program("ldb").arg("checkconsistency"));
    assert!(checked.contains("OK"), "{checked}");
    if is_known { run(program("ldb").args(["scan", "--hex"])) } else { String::new() }
}

fn on_zones(directory: &Path, program: &str) -> Command {
    let mut command = with_library(program);
    let uri = format!("--fs_uri=zonda://file:{}/zones?create=64MiB&zone_size=1MiB", directory.display());
    command.args([&uri, "--db=/db"]);
    if program == "db_bench" {
        command.env("ZONDA_REPORT", directory.join("report"));
    }
    command
}

#[test]
fn every_mode_leaves_what_the_default_file_system_has() {
    if !is_here(&["db_bench", "ldb"]) {
        return;
    }
    let host = tempfile::tempdir().unwrap();
    let on_host = |program: &str| {
        let mut command = Command::new(program);
        command.arg(format!("--db={}", host.path().join("db").display()));
        command
    };
    let expected = STEPS.map(|one| step(&on_host, one, &[PLAIN]));
    assert!(expected[1].lines().count() > 1500 && expected[1] != expected[3], "{}", expected[1].len());
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        for (one, expected) in STEPS.iter().zip(&expected) {
            let found = step(&|program| on_zones(directory.path(), program), *one, mode);
            assert!(found == *expected, "{mode:?} after {}: the databases differ", one.0);
            let levels = |which: &str| reported(&directory.path().join("report"), &format!("levels_{which}"));
            assert!(levels("right") > 0, "{mode:?} after {}: it writes tables", one.0);
            let others = ["wrong", "unknown", "unheard"].map(levels);
            assert_eq!(others, [0; 3], "{mode:?} after {}", one.0);
        }
    }
}
