//! Programs of the workspace that steps run, built by cargo in a way that builds nothing twice.
//!
//! Cargo joins the features that a third-party crate is built with over the packages that it is asked for, those of development
//! dependencies if a test is among them. Asked for one package alone it would build again half of what the unit tests were built
//! from, with other features; so it is always asked for the whole workspace with a test, and told which programs are wanted.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

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

/// The plugin for RocksDB, a shared library.
pub(crate) const PLUGIN: &str = "zonda_rocksdb";

/// Builds the programs of these names, and the plugin if it is among them, and says where they are.
///
/// # Errors
/// When cargo fails.
pub(crate) fn build<const N: usize>(workspace: &Workspace, names: [&str; N]) -> Result<[PathBuf; N]> {
    let mut command = process::cargo(workspace, ["build", "--quiet", "--workspace", "--test", DEVICE_TESTS]);
    for name in names {
        match name {
            DEVICE_TESTS => {}
            PLUGIN => _ = command.arg("--lib"),
            program => _ = command.args(["--bin", program]),
        }
    }
    let messages = messages(&mut command)?;
    let mut found = Vec::new();
    for name in names {
        found.push(executable(&messages, name).with_context(|| format!("cargo has built no {name}"))?);
    }
    Ok(found.try_into().expect("one for each name"))
}

/// A program of tests.
pub(crate) struct TestProgram {
    /// The program.
    pub(crate) path: PathBuf,
    /// The directory of its package, where cargo would run it.
    pub(crate) directory: PathBuf,
    /// What tells it from other programs of its package: `--lib`, `--bin NAME`, `--test NAME`.
    pub(crate) selection: String,
}

/// Builds every program of unit and integration tests.
///
/// # Errors
/// When cargo fails.
pub(crate) fn tests(workspace: &Workspace) -> Result<Vec<TestProgram>> {
    let mut command = process::cargo(workspace, ["test", "--workspace", "--no-run"]);
    Ok(messages(&mut command)?.iter().filter_map(test_program).collect())
}

fn test_program(message: &Value) -> Option<TestProgram> {
    message["profile"]["test"].as_bool().filter(|is_test| *is_test)?;
    let path = message["executable"].as_str()?.into();
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let (kind, name) = (message["target"]["kind"][0].as_str()?, message["target"]["name"].as_str()?);
    let selection = match kind {
        "test" | "bin" | "example" | "bench" => format!("--{kind} {name}"),
        _ => "--lib".to_owned(),
    };
    Some(TestProgram { path, directory, selection })
}

/// Runs cargo and returns what it says of each thing that it has built.
fn messages(command: &mut Command) -> Result<Vec<Value>> {
    println!("$ {}", process::shown(command));
    command.arg("--message-format=json-render-diagnostics");
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo ended with {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// What was built under this name that can be loaded or run.
fn executable(messages: &[Value], name: &str) -> Option<PathBuf> {
    let mut of_that_name = messages.iter().filter(|message| message["target"]["name"] == name);
    of_that_name.find_map(|message| {
        let shared =
            || message["filenames"].as_array()?.iter().filter_map(Value::as_str).find(|file| file.ends_with(".so"));
        message["executable"].as_str().or_else(shared).map(PathBuf::from)
    })
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

    #[test]
    fn a_shared_library_is_found_among_the_files_of_its_package() {
        let files = ["target/debug/libzonda_rocksdb.so", "target/debug/libzonda_rocksdb.rlib"];
        let library = serde_json::json!({ "target": { "name": PLUGIN }, "executable": null, "filenames": files });
        assert_eq!(executable(&[library], PLUGIN), Some(files[0].into()));
    }

    #[test]
    fn tests_are_told_from_libraries_and_know_their_package() {
        let built = |kind: &str, test: bool| {
            let target = serde_json::json!({ "name": "full", "kind": [kind] });
            let manifest = "/repository/crates/zonda/Cargo.toml";
            serde_json::json!({ "target": target, "profile": { "test": test }, "executable": "p", "manifest_path": manifest })
        };
        let program = test_program(&built("test", true)).unwrap();
        assert_eq!((program.selection.as_str(), program.path), ("--test full", "p".into()));
        assert_eq!(program.directory, Path::new("/repository/crates/zonda"));
        assert_eq!(test_program(&built("cdylib", true)).unwrap().selection, "--lib");
        assert!(test_program(&built("bin", false)).is_none());
    }
}
