//! The tests that run under cargo's test harness.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{metadata::Metadata, process, seed, tally::Tally, workspace::Workspace};

/// What property tests take their first seed from. Without it they draw one from the system, another in every run.
const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// The same for the order in which shuttle lets threads run.
const SCHEDULE_SEED: &str = "SHUTTLE_RANDOM_SEED";

/// All unit, integration and documentation tests. Goes on after a failing test, so that one run shows them all.
///
/// # Errors
/// When a test fails or does not compile.
pub(crate) fn unit(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let mut command = process::cargo(workspace, ["test", "--workspace", "--no-fail-fast"]);
    process::run_counting(seeded(&mut command, PROPERTY_SEED, workspace), tally)
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
    process::run_counting(seeded(&mut command, SCHEDULE_SEED, workspace), tally)
}

/// The command with the commit's seed in this variable, which is shown.
fn seeded<'a>(command: &'a mut Command, variable: &str, workspace: &Workspace) -> &'a mut Command {
    let seed = seed::of_commit(workspace).to_string();
    println!("{variable}={seed}");
    command.env(variable, seed)
}
