//! The tests that run under cargo's test harness.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    clock::Stopwatch,
    lanes, machine,
    metadata::Metadata,
    process,
    programs::{self, TestProgram},
    seed,
    tally::Tally,
    workspace::Workspace,
};

/// What property tests take their first seed from. Without it they draw one from the system, another in every run.
const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// The same for the order in which shuttle lets threads run.
const SCHEDULE_SEED: &str = "SHUTTLE_RANDOM_SEED";

/// All unit, integration and documentation tests. Programs of tests run as many at a time as there are processors: most of them
/// end with one long test. Goes on after a failing test, so that one run shows them all.
///
/// # Errors
/// When a test fails or does not compile.
pub(crate) fn unit(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let seed = shown_seed(PROPERTY_SEED, workspace);
    let programs = programs::tests(workspace)?;
    let ended = lanes::map(lanes::processors(), &programs, |program| run_tests(workspace, program, &seed));
    let mut failed = Vec::new();
    for (program, ended) in programs.iter().zip(ended) {
        let (counted, passed) = ended?;
        tally.add(counted);
        if !passed {
            failed.push(format!("cargo test {}", named(workspace, program)));
        }
    }
    let mut documentation = process::cargo(workspace, ["test", "--workspace", "--doc", "--no-fail-fast"]);
    let documented = process::run_counting(&mut documentation, tally);
    if !failed.is_empty() {
        bail!("{} of {} programs of tests failed:\n{}", failed.len(), programs.len(), failed.join("\n"));
    }
    documented
}

/// Runs one program where cargo would, and shows what it said when it has ended. What it counted, and whether it ended well.
fn run_tests(workspace: &Workspace, program: &TestProgram, seed: &str) -> Result<(Tally, bool)> {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.directory).env("CARGO_MANIFEST_DIR", &program.directory).env(PROPERTY_SEED, seed);
    let watch = Stopwatch::start();
    let (status, said) = process::told(command)?;
    let text = String::from_utf8_lossy(&said);
    println!("{}: {:.1} s, {status}\n{text}", named(workspace, program), watch.elapsed().as_secs_f64());
    let mut tally = Tally::default();
    text.lines().for_each(|line| tally.count_line(line));
    // A program that was ended from without has counted nothing.
    tally.failed = tally.failed.max(u64::from(!status.success()));
    Ok((tally, status.success()))
}

/// How cargo is told to run it alone.
fn named(workspace: &Workspace, program: &TestProgram) -> String {
    let directory = program.directory.strip_prefix(&workspace.root).unwrap_or(&program.directory);
    format!("--manifest-path {}/Cargo.toml {}", directory.display(), program.selection)
}

/// The tests of every crate that declares a `shuttle` feature, with it on: apart from all other tests, because the feature
/// replaces the locks of everything it is built with.
///
/// # Errors
/// When a test fails, or no crate declares the feature any more.
pub(crate) fn shuttle(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let metadata = Metadata::read(workspace)?;
    let crates: Vec<_> = metadata.packages.iter().filter(|package| package.features.contains_key("shuttle")).collect();
    if crates.is_empty() {
        bail!("no crate has a `shuttle` feature");
    }
    let mut command = process::cargo(workspace, ["test", "--no-fail-fast"]);
    for package in crates {
        command.args(["--package", &package.name, "--features", &format!("{}/shuttle", package.name)]);
    }
    process::run_counting(command.env(SCHEDULE_SEED, shown_seed(SCHEDULE_SEED, workspace)), tally)
}

/// The test of the example for the crate `rocksdb`, apart from all others: they need no registry once all is fetched, and this one
/// fetches and builds that crate each time.
///
/// # Errors
/// When what it is built with cannot be installed, when it does not build, or when the test fails.
pub(crate) fn rust_crate(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    machine::for_rust_crate()?;
    let test = ["test", "--package", "zonda-rocksdb", "--test", "rust_crate", "--", "--ignored"];
    process::run_counting(&mut process::cargo(workspace, test), tally)
}

/// The commit's seed for this variable, which is shown.
fn shown_seed(variable: &str, workspace: &Workspace) -> String {
    let seed = seed::of_commit(workspace).to_string();
    println!("{variable}={seed}");
    seed
}
