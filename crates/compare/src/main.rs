//! `zonda-compare`: other engines beside this project's, in turns, each in a process of its own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use zonda_bench::repro::cli::{ReproArgs, RunArgs};
use zonda_bench::{Output, Result};
use zonda_compare::{engines, speed};

const EXAMPLES: &str = "\
Examples:
  zonda-compare engines                      which engines are here, and which package the others are in
  zonda-compare zkv-speed                    inserts, mixes, reads and scans against all of them
  zonda-compare zkv-speed --scale tiny --only zonda,RocksDB
  zonda-compare bftree-speed                 the Bf-Tree paper's set-up, scaled
  zonda-compare repro zkv-fig20              a figure of a paper that has other engines in it";

const REPRO_EXAMPLES: &str = "\
Examples:
  zonda-compare repro --list                   all experiments
  zonda-compare repro zkv-fig20                in minutes
  zonda-compare repro zkv-fig20 --scale tiny   seconds, to see that it works
  zonda-compare repro zkv-fig20 --resume       goes on where a run was stopped";

/// Runs other engines and this one on the same work.
#[derive(Parser, Debug)]
#[command(name = "zonda-compare", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Lists the engines, and what to install for those that are missing
    Engines,
    /// Speed, CPU time, bytes and memory on the same work, in turns
    ZkvSpeed(RunArgs),
    /// The Bf-Tree paper's set-up, scaled: get, update, mix and scan of 32 over Zipf 0.9
    BftreeSpeed(RunArgs),
    /// As `zonda repro`, with the other engines
    #[command(after_help = REPRO_EXAMPLES)]
    Repro(ReproArgs),
    /// The process that one engine is measured in
    #[command(hide = true)]
    Child {
        /// The store, as JSON
        plan: String,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Engines => engines::list(&mut Output::new(None)?),
        Command::ZkvSpeed(arguments) => arguments.run(&[&speed::ZKV], engines::ALL, &["child"]),
        Command::BftreeSpeed(arguments) => arguments.run(&[&speed::BFTREE], engines::ALL, &["child"]),
        Command::Repro(arguments) => zonda_bench::repro::cli::run(arguments, engines::ALL, &["child"]),
        Command::Child { plan } => zonda_bench::contest::serve(&plan, engines::ALL),
    }
}
