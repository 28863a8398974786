//! The command line of `zonda bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use zonda::limits::VALUE_BYTES_MAX;

use crate::experiment::{
    ChildProgram, ChildTask, Kill, Large, Overwrite, Reads, Scale, Setting, Space, Suite, Sync, Ycsb,
};
use crate::keys::Order;
use crate::output::Output;
use crate::provenance::Moment;
use crate::subject::{Durability, parse_switch, switches_help};
use crate::workload::Workload;
use crate::{BenchError, Distribution, Result, parse_bytes, parse_count};

const EXAMPLES: &str = "\
Examples:
  zonda bench                                     load and the five ZKV workloads, within a minute
  zonda bench ycsb --workload ycsb-a,ycsb-c --distribution zipf:0.9 --records 1M
  zonda bench ycsb --on mem: --workload skew-a,scan:100 --json -
  zonda bench ycsb --design zkv --switch filter-by-node=off --switch zflusher=off
  zonda bench sync | space | overwrite | large | reads | kill
  zonda bench kill --scale tiny                   a second or two of it, to see that it works";

/// Measures a store: the default suite, or one experiment.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args, Debug)]
struct CommonArgs {
    /// Seed of everything random; the same seed gives the same operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write one JSON object per phase and verdict, to this file or `-` for standard output
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// How much to do
    #[arg(long, value_enum, default_value_t = Scale::Full)]
    scale: Scale,
    /// Where temporary stores are made; decides which file system is measured
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// Preset of the store: zonda, zkv, zkv-block, adb, btree, bdtree, or bftree, which lies in place unless `--switch store=zoned` or the
    /// device says otherwise; `map` is the standard library's ordered map, which shows what the bench itself costs
    #[arg(long, default_value = "zonda")]
    design: String,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    /// Loads a new store and runs workloads on it
    #[command(after_help = switches_help())]
    Ycsb(Box<YcsbArgs>),
    /// Durable puts with 1 and 16 threads against loops of write and fdatasync, behind the end of a file and over blocks that are there
    Sync(CommonArgs),
    /// Device bytes per user byte after loads, deletes and compact
    Space(SizedArgs),
    /// Overwrites ten times the data with usable space of 1.25 x the live leaves
    Overwrite(SizedArgs),
    /// Twenty million pairs with 40 MiB: memory, reads per get, reopening
    Large(SizedArgs),
    /// Gets, multi-gets and scans against raw loops that read the same blocks of the same file
    Reads(SizedArgs),
    /// Kills a loading process again and again; nothing acknowledged may be lost
    Kill(KillArgs),
    /// The process that `kill` and `large` kill
    #[command(hide = true)]
    Child {
        /// What to do, as JSON
        task: String,
    },
}

#[derive(Args, Debug)]
struct SizedArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Records instead of the scale's own number
    #[arg(long, value_parser = parse_records)]
    records: Option<u64>,
    /// Memory budget instead of the scale's own
    #[arg(long, value_parser = parse_bytes)]
    memory: Option<u64>,
}

#[derive(Args, Debug)]
struct KillArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Kills instead of the scale's own number
    #[arg(long, value_parser = parse_kills)]
    kills: Option<u64>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OrderArg {
    /// Each new record lies at a random place among the keys
    Random,
    /// Each new record has the highest key
    Sorted,
}

