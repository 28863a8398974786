//! One leaf node of the filter, and the table that finds nodes by id.
//!
//! Life cycle of a node: 1 free -> 2 valid: linked, with records -> 3 shadow-deleted: linked, its records moved to the batch array
//! -> 2 again when a write revives it, or 1 when a write unlinks it.
//!
//! The latch guards the content. `heat` and `oldest` are read without it: by whoever picks victims, and by merges of leaves
//! below, which may not wait for a latch of the filter (lock order).

use std::sync::OnceLock;

use zonda_pages::PageId;
use zonda_rt::{
    Mutex, RwLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use super::records::Records;
use crate::record::Record;

/// What [`Node::oldest`] says of a node without records.
pub(crate) const NONE: u64 = u64::MAX;

/// A node.
#[derive(Default)]
pub(crate) struct Node {
    /// Its records.
    pub(crate) content: RwLock<Content>,
    heat: AtomicU32,
    /// No record of the node has a lower sequence number; grows only while the node has none. 0 = [`NONE`], so that a fresh
    /// node needs no setting.
    oldest: AtomicU64,
}

/// What a node's latch guards.
#[derive(Default)]
pub(crate) struct Content {
    /// `None`: shadow-deleted, or never used.
    pub(crate) records: Option<Records>,
    /// By index: whether the record was written again since an eviction last came by.
    again: Vec<bool>,
    /// Highest sequence number of a record.
    pub(crate) newest: u64,
    /// The snapshot number current at the last change.
    pub(crate) epoch: u64,
}

impl Content {
    /// Inserts or replaces a record with a sequence number up to `sequence`; `true`: it is the first one.
    pub(crate) fn upsert(&mut self, record: &Record<'_>, sequence: u64) -> bool {
        let Some(records) = &mut self.records else {
            *self = Self { epoch: self.epoch, ..Self::of(Records::of(std::iter::once(*record)), sequence) };
            return true;
        };
        match records.slots().search(record.key) {
            Ok(at) => self.again[at] = true,
            Err(at) => self.again.insert(at, false),
        }
        records.upsert(record);
        self.newest = self.newest.max(sequence);
        false
    }

    /// Records that nobody has written again.
    fn of(records: Records, newest: u64) -> Self {
        Self { again: vec![false; records.slots().len()], records: Some(records), newest, ..Self::default() }
    }

    /// Keeps the records below index `at` and returns the others.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let (left, right) = self.records.as_ref().expect("who splits has records").split(at);
        self.records = Some(left);
        let again = self.again.split_off(at);
        Self { records: Some(right), again, newest: self.newest, epoch: self.epoch }
    }

    /// Takes all records.
    pub(crate) fn take_all(&mut self) -> Option<Records> {
        self.again = Vec::new();
        self.records.take()
    }

    /// Takes the records that were not written again; those that stay must be written again to stay another time.
    pub(crate) fn take_cold(&mut self) -> Option<Records> {
        let cold = self.cold_records();
        if cold == self.again.len() {
            return self.take_all();
        }
        let records = self.records.as_ref()?;
        let of = |again: bool| {
            let chosen = records.slots().iter().zip(self.again.clone()).filter(move |(_, other)| *other == again);
            Records::of(chosen.map(|(record, _)| record).collect::<Vec<_>>().into_iter())
        };
        let (stays, leaves) = (of(true), (cold > 0).then(|| of(false)));
        self.again = vec![false; stays.slots().len()];
        self.records = Some(stays);
        leaves
    }

    fn cold_records(&self) -> usize {
        self.again.iter().filter(|again| !**again).count()
    }

    /// About the bytes of the records that were not written again.
    pub(crate) fn cold_bytes(&self) -> u64 {
        self.memory_bytes() * self.cold_records() as u64 / self.again.len().max(1) as u64
    }

    /// Bytes of its records.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.records.as_ref().map_or(0, Records::memory_bytes) + self.again.capacity() as u64
    }
}

impl Node {
    /// One access to a node with records, whether its key is there or not.
    pub(crate) fn warm(&self) {
        self.heat.fetch_add(1, Ordering::Relaxed);
    }

    /// Accesses, halved at every eviction.
    pub(crate) fn heat(&self) -> u32 {
        self.heat.load(Ordering::Relaxed)
    }

    /// Sets the count of accesses.
    pub(crate) fn set_heat(&self, heat: u32) {
        self.heat.store(heat, Ordering::Relaxed);
    }

    /// Forgets half of the accesses.
    pub(crate) fn cool(&self) {
        self.set_heat(self.heat() / 2);
    }

    /// A lower bound of the sequence numbers of its records; [`NONE`] if it has none.
    pub(crate) fn oldest(&self) -> u64 {
        match self.oldest.load(Ordering::SeqCst) {
            0 => NONE,
            oldest => oldest,
        }
    }

    /// Its content changed: none of its records is older than this. Under the exclusive latch.
    pub(crate) fn set_oldest(&self, oldest: u64) {
        self.oldest.store(if oldest == NONE { 0 } else { oldest }, Ordering::SeqCst);
    }
}

/// Nodes of the first segment; each further one doubles.
const FIRST_SEGMENT: usize = 64;
/// Enough for more nodes than ids.
const SEGMENTS: usize = 27;

/// All nodes, by id. Grows; ids of unlinked nodes are reused at once, because whoever latches a node asks afterwards whether
/// the way to it is still current.
pub(crate) struct Nodes {
    segments: [OnceLock<Box<[Node]>>; SEGMENTS],
    ids: Mutex<Ids>,
    memory_bytes: AtomicU64,
}

#[derive(Default)]
struct Ids {
    next: u32,
    free: Vec<u32>,
}

impl Nodes {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Self {
            segments: std::array::from_fn(|_| OnceLock::new()),
            ids: Mutex::default(),
            memory_bytes: AtomicU64::new(0),
        }
    }

    /// The node `id`, which [`allocate`](Self::allocate) gave.
    pub(crate) fn get(&self, id: PageId) -> &Node {
        let (segment, at) = place(id.0);
        &self.segments[segment].get().expect("ids come from this table")[at]
    }

    /// An id of a node without records.
    pub(crate) fn allocate(&self) -> PageId {
        let mut ids = self.ids.lock();
        if let Some(id) = ids.free.pop() {
            return PageId(id);
        }
        let id = ids.next;
        ids.next += 1;
        let (segment, at) = place(id);
        if at == 0 {
            let len = FIRST_SEGMENT << segment;
            self.segments[segment].get_or_init(|| (0..len).map(|_| Node::default()).collect());
            self.memory_bytes.fetch_add((len * size_of::<Node>()) as u64, Ordering::Relaxed);
        }
        PageId(id)
    }

    /// Gives back an id that is not linked any more.
    pub(crate) fn recycle(&self, id: PageId) {
        self.ids.lock().free.push(id.0);
    }

    /// Memory in bytes, without the records.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed) + size_of::<Self>() as u64
    }
}

/// Segment and index of an id.
fn place(id: u32) -> (usize, usize) {
    let row = id as usize / FIRST_SEGMENT + 1;
    let segment = row.ilog2() as usize;
    (segment, id as usize - FIRST_SEGMENT * ((1 << segment) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense_and_segments_double() {
        let mut expected = Vec::new();
        (0..5_usize).for_each(|segment| expected.extend((0..FIRST_SEGMENT << segment).map(|at| (segment, at))));
        let places: Vec<_> = (0..u32::try_from(expected.len()).expect("few")).map(place).collect();
        assert_eq!(places, expected);
        assert!(place(u32::MAX).0 < SEGMENTS);
    }
}
