//! `zonda get`: the value of one key.

use std::ffi::OsString;
use std::io::{IsTerminal, stdout};

use clap::Args;

use crate::bytes::{Form, escape};
use crate::exit::{BadArgument, Exit};
use crate::output::{Output, pair_json, say};
use crate::store::{StoreArgs, TreeArgs};

const EXAMPLES: &str = "\
Examples:
  zonda get app.zonda user:1              the value and a line end; code 1 if there is no such key
  zonda get app.zonda user:1 --raw > f    the value's bytes and nothing else
  zonda get app.zonda --hex 0001ff        key and value in hexadecimal digits
  zonda get app.zonda user:1 --json       {\"key\":\"user:1\",\"value\":\"ada\"}";

/// Prints the value of a key
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    #[command(flatten)]
    store: StoreArgs,
    /// The key
    key: OsString,
    #[command(flatten)]
    tree: TreeArgs,
    /// Key and value are hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Print the value's bytes as they are, without a line end
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Get {
    /// # Errors
    /// Those of opening and reading.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let form = if self.hex { Form::Hex } else { Form::Text };
        let key = form.parse(&self.key).map_err(|why| BadArgument(format!("key: {why}")))?;
        let db = self.store.open_read_only()?;
        let Some(value) = self.tree.view(&db)?.get(&key)? else {
            say(format_args!("zonda: no such key"));
            return Ok(Exit::Failed);
        };
        self.print(&key, &value)?;
        Ok(Exit::Done)
    }

    fn print(&self, key: &[u8], value: &[u8]) -> std::io::Result<()> {
        let mut out = Output::new();
        match () {
            () if self.json => out.json(&pair_json(self.tree.tree.as_deref().unwrap_or(""), key, Some(value)))?,
            () if self.hex => out.line(Form::Hex.show(value))?,
            () if self.raw => out.bytes(value)?,
            () if stdout().is_terminal() => out.line(printable(value))?,
            () => {
                out.bytes(value)?;
                out.line("")?;
            }
        }
        out.finish()
    }
}

/// A value for a terminal: lines stay lines, what could disturb the terminal is escaped.
fn printable(value: &[u8]) -> String {
    let lines: Vec<String> = value.split(|&byte| byte == b'\n').map(escape).collect();
    lines.join("\n")
}
