//! Stock `db_bench`, `ldb` and `sst_dump` work on zones as they do on the default file system.
#![cfg(with_rocksdb)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{allocated, created, is_here, reported, run, with_library};

/// Small tables, many levels: a lot happens in few bytes.
const SHAPE: [&str; 9] = [
    "--key_size=16",
    "--value_size=100",
    "--write_buffer_size=262144",
    "--target_file_size_base=131072",
    "--max_bytes_for_level_base=524288",
    "--max_bytes_for_level_multiplier=4",
    "--compression_type=none",
    "--disable_auto_compactions=false",
    "--verify_checksum=true",
];

fn device(directory: &Path) -> String {
    format!("--fs_uri=zonda://file:{}/zones", directory.display())
}

fn bench(directory: &Path, command: &mut Command, benchmarks: &str, more: &[&str]) {
    command.env("ZONDA_REPORT", directory.join("report"));
    command.args(SHAPE).arg(format!("--benchmarks={benchmarks}")).args(["--num=15000", "--seed=11"]).args(more);
    let text = run(command);
    assert!(!text.contains("error") && !text.contains("Error"), "{text}");
}

/// Runs `db_bench` on zones; every level must have been known before its table was written.
fn bench_on_zones(directory: &Path, benchmarks: &str, more: &[&str]) {
    let uri = format!("{}?create=256MiB&zone_size=1MiB", device(directory));
    bench(directory, with_library("db_bench").args([&uri, "--db=/db"]), benchmarks, more);
    let report = directory.join("report");
    assert!(reported(&report, "levels_right") > 0);
    let others = ["wrong", "unknown", "unheard"].map(|how| reported(&report, &format!("levels_{how}")));
    assert_eq!(others, [0, 0, 0]);
}

fn ldb(directory: &Path, arguments: &[&str]) -> String {
    run(with_library("ldb").args([&device(directory), "--db=/db"]).args(arguments))
}

