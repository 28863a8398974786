//! Lock files: one holder of each name in this process. Other processes are kept out by the lock of the device.

use std::collections::BTreeSet;

use zonda_files::FilePath;
use zonda_rt::Mutex;

use crate::failure::{Failure, Kind};

/// The names that are locked.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Mutex<BTreeSet<FilePath>>,
}

impl Locks {
    /// Takes one; does not wait.
    ///
    /// # Errors
    /// `Io` if somebody holds it.
    pub(crate) fn take(&self, path: &FilePath) -> Result<(), Failure> {
        match self.held.lock().insert(path.clone()) {
            true => Ok(()),
            false => Err(Failure::new(Kind::Io, format!("lock {path}: held by this process already"))),
        }
    }

    /// Gives one back.
    pub(crate) fn release(&self, path: &FilePath) {
        self.held.lock().remove(path);
    }
}
