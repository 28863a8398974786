//! Recovery reads the log.

use std::collections::BTreeMap;
use std::ops::Range;

use zerocopy::FromBytes;
use zonda_pages::{Area, AreaKind, PageStore, Segment};

use super::session::SessionTable;
use super::unit::{Unit, Units, records};
use crate::TreeError;
use crate::format::{LogChunkHeader, LogPartHeader, split_header};
use crate::record::Record;
use crate::relocate::is_damage;

/// The most bytes of units that may wait for a missing number. A sound log stays below it: what is out of order was
/// collected in one round, at most 64 instances' rings or longest batches.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// What replay found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayEnd {
    /// One above the last number that was delivered, or `from`: where the next session begins.
    pub(crate) next_sequence: u64,
    /// Records delivered.
    pub(crate) records: u64,
    /// Bytes of log that were read.
    pub(crate) bytes: u64,
    /// Where damage is borne and there is some: operations behind `next_sequence` that are known to have been durable. More may have been.
    pub(crate) left_out: Option<u64>,
}

/// Where records and progress go.
pub(crate) trait ReplayVisitor {
    /// A record, in sequence order. All records of a batch come in a row, or none.
    ///
    /// # Errors
    /// Any: replay stops and returns it.
    fn record(&mut self, sequence: u64, record: Record<'_>) -> Result<(), TreeError>;

    /// `done_bytes` of `total_bytes` of the log were read.
    fn progress(&mut self, done_bytes: u64, total_bytes: u64) {
        let _ = (done_bytes, total_bytes);
    }
}

/// What of the log is replayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// The first number.
    pub(crate) from: u64,
    /// A checkpoint that had begun says that every number below was durable.
    pub(crate) durable_before: u64,
    /// A missing number that was durable is no error: what comes before it is delivered.
    pub(crate) up_to_damage: bool,
}

/// Delivers the longest run of records without a gap that begins at number `from`; nothing, if `from` is not there.
///
/// Reads all segments, oldest first, one chunk at a time, and puts what several instances wrote in order. Behind a gap that is
/// proven (a chunk says up to which number everything precedes it) nothing counts any more. Records of a session count
/// only within the session's numbers; chunks of sessions that `sessions` does not know (older than the checkpoint) are
/// skipped. A unit that straddles `from` is delivered whole.
///
/// A missing number is a torn tail, unless something says that it was durable: a later chunk, a later session, which began where
/// recovery had found the end, or a checkpoint that had begun (`durable_before`, from the MetaLog).
///
/// # Errors
/// Those of the area and of `visitor`; `Damaged` for a whole chunk with impossible content, for a missing number that was durable and
/// for a session that the MetaLog has lost.
pub(crate) fn replay(
    store: &dyn PageStore,
    sessions: &SessionTable,
    stretch: Stretch,
    visitor: &mut dyn ReplayVisitor,
) -> Result<ReplayEnd, TreeError> {
    let Stretch { from, durable_before, up_to_damage } = stretch;
    let area = store.area(AreaKind::Log);
    let segments = area.segments();
    let total_bytes = segments.iter().map(|segment| segment.bytes).sum();
    let end = ReplayEnd { next_sequence: from, records: 0, bytes: 0, left_out: None };
    let durable_before = durable_before.max(sessions.newest_first_sequence());
    let waiting = BTreeMap::new();
    let gap = false;
    let mut replay = Replay {
        sessions,
        visitor,
        waiting,
        waiting_bytes: 0,
        total_bytes,
        gap,
        durable_before,
        up_to_damage,
        damaged: false,
        end,
    };
    segments.into_iter().try_for_each(|segment| replay.segment(area, segment))?;
    replay.ended()
}

/// A unit that came before its turn.
#[derive(PartialEq, Eq)]
struct Waiting {
    last: u64,
    ops: Vec<u8>,
}

impl Waiting {
    /// Its bytes and about what the map adds.
    fn cost_bytes(&self) -> usize {
        64 + self.ops.len()
    }
}

fn twice(sequence: u64) -> TreeError {
    TreeError::Damaged { what: "log", why: format!("number {sequence} is there twice") }
}

struct Replay<'a> {
    sessions: &'a SessionTable,
    visitor: &'a mut dyn ReplayVisitor,
    /// By first number.
    waiting: BTreeMap<u64, Waiting>,
    waiting_bytes: usize,
    total_bytes: u64,
    /// A number is missing for ever: the rest is read only for what it says of durability.
    gap: bool,
    /// Every number below it was durable.
    durable_before: u64,
    up_to_damage: bool,
    /// Something was found that ended the replay of a segment.
    damaged: bool,
    end: ReplayEnd,
}

