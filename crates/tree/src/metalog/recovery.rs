//! Recovery reads the MetaLog: first to find the newest complete checkpoint, then to apply it and what follows.

use zonda_pages::{AreaKind, PageStore, SegmentId};

use super::group::{Group, Groups};
use super::record::{MetaRecord, Records};
use crate::TreeError;

/// Where a checkpoint begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointStart {
    /// Its number.
    pub(crate) checkpoint: u64,
    /// The segment of the group with its `Begin`.
    segment: SegmentId,
    /// The group's first chunk.
    group: u64,
    /// Bytes of the group before the `Begin`.
    offset: usize,
}

/// What applying the MetaLog found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetaEnd {
    /// The number of the chunk that the next session writes first.
    pub(crate) next_chunk: u64,
    /// Records delivered.
    pub(crate) records: u64,
}

/// Where records and progress go.
pub(crate) trait MetaVisitor {
    /// A record, in stream order.
    ///
    /// # Errors
    /// Any: reading stops and returns it.
    fn record(&mut self, record: MetaRecord<'_>) -> Result<(), TreeError>;

    /// `done_bytes` of `total_bytes` were read.
    fn progress(&mut self, done_bytes: u64, total_bytes: u64) {
        let _ = (done_bytes, total_bytes);
    }
}

/// Finds the newest `Begin` whose `End` is there (pass 1). `None`: no checkpoint was ever completed.
///
/// A gap between old segments is no damage: of several released segments any may be gone after a crash. Neither is a
/// stream that begins anew: an interrupted creation was repeated.
///
/// # Errors
/// Those of the area; `Damaged` for whole chunks with impossible content, or when chunks are missing behind the newest
/// checkpoint.
pub(crate) fn newest_checkpoint(store: &dyn PageStore) -> Result<Option<CheckpointStart>, TreeError> {
    let mut search = Search::default();
    read_groups(store, SegmentId(0), &mut search)?;
    match (search.complete, search.missing_before) {
        (None, Some(number)) => {
            let why = format!("the chunks before number {number} are missing and no complete checkpoint follows");
            Err(TreeError::Damaged { what: "MetaLog", why })
        }
        (complete, _) => Ok(complete),
    }
}

#[derive(Default)]
struct Search {
    begun: Option<CheckpointStart>,
    complete: Option<CheckpointStart>,
    missing_before: Option<u64>,
}

impl GroupVisitor for Search {
    fn group(&mut self, group: Group<'_>) -> Result<(), TreeError> {
        if group.after_gap {
            let missing_before = (group.number > 0).then_some(group.number);
            *self = Self { missing_before, ..Self::default() };
        }
        let mut records = Records::new(&group.bytes[group.known..]);
        loop {
            let offset = group.bytes.len() - records.rest().len();
            match records.next().transpose()? {
                None => return Ok(()),
                Some(MetaRecord::Begin(begin)) => {
                    let (segment, group) = (group.segment, group.number);
                    self.begun = Some(CheckpointStart { checkpoint: begin.checkpoint, segment, group, offset });
                }
                Some(MetaRecord::End { checkpoint }) => {
                    let ended = self.begun.filter(|begun| begun.checkpoint == checkpoint);
                    self.complete = ended.or(self.complete);
                }
                Some(_) => {}
            }
        }
    }
}

/// Delivers every record from the checkpoint's `Begin` to the end of the stream (pass 2).
///
/// # Errors
/// Those of the area and of `visitor`; `Damaged` when chunks are missing.
pub(crate) fn replay_from(
    store: &dyn PageStore,
    start: &CheckpointStart,
    visitor: &mut dyn MetaVisitor,
) -> Result<MetaEnd, TreeError> {
    let mut apply = Apply { start, visitor, found: false, records: 0 };
    let next_chunk = read_groups(store, start.segment, &mut apply)?;
    Ok(MetaEnd { next_chunk, records: apply.records })
}

struct Apply<'a> {
    start: &'a CheckpointStart,
    visitor: &'a mut dyn MetaVisitor,
    /// The group with the checkpoint's `Begin` was reached.
    found: bool,
    records: u64,
}

impl GroupVisitor for Apply<'_> {
    fn group(&mut self, group: Group<'_>) -> Result<(), TreeError> {
        let is_start = group.number == self.start.group && group.segment == self.start.segment;
        self.found |= is_start;
        if !self.found {
            return Ok(());
        }
        if group.after_gap && !is_start {
            let why = format!("chunk {} does not follow those before it", group.number);
            return Err(TreeError::Damaged { what: "MetaLog", why });
        }
        let offset = if is_start { self.start.offset.max(group.known) } else { group.known };
        for record in Records::new(group.bytes.get(offset..).unwrap_or_default()) {
            self.visitor.record(record?)?;
            self.records += 1;
        }
        Ok(())
    }

    fn progress(&mut self, done_bytes: u64, total_bytes: u64) {
        self.visitor.progress(done_bytes, total_bytes);
    }
}

/// A pass over the groups.
trait GroupVisitor {
    fn group(&mut self, group: Group<'_>) -> Result<(), TreeError>;

    fn progress(&mut self, done_bytes: u64, total_bytes: u64) {
        let _ = (done_bytes, total_bytes);
    }
}

/// Reads all groups from segment `first` on; returns the number for the next group.
fn read_groups(store: &dyn PageStore, first: SegmentId, visitor: &mut dyn GroupVisitor) -> Result<u64, TreeError> {
    let area = store.area(AreaKind::Meta);
    let segments: Vec<_> = area.segments().into_iter().filter(|segment| segment.id >= first).collect();
    let total_bytes = segments.iter().map(|segment| segment.bytes).sum();
    let mut groups = Groups::default();
    let mut done_bytes = 0;
    for segment in segments {
        let mut failed = None;
        area.read_segment(segment.id, &mut |chunk| {
            failed = groups.push(segment.id, chunk.payload, &mut |group| visitor.group(group)).err();
            Ok(failed.is_none())
        })?;
        failed.map_or(Ok(()), Err)?;
        done_bytes += segment.bytes;
        visitor.progress(done_bytes, total_bytes);
    }
    Ok(groups.next())
}
