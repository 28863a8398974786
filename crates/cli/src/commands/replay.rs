//! `zonda replay`: a trace of files on modelled zones, with any placement policy.

use std::fs::File;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::HumanBytes;
use serde_json::{Value, json};
use zonda_bench::lsm::LOADED;
use zonda_bench::traces;
use zonda_files::FileError;
use zonda_files::policy::{self, Policy, Refusals};
use zonda_files::replay::{
    CleaningTrigger, FreeSpace, LevelBytes, ORACLE, ReplayOptions, ReplayReport, SplitReport, replay, replay_oracle,
};
use zonda_files::trace::{self, TraceRecord};
use zonda_space::VictimPolicy;

use crate::exit::{BadArgument, Exit};
use crate::output::{Output, say};

const EXAMPLES: &str = "\
Examples:
  zonda replay db.trace                                       every policy on the CAZA paper's 100 zones of 1 GB
  zonda replay db.trace --policy liza-caza,caza --threshold 5,15,25
  zonda replay db.trace --scale 16 --zones 1000 --zone-size 1077MiB --max-active 14 --measure-from loaded
  zonda replay lsm:1 --policy ldp,splitzns,splitzns+,from=3 --zone-size 1024MiB --subzones 15
  zonda replay caza:1 --policy liza-caza,caza,levels          a trace of db_bench that comes with the program, as in `zonda repro caza-fig3`
  zonda replay lsm:1 --policy caza,oracle --json              no trace: a simulated LSM-tree, seed 1, the CAZA paper's load

A replay knows what goes where, what dies when and what cleaning copies. It cannot know throughput, latency or stalls: the trace goes
on whatever the device does. The oracle knows when every file will die, tries what it can do with that and every policy too, and shows
what copied least: how far a policy has to go.";

/// Replays a trace on modelled zones: what a placement policy would copy
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// File of the trace, which may be compressed by gzip; `caza:1` to `caza:3` for recorded ones that come with the program,
    /// `lsm:SEED` for a simulated LSM-tree under the CAZA paper's load
    trace: String,
    /// Policies, by name, each with its options behind it; `oracle` is one of them. Without it all
    #[arg(long, value_name = "LIST")]
    policy: Vec<String>,
    /// Bytes that a zone holds; where nothing is said 1 GiB for `caza:N` and `lsm:SEED`, as in `caza-fig3` to `-fig6`, and
    /// 1,000,000,000 for others
    #[arg(long, value_name = "SIZE", value_parser = zonda_bench::parse_bytes)]
    zone_size: Option<u64>,
    /// Zones
    #[arg(long, default_value_t = 100)]
    zones: u32,
    /// Zones that may be active; 0, as without it, is no limit
    #[arg(long, value_name = "ZONES")]
    max_active: Option<u32>,
    /// Empty zones that only cleaning takes
    #[arg(long, value_name = "ZONES", default_value_t = 10)]
    reserve: u32,
    /// Cleaning goes on until this share of the device is free, in percent, above the reserve (as `--free` has it); several are run one
    /// after the other
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "15")]
    threshold: Vec<u8>,
    /// Cleaning begins only when no zone is empty above the reserve, instead of below the threshold
    #[arg(long)]
    lazy: bool,
    /// What counts as free, and which zones are cleaned
    #[arg(long, value_enum, default_value_t = Free::Room)]
    free: Free,
    /// How the zone to be cleaned is chosen, if the policy does not choose it
    #[arg(long, value_enum, default_value_t = Victims::Greedy)]
    victims: Victims,
    /// A zone with less than this share left is finished when its file is closed, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    finish: u8,
    /// Multiplies every length in the trace; 1, or for `caza:N` what makes the paper's size of it
    #[arg(long, value_name = "FACTOR")]
    scale: Option<u64>,
    /// Bytes of tables that may wait for their keys
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = zonda_bench::parse_bytes)]
    held: u64,
    /// Subzones of a split zone, for policies that split zones
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    subzones: u32,
    /// Counts only what comes after this mark of the trace: `loaded` where nothing is said for `caza:N` and `lsm:SEED`, of others all
    #[arg(long, value_name = "MARK")]
    measure_from: Option<String>,
    /// Writes the trace to a file instead of replaying it: that of a simulated LSM-tree
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    write: Option<std::path::PathBuf>,
    /// Print one JSON object for each policy and threshold; one that ran out of space has an `error` instead of figures
    #[arg(long)]
    json: bool,
    #[arg(long, hide = true)]
    throughput: bool,
    #[arg(long, hide = true)]
    latency: bool,
}

