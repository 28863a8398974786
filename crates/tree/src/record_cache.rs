//! The record cache: records that point reads found in pages, by key, so that favourites cost no second read (decision 0029).
//!
//! It stands between a leaf's buffer and its page. **Always**: under a leaf's latch, what the cache says of a key of that leaf is what the
//! leaf's page says. So readers look here only under the latch and only for what the buffer does not know; they keep a record only under
//! the latch and only while the page that they read is still the leaf's; and whoever gives a leaf pages with other records says here,
//! before the latch goes, what became of each record that changed ([`RecordCache::update`]). Keys move between leaves as they like.
//!
//! Memory is **segments** of one size, of **buckets** of 1 KiB ([`Bucket`]); a key's hash says which. Segments come and go one at a time at
//! run time, as in a linear hash table: a new one takes over keys of one that was there before, and gives them up when it goes. A removed
//! segment's records are forgotten, never found again: a segment holds only keys that are its own now.
//!
//! Cost of a look: one hash, one uncontended lock, a walk over at most 1 KiB. Memory beside keys and values: 4 bytes a record, and what is
//! left free at the ends of buckets. Records of more than 256 bytes in all are not kept: a page cache holds them as well.

mod bucket;

use zonda_rt::{
    MappedBytes, Mutex, PerThread,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::record::Record;
use bucket::{BUCKET_BYTES, Bucket};

/// Limits of the size of a segment: whole pages of the system, and a move of its records that is soon over.
const SEGMENT_BYTES_MIN: u64 = 16 << 10;
/// See [`SEGMENT_BYTES_MIN`].
const SEGMENT_BYTES_MAX: u64 = 1 << 20;
/// About as many segments as a cache has at its largest, so that threads seldom meet at one lock.
const SEGMENTS_WANTED: u64 = 512;

/// Clean records by key. See the file's head.
pub(crate) struct RecordCache {
    /// Those in use come first. Lock order: one, or when their number changes two by index, below leaf latches.
    segments: Box<[Mutex<Option<MappedBytes>>]>,
    segment_bytes: usize,
    /// How many are in use. Changes only while the locks of the segments are held whose keys change place.
    len: AtomicUsize,
    counts: PerThread<Counts>,
    /// One change of size at a time.
    resizing: Mutex<()>,
}

/// What one thread found and kept.
#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    kept: AtomicU64,
    displaced: AtomicU64,
}

/// Where a key belongs and how it is recognised.
#[derive(Clone, Copy)]
struct Spread(u64);

impl Spread {
    fn of(key: &[u8]) -> Self {
        Self(crate::key::hash(key))
    }

    /// The segment among `len`, at least 1.
    fn segment(self, len: usize) -> usize {
        let round = len.next_power_of_two();
        let low = self.low() & (round - 1);
        if low < len { low } else { low & (round / 2 - 1) }
    }

    fn bucket(self, buckets: usize) -> usize {
        (self.0 >> 40) as usize & 0xffff & (buckets - 1)
    }

    fn tag(self) -> u8 {
        self.0.to_be_bytes()[0]
    }

    fn low(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// The segment whose keys a further one after `len` takes over in part.
fn parent_of(len: usize) -> usize {
    len - (1 << len.ilog2())
}

impl RecordCache {
    /// An empty cache without memory that may grow to `bytes_max`; 0: it never keeps anything.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let segment_bytes =
            (bytes_max / SEGMENTS_WANTED).next_power_of_two().clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let segments = (0..bytes_max / segment_bytes).map(|_| Mutex::new(None)).collect();
        let segment_bytes = usize::try_from(segment_bytes).expect("at most a MiB");
        Self {
            segments,
            segment_bytes,
            len: AtomicUsize::new(0),
            counts: PerThread::default(),
            resizing: Mutex::new(()),
        }
    }

    /// Whether it has no memory: nothing is found, nothing kept.
    pub(crate) fn is_off(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        (self.len.load(Ordering::Relaxed) * self.segment_bytes) as u64
    }

    /// All memory that it has, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bytes() + (self.segments.len() * size_of::<Mutex<Option<MappedBytes>>>()) as u64
    }

    /// Records kept so far, and how many of others had to go for them: none while there is room.
    pub(crate) fn kept_and_displaced(&self) -> (u64, u64) {
        (
            self.counts.sum(|mine| mine.kept.load(Ordering::Relaxed)),
            self.counts.sum(|mine| mine.displaced.load(Ordering::Relaxed)),
        )
    }

