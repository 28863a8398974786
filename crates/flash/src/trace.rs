//! Traces: the commands that a drive was given, as text, and a drive that is given them again.
//!
//! One command on a line: the time in nanoseconds, what, its numbers. `120500 read 4096 8192` reads 8,192 bytes from byte
//! 4,096; `write AT BYTES STREAM`, `trim AT BYTES`, `append ZONE BYTES`, `open ZONE`, `close ZONE`, `finish ZONE`,
//! `reset ZONE`, `flush`, `report`; for subzones `append-sub ZONE INDEX BYTES`, `finish-sub ZONE INDEX`, `reset-sub ZONE INDEX`,
//! `write-window ZONE BYTES COMMITTED`, `commit-window ZONE BYTES`; `split ZONE`, `finish-split ZONE`, `join ZONE`; `read-query AT BYTES`
//! and `read-compaction AT BYTES` say who reads. Times do not go back.
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

pub use places::Places;

use crate::clients::Tally;
use crate::core::Nanos;
use crate::model::{Answer, Command, Model};
use crate::zns::ReadOrigin;

/// A command and when it was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// When.
    pub at: Nanos,
    /// What.
    pub command: Command,
}

/// The latest time of a trace, in 73 years: what comes of it can still be counted.
const TIME_MAX: Nanos = 1 << 61;

/// A line that is no command, or none for the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the trace: {}", self.line, self.reason)
    }
}

impl std::error::Error for TraceError {}

impl fmt::Display for TraceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.at)?;
        match self.command {
            Command::Read { at, bytes } => write!(f, "read {at} {bytes}"),
            Command::Write { at, bytes, stream } => write!(f, "write {at} {bytes} {stream}"),
            Command::Append { zone, bytes } => write!(f, "append {zone} {bytes}"),
            Command::Trim { at, bytes } => write!(f, "trim {at} {bytes}"),
            Command::Open { zone } => write!(f, "open {zone}"),
            Command::Close { zone } => write!(f, "close {zone}"),
            Command::Finish { zone } => write!(f, "finish {zone}"),
            Command::Reset { zone } => write!(f, "reset {zone}"),
            Command::ReadTold { at, bytes, origin: ReadOrigin::Query } => write!(f, "read-query {at} {bytes}"),
            Command::ReadTold { at, bytes, .. } => write!(f, "read-compaction {at} {bytes}"),
            Command::WriteWindow { zone, bytes, committed_bytes } => {
                write!(f, "write-window {zone} {bytes} {committed_bytes}")
            }
            Command::CommitWindow { zone, bytes } => write!(f, "commit-window {zone} {bytes}"),
            Command::Split { zone } => write!(f, "split {zone}"),
            Command::AppendSubzone { zone, index, bytes } => write!(f, "append-sub {zone} {index} {bytes}"),
            Command::FinishSubzone { zone, index } => write!(f, "finish-sub {zone} {index}"),
            Command::ResetSubzone { zone, index } => write!(f, "reset-sub {zone} {index}"),
            Command::FinishSplit { zone } => write!(f, "finish-split {zone}"),
            Command::Join { zone } => write!(f, "join {zone}"),
            Command::Flush => f.write_str("flush"),
            Command::Report => f.write_str("report"),
        }
    }
}

impl FromStr for TraceEntry {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, what, numbers @ ..] = &words[..] else { return Err("a time and a command are missing".to_owned()) };
        let number = |word: &str| word.parse::<u64>().map_err(|_| format!("`{word}` is no number"));
        let numbers = numbers.iter().map(|word| number(word)).collect::<Result<Vec<u64>, _>>()?;
        Ok(Self { at: number(at)?, command: command(what, &numbers)? })
    }
}

