//! Sorted records in one byte slice: the layout that leaf pages and leaf buffers share (Bf-Tree 3.2, 3.5).
//!
//! Two forms. **Dense**: all records have one key length, one value length and one kind; they stand back to back and cost
//! nothing but their bytes. **Slotted**: an array of 8-byte slots from the front, key and value bytes from the back; a slot
//! holds offset, lengths, kind and two look-ahead bytes of the key, so that most comparisons end in the slot.
//!
//! Keys here are *suffixes*: the owner strips the prefix that all its keys share.
//!
//! Header, little-endian: count u16 | form u8 | kind u8 | key_bytes u16 | value_bytes u16, and for the slotted form heap_low u32 |
//! garbage u32: 8 bytes if dense, else 16. Slot, from the high bits: look-ahead 16 | offset 18 | key length 11 | value length 14 | kind 2 | unused 3.
//!
//! Cost: search is a binary search; insert moves at most the bytes behind the position. Slices are at most 256 KiB.

use crate::record::{Kind, Record};

/// Bytes of the header of a slotted slice. Every slice has room for it, so that it can become slotted when it is empty.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes of the header of a dense slice.
pub(crate) const DENSE_HEADER_BYTES: usize = 8;
/// Bytes of one slot.
pub(crate) const SLOT_BYTES: usize = 8;
/// The longest slice.
pub(crate) const SLICE_BYTES_MAX: usize = 1 << 18;

/// Keys that are no longer are compared as integers.
const WORD_BYTES: usize = 8;

const FORM_SLOTTED: u8 = 0;
/// 1 was dense behind a header of 16 bytes, before 0.1.0.
const FORM_DENSE: u8 = 2;

const OFFSET_BITS: u32 = 18;
const KEY_BITS: u32 = 11;
const VALUE_BITS: u32 = 14;
const KIND_SHIFT: u32 = 3;
const VALUE_SHIFT: u32 = KIND_SHIFT + 2;
const KEY_SHIFT: u32 = VALUE_SHIFT + VALUE_BITS;
const OFFSET_SHIFT: u32 = KEY_SHIFT + KEY_BITS;
const AHEAD_SHIFT: u32 = OFFSET_SHIFT + OFFSET_BITS;

/// The longest key suffix and value that a slot can describe.
pub(crate) const KEY_BYTES_MAX: usize = (1 << KEY_BITS) - 1;
/// See [`KEY_BYTES_MAX`].
pub(crate) const VALUE_BYTES_MAX: usize = (1 << VALUE_BITS) - 1;

#[derive(Clone, Copy)]
struct Slot {
    ahead: u16,
    offset: usize,
    key_bytes: usize,
    value_bytes: usize,
    kind: u8,
}

impl Slot {
    #[expect(clippy::cast_possible_truncation, reason = "fields are masked to their widths")]
    fn unpack(raw: u64) -> Self {
        let field = |shift: u32, bits: u32| (raw >> shift & ((1 << bits) - 1)) as usize;
        Self {
            ahead: (raw >> AHEAD_SHIFT) as u16,
            offset: field(OFFSET_SHIFT, OFFSET_BITS),
            key_bytes: field(KEY_SHIFT, KEY_BITS),
            value_bytes: field(VALUE_SHIFT, VALUE_BITS),
            kind: field(KIND_SHIFT, 2) as u8,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.ahead) << AHEAD_SHIFT
            | (self.offset as u64) << OFFSET_SHIFT
            | (self.key_bytes as u64) << KEY_SHIFT
            | (self.value_bytes as u64) << VALUE_SHIFT
            | u64::from(self.kind) << KIND_SHIFT
    }
}

fn look_ahead(key: &[u8]) -> u16 {
    match key {
        [] => 0,
        [a] => u16::from_be_bytes([*a, 0]),
        [a, b, ..] => u16::from_be_bytes([*a, *b]),
    }
}

fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// What all records of a dense slice share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Bytes of each key suffix.
    pub(crate) key_bytes: usize,
    /// Bytes of each value.
    pub(crate) value_bytes: usize,
    /// Kind of each value.
    pub(crate) kind: Kind,
}

impl Shape {
    /// The shape of one record.
    pub(crate) fn of(record: &Record<'_>) -> Self {
        Self { key_bytes: record.key.len(), value_bytes: record.value.len(), kind: record.kind }
    }

    /// Bytes of one record; a dense slice of empty records has no length, so it is never dense.
    pub(crate) fn stride(self) -> usize {
        self.key_bytes + self.value_bytes
    }
}

/// Bytes that `count` records of `payload_bytes` key and value bytes in all need, header included.
pub(crate) fn encoded_bytes(count: usize, payload_bytes: usize, dense: bool) -> usize {
    let records = payload_bytes + if dense { 0 } else { count * SLOT_BYTES };
    if dense { (DENSE_HEADER_BYTES + records).max(HEADER_BYTES) } else { HEADER_BYTES + records }
}

/// A read view of a slice. Never panics on bytes that passed [`Slots::verify`].
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a> {
    bytes: &'a [u8],
}

impl<'a> Slots<'a> {
    /// A view of bytes that this module wrote.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// A view of bytes from a device: every length and offset is checked first (I10).
    pub(crate) fn verify(bytes: &'a [u8]) -> Result<Self, &'static str> {
        if bytes.len() < HEADER_BYTES || bytes.len() > SLICE_BYTES_MAX {
            return Err("slice length");
        }
        let slots = Self { bytes };
        match bytes[2] {
            FORM_DENSE => slots.verify_dense()?,
            FORM_SLOTTED => slots.verify_slotted()?,
            _ => return Err("unknown form"),
        }
        Ok(slots)
    }

    fn verify_dense(&self) -> Result<(), &'static str> {
        let shape = self.shape().filter(|shape| shape.stride() > 0).ok_or("unknown kind or empty records")?;
        let need = shape.stride() * self.len();
        (need <= self.bytes.len() - DENSE_HEADER_BYTES).then_some(()).ok_or("dense records exceed the slice")
    }

