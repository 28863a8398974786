//! A leaf's buffer: the records a leaf keeps in memory.
//!
//! One piece of memory of a size class (`pool/arena.rs`): header of 16 bytes, key prefix, then [`Slots`](crate::slots), whose
//! dense form costs 8 bytes and nothing for a record: 24 bytes and its prefix are all that a buffer of pairs of one shape
//! costs beside them. The leaf table has 46 bits for a location; hence a thin owning pointer, and the unsafe code in this file.
//!
//! Owner: the leaf table's word of one leaf, or whoever holds a [`Buffer`] that is not yet or no longer there. A buffer has
//! no fences: its leaf's range comes from the parent. Records hold suffixes behind [`Buffer::prefix`].
//! Life cycle: 1 made for the first record -> 2 grows class by class -> 3 merged into the leaf's page -> freed.

use std::{ptr::NonNull, slice};

use zonda_pages::PageAddress;
use zonda_rt::atomic::{AtomicBool, Ordering};

use crate::{
    key::common_prefix_bytes,
    pool::{
        arena::{self, Arena, Owner, Size},
        class::class_bytes,
    },
    record::Record,
    slots::{self, SLOT_BYTES, Slots, SlotsMut},
};

/// Page address in the low 46 bits, then 11 bits of prefix length, the flags, and the size of the arena's slabs.
const PREFIX_SHIFT: u32 = PageAddress::BITS;
const PREFIX_MASK: u64 = (1 << 11) - 1;
const COMPLETE: u64 = 1 << (PREFIX_SHIFT + 11);
const DIRTY: u64 = COMPLETE << 1;
const SIZE_SHIFT: u32 = PREFIX_SHIFT + 11 + 2;
const PAGE_MASK: u64 = (1 << PREFIX_SHIFT) - 1;
const _: () = assert!(SIZE_SHIFT + Size::BITS <= u64::BITS);
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

