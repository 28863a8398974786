//! The batch array: what one eviction took out of the filter, on its way into the leaves.
//!
//! Life cycle: 1 published with all its batches -> 2 writers claim batches, one each, and insert them -> 3 the last one to finish
//! takes it out. Its records never change, so readers, snapshots and checkpoints look at it without a latch; while a batch is being
//! inserted its records stand in the array and in leaves, and are the same.
//!
//! A leaf that cannot be merged may have no room for what belongs to it. Whoever claimed that gives it back, and it stays in the array,
//! where it is found. Once nothing else is left, the next eviction takes it over into the next array, where it is tried again: so what
//! waits for one leaf does not keep the filter from what belongs to others. That is done while nodes are latched, so batches that have
//! nothing to do with what is evicted then go over as they are.

use std::{ops::Range, sync::Arc};

use zonda_rt::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use super::records::Records;
use crate::{TreeError, merge::overlay, record::Record};

/// Bytes of a batch of records of several; it ends with the first record beyond.
const JOINED_BYTES: u64 = 8 << 10;

/// The records of one evicted node, or of a part of it, or of neighbours that found no room.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// Its records.
    pub(crate) records: Arc<Records>,
    /// None of them has a lower sequence number.
    pub(crate) oldest: u64,
    /// None of them has a higher one.
    pub(crate) newest: u64,
}

impl Batch {
    /// Sorted records of these batches.
    fn of<'b>(records: Records, batches: impl Iterator<Item = &'b Self> + Clone) -> Self {
        let oldest = batches.clone().map(|batch| batch.oldest).fold(u64::MAX, u64::min);
        let newest = batches.map(|batch| batch.newest).fold(0, u64::max);
        Self { records: Arc::new(records), oldest, newest }
    }
}

/// Hears of a record that is superseded, and of its successor.
pub(crate) type Replaced<'a> = &'a mut dyn FnMut(&Record<'_>, &Record<'_>);

/// What `newer` batches hold, and of `older` ones that of which they have nothing newer. Both are in key order, as is this. Batches that
/// lie between those of the other kind stay as they are; the records of those that overlap are put together.
pub(super) fn joined(newer: &[Batch], older: &[Batch], replaced: Replaced<'_>) -> Vec<Batch> {
    let (mut newer, mut older) = (newer, older);
    let mut joined = Vec::with_capacity(newer.len() + older.len());
    while !(newer.is_empty() && older.is_empty()) {
        let (new_count, old_count) = next_together(newer, older);
        let (new, newer_left) = newer.split_at(new_count);
        let (old, older_left) = older.split_at(old_count);
        match (new, old) {
            (alone, []) | ([], alone) => joined.extend_from_slice(alone),
            _ => put_together(new, old, replaced, &mut joined),
        }
        (newer, older) = (newer_left, older_left);
    }
    joined
}

/// How many of the first `newer` and `older` batches come before all of the others: those of one kind that end before the other begins, or
/// of both kinds as far as they overlap.
fn next_together(newer: &[Batch], older: &[Batch]) -> (usize, usize) {
    let before = |these: &[Batch], others: &[Batch]| {
        let first = others.first().map(|other| other.records.first_key());
        first.map_or(these.len(), |first| these.partition_point(|batch| batch.records.last_key() < first))
    };
    match (before(newer, older), before(older, newer)) {
        (0, 0) => {}
        counts => return counts,
    }
    let (mut counts, mut end) = ((0, 0), newer[0].records.first_key().max(older[0].records.first_key()));
    loop {
        let (new, old) = (newer.get(counts.0), older.get(counts.1));
        let begins = |batch: &&Batch| batch.records.first_key() <= end;
        if let Some(batch) = new.filter(begins) {
            (counts.0, end) = (counts.0 + 1, end.max(batch.records.last_key()));
        } else if let Some(batch) = old.filter(begins) {
            (counts.1, end) = (counts.1 + 1, end.max(batch.records.last_key()));
        } else {
            return counts;
        }
    }
}

/// Adds the records of batches that overlap to `joined`, in batches.
fn put_together(newer: &[Batch], older: &[Batch], replaced: Replaced<'_>, joined: &mut Vec<Batch>) {
    let of = |batches| <[Batch]>::iter(batches).flat_map(|batch| batch.records.slots().iter());
    let records = overlay(of(older), of(newer), |old, new| replaced(&old, &new));
    let mut left = records.as_slice();
    while !left.is_empty() {
        let bytes = left.iter().map(|record| (record.key.len() + record.value.len()) as u64);
        let (these, others) = left.split_at(fitting(bytes));
        let (first, last) = (these[0].key, these[these.len() - 1].key);
        let from = spanning(newer, first, last).iter().chain(spanning(older, first, last));
        joined.push(Batch::of(Records::of(these.iter().copied()), from));
        left = others;
    }
}

