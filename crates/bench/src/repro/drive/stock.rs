//! Stock `db_bench` as a child: on the default file system, or on zones with the plugin preloaded.
//!
//! Nothing of RocksDB is linked here. Where `db_bench` or the plugin is missing, experiments say which and how to get it, and have
//! no rows. What `db_bench` prints is parsed: operations per second, percentiles, and the intervals of `--stats_interval`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zonda_rt::now;

use super::made::{PLUGIN, plugin};
use super::printed::{self, Step};
use crate::process;
use crate::{BenchError, Result};

/// Programs that were found.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    db_bench: PathBuf,
    library: PathBuf,
}

/// Where a database is.
#[derive(Clone, Debug)]
pub(super) enum On {
    /// A directory of the host.
    Host(PathBuf),
    /// What stands behind `zonda://`.
    Zones(String),
}

/// What a run of `db_bench` gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ran {
    /// The benchmarks, in order.
    pub(super) steps: Vec<Step>,
    /// Time of the whole process, in seconds.
    pub(super) seconds: f64,
    /// CPU time of the whole process, in seconds.
    pub(super) cpu_seconds: f64,
    /// Operations and seconds of each interval.
    pub(super) intervals: Vec<(f64, f64)>,
    /// What it said when it failed, its last lines.
    pub(super) failed: Option<String>,
    /// Numbers of the file system on zones, as it was unmounted.
    pub(super) report: Option<serde_json::Value>,
}

impl Stock {
    /// What is here; `None`, having said what is missing, where something is.
    pub(super) fn find() -> Option<Self> {
        let db_bench = on_path("db_bench");
        if db_bench.is_none() {
            eprintln!("NOT RUN: no db_bench; `cargo xtask rocksdb-deps` installs it (Debian: rocksdb-tools)");
        }
        let library = plugin();
        if library.is_none() {
            eprintln!("NOT RUN: no {PLUGIN} beside this program; `cargo build --release -p zonda-rocksdb` makes it");
        }
        Some(Self { db_bench: db_bench?, library: library? })
    }

    /// Runs `db_bench` on a new database in a directory of its own for what it leaves.
    ///
    /// # Errors
    /// `Io` if it cannot be started or watched; a run that fails is a result.
    pub(super) fn run(&self, on: &On, arguments: &[String], meanwhile: &mut dyn FnMut()) -> Result<Ran> {
        let io = |doing: &str, source| BenchError::io(format!("{doing} db_bench"), source);
        let left = tempfile::tempdir().map_err(|source| io("make a directory for", source))?;
        let (out, report) = (left.path().join("out"), left.path().join("report"));
        let file = fs::File::create(&out).map_err(|source| io("keep what is said by", source))?;
        let also = file.try_clone().map_err(|source| io("keep what is said by", source))?;
        let mut command = Command::new(&self.db_bench);
        command.args(arguments).stdin(Stdio::null()).stdout(file).stderr(also);
        match on {
            On::Host(directory) => command.arg(format!("--db={}", directory.display())),
            On::Zones(uri) => command
                .args([format!("--fs_uri={uri}"), "--db=/db".to_owned()])
                .env("LD_PRELOAD", &self.library)
                .env("ZONDA_REPORT", &report),
        };
        let start = now();
        let child = process::tied_to_this_thread(&mut command).spawn().map_err(|source| io("start", source))?;
        let ended = process::wait_with_cpu(&child, meanwhile).map_err(|source| io("wait for", source))?;
        let text = fs::read(&out).map_err(|source| io("read what was said by", source))?;
        let text = String::from_utf8_lossy(&text).replace('\r', "\n");
        let mut ran = parse(&text);
        ran.seconds = now().since(start).as_secs_f64();
        ran.cpu_seconds = ended.cpu.as_secs_f64();
        ran.failed = (!ended.success || text.contains("error:")).then(|| last_lines(&text));
        let json = fs::read_to_string(&report).unwrap_or_default();
        ran.report = json.lines().last().and_then(|line| serde_json::from_str(line).ok());
        Ok(ran)
    }
}

/// Where a program is that a shell would find.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// A directory in memory that is gone afterwards: `/dev/shm` where there is one.
///
/// # Errors
/// `Io`.
pub(super) fn in_memory() -> Result<tempfile::TempDir> {
    let io = |source| BenchError::io("make a directory in memory", source);
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }.map_err(io)
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

/// Reads what `db_bench` printed.
fn parse(text: &str) -> Ran {
    Ran { steps: printed::steps(text), intervals: text.lines().filter_map(interval).collect(), ..Ran::default() }
}

/// `... thread 0: (10000,20000) ops and (1.5,1.6) ops/second in (0.1,0.2) seconds`
fn interval(line: &str) -> Option<(f64, f64)> {
    let (_, rest) = line.split_once("thread 0: (")?;
    let operations = rest.split_once(',')?.0.parse().ok()?;
    let (_, rest) = rest.split_once("ops/second in (")?;
    Some((operations, rest.split_once(',')?.0.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_db_bench_prints_is_understood() {
        let text = "\
RocksDB:    version 7.8.3
... finished 100 ops
2026/11/22-10:00:00  ... thread 0: (10000,20000) ops and (50000.0,40000.0) ops/second in (0.200000,0.500000) seconds
overwrite    :       2.371 micros/op 421662 ops/sec 2.372 seconds 1000000 operations;   57.9 MB/s
Microseconds per write:
Count: 1000000 Average: 2.3700  StdDev: 26.98
Percentiles: P50: 1.83 P75: 2.46 P99: 5.83 P99.9: 11.40 P99.99: 21.31
readrandom   :       1.000 micros/op 1000000 ops/sec 1.000 seconds 5000 operations;    0.1 MB/s (5000 of 5000 found)
";
        let ran = parse(text);
        let names: Vec<(&str, f64)> = ran.steps.iter().map(|step| (step.name.as_str(), step.operations)).collect();
        assert_eq!(names, [("overwrite", 1_000_000.0), ("readrandom", 5000.0)]);
        assert_eq!(ran.intervals, [(10_000.0, 0.2)]);
    }
}
