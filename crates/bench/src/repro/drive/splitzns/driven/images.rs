//! Loaded drives, of one setting at a time and no more than [`IMAGES_MAX`]: the one that was used longest ago goes first.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use zonda_rt::Mutex;

use super::super::live::images::{IMAGES_MAX, remove};
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
    /// The one used last is the last.
    loaded: Vec<(String, PathBuf)>,
    /// Made so far.
    made: usize,
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
            *state = Some(OfSetting { name, directory: directory()?, loaded: Vec::new(), made: 0 });
        }
        let Some(state) = state.as_mut() else { return Err(BenchError::Child("no directory for drives".to_owned())) };
        // What the drive does for subzones changes nothing that is on it.
        let Contender { keys, compaction, options, has_ring_memory, .. } = contender;
        let key = format!("{keys} {compaction} {options} {has_ring_memory} {seed}");
        if let Some(at) = state.loaded.iter().position(|(loaded, _)| *loaded == key) {
            let found = state.loaded.remove(at);
            let path = found.1.clone();
            state.loaded.push(found);
            return Ok(path);
        }
        if state.loaded.len() >= IMAGES_MAX {
            remove(&state.loaded.remove(0).1)?;
        }
        let path = state.directory.path().join(format!("{}.drive", state.made));
        state.made += 1;
        // Half of a drive would take the room of the next one.
        program::load(program, setting, contender, &path, seed).inspect_err(|_| drop(fs::remove_file(&path)))?;
        state.loaded.push((key, path.clone()));
        Ok(path)
    }
}

/// A directory for drives, gone with the value.
pub(super) fn directory() -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("zonda-splitzns-").tempdir();
    made.map_err(|source| BenchError::io("make a temporary directory", source))
}
