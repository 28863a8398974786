//! Sorted records in one byte slice: the layout that leaf pages and leaf buffers share (Bf-Tree 3.2, 3.5).
//!
//! Two forms. **Dense**: all records have one key length, one value length and one kind; they stand back to back and cost
//! nothing but their bytes. **Slotted**: an array of 8-byte slots from the front, key and value bytes from the back; a slot
//! holds offset, lengths, kind and two look-ahead bytes of the key, so that most comparisons end in the slot.
//!
//! Keys here are *suffixes*: the owner strips the prefix that all its keys share.
//!
//! Header, little-endian: count u16 | form u8 | kind u8 | key_bytes u16 | value_bytes u16, and for the slotted form heap_low u32 |
//! garbage u32: 8 bytes if dense, else 16. Slot, from the high bits: look-ahead 16 | offset 18 | key length 11 | value length 14 | kind 2 |
//! unused 3.
//!
//! Cost: search is a binary search; insert moves at most the bytes behind the position. Slices are at most 256 KiB.

mod change;
#[cfg(all(test, not(feature = "shuttle")))]
mod paper_buffer_tests;

use std::cmp::Ordering;

use crate::record::{Kind, Record};
pub(crate) use change::SlotsMut;

/// Bytes of the header of a slotted slice. Every slice has room for it, so that it can become slotted when it is empty.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes of the header of a dense slice.
pub(crate) const DENSE_HEADER_BYTES: usize = 8;
/// Bytes of one slot.
pub(crate) const SLOT_BYTES: usize = 8;
/// The longest slice.
pub(crate) const SLICE_BYTES_MAX: usize = 1 << 18;

/// So many first bytes of keys are compared as an integer.
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

/// What a record is, and where it lies in its slice: its key suffix up to `value`, its value up to `end`.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) key: usize,
    pub(crate) value: usize,
    pub(crate) end: usize,
    pub(crate) kind: Kind,
}

impl Place {
    /// Of record `index` of a dense slice of records of `shape`.
    #[inline]
    pub(crate) fn dense(index: usize, shape: Shape) -> Self {
        let key = DENSE_HEADER_BYTES + index * shape.stride();
        let value = key + shape.key_bytes;
        Self { key, value, end: value + shape.value_bytes, kind: shape.kind }
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
        let slots = Self::verify_header(bytes)?;
        if !slots.is_dense() {
            (0..slots.len()).try_for_each(|index| slots.checked_slot(index).map(|_| ()))?;
        }
        Ok(slots)
    }