    fn verify_slotted(&self) -> Result<(), &'static str> {
        let heap_floor = HEADER_BYTES + self.len() * SLOT_BYTES;
        if heap_floor > self.bytes.len() {
            return Err("slots exceed the slice");
        }
        if self.heap_low() < heap_floor || self.heap_low() + self.garbage() > self.bytes.len() {
            return Err("heap out of bounds");
        }
        for index in 0..self.len() {
            let slot = self.slot(index);
            let end = slot.offset + slot.key_bytes + slot.value_bytes;
            if slot.offset < heap_floor || end > self.bytes.len() || Kind::from_raw(slot.kind).is_none() {
                return Err("slot out of bounds");
            }
        }
        Ok(())
    }

    /// The slice.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        usize::from(read_u16(self.bytes, 0))
    }

    fn is_dense(&self) -> bool {
        self.bytes[2] == FORM_DENSE
    }

    /// The shape of a dense slice.
    pub(crate) fn dense_shape(&self) -> Option<Shape> {
        if self.is_dense() { self.shape() } else { None }
    }

    fn shape(&self) -> Option<Shape> {
        Some(Shape {
            key_bytes: usize::from(read_u16(self.bytes, 4)),
            value_bytes: usize::from(read_u16(self.bytes, 6)),
            kind: Kind::from_raw(self.bytes[3])?,
        })
    }

    fn stride_parts(&self) -> (usize, usize) {
        (usize::from(read_u16(self.bytes, 4)), usize::from(read_u16(self.bytes, 6)))
    }

    fn slot_raw(&self, index: usize) -> u64 {
        let at = HEADER_BYTES + index * SLOT_BYTES;
        let mut raw = [0; SLOT_BYTES];
        raw.copy_from_slice(&self.bytes[at..at + SLOT_BYTES]);
        u64::from_le_bytes(raw)
    }

    fn slot(&self, index: usize) -> Slot {
        Slot::unpack(self.slot_raw(index))
    }

    /// The key suffix of record `index`.
    pub(crate) fn key(&self, index: usize) -> &'a [u8] {
        if self.is_dense() {
            let (key_bytes, value_bytes) = self.stride_parts();
            let at = DENSE_HEADER_BYTES + index * (key_bytes + value_bytes);
            return &self.bytes[at..at + key_bytes];
        }
        let slot = self.slot(index);
        &self.bytes[slot.offset..slot.offset + slot.key_bytes]
    }

    /// Record `index`, with its key suffix.
    pub(crate) fn record(&self, index: usize) -> Record<'a> {
        if self.is_dense() {
            let (key_bytes, value_bytes) = self.stride_parts();
            let at = DENSE_HEADER_BYTES + index * (key_bytes + value_bytes);
            let (key, rest) = self.bytes[at..].split_at(key_bytes);
            return Record { key, kind: kind_of(self.bytes[3]), value: &rest[..value_bytes] };
        }
        let slot = self.slot(index);
        let (key, rest) = self.bytes[slot.offset..].split_at(slot.key_bytes);
        Record { key, kind: kind_of(slot.kind), value: &rest[..slot.value_bytes] }
    }

    /// All records in key order.
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = Record<'a>> + DoubleEndedIterator + Clone {
        (0..self.len()).map(move |index| self.record(index))
    }

    /// Where `suffix` is (`Ok`) or belongs (`Err`).
    pub(crate) fn search(&self, suffix: &[u8]) -> Result<usize, usize> {
        if !self.is_dense() {
            return self.search_slotted(suffix);
        }
        let (key_bytes, value_bytes) = self.stride_parts();
        if key_bytes == suffix.len() && (1..=WORD_BYTES).contains(&key_bytes) && key_bytes + value_bytes >= WORD_BYTES {
            return self.search_words(suffix, key_bytes + value_bytes);
        }
        self.search_by(|slots, index| slots.key(index).cmp(suffix))
    }

    /// As [`search`](Self::search), where keys are as long as `suffix` and fit a word, and records of `stride` bytes are not shorter than one: keys are compared
    /// as integers, and no step hangs on a branch.
    fn search_words(&self, suffix: &[u8], stride: usize) -> Result<usize, usize> {
        let unused_bits = 8 * (WORD_BYTES - suffix.len());
        let mut wanted = [0; WORD_BYTES];
        wanted[..suffix.len()].copy_from_slice(suffix);
        let wanted = u64::from_be_bytes(wanted) >> unused_bits;
        let records = &self.bytes[DENSE_HEADER_BYTES..][..self.len() * stride];
        let key = |index: usize| {
            let word = records[index * stride..].first_chunk().expect("a record is no shorter than a word");
            u64::from_be_bytes(*word) >> unused_bits
        };
        let (mut low, mut left) = (0, self.len());
        while left > 0 {
            let half = left / 2;
            let is_below = key(low + half) < wanted;
            low = if is_below { low + half + 1 } else { low };
            left = if is_below { left - half - 1 } else { half };
        }
        if low < self.len() && key(low) == wanted { Ok(low) } else { Err(low) }
    }

    fn search_slotted(&self, suffix: &[u8]) -> Result<usize, usize> {
        let ahead = look_ahead(suffix);
        self.search_by(|slots, index| {
            let slot = slots.slot(index);
            slot.ahead.cmp(&ahead).then_with(|| slots.bytes[slot.offset..slot.offset + slot.key_bytes].cmp(suffix))
        })
    }

    fn search_by(&self, compare: impl Fn(&Self, usize) -> std::cmp::Ordering) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match compare(self, middle) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// The record of `suffix`.
    pub(crate) fn find(&self, suffix: &[u8]) -> Option<Record<'a>> {
        self.search(suffix).ok().map(|index| self.record(index))
    }

    /// Bytes of a dense slice of these records and one more, if that one is of their shape.
    pub(crate) fn dense_bytes_with(&self, record: &Record<'_>) -> Option<usize> {
        let shape = self.dense_shape().filter(|shape| *shape == Shape::of(record))?;
        Some(DENSE_HEADER_BYTES + (self.len() + 1) * shape.stride())
    }

    /// Bytes in use: header, slots and records, without garbage.
    pub(crate) fn used_bytes(&self) -> usize {
        if self.is_dense() {
            let (key_bytes, value_bytes) = self.stride_parts();
            return DENSE_HEADER_BYTES + self.len() * (key_bytes + value_bytes);
        }
        let heap = self.bytes.len() - self.heap_low() - self.garbage();
        HEADER_BYTES + self.len() * SLOT_BYTES + heap
    }

    fn heap_low(&self) -> usize {
        read_u32(self.bytes, 8) as usize
    }

    fn garbage(&self) -> usize {
        read_u32(self.bytes, 12) as usize
    }
}