/// The batches that overlap `[first, last]`.
fn spanning<'b>(batches: &'b [Batch], first: &[u8], last: &[u8]) -> &'b [Batch] {
    let begin = batches.partition_point(|batch| batch.records.last_key() < first);
    let end = batches.partition_point(|batch| batch.records.first_key() <= last);
    &batches[begin.min(end)..end]
}

/// How many of things with so many `bytes` make a batch.
fn fitting(bytes: impl Iterator<Item = u64>) -> usize {
    let mut sum = 0;
    let begins_within = |&bytes: &u64| {
        let begins_within = sum < JOINED_BYTES;
        sum += bytes;
        begins_within
    };
    bytes.take_while(begins_within).count()
}

/// What of a batch found no room.
#[derive(Debug)]
struct Rest {
    batch: usize,
    /// Indexes of records.
    ranges: Vec<Range<usize>>,
    bytes: u64,
}

/// Records with these indexes.
fn count_of(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(Range::len).sum()
}

/// What was given back, and why the first of it was.
#[derive(Debug, Default)]
struct GivenBack {
    rests: Vec<Rest>,
    why: Option<TreeError>,
}

/// Batches in key order; their ranges are disjoint.
#[derive(Debug)]
pub(crate) struct BatchArray {
    batches: Box<[Batch]>,
    next: AtomicUsize,
    /// Batches that are not, or not wholly, in the leaves.
    left: AtomicUsize,
    given_back: Mutex<GivenBack>,
    memory_bytes: u64,
}

impl BatchArray {
    /// An array of at least one batch, in key order.
    pub(crate) fn new(batches: Vec<Batch>) -> Self {
        assert!(!batches.is_empty(), "an empty array would never be taken out");
        let sorted = batches.windows(2).all(|pair| pair[0].records.last_key() < pair[1].records.first_key());
        assert!(sorted, "batches are sorted and disjoint");
        let records: u64 = batches.iter().map(|batch| batch.records.memory_bytes()).sum();
        let memory_bytes = records + (batches.len() * size_of::<Batch>() + size_of::<Self>()) as u64;
        let left = AtomicUsize::new(batches.len());
        Self { batches: batches.into(), next: AtomicUsize::new(0), left, given_back: Mutex::default(), memory_bytes }
    }

