//! Drives with a loaded database, made when they are first wanted and gone with the experiment. Systems with the same policy share one: they
//! are loaded untimed, so that what the drive does for subzones changes nothing that is on it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;
use zonda_rt::Mutex;

use super::db_bench::{self, Tools};
use super::{Live, System};
use crate::{BenchError, Result};

/// Loaded drives.
#[derive(Debug, Default)]
pub(super) struct Images(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    directory: Option<TempDir>,
    loaded: BTreeMap<&'static str, PathBuf>,
}

impl Images {
    /// The file of a drive that a system has loaded; it is to be cloned before it is used.
    ///
    /// # Errors
    /// `Io`, and those of [`db_bench::load`].
    pub(super) fn of(&self, live: &Live, system: &System, tools: &Tools, seed: u64) -> Result<PathBuf> {
        let mut state = self.0.lock();
        if let Some(path) = state.loaded.get(system.policy) {
            return Ok(path.clone());
        }
        let made = match state.directory.take() {
            Some(directory) => directory,
            None => tempfile::Builder::new()
                .prefix("zonda-splitzns-")
                .tempdir()
                .map_err(|source| BenchError::io("make a temporary directory", source))?,
        };
        let path = made.path().join(format!("{}.drive", system.name));
        state.directory = Some(made);
        db_bench::load(tools, live, system, &path, seed)?;
        state.loaded.insert(system.policy, path.clone());
        Ok(path)
    }
}
