//! Range scans: leaf range by leaf range, over a snapshot, from both ends; nothing is held between items.

use std::{borrow::Cow, ops::Bound};

use zonda_pages::{PageAddress, PageId};

use crate::{
    Design,
    buffer::Buffer,
    filter::{AsOf, Window},
    index::Path,
    leaf_table::{Location, Shared},
    merge::overlay,
    read_ahead::{Ahead, Glimpse, share_above},
    record::borrowed,
    record_list::RecordList,
    run::{End, Run, Taken},
    snapshot::{Kept, Level},
    stats::count,
    tree::{Result, Tree},
};

/// About how many records above a leaf's buffer a scan copies at once. Leaves have fewer, but for stores that lie in the filter almost
/// wholly.
const UPPER_RECORDS: usize = 256;

/// A key and its value, until the scan goes on.
pub type PairRef<'a> = (&'a [u8], &'a [u8]);

/// The state of one leaf range as a snapshot sees it, without filter and array.
pub(crate) struct LeafView {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    pub(crate) id: PageId,
    /// `None` if there is no page, or the records are all there is.
    pub(crate) page: Option<PageAddress>,
    /// A copy of the page that the buffer mirrors, as the buffer has it.
    body: Option<Vec<u8>>,
    /// Those of the buffer and above that a scan of the view's range needs.
    records: RecordList,
    /// How many records the buffer holds in all.
    leaf_records: usize,
}

/// Makes something of the state of a leaf that a snapshot sees: the kept one, or the leaf itself.
type ViewOf<T> = fn(Option<&Kept>, &Shared<'_>, &Path<'_>, &Range) -> T;

/// The range of a leaf, and the page that a scan of it must read.
struct Edges {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    page: Option<(PageId, PageAddress)>,
}

impl Edges {
    fn of(kept: Option<&Kept>, leaf: &Shared<'_>, path: &Path<'_>, _: &Range) -> Self {
        let Some(kept) = kept else {
            let page = page_needed(leaf.location()).map(|page| (leaf.id(), page));
            return Self { low: path.low(), high: path.high(), page };
        };
        Self { low: kept.low.clone(), high: kept.high.clone(), page: kept.page.map(|page| (kept.id, page)) }
    }
}

impl LeafView {
    fn of(kept: Option<&Kept>, leaf: &Shared<'_>, path: &Path<'_>, range: &Range) -> Self {
        kept.map_or_else(|| Self::of_leaf(leaf, path, range), Self::of_kept)
    }

    fn of_leaf(leaf: &Shared<'_>, path: &Path<'_>, range: &Range) -> Self {
        let location = leaf.location();
        let mirror = location.buffer().filter(|buffer| buffer.is_complete());
        let pending = location.buffer().filter(|buffer| !buffer.is_complete());
        Self {
            low: path.low(),
            high: path.high(),
            id: leaf.id(),
            page: page_needed(location),
            body: mirror.map(Buffer::to_body),
            leaf_records: location.buffer().map_or(0, |buffer| buffer.slots().len()),
            records: pending.map_or_else(RecordList::default, |buffer| pending_within(buffer, range)),
        }
    }

    fn of_kept(kept: &Kept) -> Self {
        Self {
            low: kept.low.clone(),
            high: kept.high.clone(),
            id: kept.id,
            page: kept.page,
            body: None,
            leaf_records: 0,
            records: RecordList::of(b"", kept.records.between(&kept.low, kept.high.as_deref()).iter().map(borrowed)),
        }
    }
}

/// What a reader of `range` of the page needs of the leaf's buffer too.
fn pending_within(buffer: &Buffer, range: &Range) -> RecordList {
    let (prefix, slots) = (buffer.prefix(), buffer.slots());
    let within = range.indexes(slots.len(), |key| slots.search_behind(prefix, key));
    RecordList::of(prefix, buffer.pending_among(within))
}

/// The page that a scan of a leaf must read: none if the buffer mirrors it.
fn page_needed(location: &Location) -> Option<PageAddress> {
    let mirrored = location.buffer().is_some_and(Buffer::is_complete);
    location.page().filter(|_| !mirrored)
}

