//! The command line of `zonda repro`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::drive::{DRIVE_EXPERIMENTS, DriveExperiment, DriveRunner};
use super::{EXPERIMENTS, Experiment, Runner, Scale};
use crate::contest::{self, Engines};
use crate::experiment::ChildProgram;
use crate::output::Output;
use crate::race::Track;
use crate::report::Table;
use crate::{BenchError, Result};

const EXAMPLES: &str = "\
Examples:
  zonda repro --list                              all experiments
  zonda repro zkv-table3                          table 3 of the ZKV paper, ours beside it: minutes
  zonda repro zkv-fig11 --scale tiny              seconds, to see that it works
  zonda repro zkv-fig16 --resume                  goes on where a run was stopped
  zonda repro bftree-fig12 --point '16 %'         one point, the others as they were measured before
  zonda repro splitzns-fig13 --seeds 3 --resume   three seeds; those that are there are taken
  zonda repro splitzns-fig13 --print-options      options of RocksDB, the paper's and ours
  zonda repro zns-fig1                            modelled drives overwritten, as in the ZNS paper
  zonda repro all --scale tiny --out /tmp/repro";

/// Runs an experiment of a paper and shows ours beside the paper's.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct ReproArgs {
    #[command(subcommand)]
    child: Option<ReproCommand>,
    /// Name of the experiment, or `all`
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Lists the experiments
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// How an experiment is run.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// How much to do
    #[arg(long, value_enum, default_value_t = Scale::Laptop)]
    scale: Scale,
    /// Directory of tables and figures
    #[arg(long, value_name = "DIRECTORY", default_value = "repro")]
    out: PathBuf,
    /// File of the results, instead of NAME-SCALE.json in the directory
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Takes points that the results have already
    #[arg(long)]
    resume: bool,
    /// Seed of everything random, up to 2^53, which JSON keeps
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=1 << 53))]
    seed: u64,
    /// As many runs, with the seeds from --seed on, for experiments with stock `db_bench` in dilated time: shown are the mean, the least
    /// and the most. With --resume those that the results have are taken from there, and the others added
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Where stores are made; decides which file system is measured. Modelled drives and stock `db_bench` use TMPDIR, or memory
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// Only these designs, by the names of the table; on modelled drives and with stock `db_bench`, points whose names begin so
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Only this point of the x axis, by its name in the table; may be given again. The others are kept as they are in the results
    #[arg(long = "point", value_name = "NAME")]
    points: Vec<String>,
    /// Shows the options of RocksDB, the paper's beside ours, instead of running: for experiments with stock `db_bench`
    #[arg(long)]
    print_options: bool,
    /// Takes keys of 8 bytes from this file of the SOSD benchmark instead of computing uniform ones; points that have a generator in
    /// place of such a file are left out then
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum ReproCommand {
    /// The process that one store is measured in
    #[command(hide = true)]
    Child {
        /// The store, as JSON
        plan: String,
    },
}

/// Runs what the command line asks for, with `engines`; children are started with `child_words` before their plan.
///
/// # Errors
/// `Usage` for an experiment that does not exist; what [`Runner::run`] returns.
pub fn run(arguments: ReproArgs, engines: Engines, child_words: &[&str]) -> Result<()> {
    if let Some(ReproCommand::Child { plan }) = &arguments.child {
        return contest::serve(plan, engines);
    }
    if arguments.list {
        return list(&mut Output::new(None)?);
    }
    let (stores, drives) = chosen(arguments.name.as_deref().unwrap_or_default())?;
    if arguments.run.json.is_some() && stores.len() + drives.len() > 1 {
        let expected = "one experiment: each has a file of its own".to_owned();
        return Err(BenchError::Usage { option: "--json", given: "all".into(), expected });
    }
    if arguments.run.print_options {
        let name = arguments.name.unwrap_or_default();
        return print_options(&name, &drives, arguments.run.scale, &mut Output::new(None)?);
    }
    if let (Some(keys), true) = (&arguments.run.keys, stores.is_empty()) {
        let expected = "an experiment on stores".to_owned();
        return Err(BenchError::Usage { option: "--keys", given: keys.display().to_string(), expected });
    }
    let of_drives = arguments.run.run_drives(&drives);
    // What failed does not keep the others from being run.
    if !matches!(of_drives, Ok(()) | Err(BenchError::Failed(_))) {
        return of_drives;
    }
    all_of([of_drives, arguments.run.run(&stores, engines, child_words)].into_iter())
}

