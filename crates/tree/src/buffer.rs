//! A leaf's buffer: the records a leaf keeps in memory.
//!
//! One piece of memory of a size class (`pool/class.rs`): header of 16 bytes, key prefix, then [`Slots`](crate::slots), whose
//! dense form costs 8 bytes and nothing for a record: 24 bytes and its prefix are all that a buffer of pairs of one shape
//! costs beside them. The leaf table has 46 bits for a location; hence a thin owning pointer, and the unsafe code in this file.
//!
//! Owner: the leaf table's word of one leaf, or whoever holds a [`Buffer`] that is not yet or no longer there. A buffer has
//! no fences: its leaf's range comes from the parent. Records hold suffixes behind [`Buffer::prefix`].
//! Life cycle: 1 made for the first record -> 2 grows class by class -> 3 merged into the leaf's page -> freed.
//!
//! A **mini-page** (Bf-Tree section 3) is a buffer in the ring. It has marks behind its records (`buffer/marks.rs`), so that it may hold
//! clean ones beside dirty ones: *insert* (dirty), *cache* (a clean copy of a record of the page), *tombstone* (dirty), *phantom* (clean,
//! and known to be absent from the page). In every other buffer all records are dirty, unless it mirrors its page. What must reach the
//! page, images and snapshots is [`dirty_records`](Buffer::dirty_records); the others may be dropped at any time under the exclusive latch.

mod marks;
mod mini_page;

use std::{ptr::NonNull, slice};

use zonda_pages::PageAddress;
use zonda_rt::atomic::{AtomicBool, Ordering};

use crate::{
    key::common_prefix_bytes,
    leaf_page,
    pool::{
        arena::Owner,
        class::{class_bytes, mark_bytes},
        memory::{self, Demand, Memory, Origin},
    },
    record::Record,
    slots::{self, SLOT_BYTES, Slots, SlotsMut},
};
use marks::Marks;
pub(crate) use mini_page::Cached;

/// Page address in the low 46 bits, then 11 bits of prefix length, the flags, and where its memory is from.
const PREFIX_SHIFT: u32 = PageAddress::BITS;
const PREFIX_MASK: u64 = (1 << 11) - 1;
const COMPLETE: u64 = 1 << (PREFIX_SHIFT + 11);
const DIRTY: u64 = COMPLETE << 1;
const ORIGIN_SHIFT: u32 = PREFIX_SHIFT + 11 + 2;
const PAGE_MASK: u64 = (1 << PREFIX_SHIFT) - 1;
const _: () = assert!(ORIGIN_SHIFT + Origin::BITS <= u64::BITS);
const _: () = assert!(crate::limits::KEY_BYTES_MAX as u64 <= PREFIX_MASK);

#[repr(C)]
struct Header {
    word: u64,
    /// 48 bits: at a million operations a second they last nine years.
    sequence: [u8; 6],
    class: u8,
    referenced: AtomicBool,
}

/// Bytes before the prefix: 16, but for shuttle's atomics, which are larger.
const HEADER_BYTES: usize = size_of::<Header>();
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(HEADER_BYTES == 16);

/// An owned leaf buffer.
pub(crate) struct Buffer {
    head: NonNull<Header>,
}

// SAFETY: a buffer owns its allocation; the only fields changed through `&self` are atomics.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

/// Where a buffer that is made gets its memory.
#[derive(Clone, Copy)]
struct Place<'m> {
    memory: &'m Memory,
    owner: Owner,
    demand: Demand,
}

const MUST: &str = "memory that must be there is there";

impl Buffer {
    /// An empty buffer of `owner` with room for `payload_bytes` of key suffixes, values and slots, or more.
    pub(crate) fn new(
        memory: &Memory,
        owner: Owner,
        page: Option<PageAddress>,
        prefix: &[u8],
        payload_bytes: usize,
    ) -> Self {
        Self::with_room(Place { memory, owner, demand: Demand::Must }, page, prefix, (payload_bytes, 1)).expect(MUST)
    }