fn command(what: &str, numbers: &[u64]) -> Result<Command, String> {
    let small = |number: u64| u32::try_from(number).map_err(|_| format!("{number} is too large"));
    let index = |number: u64| u16::try_from(number).map_err(|_| format!("{number} is too large"));
    Ok(match (what, numbers) {
        ("read", &[at, bytes]) => Command::Read { at, bytes },
        ("write", &[at, bytes, stream]) => Command::Write { at, bytes, stream: small(stream)? },
        ("append", &[zone, bytes]) => Command::Append { zone: small(zone)?, bytes },
        ("trim", &[at, bytes]) => Command::Trim { at, bytes },
        ("open", &[zone]) => Command::Open { zone: small(zone)? },
        ("close", &[zone]) => Command::Close { zone: small(zone)? },
        ("finish", &[zone]) => Command::Finish { zone: small(zone)? },
        ("reset", &[zone]) => Command::Reset { zone: small(zone)? },
        ("read-query", &[at, bytes]) => Command::ReadTold { at, bytes, origin: ReadOrigin::Query },
        ("read-compaction", &[at, bytes]) => Command::ReadTold { at, bytes, origin: ReadOrigin::Compaction },
        ("write-window", &[zone, bytes, committed_bytes]) => {
            Command::WriteWindow { zone: small(zone)?, bytes, committed_bytes }
        }
        ("commit-window", &[zone, bytes]) => Command::CommitWindow { zone: small(zone)?, bytes },
        ("split", &[zone]) => Command::Split { zone: small(zone)? },
        ("append-sub", &[zone, at, bytes]) => Command::AppendSubzone { zone: small(zone)?, index: index(at)?, bytes },
        ("finish-sub", &[zone, at]) => Command::FinishSubzone { zone: small(zone)?, index: index(at)? },
        ("reset-sub", &[zone, at]) => Command::ResetSubzone { zone: small(zone)?, index: index(at)? },
        ("finish-split", &[zone]) => Command::FinishSplit { zone: small(zone)? },
        ("join", &[zone]) => Command::Join { zone: small(zone)? },
        ("flush", []) => Command::Flush,
        ("report", []) => Command::Report,
        _ => return Err(format!("`{what}` with {} numbers is no command", numbers.len())),
    })
}

/// Reads a trace.
///
/// # Errors
/// With the first line that is no command, or goes back in time.
pub fn parse(text: &str) -> Result<Vec<TraceEntry>, TraceError> {
    parse_checked(text, &|_| Ok(()))
}

/// Reads a trace for a drive with these places.
///
/// # Errors
/// As [`parse`]; with the first command about what the drive has not.
pub fn parse_for(text: &str, places: &Places) -> Result<Vec<TraceEntry>, TraceError> {
    parse_checked(text, &|command| places.check(command))
}

fn parse_checked(text: &str, check: &dyn Fn(&Command) -> Result<(), String>) -> Result<Vec<TraceEntry>, TraceError> {
    let mut entries: Vec<TraceEntry> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let error = |reason| TraceError { line: number + 1, reason };
        let entry: TraceEntry = line.parse().map_err(error)?;
        if entries.last().is_some_and(|last| last.at > entry.at) {
            return Err(error(format!("time goes back to {}", entry.at)));
        }
        if entry.at > TIME_MAX {
            return Err(error(format!("{} nanoseconds are more than 73 years", entry.at)));
        }
        check(&entry.command).map_err(|reason| error(format!("`{}`: {reason}", line.trim())))?;
        entries.push(entry);
    }
    Ok(entries)
}

/// Zones that a trace reads before it writes, appends to or resets them: they held something when it was taken.
#[must_use]
pub fn held_before(entries: &[TraceEntry], zone_size_bytes: u64) -> BTreeSet<u32> {
    let (mut held, mut begun) = (BTreeSet::new(), BTreeSet::new());
    let of = |at: u64| u32::try_from(at / zone_size_bytes.max(1)).unwrap_or(u32::MAX);
    for entry in entries {
        match entry.command {
            Command::Read { at, .. } | Command::ReadTold { at, .. } if !begun.contains(&of(at)) => {
                held.insert(of(at));
            }
            Command::Write { at, .. } => {
                begun.insert(of(at));
            }
            Command::Append { zone, .. }
            | Command::WriteWindow { zone, .. }
            | Command::Reset { zone }
            | Command::Split { zone } => {
                begun.insert(zone);
            }
            _ => {}
        }
    }
    held
}

/// Zones that were split when a trace was taken: what it does to them first is for split zones, and is not to split them. Of each the
/// subzones of `subzone_bytes` that the trace reads before it appends to them or resets them: they held something.
#[must_use]
pub fn split_before(entries: &[TraceEntry], zone_size_bytes: u64, subzone_bytes: u64) -> BTreeMap<u32, BTreeSet<u16>> {
    let mut is_split: BTreeMap<u32, bool> = BTreeMap::new();
    for entry in entries {
        if let Some((zone, was_split)) = shows(&entry.command, zone_size_bytes) {
            is_split.entry(zone).or_insert(was_split);
        }
    }
    let mut held: BTreeMap<u32, BTreeSet<u16>> =
        is_split.into_iter().filter(|(_, is_split)| *is_split).map(|(zone, _)| (zone, BTreeSet::new())).collect();
    let (mut begun, mut joined) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries {
        match entry.command {
            Command::Read { at, bytes } | Command::ReadTold { at, bytes, .. } => {
                let zone = u32::try_from(at / zone_size_bytes.max(1)).unwrap_or(u32::MAX);
                let Some(held) = held.get_mut(&zone).filter(|_| !joined.contains(&zone)) else { continue };
                let index =
                    |at: u64| u16::try_from(at % zone_size_bytes.max(1) / subzone_bytes.max(1)).unwrap_or(u16::MAX);
                let last = index(at.saturating_add(bytes.saturating_sub(1)));
                held.extend((index(at)..=last).filter(|&index| !begun.contains(&(zone, index))));
            }
            Command::AppendSubzone { zone, index, .. } | Command::ResetSubzone { zone, index } => {
                begun.insert((zone, index));
            }
            Command::Join { zone } => {
                joined.insert(zone);
            }
            _ => {}
        }
    }
    held
}

