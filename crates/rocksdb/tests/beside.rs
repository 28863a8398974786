//! `ldb` with `read_only=on` beside a `db_bench` that writes: it sees one moment of the database, whole, or says that it is stale.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use common::{build, is_here, run, text_of, with_library};
use zonda_device::{FileDevice, FileOptions, ZonedDevice};
use zonda_files::{FilePath, FileStore, FileStoreOptions};

const KEYS: usize = 3000;
/// Mounts that may be stale one after the other. The writer is slow, so that this does not happen by chance.
const TRIES_MAX: usize = 100;

fn db_bench(here: &Path, benchmarks: &str) -> Command {
    let mut command = with_library("db_bench");
    command.arg(format!("--fs_uri=zonda://file:{}/zones?create=64MiB&zone_size=1MiB", here.display()));
    command.args(["--db=/db", "--key_size=16", "--value_size=100", "--compression_type=none"]);
    command.args(["--write_buffer_size=65536", "--target_file_size_base=32768", "--max_bytes_for_level_base=131072"]);
    command.args([format!("--benchmarks={benchmarks}"), format!("--num={KEYS}")]);
    command
}

/// A process that writes until this is dropped.
struct Writer(Child);

impl Writer {
    fn start(here: &Path) -> Self {
        let mut command = db_bench(here, "overwrite");
        command.args(["--use_existing_db=true", "--writes=1000000000", "--benchmark_write_rate_limit=300000"]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn is_writing(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

/// What `ldb` says of the moment at which it mounts. It is run again where the writer deleted or moved what it read, and where the mount
/// says that names and MANIFEST may be of two moments. Of what was deleted sometimes the mount alone tells: RocksDB 7.8.3 can lose the
/// error, and `ldb` then ends well, without some of the keys.
fn ldb(here: &Path, arguments: &[&str]) -> String {
    let uri = format!("--fs_uri=zonda://file:{}/zones?read_only=on", here.display());
    for _ in 0..TRIES_MAX {
        let output = with_library("ldb").args([&uri, "--db=/db"]).args(arguments).output().unwrap();
        let text = text_of(&output);
        if !text.contains("Stale file handle") && !text.contains("mount again for another moment") {
            assert!(output.status.success(), "{arguments:?}: {text}");
            return text;
        }
    }
    panic!("{arguments:?}: stale {TRIES_MAX} times");
}

/// Keys and values of a whole scan.
fn scan(here: &Path) -> Vec<(String, String)> {
    let text = ldb(here, &["scan", "--hex"]);
    text.lines().filter_map(|line| line.split_once(" : ")).map(|(key, value)| (key.into(), value.into())).collect()
}

#[test]
fn a_reader_beside_a_writer_sees_whole_moments() {
    if !is_here(&["db_bench", "ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(&mut db_bench(here, "fillseq"));
    let filled = scan(here);
    assert_eq!(filled.len(), KEYS);
    let mut writer = Writer::start(here);
    let (mut seen, mut moments) = (filled.clone(), 0);
    while moments < 3 {
        let pairs = scan(here);
        assert!(
            pairs.iter().map(|(key, _)| key).eq(filled.iter().map(|(key, _)| key)),
            "it has the keys it was filled with"
        );
        assert!(pairs.iter().all(|(_, value)| value.len() == filled[0].1.len()), "a value is cut");
        moments += usize::from(pairs != seen);
        seen = pairs;
        let (key, _) = &filled[moments * 700];
        let value = ldb(here, &["get", "--hex", key]);
        assert_eq!(value.trim().len(), filled[0].1.len(), "{value}");
        assert!(ldb(here, &["checkconsistency"]).contains("OK"));
        assert!(writer.is_writing(), "it was disturbed");
    }
}

/// Resets the zones of so many tables, as a writer does who has deleted them.
fn reset_tables(here: &Path, count: usize) {
    let device = Arc::new(FileDevice::open(here.join("zones"), &FileOptions::default()).unwrap());
    let (store, _) = FileStore::mount(device.clone(), FileStoreOptions::default()).unwrap();
    let names = store.list(&FilePath::parse("/db").unwrap()).unwrap();
    let tables = names.into_iter().filter(|path| path.name().ends_with(".sst")).take(count);
    let zones: BTreeSet<_> =
        tables.flat_map(|table| store.extents(&table).unwrap()).map(|extent| extent.zone).collect();
    drop(store);
    zones.into_iter().for_each(|zone| device.reset(zone).unwrap());
}

/// A table whose zone holds something else is told by name, where it is opened and where it is read.
#[test]
fn a_table_that_is_not_there_any_more_is_named() {
    if !is_here(&["db_bench", "ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(&mut db_bench(here, "fillseq"));
    reset_tables(here, 1);
    let uri = format!("--fs_uri=zonda://file:{}/zones?read_only=on", here.display());
    let text = text_of(&with_library("ldb").args([&uri, "--db=/db", "scan"]).output().unwrap());
    assert!(text.contains("Stale file handle: /db/") && text.contains(".sst: stale: zone"), "{text}");
}

/// RocksDB may keep it to itself that an iterator could not read a table: people are told nevertheless, once.
#[test]
fn a_table_that_is_gone_in_the_middle_of_a_scan_is_told() {
    if !is_here(&["db_bench", "c++"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let program = build("stale", here);
    // One level, as an iterator moves from table to table within one.
    run(&mut db_bench(here, "fillseq,compact"));
    let mut command = with_library(program);
    command.arg(format!("zonda://file:{}/zones?read_only=on", here.display()));
    let mut reader = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(reader.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.ends_with(" before\n"), "{line}");
    reset_tables(here, usize::MAX);
    reader.stdin.take().unwrap().write_all(b"\n").unwrap();
    said.read_line(&mut line).unwrap();
    let output = reader.wait_with_output().unwrap();
    let told = text_of(&output);
    assert!(output.status.success() && !line.contains(&format!("{KEYS} keys")), "{line}{told}");
    let stale: Vec<&str> = told.lines().filter(|told| told.contains("Stale file handle: /db/")).collect();
    assert!(matches!(stale[..], [one] if one.ends_with("mount again")), "{line}{told}");
}
