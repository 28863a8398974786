//! `zonda scan`: pairs in key order.

use std::ffi::OsString;
use std::ops::Bound;

use clap::Args;
use zonda::{Pair, Range, View};

use crate::bytes::Form;
use crate::exit::{BadArgument, Exit};
use crate::output::{Output, pair_json};
use crate::store::{StoreArgs, TreeArgs};

const EXAMPLES: &str = "\
Examples:
  zonda scan app.zonda                            pairs: key, tab, value, escaped as `load` reads them
  zonda scan app.zonda --prefix user: --limit 10
  zonda scan app.zonda --from a --to b            from a, up to but without b
  zonda scan app.zonda --reverse --limit 1        the last pair
  zonda scan app.zonda --json                     a JSON object on each line";

/// Prints pairs in key order
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scan {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    tree: TreeArgs,
    /// First key
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// First key that is not printed any more
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// No more pairs than this
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only the keys
    #[arg(long)]
    keys: bool,
    /// Keys and values are hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Print JSON objects
    #[arg(long, conflicts_with = "hex")]
    json: bool,
}

/// A key, and its value if that is printed.
type Printed = (Vec<u8>, Option<Vec<u8>>);

impl Scan {
    /// # Errors
    /// Those of opening, reading and printing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let db = self.store.open_read_only()?;
        let range = self.range(&self.tree.view(&db)?)?;
        let limit = self.limit.unwrap_or(usize::MAX);
        let alone = |key: zonda::Result<Vec<u8>>| Ok((key?, None));
        let with_value = |pair: zonda::Result<Pair>| pair.map(|(key, value)| (key, Some(value)));
        match (self.keys, self.reverse) {
            (true, true) => self.print(range.keys().rev().take(limit).map(alone))?,
            (true, false) => self.print(range.keys().take(limit).map(alone))?,
            (false, true) => self.print(range.rev().take(limit).map(with_value))?,
            (false, false) => self.print(range.take(limit).map(with_value))?,
        }
        Ok(Exit::Done)
    }

    fn range(&self, view: &View) -> anyhow::Result<Range> {
        if let Some(prefix) = &self.prefix {
            return Ok(view.prefix(self.parse(prefix)?)?);
        }
        let bound = |key: &Option<OsString>| key.as_ref().map(|key| self.parse(key)).transpose();
        let low = bound(&self.from)?.map_or(Bound::Unbounded, Bound::Included);
        let high = bound(&self.to)?.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(view.range::<Vec<u8>>((low, high))?)
    }

    fn parse(&self, key: &OsString) -> anyhow::Result<Vec<u8>> {
        Ok(self.form().parse(key).map_err(|why| BadArgument(format!("key: {why}")))?)
    }

    fn form(&self) -> Form {
        if self.hex { Form::Hex } else { Form::Text }
    }

    fn print(&self, pairs: impl Iterator<Item = zonda::Result<Printed>>) -> anyhow::Result<()> {
        let mut out = Output::new();
        let tree = self.tree.tree.as_deref().unwrap_or("");
        for pair in pairs {
            let (key, value) = pair?;
            if self.json {
                out.json(&pair_json(tree, &key, value.as_deref()))?;
            } else {
                out.line(self.line(&key, value.as_deref()))?;
            }
        }
        Ok(out.finish()?)
    }

    fn line(&self, key: &[u8], value: Option<&[u8]>) -> String {
        let form = self.form();
        let value = value.map(|value| format!("\t{}", form.show(value)));
        form.show(key) + &value.unwrap_or_default()
    }
}
