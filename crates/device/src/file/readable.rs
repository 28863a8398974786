//! How far zones are written, for reads, which so take no lock: whoever holds the device's lock may be growing the file.
use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::{DeviceError, Geometry, Lba, Result, ZoneId, ZoneMachine, ZoneState};

/// Stands for a zone that is offline.
const OFFLINE: u64 = u64::MAX;

/// Of each zone how many blocks hold data, as the zone machine says; brought up to date under the device's lock.
#[derive(Debug)]
pub(crate) struct Readable(Box<[AtomicU64]>);

impl Readable {
    /// What `machine` says now.
    pub(crate) fn of(machine: &ZoneMachine) -> Self {
        Self((0..machine.geometry().zone_count).map(|zone| AtomicU64::new(of(machine, ZoneId(zone)))).collect())
    }

    /// Follows the machine, which may have changed zone `zone`.
    pub(crate) fn follow(&self, machine: &ZoneMachine, zone: ZoneId) {
        self.0[zone.0 as usize].store(of(machine, zone), Ordering::Release);
    }

    /// As [`ZoneMachine::readable_blocks`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn blocks(&self, geometry: &Geometry, at: Lba, blocks: u64) -> Result<u64> {
        let (zone, offset) = geometry.check_span(at, blocks)?;
        match self.0[zone.0 as usize].load(Ordering::Acquire) {
            OFFLINE => Err(DeviceError::Offline { zone }),
            written => Ok(written.saturating_sub(offset).min(blocks)),
        }
    }
}

fn of(machine: &ZoneMachine, zone: ZoneId) -> u64 {
    if machine.state(zone) == ZoneState::Offline { OFFLINE } else { machine.written_blocks(zone) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_the_machine_says() {
        let mut machine = ZoneMachine::new(Geometry::new(16 * 4096, 4));
        let readable = Readable::of(&machine);
        let grant = machine.begin_append(ZoneId(1), 5).unwrap();
        readable.follow(&machine, ZoneId(1));
        machine.end_write(grant, true).unwrap();
        for (at, blocks) in [(0, 4), (16, 4), (16, 16), (19, 4), (21, 1), (30, 2), (30, 3), (64, 1)] {
            let (said, known) =
                (readable.blocks(machine.geometry(), Lba(at), blocks), machine.readable_blocks(Lba(at), blocks));
            assert_eq!(format!("{said:?}"), format!("{known:?}"), "{blocks} blocks at {at}");
        }
        machine.retire(ZoneId(1), ZoneState::Offline);
        readable.follow(&machine, ZoneId(1));
        assert!(matches!(readable.blocks(machine.geometry(), Lba(16), 1), Err(DeviceError::Offline { .. })));
    }
}
