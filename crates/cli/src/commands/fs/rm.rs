//! `zonda fs rm`.

use anyhow::{Context, ensure};
use clap::Args;
use zonda_files::{FilePath, FileStore};

use super::{StoreArg, parse_path, walk};
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda fs rm disk.zoned /db/LOG.old.1763820000
  zonda fs rm disk.zoned --recursive /backups/checkpoint-7

Whatever is removed is gone for good. A database knows its files by its MANIFEST: only what no database needs should go, old checkpoints and
info logs (LOG.old.*) for instance, which makes room on a full device that no program can open its database on any more.";

/// Removes files, and directories with all that is in them
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rm {
    #[command(flatten)]
    store: StoreArg,
    /// What is to go
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Directories too, with everything in them
    #[arg(short, long)]
    recursive: bool,
}

impl Rm {
    /// # Errors
    /// Those of mounting and of the store; `PATH`s behind the first that fails stay.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let paths: Vec<FilePath> = self.paths.iter().map(|path| parse_path(path)).collect::<Result<_, _>>()?;
        ensure!(!paths.contains(&FilePath::root()), "/ is the store: `zonda fs mkfs --force` makes an empty one");
        let store = self.store.mount()?;
        let remove = |path| self.remove(&store, path).with_context(|| format!("cannot remove {path}"));
        let removed = paths.iter().try_for_each(remove);
        store.sync_names()?;
        removed.map(|()| Exit::Done)
    }

    fn remove(&self, store: &FileStore, path: &FilePath) -> anyhow::Result<()> {
        if !store.info(path)?.is_directory {
            return Ok(store.remove(path)?);
        }
        ensure!(self.recursive, "it is a directory: --recursive removes all that is in it");
        // What lies deeper comes behind its directory, and goes first.
        for below in walk(store, path)?.iter().rev() {
            match store.info(below)?.is_directory {
                true => store.remove_directory(below)?,
                false => store.remove(below)?,
            }
        }
        Ok(store.remove_directory(path)?)
    }
}
