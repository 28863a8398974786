//! Zones of released segments of log and MetaLog: nobody reads them any more, so they wait for no reader and no commit.

use zonda_device::ZoneId;
use zonda_rt::atomic::Ordering;

use crate::PageError;
use crate::flusher::Flusher;
use crate::zone_table::Zone;

impl Flusher {
    /// Resets them; `true` if there were some, or another thread had just begun with them. Reclaim does this in each of its steps; who
    /// finds no zone for log or MetaLog does it himself, as reclaim may be late, in a long step, or waiting for him. Until it is done, the
    /// log that was written before a checkpoint and the log after it are there side by side, which the reserve has no room for. Cost: one
    /// pass over the zones, if there are some.
    ///
    /// A zone that is not reset, or that another thread is just finishing, is left to the next call.
    ///
    /// # Errors
    /// `Device` of a flush, or if the device does not even say what a zone is.
    pub(crate) fn reset_released(&self) -> Result<bool, PageError> {
        if self.released_zones.load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let Some(_resetting) = self.resetting.try_lock() else {
            drop(self.resetting.lock());
            return Ok(true);
        };
        let is_released =
            |zone: &Zone| zone.generation() != 0 && !zone.is_open() && !zone.is_kept() && zone.holds().only_records();
        let mut any = false;
        for (id, _) in self.zones.iter().filter(|(_, zone)| is_released(zone)) {
            any |= self.reset_zone(id)?;
        }
        self.note_space();
        if any {
            self.hope.renew();
            self.gate.wake();
        }
        Ok(any)
    }

    /// Resets a zone that nobody needs; `false`: the device did not, or another thread is just finishing it. Then it is what it was.
    ///
    /// # Errors
    /// As [`reset_released`](Self::reset_released).
    pub(crate) fn reset_zone(&self, id: ZoneId) -> Result<bool, PageError> {
        let _label = zonda_device::cut_label("reset");
        let zone = self.zones.of(id);
        let (generation, holds, is_condemned) = (zone.generation(), zone.holds(), zone.is_condemned());
        // Here, so that its failure is not taken for the zone's.
        self.space.newer_is_durable(generation)?;
        // Before the reset: as soon as it returns, the zone may be open again.
        zone.clear();
        let Err(error) = self.space.reset(id) else { return Ok(true) };
        zone.begin(generation, holds);
        zone.release_segment();
        if is_condemned {
            zone.condemn();
        }
        if !error.is_changing() {
            self.space.mark_bad(id)?;
        }
        Ok(false)
    }
}
