//! Programs of the workspace that steps run, built by cargo in a way that builds nothing twice.
//!
//! Cargo joins the features that a third-party crate is built with over the packages that it is asked for, those of development
//! dependencies if a test is among them. Asked for one package alone it would build again half of what the unit tests were built
//! from, with other features; so it is always asked for the whole workspace with a test, and told which programs are wanted.

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{process, workspace::Workspace};

/// The command `zonda`.
pub(crate) const ZONDA: &str = "zonda";
/// Simulated and real lives of a store.
pub(crate) const TESTKIT: &str = "zonda-testkit";
/// The smoke run of the fuzz targets.
pub(crate) const SMOKE: &str = "smoke";
/// Tests of the device crate on zoned block devices: a small test, built with whatever is wanted.
pub(crate) const DEVICE_TESTS: &str = "zbd";

/// Builds the programs of these names and says where they are.
///
/// # Errors
/// When cargo fails.
pub(crate) fn build<const N: usize>(workspace: &Workspace, names: [&str; N]) -> Result<[PathBuf; N]> {
    let mut command = process::cargo(workspace, ["build", "--quiet", "--workspace", "--test", DEVICE_TESTS]);
    for name in names.iter().filter(|name| **name != DEVICE_TESTS) {
        command.args(["--bin", name]);
    }
    println!("$ {}", process::shown(&command));
    command.arg("--message-format=json-render-diagnostics");
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo ended with {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut found = Vec::new();
    for name in names {
        found.push(executable(&messages, name).with_context(|| format!("cargo has built no {name}"))?);
    }
    Ok(found.try_into().expect("one for each name"))
}

fn executable(messages: &[Value], name: &str) -> Option<PathBuf> {
    let mut of_that_name = messages.iter().filter(|message| message["target"]["name"] == name);
    of_that_name.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_the_same_name_is_not_taken_for_the_program() {
        let library = serde_json::json!({ "target": { "name": "zonda" }, "executable": null });
        let program = serde_json::json!({ "target": { "name": "zonda" }, "executable": "target/debug/zonda" });
        assert_eq!(executable(&[library.clone(), program], "zonda"), Some("target/debug/zonda".into()));
        assert_eq!(executable(&[library], "zonda"), None);
    }
}
