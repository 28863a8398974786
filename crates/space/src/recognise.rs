//! Gives zones whose header is damaged their name back, after what their client finds behind it.

use zonda_device::ZoneId;

use crate::format::GENERATION_MAX;
use crate::table::Slot;
use crate::{RecoveredZone, Result, Space, SpaceError, StreamId, StreamSet, ZoneUse};

/// What a zone was before its header was damaged, as the frames in it tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The stream after which it was named, or one whose data it holds.
    pub stream: StreamId,
    /// Every stream whose data it may hold.
    pub holds: StreamSet,
    /// Number of its allocation.
    pub generation: u64,
}

impl Space {
    /// Enters a [damaged](crate::Recovered::damaged) zone as what its client has recognised it as, so that what it holds counts
    /// again. Returns it as a zone of an earlier life, or `None` if another zone has this generation, or none ever had: what was
    /// found there is a copy, or no store's.
    ///
    /// Nobody goes on in it: it counts as sealed, and where the device has it active it is finished when its token is needed. A subzone
    /// that is partly written is said to be so, and its client seals it. Writes nothing.
    ///
    /// # Errors
    /// `WrongState` for a zone that is not damaged.
    pub fn recognise(&self, zone: ZoneId, found: Recognised) -> Result<Option<RecoveredZone>> {
        let Recognised { stream, holds, generation } = found;
        let mut table = self.core.table.lock();
        let state = table.slot(zone).state;
        let is_damaged = state == ZoneUse::Damaged || state == ZoneUse::ReadOnly && table.slot(zone).stream.is_none();
        if !is_damaged {
            return Err(SpaceError::WrongState { zone, state: state.name(), needed: "damaged" });
        }
        let is_given_out = (1..=GENERATION_MAX).contains(&generation);
        if !is_given_out || table.slots().chain(table.subzones()).any(|(_, slot)| slot.generation == generation) {
            return Ok(None);
        }
        let is_active = table.is_active(zone);
        let is_partial = is_active || table.slot(zone).unfinished;
        let state = match state {
            ZoneUse::Damaged if is_partial => ZoneUse::Partial,
            ZoneUse::Damaged => ZoneUse::Sealed,
            lost => lost,
        };
        table.note_generation(generation);
        let slot = Slot { state, stream: Some(stream), holds, generation, unfinished: is_active, ..Slot::FREE };
        table.set(zone, slot, is_active);
        drop(table);
        let written_blocks = self.core.gauges.written_blocks(zone);
        let state = if is_active { ZoneUse::Sealed } else { state };
        Ok(Some(RecoveredZone { zone, stream, holds, generation, written_blocks, state }))
    }
}
