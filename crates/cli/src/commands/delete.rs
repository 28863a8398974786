//! `zonda delete`: removes keys.

use std::ffi::OsString;

use clap::Args;

use crate::bytes::Form;
use crate::exit::{BadArgument, Exit};
use crate::store::{StoreArgs, TreeArgs};

const EXAMPLES: &str = "\
Examples:
  zonda delete app.zonda user:1 user:2     durable when it returns; keys that do not exist are fine
  zonda delete app.zonda --hex 0001ff";

/// Removes keys, whether they exist or not
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Delete {
    #[command(flatten)]
    store: StoreArgs,
    /// The keys
    #[arg(required = true)]
    keys: Vec<OsString>,
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
        let keys = self.keys.iter().map(|key| form.parse(key)).collect::<Result<Vec<_>, _>>();
        let keys = keys.map_err(|why| BadArgument(format!("key: {why}")))?;
        let db = self.store.open()?;
        let tree = self.tree.existing(&db)?;
        for key in keys {
            tree.delete(key)?;
        }
        db.sync()?;
        drop(tree);
        db.close()?;
        Ok(Exit::Done)
    }
}
