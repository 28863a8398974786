//! Changing a slice of sorted records: filling, inserting, replacing, from dense to slotted and back.

use super::{
    DENSE_HEADER_BYTES, FORM_DENSE, FORM_SLOTTED, HEADER_BYTES, KEY_BYTES_MAX, SLICE_BYTES_MAX, SLOT_BYTES, Shape,
    Slot, Slots, VALUE_BYTES_MAX, common_shape, encoded_bytes, look_ahead,
};
use crate::record::Record;

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