/// Runs experiments one after the other, also behind one of which parts failed.
///
/// # Errors
/// The first other than `Failed`, at once; in the end `Failed` with all that did.
fn all_of(outcomes: impl Iterator<Item = Result<()>>) -> Result<()> {
    let mut failed = Vec::new();
    for outcome in outcomes {
        match outcome {
            Err(BenchError::Failed(why)) => failed.push(why),
            other => other?,
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(BenchError::Failed(failed.join("; "))) }
}

impl RunArgs {
    /// Runs experiments on modelled drives, in virtual time.
    fn run_drives(&self, experiments: &[&DriveExperiment]) -> Result<()> {
        if experiments.is_empty() {
            return Ok(());
        }
        let (scale, out, json) = (self.scale, self.out.clone(), self.json.clone());
        let (only, points) = (self.only.clone(), self.points.clone());
        let seeds = (self.seed..self.seed.saturating_add(self.seeds)).collect();
        let runner = DriveRunner { scale, out, json, resume: self.resume, only, points, seeds };
        let mut output = Output::new(None)?;
        all_of(experiments.iter().map(|experiment| runner.run(experiment, &mut output).map(drop)))
    }

    /// Runs `experiments` one after the other.
    ///
    /// # Errors
    /// What [`Runner::run`] returns.
    pub fn run(self, experiments: &[&Experiment], engines: Engines, child_words: &[&str]) -> Result<()> {
        if experiments.is_empty() {
            return Ok(());
        }
        if self.print_options {
            let expected = "an experiment with stock db_bench".to_owned();
            return Err(BenchError::Usage { option: "--print-options", given: "this experiment".into(), expected });
        }
        if self.seeds > 1 {
            let expected = "1: these experiments run stores in turns, with one seed".to_owned();
            return Err(BenchError::Usage { option: "--seeds", given: self.seeds.to_string(), expected });
        }
        let program = Some(ChildProgram::current(child_words)?);
        let track = Track { engines, program, directory: self.directory, seed: self.seed };
        let (scale, out, json, resume, only) = (self.scale, self.out, self.json, self.resume, self.only);
        let runner = Runner { track, scale, out, json, resume, only, points: self.points, keys: self.keys };
        let mut output = Output::new(None)?;
        output.command(self.seed)?;
        all_of(experiments.iter().map(|experiment| runner.run(experiment, &mut output).map(drop)))
    }
}

/// Experiments on stores, and on modelled drives.
type Chosen = (Vec<&'static Experiment>, Vec<&'static DriveExperiment>);

fn chosen(name: &str) -> Result<Chosen> {
    if name == "all" {
        return Ok((EXPERIMENTS.to_vec(), DRIVE_EXPERIMENTS.to_vec()));
    }
    let stores: Vec<_> = EXPERIMENTS.into_iter().filter(|experiment| experiment.name == name).collect();
    let drives: Vec<_> = DRIVE_EXPERIMENTS.into_iter().filter(|experiment| experiment.name == name).collect();
    if !stores.is_empty() || !drives.is_empty() {
        return Ok((stores, drives));
    }
    let known = EXPERIMENTS.iter().map(|known| known.name).chain(DRIVE_EXPERIMENTS.iter().map(|known| known.name));
    Err(BenchError::Usage {
        option: "experiment",
        given: name.to_owned(),
        expected: format!("one of {}", known.collect::<Vec<_>>().join(", ")),
    })
}

/// Both lists of options of the live experiments.
fn print_options(name: &str, drives: &[&DriveExperiment], scale: Scale, output: &mut Output) -> Result<()> {
    let Some(experiment) = drives.iter().find(|experiment| experiment.is_live()) else {
        let expected = "an experiment with stock db_bench, splitzns-fig13 for example".to_owned();
        return Err(BenchError::Usage { option: "--print-options", given: name.to_owned(), expected });
    };
    let mut table = Table::new(&["option", "paper, or default", "ours"]);
    experiment.rocksdb_options(scale).into_iter().for_each(|line| table.row(line));
    output.line(format!("{} at scale {}", experiment.name, scale.name()))?;
    output.line(table.render())
}

fn list(output: &mut Output) -> Result<()> {
    let mut table = Table::new(&["name", "source", "what"]).with_text(&["source", "what"]);
    for experiment in EXPERIMENTS {
        table.row([experiment.name, experiment.source, experiment.title].map(str::to_owned));
    }
    for experiment in DRIVE_EXPERIMENTS {
        table.row([experiment.name, experiment.source, experiment.title].map(str::to_owned));
    }
    output.line(table.render())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        repro: ReproArgs,
    }

    fn parse(words: &str) -> std::result::Result<ReproArgs, clap::Error> {
        Program::try_parse_from(std::iter::once("repro").chain(words.split_whitespace())).map(|program| program.repro)
    }

    #[test]
    fn the_command_line_of_the_issue_is_understood() {
        let arguments = parse("zkv-fig11 --scale tiny --out d --json f --seed 3 --resume --only ZKV,zonda").unwrap();
        assert_eq!((arguments.run.scale, arguments.run.only.len(), arguments.run.resume), (Scale::Tiny, 2, true));
        assert!(parse("--list").unwrap().list);
        let seeds = parse("splitzns-fig13 --seed 2 --seeds 3").unwrap().run;
        assert_eq!((seeds.seed, seeds.seeds, parse("splitzns-fig13").unwrap().run.seeds), (2, 3, 1));
        assert!(parse("splitzns-fig13 --seeds 0").is_err());
        assert!(parse("splitzns-fig3 --seed 18446744073709551615").is_err());
        assert!(parse("splitzns-fig13 --print-options").unwrap().run.print_options);
        assert!(matches!(parse("child {}").unwrap().child, Some(ReproCommand::Child { .. })));
        assert!(parse("").is_err() && parse("zkv-fig11 --scale huge").is_err());
    }

    #[test]
    fn options_of_rocksdb_are_shown_for_those_who_have_it() {
        let mut output = Output::to(Box::new(std::io::sink()), None);
        let of = |name| chosen(name).unwrap().1;
        assert!(print_options("", &of("splitzns-fig13"), Scale::Laptop, &mut output).is_ok());
        assert!(print_options("", &of("zns-fig1"), Scale::Laptop, &mut output).is_err());
    }

    #[test]
    fn what_failed_keeps_no_other_from_being_run() {
        let mut run = Vec::new();
        let mut outcome = |name: &'static str, outcome: Result<()>| {
            run.push(name);
            outcome
        };
        let failed = |why: &str| Err(BenchError::Failed(why.to_owned()));
        let of = vec![("a", failed("one")), ("b", Ok(())), ("c", failed("two"))];
        let said = all_of(of.into_iter().map(|(name, of)| outcome(name, of))).unwrap_err().to_string();
        assert_eq!((run.len(), said.as_str()), (3, "failed: one; two"));
        let broken = || Err(BenchError::Child("gone".to_owned()));
        assert!(matches!(all_of([broken(), Ok(())].into_iter()), Err(BenchError::Child(_))));
    }

    #[test]
    fn unknown_experiments_are_answered_with_the_known_ones() {
        assert_eq!(chosen("all").unwrap().0.len(), EXPERIMENTS.len());
        assert_eq!(chosen("zkv-table3").unwrap().0[0].name, "zkv-table3");
        assert_eq!(chosen("zns-fig5").unwrap().1[0].name, "zns-fig5");
        assert!(chosen("zkv-table2").unwrap_err().to_string().contains("zkv-reclaim"));
    }
}
