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

use clap::{Parser, Subcommand};

use crate::exit::{self, Exit};

/// Names of stores and devices, for `--help`; the whole table is in `docs/devices.md`.
const NAMES: &str = "\
Stores and devices are named by a path or a URI, with ?key=value&key=value behind:
  PATH, file:PATH   an ordinary file        mem:            memory
  zbd:/dev/NAME     a zoned block device    flash:PROFILE   a modelled SSD (`zonda device profiles`)
  hftl:URI          blocks on zones         conv:PROFILE    a modelled conventional drive (`zonda fs`)
Keys (docs/devices.md): block, zone_size, zone_capacity, zones, max_open, max_active, append_max shape a new device;
  layout=zones|blocks, direct=on|off|auto, queue=uring|sync|auto, full_length=on|off, populate=on|off; op=PERCENT for hftl:
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
    }
}
