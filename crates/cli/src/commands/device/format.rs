//! `zonda device format`.

use anyhow::{Context, bail};
use clap::Args;
use zonda_device::{DeviceUri, OpenMode, ZoneId, ZoneReport, ZoneState, ZonedDevice};
use zonda_space::{Space, SpaceError};

use crate::devices::{self, Data};
use crate::exit::Exit;
use crate::progress;

const EXAMPLES: &str = "\
Examples:
  zonda device format zbd:/dev/nvme0n1              checks that nothing is written
  zonda device format zbd:/dev/nvme0n1 --force      empties it, whatever is on it

Afterwards a store can be made: the first command that writes to it makes it.";

/// Makes a device ready for a store: every zone empty
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Format {
    /// Path or URI of the device
    uri: String,
    /// Empty zones that hold something; what they hold is gone
    #[arg(long)]
    force: bool,
}

impl Format {
    /// # Errors
    /// If something is written and may not be emptied; those of opening and resetting.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let uri: DeviceUri = self.uri.parse()?;
        let device = devices::open_zoned(&uri, OpenMode::Open, Data::Kept)
            .with_context(|| format!("cannot open {}", self.uri))?;
        let used = used_zones(&*device)?;
        if !used.is_empty() && !self.force {
            let (used, zones) = (used.len(), device.geometry().zone_count);
            bail!("{}: {used} of {zones} zones hold {}; --force empties them", self.uri, content(&*device));
        }
        let bar = progress::of_items("emptying zones");
        for (done, zone) in (0..).zip(&used) {
            device.reset(*zone).with_context(|| format!("cannot reset {zone}"))?;
            progress::show(&bar, done, used.len() as u64);
        }
        bar.finish_and_clear();
        device.flush()?;
        Ok(Exit::Done)
    }
}

/// Zones that hold something, or are open, and can be emptied: not those that are offline, as conventional ones of a disk are, or
/// read-only.
///
/// # Errors
/// Those of the device.
pub(super) fn used_zones(device: &dyn ZonedDevice) -> anyhow::Result<Vec<ZoneId>> {
    let zones = device.report(ZoneId(0), device.geometry().zone_count)?;
    let can_be_emptied =
        |zone: &&ZoneReport| !matches!(zone.state, ZoneState::Empty | ZoneState::Offline | ZoneState::ReadOnly);
    Ok(zones.iter().filter(can_be_emptied).map(|zone| zone.zone).collect())
}

/// What is on the device, for the refusal.
fn content(device: &dyn ZonedDevice) -> String {
    match Space::identify(device) {
        Ok(identity) => format!("store {}", identity.store),
        Err(SpaceError::TwoStores { .. }) => "more than one store".to_owned(),
        Err(_) => "something that is no store".to_owned(),
    }
}
