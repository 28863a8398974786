//! `zonda compact`: makes the store as small as it can be.

use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;

use crate::exit::Exit;
use crate::output::Output;
use crate::progress;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda compact app.zonda      after deleting much";

/// Merges buffers and underfull leaves
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compact {
    #[command(flatten)]
    store: StoreArgs,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Compact {
    /// # Errors
    /// Those of opening and writing.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let db = self.store.open()?;
        let before = db.stats()?.space.live_page_bytes;
        let bar = progress::of_items("compacting leaves");
        let compacted = db.compact(&mut |done, total| progress::show(&bar, done, total));
        bar.finish_and_clear();
        compacted?;
        let after = db.stats()?.space.live_page_bytes;
        db.close()?;
        self.print(before, after)?;
        Ok(Exit::Done)
    }

    fn print(&self, before: u64, after: u64) -> std::io::Result<()> {
        let mut out = Output::new();
        if self.json {
            out.json(&json!({ "live_page_bytes_before": before, "live_page_bytes_after": after }))?;
        } else {
            out.line(format!("live leaves: {} before, {} after", HumanBytes(before), HumanBytes(after)))?;
        }
        out.finish()
    }
}