#[derive(Args, Debug)]
struct YcsbArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Where to make the store, e.g. file:PATH or mem:; a temporary file by default
    #[arg(long, value_name = "URI")]
    on: Option<String>,
    /// zkv-a..e, skew-a..e, ycsb-a..f, get, update, mix, scan:N, multi-get:N, mix:PERCENT-OF-READS; several with commas, run one after the
    /// other
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "zkv-a,zkv-b,zkv-c,zkv-d,zkv-e")]
    workload: Vec<Workload>,
    /// uniform, hot, hot-range, zipf:0.9 or latest, instead of the workloads' own
    #[arg(long)]
    distribution: Option<Distribution>,
    /// Records to load first [default: 1M, or 10k at scale tiny]
    #[arg(long, value_parser = parse_records)]
    records: Option<u64>,
    /// Operations of each workload [default: 100k, or 1k at scale tiny]
    #[arg(long, value_parser = parse_count)]
    operations: Option<u64>,
    /// Bytes of a key
    #[arg(long, default_value_t = 8)]
    key_bytes: usize,
    /// Bytes of a value
    #[arg(long, value_parser = parse_bytes, default_value = "8")]
    value_bytes: u64,
    /// Memory budget of the store, e.g. 8MiB
    #[arg(long, value_parser = parse_bytes, default_value = "8MiB")]
    memory: u64,
    /// Part of the memory for the merged filter, 0 (none) to 0.5, instead of the preset's own and of a share for it; what it leaves is
    /// divided as the shares say
    #[arg(long, value_name = "SHARE")]
    filter: Option<f64>,
    /// Sizes of delta buffers: `large`, `paper` for 64, 128 and 256 bytes, `paper-whole` for those with keys as they are and at most
    /// 15 pairs of 8 B + 8 B, `to-512` or `to-1024` for `paper` doubled on; of mini-pages four to a doubling with `large`, else one
    #[arg(long)]
    classes: Option<String>,
    /// Delta buffers that are merged first: `fullest`, or `oldest` of the largest size
    #[arg(long)]
    eviction: Option<String>,
    /// Changes that the design `bdtree` chains to a leaf
    #[arg(long, value_name = "COUNT")]
    delta_records: Option<u32>,
    /// Percent of the design `bftree`'s circular buffer in which a mini-page that is used moves to the tail
    #[arg(long, value_name = "PERCENT")]
    copy_on_access: Option<u32>,
    /// Chance in percent that `bftree` caches a record that a get read from its page
    #[arg(long, value_name = "PERCENT")]
    promotion: Option<u32>,
    /// Chance in percent that `bftree` keeps a page whole that a scan read
    #[arg(long, value_name = "PERCENT")]
    scan_promotion: Option<u32>,
    /// The largest mini-page of `bftree` in bytes
    #[arg(long, value_name = "BYTES")]
    mini_page_bytes: Option<u32>,
    /// How the store lies on its device: `zoned` or `in-place`
    #[arg(long)]
    store: Option<String>,
    /// Fixed shares of filter, buffers and flusher like 1:3:4, instead of memory that follows the work
    #[arg(long, value_name = "F:B:P")]
    memory_shares: Option<String>,
    /// What leaves the filter reaches its leaves pair by pair instead of in runs
    #[arg(long)]
    no_batch_insertion: bool,
    /// An option of the store by name, listed below; counts for more than an option of its own
    #[arg(long = "switch", value_name = "NAME=VALUE", value_parser = parse_switch)]
    switches: Vec<(String, String)>,
    /// Threads of every phase
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Order of the load
    #[arg(long, value_enum, default_value_t = OrderArg::Random)]
    order: OrderArg,
    /// buffered, or synced: every write on the device before it counts as done
    #[arg(long, default_value = "buffered")]
    durability: Durability,
    /// No write-ahead log: what is not checkpointed is lost at a crash
    #[arg(long)]
    no_log: bool,
    /// Instances of the log, to 64, instead of one for each core
    #[arg(long, value_name = "COUNT")]
    log_instances: Option<u32>,
    /// Bytes of the ring of each log instance, 4KiB (the paper's) to 64KiB (the default)
    #[arg(long, value_name = "SIZE")]
    log_ring: Option<String>,
    /// Values of more bytes stand in the value log, shorter ones in leaves: 0 to a quarter of the leaf
    #[arg(long, value_name = "SIZE")]
    value_inline: Option<String>,
    /// Reclaim moves leaves as they are instead of merging them with what waits for them
    #[arg(long)]
    no_merged_relocation: bool,
    /// Do not compare the values read with what they should be
    #[arg(long)]
    no_verify: bool,
}

/// Runs an experiment with records and memory as the command line has them.
macro_rules! run_sized {
    ($sized:ident, $new:expr, $experiment:ident) => {{
        let make = |setting| {
            let mut experiment = $new(setting);
            experiment.records = $sized.records.unwrap_or(experiment.records);
            experiment.memory_bytes = $sized.memory.unwrap_or(experiment.memory_bytes);
            experiment.check().map(|()| experiment)
        };
        with(&$sized.common, make, $experiment::run)
    }};
}

