//! The tree: what all operations share.
//!
//! Owner of everything between the facade and the page store. Lock order: stripe (one key's writers) -> batch gate -> leaf latch
//! (left to right) -> cells of inner nodes (bottom up) -> snapshots, MetaLog buffer, log instance -> the store's own.
//! Device I/O happens with no leaf latch held, but where a merge makes more pages than a zone holds ([`Tree::place`]).

use std::sync::Arc;

use zonda_pages::{AreaKind, Heat, NewPage, PageAddress, PageError, PageId, PageStore};
use zonda_rt::{
    Epoch, Mutex, RwLock, Stripes,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    epoch::Ticket,
};

use crate::{
    Design, EngineStats, TreeError, TreeOptions,
    checkpoint::LastCheckpoint,
    filter::Filter,
    index::{Index, Path},
    leaf_queue::LeafQueue,
    leaf_table::{Exclusive, LeafTable, Location},
    log::{Log, Poison, Session},
    merge::{Frame, PlannedPage},
    metalog::{Begin, FLUSH_BYTES, MetaLog, MetaRecord, Position, WriteAhead},
    overfull::Overfull,
    pool::{
        Pool,
        arena::{Family, Owner},
    },
    record::Record,
    record_cache::RecordCache,
    relief::Relief,
    snapshot::{Kept, KeptRecords, Level, Snapshots, dirty_records},
    sparse::Search,
    stats::Counters,
    sweep::Sweep,
    unmerged::Unmerged,
    values::ValueLog,
    waits::Waits,
};

pub(crate) type Result<T> = std::result::Result<T, TreeError>;

/// MetaLog bytes that wait before a background step writes them.
pub(crate) const META_PENDING_BYTES: usize = 32 << 10;
/// MetaLog bytes that wait before a foreground merge writes them itself.
const META_PENDING_BYTES_MAX: usize = 4 * FLUSH_BYTES;
/// Writers of one key exclude each other by one of these.
const STRIPES: usize = 1024;

/// The id of a leaf that was removed; it waits for reuse.
struct Removed {
    id: PageId,
    position: Position,
    ticket: Ticket,
}

/// A tree over a page store.
pub(crate) struct Tree {
    pub(crate) store: Arc<dyn PageStore>,
    pub(crate) options: TreeOptions,
    pub(crate) index: Index,
    pub(crate) table: LeafTable,
    pub(crate) epoch: Epoch,
    pub(crate) pool: Pool,
    /// Between buffers and pages, if the options give it memory.
    pub(crate) records: RecordCache,
    /// In front of the leaves, if the options give it memory.
    pub(crate) filter: Option<Filter>,
    pub(crate) snapshots: Snapshots,
    /// Leaves without records that wait for snapshots.
    pub(crate) emptied: LeafQueue,
    /// Leaves whose buffers are full.
    pub(crate) overfull: Overfull,
    /// Leaves that were sparse after a merge.
    pub(crate) sparse: LeafQueue,
    /// The search for leaves whose deletes wait for a merge.
    pub(crate) search: Search,
    pub(crate) log: Log,
    pub(crate) meta: MetaLog,
    pub(crate) values: ValueLog,
    pub(crate) stripes: Stripes,
    pub(crate) relief: Relief,
    pub(crate) sweep: Sweep,
    /// Batches hold it shared, whoever opens a snapshot exclusively: a batch is all or nothing to snapshots.
    pub(crate) batch_gate: RwLock<()>,
    pub(crate) session: Session,
    /// One checkpoint at a time; holds the last.
    pub(crate) checkpointing: Mutex<LastCheckpoint>,
    pub(crate) poison: Poison,
    pub(crate) closed: AtomicBool,
    /// A batch is logged and not wholly in memory: the tree has stopped, and nobody may read a part of it.
    pub(crate) is_torn: AtomicBool,
    /// Leaves that could not be merged.
    pub(crate) unmerged: Unmerged,
    /// How closing went, once somebody has closed it; whoever does holds the lock meanwhile.
    pub(crate) close_outcome: Mutex<Option<Result<()>>>,
    /// While the log is being replayed: operations below the low water may not be applied yet.
    pub(crate) recovering: AtomicBool,
    /// See [`Engine::log_left_out`](crate::Engine::log_left_out).
    pub(crate) log_left_out: Option<u64>,
    pub(crate) leaves: AtomicU32,
    /// What the whole tree may take, in bytes.
    pub(crate) memory_bytes_max: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) waits: Waits,
    /// Moments that reclaim waits for until whoever was there before is gone.
    pub(crate) stamps: Mutex<crate::relocate::Stamps>,
    /// Leaf ids that are reused once no reader can hold them and their removal is durable.
    removed: Mutex<Vec<Removed>>,
}

