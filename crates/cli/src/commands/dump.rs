//! `zonda dump`: everything, to read back.

use clap::Args;
use zonda::View;

use crate::exit::Exit;
use crate::output::{Output, pair_json};
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda dump app.zonda > app.jsonl
  zonda load copy.zonda app.jsonl --format jsonl      makes the same store again, named trees included

Each line is {\"key\":...,\"value\":...}; `key_hex` and `value_hex` where bytes are not UTF-8; `tree` in named trees.";

/// Prints all pairs of all trees, as of one moment, as JSON lines
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dump {
    #[command(flatten)]
    store: StoreArgs,
}

impl Dump {
    /// # Errors
    /// Those of opening, reading and printing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let db = self.store.open_read_only()?;
        let snapshot = db.snapshot()?;
        let mut out = Output::new();
        dump("", &snapshot, &mut out)?;
        for name in db.tree_names()? {
            dump(&name, &snapshot.tree(&name)?, &mut out)?;
        }
        out.finish()?;
        Ok(Exit::Done)
    }
}

fn dump(tree: &str, view: &View, out: &mut Output) -> anyhow::Result<()> {
    for pair in view.iter()? {
        let (key, value) = pair?;
        out.json(&pair_json(tree, &key, Some(&value)))?;
    }
    Ok(())
}
