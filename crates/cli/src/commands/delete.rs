//! `zonda delete`: removes keys.

use std::ffi::OsString;

use clap::Args;
use indicatif::HumanCount;

use crate::bytes::Form;
use crate::exit::{BadArgument, Exit};
use crate::output::say;
use crate::store::{StoreArgs, TreeArgs};

const EXAMPLES: &str = "\
Examples:
  zonda delete app.zonda user:1 user:2     durable when it returns; keys that do not exist are fine
  zonda delete app.zonda --prefix user:    all keys that begin so, the least first
  zonda delete app.zonda --hex 0001ff

What a delete by prefix that was interrupted left, the next removes.";

/// Removes keys, whether they exist or not, or all with a prefix
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Delete {
    #[command(flatten)]
    store: StoreArgs,
    /// The keys
    #[arg(required_unless_present = "prefix")]
    keys: Vec<OsString>,
    /// All keys that begin with this; standard error tells how many there were
    #[arg(long, value_name = "KEY", conflicts_with = "keys")]
    prefix: Option<OsString>,
    #[command(flatten)]
    tree: TreeArgs,
    /// Keys are hexadecimal digits
    #[arg(long)]
    hex: bool,
}

impl Delete {
    /// # Errors
    /// Those of opening and writing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let form = if self.hex { Form::Hex } else { Form::Text };
        let parse = |key: &OsString| form.parse(key).map_err(|why| BadArgument(format!("key: {why}")));
        let keys = self.keys.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let prefix = self.prefix.as_ref().map(parse).transpose()?;
        let db = self.store.open()?;
        let tree = self.tree.existing(&db)?;
        for key in keys {
            tree.delete(key)?;
        }
        if let Some(prefix) = prefix {
            say(format_args!("{} keys removed", HumanCount(tree.delete_prefix(prefix)?)));
        }
        db.sync()?;
        drop(tree);
        db.close()?;
        Ok(Exit::Done)
    }
}
