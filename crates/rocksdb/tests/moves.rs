//! Tables that RocksDB moves to another level without writing them again, beside what its own log says of them.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{created, is_here, moved, reported, run, with_library};
use zonda_rocksdb::{Reader, System};

/// Small tables, five levels of them.
const SHAPE: [&str; 9] = [
    "--key_size=16",
    "--value_size=100",
    "--write_buffer_size=65536",
    "--target_file_size_base=32768",
    "--max_bytes_for_level_base=131072",
    "--max_bytes_for_level_multiplier=4",
    "--compression_type=none",
    "--num=15000",
    "--seed=11",
];

/// What RocksDB says in its info log of the moves: tables, and their bytes by the level that they came to.
fn moved_by_rocksdb(uri: &str) -> (u64, BTreeMap<u32, u64>) {
    let system = System::open(&format!("{uri}?read_only=on")).unwrap();
    let (mut tables, mut bytes) = (0, BTreeMap::new());
    for (name, info) in system.list("/db").unwrap().into_iter().filter(|(name, _)| name.starts_with("LOG")) {
        let mut text = vec![0; usize::try_from(info.size_bytes).unwrap()];
        let read = system.read(&format!("/db/{name}")).unwrap().read_at(0, &mut text, Reader::User).unwrap();
        for line in String::from_utf8_lossy(&text[..read]).lines().filter(|line| line.contains("\"trivial_move\"")) {
            let of = |name: &str| -> u64 {
                let (_, rest) = line.split_once(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("{name}: {line}"));
                rest.split([',', '}']).next().unwrap().parse().unwrap()
            };
            tables += of("files");
            *bytes.entry(u32::try_from(of("destination_level")).unwrap()).or_default() += of("total_files_size");
        }
    }
    (tables, bytes)
}

/// Tables that were moved, a table each time, and those that came to be.
fn counted(here: &Path, benchmarks: &str) -> (u64, u64) {
    let (uri, report) = (format!("zonda://file:{}/zones", here.display()), here.join("report"));
    let mut command = with_library("db_bench");
    command.args([&format!("--fs_uri={uri}?create=256MiB&zone_size=1MiB"), "--db=/db"]).args(SHAPE);
    run(command.arg(format!("--benchmarks={benchmarks},waitforcompaction")).env("ZONDA_REPORT", &report));
    let of_levels: BTreeMap<u32, u64> = moved(&report).into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    let tables = reported(&report, "tables_moved");
    assert_eq!((tables, of_levels), moved_by_rocksdb(&uri), "{benchmarks}");
    let came = ["right", "wrong", "unknown", "unheard"].map(|how| reported(&report, &format!("levels_{how}")));
    println!("{benchmarks}: {tables} moves, {} tables", came.iter().sum::<u64>());
    (tables, came.iter().sum())
}

#[test]
fn what_is_moved_is_counted_as_rocksdb_counts_it() {
    if !is_here(&["db_bench"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (moves, tables) = counted(directory.path(), "fillrandom,overwrite");
    assert!(moves > 0 && tables > moves, "{moves} moves, {tables} tables");
}

/// Keys in their order: no table overlaps another, and whatever is below level 0 was moved there.
#[test]
fn a_load_in_order_of_keys_writes_each_table_once() {
    if !is_here(&["db_bench"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (moves, tables) = counted(directory.path(), "fillseq");
    assert!(tables > 10 && moves >= tables - 4, "{moves} moves, {tables} tables");
    let below = created(&directory.path().join("report")).into_iter().filter(|(level, _)| *level > 0);
    assert_eq!(below.map(|(_, bytes)| bytes).sum::<u64>(), 0);
}
