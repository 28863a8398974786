//! Who knows when every file will die: how far the policies have to go.

use std::collections::HashMap;
use std::sync::Arc;

use super::{ReplayOptions, ReplayReport, replay};
use crate::catalogue::Catalogue;
use crate::change::Change;
use crate::policy::{Candidate, Choice, Choices, Decision, NAMES, Policy, Rule, by_name};
use crate::trace::{TraceEvent, TraceRecord};
use crate::{FileError, FileId, Result};

/// Name of the oracle on command lines and in reports.
pub const ORACLE: &str = "oracle";

/// Windows that the oracle tries, in quarters of what a zone holds.
const WINDOWS_QUARTERS: [u64; 5] = [1, 4, 12, 40, 120];

/// A file goes into the open zone whose first file dies nearest to it in time; if that is further away than a zone takes to be
/// written, into an empty one. Time is counted in bytes that are appended.
///
/// One window does not suit every device: a narrow one keeps more zones half full.
#[derive(Clone, Debug)]
struct ByDeath {
    deaths: Arc<HashMap<FileId, u64>>,
    window: u64,
}

/// Replays a trace for somebody who knows it from end to end, and so can try everything: placement by the known time of
/// death with five windows, and every policy ([`NAMES`]). What copied least is the oracle's.
///
/// By this it is never above any policy under the same options. It is no proven minimum: that is a bin packing problem, and its
/// cleaning is that of the options, which knows no deaths.
///
/// # Errors
/// As [`replay`]; `NoSpace` only if nobody finds a place for the trace.
pub fn replay_oracle(trace: &[TraceRecord], options: &ReplayOptions) -> Result<ReplayReport> {
    let (deaths, zone_bytes) = (Arc::new(deaths(trace)), options.zone_bytes / options.scale.max(1));
    let by_death = WINDOWS_QUARTERS.into_iter().map(|quarters| -> Arc<dyn Policy> {
        Arc::new(ByDeath { deaths: Arc::clone(&deaths), window: zone_bytes.saturating_mul(quarters) / 4 })
    });
    let known = NAMES.into_iter().map(by_name).collect::<Result<Vec<_>>>()?;
    let mut best: Option<Result<ReplayReport>> = None;
    for policy in by_death.chain(known) {
        let found = replay(trace, &ReplayOptions { policy, ..options.clone() });
        match (&found, &best) {
            (Err(FileError::NoSpace { .. }), Some(_)) => {}
            (Err(FileError::NoSpace { .. }), None) | (Ok(_), None | Some(Err(_))) => best = Some(found),
            (Ok(new), Some(Ok(old))) if new.copied_bytes < old.copied_bytes => best = Some(found),
            (Ok(_), _) => {}
            (Err(_), _) => return found,
        }
    }
    let report = best.expect("there are policies")?;
    Ok(ReplayReport { policy: ORACLE, ..report })
}

impl ByDeath {
    /// What was never deleted dies at the end of time, all of it together.
    fn death(&self, file: FileId) -> u64 {
        self.deaths.get(&file).copied().unwrap_or(u64::MAX)
    }
}

impl Policy for ByDeath {
    fn name(&self) -> &'static str {
        ORACLE
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
