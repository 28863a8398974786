//! What all parts of a store in place share: the device, the table of segments, the pages that wait, counters.
//!
//! Lock order: an area's turn, `replacing`, the writer; then, each held alone and for memory only: the table, the pending pages, the cache.
//! No lock is held over a call to the tree but `replacing`.

use std::sync::Arc;

use zonda_device::{DeviceError, Queues};
use zonda_rt::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use zonda_rt::{Mutex, MutexGuard};
use zonda_space::StoreId;

use super::InPlaceOptions;
use super::cache::PageCache;
use super::disk::Disk;
use super::format::{Identity, SegmentHeader};
use super::layout::{Layout, SegmentIndex};
use super::limbo::Limbo;
use super::pending::{Pending, PendingPage};
use super::table::{Generations, Table};
use super::writer::Writer;
use crate::ahead::AheadBudget;
use crate::counters::Counters;
use crate::frame::{Framing, Place, page_blocks};
use crate::gate::Gate;
use crate::hope::Hope;
use crate::pool::BufferPool;
use crate::records::Records;
use crate::reserve::{FOREGROUND_FLOOR, Reserve};
use crate::stream::Claim;
use crate::walk::Eyes;
use crate::wanted::Wanted;
use crate::{BLOCK_BYTES, Heat, NewPage, PAGE_BLOCKS_MAX, PageAddress, PageError};

/// Times that something is tried elsewhere because the device cannot write where it was to go.
pub(crate) const ATTEMPTS_MAX: u32 = 8;

/// A store in place.
pub(crate) struct Core {
    pub(crate) disk: Disk,
    pub(crate) layout: Layout,
    pub(crate) store: StoreId,
    pub(crate) framing: Framing,
    pub(crate) reserve: Reserve,
    pub(crate) records: Records,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) cache: PageCache,
    pub(crate) cache_threshold_reads: u32,
    pub(crate) trim: bool,
    /// Blocks that may wait to be written, and after how many `pump` writes them.
    pub(crate) pending_blocks_max: u64,
    pub(crate) pump_blocks: u64,
    pub(crate) generations: Generations,
    /// Completed page writes by segment: whether what was read ahead is still what the device holds.
    writes: Box<[AtomicU64]>,
    pub(crate) ahead: AheadBudget,
    table: Mutex<Table>,
    pending: Mutex<Pending>,
    /// Pages in `pending`: saves readers its lock.
    pending_pages: AtomicUsize,
    pub(crate) writer: Mutex<Writer>,
    /// Held while pages are placed again and the tree hears of it, so that `settle` waits for both.
    pub(crate) replacing: Mutex<()>,
    pub(crate) limbo: Mutex<Limbo>,
    /// Blocks cannot be written somewhere: saves everybody else a look.
    pub(crate) any_failed: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) queues: Queues,
    pub(crate) gate: Gate,
    /// [`Table::spare_segments`], when it last changed.
    spare_segments: AtomicU32,
    pub(crate) lost_bytes: AtomicU64,
    pub(crate) headers_written_bytes: AtomicU64,
    pub(crate) segments_reset: AtomicU64,
    /// See [`StoreOptions::garbage_percent_max`](crate::StoreOptions::garbage_percent_max).
    pub(crate) garbage_percent_max: Option<u32>,
    /// See [`PageStore::bear_garbage`](crate::PageStore::bear_garbage).
    pub(crate) garbage_is_unwanted: AtomicU32,
    /// Segments whose value bytes are an estimate.
    pub(crate) estimated: AtomicU32,
    /// See `Flusher` of the zoned store: whether something can be gained; a writer must know how much is live; a page found no room; who
    /// reclaims.
    pub(crate) hope: Hope,
    pub(crate) must_look: AtomicBool,
    pub(crate) starved: AtomicBool,
    /// A plan found no room beside the pages that wait: they are to be written, however few they are.
    pub(crate) crowded: AtomicBool,
    /// Segments that writers need at once.
    wanted: Wanted,
    reclaimer: AtomicU64,
}

/// What opening found out.
pub(crate) struct Opened {
    pub(crate) disk: Disk,
    pub(crate) identity: Identity,
    pub(crate) layout: Layout,
    pub(crate) reserve: Reserve,
    pub(crate) table: Table,
}

