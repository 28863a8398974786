//! What the tests share: the library, the stock tools, and programs of our own.
#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Whether a test that needs RocksDB's tools can run here; says so where it cannot. `cargo xtask rocksdb-deps` installs them.
pub(crate) fn is_here(tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().filter(|tool| which(tool).is_none()).collect();
    if !missing.is_empty() {
        eprintln!("NOT RUN: {missing:?} not found; `cargo xtask rocksdb-deps` installs them");
    }
    missing.is_empty()
}

fn which(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(tool)).find(|file| file.is_file())
}

/// The library that this build made.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().unwrap();
    let library = directory.join("libzonda_rocksdb.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// A program that finds `zonda://`.
pub(crate) fn with_library(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("LD_PRELOAD", library());
    command
}

/// Runs it to its end; its output, if it succeeded.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = text_of(&output);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

pub(crate) fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Builds a program of `tests/programs`, linked with librocksdb.
pub(crate) fn build(name: &str, into: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.cc"));
    let program = into.join(name);
    run(Command::new("c++").args(["-std=c++17", "-O0", "-o"]).arg(&program).arg(source).arg("-lrocksdb"));
    program
}

/// A number of the report that a mount left in `file`, from its last line.
pub(crate) fn reported(file: &Path, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().last().unwrap();
    let (_, rest) = line.split_once(&format!("\"{name}\": ")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

/// Jobs in a trace.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) begun: usize,
    pub(crate) ended: usize,
    /// The most flushes that ran at once.
    pub(crate) flushes_at_once_max: usize,
}

pub(crate) fn jobs_in(trace: &Path) -> Jobs {
    let text = std::fs::read_to_string(trace).unwrap();
    let (mut jobs, mut flushes) = (Jobs::default(), std::collections::BTreeSet::new());
    for line in text.lines() {
        match line.split(' ').skip(1).collect::<Vec<_>>()[..] {
            ["job-begin", job, _, kind, ..] => {
                jobs.begun += 1;
                if kind == "flush" {
                    flushes.insert(job.to_owned());
                }
            }
            ["job-end", job] => {
                jobs.ended += 1;
                flushes.remove(job);
            }
            _ => {}
        }
        jobs.flushes_at_once_max = jobs.flushes_at_once_max.max(flushes.len());
    }
    jobs
}

/// How often zones were chosen by a rule, by level, as the report's last line says.
pub(crate) fn allocated(report: &Path, rule: &str) -> Vec<(String, u64)> {
    let text = std::fs::read_to_string(report).unwrap();
    let begin = format!("{{\"rule\": \"{rule}\", \"level\": ");
    let ours = text.lines().last().unwrap().split(&begin).skip(1);
    ours.map(|one| {
        let (level, rest) = one.split_once(", \"count\": ").unwrap();
        (level.to_owned(), rest.split('}').next().unwrap().parse().unwrap())
    })
    .collect()
}

/// Bytes of tables that were written into each level, as the report's last line says.
pub(crate) fn created(report: &Path) -> Vec<(u32, u64)> {
    of_levels(report, "created_bytes")
}

/// Bytes of tables that were moved into each level without being written again.
pub(crate) fn moved(report: &Path) -> Vec<(u32, u64)> {
    of_levels(report, "moved_bytes")
}

fn of_levels(report: &Path, name: &str) -> Vec<(u32, u64)> {
    let text = std::fs::read_to_string(report).unwrap();
    let ours = text.lines().last().unwrap().split("{\"level\": ").skip(1);
    ours.map(|one| {
        let (level, _) = one.split_once(',').unwrap();
        let (_, bytes) = one.split_once(&format!("\"{name}\": ")).unwrap();
        (level.parse().unwrap(), bytes.split([',', '}']).next().unwrap().parse().unwrap())
    })
    .collect()
}