/// A range with what was already handed out cut off at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) low: Bound<Vec<u8>>,
    pub(crate) high: Bound<Vec<u8>>,
}

impl Range {
    /// The indexes of those of `len` sorted keys that the range holds; `search` says where a key is among them (`Ok`), or belongs (`Err`).
    pub(crate) fn indexes(
        &self,
        len: usize,
        search: impl Fn(&[u8]) -> std::result::Result<usize, usize>,
    ) -> std::ops::Range<usize> {
        let from = |key: &[u8]| search(key).unwrap_or_else(|index| index);
        let behind = |key: &[u8]| search(key).map_or_else(|index| index, |index| index + 1);
        let start = match &self.low {
            Bound::Included(low) => from(low),
            Bound::Excluded(low) => behind(low),
            Bound::Unbounded => 0,
        };
        let end = match &self.high {
            Bound::Included(high) => behind(high),
            Bound::Excluded(high) => from(high),
            Bound::Unbounded => len,
        };
        start..end.max(start)
    }

    /// The keys of `[low, high)` that may lie in the range, likewise.
    fn keys_within<'k>(&'k self, low: &'k [u8], high: Option<&'k [u8]>) -> (&'k [u8], Option<Cow<'k, [u8]>>) {
        let begin = match &self.low {
            Bound::Included(key) | Bound::Excluded(key) => key.as_slice().max(low),
            Bound::Unbounded => low,
        };
        let end: Option<Cow<'_, [u8]>> = match &self.high {
            Bound::Included(key) => Some([key.as_slice(), &[0]].concat().into()),
            Bound::Excluded(key) => Some(key.into()),
            Bound::Unbounded => None,
        };
        let end = match (end, high.map(Cow::Borrowed)) {
            (Some(end), Some(high)) => Some(end.min(high)),
            (end, high) => end.or(high),
        };
        (begin, end)
    }

    /// About which share of a leaf of `[low, high)` it holds, if it begins or, from the back, ends there.
    fn share_of(&self, end: End, low: &[u8], high: Option<&[u8]>) -> f64 {
        match (end, &self.low, &self.high) {
            (End::Front, Bound::Included(key) | Bound::Excluded(key), _) if key.as_slice() > low => {
                share_above(key, low, high)
            }
            (End::Back, _, Bound::Included(key) | Bound::Excluded(key))
                if high.is_none_or(|high| key.as_slice() < high) =>
            {
                1.0 - share_above(key, low, high)
            }
            _ => 1.0,
        }
    }

    /// What is left behind a leaf whose range begins at `low` and ends before `high`.
    fn beyond(&self, end: End, low: &[u8], high: Option<&[u8]>) -> Option<Self> {
        let left = match end {
            End::Front => Self { low: Bound::Included(high?.to_vec()), high: self.high.clone() },
            End::Back if low.is_empty() => return None,
            End::Back => Self { low: self.low.clone(), high: Bound::Excluded(low.to_vec()) },
        };
        (!left.is_empty()).then_some(left)
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
    front: Side,
    back: Side,
    /// No values are read.
    keys_only: bool,
}

/// One end of a scan: the leaf range that it is in, and what it reads ahead.
#[derive(Default)]
struct Side {
    run: Option<Run>,
    ahead: Ahead,
}

impl Scan {
    /// A scan of `range` as snapshot `snapshot` sees it.
    pub(crate) fn new(snapshot: u64, range: Range) -> Self {
        let rest = (!range.is_empty()).then_some(range);
        Self { snapshot, rest, front: Side::default(), back: Side::default(), keys_only: false }
    }

    /// The same without values: pairs have empty ones, those of leaves that are begun too.
    pub(crate) fn keys_only(mut self) -> Self {
        self.keys_only = true;
        for side in [&mut self.front, &mut self.back] {
            side.run = side.run.take().map(|run| run.keys_only(true));
        }
        self
    }

    /// Says that about `pairs` pairs will be taken, from whichever end.
    pub(crate) fn expect_pairs(&mut self, pairs: u64) {
        self.front.ahead.expect_pairs(pairs);
        self.back.ahead.expect_pairs(pairs);
    }

