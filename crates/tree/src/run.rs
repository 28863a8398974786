//! The pairs of one leaf range that a scan has not handed out yet.
//!
//! Page and records of the buffer are merged pair by pair, from either end: a scan pays for what it takes, not for the leaf, and a pair is
//! copied as far as its key lies in two places. Nothing is held. Large values are read when the turn of the first comes, under the
//! protection of the snapshot: that one alone at first, then two, four and more in flight together, so that what is read in vain is less
//! than what was used. Whoever said how many pairs he will take gets that many at once.

mod fetched;
mod left;
mod page;

use crate::{
    record::Kind,
    record_list::RecordList,
    scan::Range,
    tree::{Result, Tree},
    values::ValuePointer,
};
use fetched::{Fetched, Place};
use left::{Left, Next, Sources};
use page::Page;

/// Pairs that are read ahead with large values at the most.
const READ_PAIRS_MAX: usize = 256;
/// Large values that are read at once at the most.
const LARGE_VALUES_MAX: usize = 32;
/// Their bytes at the most, but always one value.
const LARGE_BYTES_MAX: usize = 1 << 20;

/// Room for a key at first.
const KEY_BYTES_USUAL: usize = 64;

/// An end of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The least keys.
    Front,
    /// The greatest keys.
    Back,
}

impl End {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
}

/// What is left of a leaf range.
pub(crate) struct Run {
    /// `None` if there is no page, or the records are all there is.
    page: Option<Page>,
    /// The buffer's records, sorted; they win over the page's.
    records: RecordList,
    /// Records of both that were not handed out yet.
    left: Left,
    /// The key of the page's record that was taken last: the page's prefix, which stays, and its own part.
    key: Vec<u8>,
    /// Read from the front, in order.
    front: Fetched,
    /// Read from the back, in order.
    back: Fetched,
    /// Large values that are read together when the next one comes.
    large_values: usize,
    /// Pairs are handed out without their values.
    keys_only: bool,
}

/// A pair that was taken; it can be looked at until the next one is.
#[derive(Clone, Copy)]
pub(crate) enum Taken {
    /// A record of the page; its key was put together, its value is there in the page's body.
    Slot(usize, usize),
    /// A record of the buffer.
    Fresh(usize),
    /// One that had been read from an end.
    Fetched(End, Place),
}

impl Run {
    /// The pairs of a page's `body` and `records` that `range` holds.
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn new(body: Option<Vec<u8>>, records: RecordList, range: &Range) -> Result<Self> {
        let page = body.map(Page::of).transpose()?;
        let slots = page.as_ref().map_or(0..0, |page| range.indexes(page.slots().len(), |key| page.search(key)));
        let fresh = range.indexes(records.len(), |key| records.search(key));
        let mut key = Vec::with_capacity(KEY_BYTES_USUAL);
        key.extend_from_slice(page.as_ref().map_or(&[], Page::prefix));
        let (front, back) = (Fetched::default(), Fetched::default());
        Ok(Self { page, records, left: Left::new(slots, fresh), key, front, back, large_values: 1, keys_only: false })
    }

    /// The same, without values if `keys_only`.
    pub(crate) fn keys_only(self, keys_only: bool) -> Self {
        Self { keys_only, ..self }
    }

    /// The same, reading so many large values at once at first.
    pub(crate) fn with_large_values(self, large_values: usize) -> Self {
        Self { large_values: large_values.clamp(1, LARGE_VALUES_MAX), ..self }
    }

    /// How many large values it would read at once now.
    pub(crate) fn large_values(&self) -> usize {
        self.large_values
    }

    /// How many records the page holds.
    pub(crate) fn page_records(&self) -> usize {
        self.page.as_ref().map_or(0, |page| page.slots().len())
    }

