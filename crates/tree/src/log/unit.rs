//! How the log writes operations down.
//!
//! ```text
//! part  := LogPartHeader unit*
//! unit  := number(gap << 1 | batch) [number(count) if batch] op*   gap: numbers skipped since the unit before
//! op    := number(key_len << 2 | kind) [number(value_len) unless tombstone] key value
//! ```
//!
//! Sequence numbers are implied: the part's head gives the first, every op takes the next one, and a gap is where
//! other instances drew numbers in between. A put of 8 B + 8 B takes 19 bytes when fewer than 64 were skipped.
//! A unit is never split, so that a batch is whole or absent.

use crate::TreeError;
use crate::codec::{NUMBER_BYTES_MAX, Reader, number_bytes, put_number};
use crate::limits::{KEY_BYTES_MAX, NUMBER_MAX};
use crate::record::{Kind, Record};
use crate::slots::VALUE_BYTES_MAX as RECORD_VALUE_BYTES_MAX;

/// The most bytes that a unit takes beside its ops.
pub(super) const UNIT_HEAD_BYTES_MAX: usize = 2 * NUMBER_BYTES_MAX;

/// What a unit will take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measure {
    /// Ops.
    pub(super) count: u64,
    /// Bytes of the ops, and the most that the unit's head takes.
    pub(super) bytes_max: usize,
    /// Whether one of them holds a value pointer.
    pub(super) pointers: bool,
}

/// Measures a unit of `ops`.
pub(super) fn measure<'a>(ops: impl Iterator<Item = Record<'a>>) -> Measure {
    let empty = Measure { bytes_max: UNIT_HEAD_BYTES_MAX, ..Measure::default() };
    ops.fold(empty, |sum, op| Measure {
        count: sum.count + 1,
        bytes_max: sum.bytes_max + op_bytes(&op),
        pointers: sum.pointers || op.kind == Kind::Pointer,
    })
}

fn op_tag(op: &Record<'_>) -> u64 {
    (op.key.len() as u64) << 2 | op.kind as u64
}

fn op_bytes(op: &Record<'_>) -> usize {
    let value_len = if op.kind == Kind::Tombstone { 0 } else { number_bytes(op.value.len() as u64) };
    number_bytes(op_tag(op)) + value_len + op.key.len() + op.value.len()
}

/// Appends a unit of `count` ops that skips `gap` numbers.
pub(super) fn put_unit<'a>(into: &mut Vec<u8>, gap: u64, count: u64, ops: impl Iterator<Item = Record<'a>>) {
    put_number(into, gap << 1 | u64::from(count != 1));
    if count != 1 {
        put_number(into, count);
    }
    ops.for_each(|op| put_op(into, &op));
}

fn put_op(into: &mut Vec<u8>, op: &Record<'_>) {
    put_number(into, op_tag(op));
    if op.kind != Kind::Tombstone {
        put_number(into, op.value.len() as u64);
    }
    into.extend_from_slice(op.key);
    into.extend_from_slice(op.value);
}

/// Reads one op.
///
/// # Errors
/// `Damaged`.
pub(super) fn read_op<'a>(reader: &mut Reader<'a>) -> Result<Record<'a>, TreeError> {
    let tag = reader.number()?;
    let kind = u8::try_from(tag & 3).ok().and_then(Kind::from_raw).ok_or_else(|| reader.damaged("no such kind"))?;
    let value_len = if kind == Kind::Tombstone { 0 } else { reader.number()? };
    if tag >> 2 > KEY_BYTES_MAX as u64 || value_len > RECORD_VALUE_BYTES_MAX as u64 {
        return Err(reader.damaged(format!("a key of {} and a value of {value_len} bytes", tag >> 2)));
    }
    Ok(Record { key: reader.take(tag >> 2)?, kind, value: reader.take(value_len)? })
}

/// A unit as replay finds it: ops with the numbers `first..=last`, checked to be well-formed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit<'a> {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) ops: &'a [u8],
}

/// The units of a part.
pub(super) struct Units<'a> {
    reader: Reader<'a>,
    next: u64,
}