// SAFETY: a buffer owns its allocation; the only field changed through `&self` is an atomic.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// An empty buffer of `owner` with room for `payload_bytes` of key suffixes, values and slots, or more.
    pub(crate) fn new(
        arena: &Arena,
        owner: Owner,
        page: Option<PageAddress>,
        prefix: &[u8],
        payload_bytes: usize,
    ) -> Self {
        let payload_bytes = payload_bytes.max(slots::HEADER_BYTES - slots::DENSE_HEADER_BYTES);
        let head_bytes = HEADER_BYTES + prefix.len() + slots::DENSE_HEADER_BYTES;
        let class = arena.sizing().class_for(head_bytes, payload_bytes, 1);
        Self::of_class(arena, owner, page, prefix, class)
    }

    fn of_class(arena: &Arena, owner: Owner, page: Option<PageAddress>, prefix: &[u8], class: usize) -> Self {
        let head = arena.take(class, owner).cast::<Header>();
        let prefix_bytes = prefix.len() as u64;
        assert!(prefix_bytes <= PREFIX_MASK, "a prefix is no longer than a key");
        // SAFETY: the memory has the class's bytes, at least HEADER_BYTES, aligned to 16, and is nobody else's.
        unsafe {
            head.write(Header {
                word: page.map_or(0, PageAddress::raw)
                    | prefix_bytes << PREFIX_SHIFT
                    | u64::from(arena.size().raw()) << SIZE_SHIFT,
                sequence: [0; 6],
                class: u8::try_from(class).expect("there are fewer than 256 classes"),
                referenced: AtomicBool::new(true),
            });
        }
        let mut buffer = Self { head };
        let tail = buffer.tail_mut();
        tail[..prefix.len()].copy_from_slice(prefix);
        SlotsMut::init(&mut tail[prefix.len()..]);
        buffer
    }

    fn header(&self) -> &Header {
        // SAFETY: `head` points to an initialised header that this buffer owns.
        unsafe { self.head.as_ref() }
    }

    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as above, and `&mut self` makes the access exclusive.
        unsafe { self.head.as_mut() }
    }

    fn tail_bytes(&self) -> usize {
        class_bytes(self.class()) - HEADER_BYTES
    }

    fn tail(&self) -> &[u8] {
        // SAFETY: the memory has the class's bytes, which arenas initialise; the tail does not overlap the header.
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

    /// Bytes of its memory.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        class_bytes(self.class())
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

    /// The records, with key suffixes.
    pub(crate) fn slots(&self) -> Slots<'_> {
        Slots::new(&self.tail()[self.prefix_bytes()..])
    }

    /// The record of `key`, with its suffix.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Record<'_>> {
        self.slots().find(key.strip_prefix(self.prefix())?)
    }

    /// Inserts or replaces; returns `false`, with nothing changed, if there is no room or the prefix does not fit.
    pub(crate) fn upsert(&mut self, record: &Record<'_>) -> bool {
        let at = self.prefix_bytes();
        let (prefix, slots) = self.tail_mut().split_at_mut(at);
        match record.key.strip_prefix(&*prefix) {
            Some(suffix) => SlotsMut::new(slots).upsert(&Record { key: suffix, ..*record }),
            None => false,
        }
    }

    /// A larger copy that also holds `record`.
    pub(crate) fn grown(&self, arena: &Arena, owner: Owner, record: &Record<'_>) -> Self {
        self.grown_alike(arena, owner, record).unwrap_or_else(|| self.grown_unlike(arena, owner, record))
    }

    /// As [`grown`](Self::grown) for a dense buffer and a new key of the same shape: one copy, no slack but the class's.
    fn grown_alike(&self, arena: &Arena, owner: Owner, record: &Record<'_>) -> Option<Self> {
        let suffix = Record { key: record.key.strip_prefix(self.prefix())?, ..*record };
        let bytes = self.slots().dense_bytes_with(&suffix)?;
        let payload = bytes.max(slots::HEADER_BYTES) - slots::DENSE_HEADER_BYTES;
        let head_bytes = HEADER_BYTES + self.prefix_bytes() + slots::DENSE_HEADER_BYTES;
        let class = arena.sizing().class_for(head_bytes, payload, self.slots().len() + 1);
        let mut copy = Self::of_class(arena, owner, self.page(), self.prefix(), class);
        copy.inherit(self);
        let at = self.prefix_bytes();
        SlotsMut::new(&mut copy.tail_mut()[at..]).copy_dense_with(self.slots(), &suffix);
        Some(copy)
    }

    fn grown_unlike(&self, arena: &Arena, owner: Owner, record: &Record<'_>) -> Self {
        let shared = common_prefix_bytes(self.prefix(), record.key).min(self.prefix().len());
        let (prefix, moved) = self.prefix().split_at(shared);
        let used = self.slots().used_bytes() + self.slots().len() * moved.len();
        let mut payload = used + record.key.len() - shared + record.value.len() + SLOT_BYTES;
        loop {
            let mut copy = Self::new(arena, owner, self.page(), prefix, payload);
            copy.inherit(self);
            if copy.fill_from(self, moved) && copy.upsert(record) {
                return copy;
            }
            payload += payload / 2;
        }
    }

    fn fill_from(&mut self, other: &Buffer, moved: &[u8]) -> bool {
        if moved.is_empty() {
            let at = self.prefix_bytes();
            return SlotsMut::new(&mut self.tail_mut()[at..]).fill(other.slots().iter());
        }
        let keys: Vec<Vec<u8>> = other.slots().iter().map(|record| [moved, record.key].concat()).collect();
        let records = keys.iter().zip(other.slots().iter()).map(|(key, record)| Record { key, ..record });
        let at = self.prefix_bytes();
        SlotsMut::new(&mut self.tail_mut()[at..]).fill(records)
    }

    /// A buffer of exactly these records (sorted; keys begin with `prefix`, given as suffixes).
    pub(crate) fn of<'r>(
        arena: &Arena,
        owner: Owner,
        page: Option<PageAddress>,
        prefix: &[u8],
        suffixes: impl Iterator<Item = Record<'r>> + Clone,
    ) -> Self {
        let slot_bytes = if slots::common_shape(suffixes.clone()).is_some() { 0 } else { SLOT_BYTES };
        let mut payload: usize = suffixes.clone().map(|r| r.key.len() + r.value.len() + slot_bytes).sum();
        loop {
            let mut buffer = Self::new(arena, owner, page, prefix, payload);
            let at = prefix.len();
            if SlotsMut::new(&mut buffer.tail_mut()[at..]).fill(suffixes.clone()) {
                return buffer;
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
        let size = Size::from_raw((self.header().word >> SIZE_SHIFT) as u8);
        // SAFETY: taken by `of_class` with this class from an arena of this size; owned by `self`.
        unsafe { arena::give(self.head.cast(), self.class(), size) }
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
        let arena = Arena::new(1 << 20);
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
        let arena = Arena::new(1 << 20);
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
        let arena = Arena::new(1 << 20);
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
        let arena = Arena::new(1 << 20);
        let buffer = Buffer::new(&arena, OWNER, PageAddress::from_raw(64), b"", 10);
        let raw = buffer.into_raw();
        // SAFETY: `raw` is fresh and used once.
        let back = unsafe { Buffer::from_raw(raw) };
        assert_eq!(back.page(), PageAddress::from_raw(64));
    }
}
