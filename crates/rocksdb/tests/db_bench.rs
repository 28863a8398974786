//! `zonda-db-bench`: compactions chosen outside RocksDB leave the same database, in levels that RocksDB accepts.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{is_here, reported, run, text_of};

const PROGRAM: &str = env!("CARGO_BIN_EXE_zonda-db-bench");
/// Small tables, many levels.
const OPTIONS: &str = "max_background_jobs=16;write_buffer_size=65536;target_file_size_base=32768;\
                       max_bytes_for_level_base=131072;max_bytes_for_level_multiplier=4;compression=kNoCompression";

/// Runs it on a device in a file; what it prints.
fn bench(here: &Path, policy: &str, benchmarks: &str) -> String {
    let uri = format!("zonda://file:{}/{policy}?create=64MiB&zone_size=1MiB", here.display());
    let mut command = Command::new(PROGRAM);
    command.args([format!("--fs_uri={uri}"), "--db=/db".to_owned(), format!("--options={OPTIONS}")]);
    command.args([format!("--policy={policy}"), format!("--benchmarks={benchmarks}")]);
    command.args(["--num=6000", "--operations=2000", "--threads=3", "--value_size=100", "--seed=5"]);
    run(command.env("ZONDA_REPORT", here.join("report")))
}

/// The number in front of a word in the line on driven compactions.
fn counted(text: &str, what: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with("Driven compactions: ")).unwrap_or_else(|| panic!("{text}"));
    line.split_once(what).unwrap().0.split_whitespace().next_back().unwrap().parse().unwrap()
}

#[test]
fn every_policy_compacts_and_no_level_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let steps = "fillrandom,overwrite,ycsbl,waitforcompaction,readrandom,ycsba,ycsbb,ycsbc,ycsbd,ycsbe,ycsbf,waitforcompaction,stats";
    for policy in ["native", "min-overlap", "gear", "llc"] {
        let text = bench(here, policy, steps);
        for step in ["fillrandom", "overwrite", "readrandom", "ycsba", "ycsbd", "ycsbf"] {
            assert!(text.lines().any(|line| line.starts_with(&format!("{step:<12} : "))), "{policy}: {text}");
        }
        assert!(text.contains("Cumulative stall:") && text.contains("Percentiles: P50:"), "{policy}: {text}");
        let report = here.join("report");
        assert!(reported(&report, "levels_right") > 0, "{policy}");
        let others = ["wrong", "unknown", "unheard"].map(|how| reported(&report, &format!("levels_{how}")));
        assert_eq!(others, [0, 0, 0], "{policy}");
        if policy != "native" {
            assert!(counted(&text, " jobs,") > 5, "{policy}: {text}");
        }
    }
}

#[test]
fn all_threads_load_every_key_once() {
    let directory = tempfile::tempdir().unwrap();
    let text = bench(directory.path(), "native", "fillshared,stats");
    let line = text.lines().find(|line| line.starts_with("fillshared")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" 6000 operations;"), "{line}");
    // RocksDB counts what was written; that of other threads than one is in it.
    assert!(text.contains("Cumulative writes: 6000 writes, 6000 keys"), "{text}");
}

#[test]
fn the_database_is_the_one_that_rocksdb_makes() {
    if !is_here(&["ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let scan = |policy: &str| {
        bench(here, policy, "fillrandom,waitforcompaction");
        let uri = format!("--fs_uri=zonda://file:{}/{policy}", here.display());
        let mut ldb = common::with_library("ldb");
        let checked = run(common::with_library("ldb").args([&uri, "--db=/db", "checkconsistency"]));
        assert!(checked.contains("OK"), "{policy}: {checked}");
        run(ldb.args([&uri, "--db=/db", "scan", "--hex"]))
    };
    let native = scan("native");
    assert_eq!(native.lines().filter(|line| line.contains(" : ")).count(), 6000);
    for policy in ["min-overlap", "gear", "llc"] {
        assert!(scan(policy) == native, "{policy}");
    }
}

#[test]
fn the_report_says_how_long_commands_of_a_modelled_drive_took() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    let uri = "zonda://flash:splitzns?scale=1/64&zones=40&time=untimed&split=all&create=on&policy=splitzns,from=1";
    let mut command = Command::new(PROGRAM);
    command.args([format!("--fs_uri={uri}"), "--db=/db".to_owned(), format!("--options={OPTIONS}")]);
    command.args(["--benchmarks=fillrandom,waitforcompaction,readrandom", "--num=6000", "--operations=2000"]);
    run(command.args(["--threads=3", "--value_size=100", "--seed=5"]).env("ZONDA_REPORT", &report));
    let of = |name: &str| reported(&report, name);
    for work in ["wide_write", "subzone_write", "subzone_query", "subzone_compaction_read"] {
        assert!(of(&format!("{work}_count")) > 0, "{work}");
        assert!(of(&format!("{work}_p50_ns")) <= of(&format!("{work}_p99_ns")), "{work}");
    }
    assert!(of("wide_write_p50_ns") >= 960_000, "a write waits for a program at least");
    assert!(of("dies_programming_ns") > of("dies_erasing_ns"));
    assert!(of("preread_hits") <= of("subzone_compaction_read_count"), "what hits is a compaction's read of a subzone");
    // Each flush and compaction asks for its new files' names, and every commit is of one of the files.
    let tables = of("writes_of_flushed_tables");
    assert!(tables > 0 && of("directory_syncs_spared") >= tables, "{tables} writes of flushed tables");
    assert!(of("writes_of_logs") > 0 && of("writes_of_tables") > 0 && of("commits") > 0);
    assert!(of("info_log_flushes_put_off") + of("info_log_flushes") > 0);
}

