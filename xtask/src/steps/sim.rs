//! The simulator: the seeded model test with power cuts.

use std::hash::{BuildHasher, RandomState};

use anyhow::{Context, Result};
use clap::Args;

use crate::{metadata::Metadata, process, tally::Tally, workspace::Workspace};

const PACKAGE: &str = "zonda-testkit";

/// A seed that is the same in every run, so that a change that breaks it is seen at once.
const FIXED_SEED: u64 = 1;

/// Steps of one run: some tens of seconds on 2 cores.
const STEPS: u64 = 2000;

/// What to simulate.
#[derive(Args)]
pub(crate) struct SimArguments {
    /// Run this seed only [default: 1, then a random one that is printed]
    #[arg(long)]
    seed: Option<u64>,
    /// Operations of the model per run
    #[arg(long, default_value_t = STEPS)]
    steps: u64,
}

impl Default for SimArguments {
    fn default() -> Self {
        Self { seed: None, steps: STEPS }
    }
}

/// Runs the simulator once per seed. While the test kit builds no program there is nothing to run, and the summary
/// says so.
///
/// # Errors
/// When the model and the store disagree: the simulator prints how to replay.
pub(crate) fn run(workspace: &Workspace, tally: &mut Tally, arguments: &SimArguments) -> Result<()> {
    let metadata = Metadata::read(workspace)?;
    let testkit = metadata.package(PACKAGE).with_context(|| format!("the workspace has no {PACKAGE}"))?;
    if !testkit.has_binary() {
        println!("NOT RUN: {PACKAGE} builds no program yet");
        tally.not_run = 1;
        return Ok(());
    }
    for seed in seeds(arguments) {
        simulate(workspace, seed, arguments.steps)?;
        tally.passed += 1;
    }
    Ok(())
}

fn simulate(workspace: &Workspace, seed: u64, steps: u64) -> Result<()> {
    let (seed, steps) = (seed.to_string(), steps.to_string());
    let arguments = ["run", "--quiet", "--package", PACKAGE, "--", "sim", "--seed", &seed, "--steps", &steps];
    process::run(&mut process::cargo(workspace, arguments))
}

fn seeds(arguments: &SimArguments) -> Vec<u64> {
    match arguments.seed {
        Some(seed) => vec![seed],
        None => vec![FIXED_SEED, random_seed()],
    }
}

/// A fresh seed from the operating system, by way of the keys of the standard hasher. 32 bits are easier to retype.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_seed_is_the_only_one() {
        assert_eq!(seeds(&SimArguments { seed: Some(7), steps: 1 }), [7]);
        let default = seeds(&SimArguments::default());
        assert_eq!((default.len(), default[0]), (2, FIXED_SEED));
    }
}
