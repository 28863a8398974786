//! `kill -9` in the middle of writes: what was synced is there, and what is there is a prefix.
//!
//! `ZONDA_KILLS=50 cargo test -p zonda-rocksdb --test kill` kills more often than the few times of an ordinary run.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use common::{build, is_here, run, with_library};
use zonda_rt::Rng;

/// Kills of an ordinary run.
const KILLS: u64 = 3;

#[test]
fn a_killed_process_leaves_a_prefix_with_all_that_was_synced() {
    if !is_here(&["c++"]) {
        return;
    }
    let kills = std::env::var("ZONDA_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let program = build("writer", directory.path());
    // Small enough that logs are cut and zones cleaned between two kills.
    let size = "create=24MiB&zone_size=256KiB&write_buffer=64KiB";
    let uri = format!("zonda://file:{}/zones?{size}", directory.path().display());
    let (mut rng, mut last) = (zonda_rt::Seed(7).rng(), 0);
    for kill in 0..kills {
        let acknowledged = write_and_kill(&program, &uri, &mut rng).max(last);
        let text = run(with_library(&program).args(["verify", &uri, "0"]));
        last = text.trim().parse().unwrap_or_else(|_| panic!("kill {kill} of seed 7: {text}"));
        assert!(last >= acknowledged, "kill {kill} of seed 7: batch {acknowledged} was synced, {last} is the last");
    }
    assert!(last > 0);
}

/// Lets the program write and kills it after a number of synced batches; returns the last of these.
fn write_and_kill(program: &Path, uri: &str, rng: &mut Rng) -> u64 {
    let mut command = with_library(program);
    command.args(["write", uri, &rng.below(1 << 20).to_string()]).stdout(Stdio::piped());
    let mut writer = command.spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let wanted = usize::try_from(rng.below(300)).unwrap();
    let mut synced = 0;
    for line in lines.by_ref().take(wanted + 1) {
        let line = line.unwrap();
        synced = line.parse().unwrap_or_else(|_| panic!("{line}"));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    // What it had said before it died.
    let rest = lines.map_while(Result::ok).filter_map(|line| line.parse().ok());
    rest.last().unwrap_or(synced)
}
