//! `zonda device`: devices without a store's eyes.

mod bench;
mod create;
mod format;
mod report;
mod reset;

use clap::Subcommand;

use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda device create disk.zoned --zones 1024 --zone-size 16MiB --max-active 14
  zonda device report zbd:/dev/nvme0n1
  zonda device format zbd:/dev/nvme0n1 --force
  zonda device bench zbd:/dev/nvme0n1 --operation append --depth 32
  zonda device reset disk.zoned --all";

/// Makes, reports, empties and measures zoned devices
#[derive(Subcommand, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Device {
    Create(create::Create),
    Format(format::Format),
    Report(report::Report),
    Reset(reset::Reset),
    Bench(bench::Bench),
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
            Self::Bench(bench) => bench.run(),
        }
    }
}
