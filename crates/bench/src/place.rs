//! Where an experiment's store lives: given by the user, or a temporary directory that goes away.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{BenchError, Result};

/// A place for one store; a temporary one is removed when this is dropped.
#[derive(Debug)]
pub struct Place {
    uri: String,
    path: Option<PathBuf>,
    _temporary: Option<TempDir>,
}

impl Place {
    /// The place that the user named.
    #[must_use]
    pub fn given(uri: &str) -> Self {
        Self { uri: uri.to_owned(), path: path_of(uri), _temporary: None }
    }

    /// A new temporary directory below `parent`, which decides the file system that is measured.
    ///
    /// # Errors
    /// `Io` when it cannot be made.
    pub fn temporary(parent: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("zonda-bench-").tempdir_in(parent);
        let directory = directory
            .map_err(|source| BenchError::io(format!("make a temporary directory in {}", parent.display()), source))?;
        let path = directory.path().join("bench.zonda");
        let uri = format!("file:{}", path.display());
        Ok(Self { uri, path: Some(path), _temporary: Some(directory) })
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

/// The file that `uri` names, when it names one.
fn path_of(uri: &str) -> Option<PathBuf> {
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
    fn files_are_found_in_uris() {
        let path = |uri| Place::given(uri).path().map(Path::to_path_buf);
        assert_eq!(path("file:/tmp/a?zones=8"), Some("/tmp/a".into()));
        assert_eq!((path("a.zonda"), path("mem:"), path("zbd:/dev/x")), (Some("a.zonda".into()), None, None));
    }
}
