//! What a mount does not go on without: names that were recorded, and are not there any more.

use zonda_space::{JournalFound, Recovered, RecoveredZone, ZoneId};

use crate::options::JOURNAL;
use crate::{FileError, Result};

/// The generation of a store's first zone of a journal: before it comes the anchor.
const FIRST_JOURNAL_GENERATION: u64 = 2;

/// What opening found beside the zones that a mount reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beside {
    /// A zone that is not the journal's.
    other: Option<ZoneId>,
    /// Whether headers are damaged: their zones have numbers that nobody knows.
    is_damaged: bool,
}

impl Beside {
    pub(super) fn of(recovered: &Recovered) -> Self {
        let other = recovered.zones.iter().find(|zone| zone.stream != JOURNAL).map(|zone| zone.zone);
        Self { other, is_damaged: !recovered.damaged.is_empty() }
    }

    /// Refuses a store without a snapshot of its names that had one, and whose files would be taken for nobody's. A store that was being
    /// made has nothing but the beginning of its first one, or of several: no zone of it was ever reset.
    pub(super) fn refuse_lost_names(self, found: &JournalFound, zones: &[RecoveredZone]) -> Result<()> {
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
}
