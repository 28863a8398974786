//! Formatting, lints and documentation.

use anyhow::Result;

use crate::{links, process, tally::Tally, workspace::Workspace};

/// `cargo fmt --check`.
///
/// # Errors
/// When a file is not formatted.
pub(crate) fn fmt(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    process::run(&mut process::cargo(workspace, ["fmt", "--all", "--check"]))
}

/// `cargo clippy` on all targets, warnings denied.
///
/// # Errors
/// When clippy has anything to say.
pub(crate) fn clippy(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    process::run(&mut process::cargo(workspace, ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// The links of the documents, then `cargo doc`, warnings denied. Libraries only: the library and the command are both called `zonda`, and
/// their pages would overwrite each other.
///
/// # Errors
/// When a link is broken or an example block is malformed.
pub(crate) fn doc(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    links::check(workspace)?;
    let mut command = process::cargo(workspace, ["doc", "--workspace", "--lib", "--no-deps"]);
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}