    fn with_room(
        place: Place<'_>,
        page: Option<PageAddress>,
        prefix: &[u8],
        (payload_bytes, records): (usize, usize),
    ) -> Option<Self> {
        let payload_bytes = payload_bytes.max(slots::HEADER_BYTES - slots::DENSE_HEADER_BYTES);
        let head_bytes = HEADER_BYTES + prefix.len() + slots::DENSE_HEADER_BYTES;
        let class = place.memory.sizing().class_for(head_bytes, payload_bytes, records);
        Self::of_class(place, page, prefix, class)
    }

    /// `None` only if there is no memory to spare. It may be a little larger than the class.
    fn of_class(place: Place<'_>, page: Option<PageAddress>, prefix: &[u8], class: usize) -> Option<Self> {
        let Place { memory, owner, demand } = place;
        let (taken, class) = memory.take(class, owner, demand)?;
        let head = taken.cast::<Header>();
        let prefix_bytes = prefix.len() as u64;
        assert!(prefix_bytes <= PREFIX_MASK, "a prefix is no longer than a key");
        let origin = memory.origin();
        // SAFETY: the memory has the class's bytes, at least HEADER_BYTES, aligned to 8, and is nobody else's.
        unsafe {
            head.write(Header {
                word: page.map_or(0, PageAddress::raw)
                    | prefix_bytes << PREFIX_SHIFT
                    | u64::from(origin.raw()) << ORIGIN_SHIFT,
                sequence: [0; 6],
                class: u8::try_from(class).expect("there are fewer than 256 classes"),
                // A mini-page is referenced when a scan used all of it, or somebody found it near the head and could not copy it.
                referenced: AtomicBool::new(!origin.is_ring()),
            });
        }
        let mut buffer = Self { head };
        if let Some(marks) = buffer.marks() {
            marks.clear();
        }
        let tail = buffer.tail_mut();
        tail[..prefix.len()].copy_from_slice(prefix);
        SlotsMut::init(&mut tail[prefix.len()..]);
        Some(buffer)
    }