impl Replay<'_> {
    fn segment(&mut self, area: &dyn Area, segment: Segment) -> Result<(), TreeError> {
        let mut failed = None;
        let read = area.read_segment(segment.id, &mut |chunk| {
            failed = self.chunk(chunk.payload).err();
            Ok(failed.is_none())
        });
        match failed.map_or(read.map_err(TreeError::from), Err) {
            // What the device does not read, or what is whole and makes no sense. Numbers that follow it elsewhere are not its next ones.
            Err(error) if self.up_to_damage && is_damage(&error) => {
                (self.gap, self.damaged) = (true, true);
                Ok(())
            }
            read => read,
        }
    }

    fn chunk(&mut self, payload: &[u8]) -> Result<(), TreeError> {
        self.end.bytes += payload.len() as u64;
        self.visitor.progress(self.end.bytes, self.total_bytes);
        let (header, mut rest) = split_header::<LogChunkHeader>(payload)?;
        let Some(numbers) = self.sessions.range(header.session.get()) else {
            return self.unknown(header.session.get());
        };
        self.durable_before = self.durable_before.max(header.durable_before.get().min(numbers.end));
        if self.gap {
            return Ok(());
        }
        for _ in 0..header.parts.get() {
            let (units, after) = split_part(rest)?;
            for unit in units {
                self.unit(&unit?, &numbers)?;
            }
            rest = after;
        }
        self.gap |= self.end.next_sequence < header.complete_before.get().min(numbers.end);
        Ok(())
    }

    /// A session's record is durable before its first chunk is written. So a session that nobody knows is older than the checkpoint,
    /// or its record is lost.
    fn unknown(&self, session: u32) -> Result<(), TreeError> {
        if session < self.sessions.next_number() {
            return Ok(());
        }
        let why = format!("session {session} has a log but no record; the newest one recorded is {}", {
            self.sessions.next_number() - 1
        });
        Err(TreeError::Damaged { what: "MetaLog", why })
    }

    /// Whether the end is one: nothing behind it was durable.
    fn ended(self) -> Result<ReplayEnd, TreeError> {
        let (next, durable) = (self.end.next_sequence, self.durable_before);
        if next >= durable && !self.damaged {
            return Ok(self.end);
        }
        if self.up_to_damage {
            return Ok(ReplayEnd { left_out: Some(durable.saturating_sub(next)), ..self.end });
        }
        let why = format!("operation {next} cannot be read, and everything below {durable} was durable");
        Err(TreeError::Damaged { what: "log", why })
    }

    fn unit(&mut self, unit: &Unit<'_>, numbers: &Range<u64>) -> Result<(), TreeError> {
        let of_session = numbers.contains(&unit.first) && numbers.contains(&unit.last);
        if !of_session || unit.last < self.end.next_sequence {
            return Ok(());
        }
        if unit.first > self.end.next_sequence {
            return self.wait(unit);
        }
        if unit.first < self.end.next_sequence && self.end.records > 0 {
            return Err(twice(unit.first));
        }
        self.deliver(unit.first, unit.last, unit.ops)?;
        while let Some(waiting) = self.waiting.remove(&self.end.next_sequence) {
            self.waiting_bytes -= waiting.cost_bytes();
            self.deliver(self.end.next_sequence, waiting.last, &waiting.ops)?;
        }
        Ok(())
    }

    /// The same unit again counts once: a chunk that landed although its write was reported failed is there twice.
    fn wait(&mut self, unit: &Unit<'_>) -> Result<(), TreeError> {
        let waiting = Waiting { last: unit.last, ops: unit.ops.to_vec() };
        if let Some(before) = self.waiting.get(&unit.first) {
            return if *before == waiting { Ok(()) } else { Err(twice(unit.first)) };
        }
        self.waiting_bytes += waiting.cost_bytes();
        if self.waiting_bytes > WAITING_BYTES_MAX && self.up_to_damage {
            self.gap = true;
            self.waiting.clear();
            return Ok(());
        }
        if self.waiting_bytes > WAITING_BYTES_MAX {
            let why = format!("number {} is missing and {} bytes follow", self.end.next_sequence, self.waiting_bytes);
            return Err(TreeError::Damaged { what: "log", why });
        }
        self.waiting.insert(unit.first, waiting);
        Ok(())
    }

    fn deliver(&mut self, first: u64, last: u64, ops: &[u8]) -> Result<(), TreeError> {
        for item in records(first, ops) {
            let (sequence, record) = item?;
            self.visitor.record(sequence, record)?;
            self.end.records += 1;
        }
        self.end.next_sequence = last + 1;
        Ok(())
    }
}

/// The units of the part at the head of `bytes`, and what follows it.
fn split_part(bytes: &[u8]) -> Result<(Units<'_>, &[u8]), TreeError> {
    let damaged = |why: String| TreeError::Damaged { what: "log part", why };
    let (header, rest) = LogPartHeader::read_from_prefix(bytes)
        .map_err(|_| damaged(format!("{} bytes hold no part head", bytes.len())))?;
    let len = usize::try_from(header.len_bytes.get()).ok();
    let split = len.and_then(|len| rest.split_at_checked(len));
    let (units, after) = split
        .ok_or_else(|| damaged(format!("{} bytes are announced and {} are left", header.len_bytes, rest.len())))?;
    Ok((Units::new(header.first_sequence.get(), units), after))
}
