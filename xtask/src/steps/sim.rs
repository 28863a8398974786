//! The simulator: the seeded model test with power cuts.

use std::{path::Path, process::Command};

use anyhow::Result;
use clap::Args;

use crate::{
    lanes, process,
    programs::{self, TESTKIT},
    seed,
    tally::Tally,
    workspace::Workspace,
};

/// A seed that is the same in every run, so that a change that breaks it is seen at once.
const FIXED_SEED: u64 = 1;

/// Steps of one run: some tens of seconds on 2 cores.
const STEPS: u64 = 2000;

/// What to simulate.
#[derive(Args)]
pub(crate) struct SimArguments {
    /// Run this seed only [default: 1, and one that every commit has of its own]
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

/// Runs the simulator once per seed, the seeds at the same time: a run is one thread's work.
///
/// # Errors
/// When the model and the store disagree: the simulator prints how to replay.
pub(crate) fn run(workspace: &Workspace, tally: &mut Tally, arguments: &SimArguments) -> Result<()> {
    let [testkit] = &programs::build(workspace, [TESTKIT])?;
    let seeds = seeds(workspace, arguments);
    let ended = lanes::map(lanes::processors(), &seeds, |seed| simulate(testkit, *seed, arguments.steps));
    tally.passed += ended.iter().filter(|ended| ended.is_ok()).count() as u64;
    tally.failed += ended.iter().filter(|ended| ended.is_err()).count() as u64;
    ended.into_iter().collect()
}

fn simulate(testkit: &Path, seed: u64, steps: u64) -> Result<()> {
    let mut command = Command::new(testkit);
    process::run(command.args(["sim", "--seed", &seed.to_string(), "--steps", &steps.to_string()]))
}

fn seeds(workspace: &Workspace, arguments: &SimArguments) -> Vec<u64> {
    match arguments.seed {
        Some(seed) => vec![seed],
        None => vec![FIXED_SEED, seed::of_commit(workspace)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_seed_is_the_only_one() {
        let workspace = Workspace::find().unwrap();
        assert_eq!(seeds(&workspace, &SimArguments { seed: Some(7), steps: 1 }), [7]);
        let default = seeds(&workspace, &SimArguments::default());
        assert_eq!((default.len(), default[0]), (2, FIXED_SEED));
    }
}