    /// Records found so far.
    pub(crate) fn hits(&self) -> u64 {
        self.counts.sum(|mine| mine.hits.load(Ordering::Relaxed))
    }

    /// Calls `found` with the record of `key`, if it is here. Under the latch of the key's leaf.
    pub(crate) fn find<T>(&self, key: &[u8], found: impl FnOnce(&Record<'_>) -> T) -> Option<T> {
        let found = self.with_bucket(key, |mut bucket, tag| {
            let at = bucket.search(tag, key)?;
            bucket.note_use(at);
            Some(found(&bucket.record(at)))
        })??;
        self.counts.mine().hits.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// Keeps a record of the page of its key's leaf (a tombstone: the page has none), in place of others that were not used. Under the
    /// leaf's latch.
    pub(crate) fn keep(&self, record: &Record<'_>) {
        let inserted = self.with_bucket(record.key, |mut bucket, tag| {
            bucket.search(tag, record.key).is_none().then(|| bucket.insert(tag, record))
        });
        if let Some((true, displaced)) = inserted.flatten() {
            let mine = self.counts.mine();
            mine.kept.fetch_add(1, Ordering::Relaxed);
            mine.displaced.fetch_add(displaced, Ordering::Relaxed);
        }
    }

    /// The page of this key's leaf has this record from now on (a tombstone: none): what is kept of the key follows, if anything is. Under
    /// the leaf's exclusive latch.
    pub(crate) fn update(&self, record: &Record<'_>) {
        self.with_bucket(record.key, |mut bucket, tag| {
            if let Some(at) = bucket.search(tag, record.key)
                && !bucket.replace(at, record)
            {
                bucket.remove(at);
                bucket.insert(tag, record);
            }
        });
    }

    /// Gives it as many whole segments as `bytes` have, at most what it was made for. A few hundred microseconds for each segment more.
    pub(crate) fn resize(&self, bytes: u64) {
        let wanted = usize::try_from(bytes / self.segment_bytes as u64).unwrap_or(usize::MAX).min(self.segments.len());
        if self.len.load(Ordering::Relaxed) == wanted {
            return;
        }
        let _resizing = self.resizing.lock();
        while self.len.load(Ordering::Relaxed) > wanted {
            self.shrink();
        }
        while self.len.load(Ordering::Relaxed) < wanted && self.grow() {}
    }

    /// One segment more; `false` if the system has no memory.
    fn grow(&self) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        let Some(mut fresh) = MappedBytes::new(self.segment_bytes) else { return false };
        let mut parent = (len > 0).then(|| self.segments[parent_of(len)].lock());
        if let Some(parent) = parent.as_deref_mut().and_then(Option::as_mut) {
            let moves = |key: &[u8]| Spread::of(key).segment(len + 1) == len;
            for (from, to) in parent.chunks_exact_mut(BUCKET_BYTES).zip(fresh.chunks_exact_mut(BUCKET_BYTES)) {
                Bucket::of(from).move_into(&mut Bucket::of(to), moves);
            }
        }
        *self.segments[len].lock() = Some(fresh);
        self.len.store(len + 1, Ordering::Release);
        true
    }

    /// One segment less; its records are forgotten.
    fn shrink(&self) {
        let len = self.len.load(Ordering::Relaxed) - 1;
        let mut last = self.segments[len].lock();
        *last = None;
        self.len.store(len, Ordering::Release);
    }

    /// Calls `visit` with the bucket that `key` belongs to, its segment locked; `None` if there is no segment.
    fn with_bucket<T>(&self, key: &[u8], visit: impl FnOnce(Bucket<'_>, u8) -> T) -> Option<T> {
        if self.is_off() {
            return None;
        }
        let spread = Spread::of(key);
        loop {
            let len = self.len.load(Ordering::Acquire);
            if len == 0 {
                return None;
            }
            let index = spread.segment(len);
            let mut segment = self.segments[index].lock();
            // The number changes only under the locks of those whose keys it moves: if the key's place is this one now, it stays so.
            let now = self.len.load(Ordering::Acquire);
            if now > 0
                && spread.segment(now) == index
                && let Some(segment) = segment.as_mut()
            {
                let at = spread.bucket(segment.len() / BUCKET_BYTES) * BUCKET_BYTES;
                return Some(visit(Bucket::of(&mut segment[at..at + BUCKET_BYTES]), spread.tag()));
            }
        }
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::record::Kind;

    const SEGMENT: u64 = SEGMENT_BYTES_MIN;

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { key, kind: Kind::Inline, value }
    }

    fn value(cache: &RecordCache, key: &[u8]) -> Option<(Kind, Vec<u8>)> {
        cache.find(key, |record| {
            assert_eq!(record.key, key);
            (record.kind, record.value.to_vec())
        })
    }

    fn used_bytes(segment: &mut Option<MappedBytes>) -> usize {
        let buckets = segment.as_mut().expect("in use").chunks_exact_mut(BUCKET_BYTES);
        buckets.map(|bytes| Bucket::of(bytes).used_bytes()).sum()
    }

    #[test]
    fn a_record_is_found_until_its_page_says_otherwise() {
        let cache = RecordCache::new(SEGMENT);
        cache.keep(&put(b"a", b"1"));
        assert!(cache.is_off() && value(&cache, b"a").is_none(), "there is no memory yet");
        cache.resize(SEGMENT);
        cache.keep(&put(b"a", b"1"));
        assert_eq!(value(&cache, b"a"), Some((Kind::Inline, b"1".to_vec())));
        cache.update(&put(b"a", b"22"));
        cache.update(&put(b"b", b"unknown stays so"));
        assert_eq!((value(&cache, b"a"), value(&cache, b"b")), (Some((Kind::Inline, b"22".to_vec())), None));
        cache.update(&Record { key: b"a", kind: Kind::Tombstone, value: b"" });
        assert_eq!(value(&cache, b"a"), Some((Kind::Tombstone, Vec::new())));
        assert_eq!(cache.hits(), 3);
        cache.resize(0);
        assert_eq!((value(&cache, b"a"), cache.bytes()), (None, 0));
    }

    #[test]
    fn keys_divide_evenly_and_a_further_segment_takes_them_from_one() {
        for len in 1..70 {
            for hash in 0..4_096 {
                let (before, after) = (Spread(hash).segment(len), Spread(hash).segment(len + 1));
                assert!(before < len && (after == before || after == len && before == parent_of(len)));
            }
        }
        let of_last = (0..4_096).filter(|hash| Spread(*hash).segment(64) == 63).count();
        assert_eq!(of_last, 64);
    }

    #[test]
    fn favourites_stay_when_there_is_no_room_for_all() {
        let cache = RecordCache::new(4 * SEGMENT);
        cache.resize(4 * SEGMENT);
        let key = |number: u32| number.to_be_bytes();
        for number in 0..20_000 {
            cache.keep(&put(&key(number), &[7; 16]));
            (0..200).for_each(|favourite| drop(value(&cache, &key(favourite))));
        }
        let there = (0..200).filter(|favourite| value(&cache, &key(*favourite)).is_some()).count();
        assert!(there >= 195, "{there} of 200 favourites are left");
        let used: usize = (0..4).map(|nth| used_bytes(&mut cache.segments[nth].lock())).sum();
        assert!(used as u64 * 10 >= cache.bytes() * 9, "{used} of {}", cache.bytes());
        let (kept, displaced) = cache.kept_and_displaced();
        assert!(kept >= 19_800 && (kept - 4_000..kept).contains(&displaced), "{kept} {displaced}");
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Keep(u8, u8),
        Update(u8, u8),
        Resize(u8),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            4 => (any::<u8>(), 0..200_u8).prop_map(|(key, length)| Operation::Keep(key, length)),
            4 => (any::<u8>(), 0..200_u8).prop_map(|(key, length)| Operation::Update(key, length)),
            1 => (0..6_u8).prop_map(Operation::Resize),
        ]
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_the_page_has(operations in prop::collection::vec(operation(), 1..400)) {
            let cache = RecordCache::new(6 * SEGMENT);
            let mut pages: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
            for (version, operation) in (0_u8..=255).cycle().zip(operations) {
                match operation {
                    Operation::Keep(key, length) => {
                        let value = pages.entry(key).or_insert_with(|| vec![version; usize::from(length)]);
                        cache.keep(&put(&[key], value));
                    }
                    Operation::Update(key, length) => {
                        let value = vec![version; usize::from(length)];
                        cache.update(&put(&[key], &value));
                        pages.insert(key, value);
                    }
                    Operation::Resize(segments) => cache.resize(u64::from(segments) * SEGMENT),
                }
                for (key, expected) in &pages {
                    if let Some((_, found)) = value(&cache, &[*key]) {
                        prop_assert_eq!(&found, expected);
                    }
                }
            }
        }
    }
}
