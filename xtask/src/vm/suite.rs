//! The step `vm-suite`: everything that needs a zoned block device, in virtual machines that have some.
//!
//! Where the machines cannot be had (no Debian, no way to its packages), the step says so and counts as not run. A
//! machine that runs and fails is a failure.
//!
//! An emulated machine is one processor's work and its parts know nothing of each other, so that several run at a time.

mod crash;
mod scripts;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{
    cache::Cache,
    devices::Shape,
    machine::{Plan, Show},
    tool,
};
use crate::{
    clock::Stopwatch,
    lanes,
    programs::{self, DEVICE_TESTS, PLUGIN, TESTKIT, ZONDA},
    tally::Tally,
    workspace::Workspace,
};

/// Shapes that the conformance suite asks for: without limits, with each pair of limits, with short appends, and the one
/// for queues. There is one namespace of each whose zones can be written to three quarters, and one of whole zones.
const CONFORMANCE: [&str; 7] = [
    "size=64K,zones=6,open=0,active=0",
    "size=64K,zones=6,open=2,active=3",
    "size=64K,zones=6,open=2,active=5",
    "size=64K,zones=6,open=1,active=1",
    "size=64K,zones=6,open=2,active=2",
    "size=64K,zones=6,open=0,active=0,append=16K",
    "size=128K,zones=4,open=0,active=0",
];

/// Namespaces for everything else, of both geometries too.
const LARGE: [&str; 2] = ["size=4M,capacity=3M,zones=24,open=4,active=6", "size=4M,zones=24,open=5,active=5"];

/// Resets of a run: four of them while the store is being opened.
const RESETS: u32 = 20;
/// Machines at a time, at most: each takes up to 1.5 GiB.
const JOBS_MAX: usize = 4;

/// What to run.
#[derive(Args, Clone, Debug)]
pub(crate) struct SuiteArguments {
    /// Guest resets in the middle of writes
    #[arg(long, default_value_t = RESETS)]
    resets: u32,
    /// Seed of the moments of the resets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Machines at a time [default: as many as there are processors, 4 at most]
    #[arg(long)]
    jobs: Option<usize>,
    /// Only the parts whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Default for SuiteArguments {
    fn default() -> Self {
        Self { resets: RESETS, seed: 1, jobs: None, only: None }
    }
}

impl SuiteArguments {
    fn jobs(&self) -> usize {
        self.jobs.unwrap_or_else(|| lanes::processors().min(JOBS_MAX))
    }
}

/// The programs that run in the guest, built as for this machine. The emulated processor has no AVX-512: with
/// `-C target-cpu=native` in your own cargo settings they may not run there.
struct Programs {
    /// Tests of the device crate on zoned block devices.
    device_tests: PathBuf,
    /// The command `zonda`.
    zonda: PathBuf,
    /// Lives of a store: `zonda-testkit real`.
    testkit: PathBuf,
    /// `libzonda_rocksdb.so`.
    plugin: PathBuf,
}

impl Programs {
    fn build(workspace: &Workspace) -> Result<Self> {
        let [device_tests, zonda, testkit, plugin] =
            programs::build(workspace, [DEVICE_TESTS, ZONDA, TESTKIT, PLUGIN])?;
        Ok(Self { device_tests, zonda, testkit, plugin })
    }
}

type Part = fn(&Cache, &Programs, &SuiteArguments) -> Result<u64>;

/// What the suite consists of, the longest first: what is begun last should not be what is waited for.
const PARTS: [(&str, Part); 9] = [
    ("crash", crash::resets),
    ("rocksdb", scripts::rocksdb),
    ("files", scripts::files),
    ("store", scripts::store),
    ("device", device),
    ("requests", scripts::requests),
    ("volatile-cache", scripts::volatile_cache),
    ("cross-check", scripts::cross_check),
    ("refusals", scripts::refusals),
];

/// Runs the suite.
///
/// # Errors
/// When a machine or a test in it fails.
pub(crate) fn run(workspace: &Workspace, tally: &mut Tally, arguments: &SuiteArguments) -> Result<()> {
    let cache = match Cache::with(&[]) {
        Ok(cache) => cache,
        Err(error) => {
            println!("NOT RUN: no virtual machine can be had here: {error:#}");
            tally.not_run += PARTS.len() as u64;
            return Ok(());
        }
    };
    let programs = Programs::build(workspace)?;
    let is_chosen = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let chosen: Vec<_> = PARTS.into_iter().filter(|(name, _)| is_chosen(name)).collect();
    // All of them, whatever becomes of others.
    let results = lanes::map(arguments.jobs(), &chosen, |(name, part)| {
        let watch = Stopwatch::start();
        let result = part(&cache, &programs, arguments);
        println!("vm {name}: {:.1} s", watch.elapsed().as_secs_f64());
        result
    });
    let mut failures = Vec::new();
    for ((name, _), ended) in chosen.iter().zip(results) {
        match ended {
            Ok(passed) => tally.passed += passed,
            Err(error) => failures.push(error.context(format!("part {name}, alone with --only {name}"))),
        }
    }
    tally.failed += failures.len() as u64;
    match failures.len() {
        0 => Ok(()),
        count => {
            failures.iter().for_each(|error| println!("FAILED: {error:#}"));
            Err(failures.swap_remove(0)).with_context(|| format!("{count} of {} parts failed", chosen.len()))
        }
    }
}

/// The tests of the device crate that need a device: conformance, limits, the model, what others do.
fn device(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let plan = Plan {
        zns: device_shapes()?,
        null_blk_module: true,
        modules: ["sd_mod", "scsi_debug add_host=0"].map(str::to_owned).to_vec(),
        tools: vec![tool(cache, "blkzone")?],
        timeout_seconds: 1800,
        ..Plan::new()
    };
    let arguments = ["--include-ignored", "--test-threads=1"].map(str::to_owned);
    let ended = plan.run(cache, path(&programs.device_tests), &arguments, Show::Nothing)?;
    print!("{}", ended.output);
    let mut tally = Tally::default();
    ended.output.lines().for_each(|line| tally.count_line(line));
    ensure!(ended.status == 0 && tally.failed == 0 && tally.passed > 0, "the device tests ended with {}", ended.status);
    Ok(tally.passed)
}

fn device_shapes() -> Result<Vec<Shape>> {
    let mut shapes = Vec::new();
    for shape in CONFORMANCE {
        let whole: Shape = shape.parse()?;
        shapes.extend([Shape { zone_capacity: whole.zone_size / 4 * 3, ..whole }, whole]);
    }
    for shape in LARGE {
        shapes.push(shape.parse()?);
    }
    Ok(shapes)
}

fn path(program: &Path) -> &str {
    program.to_str().expect("cargo's paths are UTF-8")
}
