//! `zonda fs df`.

use clap::Args;
use indicatif::HumanBytes;
use zonda_files::{FileUsage, SplitUsage, Work};

use super::{StoreArg, metrics};
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda fs df disk.zoned
  zonda fs df disk.zoned --json
  zonda fs df disk.zoned --prometheus > /var/lib/node_exporter/zonda.prom

free is what can be written after cleaning, without what flushes and logs keep for themselves: at 0 a compaction is refused.
usable, free, zones in reserve and active ones are told for a mount with the default options: one with other `reserve_zones`,
`flush_reserve_zones` or `active_zones` has more or less, and tells its own in its report (`ZONDA_REPORT`).
What was copied, finished, reset and allocated is counted since mkfs, up to the last commit of the journal.";

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
        let (usage, work, split) = (store.usage(), store.work(), store.split_usage());
        let mut out = Output::new();
        let all = || metrics::all(&usage, &work, split.as_ref());
        match () {
            () if self.json => out.json(&metrics::json(&all()))?,
            () if self.prometheus => metrics::prometheus(&self.store.uri, &all(), &mut out)?,
            () => people(&usage, &work, split.as_ref(), &mut out)?,
        }
        out.finish()?;
        Ok(Exit::Done)
    }
}

fn people(usage: &FileUsage, work: &Work, split: Option<&SplitUsage>, out: &mut Output) -> std::io::Result<()> {
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
    out.line(format!(
        "since mkfs: {} copied by cleaning; {} resets with a copy, {} without; {} left in zones that were finished, which took {:.1?}",
        HumanBytes(work.copied_bytes),
        work.resets_with_copy,
        work.resets_without_copy,
        HumanBytes(work.finished_unwritten_bytes),
        work.finishing_time
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
