//! `zonda device reset`.

use anyhow::Context;
use clap::Args;
use zonda_device::{DeviceUri, OpenMode, ZoneId, ZonedDevice};

use super::format::used_zones;
use crate::devices::{self, Data};
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  zonda device reset disk.zoned --zone 3 --zone 4      what is in these zones is gone
  zonda device reset disk.zoned --all                  a blank device, on which a store can be made

With --all, zones that are offline or read-only stay as they are; conventional ones of a disk count as offline.
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
    /// Empty all zones that can be emptied
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
        self.empty(&*device)
    }

    fn empty(&self, device: &dyn ZonedDevice) -> anyhow::Result<Exit> {
        self.zones.iter().try_for_each(|&zone| device.geometry().check_zone(ZoneId(zone)))?;
        let all = if self.all { used_zones(device)? } else { Vec::new() };
        for zone in self.zones.iter().copied().map(ZoneId).chain(all) {
            device.reset(zone).with_context(|| format!("cannot reset {zone}"))?;
        }
        device.flush()?;
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests {
    use zonda_device::{AlignedBuf, Geometry, Lba, MemDevice, ZoneState};

    use super::*;

    #[test]
    fn zones_that_cannot_be_emptied_keep_none_of_the_others_from_it() {
        let device = MemDevice::new(Geometry::new(64 << 10, 4)).unwrap();
        (0..4).for_each(|zone| device.write(Lba(zone * 16), &AlignedBuf::with_len(4096)).unwrap());
        device.retire(ZoneId(0), ZoneState::Offline).unwrap();
        device.retire(ZoneId(2), ZoneState::ReadOnly).unwrap();
        let reset = |zones: Vec<u32>, all| Reset { uri: String::new(), zones, all }.empty(&device);
        assert_eq!(reset(Vec::new(), true).unwrap(), Exit::Done);
        let states: Vec<_> = device.report(ZoneId(0), 4).unwrap().iter().map(|zone| zone.state).collect();
        assert_eq!(states, [ZoneState::Offline, ZoneState::Empty, ZoneState::ReadOnly, ZoneState::Empty]);
        assert!(reset(vec![0], false).is_err(), "who names one is told that it cannot be");
    }
}