/// The zone of a command that tells whether it was split before, and whether it was.
fn shows(command: &Command, zone_size_bytes: u64) -> Option<(u32, bool)> {
    match *command {
        Command::Write { at, .. } => Some((u32::try_from(at / zone_size_bytes.max(1)).unwrap_or(u32::MAX), false)),
        Command::Append { zone, .. }
        | Command::WriteWindow { zone, .. }
        | Command::CommitWindow { zone, .. }
        | Command::Open { zone }
        | Command::Close { zone }
        | Command::Finish { zone }
        | Command::Reset { zone }
        | Command::Split { zone } => Some((zone, false)),
        Command::AppendSubzone { zone, .. }
        | Command::FinishSubzone { zone, .. }
        | Command::ResetSubzone { zone, .. }
        | Command::FinishSplit { zone }
        | Command::Join { zone } => Some((zone, true)),
        _ => None,
    }
}

/// True if a trace of a conventional drive reads one of its `units` mapping units of `map_bytes` that it neither wrote nor trimmed before:
/// the drive held something when the trace was taken. A write of a part of a unit maps all of it, a trim of a part is none.
#[must_use]
pub fn reads_what_was_held(entries: &[TraceEntry], map_bytes: u64, units: u64) -> bool {
    let map_bytes = map_bytes.max(1);
    let place = |unit: u64| usize::try_from(unit.min(units)).unwrap_or(usize::MAX);
    let touched = |at: u64, bytes: u64| place(at / map_bytes)..place(at.saturating_add(bytes).div_ceil(map_bytes));
    let mut is_known = vec![false; place(units)];
    for entry in entries {
        match entry.command {
            Command::Read { at, bytes } | Command::ReadTold { at, bytes, .. }
                if is_known[touched(at, bytes)].contains(&false) =>
            {
                return true;
            }
            Command::Write { at, bytes, .. } => is_known[touched(at, bytes)].fill(true),
            Command::Trim { at, bytes } => {
                let (first, end) = (place(at.div_ceil(map_bytes)), place(at.saturating_add(bytes) / map_bytes));
                is_known[first.min(end)..end].fill(true);
            }
            _ => {}
        }
    }
    false
}

/// What came of a replay.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Latencies of all commands.
    pub tally: Tally,
    /// When the last was answered.
    pub end: Nanos,
    /// Hash over all answers: equal for equal replays.
    pub answers_hash: u64,
}