    /// The next batch that nobody has claimed, and its index; whoever claims it inserts it and calls [`finish`](Self::finish), or
    /// [`give_back`](Self::give_back).
    pub(crate) fn claim(&self) -> Option<(usize, &Batch)> {
        if self.next.load(Ordering::Relaxed) >= self.batches.len() {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        Some((index, self.batches.get(index)?))
    }

    /// A claimed batch is in the leaves. `true`: it was the last, the caller takes the array out.
    pub(crate) fn finish(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// A claimed batch is in the leaves but for its records with these indexes, at least one.
    pub(super) fn give_back(&self, batch: usize, ranges: Vec<Range<usize>>, why: TreeError) {
        let bytes = self.bytes_of(batch, &ranges);
        let mut given_back = self.given_back.lock();
        given_back.rests.push(Rest { batch, ranges, bytes });
        given_back.why.get_or_insert(why);
    }

    /// About the memory of the records of a batch with these indexes.
    pub(super) fn bytes_of(&self, batch: usize, ranges: &[Range<usize>]) -> u64 {
        let records = &self.batches[batch].records;
        records.memory_bytes() * count_of(ranges) as u64 / records.slots().len() as u64
    }

    /// Whether nothing is left but what was given back. That stays so: nobody claims any of it.
    pub(crate) fn is_given_back(&self) -> bool {
        self.all_given_back(&self.given_back.lock())
    }

    fn all_given_back(&self, given_back: &GivenBack) -> bool {
        // Of those left more and more are given back, and never less than all were counted.
        let count = given_back.rests.len();
        count > 0 && self.left.load(Ordering::SeqCst) == count
    }

    /// Why something was given back, once nothing else is left, and whether nothing of the array went down.
    pub(super) fn why_given_back(&self) -> Option<(TreeError, bool)> {
        let given_back = self.given_back.lock();
        let why = given_back.why.clone().filter(|_| self.all_given_back(&given_back))?;
        let is_all =
            given_back.rests.len() == self.batches.len() && given_back.rests.iter().all(|rest| self.is_whole(rest));
        Some((why, is_all))
    }

    fn is_whole(&self, rest: &Rest) -> bool {
        count_of(&rest.ranges) == self.batches[rest.batch].records.slots().len()
    }

    /// What was given back, small ones together. A batch of which all was is shared, not copied.
    pub(super) fn rest(&self) -> Vec<Batch> {
        let rests = &mut self.given_back.lock().rests;
        rests.sort_unstable_by_key(|rest| rest.batch);
        let (mut left, mut batches) = (rests.as_slice(), Vec::with_capacity(rests.len()));
        while !left.is_empty() {
            let (these, others) = left.split_at(fitting(left.iter().map(|rest| rest.bytes)));
            batches.push(self.only(these));
            left = others;
        }
        batches
    }

    fn only(&self, rests: &[Rest]) -> Batch {
        if let [rest] = rests
            && self.is_whole(rest)
        {
            return self.batches[rest.batch].clone();
        }
        let of = |rest: &Rest| &self.batches[rest.batch];
        let records = rests.iter().flat_map(|rest| {
            let slots = of(rest).records.slots();
            rest.ranges.iter().cloned().flatten().map(move |index| slots.record(index))
        });
        Batch::of(Records::of(records), rests.iter().map(of))
    }

    /// Batches that are not in the leaves.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    /// The record of `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Record<'_>> {
        let after = self.batches.partition_point(|batch| batch.records.first_key() <= key);
        self.batches[..after].last()?.records.slots().find(key)
    }

    /// All batches, in key order.
    pub(crate) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    fn overlapping(&self, low: &[u8], high: Option<&[u8]>) -> &[Batch] {
        let begin = self.batches.partition_point(|batch| batch.records.last_key() < low);
        let end = high
            .map_or(self.batches.len(), |high| self.batches.partition_point(|batch| batch.records.first_key() < high));
        &self.batches[begin.min(end)..end]
    }

    /// The records in `[low, high)`.
    pub(crate) fn between<'a>(
        &'a self,
        low: &'a [u8],
        high: Option<&'a [u8]>,
    ) -> impl DoubleEndedIterator<Item = Record<'a>> {
        self.overlapping(low, high).iter().flat_map(move |batch| batch.records.between(low, high))
    }

    /// A lower bound of the sequence numbers of the records in `[low, high)`.
    pub(crate) fn oldest(&self, low: &[u8], high: Option<&[u8]>) -> Option<u64> {
        self.overlapping(low, high).iter().map(|batch| batch.oldest).min()
    }

    /// Bytes charged to the budget.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    fn batch(keys: &[&[u8]], oldest: u64) -> Batch {
        let records = Records::of(keys.iter().map(|key| Record { key, kind: Kind::Inline, value: key }));
        Batch { records: Arc::new(records), oldest, newest: oldest + 1 }
    }

    fn why() -> TreeError {
        TreeError::from(zonda_pages::PageError::Busy)
    }

    fn array() -> BatchArray {
        BatchArray::new(vec![batch(&[b"b", b"d"], 7), batch(&[b"f"], 5), batch(&[b"h", b"k"], 9)])
    }

    #[test]
    fn finds_by_key_and_by_range() {
        let array = array();
        assert_eq!(array.find(b"f").expect("there").value, b"f");
        for absent in [&b"a"[..], b"c", b"e", b"z"] {
            assert!(array.find(absent).is_none());
        }
        let keys = |low: &'static [u8], high| array.between(low, high).map(|record| record.key[0]).collect::<Vec<_>>();
        assert_eq!(keys(b"", None), b"bdfhk");
        assert_eq!(keys(b"c", Some(b"h")), b"df");
        assert_eq!(keys(b"l", None), b"");
        assert_eq!(array.oldest(b"c", Some(b"e")), Some(7));
        assert_eq!(array.oldest(b"", None), Some(5));
        assert_eq!(array.oldest(b"g", Some(b"h")), None);
    }

    #[test]
    fn every_batch_is_claimed_once_and_the_last_to_finish_is_told() {
        let array = array();
        assert_eq!(std::iter::from_fn(|| array.claim()).count(), 3);
        assert!(array.claim().is_none());
        assert_eq!([array.finish(), array.finish(), array.finish()], [false, false, true]);
    }

    #[test]
    fn what_is_given_back_is_all_there_is_once_the_others_are_finished() {
        let array = array();
        let claimed: Vec<usize> = std::iter::from_fn(|| array.claim()).map(|(index, _)| index).collect();
        assert_eq!(claimed, [0, 1, 2]);
        let only = |index| std::iter::once(index..index + 1).collect();
        array.give_back(2, only(0), TreeError::Closed);
        assert!(!array.finish() && array.why_given_back().is_none() && !array.is_given_back(), "one is on its way");
        array.give_back(0, only(1), why());
        assert!(array.is_given_back() && matches!(array.why_given_back(), Some((TreeError::Closed, false))));
        let rest = array.rest();
        assert!(rest.len() == 1 && rest[0].records.slots().iter().map(|record| record.key).eq([b"d", b"h"]));
        assert_eq!((rest[0].oldest, rest[0].newest), (7, 10));
    }

    #[test]
    fn what_is_newer_stands_for_what_was_given_back() {
        let older = vec![batch(&[b"a", b"d"], 3), batch(&[b"f", b"g"], 5)];
        let newer = vec![batch(&[b"b", b"c"], 20), batch(&[b"f"], 10)];
        let mut replaced = Vec::new();
        let all = joined(&newer, &older, &mut |old, new| replaced.push((old.key.to_vec(), new.key.to_vec())));
        assert_eq!(replaced, [(b"f".to_vec(), b"f".to_vec())]);
        assert_eq!(all.iter().map(|batch| (batch.oldest, batch.newest)).collect::<Vec<_>>(), [(3, 21), (5, 11)]);
        let array = BatchArray::new(all);
        assert_eq!(array.between(b"", None).map(|record| record.key[0]).collect::<Vec<_>>(), b"abcdfg");
        let alone = joined(&[], &[batch(&[b"a"], 3)], &mut |_, _| panic!("there is nothing newer"));
        assert_eq!(alone.len(), 1);
    }

    /// However much waits, the eviction that takes it over holds latches meanwhile.
    #[test]
    fn what_was_given_back_goes_over_as_it_is_unless_something_overlaps_it() {
        let value = [7; 8 << 10];
        let long = |key: &[u8], oldest| {
            let records = Records::of(std::iter::once(Record { key, kind: Kind::Inline, value: &value }));
            Batch { records: Arc::new(records), oldest, newest: oldest + 1 }
        };
        let array = BatchArray::new(vec![long(b"b", 7), long(b"f", 5), long(b"h", 9)]);
        for index in 0..3 {
            array.claim().expect("there are three");
            array.give_back(index, std::iter::once(0..1).collect(), why());
        }
        let newer = [batch(&[b"a"], 20), batch(&[b"e", b"g"], 22), batch(&[b"x", b"y"], 24)];
        let all = joined(&newer, &array.rest(), &mut |_, _| panic!("all keys differ"));
        let is_of = |batch: &Batch, of: &Batch| Arc::ptr_eq(&batch.records, &of.records);
        let (first, last) = (&array.batches()[0], &array.batches()[2]);
        assert!(is_of(&all[0], &newer[0]) && is_of(&all[1], first), "copied");
        assert!(is_of(&all[all.len() - 2], last) && is_of(&all[all.len() - 1], &newer[2]), "copied");
        let (keys, bounds): (Vec<_>, Vec<_>) = all[2..all.len() - 2]
            .iter()
            .map(|batch| (batch.records.first_key()[0], (batch.oldest, batch.newest)))
            .unzip();
        assert_eq!((keys, bounds), (b"eg".to_vec(), vec![(5, 23), (22, 23)]));
        let array = BatchArray::new(all);
        assert_eq!(array.between(b"", None).map(|record| record.key[0]).collect::<Vec<_>>(), b"abefghxy");
    }

    #[test]
    fn batches_that_were_given_back_do_not_grow_without_end_and_small_ones_become_fewer() {
        let keys: Vec<[u8; 1_000]> = (0..100).map(|number| [number; 1_000]).collect();
        let array = BatchArray::new(keys.iter().map(|key| batch(&[key], 3)).collect());
        for index in 0..100 {
            array.claim().expect("there are as many");
            array.give_back(index, std::iter::once(0..1).collect(), why());
        }
        let older = array.rest();
        let around: [&[u8]; 2] = [b"\x01", b"\x60"];
        let all = joined(&[batch(&around, 9)], &older, &mut |_, _| panic!("all keys differ"));
        for (batches, records) in [(older, 100), (all, 102)] {
            assert_eq!(batches.iter().map(|batch| batch.records.slots().len()).sum::<usize>(), records);
            assert!(batches.iter().all(|batch| batch.records.memory_bytes() < 12_000) && batches.len() < 30);
            BatchArray::new(batches);
        }
    }
}
