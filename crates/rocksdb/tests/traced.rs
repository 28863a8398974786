//! What a program that knows nothing of traces leaves in one.
#![cfg(with_rocksdb)]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::path::Path;

use common::{allocated, is_here, reported, run, text_of, with_library};
use zonda_files::trace::TraceEvent;
use zonda_files::{policy, replay, trace};

/// Lines of the trace of one `ldb get`, by their word; `None` if it was refused.
fn traced(here: &Path, name: &str, reads: Option<&str>) -> Option<Vec<String>> {
    let trace = here.join(name);
    let uri = format!("--fs_uri=zonda://file:{}/zones?create=64MiB", here.display());
    let mut command = with_library("ldb");
    command.env("ZONDA_TRACE", &trace).args([&uri, "--db=/db", "--create_if_missing", "put", "key", "value"]);
    if let Some(reads) = reads {
        command.env("ZONDA_TRACE_READS", reads);
    }
    let output = command.output().unwrap();
    if !output.status.success() {
        let refusal = format!("ZONDA_TRACE_READS={}: it is on or off", reads.unwrap());
        assert!(text_of(&output).contains(&refusal), "{}", text_of(&output));
        return None;
    }
    let text = std::fs::read_to_string(&trace).unwrap();
    Some(text.lines().skip(1).map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect())
}

#[test]
fn reads_are_in_a_trace_if_they_are_asked_for() {
    if !is_here(&["ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let count = |words: &[String], word: &str| words.iter().filter(|one| *one == word).count();
    for (name, reads, has_reads) in [("plain", None, false), ("off", Some("off"), false), ("on", Some("on"), true)] {
        let words = traced(here, name, reads).unwrap();
        assert!(count(&words, "append") > 0, "{words:?}");
        assert_eq!(count(&words, "read") > 0, has_reads, "{name}: {words:?}");
    }
    assert_eq!(traced(here, "what", Some("perhaps")), None);
}

#[test]
fn a_refused_mount_leaves_the_trace_to_the_next() {
    if !is_here(&["ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for uri in ["file:nowhere/zones", "file:zones?create=64MiB&reserve_zones=0", "mem:?fs=xfs-like&create=1MiB"] {
        let mut command = with_library("ldb");
        command.current_dir(here).env("ZONDA_TRACE", here.join("trace"));
        let output = command.args([&format!("--fs_uri=zonda://{uri}"), "--db=/db", "get", "key"]).output().unwrap();
        assert!(!output.status.success(), "{uri}");
        assert_eq!(std::fs::read_dir(here).unwrap().count(), 0, "{uri}: {}", text_of(&output));
    }
    assert!(traced(here, "trace", None).unwrap().iter().any(|word| word == "append"));
    assert!(!here.join("trace.1").exists());
}

/// On a device so large that nothing is cleaned both place the same bytes by the same rules.
#[test]
fn a_replay_counts_what_the_plugin_counted() {
    if !is_here(&["db_bench"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let (recorded, report) = (here.join("trace"), here.join("report"));
    let uri = format!("--fs_uri=zonda://file:{}/zones?create=256MiB&zone_size=1MiB&policy=liza-zns", here.display());
    let mut command = with_library("db_bench");
    command.env("ZONDA_TRACE", &recorded).env("ZONDA_REPORT", &report);
    command.args([&uri, "--db=/db", "--benchmarks=fillrandom,overwrite,waitforcompaction", "--num=30000", "--seed=11"]);
    command.args(["--key_size=16", "--value_size=100", "--compression_type=none", "--write_buffer_size=262144"]);
    run(command.args(["--target_file_size_base=131072", "--max_bytes_for_level_base=524288"]));

    let records = trace::read(std::io::BufReader::new(std::fs::File::open(&recorded).unwrap())).unwrap();
    let options = replay::ReplayOptions {
        zone_bytes: 1 << 20,
        zones: 256,
        active_max: Some(14),
        threshold_percent: 0,
        ..replay::ReplayOptions::of_the_paper(policy::by_name("liza-zns").unwrap())
    };
    let replayed = replay::replay(&records, &options).unwrap();
    let plugin = |name| reported(&report, name);
    assert_eq!((replayed.copied_bytes, plugin("copied_bytes")), (0, 0));
    let is_table =
        |event: &TraceEvent| matches!(event, TraceEvent::Create { path, .. } if path.as_str().ends_with(".sst"));
    let has_level = |event: &TraceEvent| matches!(event, TraceEvent::Create { tags, .. } if tags.level.is_some());
    let tables: Vec<&TraceEvent> = records.iter().map(|record| &record.event).filter(|event| is_table(event)).collect();
    assert!(tables.iter().all(|event| has_level(event)), "each has a level");
    assert_eq!(tables.len() as u64, plugin("levels_right"), "and none is left out");
    let others = ["levels_wrong", "levels_unknown", "levels_unheard"].map(plugin);
    assert_eq!(others, [0, 0, 0]);
    // The plugin counts what pads its blocks.
    let (bytes, written) = (replayed.table_bytes + replayed.log_bytes, plugin("written_bytes"));
    // Whatever is compacted: all is logged, and flushed but for the last memtables; a key that one memtable has twice is in its table once.
    let put_bytes = 2 * 30_000 * 116;
    let (logged, tables_bytes) = (replayed.log_bytes, replayed.table_bytes);
    assert!(logged > put_bytes && tables_bytes > put_bytes / 10 * 8, "{logged} logged, {tables_bytes} in tables");
    assert!(bytes <= written && written < bytes + bytes / 20, "{bytes} of {written}");
    // Where zones end depends on what is written at once.
    let near = |one: u64, other: u64| one.abs_diff(other) <= 4 + other / 10;
    let by_plugin = allocated(&report, "lifetime");
    assert_eq!(by_plugin.len(), replayed.allocations.len(), "{by_plugin:?}");
    for ((rule, level), count) in &replayed.allocations {
        let level = level.map_or("null".to_owned(), |level| level.to_string());
        let (_, ours) = by_plugin.iter().find(|(one, _)| *one == level).unwrap();
        assert!(*rule == policy::Rule::Lifetime && near(*count, *ours), "level {level}: {count} and {ours}");
    }
}
