//! Runs stock `db_bench` with the plugin preloaded, and reads what it says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use zonda_files::{FileKind, FilePath, FileStore, FileStoreOptions, FileTags, StoreId};
use zonda_rt::now;

use super::{Live, System, THREADS};
use crate::process::{children_cpu_time, machine_ticks_not_nice, tied_to_this_thread};
use crate::repro::drive::made::{PLUGIN, PLUGIN_VARIABLE, plugin};
use crate::repro::drive::printed::{self, Step};
use crate::repro::drive::stock::on_path;
use crate::{BenchError, Result};

/// The options' name in the file system.
const OPTIONS: &str = "/options";
/// The same for loading, which nothing holds up.
const OPTIONS_OF_LOAD: &str = "/options-load";
/// A name that only a plugin with its C++ half has.
const MARK: &[u8] = b"zonda_rocksdb_env_from_uri";

/// The programs that a live run needs.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    library: PathBuf,
}

/// Bytes of the tables of a level.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct OfLevel {
    pub(in super::super) level: u64,
    /// Written there.
    pub(in super::super) created: f64,
    /// Moved there without being written.
    pub(in super::super) moved: f64,
    /// Copied by cleaning.
    pub(in super::super) copied: f64,
}

/// What a run gave, in the host's time.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Outcome {
    pub(in super::super) steps: Vec<Step>,
    /// The numbers of the file system's report.
    pub(in super::super) report: BTreeMap<String, f64>,
    /// By level.
    pub(in super::super) levels: Vec<OfLevel>,
    /// CPU time of the process over the processors' time.
    pub(in super::super) cpu_percent: f64,
    /// All programs' CPU time over the processors' time, without the user time of those that give way.
    pub(in super::super) machine_percent: f64,
}

impl Tools {
    /// What is here; else what is missing, in words.
    pub(super) fn find() -> std::result::Result<Self, String> {
        if on_path("db_bench").is_none() {
            return Err("db_bench is not here: apt-get install rocksdb-tools".to_owned());
        }
        let library = plugin().ok_or_else(|| {
            format!("no {PLUGIN} beside this program or in {PLUGIN_VARIABLE}: cargo build --release -p zonda-rocksdb")
        })?;
        let code = fs::read(&library).map_err(|error| format!("{}: {error}", library.display()))?;
        if !code.windows(MARK.len()).any(|bytes| bytes == MARK) {
            return Err(format!("{} was built without RocksDB", library.display()));
        }
        Ok(Self { library })
    }

    fn db_bench(&self) -> Command {
        let mut command = Command::new("db_bench");
        command.env("LD_PRELOAD", &self.library).env_remove("ZONDA_REPORT");
        command
    }
}

/// Whether all is here.
#[cfg(test)]
pub(in super::super) fn has_tools() -> bool {
    Tools::find().is_ok()
}

/// Loads a drive, untimed: every key once, in random order, and what is due is compacted.
///
/// # Errors
/// `Io`; `Child` with what `db_bench` said.
pub(super) fn load(tools: &Tools, live: &Live, system: &System, path: &Path, seed: u64) -> Result<()> {
    make(live, system, path)?;
    let mut command = tools.db_bench();
    arguments(&mut command, live, (&live.uri(system, path, false), OPTIONS_OF_LOAD), seed);
    let wait = if live.divisor < 256 { ",waitforcompaction" } else { "" };
    command.arg(format!("--benchmarks=filluniquerandom{wait}")).arg("--threads=1");
    output_of(&mut command).map(drop)
}

/// Runs a workload on a clone of a loaded drive.
///
/// # Errors
/// As [`load`].
pub(super) fn run(
    tools: &Tools,
    live: &Live,
    system: &System,
    (image, words): (&Path, &[&str]),
    seed: u64,
) -> Result<Outcome> {
    let path = image.with_extension("run");
    clone(image, &path)?;
    let report = image.with_extension("report");
    let mut command = tools.db_bench();
    of_run(&mut command, live, (system, &path, words), seed);
    measured_on(&path, &mut command, &report)
}

/// As [`measured`], on a drive in a file that is gone afterwards, whatever came of it.
///
/// # Errors
/// As [`load`].
pub(in super::super) fn measured_on(drive: &Path, command: &mut Command, report: &Path) -> Result<Outcome> {
    let outcome = measured(command, report);
    let removed = fs::remove_file(drive);
    let outcome = outcome?;
    removed.map_err(|source| BenchError::io(format!("remove {}", drive.display()), source))?;
    Ok(outcome)
}

