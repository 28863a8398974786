//! Formatting, lints and documentation: the workspace and the fuzz crate outside it.

use anyhow::Result;

use crate::{links, process, process::in_fuzz, tally::Tally, workspace::Workspace};

/// `cargo fmt --check`.
///
/// # Errors
/// When a file is not formatted.
pub(crate) fn fmt(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    process::run(&mut process::cargo(workspace, ["fmt", "--all", "--check"]))?;
    process::run(&mut in_fuzz(workspace, "fmt", &["--check"]))
}

/// `cargo clippy` on all targets, warnings denied.
///
/// # Errors
/// When clippy has anything to say.
pub(crate) fn clippy(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    process::run(&mut process::cargo(workspace, ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    process::run(&mut in_fuzz(workspace, "clippy", &["--all-targets", "--", "-D", "warnings"]))
}

/// The links of the documents, then `cargo doc`, warnings denied. Libraries only: the library and the command are both called `zonda`, and their pages
/// would overwrite each other.
///
/// # Errors
/// When a link is broken or an example block is malformed.
pub(crate) fn doc(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    links::check(workspace)?;
    let mut command = process::cargo(workspace, ["doc", "--workspace", "--lib", "--no-deps"]);
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}