    /// The low end of what no leaf was read for yet, unless the leaf that was read last has more pairs.
    pub(crate) fn rest_low(&self) -> Option<&Bound<Vec<u8>>> {
        let has_more = self.front.run.as_ref().is_some_and(Run::has_more);
        self.rest.as_ref().filter(|_| !has_more).map(|rest| &rest.low)
    }

    /// The next pair from the front.
    ///
    /// # Errors
    /// `SnapshotTooOld`, those of the store; the same call may be tried again.
    #[inline]
    pub(crate) fn next(&mut self, tree: &Tree) -> Result<Option<PairRef<'_>>> {
        self.step(tree, End::Front)
    }

    /// The next pair from the back.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    #[inline]
    pub(crate) fn prev(&mut self, tree: &Tree) -> Result<Option<PairRef<'_>>> {
        self.step(tree, End::Back)
    }

    /// Most pairs are at hand: they pass through no result that has room for an error.
    #[inline]
    fn step(&mut self, tree: &Tree, end: End) -> Result<Option<PairRef<'_>>> {
        let at_hand = self.side(end).run.as_mut().and_then(|run| run.take_ready(end));
        let taken = match at_hand {
            Some(taken) => Some((end, taken)),
            None => self.take(tree, end)?,
        };
        Ok(self.pair(taken))
    }

    /// What [`take`](Self::take) took.
    #[inline]
    fn pair(&self, taken: Option<(End, Taken)>) -> Option<PairRef<'_>> {
        let (side, taken) = taken?;
        let side = match side {
            End::Front => &self.front,
            End::Back => &self.back,
        };
        side.run.as_ref().map(|run| run.pair(taken))
    }

    /// Goes to the next pair from `end`; it is one of the leaf range at the returned end.
    #[inline(never)]
    fn take(&mut self, tree: &Tree, end: End) -> Result<Option<(End, Taken)>> {
        loop {
            if let Some(taken) = self.take_from(tree, end, end)? {
                return Ok(Some((end, taken)));
            }
            let Some(range) = self.rest.take() else {
                // Both ends have met: what the other one has begun is left.
                let other = end.other();
                return Ok(self.take_from(tree, other, end)?.map(|taken| (other, taken)));
            };
            match self.begin_leaf(tree, &range, end) {
                Ok(rest) => self.rest = rest,
                Err(error) => {
                    self.rest = Some(range);
                    return Err(error);
                }
            }
        }
    }

    fn side(&mut self, end: End) -> &mut Side {
        match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        }
    }

    /// The next pair, from `end`, of the leaf range that `side` is in.
    fn take_from(&mut self, tree: &Tree, side: End, end: End) -> Result<Option<Taken>> {
        let snapshot = self.snapshot;
        let Some(run) = self.side(side).run.as_mut() else { return Ok(None) };
        in_snapshot(tree, snapshot, run.take(tree, end))
    }

    /// Reads the leaf range at an end of `range`; returns what is left behind it.
    fn begin_leaf(&mut self, tree: &Tree, range: &Range, end: End) -> Result<Option<Range>> {
        let (snapshot, keys_only) = (self.snapshot, self.keys_only);
        let _guard = tree.epoch.pin();
        count(&tree.counters.mine().leaves_scanned);
        let mut view = match end {
            End::Front => tree.view_at(snapshot, range, LeafView::of)?,
            End::Back => tree.view_before(snapshot, range, LeafView::of)?,
        };
        let part = tree.narrow(&mut view, snapshot, range, end)?;
        let rest = range.beyond(end, &view.low, view.high.as_deref());
        let share = part.share_of(end, &view.low, view.high.as_deref());
        let side = self.side(end);
        let expected = side.ahead.pairs_expected();
        let large_values = side.run.as_ref().map_or(expected, Run::large_values);
        side.ahead.begin_leaf(tree, (snapshot, end), (share, rest.as_ref()));
        let run = tree.run_of(view, &part, &mut side.ahead);
        let run = in_snapshot(tree, snapshot, run)?.keys_only(keys_only);
        side.run = Some(run.with_large_values(large_values));
        Ok(rest)
    }
}

