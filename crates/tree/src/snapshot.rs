//! Snapshots: leaf states kept on first change (decision 0004).
//!
//! Snapshots are numbered from 1. The number of the newest is the *epoch* of the tree. The first logical change of a leaf in an
//! epoch keeps its state under that epoch; a snapshot `s` reads, for a key, the state kept under the least epoch `>= s` whose
//! range covers the key, and the leaf itself if there is none. States are kept by key range, so splits hand nothing on; a merge of
//! leaves keeps both sides first, so that a leaf's range is always wholly kept or wholly not. A value that reclaim moved is no
//! change of its leaf: a snapshot reads the same bytes through the new pointer. Nodes of the merged filter are kept in
//! the same way, on a level of their own; the batch array that was there when a snapshot opened stays with it, as it never changes.
//!
//! Memory: kept images count against a limit; past it the oldest snapshot is given up and answers `SnapshotTooOld`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use zonda_pages::{PageAddress, PageId};
use zonda_rt::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::{
    TreeError,
    buffer::Buffer,
    filter::{BatchArray, Records},
    leaf_table::Location,
    record::{OwnedRecord, Record, borrowed, owned},
};

/// A leaf as it was.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Least key of its range.
    pub(crate) low: Vec<u8>,
    /// Key above its range.
    pub(crate) high: Option<Vec<u8>>,
    /// Its leaf then: the identity of `page`.
    pub(crate) id: PageId,
    /// Its page.
    pub(crate) page: Option<PageAddress>,
    /// Records of its buffer, or of the filter node.
    pub(crate) records: KeptRecords,
}

/// Records of a kept state, with full keys, sorted.
#[derive(Debug)]
pub(crate) enum KeptRecords {
    /// Those of a buffer.
    Loose(Vec<OwnedRecord>),
    /// Those of a filter node, as they lay there.
    Packed(Option<Records>),
}

impl KeptRecords {
    /// The record of `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Record<'_>> {
        match self {
            Self::Loose(records) => {
                let at = records.binary_search_by(|(other, _, _)| other.as_slice().cmp(key)).ok()?;
                Some(borrowed(&records[at]))
            }
            Self::Packed(records) => records.as_ref()?.slots().find(key),
        }
    }

    /// Copies of the records in `[low, high)`.
    pub(crate) fn between(&self, low: &[u8], high: Option<&[u8]>) -> Vec<OwnedRecord> {
        let inside =
            |(key, _, _): &&OwnedRecord| key.as_slice() >= low && high.is_none_or(|high| key.as_slice() < high);
        match self {
            Self::Loose(records) => records.iter().filter(inside).cloned().collect(),
            Self::Packed(records) => records.iter().flat_map(|records| records.between(low, high)).map(owned).collect(),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Loose(records) => records.iter().map(|(key, _, value)| key.len() + value.len() + 72).sum(),
            Self::Packed(records) => {
                records.as_ref().map_or(0, |r| usize::try_from(r.memory_bytes()).unwrap_or(usize::MAX))
            }
        }
    }
}

impl Kept {
    fn covers(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }

    fn ends_at_or_after(&self, bound: Option<&[u8]>) -> bool {
        match (self.high.as_deref(), bound) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(high), Some(bound)) => high >= bound,
        }
    }

    fn memory_bytes(&self) -> usize {
        self.records.memory_bytes() + self.low.len() + self.high.as_ref().map_or(0, Vec::len) + 160
    }
}

/// The records that the leaf's page lacks, with full keys.
pub(crate) fn dirty_records(location: &Location) -> Vec<OwnedRecord> {
    let Some(buffer) = location.buffer() else { return Vec::new() };
    with_full_keys(buffer, buffer.dirty_records())
}

/// The records of a mini-page that were used, with full keys.
pub(crate) fn used_records(buffer: &Buffer) -> Vec<OwnedRecord> {
    with_full_keys(buffer, buffer.used_records())
}

/// Every record of the leaf's buffer, with full keys.
pub(crate) fn owned_records(location: &Location) -> Vec<OwnedRecord> {
    let Some(buffer) = location.buffer() else { return Vec::new() };
    with_full_keys(buffer, buffer.slots().iter())
}

