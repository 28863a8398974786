//! What filter and array hold of a key range: for scans, checks, checkpoints and merges of leaves below.

use std::sync::Arc;

use zonda_rt::epoch::Guard;

use super::{BatchArray, Filter, NONE, Records};
use crate::{
    TreeError,
    index::Path,
    merge::overlay,
    record::{OwnedRecord, Record, borrowed, owned},
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
        let mut filtered = Vec::new();
        let mut next = Some(low.to_vec());
        while let Some(key) = next.filter(|key| is_below(key, high)) {
            let records;
            (records, next) = self.node_between(&key, high, as_of, guard)?;
            filtered.extend(records);
        }
        let array = as_of.array(self, guard)?;
        Ok(over(array.as_deref(), low, high, filtered))
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

/// `filtered` over what `array` holds in the range.
fn over(array: Option<&BatchArray>, low: &[u8], high: Option<&[u8]>, filtered: Vec<OwnedRecord>) -> Vec<OwnedRecord> {
    let Some(array) = array else { return filtered };
    let older = array.between(low, high);
    overlay(older, filtered.iter().map(borrowed), |_, _| ()).into_iter().map(owned).collect()
}