/// Runs a program that prints as `db_bench` does, with the report of its file system in a file that is gone afterwards.
///
/// # Errors
/// As [`load`].
fn measured(command: &mut Command, report: &Path) -> Result<Outcome> {
    command.env("ZONDA_REPORT", report);
    // Lines are added to it: one that a run left that failed would be taken for this one's.
    drop(fs::remove_file(report));
    let (start, cpu, (busy, ticks)) = (now(), children_cpu_time(), machine_ticks_not_nice());
    let text = output_of(command)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let seconds = now().since(start).as_secs_f64().max(f64::MIN_POSITIVE);
    let cpu_seconds = children_cpu_time().saturating_sub(cpu).as_secs_f64();
    let mut outcome = Outcome { steps: printed::steps(&text), ..Outcome::default() };
    outcome.cpu_percent = 100.0 * cpu_seconds / seconds / cores;
    let (busy_now, ticks_now) = machine_ticks_not_nice();
    outcome.machine_percent = 100.0 * busy_now.saturating_sub(busy) as f64 / (ticks_now - ticks).max(1) as f64;
    let line = fs::read_to_string(report).map_err(|source| BenchError::io("read the report", source))?;
    let fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(line.lines().last().unwrap_or_default())
        .map_err(|error| BenchError::io("read the report", error.into()))?;
    outcome.levels = fields.get("levels").map(levels).unwrap_or_default();
    outcome.report = fields.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect();
    fs::remove_file(report).map_err(|source| BenchError::io(format!("remove {}", report.display()), source))?;
    Ok(outcome)
}

/// The words of a run.
fn of_run(command: &mut Command, live: &Live, (system, path, words): (&System, &Path, &[&str]), seed: u64) {
    arguments(command, live, (&live.uri(system, path, live.is_timed()), OPTIONS), seed);
    command.args(words);
    command.args(["--use_existing_db=true", "--histogram=true"]);
    command.arg(format!("--threads={THREADS}")).arg(format!("--reads={}", live.reads()));
    command.arg(format!("--writes={}", live.operations));
}

/// The words and the file of options of a run, as one text.
#[cfg(test)]
pub(in super::super) fn told(live: &Live, system: &System) -> String {
    let mut command = Command::new("db_bench");
    of_run(&mut command, live, (system, Path::new("drive"), &[]), 1);
    let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    format!("{}\n{}", words.join("\n"), live.options.file())
}

/// What the file system's report says of levels.
fn levels(report: &serde_json::Value) -> Vec<OfLevel> {
    let of = |of: &serde_json::Value| {
        let bytes = |name: &str| of[name].as_f64();
        let (created, moved, copied) = (bytes("created_bytes")?, bytes("moved_bytes")?, bytes("copied_bytes")?);
        Some(OfLevel { level: of["level"].as_u64()?, created, moved, copied })
    };
    report.as_array().into_iter().flatten().filter_map(of).collect()
}

/// What all runs of a system have in common.
fn arguments(command: &mut Command, live: &Live, (uri, options): (&str, &str), seed: u64) {
    command.arg(format!("--fs_uri={uri}")).arg("--db=/db").arg(format!("--options_file={options}"));
    command.arg(format!("--num={}", live.keys)).arg(format!("--seed={seed}"));
    command.arg(format!("--cache_size={}", live.options.cache_bytes()));
    command.args(["--key_size=16", "--value_size=1024", "--compression_type=none", "--disable_wal=false"]);
}

/// Makes the drive, with a file system in which there are the options: `db_bench` reads them where its database is.
fn make(live: &Live, system: &System, path: &Path) -> Result<()> {
    let uri = live.uri(system, path, false);
    let name = uri.trim_start_matches("zonda://flash:");
    let device = zonda_flash::drive::open_zoned(name.split("&policy=").next().unwrap_or(name))?;
    let store = FileStore::format(device, StoreId(1), false, FileStoreOptions::default())?;
    for (name, options) in [(OPTIONS, live.options), (OPTIONS_OF_LOAD, live.options.for_loading())] {
        let mut file = store.create(&FilePath::parse(name)?, FileTags::of(FileKind::Meta))?;
        file.append(options.file().as_bytes())?;
        file.sync()?;
    }
    Ok(())
}

/// A sparse copy.
pub(in super::super) fn clone(from: &Path, to: &Path) -> Result<()> {
    let mut copy = Command::new("cp");
    copy.args(["--sparse=always", "--reflink=auto"]).arg(from).arg(to);
    output_of(&mut copy).map(drop)
}

/// Runs a program; what it printed, if all went well.
pub(in super::super) fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        tied_to_this_thread(command).output().map_err(|source| BenchError::io(format!("run {name}"), source))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() && !said.contains("error") {
        return Ok(text);
    }
    Err(BenchError::Child(format!("{name}: {}: {}", output.status, last_words(&text, &said))))
}

/// The last lines that a program printed, errors last, without what threads repeat and how far they came.
fn last_words(printed: &str, said: &str) -> String {
    let lines = printed.lines().chain(said.lines()).filter_map(|line| {
        let pieces = line.split('\r').map(str::trim);
        pieces.rev().find(|piece| !piece.is_empty() && !piece.starts_with("... finished"))
    });
    let mut lines: Vec<&str> = lines.collect();
    lines.dedup();
    lines[lines.len().saturating_sub(6)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::last_words;

    #[test]
    fn errors_are_told_and_not_how_far_threads_came() {
        let printed = "CPUCache: 1024 KB\n";
        let said = "... finished 100 ops   \r... finished 200 ops   \rput error: no space\nput error: no space\n\
                    ... finished 300 ops   \rpthread unlock: Invalid argument\n";
        let words = last_words(printed, said);
        assert_eq!(words, "CPUCache: 1024 KB | put error: no space | pthread unlock: Invalid argument");
        let many: String = (0..20).map(|line| format!("{line}\n")).collect();
        assert_eq!(last_words(&many, ""), "14 | 15 | 16 | 17 | 18 | 19");
    }
}