    /// The next pair from one end, if it is one of page or buffer that takes no reading; `None` says nothing about what there is otherwise.
    #[inline]
    pub(crate) fn take_ready(&mut self, end: End) -> Option<Taken> {
        if !self.fetched(end).is_empty() {
            return None;
        }
        loop {
            let sources = Sources { page: self.page.as_ref(), records: &self.records };
            let next = self.left.next(sources, end)?;
            let kind = sources.kind(next)?;
            if kind == Kind::Pointer && !self.keys_only {
                return None;
            }
            self.left.drop_next(next, end);
            if kind == Kind::Tombstone {
                continue;
            }
            return Some(match (next, &self.page) {
                (Next::Slot(slot), Some(page)) => {
                    let value = page.look(slot, &mut self.key);
                    Taken::Slot(value.start, value.end)
                }
                (Next::Fresh { index, .. }, _) => Taken::Fresh(index),
                (Next::Slot(_), None) => unreachable!("slots are a page's"),
            });
        }
    }

    /// The next pair from one end.
    ///
    /// # Errors
    /// Those of reading large values; the same call may be tried again.
    pub(crate) fn take(&mut self, tree: &Tree, end: End) -> Result<Option<Taken>> {
        loop {
            if let Some(place) = self.fetched(end).pop(end) {
                return Ok(Some(Taken::Fetched(end, place)));
            }
            if let Some(taken) = self.take_ready(end) {
                return Ok(Some(taken));
            }
            let sources = Sources { page: self.page.as_ref(), records: &self.records };
            if self.left.next(sources, end).is_none() {
                let other = end.other();
                return Ok(self.fetched(other).pop(end).map(|place| Taken::Fetched(other, place)));
            }
            self.fetch(tree, end)?;
        }
    }

    /// Whether a pair is left.
    pub(crate) fn has_more(&self) -> bool {
        !self.left.is_empty() || !self.front.is_empty() || !self.back.is_empty()
    }

    /// The pair that was taken last.
    #[inline]
    pub(crate) fn pair(&self, taken: Taken) -> (&[u8], &[u8]) {
        let (key, value) = match taken {
            Taken::Slot(start, end) => {
                (self.key.as_slice(), self.page.as_ref().map_or(&[][..], |page| page.bytes(start..end)))
            }
            Taken::Fresh(index) => {
                let record = self.records.get(index);
                (record.key, record.value)
            }
            Taken::Fetched(End::Front, place) => self.front.pair(place),
            Taken::Fetched(End::Back, place) => self.back.pair(place),
        };
        (key, if self.keys_only { &[] } else { value })
    }

    fn fetched(&mut self, end: End) -> &mut Fetched {
        match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        }
    }

    /// Reads what comes next, which has a large value, with those behind it that are read together. What is wrong with a later one is told
    /// when its turn comes.
    fn fetch(&mut self, tree: &Tree, end: End) -> Result<()> {
        let count = self.large_values;
        match self.fetch_up_to(tree, (end, count)) {
            Err(_) if count > 1 => {
                self.large_values = 1;
                self.fetch_up_to(tree, (end, 1))
            }
            Ok(()) => {
                self.large_values = (2 * count).min(LARGE_VALUES_MAX);
                Ok(())
            }
            failed => failed,
        }
    }

    /// Reads the pairs up to the `count`-th large value; nothing, if one cannot be read.
    fn fetch_up_to(&mut self, tree: &Tree, (end, count): (End, usize)) -> Result<()> {
        let mut left = self.left.clone();
        let (mut pairs, mut large) = (Vec::new(), Vec::<(Vec<u8>, ValuePointer)>::new());
        let (mut fetched, mut bytes) = (Fetched::default(), 0);
        let sources = Sources { page: self.page.as_ref(), records: &self.records };
        while large.len() < count
            && pairs.len() < READ_PAIRS_MAX
            && let Some(next) = left.next(sources, end)
            && let Some((prefix, found)) = sources.record(next)
        {
            if found.kind == Kind::Pointer {
                let pointer = ValuePointer::decode(found.value)?;
                bytes += pointer.total_bytes();
                if bytes > LARGE_BYTES_MAX && !large.is_empty() {
                    break;
                }
                large.push(([prefix, found.key].concat(), pointer));
            }
            if found.kind != Kind::Tombstone {
                pairs.push(((prefix, found.key), found));
            }
            left.drop_next(next, end);
        }
        let mut values = tree.values_of(&large)?.into_iter();
        for (key, found) in pairs {
            let read = if found.kind == Kind::Pointer { values.next() } else { None };
            fetched.push(end, key, read.as_deref().unwrap_or(found.value));
        }
        *self.fetched(end) = fetched;
        self.left = left;
        Ok(())
    }
}

