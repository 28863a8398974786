//! `kill -9` in the middle of writes: what was synced is there, with `wal_flush=on` what was acknowledged too, and what is there is
//! a prefix.
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

/// Writes and kills a few times, with more keys of the device's name, or a drive that splits zones; after each kill what is there is a
/// prefix of the batches, with all that the program said.
fn nothing_that_was_said_is_lost(how: &str, keys: &str) {
    if !is_here(&["c++"]) {
        return;
    }
    let kills = std::env::var("ZONDA_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let program = build("writer", directory.path());
    let zones = directory.path().join("zones");
    let uri = match keys.strip_prefix("split=") {
        // Subzones of 128 KiB, in files.
        Some(split) => format!(
            "zonda://flash:splitzns?scale=1/256&zones=40&time=untimed&data={}&create=on&write_buffer=64KiB&split={split}",
            zones.display()
        ),
        // Small enough that logs are cut and zones cleaned between two kills.
        None => format!("zonda://file:{}?create=24MiB&zone_size=256KiB&write_buffer=64KiB{keys}", zones.display()),
    };
    let (mut rng, mut last) = (zonda_rt::Seed(7).rng(), 0);
    for kill in 0..kills {
        let said = write_and_kill(&program, how, &uri, &mut rng).max(last);
        let text = run(with_library(&program).args(["verify", &uri, "0"]));
        last = text.trim().parse().unwrap_or_else(|_| panic!("kill {kill} of seed 7: {text}"));
        assert!(last >= said, "kill {kill} of seed 7: batch {said} was there, {last} is the last");
    }
    assert!(last > 0);
}

#[test]
fn a_killed_process_leaves_a_prefix_with_all_that_was_synced() {
    nothing_that_was_said_is_lost("write", "");
}

#[test]
fn with_flushed_logs_a_killed_process_leaves_all_that_was_acknowledged() {
    nothing_that_was_said_is_lost("write-unsynced", "&wal_flush=on");
}

#[test]
fn on_split_zones_a_killed_process_leaves_a_prefix_with_all_that_was_synced() {
    for split in ["all&policy=splitzns,from=1", "redo-log&policy=splitzns,from=1"] {
        nothing_that_was_said_is_lost("write", &format!("split={split}"));
    }
}

/// Lets the program write and kills it after a number of lines; returns the number of the last batch that it spoke of.
fn write_and_kill(program: &Path, how: &str, uri: &str, rng: &mut Rng) -> u64 {
    let mut command = with_library(program);
    command.args([how, uri, &rng.below(1 << 20).to_string()]).stdout(Stdio::piped());
    let mut writer = command.spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let wanted = usize::try_from(rng.below(300)).unwrap();
    let mut said = 0;
    for line in lines.by_ref().take(wanted + 1) {
        let line = line.unwrap();
        said = line.parse().unwrap_or_else(|_| panic!("{line}"));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    // What it had said before it died.
    let rest = lines.map_while(Result::ok).filter_map(|line| line.parse().ok());
    rest.last().unwrap_or(said)
}
