//! The fuzz smoke: the fuzz targets on stable Rust, for a few seconds each.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::{
    process,
    programs::{self, SMOKE},
    tally::Tally,
    workspace::Workspace,
};

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

/// Runs `fuzz/src/bin/smoke.rs`, as many targets at a time as there are processors. (The fuzz crate's own tests are among the unit tests.)
///
/// # Errors
/// When an input makes a decoder panic, hang or allocate without bound (I10): the program prints how to replay it.
pub(crate) fn smoke(workspace: &Workspace, tally: &mut Tally, arguments: &FuzzArguments) -> Result<()> {
    let [smoke] = programs::build(workspace, [SMOKE])?;
    let mut command = Command::new(smoke);
    command.args(["--seconds", &arguments.seconds.to_string(), "--seed", &arguments.seed.to_string()]);
    if let Some(target) = &arguments.target {
        command.args(["--target", target]);
    }
    process::run_counting(&mut command, tally)
}
