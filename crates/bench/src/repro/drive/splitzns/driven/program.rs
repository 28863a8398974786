//! Runs `zonda-db-bench`, and reads what it says.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::live::db_bench::{self, Outcome};
use super::super::live::options;
use super::{Contender, Setting};
use crate::Result;
use crate::repro::drive::made::{DRIVER, DRIVER_VARIABLE, driver};

/// The program.
#[derive(Clone, Debug)]
pub(super) struct Program(PathBuf);

impl Program {
    /// What is here; else what is missing, in words.
    pub(super) fn find() -> std::result::Result<Self, String> {
        let how = "cargo build --release -p zonda-rocksdb";
        let found =
            driver().ok_or_else(|| format!("no {DRIVER} beside this program or in {DRIVER_VARIABLE}: {how}"))?;
        let help =
            Command::new(&found).arg("--help").output().map_err(|error| format!("{}: {error}", found.display()))?;
        if String::from_utf8_lossy(&help.stdout).contains("built without RocksDB") {
            return Err(format!("{} was built without RocksDB", found.display()));
        }
        Ok(Self(found))
    }

    fn command(&self, setting: &Setting, contender: &Contender, (uri, more): (&str, &str), seed: u64) -> Command {
        let mut command = Command::new(&self.0);
        command.env_remove("ZONDA_REPORT").args([format!("--fs_uri={uri}"), "--db=/db".to_owned()]);
        command.args([format!("--policy={}", contender.compaction), format!("--seed={seed}")]);
        command.arg(format!("--options={}{more}", contender.rocksdb_options(setting))).args(setting.words());
        command
    }
}

/// Loads a drive, untimed: every key once, in random order; by the setting as many writes of popular ones; and what is due is compacted.
///
/// # Errors
/// `Io`; `Child` with what the program said.
pub(super) fn load(program: &Program, setting: &Setting, contender: &Contender, path: &Path, seed: u64) -> Result<()> {
    let uri = setting.uri(contender.split, contender.keys, path, false);
    let mut command = program.command(setting, contender, (&uri, &options::of_load()), seed);
    let skewed = if setting.is_load_skewed { ",ycsbl" } else { "" };
    command.arg(format!("--benchmarks=fillrandom{skewed},waitforcompaction"));
    command.arg(format!("--operations={}", setting.operations_of_load()));
    db_bench::output_of(&mut command).map(drop)
}

/// Runs steps on a clone of a loaded drive.
///
/// # Errors
/// As [`load`].
pub(super) fn run(
    program: &Program,
    setting: &Setting,
    contender: &Contender,
    (image, steps): (&Path, &str),
    seed: u64,
) -> Result<Outcome> {
    let path = image.with_extension("run");
    db_bench::clone(image, &path)?;
    fresh(program, setting, contender, (&path, steps), seed)
}

/// Runs steps on a drive, which is made if it is missing and is gone afterwards.
///
/// # Errors
/// As [`load`].
pub(super) fn fresh(
    program: &Program,
    setting: &Setting,
    contender: &Contender,
    (path, steps): (&Path, &str),
    seed: u64,
) -> Result<Outcome> {
    let mut command = of_run(program, setting, contender, (path, steps), seed);
    db_bench::measured_on(path, &mut command, &path.with_extension("report"))
}

fn of_run(
    program: &Program,
    setting: &Setting,
    contender: &Contender,
    (path, steps): (&Path, &str),
    seed: u64,
) -> Command {
    let uri = setting.uri(contender.split, contender.keys, path, true);
    let mut command = program.command(setting, contender, (&uri, ""), seed);
    command.arg(format!("--benchmarks={steps}")).arg(format!("--operations={}", setting.operations));
    command
}

/// The words of a run, as one text.
#[cfg(test)]
pub(super) fn told(setting: &Setting, contender: &Contender) -> String {
    let program = Program(PathBuf::from(DRIVER));
    let command = of_run(&program, setting, contender, (Path::new("drive"), &setting.steps("readrandom:READS")), 1);
    command.get_args().map(|word| format!("{}\n", word.to_string_lossy())).collect()
}
