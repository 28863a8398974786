//! The merged filter (ZKV 3.2): a small ordered tree of recently written pairs in front of the leaves. Hot pairs stay in it; cold
//! ones leave it, sorted, through the batch array, and reach leaves in runs.
//!
//! # States of a pair, and what each reader sees
//!
//! A logged record (put, delete, moved value pointer) only moves down:
//!
//! | state | where it is | held by | leaves it when |
//! |---|---|---|---|
//! | 1 filtered | one filter node | the node's latch | overwritten, or its node is evicted |
//! | 2 batched | the batch array; a node without records is shadow-deleted | nobody: it never changes | all batches are in the leaves |
//! | 3 buffered | a leaf's buffer | the leaf's latch | the buffer is merged |
//! | 4 paged | a page | the leaf's latch | overwritten by a merge |
//!
//! Rules, cited by name:
//! - *down*: there is at most one array; a run is in the array before it leaves the filter, and in the leaf before it leaves the
//!   array; the next eviction begins when there is no array, or all that is left of it are runs that found no room in their leaves: these
//!   are in the next array, but where that has newer records. So for every key the upper of two records is the newer one.
//! - *top-down*: whoever wants the newest record looks in filter, array, leaf, in this order. A record that moves meanwhile is
//!   met at its old or its new place, and what is met was the newest at some moment since the look began: linearizable. The array is
//!   looked at through one pointer, loaded once, after the filter.
//! - *one moment*: evictions and the opening of snapshots exclude each other (`evicting`). A snapshot takes the array that is there
//!   when it opens. Afterwards a node's first change (upsert, eviction, unlinking) keeps its records by key range, as a leaf's first
//!   change does (decision 0004). So a snapshot's view of filter, array and leaf is that of its moment, whenever each is read, and
//!   runs that are inserted later change none of them.
//! - *checkpoint order*: a checkpoint copies the filter, then the array, then the leaves, each in key order, so a record that moves
//!   down meanwhile is copied at least once; recovery applies leaves, array, filter, then the log, so the newest wins. An entry of
//!   filter or array carries the least sequence number of its records.
//! - *merged below*: `merged_to` of an address record promises that every older operation on the leaf is in its page. It is therefore
//!   at most the least sequence number that filter or array holds in the leaf's range, read in this order, without latches, under the
//!   latch of the leaf, after the log's low water ([`Filter::oldest`]).
//! - *references*: a value pointer in filter or array keeps its value alive. It dies when it is overwritten where it is: a newer
//!   record in the filter kills one in the filter, a run that joins one that found no room kills one there, a run that reaches a buffer
//!   kills one there, a merge kills one in a page.
//!
//! # Latches
//!
//! Order: `evicting`, node latches in key order, cells of the filter's index, snapshots. No leaf latch is held while a node's latch is
//! waited for and none is taken under one. Readers and writers latch one node. Only an eviction holds several, in memory and
//! briefly; whoever unlinks a node tries its neighbour's latch. After latching, the way is validated, else it is walked again.
//!
//! Deletes are tombstones here as in buffers. Nothing in the filter is ever refused for want of memory: writers evict before they log. What
//! waits for leaves that cannot be merged takes room away, but a quarter stays for what moves. Only where far more waits than that those
//! who put are refused, wherever they write.

mod array;
mod cell;
#[cfg(test)]
mod cooperative_tests;
mod evict;
mod insert;
mod node;
mod records;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
#[cfg(test)]
mod tests;
mod unlink;
mod upper;
#[cfg(test)]
mod version_tests;
#[cfg(test)]
mod waiting_tests;
#[cfg(test)]
mod window_tests;

use std::ops::RangeInclusive;

use zonda_pages::PageId;
use zonda_rt::{
    Epoch, Mutex, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering},
    epoch::Guard,
};

pub(crate) use array::{Batch, BatchArray};
use cell::ArrayCell;
use evict::{Evicting, LEAVING_ONE_IN};
use node::{Content, NONE, Node, Nodes};
pub(crate) use records::Records;
pub(crate) use upper::{AsOf, Window};

use crate::{
    BATCH_BYTES_MAX, FilterEviction, TreeError,
    index::{Index, Path},
    key::separator_bytes,
    record::Record,
    snapshot::{Kept, KeptRecords, Level, Snapshots},
};

/// Bytes of records from which a node splits: some 125 pairs of 8 B + 8 B.
const NODE_BYTES_MAX: usize = 2 << 10;

/// What a node costs beside its records: itself, its index entry and a share of half-empty tables.
const NODE_OVERHEAD_BYTES: u64 = 100;

/// What the filter uses of the tree.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// Readers of index nodes and of the array.
    pub(crate) epoch: &'a Epoch,
    /// Who needs the states of nodes kept.
    pub(crate) snapshots: &'a Snapshots,
}