#[test]
fn what_is_there_is_what_is_on_the_default_file_system() {
    if !is_here(&["db_bench", "ldb", "sst_dump"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let work = "fillrandom,overwrite,deleterandom";
    bench_on_zones(here, work, &["--threads=1"]);
    let database = here.join("db");
    let on_host = format!("--db={}", database.display());
    bench(here, Command::new("db_bench").arg(&on_host), work, &["--threads=1"]);

    assert!(ldb(here, &["checkconsistency"]).contains("OK"));
    let host = run(Command::new("ldb").args([&on_host, "scan", "--hex"]));
    let zones = ldb(here, &["scan", "--hex"]);
    assert!(host.lines().count() > 3000, "{} lines", host.lines().count());
    assert!(host == zones, "the databases differ");

    let files = ldb(here, &["list_live_files_metadata"]);
    let table = files.split_whitespace().find(|word| word.ends_with(".sst")).unwrap_or_else(|| panic!("{files}"));
    let table = format!("--file=/db/{}", table.rsplit('/').next().unwrap());
    let checked = run(with_library("sst_dump").args([&device(here), &table, "--command=verify"]));
    assert!(!checked.contains("Corruption") && !checked.contains("not"), "{checked}");
}

#[test]
fn a_conventional_drive_holds_the_same_database() {
    if !is_here(&["db_bench", "ldb"]) {
        return;
    }
    for placement in ["xfs-like", "f2fs-like"] {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        let work = "fillrandom,overwrite,deleterandom";
        let keys = "create=160MiB&streams=on&clean_threshold=50";
        let uri = format!("{}?fs={placement}&{keys}", device(here));
        bench(here, with_library("db_bench").args([&uri, "--db=/db"]), work, &["--threads=1"]);
        let database = here.join("db");
        let on_host = format!("--db={}", database.display());
        bench(here, Command::new("db_bench").arg(&on_host), work, &["--threads=1"]);
        let on_blocks = format!("{}?fs={placement}", device(here));
        let ours = |what: &[&str]| run(with_library("ldb").args([&on_blocks, "--db=/db"]).args(what));
        assert!(ours(&["checkconsistency"]).contains("OK"));
        let host = run(Command::new("ldb").args([&on_host, "scan", "--hex"]));
        assert!(host.lines().count() > 3000 && host == ours(&["scan", "--hex"]), "{placement}: the databases differ");
    }
}

#[test]
fn caza_places_by_keys_and_cleans_in_the_background() {
    if !is_here(&["db_bench", "ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let work = "fillrandom,overwrite,overwrite,overwrite,deleterandom";
    // More is to be free than ever is: the thread cleans however seldom it runs.
    let keys = "create=16MiB&zone_size=256KiB&write_buffer=64KiB&policy=caza&clean_threshold=60&victims=cost-benefit";
    let uri = format!("{}?{keys}", device(here));
    bench(here, with_library("db_bench").args([&uri, "--db=/db"]), work, &["--threads=1"]);
    let report = here.join("report");
    let by_overlap = reported(&report, "placed_by_overlap");
    assert!(by_overlap > 0 && allocated(&report, "overlap").iter().map(|(_, count)| count).sum::<u64>() == by_overlap);
    assert!(allocated(&report, "overlap").iter().all(|(level, _)| level != "null"), "only tables have keys");
    assert!(reported(&report, "zones_freed_in_background") > 0);
    assert_eq!(reported(&report, "cleaning_errors"), 0);
    let others = ["wrong", "unknown", "unheard"].map(|how| reported(&report, &format!("levels_{how}")));
    assert_eq!(others, [0, 0, 0]);

    let on_host = format!("--db={}", here.join("db").display());
    bench(here, Command::new("db_bench").arg(&on_host), work, &["--threads=1"]);
    let host = run(Command::new("ldb").args([&on_host, "scan", "--hex"]));
    assert!(host == ldb(here, &["scan", "--hex"]), "the databases differ");
}

#[test]
fn caza_places_flushed_tables_by_their_first_keys_where_none_can_wait() {
    if !is_here(&["db_bench"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let uri = format!("{}?create=64MiB&write_buffer=64KiB&policy=caza&held_bytes=1", device(directory.path()));
    let mut command = with_library("db_bench");
    command.args([&uri, "--db=/db"]);
    bench(directory.path(), &mut command, "fillrandom", &["--threads=1", "--disable_auto_compactions=true"]);
    // There is nothing below: the first has keys of its own, the others lie near it.
    let placed = |rule: &str| reported(&directory.path().join("report"), &format!("placed_{rule}"));
    assert!(placed("for_new_keys") > 0, "{} by lifetime", placed("by_lifetime"));
}

#[test]
fn a_read_only_mount_is_read_and_not_written() {
    if !is_here(&["db_bench", "ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    bench_on_zones(here, "fillrandom", &["--threads=1", "--sync=false"]);
    let before = ldb(here, &["scan", "--hex"]);
    let read_only = format!("{}?read_only=on", device(here));
    let read = run(with_library("ldb").args([&read_only, "--db=/db", "scan", "--hex"]));
    assert!(before.lines().count() > 3000 && read == before, "{} lines", before.lines().count());
    let writer = with_library("ldb").args([&read_only, "--db=/db", "put", "key", "value"]).output().unwrap();
    assert!(!writer.status.success() && common::text_of(&writer).contains("read-only"), "{}", common::text_of(&writer));
    assert!(ldb(here, &["scan", "--hex"]) == before);
}

#[test]
fn another_policy_than_the_one_that_was_asked_for_is_told() {
    if !is_here(&["ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    for (policy, said, placed) in [
        ("splitzns", 1, "\"placement\": \"liza-zns\", \"placement_reason\": \"the device does not split zones\""),
        ("ldp", 0, "\"placement\": \"ldp\", \"placement_reason\": null"),
    ] {
        let uri = format!("{}?create=64MiB&policy={policy}", device(directory.path()));
        let mut command = with_library("ldb");
        command.env("ZONDA_REPORT", &report).args([&uri, "--db=/db", "--create_if_missing", "put", "key", "value"]);
        let text = run(&mut command);
        let lines = text.lines().filter(|line| line.contains("the device does not split zones"));
        assert_eq!(lines.count(), said, "{policy}: {text}");
        let report = std::fs::read_to_string(&report).unwrap();
        assert!(report.lines().last().unwrap().contains(placed), "{policy}: {report}");
    }
}

#[test]
fn a_name_that_cannot_be_opened_is_refused_in_one_line() {
    if !is_here(&["db_bench"]) {
        return;
    }
    for (uri, why) in [
        ("zonda://file:/nowhere/at/all", "/nowhere/at/all"),
        ("zonda://mem:?policy=best", "no placement policy is called"),
        ("zonda://ftp:x", "unknown scheme"),
    ] {
        let output = with_library("db_bench").args([&format!("--fs_uri={uri}"), "--db=/db"]).output().unwrap();
        let text = common::text_of(&output);
        assert!(!output.status.success());
        assert!(text.lines().any(|line| line.contains(why)), "{uri}: {text}");
    }
}

#[test]
fn tables_lie_in_subzones_unless_levels_move() {
    if !is_here(&["db_bench"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let drive = "zonda://flash:splitzns?scale=1/64&zones=40&time=untimed&create=on";
    let bench_with = |policy: &str, more: &[&str]| {
        let mut command = with_library("db_bench");
        command.args([format!("--fs_uri={drive}&policy={policy}"), "--db=/db".into()]).args(SHAPE).args(more);
        command.env("ZONDA_REPORT", directory.path().join("report"));
        let benchmarks = "--benchmarks=fillrandom,overwrite,waitforcompaction,readrandom";
        command.args([benchmarks, "--num=15000", "--seed=11"]).output().unwrap()
    };
    let report = directory.path().join("report");
    let number = |name: &str| reported(&report, name);
    // Tables of jobs that closing cut short are in no level: there may be more bytes, but not fewer.
    for (policy, first) in [("splitzns,from=1", 1), ("splitzns+,from=2", 2)] {
        let output = bench_with(policy, &["--threads=2"]);
        assert!(output.status.success(), "{policy}: {}", common::text_of(&output));
        let of_levels = |is_deep: bool| -> u64 {
            created(&report).iter().filter(|(level, _)| (*level >= first) == is_deep).map(|(_, bytes)| bytes).sum()
        };
        let (in_subzones, tables) = (number("subzone_bytes"), number("table_bytes"));
        assert_eq!((number("subzone_tables_refused"), number("subzone_overflow_bytes")), (0, 0), "{policy}");
        assert!(
            of_levels(true) > 0 && in_subzones >= of_levels(true),
            "{policy}: {in_subzones} {:?}",
            created(&report)
        );
        // With + tables that will move are there, too; what is flushed never is.
        let wide = if first == 1 { of_levels(false) } else { created(&report)[0].1 };
        assert!(
            wide > 0 && tables - in_subzones >= wide,
            "{policy}: {in_subzones} of {tables}, {:?}",
            created(&report)
        );
    }
    let output = bench_with("splitzns,from-bottom=1", &["--threads=2"]);
    assert!(output.status.success(), "{}", common::text_of(&output));
    assert!(number("subzone_tables") > 0 && number("subzone_bytes") < number("table_bytes"));
    let moving = ["--level_compaction_dynamic_level_bytes=true"];
    let text = common::text_of(&bench_with("splitzns", &moving));
    assert!(text.contains("from-bottom"), "{text}");
    let output = bench_with("splitzns,from-bottom=1", &moving);
    assert!(output.status.success(), "{}", common::text_of(&output));
    let deepest = created(&report).into_iter().filter(|(_, bytes)| *bytes > 0).map(|(level, _)| level).max();
    assert!(deepest > Some(1) && number("subzone_tables") > 0, "levels move, and the last has subzones: {deepest:?}");
}
