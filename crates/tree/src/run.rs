//! The pairs of one leaf range that a scan has not handed out yet.
//!
//! Page and records of the buffer are merged pair by pair, from either end: a scan pays for what it takes, not for the leaf, and a pair is copied as far
//! as its key lies in two places. Nothing is held. Large values are read when the turn of the first comes, under the protection of the snapshot: that one
//! alone at first, then two, four and more in flight together, so that what is read in vain is less than what was used. Whoever said how many pairs he will
//! take gets that many at once.

use std::{cmp::Ordering, collections::VecDeque, ops::Range as Indexes};

use crate::{
    leaf_page::LeafPage,
    record::{Kind, Record},
    record_list::RecordList,
    scan::Range,
    slots::Slots,
    tree::{Result, Tree},
    values::ValuePointer,
};

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
    /// Slots of the page that were not handed out yet.
    slots: Indexes<usize>,
    /// The buffer's records, sorted; they win over the page's.
    records: RecordList,
    /// Records that were not handed out yet.
    fresh: Indexes<usize>,
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

/// A page's body, verified.
struct Page {
    body: Vec<u8>,
    /// Where the slots begin; the prefix ends there.
    slots_at: usize,
    prefix_bytes: usize,
}

impl Page {
    fn of(body: Vec<u8>) -> Result<Self> {
        let page = LeafPage::decode(&body)?;
        let (slots_at, prefix_bytes) = (body.len() - page.slots().bytes().len(), page.prefix().len());
        Ok(Self { body, slots_at, prefix_bytes })
    }

    fn prefix(&self) -> &[u8] {
        &self.body[self.slots_at - self.prefix_bytes..self.slots_at]
    }

    fn slots(&self) -> Slots<'_> {
        Slots::new(&self.body[self.slots_at..])
    }
}

/// Pairs in order with large values among them, their bytes one behind the other in the order in which they came.
#[derive(Default)]
struct Fetched {
    bytes: Vec<u8>,
    pairs: VecDeque<Place>,
}

/// Where a pair lies in the bytes: its key up to `value`, its value up to `end`.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    start: usize,
    value: usize,
    end: usize,
}

impl Fetched {
    /// Adds a pair, whose key is `prefix` and `suffix` joined, behind or before the others.
    fn push(&mut self, end: End, (prefix, suffix): (&[u8], &[u8]), value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(suffix);
        let value_start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let place = Place { start, value: value_start, end: self.bytes.len() };
        match end {
            End::Front => self.pairs.push_back(place),
            End::Back => self.pairs.push_front(place),
        }
    }

    fn pop(&mut self, end: End) -> Option<Place> {
        match end {
            End::Front => self.pairs.pop_front(),
            End::Back => self.pairs.pop_back(),
        }
    }

    fn pair(&self, at: Place) -> (&[u8], &[u8]) {
        (&self.bytes[at.start..at.value], &self.bytes[at.value..at.end])
    }
}

/// A pair that was taken; it can be looked at until the next one is.
#[derive(Clone, Copy)]
pub(crate) enum Taken {
    /// A record of the page; its key was put together.
    Slot(usize),
    /// A record of the buffer.
    Fresh(usize),
    /// One that had been read from an end.
    Fetched(End, Place),
}

/// What comes next.
struct Step<'a> {
    /// The number of the page's slot that is used up.
    slot: Option<usize>,
    /// The number of the buffer's record that is used up. It wins.
    fresh: Option<usize>,
    /// The record's key, in two parts.
    key: (&'a [u8], &'a [u8]),
    found: Record<'a>,
}

