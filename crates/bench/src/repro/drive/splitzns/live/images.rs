//! Drives with a loaded database, made when they are first wanted and gone with the experiment. Systems with the same policy and as much
//! loaded share one: they are loaded untimed, so that what the drive does for subzones changes nothing that is on it. They are as large as
//! a drive: no more than [`IMAGES_MAX`] are kept, and the one that was used longest ago goes first.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zonda_rt::Mutex;

use super::db_bench::{self, Tools};
use super::{Live, System};
use crate::{BenchError, Result};

/// Loaded drives that are kept at a time.
pub(in super::super) const IMAGES_MAX: usize = 2;

/// Loaded drives.
#[derive(Debug, Default)]
pub(super) struct Images(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    directory: Option<TempDir>,
    /// The one used last is the last.
    loaded: Vec<(Loaded, PathBuf)>,
}

/// What a drive was loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loaded {
    policy: &'static str,
    keys: u64,
    seed: u64,
}

impl Images {
    /// The file of a drive that a system has loaded; it is to be cloned before it is used.
    ///
    /// # Errors
    /// `Io`, and those of [`db_bench::load`].
    pub(super) fn of(&self, live: &Live, system: &System, tools: &Tools, seed: u64) -> Result<PathBuf> {
        let mut state = self.0.lock();
        let wanted = Loaded { policy: system.policy, keys: live.keys, seed };
        if let Some(at) = state.loaded.iter().position(|(loaded, _)| *loaded == wanted) {
            let found = state.loaded.remove(at);
            let path = found.1.clone();
            state.loaded.push(found);
            return Ok(path);
        }
        if state.loaded.len() >= IMAGES_MAX {
            remove(&state.loaded.remove(0).1)?;
        }
        let made = match state.directory.take() {
            Some(directory) => directory,
            None => tempfile::Builder::new()
                .prefix("zonda-splitzns-")
                .tempdir()
                .map_err(|source| BenchError::io("make a temporary directory", source))?,
        };
        let path = made.path().join(format!("{}-{}-{seed}.drive", system.name, live.keys));
        state.directory = Some(made);
        // The next point that wants it begins anew.
        db_bench::load(tools, live, system, &path, seed).inspect_err(|_| drop(fs::remove_file(&path)))?;
        state.loaded.push((wanted, path.clone()));
        Ok(path)
    }
}

/// Makes room for another.
///
/// # Errors
/// `Io`.
pub(in super::super) fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|source| BenchError::io(format!("remove {}", path.display()), source))
}