    fn header(&self) -> &Header {
        // SAFETY: `head` points to an initialised header that this buffer owns.
        unsafe { self.head.as_ref() }
    }

    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { self.head.as_mut() }
    }

    fn origin(&self) -> Origin {
        Origin::from_raw((self.header().word >> ORIGIN_SHIFT) as u8)
    }

    /// Whether it is a mini-page.
    pub(crate) fn is_mini_page(&self) -> bool {
        self.origin().is_ring()
    }

    /// The marks of a mini-page.
    fn marks(&self) -> Option<Marks<'_>> {
        // SAFETY: the memory has the class's bytes, which are initialised; prefix and slots end before the marks.
        self.is_mini_page().then(|| unsafe { Marks::at_end(self.head.cast(), class_bytes(self.class())) })
    }

    fn tail_bytes(&self) -> usize {
        let bytes = class_bytes(self.class());
        let marks = if self.is_mini_page() { 2 * mark_bytes(bytes) } else { 0 };
        bytes - HEADER_BYTES - marks
    }

    fn tail(&self) -> &[u8] {
        // SAFETY: the memory has the class's bytes, which are initialised; the tail overlaps neither header nor marks.
        unsafe { slice::from_raw_parts(self.head.as_ptr().cast::<u8>().add(HEADER_BYTES), self.tail_bytes()) }
    }

    fn tail_mut(&mut self) -> &mut [u8] {
        let bytes = self.tail_bytes();
        // SAFETY: as in `tail`, and `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.head.as_ptr().cast::<u8>().add(HEADER_BYTES), bytes) }
    }

    /// Size class (`pool/class.rs`).
    pub(crate) fn class(&self) -> usize {
        usize::from(self.header().class)
    }

    /// What of its memory is for records: all but its head and the prefix of their keys.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.tail_bytes() - self.prefix_bytes() - slots::DENSE_HEADER_BYTES
    }

    /// Bytes of its memory.
    pub(crate) fn bytes(&self) -> usize {
        class_bytes(self.class())
    }

    /// Where its memory is.
    pub(crate) fn memory_at(&self) -> NonNull<u8> {
        self.head.cast()
    }

    /// The leaf's page, or `None` if it was never written.
    pub(crate) fn page(&self) -> Option<PageAddress> {
        PageAddress::from_raw(self.header().word & PAGE_MASK)
    }

    /// The leaf's page moved.
    pub(crate) fn set_page(&mut self, page: Option<PageAddress>) {
        let header = self.header_mut();
        header.word = header.word & !PAGE_MASK | page.map_or(0, PageAddress::raw);
    }

    /// Highest log sequence number of its records.
    pub(crate) fn sequence(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.header().sequence);
        u64::from_le_bytes(bytes)
    }

    fn set_sequence(&mut self, sequence: u64) {
        let bytes = sequence.to_le_bytes();
        assert!(bytes[6..] == [0; 2], "sequence numbers have 48 bits");
        self.header_mut().sequence.copy_from_slice(&bytes[..6]);
    }

    /// Notes a change made under `sequence`.
    pub(crate) fn note_change(&mut self, sequence: u64) {
        if sequence > self.sequence() {
            self.set_sequence(sequence);
        }
        self.header_mut().word |= DIRTY;
    }

    /// Whether it mirrors the page, so that an absent key does not exist.
    pub(crate) fn is_complete(&self) -> bool {
        self.header().word & COMPLETE != 0
    }

    /// Whether it holds records that the page lacks.
    pub(crate) fn is_dirty(&self) -> bool {
        self.header().word & DIRTY != 0
    }

    /// Takes state other than records from `other`.
    fn inherit(&mut self, other: &Buffer) {
        self.set_sequence(other.sequence());
        self.header_mut().word |= other.header().word & (COMPLETE | DIRTY);
    }

    /// Declares it a mirror of its page.
    pub(crate) fn set_complete(&mut self) {
        self.header_mut().word |= COMPLETE;
    }

    /// Marks it as used; cheap enough for every access.
    pub(crate) fn touch(&self) {
        if !self.header().referenced.load(Ordering::Relaxed) {
            self.header().referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Whether [`touch`](Self::touch) was called since it was made, or the last [`take_reference`](Self::take_reference).
    pub(crate) fn is_referenced(&self) -> bool {
        self.header().referenced.load(Ordering::Relaxed)
    }

    /// Whether it was used since the last call.
    pub(crate) fn take_reference(&self) -> bool {
        self.header().referenced.swap(false, Ordering::Relaxed)
    }

    fn prefix_bytes(&self) -> usize {
        (self.header().word >> PREFIX_SHIFT & PREFIX_MASK) as usize
    }

    /// The prefix of all its keys.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.tail()[..self.prefix_bytes()]
    }

    /// How many bytes of the prefix `key` does not begin with: each record gets them back when it comes.
    pub(crate) fn prefix_bytes_beyond(&self, key: &[u8]) -> usize {
        let prefix = self.prefix();
        if key.starts_with(prefix) { 0 } else { prefix.len() - common_prefix_bytes(prefix, key) }
    }

    /// The records, with key suffixes.
    pub(crate) fn slots(&self) -> Slots<'_> {
        Slots::new(&self.tail()[self.prefix_bytes()..])
    }

    /// A copy of all records as the body of a page without fences.
    pub(crate) fn to_body(&self) -> Vec<u8> {
        leaf_page::of_slots(self.prefix(), self.slots())
    }

    /// The record of `key`, with its suffix.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Record<'_>> {
        self.slots().find(key.strip_prefix(self.prefix())?)
    }

    /// As [`find`](Self::find), for a read: a mini-page's record is marked as used.
    pub(crate) fn read(&self, key: &[u8]) -> Option<Record<'_>> {
        let slots = self.slots();
        let index = slots.search(key.strip_prefix(self.prefix())?).ok()?;
        if let Some(marks) = self.marks() {
            marks.set_used(index);
        }
        Some(slots.record(index))
    }

    /// The record of `key` if its value dies when it is overwritten here. The value of a clean record that may still be asked from the page
    /// dies when both are merged.
    pub(crate) fn find_own(&self, key: &[u8]) -> Option<Record<'_>> {
        let slots = self.slots();
        let index = slots.search(key.strip_prefix(self.prefix())?).ok()?;
        (self.is_complete() || self.is_dirty_at(index)).then(|| slots.record(index))
    }

    fn is_dirty_at(&self, index: usize) -> bool {
        self.marks().is_none_or(|marks| marks.is_dirty(index))
    }

    /// The records that the page lacks, with key suffixes; all, if it has no marks.
    pub(crate) fn dirty_records(&self) -> impl Iterator<Item = Record<'_>> + Clone {
        let marks = self.marks();
        let dirty = move |index: &usize| marks.is_none_or(|marks| marks.is_dirty(*index));
        let slots = self.slots();
        (0..slots.len()).filter(dirty).map(move |index| slots.record(index))
    }

    /// Bytes of the records that the page lacks.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.dirty_records().map(|record| record.key.len() + record.value.len()).sum()
    }

    /// What a merge or a scan needs of it: all if it mirrors the page, else what the page lacks; with key suffixes.
    pub(crate) fn pending_records(&self) -> impl Iterator<Item = Record<'_>> + Clone {
        self.pending_among(0..self.slots().len())
    }

    /// As [`pending_records`](Self::pending_records), of the records with these indexes.
    pub(crate) fn pending_among(&self, indexes: std::ops::Range<usize>) -> impl Iterator<Item = Record<'_>> + Clone {
        let marks = self.marks().filter(|_| !self.is_complete());
        let pending = move |index: &usize| marks.is_none_or(|marks| marks.is_dirty(*index));
        let slots = self.slots();
        indexes.filter(pending).map(move |index| slots.record(index))
    }

    /// The records that were used, with key suffixes.
    pub(crate) fn used_records(&self) -> impl Iterator<Item = Record<'_>> {
        let marks = self.marks();
        let used = move |index: &usize| marks.is_some_and(|marks| marks.is_used(*index));
        let slots = self.slots();
        (0..slots.len()).filter(used).map(move |index| slots.record(index))
    }

    /// Whether it has a dirty record that nobody used.
    pub(crate) fn has_cold_dirty(&self) -> bool {
        let cold = |marks: Marks<'_>, index| marks.is_dirty(index) && !marks.is_used(index);
        self.marks().is_some_and(|marks| (0..self.slots().len()).any(|index| cold(marks, index)))
    }

    /// Inserts or replaces; returns `false`, with nothing changed, if there is no room or the prefix does not fit.
    pub(crate) fn upsert(&mut self, record: &Record<'_>) -> bool {
        self.put(record, true)
    }

    fn put(&mut self, record: &Record<'_>, dirty: bool) -> bool {
        let Some(key) = record.key.strip_prefix(self.prefix()) else { return false };
        let found = self.slots().search(key);
        let marks_max = self.marks().map_or(usize::MAX, Marks::records_max);
        if found.is_err() && self.slots().len() >= marks_max {
            return false;
        }
        let at = self.prefix_bytes();
        let done = SlotsMut::new(&mut self.tail_mut()[at..]).upsert_at(found, &Record { key, ..*record });
        if let Some(marks) = self.marks().filter(|_| done) {
            match found {
                Ok(index) => marks.set_used(index),
                Err(index) => marks.insert(index),
            }
            let (Ok(index) | Err(index)) = found;
            marks.set_dirty(index, dirty);
        }
        done
    }

    /// A larger copy that also holds `record`.
    pub(crate) fn grown(&self, memory: &Memory, owner: Owner, record: &Record<'_>) -> Self {
        self.grown_in(Place { memory, owner, demand: Demand::Must }, record, true).expect(MUST)
    }

    fn grown_in(&self, place: Place<'_>, record: &Record<'_>, dirty: bool) -> Option<Self> {
        let suffix = record.key.strip_prefix(self.prefix()).map(|key| Record { key, ..*record });
        match suffix.and_then(|suffix| Some((suffix, self.slots().dense_bytes_with(&suffix)?))) {
            Some((suffix, bytes)) => self.grown_alike(place, (&suffix, bytes), dirty),
            None => self.grown_unlike(place, record, dirty),
        }
    }

    /// As [`grown`](Self::grown) for a dense buffer and a new key of the same shape: one copy, no slack but the class's.
    fn grown_alike(&self, place: Place<'_>, (suffix, bytes): (&Record<'_>, usize), dirty: bool) -> Option<Self> {
        let payload = bytes.max(slots::HEADER_BYTES) - slots::DENSE_HEADER_BYTES;
        let mut copy = Self::with_room(place, self.page(), self.prefix(), (payload, self.slots().len() + 1))?;
        copy.inherit(self);
        let at = self.prefix_bytes();
        SlotsMut::new(&mut copy.tail_mut()[at..]).copy_dense_with(self.slots(), suffix);
        copy.copy_marks(self);
        if let (Some(marks), Err(index)) = (copy.marks(), self.slots().search(suffix.key)) {
            marks.insert(index);
            marks.set_dirty(index, dirty);
        }
        Some(copy)
    }

    fn grown_unlike(&self, place: Place<'_>, record: &Record<'_>, dirty: bool) -> Option<Self> {
        let shared = self.prefix().len() - self.prefix_bytes_beyond(record.key);
        let (prefix, moved) = self.prefix().split_at(shared);
        let records = self.slots().len() + 1;
        let used = self.slots().used_bytes() + self.slots().len() * moved.len();
        let added = record.key.len() - shared + record.value.len();
        // Enough where all are of one shape, and where all have slots.
        let alike = used + added + SLOT_BYTES;
        let payload = self.slots().payload_bytes() + self.slots().len() * moved.len() + added;
        let slotted = slots::encoded_bytes(records, payload, false) - slots::DENSE_HEADER_BYTES;
        for payload in [alike, slotted.max(alike)] {
            let mut copy = Self::with_room(place, self.page(), prefix, (payload, records))?;
            copy.inherit(self);
            if copy.fill_from(self, moved) && copy.put(record, dirty) {
                return Some(copy);
            }
        }
        unreachable!("records with slots take what was asked for")
    }

    /// What its records take where each has a slot: how long it may have to become for the next one.
    pub(crate) fn slotted_bytes(&self) -> usize {
        slots::encoded_bytes(self.slots().len(), self.slots().payload_bytes(), false)
    }

    fn fill_from(&mut self, other: &Buffer, moved: &[u8]) -> bool {
        let filled = if moved.is_empty() {
            let at = self.prefix_bytes();
            SlotsMut::new(&mut self.tail_mut()[at..]).fill(other.slots().iter())
        } else {
            let keys: Vec<Vec<u8>> = other.slots().iter().map(|record| [moved, record.key].concat()).collect();
            let records = keys.iter().zip(other.slots().iter()).map(|(key, record)| Record { key, ..record });
            let at = self.prefix_bytes();
            SlotsMut::new(&mut self.tail_mut()[at..]).fill(records)
        };
        self.copy_marks(other);
        filled
    }

    fn copy_marks(&self, other: &Buffer) {
        if let (Some(marks), Some(from)) = (self.marks(), other.marks()) {
            marks.copy(from);
        }
    }

    /// A buffer of exactly these records (sorted; keys begin with `prefix`, given as suffixes).
    pub(crate) fn of<'r>(
        memory: &Memory,
        owner: Owner,
        page: Option<PageAddress>,
        prefix: &[u8],
        suffixes: impl Iterator<Item = Record<'r>> + Clone,
    ) -> Self {
        Self::of_records(Place { memory, owner, demand: Demand::Must }, page, prefix, suffixes).expect(MUST)
    }

    /// As [`of`](Self::of) if there is memory to spare: what is made is only a cache. The records of a mini-page are clean.
    pub(crate) fn cache_of<'r>(
        memory: &Memory,
        owner: Owner,
        page: Option<PageAddress>,
        prefix: &[u8],
        suffixes: impl Iterator<Item = Record<'r>> + Clone,
    ) -> Option<Self> {
        Self::of_records(Place { memory, owner, demand: Demand::Spare }, page, prefix, suffixes)
    }

    fn of_records<'r>(
        place: Place<'_>,
        page: Option<PageAddress>,
        prefix: &[u8],
        suffixes: impl Iterator<Item = Record<'r>> + Clone,
    ) -> Option<Self> {
        let dense = slots::common_shape(suffixes.clone()).is_some();
        let (slot_bytes, header_bytes) =
            if dense { (0, 0) } else { (SLOT_BYTES, slots::HEADER_BYTES - slots::DENSE_HEADER_BYTES) };
        let records = suffixes.clone().count();
        let bytes: usize = suffixes.clone().map(|r| r.key.len() + r.value.len() + slot_bytes).sum();
        let mut payload = bytes + header_bytes;
        loop {
            let mut buffer = Self::with_room(place, page, prefix, (payload, records))?;
            let at = prefix.len();
            if SlotsMut::new(&mut buffer.tail_mut()[at..]).fill(suffixes.clone()) {
                return Some(buffer);
            }
            payload += payload / 2 + SLOT_BYTES;
        }
    }

    /// Gives the allocation away as an address; see [`Buffer::from_raw`].
    pub(crate) fn into_raw(self) -> u64 {
        let raw = self.head.as_ptr().expose_provenance() as u64;
        std::mem::forget(self);
        raw
    }

    /// The buffer whose address `into_raw` gave.
    ///
    /// # Safety
    /// `raw` came from `into_raw`, and at any time either one owner that may drop or change it exists, or any number of
    /// non-dropping readers.
    pub(crate) unsafe fn from_raw(raw: u64) -> Self {
        let address = usize::try_from(raw).expect("made from a usize");
        let pointer = std::ptr::with_exposed_provenance_mut::<Header>(address);
        Self { head: NonNull::new(pointer).expect("buffers are not at zero") }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let origin = self.origin();
        // SAFETY: taken by `of_class` with this class from memory of this origin; owned by `self`.
        unsafe { memory::give(self.head.cast(), self.class(), origin) }
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use zonda_pages::PageId;

    const OWNER: Owner = Owner { leaf: PageId(0), family: crate::pool::arena::Family::Stays };

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { key, kind: Kind::Inline, value }
    }

    #[test]
    fn grows_and_keeps_its_records() {
        let arena = Memory::slabs(1 << 20);
        let mut buffer = Buffer::new(&arena, OWNER, None, b"ab", 0);
        for i in 0..500_u32 {
            let key = [b"ab".as_slice(), &i.to_be_bytes()].concat();
            let record = put(&key, b"value");
            if !buffer.upsert(&record) {
                buffer = buffer.grown(&arena, OWNER, &record);
            }
        }
        assert_eq!(buffer.slots().len(), 500);
        let key = [b"ab".as_slice(), &77_u32.to_be_bytes()].concat();
        assert_eq!(buffer.find(&key).expect("present").value, b"value");
        assert!(buffer.find(b"ac").is_none());
    }

    #[test]
    fn a_key_outside_the_prefix_shortens_it() {
        let arena = Memory::slabs(1 << 20);
        let mut buffer = Buffer::new(&arena, OWNER, None, b"abc", 64);
        assert!(buffer.upsert(&put(b"abc1", b"x")));
        assert!(!buffer.upsert(&put(b"abd", b"y")));
        let wider = buffer.grown(&arena, OWNER, &put(b"abd", b"y"));
        assert_eq!(wider.prefix(), b"ab");
        assert_eq!(wider.find(b"abc1").expect("kept").value, b"x");
        assert_eq!(wider.find(b"abd").expect("added").value, b"y");
    }

    #[test]
    fn a_dense_page_of_tiny_records_is_mirrored_and_loosened() {
        let arena = Memory::slabs(1 << 20);
        // 32 KiB of 2-byte keys without values: slotted they would take five times that.
        let keys: Vec<[u8; 2]> = (0..16_000_u16).map(u16::to_be_bytes).collect();
        let mut buffer = Buffer::of(&arena, OWNER, None, b"", keys.iter().map(|key| put(key, b"")));
        assert!(buffer.bytes() < 50_000, "{} bytes", buffer.bytes());
        let record = Record { key: &keys[77], kind: Kind::Tombstone, value: b"" };
        if !buffer.upsert(&record) {
            buffer = buffer.grown(&arena, OWNER, &record);
        }
        assert_eq!(buffer.find(&keys[77]).expect("present").kind, Kind::Tombstone);
        assert_eq!(buffer.slots().len(), 16_000);
    }

    #[test]
    fn raw_round_trip() {
        let arena = Memory::slabs(1 << 20);
        let buffer = Buffer::new(&arena, OWNER, PageAddress::from_raw(64), b"", 10);
        let raw = buffer.into_raw();
        // SAFETY: `raw` is fresh and used once.
        let back = unsafe { Buffer::from_raw(raw) };
        assert_eq!(back.page(), PageAddress::from_raw(64));
    }
}