impl Core {
    pub(crate) fn new(opened: Opened, options: &InPlaceOptions) -> Self {
        let Opened { disk, identity, layout, reserve, table } = opened;
        let common = &options.common;
        let group_blocks = u64::from(common.group_pages);
        let pending_blocks_max = group_blocks * u64::from(common.sequencer_groups_max);
        let core = Self {
            disk,
            layout,
            store: identity.store,
            framing: Framing::new(identity.store.0),
            reserve,
            records: Records::new(reserve.thresholds),
            pool: BufferPool::new(),
            cache: PageCache::new(options.cache, common.read_cache_bytes),
            cache_threshold_reads: common.cache_threshold_reads,
            trim: options.trim,
            pending_blocks_max,
            pump_blocks: (pending_blocks_max / 2).max(group_blocks),
            writes: layout.all().map(|_| AtomicU64::new(0)).collect(),
            ahead: AheadBudget::new(common.read_ahead_bytes),
            generations: table.generations(),
            table: Mutex::new(table),
            pending: Mutex::default(),
            pending_pages: AtomicUsize::new(0),
            writer: Mutex::default(),
            replacing: Mutex::new(()),
            limbo: Mutex::default(),
            any_failed: AtomicBool::new(false),
            counters: Counters::default(),
            queues: Queues::default(),
            gate: Gate::default(),
            spare_segments: AtomicU32::new(0),
            lost_bytes: AtomicU64::new(0),
            headers_written_bytes: AtomicU64::new(0),
            segments_reset: AtomicU64::new(0),
            garbage_percent_max: common.garbage_percent_max,
            garbage_is_unwanted: AtomicU32::new(0),
            estimated: AtomicU32::new(0),
            hope: Hope::new(),
            must_look: AtomicBool::new(false),
            wanted: Wanted::default(),
            starved: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            reclaimer: AtomicU64::new(0),
        };
        core.with_table(|_| ());
        core
    }