impl Run {
    /// The pairs of a page's `body` and `records` that `range` holds.
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn new(body: Option<Vec<u8>>, records: RecordList, range: &Range) -> Result<Self> {
        let page = body.map(Page::of).transpose()?;
        let slots = page.as_ref().map_or(0..0, |page| {
            let (prefix, slots) = (page.prefix(), page.slots());
            range.indexes(slots.len(), |index, key| compare(prefix, slots.key(index), key))
        });
        let fresh = range.indexes(records.len(), |index, key| records.get(index).key.cmp(key));
        let mut key = Vec::with_capacity(KEY_BYTES_USUAL);
        key.extend_from_slice(page.as_ref().map_or(&[], Page::prefix));
        let (front, back) = (Fetched::default(), Fetched::default());
        Ok(Self { page, slots, records, fresh, key, front, back, large_values: 1, keys_only: false })
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

    /// The next pair from one end.
    ///
    /// # Errors
    /// Those of reading large values; the same call may be tried again.
    pub(crate) fn take(&mut self, tree: &Tree, end: End) -> Result<Option<Taken>> {
        loop {
            if let Some(place) = self.fetched(end).pop(end) {
                return Ok(Some(Taken::Fetched(end, place)));
            }
            let Some(Step { slot, fresh, found, .. }) = self.sources().step(&self.slots, &self.fresh, end) else {
                let other = end.other();
                return Ok(self.fetched(other).pop(end).map(|place| Taken::Fetched(other, place)));
            };
            let kind = found.kind;
            if kind == Kind::Pointer && !self.keys_only {
                self.fetch(tree, end)?;
                continue;
            }
            drop_one(&mut self.slots, slot, end);
            drop_one(&mut self.fresh, fresh, end);
            match (fresh, slot) {
                _ if kind == Kind::Tombstone => {}
                (Some(index), _) => return Ok(Some(Taken::Fresh(index))),
                (None, Some(index)) => {
                    self.put_key_together(index);
                    return Ok(Some(Taken::Slot(index)));
                }
                (None, None) => unreachable!("a step uses something up"),
            }
        }
    }

    fn put_key_together(&mut self, slot: usize) {
        if let Some(page) = &self.page {
            self.key.truncate(page.prefix_bytes);
            self.key.extend_from_slice(page.slots().key(slot));
        }
    }

    /// The pair that was taken last.
    pub(crate) fn pair(&self, taken: Taken) -> (&[u8], &[u8]) {
        let (key, value) = match taken {
            Taken::Slot(index) => {
                let value = self.page.as_ref().map_or(&[][..], |page| page.slots().record(index).value);
                (self.key.as_slice(), value)
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

    fn sources(&self) -> Sources<'_> {
        Sources { page: self.page.as_ref().map(|page| (page.prefix(), page.slots())), records: &self.records }
    }

    /// Reads what comes next, which has a large value, with those behind it that are read together. What is wrong with a later one is told when its turn
    /// comes.
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
        let (mut slots, mut fresh) = (self.slots.clone(), self.fresh.clone());
        let (mut pairs, mut large) = (Vec::new(), Vec::<(Vec<u8>, ValuePointer)>::new());
        let (mut fetched, mut bytes) = (Fetched::default(), 0);
        let sources = self.sources();
        while large.len() < count
            && pairs.len() < READ_PAIRS_MAX
            && let Some(step) = sources.step(&slots, &fresh, end)
        {
            let Step { key, found, .. } = step;
            if found.kind == Kind::Pointer {
                let pointer = ValuePointer::decode(found.value)?;
                bytes += pointer.total_bytes();
                if bytes > LARGE_BYTES_MAX && !large.is_empty() {
                    break;
                }
                large.push(([key.0, key.1].concat(), pointer));
            }
            if found.kind != Kind::Tombstone {
                pairs.push((key, found));
            }
            drop_one(&mut slots, step.slot, end);
            drop_one(&mut fresh, step.fresh, end);
        }
        let mut values = tree.values_of(&large)?.into_iter();
        for (key, found) in pairs {
            let read = if found.kind == Kind::Pointer { values.next() } else { None };
            fetched.push(end, key, read.as_deref().unwrap_or(found.value));
        }
        *self.fetched(end) = fetched;
        (self.slots, self.fresh) = (slots, fresh);
        Ok(())
    }
}

/// What a leaf's pairs come from: its page with the prefix of its keys, and the buffer's records, which win.
#[derive(Clone, Copy)]
struct Sources<'a> {
    page: Option<(&'a [u8], Slots<'a>)>,
    records: &'a RecordList,
}

impl<'a> Sources<'a> {
    /// Looks at what is next at an end; `None` if all sources are used up.
    fn step(&self, slots: &Indexes<usize>, fresh: &Indexes<usize>, end: End) -> Option<Step<'a>> {
        let (slot, fresh) = (next_of(slots, end), next_of(fresh, end));
        let old = self.page.zip(slot).map(|((prefix, slots), index)| (prefix, slots.record(index)));
        let new = fresh.map(|index| self.records.get(index));
        Some(match (old, new) {
            (None, None) => return None,
            (Some((prefix, old)), None) => Step { slot, fresh, key: (prefix, old.key), found: old },
            (None, Some(new)) => Step { slot, fresh, key: (new.key, &[]), found: new },
            (Some((prefix, old)), Some(new)) => {
                let order = compare(prefix, old.key, new.key);
                // Of the back the greater one comes first.
                let order = if end == End::Back { order.reverse() } else { order };
                match order {
                    Ordering::Less => Step { slot, fresh: None, key: (prefix, old.key), found: old },
                    Ordering::Equal => Step { slot, fresh, key: (new.key, &[]), found: new },
                    Ordering::Greater => Step { slot: None, fresh, key: (new.key, &[]), found: new },
                }
            }
        })
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

/// Compares `prefix` and `suffix`, joined, with `key`.
pub(crate) fn compare(prefix: &[u8], suffix: &[u8], key: &[u8]) -> Ordering {
    match key.split_at_checked(prefix.len()) {
        Some((start, rest)) => prefix.cmp(start).then_with(|| suffix.cmp(rest)),
        // A prefix that goes on behind the whole key is above it.
        None => prefix[..key.len()].cmp(key).then(Ordering::Greater),
    }
}

fn next_of(left: &Indexes<usize>, end: End) -> Option<usize> {
    match end {
        _ if left.is_empty() => None,
        End::Front => Some(left.start),
        End::Back => Some(left.end - 1),
    }
}

/// Drops what is next at an end, if it was `used` up.
fn drop_one(left: &mut Indexes<usize>, used: Option<usize>, end: End) {
    match (used, end) {
        (None, _) => {}
        (Some(_), End::Front) => left.start += 1,
        (Some(_), End::Back) => left.end -= 1,
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::{ops::Bound, sync::Arc};

    use proptest::prelude::*;
    use zonda_pages::{AreaKind, PageStore};

    use super::{LARGE_VALUES_MAX, compare};
    use crate::{
        Cursor, Durability, Engine, TreeOptions,
        scan::owned_pair,
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

    proptest! {
        #[test]
        fn joined_keys_compare_as_if_they_were_one(
            prefix in prop::collection::vec(0_u8..3, 0..4),
            suffix in prop::collection::vec(0_u8..3, 0..4),
            key in prop::collection::vec(0_u8..3, 0..8),
        ) {
            let joined = [prefix.as_slice(), &suffix].concat();
            prop_assert_eq!(compare(&prefix, &suffix, &key), joined.as_slice().cmp(&key));
        }
    }
}
