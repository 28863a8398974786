//! `zonda compact`: makes the store as small as it can be.

use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use zonda::SpaceStats;

use crate::exit::Exit;
use crate::output::Output;
use crate::progress;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda compact app.zonda      after deleting much";

/// Merges buffers and underfull leaves, and gives back zones that are half dead
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
        let before = db.stats()?.space;
        let bar = progress::of_items("compacting leaves");
        let compacted = db.compact(&mut |done, total| progress::show(&bar, done, total));
        bar.finish_and_clear();
        compacted?;
        let after = db.stats()?.space;
        db.close()?;
        self.print(&before, &after)?;
        Ok(Exit::Done)
    }

    fn print(&self, before: &SpaceStats, after: &SpaceStats) -> std::io::Result<()> {
        let mut out = Output::new();
        let held = |space: &SpaceStats| space.zones - space.free_zones;
        if self.json {
            out.json(&json!({
                "live_page_bytes_before": before.live_page_bytes, "live_page_bytes_after": after.live_page_bytes,
                "zones_before": held(before), "zones_after": held(after),
            }))?;
        } else {
            let leaves = [before, after].map(|space| HumanBytes(space.live_page_bytes));
            out.line(format!("live leaves: {} before, {} after", leaves[0], leaves[1]))?;
            out.line(format!("zones: {} before, {} after", held(before), held(after)))?;
        }
        out.finish()
    }
}