/// Runs what the command line asks for. A target that is missed is reported, and is not an error.
///
/// # Errors
/// The first error of store, file system or check; `Usage` for senseless options.
pub fn run(arguments: BenchArgs) -> Result<()> {
    match arguments.command {
        None => with(&arguments.common, |setting| Ok(Suite::new(setting)), Suite::run),
        Some(BenchCommand::Ycsb(ycsb)) => run_ycsb(&ycsb),
        Some(BenchCommand::Sync(common)) => with(&common, |setting| Ok(Sync::new(setting)), Sync::run),
        Some(BenchCommand::Space(sized)) => run_sized!(sized, Space::new, Space),
        Some(BenchCommand::Overwrite(sized)) => run_sized!(sized, Overwrite::new, Overwrite),
        Some(BenchCommand::Large(sized)) => {
            let program = program()?;
            let new = |setting| Large::new(setting, program);
            run_sized!(sized, new, Large)
        }
        Some(BenchCommand::Reads(sized)) => run_sized!(sized, Reads::new, Reads),
        Some(BenchCommand::Kill(kill)) => run_kill(&kill),
        Some(BenchCommand::Child { task }) => ChildTask::run(&task),
    }
}

/// The words that start a child from the command `zonda`.
fn program() -> Result<ChildProgram> {
    ChildProgram::current(&["bench", "child"])
}

/// Makes an experiment, which may refuse what it is told before there is anything, and runs it.
fn with<E>(
    common: &CommonArgs,
    make: impl FnOnce(Setting) -> Result<E>,
    run: impl FnOnce(&E, &mut Output) -> Result<()>,
) -> Result<()> {
    let mut setting = Setting::new(common.seed, common.scale);
    setting.directory.clone_from(&common.directory);
    setting.design.clone_from(&common.design);
    let experiment = make(setting)?;
    let (began, mut output) = (Moment::now(), Output::new(common.json.as_deref())?);
    run(&experiment, &mut output)?;
    output.ended(began)
}

/// A count of records: without any there is nothing to measure.
fn parse_records(text: &str) -> std::result::Result<u64, String> {
    parse_count(text).and_then(|count| if count > 0 { Ok(count) } else { Err("at least 1 record is needed".into()) })
}

/// Switches of the store that were given.
fn switches(arguments: &YcsbArgs) -> Vec<(String, String)> {
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    let given = [
        ("log-instances", arguments.log_instances.map(|count| count.to_string())),
        ("log-ring", arguments.log_ring.clone()),
        ("value-inline", arguments.value_inline.clone()),
        ("merged-relocation", arguments.no_merged_relocation.then(|| "off".to_owned())),
        ("store", arguments.store.clone()),
        ("copy-on-access", number(arguments.copy_on_access)),
        ("promotion", number(arguments.promotion)),
        ("scan-promotion", number(arguments.scan_promotion)),
        ("mini-page-bytes", number(arguments.mini_page_bytes)),
        ("classes", arguments.classes.clone()),
        ("eviction", arguments.eviction.clone()),
        ("delta-records", number(arguments.delta_records)),
        ("memory-shares", arguments.memory_shares.clone()),
    ];
    let options = given.into_iter().filter_map(|(switch, value)| Some((switch.to_owned(), value?)));
    options.chain(arguments.switches.iter().cloned()).collect()
}

fn run_ycsb(arguments: &YcsbArgs) -> Result<()> {
    let value_bytes = usize::try_from(arguments.value_bytes).ok().filter(|&bytes| bytes <= VALUE_BYTES_MAX);
    let value_bytes = value_bytes.ok_or_else(|| BenchError::Usage {
        option: "--value-bytes",
        given: arguments.value_bytes.to_string(),
        expected: format!("at most {VALUE_BYTES_MAX}"),
    })?;
    let make = |setting: Setting| {
        let ycsb = Ycsb {
            on: arguments.on.clone(),
            directory: setting.directory,
            design: setting.design,
            filter_share: arguments.filter,
            switches: switches(arguments),
            batch_insertion: !arguments.no_batch_insertion,
            workloads: arguments.workload.clone(),
            distribution: arguments.distribution,
            records: arguments.records.unwrap_or(setting.scale.pick(1_000_000, 10_000)),
            operations: arguments.operations.unwrap_or(setting.scale.pick(100_000, 1_000)),
            key_bytes: arguments.key_bytes,
            value_bytes,
            memory_bytes: arguments.memory,
            threads: arguments.threads,
            order: match arguments.order {
                OrderArg::Random => Order::Random,
                OrderArg::Sorted => Order::Sorted,
            },
            durability: arguments.durability,
            log: !arguments.no_log,
            verify: !arguments.no_verify,
            seed: setting.seed.0,
        };
        ycsb.check().map(|()| ycsb)
    };
    with(&arguments.common, make, |ycsb, output| {
        output.command(ycsb.seed)?;
        ycsb.run(output).map(drop)
    })
}