/// What was read for a snapshot. One that was given up meanwhile holds no zone back: what was read in vain is no damage.
fn in_snapshot<T>(tree: &Tree, snapshot: u64, read: Result<T>) -> Result<T> {
    match read {
        Ok(read) => Ok(read),
        Err(error) => Err(tree.snapshots.verify(snapshot).err().unwrap_or(error)),
    }
}

impl Tree {
    /// The leaf range at the front of `range`.
    fn view_at<T>(&self, snapshot: u64, range: &Range, view: ViewOf<T>) -> Result<T> {
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
                let seen = view(kept.as_deref(), &leaf, &path, range);
                self.note_scan(leaf);
                return Ok(seen);
            }
        }
    }

    /// The leaf range at the back of `range`.
    fn view_before<T>(&self, snapshot: u64, range: &Range, view: ViewOf<T>) -> Result<T> {
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
                let seen = view(kept.as_deref(), &leaf, &path, range);
                self.note_scan(leaf);
                return Ok(seen);
            }
        }
    }

    /// The pairs of `view` in `range`. The epoch is pinned since before the view was taken, so its page is still there.
    fn run_of(&self, mut view: LeafView, range: &Range, ahead: &mut Ahead) -> Result<Run> {
        let body = match view.body.take().or_else(|| ahead.take(&view)) {
            Some(body) => Some(body),
            None => self.read_body(view.id, view.page)?,
        };
        if let (Design::BfTree, Some(page), Some(body)) = (self.options.design, view.page, &body) {
            self.promote_page((view.id, page), body);
        }
        let run = Run::new(body, view.records, range)?;
        self.scanned_leaf(run.page_records().max(view.leaf_records));
        Ok(run)
    }

    /// Puts what filter and array hold above a leaf's buffer into the view, and returns `range`; if they hold much, that of a part only,
    /// from the end that is wanted, and cuts the view and the range down to it: a scan pays for what it takes.
    fn narrow<'r>(&self, view: &mut LeafView, snapshot: u64, range: &'r Range, end: End) -> Result<Cow<'r, Range>> {
        let Some(filter) = &self.filter else { return Ok(Cow::Borrowed(range)) };
        let (low, high) = range.keys_within(&view.low, view.high.as_deref());
        let window = Window { low, high: high.as_deref(), end, records: UPPER_RECORDS };
        let as_of = AsOf::Snapshot(&self.snapshots, snapshot);
        let (upper, cut) = filter.window(window, as_of, &self.epoch.pin())?;
        let part = match (end, cut) {
            (_, None) => Cow::Borrowed(range),
            (End::Front, Some(cut)) => {
                view.high = Some(cut.clone());
                Cow::Owned(Range { low: range.low.clone(), high: Bound::Excluded(cut) })
            }
            (End::Back, Some(cut)) => {
                view.low.clone_from(&cut);
                Cow::Owned(Range { low: Bound::Included(cut), high: range.high.clone() })
            }
        };
        if !upper.is_empty() {
            let merged = overlay(view.records.iter(), upper.iter().map(borrowed), |_, _| ());
            view.records = RecordList::of(b"", merged.iter().copied());
        }
        Ok(part)
    }

    /// What a scan will find at an end of `range`; `None` if the snapshot was given up. A hint: it may change until then.
    pub(crate) fn glimpse_ahead(&self, snapshot: u64, end: End, range: &Range) -> Option<Glimpse> {
        let edges = match end {
            End::Front => self.view_at(snapshot, range, Edges::of),
            End::Back => self.view_before(snapshot, range, Edges::of),
        };
        let Edges { low, high, page } = edges.ok()?;
        Some(Glimpse { page, beyond: range.beyond(end, &low, high.as_deref()) })
    }
}

/// A pair that outlives the scan's next step.
#[cfg(test)]
pub(crate) fn owned_pair((key, value): PairRef<'_>) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}

/// An owned bound.
pub(crate) fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    match bound {
        Bound::Included(key) => Bound::Included(key.to_vec()),
        Bound::Excluded(key) => Bound::Excluded(key.to_vec()),
        Bound::Unbounded => Bound::Unbounded,
    }
}
