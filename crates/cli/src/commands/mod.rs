//! All commands and how they are found.

mod backup;
mod check;
mod compact;
mod delete;
mod device;
mod dump;
mod fs;
mod get;
mod load;
mod put;
mod replay;
mod restore;
mod scan;
mod stat;
mod tree;
mod zones;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::{self, Exit};

/// Names of stores and devices, for `--help`; the whole table is in `docs/devices.md`.
const NAMES: &str = "\
Stores and devices are named by a path or a URI, with ?key=value&key=value behind:
  PATH, file:PATH   an ordinary file        mem:            memory
  zbd:/dev/NAME     a zoned block device    flash:PROFILE   a modelled SSD (`zonda device profiles`)
  hftl:URI          blocks on zones         conv:PROFILE    the same without zones (`zonda fs`)
Keys (docs/devices.md):
  block, zone_size, zone_capacity, zones, max_open, max_active, append_max shape a new device;
  layout=zones|blocks, direct=on|off|auto, queue=uring|sync|auto, full_length=on|off,
  populate=on|off; op=PERCENT for hftl:
";

/// An ordered key-value store for zoned flash and ordinary files.
#[derive(Parser, Debug)]
#[command(name = "zonda", version, after_help = format!("{NAMES}\n{}", exit::HELP), arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Load(load::Load),
    Get(get::Get),
    Put(put::Put),
    Delete(delete::Delete),
    Scan(scan::Scan),
    Stat(stat::Stat),
    #[command(subcommand)]
    Tree(tree::Tree),
    Zones(zones::Zones),
    Check(check::Check),
    Dump(dump::Dump),
    Compact(compact::Compact),
    Backup(backup::Backup),
    Restore(restore::Restore),
    #[command(subcommand)]
    Device(device::Device),
    #[command(subcommand)]
    Fs(fs::Fs),
    Bench(zonda_bench::cli::BenchArgs),
    Repro(zonda_bench::repro::cli::ReproArgs),
    Replay(replay::Replay),
}

/// The command line of this process; ends it where that is wrong, or only asks for help.
pub(crate) fn parse() -> Cli {
    let matches = flowed(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Runs the command that was asked for.
///
/// # Errors
/// Whatever it could not do.
pub(crate) fn run(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Load(load) => load.run(),
        Command::Get(get) => get.run(),
        Command::Put(put) => put.run(),
        Command::Delete(delete) => delete.run(),
        Command::Scan(scan) => scan.run(),
        Command::Stat(stat) => stat.run(),
        Command::Tree(tree) => tree.run(),
        Command::Zones(zones) => zones.run(),
        Command::Check(check) => check.run(),
        Command::Dump(dump) => dump.run(),
        Command::Compact(compact) => compact.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Device(device) => device.run(),
        Command::Fs(fs) => fs.run(),
        Command::Bench(bench) => Ok(zonda_bench::cli::run(bench).map(|()| Exit::Done)?),
        Command::Replay(replay) => replay.run(),
        Command::Repro(repro) => {
            let run = zonda_bench::repro::cli::run(repro, zonda_bench::contest::Engines::OWN, &["repro", "child"]);
            Ok(run.map(|()| Exit::Done)?)
        }
    }
}

/// What stands behind the help of all commands, as paragraphs of one line each: the source breaks them for whoever reads it, a terminal
/// where it ends.
fn flowed(command: clap::Command) -> clap::Command {
    let help = command.get_after_help().map(|help| paragraphs(&help.to_string()));
    let command = if let Some(help) = help { command.after_help(help) } else { command };
    command.mut_subcommands(flowed)
}

/// Joins lines of text. Those that begin with a space, examples and tables, stay lines.
fn paragraphs(help: &str) -> String {
    let (mut joined, mut last) = (String::new(), "");
    let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
    for line in help.lines() {
        joined.push(if is_text(last) && !last.ends_with(':') && is_text(line) { ' ' } else { '\n' });
        joined.push_str(line);
        last = line;
    }
    joined.trim_start_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Whoever opens the source breaks lines elsewhere than a terminal: both would be torn to pieces.
    #[test]
    fn paragraphs_fill_their_lines() {
        fn check(command: &mut clap::Command) {
            let help = command.render_long_help().to_string();
            for (line, next) in help.lines().zip(help.lines().skip(1)) {
                let are_text = [line, next].iter().all(|line| !line.is_empty() && !line.starts_with(' '));
                let word = next.split(' ').next().unwrap_or_default().chars().count();
                let is_full = line.ends_with(':') || line.chars().count() + 1 + word > 80;
                assert!(!are_text || is_full, "{}: {line:?} before {next:?}", command.get_name());
            }
            command.get_subcommands_mut().for_each(check);
        }
        let mut command = flowed(Cli::command().term_width(80));
        command.build();
        check(&mut command);
    }

    #[test]
    fn text_is_joined_and_examples_are_not() {
        let help = "Examples:\n  a\n  b\n\nOne line\nand its end.\n\nAnother:\n  c\nText";
        assert_eq!(paragraphs(help), "Examples:\n  a\n  b\n\nOne line and its end.\n\nAnother:\n  c\nText");
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