fn run_kill(arguments: &KillArgs) -> Result<()> {
    let make = |setting| {
        let mut kill = Kill::new(setting, program()?);
        kill.kills = arguments.kills.unwrap_or(kill.kills);
        Ok(kill)
    };
    with(&arguments.common, make, Kill::run)
}

/// Without a kill nothing would be said of kills.
fn parse_kills(text: &str) -> std::result::Result<u64, String> {
    parse_count(text).and_then(|count| if count > 0 { Ok(count) } else { Err("at least 1 kill is needed".into()) })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(words: &str) -> std::result::Result<BenchArgs, clap::Error> {
        Program::try_parse_from(std::iter::once("bench").chain(words.split_whitespace())).map(|program| program.bench)
    }

    #[test]
    fn the_command_line_of_the_issue_is_understood() {
        let words = "ycsb --on mem: --design map --workload zkv-a,skew-e,ycsb-f,scan:7 --distribution zipf:0.9 --records 4M \
             --filter 0.25 --no-batch-insertion --operations 100k --key-bytes 8 --value-bytes 8 --memory 8MiB --threads 2 --seed 3 --durability synced \
             --order sorted --no-log --json -";
        let Some(BenchCommand::Ycsb(ycsb)) = parse(words).unwrap().command else { panic!("not ycsb") };
        assert_eq!((ycsb.workload.len(), ycsb.records, ycsb.memory), (4, Some(4_000_000), 8 << 20));
        assert_eq!((ycsb.filter, ycsb.no_batch_insertion), (Some(0.25), true));
        assert!(parse("").unwrap().command.is_none());
        assert!(matches!(parse("large --scale tiny").unwrap().command, Some(BenchCommand::Large(_))));
    }

    #[test]
    fn any_switch_can_be_given_and_the_last_word_counts() {
        let words =
            "ycsb --classes large --switch classes=paper --switch group-pages=8 --switch zflusher=on --scale tiny";
        let Some(BenchCommand::Ycsb(ycsb)) = parse(words).unwrap().command else { panic!("not ycsb") };
        let given: std::collections::BTreeMap<_, _> = switches(&ycsb).into_iter().collect();
        assert_eq!((given["classes"].as_str(), given["group-pages"].as_str(), given.len()), ("paper", "8", 3));
        let help = parse("ycsb --help").unwrap_err().to_string();
        for switch in crate::subject::SWITCHES {
            assert!(help.contains(&format!("{}={}", switch.name, switch.values)), "{}", switch.name);
        }
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        for words in [
            "ycsb --switch filtre=1",
            "ycsb --switch sieve=1",
            "ycsb --switch sieve",
            "ycsb --workload zkv-z",
            "ycsb --distribution hott",
            "ycsb --memory 8MB",
            "--scale huge",
            "nothing",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }

    /// A number that was mistyped costs neither results nor a directory.
    #[test]
    fn records_for_which_there_is_no_room_are_refused_before_anything_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("kept.json");
        std::fs::write(&json, "kept").unwrap();
        let place = format!("--directory {} --json {} --scale tiny", directory.path().display(), json.display());
        let most = u64::MAX;
        for command in ["space", "overwrite", "large", "reads", "ycsb", "ycsb --on mem: --design map"] {
            let said = run(parse(&format!("{command} {place} --records {most}")).unwrap()).unwrap_err().to_string();
            assert!(said.starts_with("--records: ") && said.contains("at most") && !said.contains('\n'), "{said}");
            assert!(parse(&format!("{command} --records 0")).is_err(), "{command}");
        }
        let inserts = format!("ycsb {place} --workload zkv-a --operations 1000000000000000");
        let said = run(parse(&inserts).unwrap()).unwrap_err().to_string();
        assert!(said.starts_with("--operations: "), "{said}");
        assert_eq!(std::fs::read_to_string(&json).unwrap(), "kept");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_tiny_run_writes_json() {
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("out.json");
        let words = format!(
            "ycsb --on mem: --design map --scale tiny --records 12k --workload zkv-b,ycsb-d,get,get --json {}",
            json.display()
        );
        run(parse(&words).unwrap()).unwrap();
        let text = std::fs::read_to_string(json).unwrap();
        let mut phases: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = phases.pop().unwrap();
        assert!(last["from"]["commit"].is_string() && last["from"]["began"]["utc"].is_string(), "{last}");
        let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
        assert_eq!(names, ["load", "zkv-b", "ycsb-d", "get", "get"]);
        assert_eq!(phases[0]["operations"], 12_000, "what is said counts, whatever the scale");
        assert_eq!(phases[2]["distribution"], "latest");
    }
}
