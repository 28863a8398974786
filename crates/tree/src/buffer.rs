//! A leaf's buffer: the records a leaf keeps in memory.
//!
//! One allocation of a size class: header, key prefix, then [`Slots`](crate::slots). Plain `Box`es would need two
//! allocations and two fat pointers per leaf, and the leaf table has 46 bits for a location; hence a thin owning pointer, and
//! the unsafe code in this file.
//!
//! Owner: the leaf table's word of one leaf, or whoever holds a [`Buffer`] that is not yet or no longer there. A buffer has
//! no fences: its leaf's range comes from the parent. Records hold suffixes behind [`Buffer::prefix`].
//! Life cycle: 1 made for the first record -> 2 grows class by class -> 3 merged into the leaf's page -> freed.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    ptr::NonNull,
    slice,
};

use zonda_pages::PageAddress;
use zonda_rt::atomic::{AtomicBool, Ordering};

use crate::{
    key::common_prefix_bytes,
    record::Record,
    slots::{self, SLICE_BYTES_MAX, SLOT_BYTES, Slots, SlotsMut},
};

/// Bytes of allocations by class: doubling with one step between, so that at most a third of a buffer is slack.
pub(crate) const CLASS_BYTES: [usize; 25] = [
    64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768,
    49_152, 65_536, 98_304, 131_072, 196_608, 262_144,
];

/// What the allocator adds to an allocation, charged to the budget.
const ALLOCATOR_BYTES: usize = 8;

#[repr(C)]
struct Header {
    page: u64,
    sequence: u64,
    epoch: u64,
    class: u8,
    complete: bool,
    dirty: bool,
    referenced: AtomicBool,
    prefix_bytes: u16,
    unused: u16,
}

/// Bytes before the prefix: 32, but for shuttle's atomics, which are larger.
const HEADER_BYTES: usize = size_of::<Header>();
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(HEADER_BYTES == 32);

/// An owned leaf buffer.
pub(crate) struct Buffer {
    head: NonNull<Header>,
}