/// What counts as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Free {
    /// Empty zones, and room in the open ones of tables, above the reserve; these are cleaned too
    Room,
    /// Empty zones above the reserve; full ones are cleaned first
    Zones,
    /// Empty zones, the reserve among them, as a file system here counts; only full ones are cleaned
    Store,
}

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Victims {
    /// The fewest live bytes
    Greedy,
    /// The most freed bytes times age per byte moved
    CostBenefit,
}

impl Replay {
    /// # Errors
    /// A trace that is none, options that make no sense, a trace that does not fit.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if self.throughput || self.latency {
            let why = "a replay cannot know throughput or latency: the trace goes on whatever the device does";
            bail!(BadArgument(why.to_owned()));
        }
        let trace = traces::read(&self.trace)?;
        if let Some(path) = &self.write {
            let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
            trace::write(&trace, std::io::BufWriter::new(file))?;
            return Ok(Exit::Done);
        }
        let replays = self.replays()?;
        let (mut out, mut reports, mut refused) = (Output::new(), Vec::new(), Vec::new());
        for (name, options) in &replays {
            match replayed(name, &trace, options)? {
                Ok(report) => {
                    self.print(&mut out, name, &report, options)?;
                    reports.push(report);
                }
                Err(error) => {
                    self.print_refused(&mut out, name, &error, options)?;
                    refused.push(format!("{name}, threshold {} %: {error}", options.threshold_percent));
                }
            }
        }
        if !self.json {
            out.line("not known from a replay: throughput, latency, stalls")?;
        }
        out.finish()?;
        if refused.is_empty() {
            self.say_if_too_large(&reports);
            return Ok(Exit::Done);
        }
        bail!("{} of {} replays ran out of space: {}", refused.len(), replays.len(), refused.join("; "))
    }

    /// What is replayed: the names of policies, each with every threshold.
    fn replays(&self) -> anyhow::Result<Vec<(String, ReplayOptions)>> {
        let mut replays = Vec::new();
        for &threshold in &self.threshold {
            for name in self.names() {
                let policy = policy::by_name(if name == ORACLE { policy::NAMES[0] } else { &name });
                let policy = policy.map_err(with_oracle)?;
                replays.push((name, self.options(policy, threshold)));
            }
        }
        Ok(replays)
    }

    fn names(&self) -> Vec<String> {
        if self.policy.is_empty() {
            return policy::NAMES.into_iter().chain([ORACLE]).map(str::to_owned).collect();
        }
        self.policy.iter().flat_map(|list| split_policies(list)).collect()
    }

    /// Under the name that was given, with the options in it.
    fn print(
        &self,
        out: &mut Output,
        name: &str,
        report: &ReplayReport,
        options: &ReplayOptions,
    ) -> std::io::Result<()> {
        if self.json { out.json(&as_json(name, report, options)) } else { print(out, name, report, options) }
    }

    /// A policy for which the trace does not fit, among those for which it does.
    fn print_refused(
        &self,
        out: &mut Output,
        name: &str,
        error: &FileError,
        options: &ReplayOptions,
    ) -> std::io::Result<()> {
        if self.json {
            return out.json(&json!({
                "policy": name, "threshold_percent": options.threshold_percent, "zones": options.zones,
                "zone_bytes": options.zone_bytes, "active_max": options.active_max,
                "reserve_zones": options.reserve_zones, "error": error.to_string(),
            }));
        }
        out.line(format!("{name}, threshold {} %", options.threshold_percent))?;
        out.line(format!("  failed: {error}"))
    }

    /// Where no policy had to clean they all look alike, which says nothing of them.
    fn say_if_too_large(&self, reports: &[ReplayReport]) {
        // Subzones are reset even where the device is never full.
        let device_bytes = u64::from(self.zones).saturating_mul(self.zone_bytes());
        let is_idle = |report: &ReplayReport| {
            report.resets + report.cleanings == 0 && report.table_bytes.saturating_add(report.log_bytes) < device_bytes
        };
        if !reports.iter().all(is_idle) {
            return;
        }
        let peak = reports.iter().map(|report| report.peak_live_bytes).max().unwrap_or(0);
        say(format_args!(
            "zonda: nothing was cleaned or reset: at most {} were live on {} zones of {}; set --zone-size and --zones to little more",
            HumanBytes(peak),
            self.zones,
            HumanBytes(self.zone_bytes())
        ));
    }

    fn zone_bytes(&self) -> u64 {
        self.zone_size.unwrap_or_else(|| traces::zone_bytes(&self.trace))
    }

    fn options(&self, policy: Arc<dyn Policy>, threshold_percent: u8) -> ReplayOptions {
        let has_mark = traces::has_load(&self.trace);
        ReplayOptions {
            policy,
            zone_bytes: self.zone_bytes(),
            zones: self.zones,
            active_max: self.max_active.filter(|&zones| zones > 0),
            reserve_zones: self.reserve,
            threshold_percent,
            trigger: if self.lazy { CleaningTrigger::WhenEmpty } else { CleaningTrigger::BelowThreshold },
            victims: match self.victims {
                Victims::Greedy => VictimPolicy::Greedy,
                Victims::CostBenefit => VictimPolicy::CostBenefit,
            },
            finish_percent: self.finish,
            scale: self.scale.unwrap_or_else(|| traces::scale(&self.trace)),
            held_bytes_max: self.held,
            subzones: self.subzones,
            free: match self.free {
                Free::Room => FreeSpace::Room,
                Free::Zones => FreeSpace::EmptyZones,
                Free::Store => FreeSpace::AsStore,
            },
            measure_from: self.measure_from.clone().or_else(|| has_mark.then(|| LOADED.to_owned())),
        }
    }
}

