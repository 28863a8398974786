//! What of a drive a command can miss: zones that are not there, bytes past an end.
//!
//! A model takes what a device has allowed and does not look again; the commands of a trace nobody has allowed. Whether a zone is full,
//! open or split when a command comes to it is not looked at: that is the device's, and a trace may begin in the middle of its life.
use crate::model::Command;

/// The places of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Of a conventional drive: so many bytes.
    Blocks(u64),
    /// Of a zoned drive.
    Zones {
        /// How many zones.
        zones: u32,
        /// Bytes from one to the next.
        size_bytes: u64,
        /// Bytes of one that can be written.
        capacity_bytes: u64,
        /// Into how many subzones one can be split; 0 if it cannot.
        subzones: u16,
    },
}

impl Places {
    /// Whether the drive has what a command is about.
    ///
    /// # Errors
    /// What it has not.
    pub fn check(&self, command: &Command) -> Result<(), String> {
        match *command {
            Command::Read { bytes: 0, .. }
            | Command::ReadTold { bytes: 0, .. }
            | Command::Write { bytes: 0, .. }
            | Command::Append { bytes: 0, .. }
            | Command::AppendSubzone { bytes: 0, .. }
            | Command::WriteWindow { bytes: 0, .. } => Err("no bytes".to_owned()),
            Command::Flush | Command::Report => Ok(()),
            Command::Read { at, bytes } | Command::ReadTold { at, bytes, .. } => self.range(at, bytes, false),
            Command::Write { at, bytes, .. } => self.range(at, bytes, true),
            Command::Trim { at, bytes } => self.on_drive(at, bytes),
            Command::Open { zone } | Command::Close { zone } | Command::Finish { zone } | Command::Reset { zone } => {
                self.zone(zone, 0)
            }
            Command::Append { zone, bytes } | Command::CommitWindow { zone, bytes } => self.zone(zone, bytes),
            Command::WriteWindow { zone, bytes, committed_bytes } => self.zone(zone, bytes.max(committed_bytes)),
            Command::Split { zone } | Command::FinishSplit { zone } | Command::Join { zone } => {
                self.subzone(zone, 0, 0)
            }
            Command::FinishSubzone { zone, index } | Command::ResetSubzone { zone, index } => {
                self.subzone(zone, index, 0)
            }
            Command::AppendSubzone { zone, index, bytes } => self.subzone(zone, index, bytes),
        }
    }

    fn on_drive(&self, at: u64, bytes: u64) -> Result<(), String> {
        let end = match *self {
            Self::Blocks(end) => end,
            Self::Zones { zones, size_bytes, .. } => u64::from(zones) * size_bytes,
        };
        match at.checked_add(bytes) {
            Some(last) if last <= end => Ok(()),
            _ => Err(format!("{bytes} bytes from byte {at}: the drive has {end} bytes")),
        }
    }

    /// What is read or written lies on the drive, and in one zone; what is written, in its capacity.
    fn range(&self, at: u64, bytes: u64, is_write: bool) -> Result<(), String> {
        self.on_drive(at, bytes)?;
        let Self::Zones { size_bytes, capacity_bytes, .. } = *self else { return Ok(()) };
        let room = if is_write { capacity_bytes } else { size_bytes };
        if at % size_bytes + bytes > room {
            return Err(format!(
                "{bytes} bytes from byte {} of zone {}: it has {room}",
                at % size_bytes,
                at / size_bytes
            ));
        }
        Ok(())
    }

    fn zone(&self, zone: u32, bytes: u64) -> Result<(), String> {
        match *self {
            Self::Blocks(_) => Err("a conventional drive has no zones".to_owned()),
            Self::Zones { zones, .. } if zone >= zones => Err(format!("zone {zone} of a drive with {zones} zones")),
            Self::Zones { capacity_bytes, .. } if bytes > capacity_bytes => {
                Err(format!("{bytes} bytes to zone {zone}: it takes {capacity_bytes}"))
            }
            Self::Zones { .. } => Ok(()),
        }
    }

    fn subzone(&self, zone: u32, index: u16, bytes: u64) -> Result<(), String> {
        self.zone(zone, 0)?;
        let Self::Zones { capacity_bytes, subzones, .. } = *self else { return Ok(()) };
        if index >= subzones {
            return Err(match subzones {
                0 => "the drive does not split zones".to_owned(),
                many => format!("subzone {index} of a zone with {many}"),
            });
        }
        let room = capacity_bytes / u64::from(subzones);
        if bytes > room {
            return Err(format!("{bytes} bytes to subzone {index} of zone {zone}: it takes {room}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceEntry;

    fn check(places: Places, command: &str) -> Result<(), String> {
        places.check(&format!("0 {command}").parse::<TraceEntry>().unwrap().command)
    }

    #[test]
    fn what_is_not_there_is_named() {
        let zones = Places::Zones { zones: 4, size_bytes: 1000, capacity_bytes: 800, subzones: 2 };
        let whole = Places::Zones { zones: 4, size_bytes: 1000, capacity_bytes: 800, subzones: 0 };
        let blocks = Places::Blocks(4000);
        for (places, fits, does_not, why) in [
            (zones, "reset 3", "reset 4", "zone 4 of a drive with 4"),
            (zones, "read 0 1", "read 0 0", "no bytes"),
            (zones, "append 3 800", "append 0 801", "takes 800"),
            (zones, "read 3000 1000", "read 3000 1001", "has 4000 bytes"),
            (zones, "read 900 100", "read 900 101", "byte 900 of zone 0"),
            (zones, "write 2700 100 0", "write 2700 101 0", "byte 700 of zone 2"),
            (zones, "trim 900 3100", "trim 18446744073709551615 2", "the drive has"),
            (zones, "write-window 3 8 8", "write-window 0 8 801", "takes 800"),
            (zones, "commit-window 3 8", "commit-window 4 8", "zone 4"),
            (zones, "append-sub 3 1 400", "append-sub 3 1 401", "takes 400"),
            (zones, "reset-sub 3 1", "finish-sub 3 2", "subzone 2 of a zone with 2"),
            (whole, "finish 3", "split 3", "does not split"),
            (blocks, "read 900 3100", "read 900 3101", "has 4000 bytes"),
            (blocks, "write 0 4000 7", "append 0 1", "no zones"),
            (blocks, "flush", "join 0", "no zones"),
        ] {
            check(places, fits).unwrap();
            let said = check(places, does_not).unwrap_err();
            assert!(said.contains(why), "{does_not}: {said}");
        }
    }
}
