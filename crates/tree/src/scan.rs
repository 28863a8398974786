//! Range scans: leaf range by leaf range, over a snapshot, from both ends; nothing is held between items.

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use zonda_pages::{PageAddress, PageId};

use crate::{
    filter::{AsOf, OwnedRecord, borrowed},
    index::Path,
    leaf_page::LeafPage,
    leaf_table::Shared,
    merge::{FullKeys, live, overlay},
    record::{Kind, Record},
    snapshot::{Kept, Level, owned_records},
    tree::{Result, Tree},
    values::ValuePointer,
};

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// The state of one leaf range as a snapshot sees it, without filter and array.
struct LeafView {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    id: PageId,
    page: Option<PageAddress>,
    records: Vec<OwnedRecord>,
}

impl LeafView {
    fn of_leaf(leaf: &Shared<'_>, path: &Path<'_>) -> Self {
        let location = leaf.location();
        Self {
            low: path.low(),
            high: path.high(),
            id: leaf.id(),
            page: location.page(),
            records: owned_records(location),
        }
    }

    fn of_kept(kept: &Kept) -> Self {
        Self {
            low: kept.low.clone(),
            high: kept.high.clone(),
            id: kept.id,
            page: kept.page,
            records: kept.records.clone(),
        }
    }
}

/// A range with what was already handed out cut off at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) low: Bound<Vec<u8>>,
    pub(crate) high: Bound<Vec<u8>>,
}

impl Range {
    fn holds(&self, key: &[u8]) -> bool {
        let above = match &self.low {
            Bound::Included(low) => key >= low.as_slice(),
            Bound::Excluded(low) => key > low.as_slice(),
            Bound::Unbounded => true,
        };
        above && self.is_below_high(key)
    }

    fn is_below_high(&self, key: &[u8]) -> bool {
        match &self.high {
            Bound::Included(high) => key <= high.as_slice(),
            Bound::Excluded(high) => key < high.as_slice(),
            Bound::Unbounded => true,
        }
    }

    fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high) | Bound::Included(high)) => low >= high,
            _ => false,
        }
    }
}

/// The state of a scan; see [`Cursor`](crate::Cursor).
pub(crate) struct Scan {
    snapshot: u64,
    /// What is still to be read from leaves.
    rest: Option<Range>,
    /// Read, from the front of the range, in order.
    front: VecDeque<Pair>,
    /// Read, from the back of the range, in order.
    back: VecDeque<Pair>,
}

impl Scan {
    /// A scan of `range` as snapshot `snapshot` sees it.
    pub(crate) fn new(snapshot: u64, range: Range) -> Self {
        let rest = (!range.is_empty()).then_some(range);
        Self { snapshot, rest, front: VecDeque::new(), back: VecDeque::new() }
    }

    /// The next pair from the front.
    ///
    /// # Errors
    /// `SnapshotTooOld`, those of the store; the same call may be tried again.
    pub(crate) fn next(&mut self, tree: &Tree) -> Result<Option<Pair>> {
        while self.front.is_empty() {
            let Some(range) = &self.rest else { return Ok(self.back.pop_front()) };
            let (view, pairs) = self.read(tree, range, Tree::view_at)?;
            self.front = pairs.into();
            let rest =
                self.rest.take().zip(view.high).map(|(range, high)| Range { low: Bound::Included(high), ..range });
            self.rest = rest.filter(|rest| !rest.is_empty());
        }
        Ok(self.front.pop_front())
    }

    /// The next pair from the back.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub(crate) fn prev(&mut self, tree: &Tree) -> Result<Option<Pair>> {
        while self.back.is_empty() {
            let Some(range) = &self.rest else { return Ok(self.front.pop_back()) };
            let (view, pairs) = self.read(tree, range, Tree::view_before)?;
            self.back = pairs.into();
            let rest = self.rest.take().filter(|_| !view.low.is_empty());
            let rest = rest.map(|range| Range { high: Bound::Excluded(view.low), ..range });
            self.rest = rest.filter(|rest| !rest.is_empty());
        }
        Ok(self.back.pop_back())
    }

    /// One leaf range at an end of `range`, and its pairs.
    fn read(
        &self,
        tree: &Tree,
        range: &Range,
        view: impl Fn(&Tree, u64, &Range) -> Result<LeafView>,
    ) -> Result<(LeafView, Vec<Pair>)> {
        let _guard = tree.epoch.pin();
        let view = view(tree, self.snapshot, range)?;
        let pairs = tree.pairs_of(&view, self.snapshot, range);
        // A snapshot that was given up meanwhile holds no zone back: what was read in vain is no damage.
        let pairs = pairs.or_else(|error| tree.snapshots.verify(self.snapshot).and(Err(error)))?;
        Ok((view, pairs))
    }
}

