//! `zonda fs cat`.

use std::io::{Write, stdout};

use clap::Args;

use super::{StoreArg, host, parse_path, verify};
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda fs cat disk.zoned /db/CURRENT
  zonda fs cat disk.zoned /db/000012.sst | sha256sum";

/// Prints a file, after its checksums were compared
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cat {
    #[command(flatten)]
    store: StoreArg,
    /// The file
    path: String,
}

impl Cat {
    /// # Errors
    /// Those of mounting and reading, and damage.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let store = self.store.mount_read_only()?;
        let path = parse_path(&self.path)?;
        verify(&store, &path)?;
        let mut out = stdout().lock();
        host::copy_out(&store, &path, &mut out)?;
        out.flush()?;
        Ok(Exit::Done)
    }
}