/// The filter. Memory: 8 bytes a pair and up beyond its key and value, counted by [`memory_bytes`](Self::memory_bytes).
pub(crate) struct Filter {
    index: Index,
    nodes: Nodes,
    array: ArrayCell,
    evicting: Mutex<Evicting>,
    eviction: FilterEviction,
    limit_bytes: u64,
    /// Nodes with records.
    valid_nodes: AtomicU64,
    record_bytes: AtomicU64,
    array_bytes: AtomicU64,
    /// Of what of the array found no room.
    waiting_bytes: AtomicU64,
    evictions: AtomicU64,
    /// Records that were copied for ranges.
    #[cfg(test)]
    copied: AtomicU64,
}

impl Filter {
    /// An empty filter that may take `share_bytes`, the array of one moment included: for that moment what leaves is there twice.
    pub(crate) fn new(share_bytes: u64, eviction: FilterEviction) -> Self {
        let limit_bytes = share_bytes - share_bytes / (LEAVING_ONE_IN + 1);
        let nodes = Nodes::new();
        let first = nodes.allocate();
        Self {
            index: Index::build(&[(Vec::new(), first)]),
            nodes,
            array: ArrayCell::empty(),
            evicting: Mutex::default(),
            eviction,
            limit_bytes,
            valid_nodes: AtomicU64::new(0),
            record_bytes: AtomicU64::new(0),
            array_bytes: AtomicU64::new(0),
            waiting_bytes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            #[cfg(test)]
            copied: AtomicU64::new(0),
        }
    }

