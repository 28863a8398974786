//! Loaded drives, of one setting at a time: the next one's take their place.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;
use zonda_rt::Mutex;

use super::program::{self, Program};
use super::{Contender, Setting};
use crate::{BenchError, Result};

/// Loaded drives.
#[derive(Debug, Default)]
pub(super) struct Images(Mutex<Option<OfSetting>>);

#[derive(Debug)]
struct OfSetting {
    name: String,
    directory: TempDir,
    loaded: BTreeMap<String, PathBuf>,
}

impl Images {
    /// The file of a drive that a contender has loaded; it is to be cloned before it is used.
    ///
    /// # Errors
    /// `Io`, and those of [`program::load`].
    pub(super) fn of(&self, setting: &Setting, contender: &Contender, program: &Program, seed: u64) -> Result<PathBuf> {
        let mut state = self.0.lock();
        let name = setting.of_image();
        if state.as_ref().is_none_or(|state| state.name != name) {
            // The old ones go before the new ones come.
            *state = None;
            *state = Some(OfSetting { name, directory: directory()?, loaded: BTreeMap::new() });
        }
        let Some(state) = state.as_mut() else { return Err(BenchError::Child("no directory for drives".to_owned())) };
        // What the drive does for subzones changes nothing that is on it.
        let Contender { keys, compaction, options, has_ring_memory, .. } = contender;
        let key = format!("{keys} {compaction} {options} {has_ring_memory}");
        if let Some(path) = state.loaded.get(&key) {
            return Ok(path.clone());
        }
        let path = state.directory.path().join(format!("{}.drive", state.loaded.len()));
        program::load(program, setting, contender, &path, seed)?;
        state.loaded.insert(key, path.clone());
        Ok(path)
    }
}

/// A directory for drives, gone with the value.
pub(super) fn directory() -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("zonda-splitzns-").tempdir();
    made.map_err(|source| BenchError::io("make a temporary directory", source))
}