#[test]
fn what_is_wrong_is_said() {
    for words in [vec!["--db=/db"], vec!["--db=/db", "--benchmarks=fly"], vec!["--policy=best"]] {
        let output = Command::new(PROGRAM).args(&words).output().unwrap();
        assert!(!output.status.success() && !text_of(&output).contains("panicked"), "{words:?}: {}", text_of(&output));
    }
    let bad = ["--db=/db", "--benchmarks=stats", "--options=no_such_option=1", "--fs_uri=zonda://mem:?create=64MiB"];
    let output = Command::new(PROGRAM).args(bad).output().unwrap();
    assert!(!output.status.success() && text_of(&output).contains("no_such_option"), "{}", text_of(&output));
}

/// Of a tree with three levels the last is never due: nothing could go below it.
#[test]
fn a_tree_of_few_levels_comes_to_rest() {
    let directory = tempfile::tempdir().unwrap();
    for policy in ["min-overlap", "gear", "llc"] {
        let uri = format!("zonda://file:{}/{policy}?create=64MiB&zone_size=1MiB", directory.path().display());
        let mut command = Command::new(PROGRAM);
        command.args([format!("--fs_uri={uri}"), "--db=/db".to_owned(), format!("--policy={policy}")]);
        command.args([format!("--options={OPTIONS};num_levels=3"), "--value_size=100".to_owned()]);
        let text = run(command.args(["--benchmarks=fillrandom,overwrite,waitforcompaction", "--num=12000"]));
        assert!(counted(&text, " jobs,") > 5 && counted(&text, " refused,") == 0, "{policy}: {text}");
    }
}

/// The block size and the compression of the options are those of the tables.
#[test]
fn tables_are_made_as_the_options_say() {
    if !is_here(&["sst_dump"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let options = format!(
        "{};compression=kLZ4Compression;block_based_table_factory={{block_size=1K;filter_policy=bloomfilter:10:false}}",
        OPTIONS.replace(";compression=kNoCompression", "")
    );
    let mut command = Command::new(PROGRAM);
    command.args([format!("--db={}", database.display()), "--policy=llc".to_owned(), format!("--options={options}")]);
    run(command.args(["--benchmarks=fillrandom,overwrite,waitforcompaction", "--num=6000", "--value_size=100"]));
    let tables = std::fs::read_dir(&database).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> = tables.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).collect();
    assert!(tables.len() > 3, "{tables:?}");
    for table in tables {
        let mut dump = Command::new("sst_dump");
        let text = run(dump.args([format!("--file={}", table.display()), "--show_properties".to_owned()]));
        let of = |name: &str| -> String {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix(':'));
            line.unwrap_or_else(|| panic!("{name}: {text}")).trim().to_owned()
        };
        assert_eq!(of("SST file compression algo"), "LZ4");
        let bytes: u64 = of("raw key size").parse::<u64>().unwrap() + of("raw value size").parse::<u64>().unwrap();
        let blocks: u64 = of("# data blocks").parse().unwrap();
        assert!(
            blocks * 2048 > bytes && of("filter policy name").contains("loom"),
            "{blocks} blocks of {bytes}: {text}"
        );
    }
}
