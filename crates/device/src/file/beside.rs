//! A device file that somebody else may be writing: what is known of its zones holds for a moment only.
//!
//! The writer's order is what a reader can hold on to. A zone's entry says "in use" before anything is written to the zone, and
//! "empty", durably, before its hole is punched. A read looks at the entry *before* the blocks and gives zeros where it says
//! "empty". So who reads blocks of a zone and afterwards its first block, and finds there what was there before, has seen the
//! blocks of one life of the zone: had it been reset in between, its first block would be zeros, or of the next life.
use std::time::Duration;

use zonda_rt::{Mutex, sleep};

use super::{
    host_file::HostFile,
    open::{self, Looking},
    zones::FileZones,
};
use crate::{
    DeviceError, Lba, Result, ZoneId, ZoneState,
    format::{self, ENTRY_BYTES, Entry, Header},
};

/// How often and how long apart something is read that may be torn because it is just being written.
const LOOKS_MAX: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// What never changes of the file: all else is read anew each time.
pub(crate) struct Beside {
    header: Header,
    /// One looks at a time: they would share the lock by which a writer is kept out, and who ends first would let it go.
    turn: Mutex<()>,
}

impl Beside {
    pub(super) fn new(header: Header) -> Self {
        Self { header, turn: Mutex::new(()) }
    }

    /// The zones of this moment, one after the other: they need not have been like this at once. The mark of a clean end counts
    /// only where nobody can begin to write while it and the table are read. Cost: as an opening after a crash.
    ///
    /// # Errors
    /// `Damaged` if that does not pass, `Truncated`, `Io`.
    pub(super) fn look(&self, file: &HostFile) -> Result<FileZones> {
        let _turn = self.turn.lock();
        let still = file.keep_still()?;
        let looking = if still.is_some() { Looking::Still } else { Looking::Beside };
        let (zones, _) = while_torn(|| open::look(file, &self.header, looking))?;
        Ok(zones)
    }

    /// How many of these blocks are to be read from the file; the rest is zeros. Above the write pointer of an active zone that
    /// is whatever is on its way there. Cost: reads one entry, through the page cache.
    ///
    /// # Errors
    /// `OutOfRange`, `Boundary`, `Offline`; as [`look`](Self::look).
    pub(super) fn readable_blocks(&self, file: &HostFile, at: Lba, blocks: u64) -> Result<u64> {
        let (zone, offset) = self.header.geometry.check_span(at, blocks)?;
        let entry = while_torn(|| self.entry(file, zone))?;
        match entry.state {
            ZoneState::Offline => Err(DeviceError::Offline { zone }),
            ZoneState::Empty => Ok(0),
            state if state.is_active() => Ok(blocks),
            _ => Ok(entry.written_blocks.saturating_sub(offset).min(blocks)),
        }
    }

    fn entry(&self, file: &HostFile, zone: ZoneId) -> Result<Entry> {
        let mut bytes = [0; ENTRY_BYTES];
        file.read_table(format::entry_offset(zone), &mut bytes)?;
        Entry::decode(&bytes, zone, self.header.geometry.zone_capacity_blocks)
    }
}

/// Looks again while what is seen does not have its checksum.
fn while_torn<T>(mut look: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..LOOKS_MAX {
        match look() {
            Err(DeviceError::Damaged { .. }) => sleep(PAUSE),
            looked => return looked,
        }
    }
    look()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_is_looked_at_again_and_what_is_damaged_is_told() {
        zonda_rt::sim::run(1, || {
            for torn in [0, 1, LOOKS_MAX - 1, LOOKS_MAX] {
                let mut looked = 0;
                let seen = while_torn(|| {
                    looked += 1;
                    let damaged = DeviceError::Damaged { what: "entry", offset: 0, reason: "torn" };
                    if looked > torn { Ok(()) } else { Err(damaged) }
                });
                let expected = (torn < LOOKS_MAX, (torn + 1).min(LOOKS_MAX));
                assert_eq!((seen.is_ok(), looked), expected, "{torn} times torn");
            }
        });
    }
}