/// Lists the oracle among the policies that there are: only a replay has it.
fn with_oracle(error: FileError) -> FileError {
    match error {
        FileError::UnknownPolicy { name, known } => {
            FileError::UnknownPolicy { name, known: format!("{known}, {ORACLE}") }
        }
        other => other,
    }
}

/// A replay that ran out of space is one of the results: another policy may copy less, or leave less unwritten.
fn replayed(
    name: &str,
    trace: &[TraceRecord],
    options: &ReplayOptions,
) -> anyhow::Result<Result<ReplayReport, FileError>> {
    let report = if name == ORACLE { replay_oracle(trace, options) } else { replay(trace, options) };
    match report {
        Err(error) if !error.is_no_space() => {
            Err(error).with_context(|| format!("{name}, threshold {}", options.threshold_percent))
        }
        report => Ok(report),
    }
}

/// The policies of a list: what has a `=` is an option of the policy before it.
fn split_policies(list: &str) -> Vec<String> {
    let mut policies: Vec<String> = Vec::new();
    for word in list.split(',') {
        match policies.last_mut().filter(|_| word.contains('=')) {
            Some(policy) => *policy = format!("{policy},{word}"),
            None => policies.push(word.to_owned()),
        }
    }
    policies
}

fn print(out: &mut Output, name: &str, report: &ReplayReport, options: &ReplayOptions) -> std::io::Result<()> {
    out.line(format!("{name}, threshold {} %", options.threshold_percent))?;
    out.line(format!(
        "  tables {}, logs and others {}, copied {}, amplification {:.3}",
        HumanBytes(report.table_bytes),
        HumanBytes(report.log_bytes),
        HumanBytes(report.copied_bytes),
        report.amplification
    ))?;
    out.line(format!(
        "  {} resets, {} without a copy ({:.1} %), in {} cleanings, {} of them ended below the threshold; {} left unwritten by finishes",
        report.resets,
        report.resets_without_copy,
        100.0 * report.share_without_copy(),
        report.cleanings,
        report.cleanings_short,
        HumanBytes(report.finished_unwritten_bytes)
    ))?;
    out.line(format!(
        "  {} compactions, inputs in {:.2} zones, {:.1} MB invalidated in each; at most {} live",
        report.compactions,
        report.zones_per_compaction,
        report.invalidated_bytes_per_zone / 1e6,
        HumanBytes(report.peak_live_bytes)
    ))?;
    if let Some(split) = &report.split {
        print_split(out, split)?;
    }
    let levels = report.levels.iter().enumerate().map(|(level, bytes)| {
        let LevelBytes { created_bytes, moved_bytes, copied_bytes } = *bytes;
        format!("L{level} {} + {}, {}", HumanBytes(created_bytes), HumanBytes(moved_bytes), HumanBytes(copied_bytes))
    });
    out.line(format!(
        "  tables by level, created + moved there, copied by cleaning: {}",
        levels.collect::<Vec<_>>().join("; ")
    ))?;
    let all = report.invalid_in_all();
    let zones: u64 = all.bins.iter().sum::<u64>().max(1);
    let shares = all.bins.map(|bin| format!("{}", bin * 100 / zones)).join(" ");
    out.line(format!("  zones by invalid share, 0 to 95 % and all, in percent of samples: {shares}"))?;
    let rules: Vec<String> = report
        .allocations
        .iter()
        .map(|((rule, level), count)| {
            let level = level.map_or("-".to_owned(), |level| format!("L{level}"));
            format!("{} {level} {count}", rule.name())
        })
        .collect();
    out.line(format!("  allocations: {}", rules.join(", ")))
}