    /// Calls `found` with the newest record of `key` in filter or array (*top-down*).
    pub(crate) fn find<T>(&self, key: &[u8], guard: &Guard<'_>, found: &mut dyn FnMut(&Record<'_>) -> T) -> Option<T> {
        loop {
            let path = self.index.find(key, guard);
            let node = self.nodes.get(path.leaf());
            let content = node.content.read();
            if !path.is_current() {
                continue;
            }
            let Some(records) = &content.records else { break };
            node.warm();
            match records.slots().find(key) {
                Some(record) => return Some(found(&record)),
                None => break,
            }
        }
        self.find_in_array(key, guard, found)
    }

    /// Looks in the batch array alone, where a record may be that a newer one has superseded.
    pub(crate) fn find_in_array<T>(
        &self,
        key: &[u8],
        guard: &Guard<'_>,
        found: &mut dyn FnMut(&Record<'_>) -> T,
    ) -> Option<T> {
        self.array.load(guard)?.find(key).map(|record| found(&record))
    }

    /// Puts a logged record into its node; `numbers` are those of its batch. `replaced` hears of the record it overwrites here. Returns
    /// whether nodes were unlinked or split, which takes inner nodes out of use.
    pub(crate) fn upsert(
        &self,
        record: &Record<'_>,
        numbers: &RangeInclusive<u64>,
        around: Around<'_>,
        replaced: &mut dyn FnMut(Record<'_>),
    ) -> bool {
        let guard = around.epoch.pin();
        let (mut latched, unlinked) = self.latch_for_write(record.key, around, &guard);
        // Read before the state is kept: a snapshot that opens in between keeps it at the next change at the latest.
        let epoch = around.snapshots.epoch();
        latched.keep(around.snapshots);
        if let Some(records) = &latched.content.records {
            records.slots().find(record.key).into_iter().for_each(replaced);
        }
        let before = latched.content.memory_bytes();
        if latched.content.upsert(record, *numbers.end()) {
            self.valid_nodes.fetch_add(1, Ordering::SeqCst);
        }
        latched.content.epoch = epoch;
        latched.node.set_oldest(latched.node.oldest().min(*numbers.start()));
        latched.node.warm();
        self.charge(before, latched.content.memory_bytes());
        self.split_if_full(&mut latched, record.key, around.epoch) || unlinked
    }

    /// Latches the node of `key`; a shadow-deleted one is unlinked first if that is possible. Returns whether that was tried.
    fn latch_for_write<'f, 'g>(
        &'f self,
        key: &[u8],
        around: Around<'_>,
        guard: &'g Guard<'_>,
    ) -> (Latched<'f, 'g>, bool) {
        let mut unlinked = false;
        loop {
            let latched = self.latch(self.index.find(key, guard));
            if !latched.path.is_current() {
                continue;
            }
            if latched.content.records.is_some() || unlinked {
                return (latched, unlinked);
            }
            let path = latched.path.clone();
            drop(latched);
            self.unlink(&path, unlink::Reach::Parent, around, guard);
            unlinked = true;
        }
    }

    /// Latches the node at the end of `path`; the caller asks whether that is still current.
    fn latch<'f, 'g>(&'f self, path: Path<'g>) -> Latched<'f, 'g> {
        let node = self.nodes.get(path.leaf());
        Latched { node, content: node.content.write(), path }
    }

    fn charge(&self, before: u64, after: u64) {
        self.record_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Splits a latched node that grew too large. `key` was just written: behind all others, the new node begins with it, so that
    /// ascending writes leave full nodes. Returns whether it did.
    fn split_if_full(&self, latched: &mut Latched<'_, '_>, key: &[u8], epoch: &Epoch) -> bool {
        let Some(records) = &latched.content.records else { return false };
        let (slots, before) = (records.slots(), latched.content.memory_bytes());
        if slots.used_bytes() <= NODE_BYTES_MAX || slots.len() < 2 {
            return false;
        }
        let at = if records.last_key() == key { slots.len() - 1 } else { slots.len() / 2 };
        let right = latched.content.split_off(at);
        let first = right.records.iter().map(Records::first_key).next().unwrap_or_default();
        let last = latched.content.records.iter().map(Records::last_key).next().unwrap_or_default();
        let separator = first[..separator_bytes(last, first)].to_vec();
        self.charge(before, latched.content.memory_bytes() + right.memory_bytes());
        let (id, low) = (latched.path.leaf(), latched.path.low());
        let fresh = self.fresh(latched.node, right);
        let edited = self.index.edit(&low, &[id], &[(low.clone(), id), (separator, fresh)], epoch);
        assert!(edited, "a latched node keeps its place under its parent");
        true
    }

    /// A node for the upper half of a latched one; nobody can reach it yet.
    fn fresh(&self, node: &Node, half: Content) -> PageId {
        let id = self.nodes.allocate();
        let fresh = self.nodes.get(id);
        *fresh.content.write() = half;
        fresh.set_oldest(node.oldest());
        node.cool();
        fresh.set_heat(node.heat());
        self.valid_nodes.fetch_add(1, Ordering::SeqCst);
        id
    }

    /// Whether the next eviction is due.
    pub(crate) fn is_due(&self) -> bool {
        self.moving_bytes() > self.room_bytes()
    }

    /// Whether writers must make room before they go on: an eighth over the limit, or too much waits for leaves that cannot be merged.
    pub(crate) fn is_full(&self) -> bool {
        self.moving_bytes() > self.room_bytes() + self.slack_bytes() || self.waits_too_much()
    }

    /// How far it may be over its limit before writers make room.
    pub(crate) fn slack_bytes(&self) -> u64 {
        self.limit_bytes / 8
    }

    /// What was here when a leaf was first found to be such a one may wait for it, a batch of some writers beside.
    fn waits_too_much(&self) -> bool {
        self.waiting_bytes() > self.limit_bytes + 2 * BATCH_BYTES_MAX as u64
    }

    /// What there is room for beside what waits for leaves that cannot be merged: a quarter at the least, so that nobody who writes to
    /// other leaves has to wait for these.
    fn room_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.waiting_bytes()).max(self.limit_bytes / 4)
    }

    fn moving_bytes(&self) -> u64 {
        self.held_bytes().saturating_sub(self.waiting_bytes())
    }

    /// Memory of what was given back of the present array.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Why what waits does, if that keeps the filter full although all of the array was tried: too much waits, or nothing went down and
    /// what moves is not less than `moved_bytes`.
    fn why_stuck(&self, moved_bytes: u64, guard: &Guard<'_>) -> Option<TreeError> {
        let (why, none_went_down) = self.array.load(guard)?.why_given_back()?;
        let is_stuck = self.waits_too_much() || none_went_down && self.moving_bytes() >= moved_bytes;
        is_stuck.then_some(why)
    }

    /// Raises the limit to what recovery has left here and a quarter more, so that nobody is refused for that.
    pub(crate) fn fit_limit(&mut self) {
        self.limit_bytes = self.limit_bytes.max(self.held_bytes() / 4 * 5);
    }

    /// What evicting and inserting makes less.
    pub(crate) fn held_bytes(&self) -> u64 {
        let (records, array) = (self.record_bytes.load(Ordering::Relaxed), self.array_bytes.load(Ordering::Relaxed));
        records + array + self.valid_nodes() * NODE_OVERHEAD_BYTES
    }

    /// Whether neither filter nor array holds a record. Of one moment only while no writer is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.valid_nodes() == 0 && self.array.is_empty()
    }

    /// Nodes with records.
    pub(crate) fn valid_nodes(&self) -> u64 {
        self.valid_nodes.load(Ordering::SeqCst)
    }

    /// Evictions so far.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Memory of nodes, records and array in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.record_bytes.load(Ordering::Relaxed)
            + self.array_bytes.load(Ordering::Relaxed)
            + self.nodes.memory_bytes()
            + self.index.memory_bytes()
    }
}

/// A node under its exclusive latch, and the way to it.
struct Latched<'f, 'g> {
    node: &'f Node,
    content: RwLockWriteGuard<'f, Content>,
    path: Path<'g>,
}

impl Latched<'_, '_> {
    /// Keeps the node's records for snapshots before its first change of the epoch (*one moment*).
    fn keep(&self, snapshots: &Snapshots) {
        if snapshots.may_need(Some(self.content.epoch)) {
            keep(snapshots, &self.content, &self.path);
        }
    }
}

/// Keeps a latched node's records for snapshots.
fn keep(snapshots: &Snapshots, content: &Content, path: &Path<'_>) {
    let low = path.low();
    snapshots.keep(Level::Filter, &low.clone(), || kept_state(content, low, path.high()));
}

fn kept_state(content: &Content, low: Vec<u8>, high: Option<Vec<u8>>) -> Kept {
    Kept { low, high, id: PageId(0), page: None, records: KeptRecords::Packed(content.records.clone()) }
}