impl Tree {
    /// The large values that pointers of keys point to.
    fn values_of(&self, large: &[(Vec<u8>, ValuePointer)]) -> Result<Vec<Vec<u8>>> {
        let _guard = self.epoch.pin();
        let wanted: Vec<(&[u8], &ValuePointer)> =
            large.iter().map(|(key, pointer)| (key.as_slice(), pointer)).collect();
        self.values.read_many(&wanted)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::{
        collections::{BTreeMap, VecDeque},
        ops::Bound,
        sync::Arc,
    };

    use proptest::prelude::*;
    use zonda_pages::{AreaKind, PageStore};

    use super::{End, LARGE_VALUES_MAX, Run};
    use crate::{
        Cursor, Durability, Engine, TreeOptions, leaf_page,
        record::{Kind, Record},
        record_list::RecordList,
        scan::{Range, owned_pair},
        testing::{MemArea, MemOptions, MemStore},
    };

    const PAIRS: u64 = 600;

    fn key(number: u64) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    /// Every third value is short; some pairs are deleted again.
    fn value(number: u64) -> Vec<u8> {
        vec![number.to_le_bytes()[0]; if number.is_multiple_of(3) { 5 } else { 2_000 }]
    }

    fn is_left(number: u64) -> bool {
        !number.is_multiple_of(7)
    }

    fn with_large_values() -> (Arc<MemStore>, Engine) {
        let store = MemStore::new(MemOptions::default());
        let engine = Engine::create(Arc::clone(&store) as Arc<dyn PageStore>, TreeOptions::default()).expect("empty");
        for number in 0..PAIRS {
            engine.put(&key(number), &value(number), Durability::Buffered).expect("room");
        }
        engine.compact(&mut |_, _| {}).expect("room");
        let deleted = (0..PAIRS).filter(|number| !is_left(*number));
        deleted.for_each(|number| engine.delete(&key(number), Durability::Buffered).expect("room"));
        (store, engine)
    }

    fn cursor(engine: &Engine) -> Cursor {
        let snapshot = engine.snapshot().expect("open");
        engine.scan(&snapshot, Bound::Unbounded, Bound::Unbounded).expect("open")
    }

    fn values_of(store: &MemStore) -> &MemArea {
        store.mem_area(AreaKind::Values)
    }

    #[test]
    fn a_long_scan_reads_many_large_values_at_once_and_each_once() {
        let (store, engine) = with_large_values();
        let expected: Vec<_> = (0..PAIRS).filter(|n| is_left(*n)).map(|n| (key(n), value(n))).collect();
        let large = expected.iter().filter(|(_, value)| value.len() > 5).count() as u64;
        let mut scan = cursor(&engine);
        let found: Vec<_> = std::iter::from_fn(|| scan.next().expect("readable").map(owned_pair)).collect();
        assert!(found == expected);
        assert_eq!(values_of(&store).chunks_read(), large);
        assert_eq!(values_of(&store).most_together(), LARGE_VALUES_MAX);
        let mut scan = cursor(&engine);
        let mut found: Vec<_> = std::iter::from_fn(|| scan.prev().expect("readable").map(owned_pair)).collect();
        found.reverse();
        assert!(found == expected);
        // By turns from both ends, which meet.
        let (mut scan, mut front, mut back) = (cursor(&engine), Vec::new(), Vec::new());
        while let Some(pair) = scan.next().expect("readable").map(owned_pair) {
            front.push(pair);
            let Some(pair) = scan.prev().expect("readable").map(owned_pair) else { break };
            back.push(pair);
        }
        front.extend(back.into_iter().rev());
        assert!(front == expected);
    }

    #[test]
    fn a_short_scan_reads_what_it_takes_and_one_that_was_announced_all_of_it_at_once() {
        let (store, engine) = with_large_values();
        let first: Vec<u64> = (0..PAIRS).filter(|number| is_left(*number)).collect();
        let large = |pairs: usize| first[..pairs].iter().filter(|number| !number.is_multiple_of(3)).count() as u64;
        for pairs in [1, 2, 3, 6, 20, 90] {
            let (before, mut scan) = (values_of(&store).chunks_read(), cursor(&engine));
            (0..pairs).for_each(|_| assert!(scan.next().expect("readable").is_some()));
            let read = values_of(&store).chunks_read() - before;
            assert!((large(pairs)..=2 * large(pairs)).contains(&read), "{read} values for {pairs} pairs");
        }
        let (store, engine) = with_large_values();
        let mut scan = cursor(&engine);
        scan.expect_pairs(12);
        assert!(scan.next().expect("readable").is_some_and(|pair| pair.0 == key(1)));
        assert_eq!(values_of(&store).most_together(), 12);
        assert_eq!(values_of(&store).chunks_read(), 12);
    }

    #[test]
    fn several_gets_ask_for_their_large_values_together() {
        let (store, engine) = with_large_values();
        let keys: Vec<Vec<u8>> = (0..PAIRS).step_by(4).map(key).collect();
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let expected = (0..PAIRS).step_by(4).map(|number| is_left(number).then(|| value(number)));
        assert!(engine.multi_get(&asked).expect("readable").into_iter().eq(expected));
        let large = (0..PAIRS).step_by(4).filter(|number| is_left(*number) && !number.is_multiple_of(3)).count();
        assert_eq!(values_of(&store).most_together(), large);
    }

    fn record<'a>((key, value): (&'a Vec<u8>, &'a Option<Vec<u8>>)) -> Record<'a> {
        let kind = if value.is_some() { Kind::Inline } else { Kind::Tombstone };
        Record { key, kind, value: value.as_deref().unwrap_or_default() }
    }

    proptest! {
        /// Values of all lengths make slotted pages, those of one dense ones; a record of the buffer without a value deletes.
        #[test]
        fn page_and_buffer_come_merged_from_both_ends(
            page in prop::collection::btree_map(prop::collection::vec(0_u8..4, 3), prop::collection::vec(any::<u8>(), 2), 0..30),
            fresh in prop::collection::btree_map(prop::collection::vec(0_u8..4, 2..4), prop::option::of(prop::collection::vec(any::<u8>(), 0..4)), 0..30),
            is_slotted in any::<bool>(),
            bounds in prop::array::uniform2(prop::collection::vec(0_u8..4, 1..4)),
            ends in prop::collection::vec(any::<bool>(), 70),
        ) {
            let stored = |key: &[u8], value: &[u8]| if is_slotted { value[..usize::from(key[2] % 3)].to_vec() } else { value.to_vec() };
            let page: BTreeMap<Vec<u8>, Option<Vec<u8>>> = page
                .into_iter()
                .map(|(key, value)| { let value = stored(&key, &value); (key, Some(value)) })
                .collect();
            let old: Vec<Record<'_>> = page.iter().map(record).collect();
            let body = leaf_page::encode(b"", None, &old);
            let [low, high] = if bounds[0] <= bounds[1] { bounds } else { let [a, b] = bounds; [b, a] };
            let range = Range { low: Bound::Included(low.clone()), high: Bound::Excluded(high.clone()) };
            let mut model = page.clone();
            model.extend(fresh.clone());
            let mut model: VecDeque<(Vec<u8>, Vec<u8>)> = model
                .into_iter()
                .filter(|(key, _)| *key >= low && *key < high)
                .filter_map(|(key, value)| Some((key, value?)))
                .collect();
            let mut run = Run::new(Some(body), RecordList::of(b"", fresh.iter().map(record)), &range).expect("a whole page");
            for is_front in ends {
                let (end, expected) = if is_front { (End::Front, model.pop_front()) } else { (End::Back, model.pop_back()) };
                let taken = run.take_ready(end).map(|taken| owned_pair(run.pair(taken)));
                prop_assert_eq!(taken, expected);
            }
        }
    }
}
