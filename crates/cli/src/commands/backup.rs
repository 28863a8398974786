//! `zonda backup`: a copy of a store, as of one moment.

use anyhow::Context;
use clap::Args;

use crate::exit::Exit;
use crate::progress;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda backup app.zonda app-2026-11-20.zonda     all trees; the copy is a store like any other
  zonda backup app.zonda 'copy.zonda?zone_size=64MiB'

A copy that was interrupted is opened by no command: remove it and copy again.
A store whose log is on a device of its own wants that named (--log-on), too. The copy has its log beside its pages: it is one device, or file.";

/// Copies a store into a new one
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: StoreArgs,
    /// Path or URI of the new store, which must not exist
    to: String,
}

impl Backup {
    /// # Errors
    /// Those of opening, reading and writing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        copy(&self.store, &self.to)
    }
}

/// Copies the store of `from` to `to`.
///
/// # Errors
/// Those of opening, reading and writing.
pub(crate) fn copy(from: &StoreArgs, to: &str) -> anyhow::Result<Exit> {
    let db = from.open_read_only()?;
    let bar = progress::of_count("pairs copied");
    let options = from.memory.options();
    let copied = db.backup_with(to, &options, &mut |pairs| progress::show_count(&bar, pairs));
    bar.finish_and_clear();
    copied.with_context(|| format!("cannot copy to {to}"))?;
    Ok(Exit::Done)
}
