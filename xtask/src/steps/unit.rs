//! The tests that run under cargo's test harness.

use anyhow::{Result, bail};

use crate::{metadata::Metadata, process, tally::Tally, workspace::Workspace};

/// All unit, integration and documentation tests. Goes on after a failing test, so that one run shows them all.
///
/// # Errors
/// When a test fails or does not compile.
pub(crate) fn unit(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    process::run_counting(&mut process::cargo(workspace, ["test", "--workspace", "--no-fail-fast"]), tally)
}

/// The tests of every crate that declares a `shuttle` feature, with it on: each crate apart, because the feature
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
    for package in crates {
        let arguments = ["test", "--package", &package.name, "--features", "shuttle", "--no-fail-fast"];
        process::run_counting(&mut process::cargo(workspace, arguments), tally)?;
    }
    Ok(())
}
