//! `zonda-testkit real`: lives of a store on a device.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Subcommand;
use zonda_device::{DeviceUri, OpenMode};
use zonda_testkit::real::{RealError, crash, overwrite, replay};

#[derive(Debug, Subcommand)]
pub(super) enum Real {
    /// Lives until the machine is reset; the last life checks everything
    Crash {
        /// URI of the store
        uri: String,
        /// Device that tells the next life what was acknowledged
        counter: PathBuf,
        /// Which life this is, from 1
        #[arg(long)]
        boot: u64,
        /// Lives before the last
        #[arg(long)]
        resets: u64,
    },
    /// Overwrites until zones were reset, reopens and reads everything
    Overwrite {
        /// URI of the store
        uri: String,
        /// Zones to be reset
        #[arg(long, default_value_t = 20)]
        resets: u64,
    },
    /// Records a life on an empty device and replays power cuts of it in a file
    Replay {
        /// URI of the device
        uri: String,
        /// The file
        file: PathBuf,
        /// Puts of the life
        #[arg(long, default_value_t = 3000)]
        puts: u64,
        /// Cuts
        #[arg(long, default_value_t = 15)]
        cuts: u64,
        /// Seed of the cuts
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Take no notice of flushes, which must lose something
        #[arg(long)]
        forget_flushes: bool,
    },
}

impl Real {
    /// True if nothing failed.
    pub(super) fn run(self, out: &mut dyn Write) -> io::Result<bool> {
        match self.live() {
            Ok(said) => {
                writeln!(out, "{said}")?;
                Ok(true)
            }
            Err(error) => {
                eprintln!("error: {error}");
                Ok(false)
            }
        }
    }

    fn live(self) -> Result<String, RealError> {
        match self {
            Self::Crash { uri, counter, boot, resets } => {
                crash::live(&uri, &counter, boot, resets).map(|()| "the last life has ended".to_owned())
            }
            Self::Overwrite { uri, resets } => overwrite::run(&uri, resets),
            Self::Replay { uri, file, puts, cuts, seed, forget_flushes } => {
                let device = uri.parse::<DeviceUri>()?.open_zoned(OpenMode::Open)?;
                replay::run(device, &file, &replay::Replays { puts, cuts, seed, forget_flushes })
            }
        }
    }
}
