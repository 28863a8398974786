//! The programs that run in the guest, built by cargo as for this machine. The emulated processor has no AVX-512: with
//! `-C target-cpu=native` in your own cargo settings they may not run there.

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{process, workspace::Workspace};

/// The programs.
pub(super) struct Programs {
    /// Tests of the device crate on zoned block devices.
    pub(super) device_tests: PathBuf,
    /// The command `zonda`.
    pub(super) zonda: PathBuf,
    /// Lives of a store: `zonda-testkit real`.
    pub(super) testkit: PathBuf,
}

impl Programs {
    /// Builds them.
    ///
    /// # Errors
    /// When cargo fails.
    pub(super) fn build(workspace: &Workspace) -> Result<Self> {
        Ok(Self {
            device_tests: built(workspace, &["test", "--package", "zonda-device", "--test", "zbd", "--no-run"], "zbd")?,
            zonda: built(workspace, &["build", "--package", "zonda-cli", "--bin", "zonda"], "zonda")?,
            testkit: built(workspace, &["build", "--package", "zonda-testkit"], "zonda-testkit")?,
        })
    }
}

/// Runs cargo and returns the program of this name that it has built.
fn built(workspace: &Workspace, arguments: &[&str], name: &str) -> Result<PathBuf> {
    let mut command = process::cargo(workspace, arguments);
    command.arg("--message-format=json-render-diagnostics");
    println!("$ {}", process::shown(&command));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo ended with {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter(|message| message["target"]["name"] == name);
    let program = programs.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.with_context(|| format!("cargo has built no {name}"))
}