fn with_full_keys<'r>(buffer: &Buffer, records: impl Iterator<Item = Record<'r>>) -> Vec<OwnedRecord> {
    let full = |record: Record<'_>| ([buffer.prefix(), record.key].concat(), record.kind, record.value.to_vec());
    records.map(full).collect()
}

type Layer = BTreeMap<Vec<u8>, Arc<Kept>>;

/// Whose states are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Leaves.
    Leaves,
    /// Nodes of the filter.
    Filter,
}

impl Level {
    const ALL: [Self; 2] = [Self::Leaves, Self::Filter];
}

#[derive(Default)]
struct State {
    /// Open snapshots, each with the batch array of its moment.
    open: BTreeMap<u64, Option<Arc<BatchArray>>>,
    /// Open snapshots that were given up.
    given_up: BTreeSet<u64>,
    /// Of each level, kept states by epoch, then by low key; ranges within a layer are disjoint.
    layers: [BTreeMap<u64, Layer>; 2],
}

impl State {
    fn layers(&self, level: Level) -> &BTreeMap<u64, Layer> {
        &self.layers[level as usize]
    }

    /// Bytes of `array` if no open snapshot has it.
    fn bytes_alone(&self, array: Option<&Arc<BatchArray>>) -> usize {
        let shared = |array: &&Arc<BatchArray>| self.open.values().flatten().any(|other| Arc::ptr_eq(other, array));
        let alone = array.filter(|array| !shared(array));
        alone.map_or(0, |array| usize::try_from(array.memory_bytes()).unwrap_or(usize::MAX))
    }

    fn layers_mut(&mut self, level: Level) -> &mut BTreeMap<u64, Layer> {
        &mut self.layers[level as usize]
    }
}

/// All snapshots of a tree.
pub(crate) struct Snapshots {
    state: Mutex<State>,
    open: AtomicUsize,
    epoch: AtomicU64,
    kept_bytes: AtomicUsize,
    bytes_max: AtomicU64,
}

