//! What databases do beyond reading and writing: a C++ program with RocksDB's own interface.
#![cfg(with_rocksdb)]

mod common;

use common::{build, is_here, run, with_library};

const SCENES: [&str; 10] = [
    "names",
    "families",
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
        run(with_library(&program).args([scene, &uri]).arg(here));
    }
}