/// Planned pages that have a place, and the latches of their fresh leaves.
pub(crate) struct Placed<'t> {
    id: PageId,
    addresses: Vec<PageAddress>,
    fresh: Vec<Exclusive<'t>>,
}

impl<'t> Placed<'t> {
    /// Where the first page is.
    pub(crate) fn first(&self) -> Option<PageAddress> {
        self.addresses.first().copied()
    }

    /// Leaf and page by their index.
    pub(crate) fn nth(&self, nth: usize) -> Option<(PageId, PageAddress)> {
        self.iter().nth(nth)
    }

    /// The latch of a fresh leaf by its index among those.
    pub(crate) fn fresh_mut(&mut self, index: usize) -> &mut Exclusive<'t> {
        &mut self.fresh[index]
    }

    /// Number of pages.
    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Leaves and their pages, in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PageId, PageAddress)> + '_ {
        let ids = std::iter::once(self.id).chain(self.fresh.iter().map(Exclusive::id));
        ids.zip(self.addresses.iter().copied())
    }

    /// Gives the fresh leaves their pages; they stay latched until this is dropped.
    pub(crate) fn settle_fresh(&mut self) {
        for (leaf, address) in self.fresh.iter_mut().zip(self.addresses.iter().skip(1)) {
            leaf.replace(Location::Page(*address));
        }
    }
}

/// What a tree is made of when it is opened.
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn PageStore>,
    pub(crate) options: TreeOptions,
    pub(crate) index: Index,
    pub(crate) table: LeafTable,
    pub(crate) leaves: u32,
    pub(crate) log: Log,
    pub(crate) meta: MetaLog,
    pub(crate) session: Session,
    pub(crate) checkpoint: u64,
}

