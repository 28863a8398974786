//! Full devices: who is refused for want of space goes on when there is some, with nothing opened again.
#![cfg(with_rocksdb)]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use common::{build, is_here, jobs_in, run, with_library};

/// Runs scenes of `programs/full.cc`, each on a device of its own that holds some 14 MiB.
fn on_small_devices(scenes: &[&str]) {
    if !is_here(&["c++"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let program = build("full", here);
    for &scene in scenes {
        let uri = format!("zonda://file:{}/{scene}?create=16MiB&zone_size=256KiB&write_buffer=64KiB", here.display());
        let trace = here.join(format!("{scene}.trace"));
        run(with_library(&program).env("ZONDA_TRACE", &trace).args([scene, uri.as_str()]).arg(here));
        // RocksDB runs one flush at a time here. One that was refused is over, though no end of it is told.
        let jobs = jobs_in(&trace);
        assert!(jobs.begun == jobs.ended && jobs.flushes_at_once_max == 1, "{scene}: {jobs:?}");
    }
}

#[test]
fn rocksdb_goes_on_when_another_database_is_gone() {
    on_small_devices(&["other", "other-managed"]);
}

/// Where every write is synced, a full device refuses a record rather than a whole log.
#[test]
fn rocksdb_goes_on_where_every_write_is_synced() {
    on_small_devices(&["other-synced", "other-synced-managed", "range-synced", "range-synced-managed"]);
}

#[test]
fn rocksdb_goes_on_where_the_first_record_of_a_log_is_refused() {
    on_small_devices(&["few-records", "few-records-synced", "few-records-synced-managed"]);
}

/// Flushes draw on their reserve for blob files as they do for tables.
#[test]
fn blob_files_do_not_change_what_is_refused() {
    on_small_devices(&["compactions-first-blobs", "other-blobs"]);
}

#[test]
fn rocksdb_goes_on_when_a_checkpoint_is_dropped() {
    on_small_devices(&["checkpoint", "checkpoint-managed"]);
}

#[test]
fn rocksdb_goes_on_when_the_files_of_a_range_are_deleted() {
    on_small_devices(&["range", "range-managed"]);
}

/// And softly: flushes and synced writes pass meanwhile.
#[test]
fn compactions_are_refused_first() {
    on_small_devices(&["compactions-first"]);
}
