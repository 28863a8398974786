//! Where the repository is.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The repository that `cargo xtask` was called in.
pub(crate) struct Workspace {
    /// Its root directory: the one that holds the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built from.
    ///
    /// # Errors
    /// When the directory it was built from has gone.
    pub(crate) fn find() -> Result<Self> {
        let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest_dir.join("..");
        let root = root.canonicalize().with_context(|| format!("no directory {}", root.display()))?;
        Ok(Self { root })
    }
}