    /// Changes the table; everybody sees the new number of spare segments.
    pub(crate) fn with_table<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.lock();
        let result = change(&mut table);
        self.spare_segments.store(table.spare_segments(), Ordering::Relaxed);
        let (log, meta) = table.kept_records();
        self.records.note(log, meta, false);
        result
    }

    pub(crate) fn spare_segments(&self) -> u32 {
        self.spare_segments.load(Ordering::Relaxed)
    }

    /// Changes the pending pages.
    pub(crate) fn with_pending<T>(&self, change: impl FnOnce(&mut Pending) -> T) -> T {
        let mut pending: MutexGuard<'_, Pending> = self.pending.lock();
        let result = change(&mut pending);
        self.pending_pages.store(pending.len(), Ordering::Release);
        result
    }

    /// The page at `at`, if it waits to be written.
    pub(crate) fn find_pending(&self, at: PageAddress) -> Option<Arc<PendingPage>> {
        if self.pending_pages.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.pending.lock().find(at)
    }

    /// Places pages, all or none. Memory only: two short locks, a copy and a CRC per page.
    pub(crate) fn place(&self, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>, PageError> {
        let lengths = self.check_plan(pages)?;
        let blocks: u64 = lengths.iter().sum();
        let waiting = self.with_pending(|pending| pending.waiting_blocks());
        if waiting > 0 && waiting + blocks > self.pending_blocks_max {
            self.crowded.store(true, Ordering::Relaxed);
            return Err(PageError::Busy);
        }
        let claim = self.claim(heat);
        let Some(addresses) = self.with_table(|table| table.take(heat, &lengths, claim)) else {
            return Err(self.refuse());
        };
        self.counters.add_live_pages(blocks * BLOCK_BYTES as u64);
        for (page, &at) in pages.iter().zip(&addresses) {
            let pending = self.press(heat, page, at);
            self.with_pending(|all| all.insert(pending));
        }
        Ok(addresses)
    }

    fn press(&self, heat: Heat, page: &NewPage<'_>, at: PageAddress) -> PendingPage {
        let mut frame = self.pool.take(at.blocks());
        let place = Place { generation: self.generation_at(at.block()), block: at.block() };
        self.framing.write_page(&mut frame[..crate::number::bytes(at.blocks())], page, place);
        PendingPage::new(page.id, at, heat, frame)
    }

    /// The lengths of a plan. Its pages lie wherever there are slots, each in one segment: a plan may be longer than that.
    fn check_plan(&self, pages: &[NewPage<'_>]) -> Result<Vec<u64>, PageError> {
        let lengths: Vec<u64> = pages.iter().map(|page| page_blocks(page.body.len())).collect();
        let blocks_max = PAGE_BLOCKS_MAX.min(self.layout.data_blocks_min());
        match lengths.iter().max() {
            Some(&blocks) if blocks > blocks_max => Err(PageError::PageTooLong { blocks, blocks_max }),
            _ => Ok(lengths),
        }
    }

    /// What a writer hears whose pages found no blocks.
    fn refuse(&self) -> PageError {
        let has_none = self.starved.swap(true, Ordering::Relaxed) && self.is_short();
        if has_none && self.is_full() { self.no_space() } else { PageError::Busy }
    }

    pub(crate) fn claim(&self, heat: Heat) -> Claim {
        Claim::of(heat, self.is_reclaimer())
    }

    /// The generation of the segment that a block lies in; 0 if nothing of the store is there.
    pub(crate) fn generation_at(&self, block: u64) -> u64 {
        let segment = self.layout.segment_of(block, 1);
        segment.map_or(0, |segment| self.generations[segment.index()].load(Ordering::Acquire))
    }

    /// The count of completed page writes of the segment that a block lies in. A block of no segment has the first one's: nothing is
    /// found there.
    pub(crate) fn writes_at(&self, block: u64) -> &AtomicU64 {
        let segment = self.layout.segment_of(block, 1);
        &self.writes[segment.map_or(0, |segment| segment.index())]
    }

    /// The page at `at` is superseded.
    pub(crate) fn release(&self, at: PageAddress) {
        let mut at = at;
        if self.any_failed.load(Ordering::Acquire) {
            // Follows pages that were placed again; addresses never cycle.
            while let Some(next) = self.with_pending(|pending| pending.release(at)) {
                at = next;
            }
        }
        self.put_in_limbo(at);
    }

    /// The blocks of a page wait for the next durable address record, and for its readers.
    pub(crate) fn put_in_limbo(&self, at: PageAddress) {
        if self.with_table(|table| table.release(at)) {
            self.counters.sub_live_pages(at.len_bytes());
            self.limbo.lock().add(at);
        }
    }

    /// Writes the header of a segment.
    pub(crate) fn write_header(&self, segment: SegmentIndex, header: &SegmentHeader) -> Result<(), DeviceError> {
        let bytes = header.encode(self.store, segment);
        let mut block = self.pool.take(1);
        block[..BLOCK_BYTES].fill(0);
        block[..bytes.len()].copy_from_slice(&bytes);
        self.disk.write(self.layout.header(segment), &block[..BLOCK_BYTES])?;
        self.headers_written_bytes.fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
        Ok(())
    }

    /// What walks read with.
    pub(crate) fn eyes(&self) -> Eyes<'_> {
        Eyes { blocks: &self.disk, framing: self.framing, pool: &self.pool }
    }

    /// Whether foreground writers must wait for reclaim. One load.
    pub(crate) fn is_short(&self) -> bool {
        self.spare_segments() <= FOREGROUND_FLOOR
    }

    /// Whether so many spare segments are few enough for reclaim to go on.
    pub(crate) fn is_low(&self, spare_segments: u32) -> bool {
        spare_segments <= self.reserve.low_water.max(self.wanted.low_water())
    }

    /// Whether no garbage is to be borne.
    pub(crate) fn bears_none(&self) -> bool {
        self.garbage_is_unwanted.load(Ordering::Relaxed) > 0
    }

    /// A writer needs room for so many pages at once; 0: no more. Whether there are segments for them.
    pub(crate) fn press_for(&self, pages: u32) -> bool {
        self.wanted.press(pages, self.layout.data_blocks_min(), self.spare_segments())
    }

    /// Whether this thread reclaims at the moment.
    pub(crate) fn is_reclaimer(&self) -> bool {
        self.reclaimer.load(Ordering::Relaxed) == zonda_rt::thread_ordinal() as u64 + 1
    }

    /// Makes this thread the one that reclaims until the guard is dropped.
    pub(crate) fn as_reclaimer(&self) -> AsReclaimer<'_> {
        self.reclaimer.store(zonda_rt::thread_ordinal() as u64 + 1, Ordering::Relaxed);
        AsReclaimer(self)
    }
}

/// While it lives, its thread may take segments of the reserve.
pub(crate) struct AsReclaimer<'a>(&'a Core);

impl Drop for AsReclaimer<'_> {
    fn drop(&mut self) {
        self.0.reclaimer.store(0, Ordering::Relaxed);
    }
}
