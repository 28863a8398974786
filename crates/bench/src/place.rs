//! Where an experiment's store lives: given by the user, or a temporary directory that goes away, if its program is killed with the
//! next one beside it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::{BenchError, Result};

const PREFIX: &str = "zonda-bench-";

/// A file in the directory of a place, locked by who uses it.
const MARKER: &str = "in-use.zonda-bench";

/// A directory that is younger may not have its marker locked yet.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// A place for one store; a temporary one is removed when this is dropped.
#[derive(Debug)]
pub struct Place {
    uri: String,
    path: Option<PathBuf>,
    _temporary: Option<(TempDir, Option<File>)>,
}

impl Place {
    /// The place that the user named.
    #[must_use]
    pub fn given(uri: &str) -> Self {
        Self { uri: uri.to_owned(), path: path_of(uri), _temporary: None }
    }

    /// A new temporary directory below `parent`, which decides the file system that is measured. Those of programs that were killed go.
    ///
    /// # Errors
    /// `Io` when it cannot be made.
    pub fn temporary(parent: &Path) -> Result<Self> {
        let failed = |source| BenchError::io(format!("make a temporary directory in {}", parent.display()), source);
        remove_abandoned(parent);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent).map_err(failed)?;
        let lock = mark(directory.path());
        let path = directory.path().join("bench.zonda");
        let uri = format!("file:{}", path.display());
        Ok(Self { uri, path: Some(path), _temporary: Some((directory, lock)) })
    }

    /// A new temporary directory beside the file that `uri` names, or in memory like it.
    ///
    /// # Errors
    /// As [`temporary`](Self::temporary).
    pub fn beside(uri: &str) -> Result<Self> {
        match path_of(uri) {
            None => Ok(Self::given(uri)),
            Some(path) => Self::temporary(path.parent().filter(|parent| parent.is_dir()).unwrap_or(Path::new("."))),
        }
    }

    /// The user's place or, without one, a temporary one below `parent`.
    ///
    /// # Errors
    /// As [`temporary`](Self::temporary).
    pub fn given_or_temporary(uri: Option<&str>, parent: &Path) -> Result<Self> {
        uri.map_or_else(|| Self::temporary(parent), |uri| Ok(Self::given(uri)))
    }

    /// URI for the store.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The store's file, when it is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Bytes that the file system gave to the store's file.
    #[must_use]
    pub fn allocated_bytes(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        /// The unit of `st_blocks`, whatever the file system's block is.
        const STAT_BLOCK_BYTES: u64 = 512;
        Some(std::fs::metadata(self.path()?).ok()?.blocks() * STAT_BLOCK_BYTES)
    }
}

/// Marks a directory as one that is in use. Where files cannot be locked it stays without, and is never taken for abandoned.
fn mark(directory: &Path) -> Option<File> {
    let path = directory.join(MARKER);
    let marker = File::create_new(&path).ok()?;
    let is_locked = marker.try_lock().is_ok();
    if !is_locked {
        let _stays = std::fs::remove_file(&path);
    }
    is_locked.then_some(marker)
}

/// Removes directories of places below `parent` that no program holds any more: those with a marker that nobody has locked. What cannot be
/// removed stays.
fn remove_abandoned(parent: &Path) {
    let is_old = |path: &Path| {
        let modified = path.metadata().and_then(|metadata| metadata.modified()).ok();
        modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > ABANDONED_AFTER)
    };
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        let marker = entry.path().join(MARKER);
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && is_old(&marker)
            && File::open(&marker).is_ok_and(|marker| marker.try_lock().is_ok())
        {
            let _stays = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The file that `uri` names, when it names one.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    let uri = uri.split_once('?').map_or(uri, |(uri, _)| uri);
    match uri.split_once(':') {
        Some(("file", path)) => Some(path.into()),
        Some(_) => None,
        None => Some(uri.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_places_go_away() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::temporary(parent.path()).unwrap();
        std::fs::write(place.path().unwrap(), [1; 5_000]).unwrap();
        assert!(place.allocated_bytes().unwrap() >= 5_000);
        drop(place);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn places_of_programs_that_are_gone_are_removed_and_others_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let [gone, young, results] = ["gone", "young", "results"].map(|name| {
            let path = parent.path().join(format!("{PREFIX}{name}"));
            std::fs::create_dir(&path).unwrap();
            path
        });
        let held = Place::temporary(parent.path()).unwrap();
        let in_use = held.path().unwrap().parent().unwrap();
        drop((mark(&gone).unwrap(), mark(&young).unwrap()));
        std::fs::write(results.join("notes.txt"), "of a user").unwrap();
        let age = |path: &Path| {
            let long_ago = path.metadata().unwrap().modified().unwrap() - 2 * ABANDONED_AFTER;
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        };
        [&gone.join(MARKER), &in_use.join(MARKER), &results].into_iter().for_each(|path| age(path));
        let _another = Place::temporary(parent.path()).unwrap();
        assert!(!gone.exists() && young.exists() && results.exists() && in_use.exists());
    }

    #[test]
    fn files_are_found_in_uris() {
        let path = |uri| Place::given(uri).path().map(Path::to_path_buf);
        assert_eq!(path("file:/tmp/a?zones=8"), Some("/tmp/a".into()));
        assert_eq!((path("a.zonda"), path("mem:"), path("zbd:/dev/x")), (Some("a.zonda".into()), None, None));
    }
}