    /// The record of `suffix` in bytes from a device. Only the slots that the search looks at are checked: a pass over all of them would
    /// cost a point read several times the search.
    pub(crate) fn find_unverified(bytes: &'a [u8], suffix: &[u8]) -> Result<Option<Record<'a>>, &'static str> {
        let slots = Self::verify_header(bytes)?;
        if slots.is_dense() {
            return Ok(slots.find(suffix));
        }
        let ahead = look_ahead(suffix);
        let (mut low, mut high) = (0, slots.len());
        while low < high {
            let middle = low.midpoint(high);
            let slot = slots.checked_slot(middle)?;
            match slots.compare(&slot, ahead, suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Some(slots.record(middle))),
            }
        }
        Ok(None)
    }

    /// All but the slots of a slotted slice.
    fn verify_header(bytes: &'a [u8]) -> Result<Self, &'static str> {
        if bytes.len() < HEADER_BYTES || bytes.len() > SLICE_BYTES_MAX {
            return Err("slice length");
        }
        let slots = Self { bytes };
        match bytes[2] {
            FORM_DENSE => slots.verify_dense()?,
            FORM_SLOTTED => slots.verify_heap()?,
            _ => return Err("unknown form"),
        }
        Ok(slots)
    }

    fn verify_dense(&self) -> Result<(), &'static str> {
        let shape = self.shape().filter(|shape| shape.stride() > 0).ok_or("unknown kind or empty records")?;
        let need = shape.stride() * self.len();
        (need <= self.bytes.len() - DENSE_HEADER_BYTES).then_some(()).ok_or("dense records exceed the slice")
    }

    /// Where the heap of a slotted slice may begin: behind the slots.
    fn heap_floor(&self) -> usize {
        HEADER_BYTES + self.len() * SLOT_BYTES
    }

    fn verify_heap(&self) -> Result<(), &'static str> {
        let heap_floor = self.heap_floor();
        if heap_floor > self.bytes.len() {
            return Err("slots exceed the slice");
        }
        if self.heap_low() < heap_floor || self.heap_low() + self.garbage() > self.bytes.len() {
            return Err("heap out of bounds");
        }
        Ok(())
    }

    /// Slot `index`, if it is of a record in the heap.
    fn checked_slot(&self, index: usize) -> Result<Slot, &'static str> {
        let slot = self.slot(index);
        let end = slot.offset + slot.key_bytes + slot.value_bytes;
        let is_good =
            slot.offset >= self.heap_floor() && end <= self.bytes.len() && Kind::from_raw(slot.kind).is_some();
        is_good.then_some(slot).ok_or("slot out of bounds")
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
        let place = self.place(index);
        &self.bytes[place.key..place.value]
    }

    /// Record `index`, with its key suffix.
    pub(crate) fn record(&self, index: usize) -> Record<'a> {
        let place = self.place(index);
        let (key, value) = self.bytes[place.key..place.end].split_at(place.value - place.key);
        Record { key, kind: place.kind, value }
    }

    /// Where record `index` lies in the slice.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> Place {
        if self.is_dense() {
            let (key_bytes, value_bytes) = self.stride_parts();
            return Place::dense(index, Shape { key_bytes, value_bytes, kind: kind_of(self.bytes[3]) });
        }
        let slot = self.slot(index);
        let value = slot.offset + slot.key_bytes;
        Place { key: slot.offset, value, end: value + slot.value_bytes, kind: kind_of(slot.kind) }
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
        if key_bytes == suffix.len() && key_bytes > 0 && key_bytes + value_bytes >= WORD_BYTES {
            return self.search_words(suffix, key_bytes + value_bytes);
        }
        self.search_from(0, |slots, index| slots.key(index).cmp(suffix))
    }

    /// Where `key` is or belongs, if every key here is a suffix behind `prefix`.
    pub(crate) fn search_behind(&self, prefix: &[u8], key: &[u8]) -> Result<usize, usize> {
        match key.strip_prefix(prefix) {
            Some(suffix) => self.search(suffix),
            None if key < prefix => Err(0),
            None => Err(self.len()),
        }
    }

    /// As [`search`](Self::search), where keys are as long as `suffix`, and records of `stride` bytes are not shorter than a word: the
    /// first words of keys are compared as integers, and no step hangs on a branch. Of keys with the same first word more is looked at.
    fn search_words(&self, suffix: &[u8], stride: usize) -> Result<usize, usize> {
        let word_bytes = suffix.len().min(WORD_BYTES);
        let unused_bits = 8 * (WORD_BYTES - word_bytes);
        let mut wanted = [0; WORD_BYTES];
        wanted[..word_bytes].copy_from_slice(&suffix[..word_bytes]);
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
        if low == self.len() || key(low) != wanted {
            return Err(low);
        }
        match self.key(low)[word_bytes..].cmp(&suffix[word_bytes..]) {
            Ordering::Less => self.search_from(low + 1, |slots, index| slots.key(index).cmp(suffix)),
            Ordering::Equal => Ok(low),
            Ordering::Greater => Err(low),
        }
    }

    fn search_slotted(&self, suffix: &[u8]) -> Result<usize, usize> {
        let ahead = look_ahead(suffix);
        self.search_from(0, |slots, index| slots.compare(&slots.slot(index), ahead, suffix))
    }

    /// How the key of a slot compares to `suffix`, whose look-ahead bytes are `ahead`.
    fn compare(&self, slot: &Slot, ahead: u16, suffix: &[u8]) -> Ordering {
        slot.ahead.cmp(&ahead).then_with(|| self.bytes[slot.offset..slot.offset + slot.key_bytes].cmp(suffix))
    }

    /// The same, where all records before `first` are below.
    fn search_from(&self, first: usize, compare: impl Fn(&Self, usize) -> Ordering) -> Result<usize, usize> {
        let (mut low, mut high) = (first, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match compare(self, middle) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
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
        let payload = self.payload_bytes();
        if self.is_dense() { DENSE_HEADER_BYTES + payload } else { HEADER_BYTES + self.len() * SLOT_BYTES + payload }
    }

    /// Bytes of keys and values.
    pub(crate) fn payload_bytes(&self) -> usize {
        if self.is_dense() {
            let (key_bytes, value_bytes) = self.stride_parts();
            return self.len() * (key_bytes + value_bytes);
        }
        self.bytes.len() - self.heap_low() - self.garbage()
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
                prop_assert!(Slots::verify(slots.view().bytes()).is_ok());
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

        /// Few first words, so that many keys share one.
        #[test]
        fn dense_keys_of_several_words_are_searched_like_a_sorted_list(
            (keys, probes) in (1_usize..12).prop_flat_map(|rest_bytes| {
                let word = prop::sample::select(vec![[0; WORD_BYTES], [1; WORD_BYTES], [255; WORD_BYTES]]);
                let key = (word, prop::collection::vec(prop_oneof![0_u8..3, 254..=255_u8], rest_bytes));
                let keys = || prop::collection::btree_set(key.clone().prop_map(|(word, rest)| [&word[..], &rest].concat()), 0..40);
                (keys(), keys())
            }),
        ) {
            let mut bytes = vec![0; 2_048];
            let mut slots = SlotsMut::init(&mut bytes);
            prop_assert!(slots.fill(keys.iter().map(|key| inline(key, b"value"))));
            let sorted: Vec<_> = keys.iter().collect();
            for probe in keys.iter().chain(&probes) {
                prop_assert_eq!(slots.view().search(probe), sorted.binary_search(&probe));
            }
        }

        #[test]
        fn keys_are_found_behind_their_prefix(
            prefix in prop::collection::vec(0_u8..3, 0..4),
            suffixes in prop::collection::btree_set(prop::collection::vec(0_u8..3, 0..4), 0..20),
            key in prop::collection::vec(0_u8..3, 0..8),
        ) {
            let mut bytes = vec![0; 2_048];
            prop_assert!(SlotsMut::init(&mut bytes).fill(suffixes.iter().map(|suffix| inline(suffix, b"value"))));
            let joined: Vec<Vec<u8>> = suffixes.iter().map(|suffix| [prefix.as_slice(), suffix].concat()).collect();
            prop_assert_eq!(Slots::new(&bytes).search_behind(&prefix, &key), joined.binary_search(&key));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300), suffix in prop::collection::vec(any::<u8>(), 0..5)) {
            let found = Slots::find_unverified(&bytes, &suffix);
            if let Ok(slots) = Slots::verify(&bytes) {
                prop_assert_eq!(found, Ok(slots.find(&suffix)));
                let _ = slots.iter().map(|r| r.key.len() + r.value.len()).sum::<usize>();
            }
        }

        /// Of a page with a bad slot a search says so, or what it says is right.
        #[test]
        fn a_bad_slot_is_found_by_who_looks_at_it(
            suffixes in prop::collection::btree_set(prop::collection::vec(0_u8..3, 0..4), 2..40),
            (bad, raw) in (any::<prop::sample::Index>(), prop_oneof![Just(u64::MAX), Just(0), any::<u64>()]),
        ) {
            let mut bytes = vec![0; 2_048];
            let mut slots = SlotsMut::init(&mut bytes);
            let records: Vec<_> = suffixes.iter().map(|suffix| inline(suffix, &b"a longer value"[suffix.len()..])).collect();
            // The first is of another kind, so that the page is slotted.
            let first = Record { kind: Kind::Pointer, ..records[0] };
            prop_assert!(slots.fill(std::iter::once(first).chain(records[1..].iter().copied())));
            prop_assert!(slots.view().dense_shape().is_none());
            let bad = bad.index(suffixes.len());
            let at = HEADER_BYTES + bad * SLOT_BYTES;
            bytes[at..at + SLOT_BYTES].copy_from_slice(&raw.to_le_bytes());
            if Slots::verify(&bytes).is_err() {
                prop_assert!(Slots::find_unverified(&bytes, records[bad].key).is_err());
                for (index, record) in records.iter().enumerate().skip(1) {
                    let found = Slots::find_unverified(&bytes, record.key);
                    prop_assert!(found.is_err() || index != bad && found == Ok(Some(*record)));
                }
            }
        }
    }
}