fn kind_of(raw: u8) -> Kind {
    Kind::from_raw(raw).expect("kinds are checked when a slice is verified or written")
}

/// A slice that can be changed. The owner holds it exclusively.
pub(crate) struct SlotsMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> SlotsMut<'a> {
    /// A view of bytes that this module wrote.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        debug_assert!((HEADER_BYTES..=SLICE_BYTES_MAX).contains(&bytes.len()));
        Self { bytes }
    }

    /// Makes `bytes` an empty slice.
    pub(crate) fn init(bytes: &'a mut [u8]) -> Self {
        let mut slots = Self::new(bytes);
        slots.become_slotted();
        slots
    }

    fn become_slotted(&mut self) {
        self.bytes[..HEADER_BYTES].fill(0);
        self.bytes[2] = FORM_SLOTTED;
        self.set_heap(self.bytes.len(), 0);
    }

    /// Reads.
    pub(crate) fn view(&self) -> Slots<'_> {
        Slots::new(self.bytes)
    }

    #[expect(clippy::cast_possible_truncation, reason = "slices are at most 256 KiB")]
    fn set_heap(&mut self, low: usize, garbage: usize) {
        self.bytes[8..12].copy_from_slice(&(low as u32).to_le_bytes());
        self.bytes[12..16].copy_from_slice(&(garbage as u32).to_le_bytes());
    }

    fn set_len(&mut self, len: usize) {
        let len = u16::try_from(len).expect("256 KiB hold fewer than 65,536 records of 8 bytes and more");
        self.bytes[..2].copy_from_slice(&len.to_le_bytes());
    }

    /// Fills an empty slice with sorted records of distinct keys; dense where all have one shape. Returns `false`, with
    /// the slice left empty, if they do not fit.
    pub(crate) fn fill<'r>(&mut self, records: impl Iterator<Item = Record<'r>> + Clone) -> bool {
        let dense = common_shape(records.clone());
        self.become_slotted();
        let done = match dense {
            Some(shape) => self.fill_dense(shape, records),
            None => self.fill_slotted(records),
        };
        if !done {
            self.become_slotted();
        }
        done
    }

    fn become_dense(&mut self, shape: Shape) {
        self.bytes[..HEADER_BYTES].fill(0);
        self.bytes[2..4].copy_from_slice(&[FORM_DENSE, shape.kind as u8]);
        let length = |bytes: usize| u16::try_from(bytes).expect("lengths fit a slot, hence 16 bits").to_le_bytes();
        self.bytes[4..6].copy_from_slice(&length(shape.key_bytes));
        self.bytes[6..8].copy_from_slice(&length(shape.value_bytes));
    }

    /// Makes it the dense records of `from` and `record`, which is of their shape and has another key. There is room for them.
    pub(crate) fn copy_dense_with(&mut self, from: Slots<'_>, record: &Record<'_>) {
        let shape = Shape::of(record);
        let index = from.search(record.key).expect_err("a known key needs no larger slice");
        let (at, end) = (DENSE_HEADER_BYTES + index * shape.stride(), DENSE_HEADER_BYTES + from.len() * shape.stride());
        self.bytes[..at].copy_from_slice(&from.bytes[..at]);
        self.bytes[at..at + shape.key_bytes].copy_from_slice(record.key);
        self.bytes[at + shape.key_bytes..at + shape.stride()].copy_from_slice(record.value);
        self.bytes[at + shape.stride()..end + shape.stride()].copy_from_slice(&from.bytes[at..end]);
        self.set_len(from.len() + 1);
    }

    fn fill_dense<'r>(&mut self, shape: Shape, records: impl Iterator<Item = Record<'r>>) -> bool {
        self.become_dense(shape);
        let mut at = DENSE_HEADER_BYTES;
        let mut count = 0;
        for record in records {
            if at + shape.stride() > self.bytes.len() {
                return false;
            }
            self.bytes[at..at + shape.key_bytes].copy_from_slice(record.key);
            self.bytes[at + shape.key_bytes..at + shape.stride()].copy_from_slice(record.value);
            at += shape.stride();
            count += 1;
        }
        self.set_len(count);
        true
    }

    fn fill_slotted<'r>(&mut self, records: impl Iterator<Item = Record<'r>>) -> bool {
        for (index, record) in records.enumerate() {
            if !self.insert_slotted(index, &record) {
                return false;
            }
        }
        true
    }

    /// Inserts or replaces the record of `record.key` (a suffix). Returns `false`, with nothing changed, if the slice has
    /// no room.
    pub(crate) fn upsert(&mut self, record: &Record<'_>) -> bool {
        let found = self.view().search(record.key);
        self.upsert_at(found, record)
    }

    /// As [`upsert`](Self::upsert) for whoever has searched already.
    pub(crate) fn upsert_at(&mut self, found: Result<usize, usize>, record: &Record<'_>) -> bool {
        if self.view().len() == 0 {
            return self.fill(std::iter::once(*record));
        }
        match self.view().dense_shape() {
            Some(shape) if shape == Shape::of(record) => self.upsert_dense(shape, found, record),
            // The order of the records stays.
            Some(shape) => self.loosen(shape, record) && self.upsert_slotted(found, record),
            None => self.upsert_slotted(found, record),
        }
    }

    fn upsert_dense(&mut self, shape: Shape, found: Result<usize, usize>, record: &Record<'_>) -> bool {
        let (stride, len) = (shape.stride(), self.view().len());
        let (index, grow) = match found {
            Ok(index) => (index, false),
            Err(index) => (index, true),
        };
        let at = DENSE_HEADER_BYTES + index * stride;
        if grow {
            let end = DENSE_HEADER_BYTES + len * stride;
            if end + stride > self.bytes.len() {
                return false;
            }
            self.bytes.copy_within(at..end, at + stride);
            self.bytes[at..at + shape.key_bytes].copy_from_slice(record.key);
            self.set_len(len + 1);
        }
        self.bytes[at + shape.key_bytes..at + stride].copy_from_slice(record.value);
        true
    }

    /// Turns dense into slotted, if there is room for that and for one more record.
    fn loosen(&mut self, shape: Shape, extra: &Record<'_>) -> bool {
        let len = self.view().len();
        let payload = len * shape.stride() + extra.key.len() + extra.value.len();
        if encoded_bytes(len + 1, payload, false) > self.bytes.len() {
            return false;
        }
        let copy = self.bytes[..DENSE_HEADER_BYTES + len * shape.stride()].to_vec();
        self.become_slotted();
        let done = self.fill_slotted(Slots::new(&copy).iter());
        assert!(done, "room was checked");
        true
    }

    fn upsert_slotted(&mut self, found: Result<usize, usize>, record: &Record<'_>) -> bool {
        match found {
            Ok(index) => self.replace_slotted(index, record),
            Err(index) => self.insert_slotted(index, record),
        }
    }

    fn replace_slotted(&mut self, index: usize, record: &Record<'_>) -> bool {
        let slot = self.view().slot(index);
        if slot.value_bytes == record.value.len() {
            let at = slot.offset + slot.key_bytes;
            self.bytes[at..at + slot.value_bytes].copy_from_slice(record.value);
            self.write_slot(index, Slot { kind: record.kind as u8, ..slot });
            return true;
        }
        let payload = record.key.len() + record.value.len();
        let free = self.bytes.len() - self.view().used_bytes() + slot.key_bytes + slot.value_bytes;
        if payload > free {
            return false;
        }
        self.remove_slotted(index);
        let done = self.insert_slotted(index, record);
        assert!(done, "room was checked");
        true
    }

    fn remove_slotted(&mut self, index: usize) {
        let slot = self.view().slot(index);
        let len = self.view().len();
        let at = HEADER_BYTES + index * SLOT_BYTES;
        self.bytes.copy_within(at + SLOT_BYTES..HEADER_BYTES + len * SLOT_BYTES, at);
        let (low, garbage) = (self.view().heap_low(), self.view().garbage());
        self.set_len(len - 1);
        self.set_heap(low, garbage + slot.key_bytes + slot.value_bytes);
    }

    fn insert_slotted(&mut self, index: usize, record: &Record<'_>) -> bool {
        assert!(
            record.key.len() <= KEY_BYTES_MAX && record.value.len() <= VALUE_BYTES_MAX,
            "limits are checked at the door"
        );
        let payload = record.key.len() + record.value.len();
        let len = self.view().len();
        let slots_end = HEADER_BYTES + len * SLOT_BYTES;
        if slots_end + SLOT_BYTES + payload > self.view().heap_low() && !self.collect(SLOT_BYTES + payload) {
            return false;
        }
        let (low, garbage) = (self.view().heap_low() - payload, self.view().garbage());
        self.bytes[low..low + record.key.len()].copy_from_slice(record.key);
        self.bytes[low + record.key.len()..low + payload].copy_from_slice(record.value);
        let at = HEADER_BYTES + index * SLOT_BYTES;
        self.bytes.copy_within(at..slots_end, at + SLOT_BYTES);
        self.set_len(len + 1);
        self.set_heap(low, garbage);
        self.write_slot(
            index,
            Slot {
                ahead: look_ahead(record.key),
                offset: low,
                key_bytes: record.key.len(),
                value_bytes: record.value.len(),
                kind: record.kind as u8,
            },
        );
        true
    }

    /// Squeezes garbage out of the heap if that makes `need` bytes free.
    fn collect(&mut self, need: usize) -> bool {
        if self.view().garbage() == 0 || self.bytes.len() - self.view().used_bytes() < need {
            return false;
        }
        let copy = self.bytes.to_vec();
        self.become_slotted();
        let done = self.fill_slotted(Slots::new(&copy).iter());
        assert!(done, "the same records without garbage fit");
        true
    }

    fn write_slot(&mut self, index: usize, slot: Slot) {
        let at = HEADER_BYTES + index * SLOT_BYTES;
        self.bytes[at..at + SLOT_BYTES].copy_from_slice(&slot.pack().to_le_bytes());
    }
}

