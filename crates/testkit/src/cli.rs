//! The command line.

mod differential;
mod real;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use zonda_flash::drive::TimeMode;
use zonda_testkit::{
    Bug, Outcome, Trouble,
    campaign::{GroundKind, Settings, found, on_real_threads, simulate},
    world::CUT_POINTS,
};
use zonda_tree::Design;

/// Simulated runs against a model, with power cuts.
#[derive(Debug, Parser)]
#[command(name = "zonda-testkit", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs seeds one after the other and stops at the first that fails.
    Sim(Sim),
    /// One long life beside a map in memory: every answer is compared.
    Differential(differential::Long),
    /// Lives of a store on a device: what the virtual machine runs.
    #[command(subcommand)]
    Real(real::Real),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DesignName {
    /// Adaptive delta buffers.
    Adb,
    /// Whole pages are cached.
    Btree,
    /// Chains of records.
    Bdtree,
    /// Mini-pages in a circular buffer.
    Bftree,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FlashTime {
    /// Calls take as long as the model says.
    Timed,
    /// Calls return at once.
    Untimed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StoreName {
    /// On zones, the log among them.
    Zoned,
    /// On zones, and the log on a device of its own; the power of both goes at once.
    Split,
    /// In place, on blocks that are overwritten.
    InPlace,
    /// In place, and the log on a device of its own; the power of both goes at once.
    InPlaceSplit,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  zonda-testkit sim --seed 1 --steps 2000\n  \
    zonda-testkit sim --seed 1 --runs 300 --require-hits 20\n  zonda-testkit sim --runs 500 --bug flush-dropped")]
struct Sim {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Client operations of a run.
    #[arg(long, default_value_t = 1000)]
    steps: u64,
    /// Seeds to run.
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// The leaf buffer of all runs; else each draws its own.
    #[arg(long)]
    design: Option<DesignName>,
    /// Where the leaves of all runs lie; else each draws it.
    #[arg(long)]
    store: Option<StoreName>,
    /// Clients of all runs; else each draws its own number.
    #[arg(long)]
    clients: Option<u64>,
    /// Every value of all runs lies in the value log, whatever its length; else one run in ten draws that.
    #[arg(long)]
    separated: bool,
    /// The longest values take several chunks of the value log; none does else.
    #[arg(long)]
    long_values: bool,
    /// No store has a log, and each run one client; else one run in ten draws that.
    #[arg(long, conflicts_with = "bug")]
    no_log: bool,
    /// Run on threads of the operating system instead of simulated ones: nothing replays, but time is real.
    #[arg(long)]
    real_threads: bool,
    /// Seed this bug, and succeed when a run finds it: flush-dropped, reset-early, write-ahead, half-batch, stale-cache;
    /// none for a decorator without one, which no run may find.
    #[arg(long)]
    bug: Option<Bug>,
    /// Give the device the timing of a modelled SSD: in the run's time, or with answers at once.
    #[arg(long, value_name = "TIME")]
    flash: Option<FlashTime>,
    /// Fail if a cut point was hit less often; `turn`, which takes a ring, with --design bftree only.
    #[arg(long, value_name = "N")]
    require_hits: Option<u64>,
    /// Go on after failures and list them.
    #[arg(long)]
    keep_going: bool,
    /// Print every operation to standard error.
    #[arg(long)]
    verbose: bool,
}

impl Cli {
    /// Does what was asked.
    pub(crate) fn run(self) -> ExitCode {
        match self.run_to(&mut io::stdout()) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("error: cannot print: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// The same with what it prints on `out`; true if all went well.
    fn run_to(self, out: &mut dyn Write) -> io::Result<bool> {
        let sim = match self.task {
            Task::Sim(sim) => sim,
            Task::Differential(long) => return long.run(out),
            Task::Real(real) => return real.run(out),
        };
        if sim.bug.is_some() {
            // Panics are what a seeded bug may lead to: no news.
            std::panic::set_hook(Box::new(|_| {}));
        }
        sim.run(out)
    }
}

impl Sim {
    fn run(&self, out: &mut dyn Write) -> io::Result<bool> {
        let mut all = Outcome::default();
        let mut failures = 0;
        for run in 0..self.runs {
            match self.run_one(self.seed + run) {
                Ok(outcome) => all.add(&outcome),
                // On real threads no seed is the same without the bug.
                Err(trouble) if self.bug.is_some() && self.real_threads => return self.found(out, run + 1, &trouble),
                Err(_) if self.bug.is_some() => {
                    if let Some(trouble) = found(self.seed + run, &self.settings()) {
                        return self.found(out, run + 1, &trouble);
                    }
                    writeln!(out, "seed {} fails without the bug, too", self.seed + run)?;
                }
                Err(trouble) => {
                    self.print_failure(out, self.seed + run, &trouble)?;
                    failures += 1;
                    if !self.keep_going {
                        return Ok(false);
                    }
                }
            }
        }
        if let Some(bug) = self.bug {
            writeln!(out, "{bug}: NOT found in {} runs", self.runs)?;
            return Ok(false);
        }
        self.print(out, &all)?;
        writeln!(out, "{failures} of {} runs failed", self.runs)?;
        Ok(failures == 0 && self.has_hits(out, &all)?)
    }

    fn run_one(&self, seed: u64) -> Result<Outcome, Trouble> {
        if self.real_threads { on_real_threads(seed, &self.settings()) } else { simulate(seed, &self.settings()) }
    }

    fn settings(&self) -> Settings {
        let design = self.design.map(|name| match name {
            DesignName::Adb => Design::Adb,
            DesignName::Btree => Design::BTree,
            DesignName::Bdtree => Design::Deltas,
            DesignName::Bftree => Design::BfTree,
        });
        let flash = self.flash.map(|time| match time {
            FlashTime::Timed => TimeMode::Timed { k: 1 },
            FlashTime::Untimed => TimeMode::Untimed,
        });
        let ground = self.store.map(|name| match name {
            StoreName::Zoned => GroundKind::Zones,
            StoreName::Split => GroundKind::Split,
            StoreName::InPlace => GroundKind::Blocks,
            StoreName::InPlaceSplit => GroundKind::SplitBlocks,
        });
        Settings {
            steps: self.steps,
            design,
            ground,
            clients: self.clients,
            separated: self.separated,
            long_values: self.long_values,
            no_log: self.no_log,
            bug: self.bug,
            flash,
            verbose: self.verbose,
        }
    }

    fn found(&self, out: &mut dyn Write, runs: u64, trouble: &Trouble) -> io::Result<bool> {
        writeln!(out, "{}: found in run {runs}: {trouble}", self.bug.expect("a seeded bug was found"))?;
        Ok(true)
    }

    fn print_failure(&self, out: &mut dyn Write, seed: u64, trouble: &Trouble) -> io::Result<()> {
        writeln!(out, "seed {seed} failed at {trouble}")?;
        writeln!(out, "  replay: {}", self.replay(seed))
    }

    fn replay(&self, seed: u64) -> String {
        let design = self.design.and_then(|design| design.to_possible_value());
        let design = design.map(|name| format!(" --design {}", name.get_name())).unwrap_or_default();
        let store = self.store.and_then(|store| store.to_possible_value());
        let store = store.map(|name| format!(" --store {}", name.get_name())).unwrap_or_default();
        let clients = self.clients.map(|clients| format!(" --clients {clients}")).unwrap_or_default();
        let separated = if self.separated { " --separated" } else { "" };
        let long_values = if self.long_values { " --long-values" } else { "" };
        let no_log = if self.no_log { " --no-log" } else { "" };
        let flash = self.flash.and_then(|time| time.to_possible_value());
        let flash = flash.map(|name| format!(" --flash {}", name.get_name())).unwrap_or_default();
        let steps = self.steps;
        format!(
            "cargo run -p zonda-testkit -- sim --seed {seed} --steps {steps}{design}{store}{clients}{separated}{long_values}{no_log}{flash} \
             --verbose"
        )
    }

    fn print(&self, out: &mut dyn Write, all: &Outcome) -> io::Result<()> {
        writeln!(
            out,
            "{} runs from seed {}: {} operations, {} power cuts, {} failed calls, {} clean closes; {} unsynced changes survived, {} did not; \
             {} writes refused for space, {} of {} snapshots given up",
            self.runs,
            self.seed,
            all.steps,
            all.cuts,
            all.failures,
            all.closes,
            all.survived,
            all.lost,
            all.refused,
            all.given_up,
            all.looks
        )?;
        writeln!(out, "done: {:?}", all.done)?;
        writeln!(out, "{:<16} {:>8}", "cut point", "hits")?;
        all.hits.iter().try_for_each(|(point, hits)| writeln!(out, "{point:<16} {hits:>8}"))
    }

    fn has_hits(&self, out: &mut dyn Write, all: &Outcome) -> io::Result<bool> {
        let Some(least) = self.require_hits else { return Ok(true) };
        let hits = |point: &str| all.hits.get(point).copied().unwrap_or(0);
        // Of drawn designs few have a ring.
        let are_rings = matches!(self.design, Some(DesignName::Bftree));
        let required = CUT_POINTS.iter().filter(|point| are_rings || **point != "turn");
        let missed: Vec<_> = required.filter(|point| hits(point) < least).collect();
        for point in &missed {
            writeln!(out, "cut point '{point}' was hit {} times, {least} are required", hits(point))?;
        }
        Ok(missed.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_printed_is_an_error() {
        let cli = Cli::try_parse_from(["zonda-testkit", "sim", "--runs", "0"]).unwrap();
        let mut nowhere: &mut [u8] = &mut [];
        assert_eq!(cli.run_to(&mut nowhere).unwrap_err().kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn a_differential_run_needs_a_key() {
        assert!(Cli::try_parse_from(["zonda-testkit", "differential", "--keys", "0"]).is_err());
        assert!(Cli::try_parse_from(["zonda-testkit", "differential", "--keys", "1"]).is_ok());
    }
}
