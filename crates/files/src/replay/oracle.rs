//! The policy that knows when every file will die: how far the others have to go.

use std::collections::HashMap;

use crate::FileId;
use crate::catalogue::Catalogue;
use crate::change::Change;
use crate::policy::{Candidate, Choice, Choices, Decision, Policy, Rule};
use crate::trace::{TraceEvent, TraceRecord};

/// A file goes into the open zone whose first file dies nearest to it in time; if that is further away than a zone takes to be
/// written, into an empty one. Time is counted in bytes that are appended.
///
/// It is no proven minimum (that is a bin packing problem), but it knows what no policy can know.
#[derive(Clone, Debug)]
pub struct Oracle {
    deaths: HashMap<FileId, u64>,
    window: u64,
}

impl Oracle {
    /// Of the files of a trace, for zones that hold so many bytes of it.
    #[must_use]
    pub fn of(trace: &[TraceRecord], zone_bytes: u64) -> Self {
        Self { deaths: deaths(trace), window: zone_bytes }
    }

    /// What was never deleted dies at the end of time, all of it together.
    fn death(&self, file: FileId) -> u64 {
        self.deaths.get(&file).copied().unwrap_or(u64::MAX)
    }
}

impl Policy for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let death = self.death(candidate.file);
        let distances = choices.open.iter().map(|view| (self.death(view.first).abs_diff(death), view));
        let nearest = distances.min_by_key(|(distance, view)| (*distance, view.writers, view.opened));
        let choice = match nearest {
            Some((distance, view)) if distance <= self.window || !choices.may_open => Choice::Open(view.zone),
            _ => Choice::New,
        };
        choice.by(Rule::Death)
    }
}

/// When each file lost its last name, in bytes appended before.
fn deaths(trace: &[TraceRecord]) -> HashMap<FileId, u64> {
    let (mut names, mut clock, mut deaths) = (Catalogue::default(), 0_u64, HashMap::new());
    for record in trace {
        if let TraceEvent::Append { bytes, .. } = record.event {
            clock = clock.saturating_add(bytes);
        }
        if is_used_twice(&names, &record.event) {
            continue;
        }
        let Some(change) = change_of(&record.event) else { continue };
        let dropped = names.apply(&change).ok().and_then(|dropped| dropped.file);
        deaths.extend(dropped.map(|file| (file, clock)));
    }
    deaths
}

/// The change of names that an event is.
pub(super) fn change_of(event: &TraceEvent) -> Option<Change> {
    let modified_seconds = 0;
    match event.clone() {
        TraceEvent::MakeDirectory { path } => Some(Change::MakeDirectory { path }),
        TraceEvent::Create { file, tags, path } | TraceEvent::Existing { file, tags, path, .. } => {
            Some(Change::Create { file, tags, modified_seconds, path })
        }
        TraceEvent::Link { file, path } => Some(Change::Link { file, path }),
        TraceEvent::Rename { from, to } => Some(Change::Rename { from, to }),
        TraceEvent::Unlink { path } => Some(Change::Unlink { path }),
        _ => None,
    }
}

/// Whether a file is made that is there: no store does so.
pub(super) fn is_used_twice(names: &Catalogue, event: &TraceEvent) -> bool {
    match event {
        TraceEvent::Create { file, .. } | TraceEvent::Existing { file, .. } => names.inode(*file).is_some(),
        _ => false,
    }
}