/// The shape that all records share, if there is one and it is not empty.
pub(crate) fn common_shape<'r>(mut records: impl Iterator<Item = Record<'r>>) -> Option<Shape> {
    let shape = Shape::of(&records.next()?);
    (shape.stride() > 0 && records.all(|record| Shape::of(&record) == shape)).then_some(shape)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn inline<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { key, kind: Kind::Inline, value }
    }

    #[test]
    fn dense_pairs_cost_only_their_bytes() {
        let mut bytes = vec![0; DENSE_HEADER_BYTES + 4 * 16];
        let mut slots = SlotsMut::init(&mut bytes);
        for i in [3_u64, 1, 2, 0] {
            assert!(slots.upsert(&inline(&i.to_be_bytes(), &i.to_le_bytes())));
        }
        assert!(!slots.upsert(&inline(&9_u64.to_be_bytes(), &[0; 8])), "full");
        assert!(slots.upsert(&inline(&2_u64.to_be_bytes(), &[7; 8])), "a replacement needs no room");
        assert_eq!(slots.view().find(&2_u64.to_be_bytes()).expect("present").value, [7; 8]);
        assert_eq!(slots.view().used_bytes(), bytes.len());
    }

    #[test]
    fn a_tombstone_turns_dense_into_slotted() {
        let mut bytes = vec![0; 256];
        let mut slots = SlotsMut::init(&mut bytes);
        for i in 0..4_u64 {
            assert!(slots.upsert(&inline(&i.to_be_bytes(), &i.to_le_bytes())));
        }
        let tombstone = Record { key: &1_u64.to_be_bytes(), kind: Kind::Tombstone, value: &[] };
        assert!(slots.upsert(&tombstone));
        assert!(slots.view().dense_shape().is_none());
        assert_eq!(slots.view().find(tombstone.key), Some(tombstone));
        assert_eq!(slots.view().len(), 4);
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec((prop::collection::vec(0_u8..4, 0..4), prop::collection::vec(any::<u8>(), 0..20), 0_u8..3), 0..60), size in 64_usize..800) {
            let mut bytes = vec![0; size];
            let mut slots = SlotsMut::init(&mut bytes);
            let mut model = BTreeMap::new();
            for (key, value, kind) in ops {
                let kind = Kind::from_raw(kind).expect("0..3");
                let value = if kind == Kind::Tombstone { vec![] } else { value };
                if slots.upsert(&Record { key: &key, kind, value: &value }) {
                    model.insert(key, (kind, value));
                } else {
                    let payload: usize = slots.view().iter().map(|r| r.key.len() + r.value.len()).sum();
                    let need = encoded_bytes(slots.view().len() + 1, payload + key.len() + value.len(), false);
                    prop_assert!(need > size, "refused {} bytes in {}", need, size);
                }
                let got: Vec<_> = slots.view().iter().map(|r| (r.key.to_vec(), (r.kind, r.value.to_vec()))).collect();
                let want: Vec<_> = model.clone().into_iter().collect();
                prop_assert_eq!(got, want);
                prop_assert!(Slots::verify(slots.bytes).is_ok());
            }
        }

        #[test]
        fn dense_keys_of_any_length_are_searched_like_a_sorted_list(
            (keys, probes) in (1_usize..=WORD_BYTES + 1).prop_flat_map(|length| {
                let keys = || prop::collection::btree_set(prop::collection::vec(prop_oneof![0_u8..3, 254..=255_u8], length), 0..40);
                (keys(), keys())
            }),
            value in prop::collection::vec(any::<u8>(), 0..10),
        ) {
            let mut bytes = vec![0; 2_048];
            let mut slots = SlotsMut::init(&mut bytes);
            prop_assert!(slots.fill(keys.iter().map(|key| inline(key, &value))));
            prop_assert!(keys.is_empty() || slots.view().dense_shape().is_some());
            let sorted: Vec<_> = keys.iter().collect();
            for probe in keys.iter().chain(&probes) {
                prop_assert_eq!(slots.view().search(probe), sorted.binary_search(&probe));
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300), suffix in prop::collection::vec(any::<u8>(), 0..5)) {
            if let Ok(slots) = Slots::verify(&bytes) {
                let _ = slots.search(&suffix);
                let _ = slots.iter().map(|r| r.key.len() + r.value.len()).sum::<usize>();
            }
        }
    }
}