// SAFETY: a buffer owns its allocation; the only field changed through `&self` is an atomic.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// An empty buffer with room for `payload_bytes` of key suffixes, values and slots, or more.
    pub(crate) fn new(page: Option<PageAddress>, prefix: &[u8], payload_bytes: usize) -> Self {
        let need = HEADER_BYTES + prefix.len() + slots::HEADER_BYTES + payload_bytes;
        let class = class_for(need);
        let layout = layout_of(class);
        // SAFETY: the layout is not empty.
        let raw = unsafe { alloc(layout) }.cast::<Header>();
        let Some(head) = NonNull::new(raw) else { handle_alloc_error(layout) };
        // SAFETY: `head` is a fresh allocation of at least HEADER_BYTES, aligned to 16.
        unsafe {
            head.write(Header {
                page: page.map_or(0, PageAddress::raw),
                sequence: 0,
                epoch: 0,
                class: u8::try_from(class).expect("fewer than 256 classes"),
                complete: false,
                dirty: false,
                referenced: AtomicBool::new(true),
                prefix_bytes: u16::try_from(prefix.len()).expect("keys are shorter than 64 KiB"),
                unused: 0,
            });
        }
        let mut buffer = Self { head };
        let tail = buffer.tail_mut();
        tail.fill(0);
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
        CLASS_BYTES[usize::from(self.header().class)] - HEADER_BYTES
    }

    fn tail(&self) -> &[u8] {
        // SAFETY: the allocation has the class's bytes, all initialised by `new`; the tail does not overlap the header.
        unsafe { slice::from_raw_parts(self.head.as_ptr().cast::<u8>().add(HEADER_BYTES), self.tail_bytes()) }
    }

    fn tail_mut(&mut self) -> &mut [u8] {
        let bytes = self.tail_bytes();
        // SAFETY: as in `tail`, and `&mut self` makes the access exclusive. On the first call from `new` the bytes are
        // not yet initialised; that call only fills them.
        unsafe { slice::from_raw_parts_mut(self.head.as_ptr().cast::<u8>().add(HEADER_BYTES), bytes) }
    }

    /// Size class, an index into [`CLASS_BYTES`].
    pub(crate) fn class(&self) -> usize {
        usize::from(self.header().class)
    }

    /// Bytes charged to the budget.
    pub(crate) fn charged_bytes(&self) -> u64 {
        (CLASS_BYTES[self.class()] + ALLOCATOR_BYTES) as u64
    }

    /// The leaf's page, or `None` if it was never written.
    pub(crate) fn page(&self) -> Option<PageAddress> {
        PageAddress::from_raw(self.header().page)
    }

    /// The leaf's page moved.
    pub(crate) fn set_page(&mut self, page: Option<PageAddress>) {
        self.header_mut().page = page.map_or(0, PageAddress::raw);
    }

    /// Highest log sequence number of its records.
    pub(crate) fn sequence(&self) -> u64 {
        self.header().sequence
    }

    /// The snapshot number current at the last change.
    pub(crate) fn epoch(&self) -> u64 {
        self.header().epoch
    }

    /// Notes a change made under `sequence` while snapshot number `epoch` was the newest.
    pub(crate) fn note_change(&mut self, sequence: u64, epoch: u64) {
        let header = self.header_mut();
        header.sequence = header.sequence.max(sequence);
        header.epoch = epoch;
        header.dirty = true;
    }

    /// Whether it mirrors the page, so that an absent key does not exist.
    pub(crate) fn is_complete(&self) -> bool {
        self.header().complete
    }

    /// Whether it holds records that the page lacks.
    pub(crate) fn is_dirty(&self) -> bool {
        self.header().dirty
    }

    /// Takes state other than records from `other`; `complete` says whether this one mirrors the page.
    pub(crate) fn inherit(&mut self, other: &Buffer, complete: bool) {
        let (sequence, epoch, dirty) = (other.sequence(), other.epoch(), other.is_dirty());
        let header = self.header_mut();
        (header.sequence, header.epoch, header.dirty, header.complete) = (sequence, epoch, dirty, complete);
    }

    /// Declares it a mirror of its page.
    pub(crate) fn set_complete(&mut self) {
        self.header_mut().complete = true;
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

    /// The prefix of all its keys.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.tail()[..usize::from(self.header().prefix_bytes)]
    }

    /// The records, with key suffixes.
    pub(crate) fn slots(&self) -> Slots<'_> {
        Slots::new(&self.tail()[usize::from(self.header().prefix_bytes)..])
    }

    /// The record of `key`, with its suffix.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Record<'_>> {
        self.slots().find(key.strip_prefix(self.prefix())?)
    }

    /// Inserts or replaces; returns `false`, with nothing changed, if there is no room or the prefix does not fit.
    pub(crate) fn upsert(&mut self, record: &Record<'_>) -> bool {
        let at = usize::from(self.header().prefix_bytes);
        let (prefix, slots) = self.tail_mut().split_at_mut(at);
        match record.key.strip_prefix(&*prefix) {
            Some(suffix) => SlotsMut::new(slots).upsert(&Record { key: suffix, ..*record }),
            None => false,
        }
    }

    /// A larger copy that also holds `record`.
    pub(crate) fn grown(&self, record: &Record<'_>) -> Self {
        let shared = common_prefix_bytes(self.prefix(), record.key).min(self.prefix().len());
        let (prefix, moved) = self.prefix().split_at(shared);
        let used = self.slots().used_bytes() + self.slots().len() * moved.len();
        let mut payload = used + record.key.len() - shared + record.value.len() + SLOT_BYTES;
        loop {
            let mut copy = Self::new(self.page(), prefix, payload);
            copy.inherit(self, self.is_complete());
            if copy.fill_from(self, moved) && copy.upsert(record) {
                return copy;
            }
            payload += payload / 2;
        }
    }

    fn fill_from(&mut self, other: &Buffer, moved: &[u8]) -> bool {
        if moved.is_empty() {
            let at = usize::from(self.header().prefix_bytes);
            return SlotsMut::new(&mut self.tail_mut()[at..]).fill(other.slots().iter());
        }
        let keys: Vec<Vec<u8>> = other.slots().iter().map(|record| [moved, record.key].concat()).collect();
        let records = keys.iter().zip(other.slots().iter()).map(|(key, record)| Record { key, ..record });
        let at = usize::from(self.header().prefix_bytes);
        SlotsMut::new(&mut self.tail_mut()[at..]).fill(records)
    }

    /// A buffer of exactly these records (sorted; keys begin with `prefix`, given as suffixes).
    pub(crate) fn of<'r>(
        page: Option<PageAddress>,
        prefix: &[u8],
        suffixes: impl Iterator<Item = Record<'r>> + Clone,
    ) -> Self {
        let slot_bytes = if slots::common_shape(suffixes.clone()).is_some() { 0 } else { SLOT_BYTES };
        let mut payload: usize = suffixes.clone().map(|r| r.key.len() + r.value.len() + slot_bytes).sum();
        loop {
            let mut buffer = Self::new(page, prefix, payload);
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
        let layout = layout_of(self.class());
        // SAFETY: allocated by `new` with this layout; owned by `self`.
        unsafe { dealloc(self.head.as_ptr().cast(), layout) }
    }
}

