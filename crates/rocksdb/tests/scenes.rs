//! What databases do beyond reading and writing: a C++ program with RocksDB's own interface.
#![cfg(with_rocksdb)]

mod common;

use common::{build, is_here, jobs_in, reported, run, with_library};

const SCENES: [&str; 11] = [
    "names",
    "families",
    "atomic-flushes",
    "ingest",
    "checkpoints",
    "backups",
    "followers",
    "two-phases",
    "two-phases-again",
    "limits",
    "blobs",
];

#[test]
fn every_scene_ends_well() {
    if !is_here(&["c++"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let program = build("scenes", here);
    let uri = format!("zonda://file:{}/zones?create=256MiB&zone_size=1MiB", here.display());
    for scene in SCENES {
        let (report, trace) = (here.join(format!("{scene}.report")), here.join(format!("{scene}.trace")));
        let mut command = with_library(&program);
        command.env("ZONDA_REPORT", &report).env("ZONDA_TRACE", &trace);
        run(command.args([scene, &uri]).arg(here));
        // What ends as if it crashed unmounts nothing.
        let is_unmounted = std::fs::metadata(&report).unwrap().len() > 0;
        assert_eq!(is_unmounted, scene != "two-phases", "{scene}");
        if is_unmounted {
            let levels = ["right", "wrong", "unknown"].map(|how| reported(&report, &format!("levels_{how}")));
            assert!(levels[0] > 0 || scene == "names", "{scene}: no table");
            assert_eq!(levels[1..], [0, 0], "{scene}: every level is known before its table is written");
            // Tables of `ingest` come from elsewhere.
            let unheard = if scene == "ingest" { 4 } else { 0 };
            assert_eq!(reported(&report, "levels_unheard"), unheard, "{scene}");
            let jobs = jobs_in(&trace);
            assert_eq!(jobs.begun, jobs.ended, "{scene}: no job is left behind");
            assert!(scene != "atomic-flushes" || jobs.begun >= 9, "three of three families: {jobs:?}");
        }
    }
}
