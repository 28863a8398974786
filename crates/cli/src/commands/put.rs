//! `zonda put`: stores one pair.

use std::ffi::OsString;
use std::io::Read;

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use zonda::Durability;
use zonda::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use crate::bytes::{Form, from_hex};
use crate::exit::{BadArgument, Exit};
use crate::store::{StoreArgs, TreeArgs};

const EXAMPLES: &str = "\
Examples:
  zonda put app.zonda user:1 ada          makes the store if there is none; durable when it returns
  zonda put app.zonda --hex 0001ff 00     key and value in hexadecimal digits
  zonda put app.zonda picture - < a.png   the value from standard input
  xxd -p a.png | zonda put app.zonda --hex 00 -";

/// Characters of the longest value in hexadecimal digits, with as much white space again.
const HEX_BYTES_MAX: usize = 4 * VALUE_BYTES_MAX;

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
    /// Key and value are hexadecimal digits; on standard input white space among them is passed over
    #[arg(long)]
    hex: bool,
}

impl Put {
    /// # Errors
    /// Those of opening and writing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let form = if self.hex { Form::Hex } else { Form::Text };
        let key = form.parse(&self.key).map_err(|why| BadArgument(format!("key: {why}")))?;
        let value = if self.value == "-" {
            read_value(form)?
        } else {
            form.parse(&self.value).map_err(|why| BadArgument(format!("value: {why}")))?
        };
        // Before a store is made for it.
        if key.len() > KEY_BYTES_MAX {
            bail!(zonda::Error::KeyTooLong { bytes: key.len(), bytes_max: KEY_BYTES_MAX });
        }
        let db = self.store.open_or_create()?;
        self.tree.of(&db)?.put_with(key, value, Durability::Synced)?;
        db.close()?;
        Ok(Exit::Done)
    }
}

/// All of standard input, but no more than is enough to be refused.
fn read_value(form: Form) -> anyhow::Result<Vec<u8>> {
    let bytes_max = if form == Form::Hex { HEX_BYTES_MAX } else { VALUE_BYTES_MAX };
    let mut input = Vec::new();
    std::io::stdin().lock().take(bytes_max as u64 + 1).read_to_end(&mut input).context("cannot read standard input")?;
    ensure!(input.len() <= bytes_max, "a value of more than {VALUE_BYTES_MAX} bytes, which is the limit");
    if form == Form::Text {
        return Ok(input);
    }
    input.retain(|byte| !byte.is_ascii_whitespace());
    from_hex(&input).map_err(|why| anyhow!("value: {why}"))
}
