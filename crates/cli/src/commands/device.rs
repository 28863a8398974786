//! `zonda device`: devices without a store's eyes.

mod clone;
mod create;
mod format;
mod profiles;
mod replay;
mod report;
mod reset;

use clap::Subcommand;
use zonda_bench::device::DeviceBench;

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  zonda device create disk.zoned --zones 1024 --zone-size 16MiB --max-active 14
  zonda device report zbd:/dev/nvme0n1
  zonda device format zbd:/dev/nvme0n1 --force
  zonda device bench zbd:/dev/nvme0n1 --operation append --depth 32
  zonda device profiles
  zonda device bench flash:zn540 --virtual --json
  zonda device clone loaded.zoned run.zoned
  zonda device reset disk.zoned --all";

/// Makes, reports, empties and measures zoned devices
#[derive(Subcommand, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Device {
    Create(create::Create),
    Format(format::Format),
    Report(report::Report),
    Reset(reset::Reset),
    Bench(DeviceBench),
    Replay(replay::Replay),
    Profiles(profiles::Profiles),
    Clone(clone::Clone),
}

impl Device {
    /// # Errors
    /// Whatever the device answers.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Create(create) => create.run(),
            Self::Format(format) => format.run(),
            Self::Report(report) => report.run(),
            Self::Reset(reset) => reset.run(),
            Self::Bench(bench) => print(&bench.run()?),
            Self::Replay(replay) => replay.run(),
            Self::Profiles(profiles) => profiles.run(),
            Self::Clone(clone) => clone.run(),
        }
    }
}

/// Prints what a measurement found.
fn print(text: &str) -> anyhow::Result<Exit> {
    let mut out = Output::new();
    out.line(text)?;
    out.finish()?;
    Ok(Exit::Done)
}
