//! `zonda put`: stores one pair.

use std::ffi::OsString;
use std::io::Read;

use anyhow::{Context, anyhow};
use clap::Args;
use zonda::Durability;

use crate::bytes::Form;
use crate::exit::Exit;
use crate::store::{StoreArgs, TreeArgs};

const EXAMPLES: &str = "\
Examples:
  zonda put app.zonda user:1 ada          makes the store if there is none; durable when it returns
  zonda put app.zonda --hex 0001ff 00     key and value in hexadecimal digits
  zonda put app.zonda picture - < a.png   the value from standard input";

/// Stores a pair
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Put {
    #[command(flatten)]
    store: StoreArgs,
    /// The key
    key: OsString,
    /// The value; `-` reads it from standard input
    value: OsString,
    #[command(flatten)]
    tree: TreeArgs,
    /// Key and value are hexadecimal digits
    #[arg(long)]
    hex: bool,
}

impl Put {
    /// # Errors
    /// Those of opening and writing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let form = if self.hex { Form::Hex } else { Form::Text };
        let key = form.parse(&self.key).map_err(|why| anyhow!("key: {why}"))?;
        let value = if self.value == "-" {
            read_value()?
        } else {
            form.parse(&self.value).map_err(|why| anyhow!("value: {why}"))?
        };
        let db = self.store.open_or_create()?;
        self.tree.of(&db)?.put_with(key, value, Durability::Synced)?;
        db.close()?;
        Ok(Exit::Done)
    }
}

/// All of standard input, but no more than a byte above the limit: that is enough to be refused.
fn read_value() -> anyhow::Result<Vec<u8>> {
    let mut value = Vec::new();
    let limit = zonda::limits::VALUE_BYTES_MAX as u64 + 1;
    std::io::stdin().lock().take(limit).read_to_end(&mut value).context("cannot read standard input")?;
    Ok(value)
}
