//! What filter and array hold of a key range: for scans, checks, checkpoints and merges of leaves below.

use std::sync::Arc;

use zonda_rt::epoch::Guard;

use super::{BatchArray, Filter, NONE, Records};
use crate::{
    TreeError,
    index::Path,
    merge::overlay,
    record::{OwnedRecord, Record, borrowed, owned},
    run::End,
    snapshot::{Kept, Level, Snapshots},
};

/// Which state of the filter a range is read in.
#[derive(Clone, Copy)]
pub(crate) enum AsOf<'a> {
    /// The present one.
    Now,
    /// That of an open snapshot.
    Snapshot(&'a Snapshots, u64),
}

impl AsOf<'_> {
    /// The state kept of the node that holds `key`, if that is not its own. Under the node's latch.
    fn kept_at(self, key: &[u8]) -> Result<Option<Arc<Kept>>, TreeError> {
        match self {
            Self::Now => Ok(None),
            Self::Snapshot(snapshots, number) => snapshots.kept_at(Level::Filter, number, key),
        }
    }

    /// The array of then.
    fn array(self, filter: &Filter, guard: &Guard<'_>) -> Result<Option<Arc<BatchArray>>, TreeError> {
        match self {
            Self::Now => Ok(filter.array.share(guard)),
            Self::Snapshot(snapshots, number) => snapshots.array_of(number),
        }
    }
}

/// What is wanted of the range `[low, high)`: about so many records from one end of it, at least one.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    /// Least key of the range.
    pub(crate) low: &'a [u8],
    /// Key above the range.
    pub(crate) high: Option<&'a [u8]>,
    /// Which end comes first.
    pub(crate) end: End,
    /// How many are enough.
    pub(crate) records: usize,
}

fn is_below(key: &[u8], high: Option<&[u8]>) -> bool {
    high.is_none_or(|high| key < high)
}

impl Filter {
    /// Calls `found` with the record that filter or array has for `key` as of then.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub(crate) fn find_as_of<T>(
        &self,
        key: &[u8],
        as_of: AsOf<'_>,
        guard: &Guard<'_>,
        found: &mut dyn FnMut(&Record<'_>) -> T,
    ) -> Result<Option<T>, TreeError> {
        loop {
            let path = self.index.find(key, guard);
            let content = self.nodes.get(path.leaf()).content.read();
            if !path.is_current() {
                continue;
            }
            let kept = as_of.kept_at(key)?;
            let record = match &kept {
                Some(kept) => kept.records.find(key),
                None => content.records.as_ref().and_then(|records| records.slots().find(key)),
            };
            if let Some(record) = record {
                return Ok(Some(found(&record)));
            }
            break;
        }
        let array = as_of.array(self, guard)?;
        Ok(array.as_ref().and_then(|array| array.find(key)).map(|record| found(&record)))
    }