impl Snapshots {
    /// No snapshots; images may take `bytes_max`.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            state: Mutex::new(State::default()),
            open: AtomicUsize::new(0),
            epoch: AtomicU64::new(0),
            kept_bytes: AtomicUsize::new(0),
            bytes_max: AtomicU64::new(bytes_max),
        }
    }

    fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// From now on images may take `bytes_max`: the oldest snapshots are given up until the others do.
    pub(crate) fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.hold(&mut self.state.lock());
    }

    fn hold(&self, state: &mut State) {
        while self.kept_bytes() > self.bytes_max() && self.give_up_oldest(state) {}
    }

    /// Opens a snapshot of now. The caller keeps batches out meanwhile, and evictions of the filter, whose present array is `array`.
    pub(crate) fn open(&self, array: Option<Arc<BatchArray>>) -> u64 {
        let mut state = self.state.lock();
        self.kept_bytes.fetch_add(state.bytes_alone(array.as_ref()), Ordering::Relaxed);
        // Before the number moves: a writer that sees the new epoch also sees that somebody is there.
        self.open.fetch_add(1, Ordering::SeqCst);
        let number = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        state.open.insert(number, array);
        number
    }

    /// Closes snapshot `number`.
    pub(crate) fn close(&self, number: u64) {
        let mut state = self.state.lock();
        let array = state.open.remove(&number).flatten();
        self.kept_bytes.fetch_sub(state.bytes_alone(array.as_ref()), Ordering::Relaxed);
        if !state.given_up.remove(&number) {
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
        self.tidy(&mut state);
    }

    /// The number of the newest snapshot: the present epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Bytes of kept images.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed) as u64
    }

    /// Whether no usable snapshot numbered `<= epoch` is open: what died by then may go.
    pub(crate) fn drained(&self, epoch: u64) -> bool {
        if self.open.load(Ordering::SeqCst) == 0 {
            return true;
        }
        let state = self.state.lock();
        state.open.range(..=epoch).all(|(number, _)| state.given_up.contains(number))
    }

    /// Whether a change of what was last changed in epoch `changed` may have to keep its state first; `None`: not known, and
    /// [`keep`](Self::keep) knows whether it is kept already.
    pub(crate) fn may_need(&self, changed: Option<u64>) -> bool {
        self.open.load(Ordering::SeqCst) > 0 && changed.is_none_or(|changed| changed < self.epoch())
    }

    /// Keeps the state of a leaf or node under the present epoch, unless it is kept already. Called under its exclusive
    /// latch, before its first change of the epoch.
    pub(crate) fn keep(&self, level: Level, low: &[u8], state_of: impl FnOnce() -> Kept) {
        let mut state = self.state.lock();
        let epoch = self.epoch();
        let Some((&newest, _)) = state.open.last_key_value() else { return };
        if state.given_up.contains(&newest) {
            return;
        }
        let layer = state.layers_mut(level).entry(epoch).or_default();
        if covering(layer, low).is_some() {
            return;
        }
        let kept = state_of();
        self.kept_bytes.fetch_add(kept.memory_bytes(), Ordering::Relaxed);
        layer.insert(kept.low.clone(), Arc::new(kept));
        self.hold(&mut state);
    }

    /// Gives the oldest snapshot up, if there is one; `true` if one was.
    pub(crate) fn give_up(&self) -> bool {
        self.give_up_oldest(&mut self.state.lock())
    }

    fn give_up_oldest(&self, state: &mut State) -> bool {
        let Some(&oldest) = state.open.keys().find(|number| !state.given_up.contains(number)) else { return false };
        state.given_up.insert(oldest);
        self.open.fetch_sub(1, Ordering::SeqCst);
        let array = state.open.insert(oldest, None).flatten();
        self.kept_bytes.fetch_sub(state.bytes_alone(array.as_ref()), Ordering::Relaxed);
        self.tidy(state);
        true
    }

    /// Drops and joins layers that no usable snapshot tells apart.
    fn tidy(&self, state: &mut State) {
        let usable: Vec<u64> = state.open.keys().filter(|number| !state.given_up.contains(number)).copied().collect();
        Level::ALL.into_iter().for_each(|level| self.tidy_layers(state.layers_mut(level), &usable));
    }

    fn tidy_layers(&self, layers: &mut BTreeMap<u64, Layer>, usable: &[u64]) {
        let epochs: Vec<u64> = layers.keys().copied().collect();
        let (mut below, mut newest): (Option<u64>, Option<u64>) = (None, None);
        // Both ascend.
        let mut usable = usable.iter().copied().peekable();
        for epoch in epochs {
            while let Some(number) = usable.next_if(|number| *number <= epoch) {
                newest = Some(number);
            }
            match (newest, below) {
                (None, _) => self.drop_layer(layers, epoch),
                (Some(newest), Some(lower)) if newest <= lower => self.join_layers(layers, lower, epoch),
                _ => below = Some(epoch),
            }
        }
    }

    fn drop_layer(&self, layers: &mut BTreeMap<u64, Layer>, epoch: u64) {
        let layer = layers.remove(&epoch).unwrap_or_default();
        layer.values().for_each(|kept| self.forget(kept));
    }

    fn forget(&self, kept: &Kept) {
        self.kept_bytes.fetch_sub(kept.memory_bytes(), Ordering::Relaxed);
    }

    /// No usable snapshot reads `upper` where `lower` covers a key.
    fn join_layers(&self, layers: &mut BTreeMap<u64, Layer>, lower: u64, upper: u64) {
        let moved = layers.remove(&upper).unwrap_or_default();
        let layer = layers.entry(lower).or_default();
        for (low, kept) in moved {
            if covering(layer, &low).is_some() {
                self.forget(&kept);
            } else {
                layer.insert(low, kept);
            }
        }
    }

    fn check(&self, state: &State, number: u64) -> Result<(), TreeError> {
        if state.given_up.contains(&number) {
            return Err(TreeError::SnapshotTooOld { kept_bytes: self.kept_bytes(), bytes_max: self.bytes_max() });
        }
        Ok(())
    }

    /// The state that snapshot `number` sees at `key`, if it is not the leaf's or node's own. Called under the latch of the one
    /// that holds `key`.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub(crate) fn kept_at(&self, level: Level, number: u64, key: &[u8]) -> Result<Option<Arc<Kept>>, TreeError> {
        let state = self.state.lock();
        self.check(&state, number)?;
        Ok(state.layers(level).range(number..).find_map(|(_, layer)| covering(layer, key)))
    }

    /// As [`kept_at`](Self::kept_at) of leaves for the greatest keys below `bound` (`None`: of all).
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub(crate) fn kept_before(&self, number: u64, bound: Option<&[u8]>) -> Result<Option<Arc<Kept>>, TreeError> {
        let state = self.state.lock();
        self.check(&state, number)?;
        let last = |layer: &Layer| {
            let candidate = match bound {
                Some(bound) => {
                    layer.range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Excluded(bound))).next_back()
                }
                None => layer.last_key_value(),
            };
            candidate.map(|(_, kept)| kept).filter(|kept| kept.ends_at_or_after(bound)).cloned()
        };
        Ok(state.layers(Level::Leaves).range(number..).find_map(|(_, layer)| last(layer)))
    }

    /// The batch array of the moment of snapshot `number`.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub(crate) fn array_of(&self, number: u64) -> Result<Option<Arc<BatchArray>>, TreeError> {
        let state = self.state.lock();
        self.check(&state, number)?;
        Ok(state.open.get(&number).and_then(Clone::clone))
    }

    /// Refuses a snapshot that was given up.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub(crate) fn verify(&self, number: u64) -> Result<(), TreeError> {
        self.check(&self.state.lock(), number)
    }
}

