//! `zonda device replay`: a modelled drive is given the commands of a trace again.

use std::path::PathBuf;

use clap::Args;

use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda device bench flash:zn540 --virtual --operation mixed --trace commands.txt
  zonda device replay flash:zn540 commands.txt
  zonda device replay 'flash:splitzns?scale=1/8' commands.txt

A trace is text, a command on a line: `120500 read 4096 8192`, `write AT BYTES STREAM`, `append ZONE BYTES`, `trim AT BYTES`,
`open|close|finish|reset ZONE`, `flush`, `report`; the time in nanoseconds in front. Each is given at its time, whether
or not earlier ones are answered. Zones that are read before they are written are full when it begins.";

/// Gives a modelled drive the commands of a trace
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// The drive, `flash:PROFILE`
    uri: String,
    /// The trace
    trace: PathBuf,
}

impl Replay {
    /// # Errors
    /// If the trace cannot be read, the drive is none, or it has not what a command is about.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        super::print(&zonda_bench::device::replay(&self.uri, &self.trace)?)
    }
}
