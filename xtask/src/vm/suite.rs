//! The step `vm-suite`: everything that needs a zoned block device, in virtual machines that have some.
//!
//! Where the machines cannot be had (no Debian, no way to its packages), the step says so and counts as not run. A
//! machine that runs and fails is a failure.

mod cargo;
mod crash;
mod scripts;

use std::path::Path;

use anyhow::{Result, ensure};
use clap::Args;

use self::cargo::Programs;
use super::{
    cache::Cache,
    devices::Shape,
    machine::{Plan, Show},
    tool,
};
use crate::{clock::Stopwatch, tally::Tally, workspace::Workspace};

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

/// Resets of a run.
const RESETS: u32 = 50;

/// What to run.
#[derive(Args, Clone, Debug)]
pub(crate) struct SuiteArguments {
    /// Guest resets in the middle of writes
    #[arg(long, default_value_t = RESETS)]
    resets: u32,
    /// Seed of the moments of the resets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the parts whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Default for SuiteArguments {
    fn default() -> Self {
        Self { resets: RESETS, seed: 1, only: None }
    }
}

type Part = fn(&Cache, &Programs, &SuiteArguments) -> Result<u64>;

/// What the suite consists of.
const PARTS: [(&str, Part); 7] = [
    ("device", device),
    ("cross-check", scripts::cross_check),
    ("requests", scripts::requests),
    ("refusals", scripts::refusals),
    ("store", scripts::store),
    ("volatile-cache", scripts::volatile_cache),
    ("crash", crash::resets),
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
    for (name, part) in PARTS {
        if arguments.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let watch = Stopwatch::start();
        tally.passed += part(&cache, &programs, arguments)?;
        println!("vm {name}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The tests of the device crate that need a device: conformance, limits, the model, what others do.
fn device(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let plan = Plan {
        zns: device_shapes()?,
        null_blk_module: true,
        modules: ["sd_mod", "scsi_debug add_host=0"].map(str::to_owned).to_vec(),
        tools: vec![tool(cache, "blkzone")?],
        timeout_seconds: 600,
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
