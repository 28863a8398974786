//! `zonda dump`: everything, to read back.

use std::ops::Bound;

use clap::Args;
use serde_json::json;
use zonda::{Db, KeySpan, Snapshot, View};

use crate::exit::{self, Exit};
use crate::output::{Output, pair_json, say};
use crate::progress;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda dump app.zonda > app.jsonl
  zonda load copy.zonda app.jsonl --format jsonl    makes the same store again, all trees included
  zonda dump app.zonda --skip-damaged > rest.jsonl    what is left of a damaged store, exit code 3

Each line is {\"key\":...,\"value\":...}; `key_hex` and `value_hex` where bytes are not UTF-8; `tree` in named trees, and alone for one
that has no pairs.";

/// Prints all pairs of all trees, as of one moment, as JSON lines
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Dump {
    #[command(flatten)]
    store: StoreArgs,
    /// Check the store first and leave out the keys that a finding is about, and of the log what comes behind damage; says which these
    /// are, and exits with 3 if there are any
    #[arg(long)]
    skip_damaged: bool,
}

impl Dump {
    /// # Errors
    /// Those of opening, reading and printing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let db = if self.skip_damaged { self.store.open_up_to_damage()? } else { self.store.open_read_only()? };
        let snapshot = db.snapshot()?;
        let skipped = if self.skip_damaged { damaged(&db)? } else { Vec::new() };
        exit::printed(dump_all(&snapshot, &skipped))?;
        skipped.iter().for_each(|span| say(format_args!("zonda: left out: {span}")));
        let left_out = db.log_left_out()?;
        if let Some(operations) = left_out {
            let newest = "what the log has behind its first damage, but for leaves merged since";
            say(format_args!("zonda: left out: {newest}; {operations} operations or more"));
        }
        Ok(if skipped.is_empty() && left_out.is_none() { Exit::Done } else { Exit::Damaged })
    }
}

fn dump_all(snapshot: &Snapshot, skipped: &[KeySpan]) -> anyhow::Result<()> {
    let mut out = Output::new();
    dump("", snapshot, skipped, &mut out)?;
    for name in snapshot.tree_names()? {
        if dump(&name, &snapshot.tree(&name)?, skipped, &mut out)? == 0 {
            out.json(&json!({ "tree": name }))?;
        }
    }
    Ok(out.finish()?)
}

/// What cannot be read, or may be wrong, by their first keys.
fn damaged(db: &Db) -> zonda::Result<Vec<KeySpan>> {
    let bar = progress::of_items("checking leaves");
    let mut spans = Vec::new();
    let checked =
        db.check(&mut |done, total| progress::show(&bar, done, total), &mut |finding| spans.extend(finding.keys));
    bar.finish_and_clear();
    spans.sort_by(|one, other| (&one.tree, &one.from).cmp(&(&other.tree, &other.from)));
    checked.map(|_| spans)
}

/// Prints a tree but for what is `skipped` of it; returns how many pairs.
fn dump(tree: &str, view: &View, skipped: &[KeySpan], out: &mut Output) -> anyhow::Result<u64> {
    let (mut low, mut printed) = (Vec::new(), 0);
    for span in skipped.iter().filter(|span| span.tree == tree) {
        if low < span.from {
            printed += print((tree, view), (Bound::Included(low.clone()), Bound::Excluded(span.from.clone())), out)?;
        }
        // A span may lie within the one before it.
        let Some(to) = &span.to else { return Ok(printed) };
        low = low.max(to.clone());
    }
    Ok(printed + print((tree, view), (Bound::Included(low), Bound::Unbounded), out)?)
}

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn print((tree, view): (&str, &View), bounds: Bounds, out: &mut Output) -> anyhow::Result<u64> {
    let mut printed = 0;
    for pair in view.range::<Vec<u8>>(bounds)? {
        let (key, value) = pair?;
        out.json(&pair_json(tree, &key, Some(&value)))?;
        printed += 1;
    }
    Ok(printed)
}
