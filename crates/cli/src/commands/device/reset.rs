//! `zonda device reset`.

use anyhow::Context;
use clap::Args;
use zonda_device::{DeviceUri, OpenMode, ZoneId};

use crate::devices::{self, Data};
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda device reset disk.zoned --zone 3 --zone 4      what is in these zones is gone
  zonda device reset disk.zoned --all                  a blank device, on which a store can be made

A store that loses a zone is damaged.";

/// Empties zones, whatever is in them
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Reset {
    /// Path or URI of the device
    uri: String,
    /// A zone to empty; may be given several times
    #[arg(long = "zone", value_name = "NUMBER", required_unless_present = "all")]
    zones: Vec<u32>,
    /// Empty all zones
    #[arg(long, conflicts_with = "zones")]
    all: bool,
}

impl Reset {
    /// # Errors
    /// Those of opening and resetting; zones before are empty then.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let uri: DeviceUri = self.uri.parse()?;
        let device = devices::open_zoned(&uri, OpenMode::Open, Data::Kept)
            .with_context(|| format!("cannot open {}", self.uri))?;
        let count = device.geometry().zone_count;
        self.zones.iter().try_for_each(|&zone| device.geometry().check_zone(ZoneId(zone)))?;
        let all = if self.all { 0..count } else { 0..0 };
        for zone in self.zones.iter().copied().chain(all) {
            device.reset(ZoneId(zone)).with_context(|| format!("cannot reset zone {zone}"))?;
        }
        device.flush()?;
        Ok(Exit::Done)
    }
}