fn class_for(bytes: usize) -> usize {
    let class = CLASS_BYTES.iter().position(|&class| class >= bytes);
    class.unwrap_or_else(|| panic!("a leaf buffer of {bytes} bytes; slices end at {SLICE_BYTES_MAX}"))
}

fn layout_of(class: usize) -> Layout {
    Layout::from_size_align(CLASS_BYTES[class], 16).expect("class sizes are small")
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { key, kind: Kind::Inline, value }
    }

    #[test]
    fn grows_and_keeps_its_records() {
        let mut buffer = Buffer::new(None, b"ab", 0);
        for i in 0..500_u32 {
            let key = [b"ab".as_slice(), &i.to_be_bytes()].concat();
            let record = put(&key, b"value");
            if !buffer.upsert(&record) {
                buffer = buffer.grown(&record);
            }
        }
        assert_eq!(buffer.slots().len(), 500);
        let key = [b"ab".as_slice(), &77_u32.to_be_bytes()].concat();
        assert_eq!(buffer.find(&key).expect("present").value, b"value");
        assert!(buffer.find(b"ac").is_none());
    }

    #[test]
    fn a_key_outside_the_prefix_shortens_it() {
        let mut buffer = Buffer::new(None, b"abc", 64);
        assert!(buffer.upsert(&put(b"abc1", b"x")));
        assert!(!buffer.upsert(&put(b"abd", b"y")));
        let wider = buffer.grown(&put(b"abd", b"y"));
        assert_eq!(wider.prefix(), b"ab");
        assert_eq!(wider.find(b"abc1").expect("kept").value, b"x");
        assert_eq!(wider.find(b"abd").expect("added").value, b"y");
    }

    #[test]
    fn a_dense_page_of_tiny_records_is_mirrored_and_loosened() {
        // 32 KiB of 2-byte keys without values: slotted they would take five times that.
        let keys: Vec<[u8; 2]> = (0..16_000_u16).map(u16::to_be_bytes).collect();
        let mut buffer = Buffer::of(None, b"", keys.iter().map(|key| put(key, b"")));
        assert!(buffer.charged_bytes() < 50_000, "{} bytes", buffer.charged_bytes());
        let record = Record { key: &keys[77], kind: Kind::Tombstone, value: b"" };
        if !buffer.upsert(&record) {
            buffer = buffer.grown(&record);
        }
        assert_eq!(buffer.find(&keys[77]).expect("present").kind, Kind::Tombstone);
        assert_eq!(buffer.slots().len(), 16_000);
    }

    #[test]
    fn raw_round_trip() {
        let buffer = Buffer::new(PageAddress::from_raw(64), b"", 10);
        let raw = buffer.into_raw();
        // SAFETY: `raw` is fresh and used once.
        let back = unsafe { Buffer::from_raw(raw) };
        assert_eq!(back.page(), PageAddress::from_raw(64));
    }
}
