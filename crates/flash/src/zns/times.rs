//! How long commands of a drive that splits zones took, by what they were for.
use std::collections::HashMap;

use super::{ReadOrigin, ZonedModel};
use crate::core::Nanos;
use crate::histogram::Histogram;
use crate::model::{Answer, Command};

/// What a command was for. Reads and writes of split zones are told from those of wide ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedWork {
    /// A write or append to a wide zone.
    WideWrite,
    /// An append to a subzone.
    SubzoneWrite,
    /// A read of a wide zone by a query.
    WideQuery,
    /// A read of a subzone by a query.
    SubzoneQuery,
    /// A read of a wide zone by a compaction.
    WideCompaction,
    /// A read of a subzone by a compaction.
    SubzoneCompaction,
    /// A read by somebody who does not say who it is: cleaning, for one.
    OtherRead,
    /// A reset of a zone or a subzone.
    Reset,
    /// Finishing a zone.
    Finish,
}

impl TimedWork {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::WideWrite,
        Self::SubzoneWrite,
        Self::WideQuery,
        Self::SubzoneQuery,
        Self::WideCompaction,
        Self::SubzoneCompaction,
        Self::OtherRead,
        Self::Reset,
        Self::Finish,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WideWrite => "wide_write",
            Self::SubzoneWrite => "subzone_write",
            Self::WideQuery => "wide_query",
            Self::SubzoneQuery => "subzone_query",
            Self::WideCompaction => "wide_compaction_read",
            Self::SubzoneCompaction => "subzone_compaction_read",
            Self::OtherRead => "other_read",
            Self::Reset => "reset",
            Self::Finish => "finish",
        }
    }
}

/// Commands on their way, and the times of those that were answered, in the drive's time.
#[derive(Debug, Default)]
pub(super) struct Times {
    on_their_way: HashMap<u64, (TimedWork, Nanos)>,
    taken: [Histogram; TimedWork::ALL.len()],
}

impl Times {
    pub(super) fn answered(&mut self, answers: &[Answer]) {
        for answer in answers {
            if let Some((work, since)) = self.on_their_way.remove(&answer.token) {
                self.taken[work as usize].record(answer.at.saturating_sub(since));
            }
        }
    }
}

impl ZonedModel {
    /// Remembers since when a command is on its way, on drives that split zones.
    pub(super) fn note_submitted(&mut self, now: Nanos, token: u64, command: Command) {
        if self.splits.is_none() {
            return;
        }
        let is_split = |at: u64| self.is_split(self.split(at).0);
        let work = match command {
            Command::Write { .. } | Command::Append { .. } => TimedWork::WideWrite,
            Command::AppendSubzone { .. } => TimedWork::SubzoneWrite,
            Command::ReadTold { at, origin, .. } => match (origin, is_split(at)) {
                (ReadOrigin::Query, false) => TimedWork::WideQuery,
                (ReadOrigin::Query, true) => TimedWork::SubzoneQuery,
                (ReadOrigin::Compaction, false) => TimedWork::WideCompaction,
                (ReadOrigin::Compaction, true) => TimedWork::SubzoneCompaction,
            },
            Command::Read { .. } => TimedWork::OtherRead,
            Command::Reset { .. } | Command::ResetSubzone { .. } => TimedWork::Reset,
            Command::Finish { .. } => TimedWork::Finish,
            _ => return,
        };
        self.times.on_their_way.insert(token, (work, now));
    }

    /// How long commands for such a work took, in the drive's time; nothing on drives that do not split zones.
    #[must_use]
    pub fn times_of(&self, work: TimedWork) -> &Histogram {
        &self.times.taken[work as usize]
    }
}