impl Tree {
    /// Puts the parts together.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { store, options, index, table, leaves, log, meta, session, checkpoint } = parts;
        Self {
            pool: Pool::new(&options),
            records: RecordCache::new(match options.design {
                Design::Adb => options.record_cache_bytes_max,
                Design::BTree | Design::Deltas | Design::BfTree => 0,
            }),
            filter: (options.filter_bytes > 0).then(|| Filter::new(options.filter_bytes, options.filter_eviction)),
            // The array of one moment, a quarter of the filter, comes free: it was there before.
            snapshots: Snapshots::new(options.snapshot_bytes_max + options.filter_bytes / 3),
            emptied: LeafQueue::default(),
            overfull: Overfull::default(),
            sparse: LeafQueue::default(),
            search: Search::default(),
            values: ValueLog::new(Arc::clone(&store)),
            stripes: Stripes::new(STRIPES),
            relief: Relief::default(),
            sweep: Sweep::default(),
            batch_gate: RwLock::new(()),
            checkpointing: Mutex::new(LastCheckpoint::of_earlier_life(checkpoint)),
            poison: Poison::default(),
            closed: AtomicBool::new(false),
            is_torn: AtomicBool::new(false),
            unmerged: Unmerged::default(),
            close_outcome: Mutex::new(None),
            recovering: AtomicBool::new(true),
            log_left_out: None,
            leaves: AtomicU32::new(leaves),
            memory_bytes_max: AtomicU64::new(u64::MAX),
            counters: Counters::default(),
            waits: Waits::default(),
            stamps: Mutex::default(),
            removed: Mutex::default(),
            epoch: Epoch::new(),
            store,
            options,
            index,
            table,
            log,
            meta,
            session,
        }
    }

    /// Bytes of a normal page's body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.store.page_body_bytes(self.page_blocks())
    }

    fn page_blocks(&self) -> u64 {
        u64::from(self.options.leaf_bytes) / zonda_pages::BLOCK_BYTES as u64
    }

    /// The frame of a leaf with this range.
    pub(crate) fn frame<'a>(&self, low: &'a [u8], high: Option<&'a [u8]>) -> Frame<'a> {
        let body_bytes_max = self.store.page_body_bytes(zonda_pages::PAGE_BLOCKS_MAX);
        Frame { low, high, body_bytes: self.body_bytes(), body_bytes_max }
    }

    /// Copies the body of page `id` at `page`; `None` for no page. The caller holds an epoch guard from before it read the
    /// address.
    pub(crate) fn read_body(&self, id: PageId, page: Option<PageAddress>) -> Result<Option<Vec<u8>>> {
        let Some(page) = page else { return Ok(None) };
        let mut body = Vec::new();
        self.store.read(id, page, &mut |bytes| body.extend_from_slice(bytes))?;
        Ok(Some(body))
    }

    /// Keeps the leaf's state for snapshots before its first change of the epoch, or before it becomes part of another (decision 0004).
    /// Under the leaf's exclusive latch. Costs one load while no snapshot is open.
    pub(crate) fn before_change(&self, leaf: &Exclusive<'_>, path: &Path<'_>) {
        if self.snapshots.may_need(None) {
            let low = path.low();
            self.snapshots.keep(Level::Leaves, &low.clone(), || kept_state(leaf, low, path.high()));
        }
    }

    /// Opens a snapshot of now; the caller keeps batches out meanwhile.
    pub(crate) fn open_snapshot(&self) -> u64 {
        match &self.filter {
            None => self.snapshots.open(None),
            Some(filter) => filter.between_evictions(self.around(), |array| self.snapshots.open(array)),
        }
    }

    /// Moves a latched leaf; what it was is dropped, and the pool hears of a new buffer.
    pub(crate) fn relocate_leaf(&self, leaf: &mut Exclusive<'_>, to: Location) {
        if to.buffer().is_none() {
            self.unmerged.remove(leaf.id());
        }
        drop(leaf.replace(to));
        self.pool.entered(&self.table, leaf);
    }

    /// Before a latched leaf gets pages that hold what its buffer has: what the record cache has of these keys follows.
    pub(crate) fn note_merged(&self, leaf: &Exclusive<'_>) {
        let Some(buffer) = leaf.location().buffer().filter(|_| !self.records.is_off()) else { return };
        let mut key = Vec::new();
        for record in buffer.pending_records() {
            key.clear();
            key.extend_from_slice(buffer.prefix());
            key.extend_from_slice(record.key);
            self.records.update(&Record { key: &key, ..record });
        }
    }

    /// Whose a buffer of leaf `id` with `buffer_bytes` of records will be.
    pub(crate) fn owner(&self, id: PageId, buffer_bytes: usize) -> Owner {
        let splits = self.table.fill_bytes(id, self.body_bytes()) + buffer_bytes > self.body_bytes();
        Owner { leaf: id, family: if splits { Family::Splits } else { Family::Stays } }
    }

    /// Places planned pages: the first under `id`, the others under fresh ids. All or none; memory only, but for pages
    /// that are together longer than a zone.
    ///
    /// The fresh leaves are latched before their pages are placed: when a zone fails meanwhile, whoever hears of it waits
    /// until they are linked.
    ///
    /// # Errors
    /// `Busy`, `NoSpace`: nothing was done.
    pub(crate) fn place(&self, heat: Heat, id: PageId, sequence: u64, pages: &[PlannedPage]) -> Result<Placed<'_>> {
        let fresh = (1..pages.len()).map(|_| self.table.allocate().map(|id| self.table.lock(id)));
        let fresh: Vec<Exclusive<'_>> = fresh.collect::<Result<_>>()?;
        let ids = std::iter::once(id).chain(fresh.iter().map(Exclusive::id));
        let new: Vec<NewPage<'_>> =
            ids.zip(pages).map(|(id, page)| NewPage { id, sequence, body: &page.body }).collect();
        match self.store.place(heat, &new) {
            Ok(addresses) => Ok(Placed { id, addresses, fresh }),
            Err(error) => {
                self.table.recycle(fresh.iter().map(Exclusive::id));
                Err(error.into())
            }
        }
    }

    /// Takes back what was placed and nobody has heard of.
    pub(crate) fn give_up(&self, placed: Placed<'_>) {
        placed.addresses.iter().for_each(|address| self.store.release(*address));
        let fresh: Vec<PageId> = placed.fresh.iter().map(Exclusive::id).collect();
        drop(placed);
        self.table.recycle(fresh);
    }

    /// Remembers ids whose leaves are gone; they are reused once no reader can hold them and the record is durable (R).
    pub(crate) fn retire_ids(&self, ids: impl IntoIterator<Item = PageId>) {
        let (position, ticket) = (self.meta.position(), self.epoch.advance());
        self.removed.lock().extend(ids.into_iter().map(|id| Removed { id, position, ticket }));
    }

    fn recycle_ids(&self) {
        let flushed = self.meta.flushed_position();
        let mut removed = self.removed.lock();
        let (free, kept) = std::mem::take(&mut *removed)
            .into_iter()
            .partition(|entry| entry.position <= flushed && self.epoch.has_drained(entry.ticket));
        *removed = kept;
        drop(removed);
        self.table.recycle(Vec::into_iter(free).map(|entry: Removed| entry.id));
    }

    /// Writes complete page groups, then the MetaLog if much of it waits. No latch may be held.
    ///
    /// # Errors
    /// Those of the device: the tree is poisoned.
    pub(crate) fn pump(&self) -> Result<()> {
        let pumped = self.store.pump(&mut |id, from, to| self.page_moved(id, from, to));
        self.poison.watch(pumped.map_err(TreeError::from))?;
        if self.meta.pending_bytes() > META_PENDING_BYTES_MAX { self.flush_meta() } else { Ok(()) }
    }

    /// Makes all address records durable, in the write-ahead order of decision 0001. No latch may be held.
    ///
    /// # Errors
    /// Those of the device: the tree is poisoned.
    pub(crate) fn flush_meta(&self) -> Result<()> {
        self.with_room(|| self.with_write_ahead(|ahead| self.meta.flush(ahead)))?;
        self.recycle_ids();
        Ok(())
    }

    /// Calls `flush` with the ways to settle pages and to sync the log.
    ///
    /// # Errors
    /// Those of `flush`: the tree is poisoned. `Poisoned`: what is recorded might say that a batch is merged which was logged, but
    /// applied in part.
    pub(crate) fn with_write_ahead(&self, flush: impl FnOnce(&mut WriteAhead<'_>) -> Result<()>) -> Result<()> {
        let mut settle = || {
            // After the flush has marked which records it takes: where a logged operation could not be applied, the tree stopped before any
            // merge could record its leaf as merged beyond that operation.
            self.poison.check()?;
            Ok(self.store.settle(&mut |id, from, to| self.page_moved(id, from, to))?)
        };
        // Without a log nothing else makes values durable before the records that point to them.
        let mut sync_log = |sequence| match self.options.log {
            true => self.log.sync_to(sequence),
            false => Ok(self.store.area(AreaKind::Values).flush()?),
        };
        let flushed = flush(&mut WriteAhead { settle: &mut settle, sync_log: &mut sync_log });
        self.poison.watch(flushed)
    }

    /// The record that begins checkpoint `number`, with the bytes of a [`CheckpointExtra`](crate::checkpoint_extra::CheckpointExtra).
    pub(crate) fn begin_record<'a>(&self, number: u64, replay_from: u64, extra: &'a [u8]) -> Begin<'a> {
        let next_page_id = self.table.len();
        Begin { checkpoint: number, replay_from, session: self.session, next_page_id, extra }
    }

    /// The store placed a page again because its zone failed.
    fn page_moved(&self, id: PageId, from: PageAddress, to: PageAddress) {
        let mut leaf = self.table.lock(id);
        // If the leaf has gone on, it has released `from`, and the store knows that `to` is the same.
        if leaf.location().page() == Some(from) {
            set_page(&mut leaf, to);
            self.meta.append(&MetaRecord::Move { id, address: to, merged_to: 0 }, 0);
            self.record_if_sparse(id);
        }
        drop(leaf);
        self.meta.placed_again();
    }

    /// Refuses if the tree is closed or poisoned.
    ///
    /// # Errors
    /// `Closed`, `Poisoned`.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.poison.check()
    }

    /// Refuses if the tree is closed, or stopped with a batch half in memory.
    ///
    /// # Errors
    /// `Closed`, `Poisoned`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(TreeError::Closed);
        }
        if self.is_torn.load(Ordering::SeqCst) { self.poison.check() } else { Ok(()) }
    }

    /// Leaves whose pages point reads asked for.
    pub(crate) fn leaf_reads(&self) -> u64 {
        self.counters.all(|mine| &mine.leaf_reads)
    }

    /// Counts and memory.
    pub(crate) fn stats(&self) -> EngineStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let garbage_bytes = self.epoch.garbage_bytes() as u64;
        EngineStats {
            inner_bytes: self.index.memory_bytes() + garbage_bytes,
            garbage_bytes,
            leaf_table_bytes: self.table.memory_bytes() + self.pool.order_bytes(),
            buffer_bytes: self.pool.used_bytes(),
            record_cache_bytes: self.records.memory_bytes(),
            record_cache_room_bytes: self.records.bytes(),
            record_hits: self.records.hits(),
            records_kept: self.records.kept_and_displaced().0,
            records_displaced: self.records.kept_and_displaced().1,
            filter_bytes: self.filter_bytes(),
            filter_nodes: self.filter.as_ref().map_or(0, Filter::valid_nodes),
            filter_evictions: self.filter.as_ref().map_or(0, Filter::evictions),
            filter_pairs: get(&counters.filter_pairs),
            filter_runs: get(&counters.filter_runs),
            filter_hits: counters.all(|mine| &mine.filter_hits),
            log_bytes: self.log_memory_bytes(),
            snapshot_bytes: self.snapshots.kept_bytes(),
            memory_bytes: self.memory_bytes(),
            leaves: u64::from(self.leaves.load(Ordering::Relaxed)),
            height: u32::try_from(self.index.levels(&self.epoch.pin())).unwrap_or(u32::MAX),
            gets: counters.all(|mine| &mine.gets),
            leaf_reads: self.leaf_reads(),
            leaves_scanned: counters.all(|mine| &mine.leaves_scanned),
            puts: counters.all(|mine| &mine.puts),
            merges: get(&counters.merges),
            mini_pages: counters.mini_pages(),
            waits: self.waits.stats(),
            splits: get(&counters.splits),
            leaf_merges: get(&counters.leaf_merges),
            checkpoints: get(&counters.checkpoints),
            journal_written_bytes: self.meta.journal_written_bytes(),
            log_live_bytes: self.log.bytes_since_truncation(),
            log_appended_bytes: self.log.appended_bytes(),
        }
    }

    /// All memory of the tree in bytes; the store's comes on top.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes()
            + self.epoch.garbage_bytes() as u64
            + self.table.memory_bytes()
            + self.pool.order_bytes()
            + self.pool.used_bytes()
            + self.records.memory_bytes()
            + self.filter_bytes()
            + self.log_memory_bytes()
            + self.snapshots.kept_bytes()
    }

    /// Looks at all memory after something that makes inner nodes, garbage or MetaLog records: what they take that was not promised to
    /// them, buffers give up, or do not grow by, as the next writers make room.
    pub(crate) fn hold_memory(&self) {
        let bytes = self.memory_bytes();
        self.counters.memory_peak.fetch_max(bytes, Ordering::Relaxed);
        let others = bytes.saturating_sub(self.pool.used_bytes());
        self.pool.hold_to(self.memory_bytes_max.load(Ordering::Relaxed).saturating_sub(others));
    }

    pub(crate) fn filter_bytes(&self) -> u64 {
        self.filter.as_ref().map_or(0, Filter::memory_bytes)
    }

    /// Memory of log and MetaLog as far as it can be told without waiting for their writers: rings and their copy, and
    /// what waits, twice.
    fn log_memory_bytes(&self) -> u64 {
        let rings = u64::from(self.options.log_instances) * 2 * u64::from(self.options.log_ring_bytes);
        rings + 2 * self.meta.pending_bytes() as u64
    }
}

pub(crate) fn is_no_space(error: &TreeError) -> bool {
    matches!(error, TreeError::Store(error) if matches!(**error, PageError::NoSpace { .. }))
}

/// The state of a latched leaf, for snapshots.
fn kept_state(leaf: &Exclusive<'_>, low: Vec<u8>, high: Option<Vec<u8>>) -> Kept {
    Kept {
        low,
        high,
        id: leaf.id(),
        page: leaf.location().page(),
        records: KeptRecords::Loose(dirty_records(leaf.location())),
    }
}

/// Changes the page address of a latched leaf, wherever it stands.
pub(crate) fn set_page(leaf: &mut Exclusive<'_>, page: PageAddress) {
    match leaf.buffer_mut() {
        Some(buffer) => buffer.set_page(Some(page)),
        None => drop(leaf.replace(Location::Page(page))),
    }
}
