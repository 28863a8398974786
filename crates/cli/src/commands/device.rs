//! `zonda device`: devices without a store's eyes.

mod create;
mod report;
mod reset;

use clap::Subcommand;

use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda device create disk.zoned --zones 1024 --zone-size 16MiB --max-active 14
  zonda device report disk.zoned
  zonda device reset disk.zoned --all";

/// Makes, reports and resets zoned devices
#[derive(Subcommand, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Device {
    Create(create::Create),
    Report(report::Report),
    Reset(reset::Reset),
}

impl Device {
    /// # Errors
    /// Whatever the device answers.
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Create(create) => create.run(),
            Self::Report(report) => report.run(),
            Self::Reset(reset) => reset.run(),
        }
    }
}
