//! Development tasks: `cargo xtask test` runs everything CI runs, in order; every step has its own subcommand.
//!
//! What is tested depends on the repository alone: no environment variable (`CI` least of all) changes it, and no chance.
//! Generated inputs that are to be new now and then come from a seed that every commit has of its own ([`seed`]).
#![forbid(unsafe_code)]

mod clock;
mod documents;
mod edges;
mod house;
mod lanes;
mod links;
mod machine;
mod metadata;
mod process;
mod programs;
mod seed;
mod source;
mod step;
mod steps;
mod tally;
mod vm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{step::Step, tally::Tally, workspace::Workspace};

/// Development tasks of Zonda. `cargo xtask test` runs everything CI runs.
#[derive(Parser)]
#[command(name = "cargo xtask", version, after_help = "Example:\n  cargo xtask test\n  cargo xtask sim --seed 42")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs everything CI runs, in order, and stops at the first step that fails
    Test,
    /// Checks that the machine has what the steps need; installs it where it can (rustup, apt as root)
    Setup,
    /// Installs the other engines that `zonda-compare` opens (apt as root); no other step needs them
    CompareDeps,
    /// Installs what the RocksDB plugin is built and tested with (apt as root); `setup` tries to
    RocksdbDeps,
    /// Tests the example for the crate `rocksdb`, which it fetches and builds with libclang (apt as root); no other step does
    RustCrate,
    /// Checks the formatting (`cargo fmt --check`)
    Fmt,
    /// Runs clippy on all targets; a warning is an error
    Clippy,
    /// Checks that no crate depends on a crate it must not know (the table: xtask/src/edges/table.rs)
    Edges,
    /// Checks that the repository stands alone; lists long files and functions
    House,
    /// Runs all unit, integration and documentation tests
    Unit,
    /// Runs the interleaving tests of every crate that has a `shuttle` feature
    Shuttle,
    /// Runs the seeded model test with power cuts on virtual time
    Sim(steps::sim::SimArguments),
    /// Runs tiny benchmarks and checks their report
    BenchSmoke,
    /// Feeds every decoder seeded random and mutated inputs for a few seconds (stable Rust)
    FuzzSmoke(steps::fuzz::FuzzArguments),
    /// Runs a program in a virtual machine that has zoned devices
    Vm(vm::VmArguments),
    /// Tests on zoned block devices in virtual machines; not run where there can be none
    VmSuite(vm::suite::SuiteArguments),
    /// Builds the documentation; a broken link is an error, in the documents of the repository too
    Doc,
}

/// Errors are shown without a backtrace, whatever `RUST_BACKTRACE` says: that is for the programs under test.
fn main() -> ExitCode {
    match run() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    let steps = match Arguments::parse().task {
        Task::Vm(arguments) => return vm::run(&arguments),
        Task::Test => all_steps(),
        task => vec![step_of(task)],
    };
    step::run(&workspace, &steps).map(|()| ExitCode::SUCCESS)
}

/// Every step, cheap ones first: a typo is found before the minutes of the tests are spent.
fn all_steps() -> Vec<Step> {
    let sim = steps::sim::SimArguments::default();
    let fuzz = steps::fuzz::FuzzArguments::default();
    [
        Task::Setup,
        Task::Fmt,
        Task::Edges,
        Task::House,
        Task::Clippy,
        Task::Unit,
        Task::Shuttle,
        Task::Sim(sim),
        Task::FuzzSmoke(fuzz),
        Task::VmSuite(vm::suite::SuiteArguments::default()),
        Task::Doc,
        Task::BenchSmoke,
    ]
    .into_iter()
    .map(step_of)
    .collect()
}

/// The step behind a subcommand. `Test` is not one step and `Vm` none: they never get here.
fn step_of(task: Task) -> Step {
    match task {
        Task::Test => unreachable!("`test` is the list of all steps"),
        Task::Vm(_) => unreachable!("`vm` passes a program's status through"),
        Task::Setup => Step::new("setup", machine::prepare),
        Task::CompareDeps => Step::new("compare-deps", machine::compared),
        Task::RocksdbDeps => Step::new("rocksdb-deps", machine::for_rocksdb),
        Task::RustCrate => Step::new("rust-crate", steps::unit::rust_crate),
        Task::Fmt => Step::new("fmt", steps::lint::fmt),
        Task::Clippy => Step::new("clippy", steps::lint::clippy),
        Task::Edges => Step::new("edges", edges::check),
        Task::House => Step::new("house", house::check),
        Task::Unit => Step::new("unit", steps::unit::unit),
        Task::Shuttle => Step::new("shuttle", steps::unit::shuttle),
        Task::Sim(arguments) => Step::new("sim", move |w: &Workspace, t: &mut Tally| steps::sim::run(w, t, &arguments)),
        Task::BenchSmoke => Step::new("bench-smoke", steps::bench::smoke),
        Task::FuzzSmoke(arguments) => {
            Step::new("fuzz-smoke", move |w: &Workspace, t: &mut Tally| steps::fuzz::smoke(w, t, &arguments))
        }
        Task::VmSuite(arguments) => {
            Step::new("vm-suite", move |w: &Workspace, t: &mut Tally| vm::suite::run(w, t, &arguments))
        }
        Task::Doc => Step::new("doc", steps::lint::doc),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn test_runs_every_subcommand_once() {
        let mut names: Vec<_> = all_steps().iter().map(|step| step.name).collect();
        names.extend(["test", "vm", "compare-deps", "rocksdb-deps", "rust-crate"]);
        names.sort_unstable();
        let arguments = Arguments::command();
        let mut subcommands: Vec<_> = arguments.get_subcommands().map(clap::Command::get_name).collect();
        subcommands.sort_unstable();
        assert_eq!(names, subcommands);
    }
}