fn covering(layer: &Layer, key: &[u8]) -> Option<Arc<Kept>> {
    let (_, kept) = layer.range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(key))).next_back()?;
    kept.covers(key).then(|| Arc::clone(kept))
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;

    fn kept(low: &[u8], high: Option<&[u8]>, mark: u32) -> Kept {
        Kept {
            low: low.to_vec(),
            high: high.map(<[u8]>::to_vec),
            id: PageId(mark),
            page: None,
            records: KeptRecords::Loose(Vec::new()),
        }
    }

    fn sees(snapshots: &Snapshots, number: u64, key: &[u8]) -> Option<u32> {
        snapshots.kept_at(Level::Leaves, number, key).expect("not given up").map(|kept| kept.id.0)
    }

    #[test]
    fn a_snapshot_sees_the_first_state_kept_after_it() {
        let snapshots = Snapshots::new(1 << 20);
        let first = snapshots.open(None);
        snapshots.keep(Level::Leaves, b"a", || kept(b"a", Some(b"m"), 1));
        let second = snapshots.open(None);
        snapshots.keep(Level::Leaves, b"a", || kept(b"a", Some(b"f"), 2));
        assert_eq!((sees(&snapshots, first, b"b"), sees(&snapshots, second, b"b")), (Some(1), Some(2)));
        assert_eq!((sees(&snapshots, first, b"g"), sees(&snapshots, second, b"g")), (Some(1), None));
        assert!(!snapshots.drained(first) && !snapshots.drained(second));
        snapshots.close(first);
        assert!(snapshots.drained(first) && !snapshots.drained(second));
        assert_eq!(sees(&snapshots, second, b"b"), Some(2));
        snapshots.close(second);
        assert_eq!(snapshots.kept_bytes(), 0);
    }

    #[test]
    fn closing_one_between_keeps_what_the_older_needs() {
        let snapshots = Snapshots::new(1 << 20);
        let first = snapshots.open(None);
        let second = snapshots.open(None);
        snapshots.keep(Level::Leaves, b"a", || kept(b"a", Some(b"m"), 7));
        snapshots.close(second);
        assert_eq!(sees(&snapshots, first, b"b"), Some(7));
        assert_eq!(snapshots.kept_before(first, Some(b"c")).expect("usable").map(|kept| kept.id.0), Some(7));
        assert!(snapshots.kept_before(first, Some(b"z")).expect("usable").is_none());
        snapshots.close(first);
        assert_eq!(snapshots.kept_bytes(), 0);
    }

    #[test]
    fn over_the_limit_the_oldest_is_given_up() {
        let snapshots = Snapshots::new(100);
        let first = snapshots.open(None);
        snapshots.keep(Level::Leaves, b"a", || kept(b"a", Some(b"m"), 1));
        assert!(matches!(snapshots.kept_at(Level::Leaves, first, b"b"), Err(TreeError::SnapshotTooOld { .. })));
        assert!(snapshots.drained(first));
        assert!(!snapshots.may_need(None), "nobody keeps anything for it");
        let second = snapshots.open(None);
        assert!(snapshots.may_need(None) && !snapshots.drained(second));
        snapshots.close(first);
        assert!(snapshots.may_need(None) && !snapshots.drained(second));
        snapshots.close(second);
        assert!(!snapshots.may_need(None));
    }
}
