//! `zonda stat`: space, memory and shape of a store.

use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use zonda::{Db, Stats};

use crate::exit::Exit;
use crate::output::Output;
use crate::store::StoreArgs;

const EXAMPLES: &str = "\
Examples:
  zonda stat app.zonda
  zonda stat app.zonda --json | jq .space.live_page_bytes";

/// Prints space, memory and shape
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stat {
    #[command(flatten)]
    store: StoreArgs,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Stat {
    /// # Errors
    /// Those of opening and reading.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let db = self.store.open_read_only()?;
        let mut out = Output::new();
        if self.json {
            out.json(&as_json(&db)?)?
        } else {
            print(&db, &mut out)?
        }
        out.finish()?;
        Ok(Exit::Done)
    }
}

fn print(db: &Db, out: &mut Output) -> anyhow::Result<()> {
    let Stats { space, memory, tree, device, .. } = db.stats()?;
    let live = space.live_page_bytes + space.live_value_bytes;
    let at_most = if space.live_values_are_estimated { ", as the last checkpoint knew" } else { "" };
    section(out, "device", &[("kind", device.description), ("zones", zones(&space))])?;
    section(
        out,
        "space",
        &[
            ("capacity", size(space.capacity_bytes)),
            ("reserve", format!("{} for open zones, log, checkpoints and cleaning", size(space.reserve_bytes))),
            ("usable", size(space.usable_bytes)),
            ("live leaves", size(space.live_page_bytes)),
            ("live long values", size(space.live_value_bytes) + at_most),
            ("used", percent(live, space.usable_bytes)),
            ("dead", format!("{} written and not live, until it is cleaned", size(dead_bytes(db)?))),
            ("log to replay", size(space.log_bytes)),
        ],
    )?;
    section(
        out,
        "tree",
        &[
            ("leaves", HumanCount(tree.leaves).to_string()),
            ("levels", tree.height.to_string()),
            ("named trees", HumanCount(db.tree_names()?.len() as u64).to_string()),
        ],
    )?;
    section(
        out,
        "memory",
        &[
            ("budget", size(memory.budget_bytes)),
            ("used", size(memory.used_bytes)),
            ("inner nodes", size(memory.inner_bytes)),
            ("leaf table", size(memory.leaf_table_bytes)),
            ("leaf buffers", size(memory.buffer_bytes)),
            ("record cache", size(memory.record_cache_bytes)),
            ("merged filter", size(memory.filter_bytes)),
            ("log", size(memory.log_bytes)),
            ("pages", size(memory.page_bytes)),
        ],
    )?;
    Ok(())
}

/// Bytes of zones, or segments, that hold nothing live any more.
fn dead_bytes(db: &Db) -> anyhow::Result<u64> {
    Ok(db.zones()?.iter().map(|zone| zone.written_bytes.saturating_sub(zone.live_bytes)).sum())
}

fn section(out: &mut Output, name: &str, rows: &[(&str, String)]) -> std::io::Result<()> {
    out.line(name)?;
    rows.iter().try_for_each(|(name, value)| out.line(format!("  {name:<17} {value}")))
}

fn zones(space: &zonda::SpaceStats) -> String {
    let [zones, free, active] = [space.zones, space.free_zones, space.active_zones].map(|n| HumanCount(n.into()));
    format!("{zones}, {free} free, {active} active")
}

fn size(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{} % of usable", tenths / 10, tenths % 10)
}

fn as_json(db: &Db) -> anyhow::Result<Value> {
    let Stats { space, memory, tree, device, .. } = db.stats()?;
    Ok(json!({
        "device": device.description,
        "named_trees": db.tree_names()?,
        "space": {
            "capacity_bytes": space.capacity_bytes, "reserve_bytes": space.reserve_bytes,
            "usable_bytes": space.usable_bytes, "live_page_bytes": space.live_page_bytes,
            "live_value_bytes": space.live_value_bytes, "live_values_are_estimated": space.live_values_are_estimated,
            "dead_bytes": dead_bytes(db)?,
            "log_bytes": space.log_bytes,
            "zones": space.zones, "free_zones": space.free_zones, "active_zones": space.active_zones,
        },
        "tree": { "leaves": tree.leaves, "levels": tree.height },
        "memory": {
            "budget_bytes": memory.budget_bytes, "used_bytes": memory.used_bytes,
            "inner_bytes": memory.inner_bytes, "leaf_table_bytes": memory.leaf_table_bytes,
            "buffer_bytes": memory.buffer_bytes,
            "record_cache_bytes": memory.record_cache_bytes, "filter_bytes": memory.filter_bytes, "log_bytes": memory.log_bytes,
            "snapshot_bytes": memory.snapshot_bytes, "page_bytes": memory.page_bytes,
        },
    }))
}
