//! `zonda restore`: a store from its backup.

use clap::Args;

use crate::commands::backup;
use crate::exit::Exit;
use crate::store::{MemoryArgs, StoreArgs};

const EXAMPLES: &str = "\
Examples:
  zonda restore app-2026-11-20.zonda app.zonda    never over an existing store: move that away first

A copy that was interrupted is opened by no command: remove it and copy again.
What is made has its log beside its pages, also where the backup's is on a device of its own (--log-on). For a log on a device of its own:
  zonda dump app-2026-11-20.zonda | zonda load app.zonda --format jsonl --log-on log.zoned";

/// Makes a store from a backup
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    /// Path or URI of the backup
    from: String,
    /// The device of the backup's log, if that is not beside its pages
    #[arg(long, value_name = "URI")]
    log_on: Option<String>,
    /// Path or URI of the new store, which must not exist
    store: String,
    #[command(flatten)]
    memory: MemoryArgs,
}

impl Restore {
    /// # Errors
    /// Those of opening, reading and writing.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        backup::copy(&StoreArgs { store: self.from, log_on: self.log_on, memory: self.memory }, &self.store)
    }
}
