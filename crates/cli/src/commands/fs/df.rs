//! `zonda fs df`.

use clap::Args;
use indicatif::HumanBytes;
use serde_json::json;
use zonda_files::{FileUsage, SplitUsage};

use super::StoreArg;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs df disk.zoned
  zonda fs df disk.zoned --json
  zonda fs df disk.zoned --prometheus > /var/lib/node_exporter/zonda.prom

free is what can be written after cleaning, without what flushes and logs keep for themselves: at 0 a compaction is refused.";

/// Shows space: for people, as JSON, or as Prometheus metrics
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Df {
    #[command(flatten)]
    store: StoreArg,
    /// Print a JSON object
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// Print metrics in the text format of Prometheus
    #[arg(long)]
    prometheus: bool,
}

impl Df {
    /// # Errors
    /// Those of mounting.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let store = self.store.mount_read_only()?;
        let (usage, split) = (store.usage(), store.split_usage());
        let mut out = Output::new();
        match () {
            () if self.json => out.json(
                &all_metrics(&usage, split.as_ref()).into_iter().map(|(name, value, _)| (name, json!(value))).collect(),
            )?,
            () if self.prometheus => prometheus(&self.store.uri, &all_metrics(&usage, split.as_ref()), &mut out)?,
            () => people(&usage, split.as_ref(), &mut out)?,
        }
        out.finish()?;
        Ok(Exit::Done)
    }
}

/// Name, value and meaning of a figure.
type Metric = (&'static str, u64, &'static str);

/// Every figure that a mount knows.
fn metrics(usage: &FileUsage) -> [Metric; 12] {
    let space = &usage.space;
    [
        ("capacity_bytes", usage.capacity_bytes, "What all zones can hold"),
        ("usable_bytes", usage.usable_bytes, "What live bytes may fill"),
        ("live_bytes", usage.live_bytes, "Live bytes"),
        ("free_bytes", usage.free_bytes, "What compactions can still write, after cleaning"),
        ("files", usage.files, "Files"),
        ("zones", space.zones.into(), "Zones"),
        ("free_zones", space.free_zones.into(), "Zones with nothing in them"),
        ("reserve_zones", space.reserve_zones.into(), "Free zones that only cleaning and the journal take"),
        ("lost_zones", space.lost_zones.into(), "Zones that can never be written again"),
        ("damaged_zones", space.damaged_zones.into(), "Zones whose header cannot be read"),
        ("active_zones", space.active.into(), "Zones that hold an active token"),
        ("active_zones_max", space.active_max.into(), "Active tokens in all"),
    ]
}

/// The same of split zones, on devices that have them.
fn split_metrics(split: &SplitUsage) -> [Metric; 5] {
    [
        ("split_zones", split.split_zones, "Zones that are split"),
        ("active_split_zones", split.active_split_zones, "Split zones that hold an active token"),
        ("full_subzones", split.full_subzones, "Subzones that hold a table, or held one"),
        ("empty_subzones", split.empty_subzones, "Subzones of split zones with nothing in them"),
        ("subzone_wasted_bytes", split.wasted_bytes, "Bytes that tables left of their subzones"),
    ]
}

fn all_metrics(usage: &FileUsage, split: Option<&SplitUsage>) -> Vec<Metric> {
    metrics(usage).into_iter().chain(split.map(split_metrics).into_iter().flatten()).collect()
}

fn prometheus(uri: &str, metrics: &[Metric], out: &mut Output) -> std::io::Result<()> {
    let device: String = uri
        .chars()
        .flat_map(|letter| match letter {
            '\\' => vec!['\\', '\\'],
            '"' => vec!['\\', '"'],
            '\n' => vec!['\\', 'n'],
            other => vec![other],
        })
        .collect();
    for (name, value, help) in metrics {
        out.line(format!("# HELP zonda_fs_{name} {help}."))?;
        out.line(format!("# TYPE zonda_fs_{name} gauge"))?;
        out.line(format!("zonda_fs_{name}{{device=\"{device}\"}} {value}"))?;
    }
    Ok(())
}

fn people(usage: &FileUsage, split: Option<&SplitUsage>, out: &mut Output) -> std::io::Result<()> {
    let [capacity, usable, live, free] =
        [usage.capacity_bytes, usage.usable_bytes, usage.live_bytes, usage.free_bytes].map(HumanBytes);
    let space = &usage.space;
    out.line(format!("capacity {capacity}, usable {usable}, live {live} in {} files, free {free}", usage.files))?;
    out.line(format!(
        "zones {}: {} free ({} of them in reserve), {} lost, {} damaged; {} of {} active",
        space.zones,
        space.free_zones,
        space.reserve_zones.min(space.free_zones),
        space.lost_zones,
        space.damaged_zones,
        space.active,
        space.active_max
    ))?;
    let Some(split) = split else { return Ok(()) };
    out.line(format!(
        "split zones {} ({} active): {} subzones full, {} empty; {} left by their tables",
        split.split_zones,
        split.active_split_zones,
        split.full_subzones,
        split.empty_subzones,
        HumanBytes(split.wasted_bytes)
    ))
}