impl Tree {
    /// The leaf range at the front of `range`.
    fn view_at(&self, snapshot: u64, range: &Range) -> Result<LeafView> {
        let key: &[u8] = match &range.low {
            Bound::Included(low) | Bound::Excluded(low) => low,
            Bound::Unbounded => &[],
        };
        let guard = self.epoch.pin();
        loop {
            let path = self.index.find(key, &guard);
            let leaf = self.table.lock_shared(path.leaf());
            if path.is_current() {
                let kept = self.snapshots.kept_at(Level::Leaves, snapshot, key)?;
                return Ok(view(kept, &leaf, &path));
            }
        }
    }

    /// The leaf range at the back of `range`.
    fn view_before(&self, snapshot: u64, range: &Range) -> Result<LeafView> {
        let guard = self.epoch.pin();
        loop {
            let (path, bound) = match &range.high {
                // The leaf that holds an included bound, as if it were just above it.
                Bound::Included(high) => (self.index.find(high, &guard), Some([high.as_slice(), &[0]].concat())),
                Bound::Excluded(high) => (self.index.find_before(Some(high), &guard), Some(high.clone())),
                Bound::Unbounded => (self.index.find_before(None, &guard), None),
            };
            let leaf = self.table.lock_shared(path.leaf());
            if path.is_current() {
                let kept = match &range.high {
                    Bound::Included(high) => self.snapshots.kept_at(Level::Leaves, snapshot, high)?,
                    _ => self.snapshots.kept_before(snapshot, bound.as_deref())?,
                };
                return Ok(view(kept, &leaf, &path));
            }
        }
    }

    /// The live pairs of `view` in `range`. The epoch is pinned since before the view was taken, so its page is still there.
    fn pairs_of(&self, view: &LeafView, snapshot: u64, range: &Range) -> Result<Vec<Pair>> {
        let upper = self.upper_of(view, AsOf::Snapshot(&self.snapshots, snapshot))?;
        let body = self.read_body(view.id, view.page)?;
        let page = body.as_deref().map(LeafPage::decode).transpose()?;
        let keys = page.map(|page| FullKeys::new(page.prefix(), page.slots()));
        let older = page.iter().zip(&keys).flat_map(|(page, keys)| keys.records(page.slots()));
        let leaf = overlay(older, view.records.iter().map(borrowed), |_, _| ());
        let merged = live(overlay(leaf.into_iter(), upper.iter().map(borrowed), |_, _| ()));
        merged.iter().filter(|record| range.holds(record.key)).map(|record| self.pair(record)).collect()
    }

    /// What filter and array hold above a leaf range.
    fn upper_of(&self, view: &LeafView, as_of: AsOf<'_>) -> Result<Vec<OwnedRecord>> {
        let Some(filter) = &self.filter else { return Ok(Vec::new()) };
        filter.between(&view.low, view.high.as_deref(), as_of, &self.epoch.pin())
    }

    fn pair(&self, record: &Record<'_>) -> Result<Pair> {
        let value = match record.kind {
            Kind::Pointer => self.values.read(record.key, &ValuePointer::decode(record.value)?)?,
            _ => record.value.to_vec(),
        };
        Ok((record.key.to_vec(), value))
    }
}

fn view(kept: Option<Arc<Kept>>, leaf: &Shared<'_>, path: &Path<'_>) -> LeafView {
    kept.map_or_else(|| LeafView::of_leaf(leaf, path), |kept| LeafView::of_kept(&kept))
}

/// An owned bound.
pub(crate) fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    match bound {
        Bound::Included(key) => Bound::Included(key.to_vec()),
        Bound::Excluded(key) => Bound::Excluded(key.to_vec()),
        Bound::Unbounded => Bound::Unbounded,
    }
}
