//! The part of `cargo metadata` that the steps read.

use std::{collections::BTreeMap, process::Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{process, workspace::Workspace};

/// The packages of the workspace.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    /// One entry per workspace member.
    pub(crate) packages: Vec<Package>,
}

/// One member of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    /// The name in its manifest.
    pub(crate) name: String,
    /// All dependencies, of all kinds.
    pub(crate) dependencies: Vec<Dependency>,
    /// Its features and what they turn on.
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// One dependency as a manifest declares it.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    /// The package depended on.
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Asks cargo. Needs no network: `--no-deps` resolves nothing.
    ///
    /// # Errors
    /// When cargo fails or prints what we cannot read.
    pub(crate) fn read(workspace: &Workspace) -> Result<Self> {
        let mut command = process::cargo(workspace, ["metadata", "--no-deps", "--format-version", "1"]);
        let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata: {}", output.status);
        }
        serde_json::from_slice(&output.stdout).context("cargo metadata printed something else than its JSON")
    }

    /// The member called `name`.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}
