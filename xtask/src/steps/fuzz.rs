//! The fuzz smoke: the fuzz targets on stable Rust, for a few seconds each.

use anyhow::Result;
use clap::Args;

use crate::{process, process::in_fuzz, tally::Tally, workspace::Workspace};

const SECONDS: u64 = 2;

/// How long and from where.
#[derive(Args)]
pub(crate) struct FuzzArguments {
    /// Seconds per target
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// Seed of the generated inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// This target only [default: all]
    #[arg(long)]
    target: Option<String>,
}

impl Default for FuzzArguments {
    fn default() -> Self {
        Self { seconds: SECONDS, seed: 1, target: None }
    }
}

/// Runs the fuzz crate's own tests, then `fuzz/src/bin/smoke.rs`.
///
/// # Errors
/// When an input makes a decoder panic, hang or allocate without bound (I10): the program prints how to replay it.
pub(crate) fn smoke(workspace: &Workspace, tally: &mut Tally, arguments: &FuzzArguments) -> Result<()> {
    process::run_counting(&mut in_fuzz(workspace, "test", &["--quiet"]), tally)?;
    let (seconds, seed) = (arguments.seconds.to_string(), arguments.seed.to_string());
    let smoke = ["--quiet", "--bin", "smoke", "--", "--seconds", &seconds, "--seed", &seed];
    let mut command = in_fuzz(workspace, "run", &smoke);
    if let Some(target) = &arguments.target {
        command.args(["--target", target]);
    }
    process::run_counting(&mut command, tally)
}