    /// The newest records in `[low, high)` of filter and array, sorted, with tombstones. Present records may leave for the leaves
    /// meanwhile: whoever wants all of them looks at the leaves afterwards (*top-down*). A snapshot's may be read in any order.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub(crate) fn between(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        as_of: AsOf<'_>,
        guard: &Guard<'_>,
    ) -> Result<Vec<OwnedRecord>, TreeError> {
        let whole = Window { low, high, end: End::Front, records: usize::MAX };
        Ok(self.window(whole, as_of, guard)?.0)
    }

    /// As [`between`](Self::between) of a part of a range, and where that part ends (`Front`) or begins (`Back`); `None` if it is all of
    /// the range. Copies at most one node and twice the window's records, however much is there.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub(crate) fn window(
        &self,
        window: Window<'_>,
        as_of: AsOf<'_>,
        guard: &Guard<'_>,
    ) -> Result<(Vec<OwnedRecord>, Option<Vec<u8>>), TreeError> {
        let (mut filtered, filter_cut) = match window.end {
            End::Front => self.filtered_front(window, as_of, guard)?,
            End::Back => self.filtered_back(window, as_of, guard)?,
        };
        #[cfg(test)]
        self.copied.fetch_add(filtered.len() as u64, zonda_rt::atomic::Ordering::Relaxed);
        let array = as_of.array(self, guard)?;
        let Some(array) = array.as_deref() else { return Ok((filtered, filter_cut)) };
        let (low, high) = match window.end {
            End::Front => (window.low, filter_cut.as_deref().or(window.high)),
            End::Back => (filter_cut.as_deref().unwrap_or(window.low), window.high),
        };
        let between = array.between(low, high);
        let mut older: Vec<Record<'_>> = match window.end {
            End::Front => between.take(window.records.saturating_add(1)).collect(),
            End::Back => between.rev().take(window.records.saturating_add(1)).collect(),
        };
        // One more than the window has: the part ends with those before it.
        let beyond = if older.len() > window.records { older.pop() } else { None };
        let cut = match (window.end, beyond) {
            (_, None) => filter_cut.clone(),
            (End::Front, Some(first)) => {
                filtered.truncate(filtered.partition_point(|record| record.0.as_slice() < first.key));
                Some(first.key.to_vec())
            }
            (End::Back, Some(_)) => {
                let least = older.last().expect("the window has records").key;
                filtered.drain(..filtered.partition_point(|record| record.0.as_slice() < least));
                Some(least.to_vec())
            }
        };
        if window.end == End::Back {
            older.reverse();
        }
        #[cfg(test)]
        self.copied.fetch_add(older.len() as u64, zonda_rt::atomic::Ordering::Relaxed);
        let merged = overlay(older.into_iter(), filtered.iter().map(borrowed), |_, _| ());
        Ok((merged.into_iter().map(owned).collect(), cut))
    }

    /// The filter's records from the front of a window, node by node, and where they end.
    fn filtered_front(
        &self,
        Window { low, high, records: most, .. }: Window<'_>,
        as_of: AsOf<'_>,
        guard: &Guard<'_>,
    ) -> Result<(Vec<OwnedRecord>, Option<Vec<u8>>), TreeError> {
        let mut filtered = Vec::new();
        let mut next = Some(low.to_vec());
        while let Some(key) = next.filter(|key| is_below(key, high)) {
            if filtered.len() >= most {
                return Ok((filtered, Some(key)));
            }
            let records;
            (records, next) = self.node_between(&key, high, as_of, guard)?;
            filtered.extend(records);
        }
        Ok((filtered, None))
    }

    /// The filter's records from the back of a window, node by node, and where they begin.
    fn filtered_back(
        &self,
        Window { low, high, records: most, .. }: Window<'_>,
        as_of: AsOf<'_>,
        guard: &Guard<'_>,
    ) -> Result<(Vec<OwnedRecord>, Option<Vec<u8>>), TreeError> {
        let mut parts: Vec<Vec<OwnedRecord>> = Vec::new();
        let (mut bound, mut found) = (high.map(<[u8]>::to_vec), 0);
        while is_below(low, bound.as_deref()) && found < most {
            // Where a node begins now; what a snapshot kept may be of other ranges, so all from there on are asked.
            let begin = self.index.find_before(bound.as_deref(), guard).low().max(low.to_vec());
            let part = Window { low: &begin, high: bound.as_deref(), end: End::Front, records: usize::MAX };
            let (records, _) = self.filtered_front(part, as_of, guard)?;
            found += records.len();
            parts.push(records);
            bound = Some(begin);
        }
        let cut = bound.filter(|begin| !parts.is_empty() && is_below(low, Some(begin)));
        Ok((parts.into_iter().rev().flatten().collect(), cut))
    }

    /// The records from `key` on of its node, below `high`, and where the next node begins.
    fn node_between(
        &self,
        key: &[u8],
        high: Option<&[u8]>,
        as_of: AsOf<'_>,
        guard: &Guard<'_>,
    ) -> Result<(Vec<OwnedRecord>, Option<Vec<u8>>), TreeError> {
        loop {
            let path = self.index.find(key, guard);
            let content = self.nodes.get(path.leaf()).content.read();
            if !path.is_current() {
                continue;
            }
            if let Some(kept) = as_of.kept_at(key)? {
                return Ok((kept.records.between(key, high), kept.high.clone()));
            }
            let records = content.records.iter().flat_map(|records| records.between(key, high));
            return Ok((records.map(owned).collect(), path.high()));
        }
    }

    /// Calls `visit` with the records of the node of `key`, if it has some, and their highest and lowest sequence number, under the
    /// node's shared latch. Returns where the next node begins.
    pub(crate) fn visit(
        &self,
        key: &[u8],
        guard: &Guard<'_>,
        visit: &mut dyn FnMut(&Records, u64, u64),
    ) -> Option<Vec<u8>> {
        loop {
            let path: Path<'_> = self.index.find(key, guard);
            let node = self.nodes.get(path.leaf());
            let content = node.content.read();
            if path.is_current() {
                if let Some(records) = &content.records {
                    visit(records, content.newest, node.oldest());
                }
                return path.high();
            }
        }
    }

    /// The array as it is now.
    pub(crate) fn array(&self, guard: &Guard<'_>) -> Option<Arc<BatchArray>> {
        self.array.share(guard)
    }

    /// No record in `[low, high)` of filter or array has a lower sequence number (*merged below*). Takes no latch.
    ///
    /// Why it is right: the caller holds the latch of the leaf, so nothing leaves the array for it meanwhile. A node that says that
    /// it holds nothing was emptied after the array was published. A node that was split or unlinked makes the way to it obsolete
    /// before its latch is released, hence before it can be emptied or its range written elsewhere.
    pub(crate) fn oldest(&self, low: &[u8], high: Option<&[u8]>, guard: &Guard<'_>) -> u64 {
        let mut oldest = NONE;
        let mut next = Some(low.to_vec());
        while let Some(key) = next.filter(|key| is_below(key, high)) {
            let (path, of_node) = self.oldest_at(&key, guard);
            oldest = oldest.min(of_node);
            next = path.high();
        }
        let array = self.array.load(guard).and_then(|array| array.oldest(low, high));
        oldest.min(array.unwrap_or(NONE))
    }

    fn oldest_at<'g>(&self, key: &[u8], guard: &'g Guard<'_>) -> (Path<'g>, u64) {
        loop {
            let path = self.index.find(key, guard);
            let oldest = self.nodes.get(path.leaf()).oldest();
            if path.is_current() {
                return (path, oldest);
            }
        }
    }
}