fn split_as_json(split: &SplitReport) -> Value {
    json!({
        "tables": split.tables, "bytes": split.bytes, "live_bytes": split.live_bytes, "refused": split.refused.total(), "refused_for": refused_for(&split.refused),
        "pressed": split.pressed, "moved": split.moved, "overflowing": split.overflowing, "overflow_bytes": split.overflow_bytes,
        "wasted_bytes": split.wasted_bytes, "splits": split.splits, "finishes": split.finishes, "merges": split.merges,
        "joins": split.joins, "split_zones_max": split.split_zones_max,
    })
}

fn refused_for(refused: &Refusals) -> Value {
    json!({ "share": refused.share, "zones": refused.zones, "tokens": refused.tokens })
}

fn print_split(out: &mut Output, split: &SplitReport) -> std::io::Result<()> {
    out.line(format!(
        "  subzones: {} tables, {} written, {} live at the end; {} tables found none ({}), {} overflowed by {}, {} wasted, {} pressed, {} moved there",
        split.tables,
        HumanBytes(split.bytes),
        HumanBytes(split.live_bytes),
        split.refused.total(),
        split.refused,
        split.overflowing,
        HumanBytes(split.overflow_bytes),
        HumanBytes(split.wasted_bytes),
        split.pressed,
        split.moved
    ))?;
    out.line(format!(
        "  zones split {}, at most {} at a time; finished {}, subzones merged {}, zones joined {}",
        split.splits, split.split_zones_max, split.finishes, split.merges, split.joins
    ))
}

fn as_json(name: &str, report: &ReplayReport, options: &ReplayOptions) -> Value {
    let allocations: Vec<Value> = report
        .allocations
        .iter()
        .map(|((rule, level), count)| json!({ "rule": rule.name(), "level": level, "count": count }))
        .collect();
    let invalid: Vec<Value> =
        report.invalid.iter().map(|span| json!({ "empty": span.empty, "bins": span.bins })).collect();
    let levels: Vec<Value> = report
        .levels
        .iter()
        .map(|level| {
            json!({
                "created_bytes": level.created_bytes, "moved_bytes": level.moved_bytes, "copied_bytes": level.copied_bytes,
            })
        })
        .collect();
    let split = report.split.as_ref().map(split_as_json);
    json!({
        "policy": name, "threshold_percent": options.threshold_percent, "zones": options.zones,
        "zone_bytes": options.zone_bytes, "active_max": options.active_max, "reserve_zones": options.reserve_zones,
        "records": report.records, "table_bytes": report.table_bytes, "log_bytes": report.log_bytes,
        "copied_bytes": report.copied_bytes, "amplification": report.amplification, "cleanings": report.cleanings,
        "cleanings_short": report.cleanings_short,
        "resets": report.resets, "resets_without_copy": report.resets_without_copy,
        "copied_per_reset": report.copied_per_reset, "finished_unwritten_bytes": report.finished_unwritten_bytes,
        "compactions": report.compactions, "zones_per_compaction": report.zones_per_compaction,
        "invalidated_bytes_per_zone": report.invalidated_bytes_per_zone,
        "peak_live_bytes": report.peak_live_bytes, "live_bytes": report.live_bytes, "tables": report.tables,
        "levels": levels, "split": split, "subzones": options.subzones, "allocations": allocations, "invalid_shares": invalid,
    })
}
