//! What a mount does not go on without: names that were recorded, and the ends of logs and of the journal, which nothing but their zones
//! knows of. A zone that is offline does not say what was in it. It was none of these if
//!
//! 1. the last snapshot says that it was offline already, with nothing in it that counts, or
//! 2. it holds tables that the journal names, and logs do not share zones with these.
//!
//! The journal goes on in one zone until that is full, so it ends in the last that it has if that is partly written.

use zonda_device::DeviceError;
use zonda_space::{JournalFound, Recovered, RecoveredZone, Space, StreamId, StreamSet, ZoneId, ZoneUse};

use crate::catalogue::Catalogue;
use crate::options::{DATA, JOURNAL, LOG, META, RELOCATED};
use crate::walk::Lost;
use crate::{FileError, Result};

/// The generation of a store's first zone of a journal: before it comes the anchor.
const FIRST_JOURNAL_GENERATION: u64 = 2;

/// What opening found beside the zones that a mount reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    /// A zone that is not the journal's.
    other: Option<ZoneId>,
    /// Whether headers are damaged: their zones have numbers that nobody knows.
    is_damaged: bool,
    /// Zones that are lost.
    offline: Vec<ZoneId>,
}

impl Beside {
    pub(super) fn of(recovered: &Recovered) -> Self {
        let other = recovered.zones.iter().find(|zone| zone.stream != JOURNAL).map(|zone| zone.zone);
        Self { other, is_damaged: !recovered.damaged.is_empty(), offline: recovered.offline.clone() }
    }

    /// Refuses a store without a snapshot of its names that had one, and whose files would be taken for nobody's. A store that was being
    /// made has nothing but the beginning of its first one, or of several: no zone of it was ever reset.
    pub(super) fn refuse_lost_names(&self, found: &JournalFound, zones: &[RecoveredZone]) -> Result<()> {
        if found.has_snapshot {
            return Ok(());
        }
        let first = zones.iter().filter(|zone| zone.stream == JOURNAL).min_by_key(|zone| zone.generation);
        let is_later =
            |zone: &&RecoveredZone| found.has_records || !self.is_damaged && zone.generation > FIRST_JOURNAL_GENERATION;
        let recognised = zones.iter().find(|zone| zone.stream != JOURNAL).map(|zone| zone.zone);
        match self.other.or(recognised).or(first.filter(is_later).map(|zone| zone.zone)) {
            Some(zone) => Err(FileError::JournalLost { zone: zone.0 }),
            None => Ok(()),
        }
    }

    /// Refuses a journal whose end may be in a zone that is offline: what it says before is older than what is in other zones.
    pub(super) fn refuse_lost_end(&self, found: &JournalFound, zones: &[RecoveredZone]) -> Result<()> {
        let last = zones.iter().filter(|zone| zone.stream == JOURNAL).max_by_key(|zone| zone.generation);
        if last.is_none_or(|last| last.state == ZoneUse::Partial) {
            return Ok(());
        }
        match self.may_have_held(&[JOURNAL], found).next() {
            Some(zone) => Err(FileError::JournalOffline { zone: zone.0 }),
            None => Ok(()),
        }
    }

    /// A zone that is offline and may have held the end of a log.
    pub(super) fn lost_of_logs(&self, found: &JournalFound, catalogue: &Catalogue, space: &Space) -> Option<Lost> {
        let holds_tables = |streams: StreamSet| streams.contains(DATA) || streams.contains(RELOCATED);
        let are_alone = |stream| space.share_of(stream).is_ok_and(|share| !holds_tables(share.streams));
        let are_alone = are_alone(LOG) && are_alone(META);
        let is_of_tables = |zone: ZoneId| {
            let mut tables = catalogue.files().filter(|(_, inode)| !inode.tags.kind.is_chunked());
            tables.any(|(_, inode)| inode.extents.iter().any(|extent| space.zone_of(extent.block) == zone))
        };
        let zone = self.may_have_held(&[LOG, META], found).find(|&zone| !are_alone || !is_of_tables(zone))?;
        let (block, cause) = (space.first_block(zone), DeviceError::Offline { zone }.into());
        Some(Lost { zone, generation: u64::MAX, block, cause })
    }

    /// Zones that are offline and in which something of a stream may be lost that counts. Earlier versions do not say which they know of.
    fn may_have_held<'a>(
        &'a self,
        streams: &'a [StreamId],
        found: &'a JournalFound,
    ) -> impl Iterator<Item = ZoneId> + use<'a> {
        let known = found.offline.as_ref();
        let may = move |zone: ZoneId, stream: &StreamId| {
            known.is_some_and(|known| known.held_by(zone).is_none_or(|held| held.contains(*stream)))
        };
        self.offline.iter().copied().filter(move |&zone| streams.iter().any(|stream| may(zone, stream)))
    }
}