impl<'a> Units<'a> {
    pub(super) fn new(first_sequence: u64, bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new("log unit", bytes), next: first_sequence }
    }

    fn read(&mut self) -> Result<Unit<'a>, TreeError> {
        let tag = self.reader.number()?;
        let count = if tag & 1 == 1 { self.reader.number()? } else { 1 };
        let first = self.next.checked_add(tag >> 1);
        let end = first.and_then(|first| first.checked_add(count)).filter(|end| count > 0 && *end <= NUMBER_MAX);
        let (Some(first), Some(end)) = (first, end) else {
            return Err(self.reader.damaged(format!("{count} numbers, {} after {}", tag >> 1, self.next)));
        };
        let before = self.reader.rest();
        for _ in 0..count {
            read_op(&mut self.reader)?;
        }
        let ops = &before[..before.len() - self.reader.rest().len()];
        self.next = end;
        Ok(Unit { first, last: end - 1, ops })
    }
}

impl<'a> Iterator for Units<'a> {
    type Item = Result<Unit<'a>, TreeError>;

    /// Ends after an error: what follows cannot be read.
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let unit = self.read();
        if unit.is_err() {
            self.reader = Reader::new("log unit", &[]);
        }
        Some(unit)
    }
}

/// The records of a unit's ops with their numbers.
pub(super) fn records(first: u64, ops: &[u8]) -> impl Iterator<Item = Result<(u64, Record<'_>), TreeError>> {
    let mut reader = Reader::new("log unit", ops);
    (first..)
        .map_while(move |sequence| (!reader.is_empty()).then(|| read_op(&mut reader).map(|record| (sequence, record))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { key, kind: Kind::Inline, value }
    }

    #[test]
    fn a_small_put_takes_at_most_20_bytes() {
        let op = put(&[1; 8], &[2; 8]);
        for gap in [0, 63, 64, 8191] {
            let mut bytes = Vec::new();
            put_unit(&mut bytes, gap, 1, [op].into_iter());
            assert!(bytes.len() <= 20, "{} bytes after a gap of {gap}", bytes.len());
        }
    }

    fn arbitrary_op() -> impl Strategy<Value = (Vec<u8>, u8, Vec<u8>)> {
        let bytes = |len| prop::collection::vec(any::<u8>(), 0..len);
        (bytes(50), 0_u8..3, bytes(200))
    }

    proptest! {
        #[test]
        fn units_come_back(
            units in prop::collection::vec((0_u64..9000, prop::collection::vec(arbitrary_op(), 1..5)), 1..10),
            first in 1..NUMBER_MAX / 2,
        ) {
            let mut bytes = Vec::new();
            let mut want = Vec::new();
            let mut next = first;
            for (gap, ops) in &units {
                let record = |(key, kind, value): &'_ (Vec<u8>, u8, Vec<u8>)| {
                    let kind = Kind::from_raw(*kind).expect("0..3");
                    (key.clone(), kind, if kind == Kind::Tombstone { vec![] } else { value.clone() })
                };
                let owned: Vec<_> = ops.iter().map(record).collect();
                let ops = || owned.iter().map(|(key, kind, value)| Record { key, kind: *kind, value });
                let measure = measure(ops());
                let before = bytes.len();
                put_unit(&mut bytes, *gap, measure.count, ops());
                prop_assert!(bytes.len() - before <= measure.bytes_max);
                next += gap;
                for op in owned {
                    want.push((next, op));
                    next += 1;
                }
            }
            let mut got = Vec::new();
            for unit in Units::new(first, &bytes) {
                let unit = unit.expect("well-formed");
                for item in records(unit.first, unit.ops) {
                    let (sequence, record) = item.expect("well-formed");
                    prop_assert!(sequence <= unit.last);
                    got.push((sequence, (record.key.to_vec(), record.kind, record.value.to_vec())));
                }
            }
            prop_assert_eq!(got, want);
        }

        #[test]
        fn any_bytes_are_read_or_refused(first in any::<u64>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for unit in Units::new(first, &bytes).flatten() {
                prop_assert!(unit.first <= unit.last);
                prop_assert!(records(unit.first, unit.ops).all(|item| item.is_ok()));
            }
        }
    }
}
