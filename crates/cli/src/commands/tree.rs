//! `zonda tree`: the named trees of a store.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use serde_json::json;

use crate::exit::Exit;
use crate::output::Output;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda tree list app.zonda
  zonda tree drop app.zonda users     the tree with all its pairs; durable when it returns";

/// Lists and drops named trees
#[derive(Subcommand, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Tree {
    List(List),
    Drop(Drop),
}

/// Prints the names of the trees, in order, a line each; the default tree has none
#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    store: StoreArgs,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Removes a tree with all its pairs
#[derive(Args, Debug)]
pub(crate) struct Drop {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the tree, which must be there
    name: String,
}

impl Tree {
    /// # Errors
    /// Those of opening, reading and writing; a tree to be dropped that is not there.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(),
            Self::Drop(drop) => drop.run(),
        }
    }
}

impl List {
    fn run(&self) -> anyhow::Result<Exit> {
        let names = self.store.open_read_only()?.tree_names()?;
        let mut out = Output::new();
        if self.json {
            out.json(&json!(names))?;
        } else {
            names.iter().try_for_each(|name| out.line(crate::bytes::escape(name.as_bytes())))?;
        }
        out.finish()?;
        Ok(Exit::Done)
    }
}

impl Drop {
    fn run(&self) -> anyhow::Result<Exit> {
        let db = self.store.open()?;
        let dropped = db.drop_tree(&self.name)?;
        db.close()?;
        if dropped { Ok(Exit::Done) } else { Err(anyhow!("no tree is called {:?}", self.name)) }
    }
}
