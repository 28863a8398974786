//! The batch array: what one eviction took out of the filter, on its way into the leaves.
//!
//! Life cycle: 1 published with all its batches -> 2 writers claim batches, one each, and insert them -> 3 the last one to finish
//! takes it out. Its records never change, so readers, snapshots and checkpoints look at it without a latch; while a batch is being
//! inserted its records stand in the array and in leaves, and are the same.
//!
//! A leaf that cannot be merged may have no room for what belongs to it. Whoever claimed that gives it back, and it stays in the array,
//! where it is found. Once nothing else is left, the next eviction takes it over into the next array, where it is tried again: so what
//! waits for one leaf does not keep the filter from what belongs to others.

use std::ops::Range;

use zonda_rt::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use super::records::Records;
use crate::{merge::overlay, record::Record};

/// Keys and values of a batch of records of two arrays; it ends with the first record beyond.
const JOINED_BYTES: usize = 8 << 10;

/// The records of one evicted node, or of a part of it.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Its records.
    pub(crate) records: Records,
    /// None of them has a lower sequence number.
    pub(crate) oldest: u64,
    /// None of them has a higher one.
    pub(crate) newest: u64,
}

impl Batch {
    /// The records with these indexes, at least one.
    fn only(&self, ranges: &[Range<usize>]) -> Self {
        let slots = self.records.slots();
        let records = ranges.iter().cloned().flatten().map(|index| slots.record(index));
        Self { records: Records::of(records), oldest: self.oldest, newest: self.newest }
    }

    /// Adds its records and these older ones, each with its batch, as batches to `joined`.
    fn join(self, older: &[(Record<'_>, &Self)], replaced: Replaced<'_>, joined: &mut Vec<Self>) {
        if older.is_empty() {
            joined.push(self);
            return;
        }
        let oldest = older.iter().map(|(_, batch)| batch.oldest).fold(self.oldest, u64::min);
        let newest = older.iter().map(|(_, batch)| batch.newest).fold(self.newest, u64::max);
        let records = older.iter().map(|(record, _)| *record);
        let records = overlay(records, self.records.slots().iter(), |old, new| replaced(&old, &new));
        let mut left = records.as_slice();
        while !left.is_empty() {
            let mut bytes = 0;
            let fits = |record: &&Record<'_>| {
                let fits = bytes < JOINED_BYTES;
                bytes += record.key.len() + record.value.len();
                fits
            };
            let (these, others) = left.split_at(left.iter().take_while(fits).count());
            joined.push(Self { records: Records::of(these.iter().copied()), oldest, newest });
            left = others;
        }
    }
}

/// Hears of a record that is superseded, and of its successor.
pub(crate) type Replaced<'a> = &'a mut dyn FnMut(&Record<'_>, &Record<'_>);

/// What `newer` batches hold, and of `older` ones that of which they have nothing newer. Both are in key order, as is this.
pub(super) fn joined(newer: Vec<Batch>, older: Vec<Batch>, replaced: Replaced<'_>) -> Vec<Batch> {
    if newer.is_empty() {
        return older;
    }
    let records: Vec<(Record<'_>, &Batch)> =
        older.iter().flat_map(|batch| batch.records.slots().iter().map(move |record| (record, batch))).collect();
    // Each takes those before the next.
    let before = |next: &Batch| records.partition_point(|(record, _)| record.key < next.records.first_key());
    let ends: Vec<usize> = newer.iter().skip(1).map(before).chain([records.len()]).collect();
    let (mut joined, mut begin) = (Vec::with_capacity(newer.len()), 0);
    for (batch, end) in newer.into_iter().zip(ends) {
        batch.join(&records[begin..end], replaced, &mut joined);
        begin = end;
    }
    joined
}

/// What of a batch found no room.
#[derive(Debug)]
struct Rest {
    batch: usize,
    /// Indexes of records.
    ranges: Vec<Range<usize>>,
}

/// Batches in key order; their ranges are disjoint.
#[derive(Debug)]
pub(crate) struct BatchArray {
    batches: Box<[Batch]>,
    next: AtomicUsize,
    /// Batches that are not, or not wholly, in the leaves.
    left: AtomicUsize,
    rests: Mutex<Vec<Rest>>,
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
        Self { batches: batches.into(), next: AtomicUsize::new(0), left, rests: Mutex::default(), memory_bytes }
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
    pub(crate) fn give_back(&self, batch: usize, ranges: Vec<Range<usize>>) {
        self.rests.lock().push(Rest { batch, ranges });
    }

    /// Whether nothing is left but what was given back. That stays so: nobody claims any of it.
    pub(crate) fn is_given_back(&self) -> bool {
        let given_back = self.rests.lock().len();
        // Of those left more and more are given back, and never less than all were counted.
        given_back > 0 && self.left.load(Ordering::SeqCst) == given_back
    }

    /// What was given back.
    pub(super) fn rest(&self) -> Vec<Batch> {
        let mut rests = self.rests.lock();
        rests.sort_unstable_by_key(|rest| rest.batch);
        rests.iter().map(|rest| self.batches[rest.batch].only(&rest.ranges)).collect()
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
        Batch { records, oldest, newest: oldest + 1 }
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
        array.give_back(2, only(0));
        assert!(!array.finish() && !array.is_given_back(), "one is on its way");
        array.give_back(0, only(1));
        assert!(array.is_given_back());
        let rest = array.rest();
        let keys: Vec<_> = rest.iter().map(|batch| (batch.records.first_key(), batch.records.slots().len())).collect();
        assert_eq!(keys, [(&b"d"[..], 1), (&b"h"[..], 1)]);
        assert_eq!((rest[0].oldest, rest[0].newest), (7, 8));
    }

    #[test]
    fn what_is_newer_stands_for_what_was_given_back() {
        let older = vec![batch(&[b"a", b"d"], 3), batch(&[b"f", b"g"], 5)];
        let newer = vec![batch(&[b"b", b"c"], 20), batch(&[b"f"], 10)];
        let mut replaced = Vec::new();
        let all = joined(newer, older, &mut |old, new| replaced.push((old.key.to_vec(), new.key.to_vec())));
        assert_eq!(replaced, [(b"f".to_vec(), b"f".to_vec())]);
        assert_eq!(all.iter().map(|batch| (batch.oldest, batch.newest)).collect::<Vec<_>>(), [(3, 21), (5, 11)]);
        let array = BatchArray::new(all);
        assert_eq!(array.between(b"", None).map(|record| record.key[0]).collect::<Vec<_>>(), b"abcdfg");
        let alone = joined(Vec::new(), vec![batch(&[b"a"], 3)], &mut |_, _| panic!("there is nothing newer"));
        assert_eq!(alone.len(), 1);
    }

    #[test]
    fn batches_of_two_arrays_do_not_grow_without_end() {
        let keys: Vec<[u8; 1_000]> = (0..100).map(|number| [number; 1_000]).collect();
        let older = keys.iter().map(|key| batch(&[key], 3)).collect();
        let all = joined(vec![batch(&[b"\x32"], 9)], older, &mut |_, _| panic!("all keys differ"));
        assert_eq!(all.iter().map(|batch| batch.records.slots().len()).sum::<usize>(), 101);
        assert!(all.iter().all(|batch| batch.records.memory_bytes() < 12_000) && all.len() < 30, "{}", all.len());
        BatchArray::new(all);
    }
}
