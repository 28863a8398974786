//! `zonda device profiles`: the modelled drives that come with the program.

use clap::Args;

use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda device profiles                    one line for each
  zonda device profiles zn540              its text, to be changed and used as flash:FILE.toml";

/// Lists modelled drives, or prints one's profile
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Profiles {
    /// Name of a profile
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Profiles {
    /// # Errors
    /// For a profile that does not exist.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        super::print(&zonda_bench::profiles::show(self.name.as_deref(), self.json)?)
    }
}