/// Gives a drive the commands of a trace, each at its time whether or not earlier ones are answered. They must be for its
/// [`Places`]: a model does not look.
pub fn replay(model: &mut dyn Model, entries: &[TraceEntry]) -> Replayed {
    let mut replayed = Replayed::default();
    let mut answers: Vec<Answer> = Vec::new();
    for (token, entry) in (0..).zip(entries) {
        let at = entry.at.max(model.core().now());
        model.advance(at, &mut answers);
        model.submit(at, token, entry.command);
    }
    model.advance(Nanos::MAX, &mut answers);
    for answer in &answers {
        let entry = &entries[usize::try_from(answer.token).expect("a place in the trace")];
        let bytes = match entry.command {
            Command::Read { bytes, .. } | Command::ReadTold { bytes, .. } | Command::AppendSubzone { bytes, .. } => {
                bytes
            }
            Command::Write { bytes, .. } | Command::Append { bytes, .. } | Command::WriteWindow { bytes, .. } => bytes,
            _ => 0,
        };
        replayed.tally.record(entry.at.min(answer.at), answer, bytes);
        replayed.end = replayed.end.max(answer.at);
    }
    replayed.answers_hash = model.core().stats().answers_hash;
    replayed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::zns::ZonedModel;
    use proptest::prelude::*;

    const LINES: &str = "0 open 3\n10 write 0 4096 0\n10 append 3 8192\n5000000 read 0 4096\n5000001 trim 0 1\n\
                         5000002 close 3\n5000003 finish 3\n5000004 report\n5000005 flush\n900000000 reset 3";

    #[test]
    fn what_is_written_is_read() {
        let entries = parse(LINES).unwrap();
        let again: Vec<String> = entries.iter().map(ToString::to_string).collect();
        assert_eq!(again.join("\n"), LINES);
        assert_eq!(parse("5 flush\n\n4 flush").unwrap_err().line, 3);
        assert!(parse("5 fly 1").unwrap_err().reason.contains("fly"));
        assert!(parse("9223372036854775807 flush").unwrap_err().reason.contains("73 years"));
    }

    #[test]
    fn a_command_that_does_not_fit_the_drive_has_its_line() {
        let zones = Places::Zones { zones: 4, size_bytes: 1 << 20, capacity_bytes: 1 << 20, subzones: 0 };
        assert_eq!(parse_for(LINES, &zones).unwrap(), parse(LINES).unwrap());
        let error = parse_for("0 reset 3\n\n1 reset 9999", &zones).unwrap_err();
        assert_eq!(error.line, 3);
        assert!(error.reason.contains("`1 reset 9999`: zone 9999 of a drive with 4"), "{error}");
    }

    #[test]
    fn zones_that_are_only_read_held_something() {
        let entries =
            parse("0 read 4096 4096\n1 write 8192 4096 0\n2 read 8192 4096\n3 append 3 1\n4 read 12288 1").unwrap();
        assert_eq!(held_before(&entries, 4096).into_iter().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn zones_whose_subzones_are_used_before_they_are_split_were_split() {
        let split = |text: &str| {
            let found = split_before(&parse(text).unwrap(), 4096, 1024);
            found.into_iter().map(|(zone, held)| (zone, Vec::from_iter(held))).collect::<Vec<_>>()
        };
        for (text, was_split) in [
            ("0 read 0 512\n1 write 4096 512 0\n2 split 2\n3 append-sub 2 0 512\n4 read 8192 512", vec![]),
            ("0 append-sub 1 3 512\n1 read 7168 512\n2 read-query 5120 1024", vec![(1, vec![1])]),
            ("0 read 4608 1024\n1 reset-sub 1 0\n2 read 4096 4096", vec![(1, vec![0, 1, 2, 3])]),
            ("0 finish-split 1\n1 join 1\n2 read 4096 512", vec![(1, vec![])]),
            ("0 reset 1\n1 split 1\n2 reset-sub 1 0", vec![]),
        ] {
            assert_eq!(split(text), was_split, "{text}");
        }
    }

    #[test]
    fn units_that_are_only_read_held_something() {
        let held = |text: &str| reads_what_was_held(&parse(text).unwrap(), 8192, 4);
        for (text, was_held) in [
            ("0 read 0 4096", true),
            ("0 write 0 4096 0\n1 read 4096 4096", false),
            ("0 write 0 4096 0\n1 read 4096 8192", true),
            ("0 write 0 4096 0\n1 read 24576 4096", true),
            ("0 write 0 32768 0\n1 read-query 24576 4096", false),
            ("0 trim 8192 8192\n1 read 8192 4096", false),
            ("0 trim 8192 4096\n1 read 8192 4096", true),
            ("0 write 0 4096 0\n1 flush", false),
        ] {
            assert_eq!(held(text), was_held, "{text}");
        }
    }

    #[test]
    fn replays_are_equal() {
        let profile = Profile::named("test").unwrap();
        let once = || {
            let mut model = ZonedModel::new(profile.core_shape(1), profile.zoned_shape().unwrap());
            replay(&mut model, &parse(LINES).unwrap())
        };
        let (one, other) = (once(), once());
        assert_eq!((one.answers_hash, one.tally.latency.count()), (other.answers_hash, 10));
        assert!(one.end >= 900_000_000);
        let mut model = ZonedModel::new(profile.core_shape(1), profile.zoned_shape().unwrap());
        let lines = parse("0 write-window 0 8192 4096\n9 append 1 4096").unwrap();
        assert_eq!(replay(&mut model, &lines).tally.bytes, 8192 + 4096);
    }

    proptest! {
        #[test]
        fn any_text_is_a_trace_or_refused(text in "[0-9a-z \\n]{0,80}") {
            if let Ok(entries) = parse(&text) {
                prop_assert!(entries.iter().all(|entry| entry.to_string().parse() == Ok(*entry)));
            }
        }
    }
}
