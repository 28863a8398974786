//! The batch array: what one eviction took out of the filter, on its way into the leaves.
//!
//! Life cycle: 1 published with all its batches -> 2 writers claim batches, one each, and insert them -> 3 the last one to finish
//! takes it out. Its records never change, so readers, snapshots and checkpoints look at it without a latch; while a batch is being
//! inserted its records stand in the array and in leaves, and are the same.

use zonda_rt::atomic::{AtomicUsize, Ordering};

use super::records::Records;
use crate::record::Record;

/// The records of one evicted node.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Its records.
    pub(crate) records: Records,
    /// None of them has a lower sequence number.
    pub(crate) oldest: u64,
    /// None of them has a higher one.
    pub(crate) newest: u64,
}

/// Batches in key order; their ranges are disjoint.
#[derive(Debug)]
pub(crate) struct BatchArray {
    batches: Box<[Batch]>,
    next: AtomicUsize,
    left: AtomicUsize,
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
        Self { batches: batches.into(), next: AtomicUsize::new(0), left, memory_bytes }
    }

    /// The next batch that nobody has claimed; whoever claims it inserts it and calls [`finish`](Self::finish).
    pub(crate) fn claim(&self) -> Option<&Batch> {
        if self.next.load(Ordering::Relaxed) >= self.batches.len() {
            return None;
        }
        self.batches.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A claimed batch is in the leaves. `true`: it was the last, the caller takes the array out.
    pub(crate) fn finish(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 1
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
}
