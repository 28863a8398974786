//! ZFlusher (ZKV 3.4): the sequencers of all open zones, the read cache and the zones below them.
//!
//! Life of a page: 1 [`place`](Flusher::place) puts it into a sequencer under its leaf's latch -> 2 [`pump`](Flusher::pump) or
//! [`settle`](Flusher::settle) writes its group, with no latch held -> 3 it is in the read cache if it was read meanwhile, and on the
//! device. Pages of a zone that fails are placed again ([`failed`](crate::failed)). Opening zones, chunks, reads and live bytes have
//! files of their own.
//!
//! Lock order: `replacing`, `opening`, a sequencer's writer, then memory locks (a stream's list, a sequencer's queue, a
//! zone's slot, the cache), each held alone or list -> queue. No lock is held over a call to the tree but `replacing`.

use std::cell::Cell;
use std::sync::Arc;

use zonda_device::Queues;
use zonda_rt::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use zonda_rt::{Mutex, MutexGuard, Spin};
use zonda_space::{Space, StreamId, ZoneWriter};

use crate::ahead::AheadBudget;
use crate::counters::Counters;
use crate::failed::FailedZones;
use crate::frame::page_blocks;
use crate::gate::Gate;
use crate::group::{Group, PendingPage};
use crate::hope::Hope;
use crate::in_place::cache::PageCache;
use crate::records::Records;
use crate::reserve::Reserve;
use crate::sequencer::{Offer, Press, Sequencer, Written};
use crate::stream::{self, Claim, Stream};
use crate::wanted::Wanted;
use crate::zone_table::ZoneTable;
use crate::{Heat, NewPage, PAGE_BLOCKS_MAX, PageAddress, PageError, PageId};

/// The callback that hears of pages that were placed again: (page, old address, new address).
pub(crate) type Moved<'a> = &'a mut dyn FnMut(PageId, PageAddress, PageAddress);

/// Times that pages longer than a zone wait for the next one, all in all.
const LONG_TRIES_MAX: u32 = 1_000;

/// How much of a sequencer is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Complete groups.
    Complete,
    /// Everything that was placed before.
    Everything,
}

/// The page side of a zoned store.
pub(crate) struct Flusher {
    pub(crate) space: Space,
    pub(crate) press: Press,
    pub(crate) zones: ZoneTable,
    pub(crate) streams: Vec<Stream>,
    pub(crate) cache: PageCache,
    pub(crate) cache_threshold_reads: u32,
    pub(crate) counters: Counters,
    pub(crate) reserve: Reserve,
    pub(crate) records: Records,
    pub(crate) failed: FailedZones,
    pub(crate) queues: Queues,
    pub(crate) ahead: AheadBudget,
    /// Where foreground writers wait for space.
    pub(crate) gate: Gate,
    /// Held while a zone is opened, so that nobody goes below the floor of its claim.
    pub(crate) opening: Mutex<()>,
    /// Held while zones are counted, so that what is remembered is what was counted last.
    pub(crate) noting: Mutex<()>,
    /// Free zones beyond those that log and MetaLog are still entitled to, when a zone was last opened or reset.
    pub(crate) spare_zones: AtomicU32,
    /// Zones of released segments of log and MetaLog, at the same time.
    pub(crate) released_zones: AtomicU32,
    /// Held while these are reset.
    pub(crate) resetting: Mutex<()>,
    /// Bytes of all zones that are not lost, at the same time.
    pub(crate) capacity_bytes: AtomicU64,
    /// See [`StoreOptions::garbage_percent_max`](crate::StoreOptions::garbage_percent_max).
    pub(crate) garbage_percent_max: Option<u32>,
    /// See [`PageStore::bear_garbage`](crate::PageStore::bear_garbage).
    pub(crate) garbage_is_unwanted: AtomicU32,
    /// Zones of pages and values that nobody writes, at the same time as `spare_zones`.
    pub(crate) sealed_zones: AtomicU32,
    /// Zones whose value bytes are an estimate.
    pub(crate) estimated_zones: AtomicU32,
    /// Whether reclaim finds that something can be gained where space is short.
    pub(crate) hope: Hope,
    /// A writer waits until reclaim has looked at values of an earlier life: only then anybody knows whether there is room.
    pub(crate) must_look: AtomicBool,
    /// Zones that writers need at once.
    pub(crate) wanted: Wanted,
    /// Relocation is stuck half way and nothing is on its way back: it may take a zone that log and MetaLog do not need yet.
    pub(crate) last_resort: AtomicBool,
    /// Thread that reclaims now ([`zonda_rt::thread_ordinal`] + 1), 0 = none: it may take zones of the reserve.
    pub(crate) reclaimer: AtomicU64,
}

impl Flusher {
    /// The streams that share zones with `stream`.
    pub(crate) fn stream(&self, stream: StreamId) -> &Stream {
        let found = self.streams.iter().find(|shared| shared.streams.contains(stream));
        found.expect("the budget puts every stream into a share")
    }

    /// Places pages, all or none. In memory only and in one zone, unless they are together longer than a zone.
    pub(crate) fn place(&self, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>, PageError> {
        let zone_blocks = self.space.zone_blocks() - 1;
        let blocks = plan_blocks(pages, zone_blocks)?;
        if blocks == 0 {
            return Ok(Vec::new());
        }
        if blocks > zone_blocks { self.place_long(heat, pages) } else { self.place_in_one(heat, pages, blocks) }
    }

    fn place_in_one(&self, heat: Heat, pages: &[NewPage<'_>], blocks: u64) -> Result<Vec<PageAddress>, PageError> {
        let stream = self.stream(stream::of_heat(heat));
        match self.offer_pages(stream, heat, pages) {
            Offer::Taken(addresses) => Ok(addresses),
            Offer::Crowded => Err(self.refuse(stream, self.claim(heat), 0)),
            Offer::Short => Err(self.refuse(stream, self.claim(heat), blocks)),
        }
    }

    /// Places pages that no zone holds together, all or none. A stream may have one zone at a time: where it ends, it is written and sealed
    /// and the next one opened, although the caller holds latches. The tree is not called.
    fn place_long(&self, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>, PageError> {
        let mut placed = Vec::with_capacity(pages.len());
        let stream = self.stream(stream::of_heat(heat));
        let (mut spin, mut tries) = (Spin::new(), 0);
        let outcome = loop {
            let Some(page) = pages.get(placed.len()..=placed.len()) else { return Ok(placed) };
            match self.place_in_one(heat, page, page_blocks(page[0].body.len())) {
                Ok(addresses) => {
                    placed.extend(addresses);
                    spin = Spin::new();
                    continue;
                }
                Err(PageError::Busy) if tries < LONG_TRIES_MAX => tries += 1,
                Err(error) => break error,
            }
            match self.make_way() {
                // There is no zone, and there will be none while the caller holds what it holds.
                Ok(()) if stream.wanted().is_some() => break PageError::Busy,
                Ok(()) => zonda_rt::spin_wait(&mut spin),
                Err(error) => break error,
            }
        };
        placed.iter().for_each(|at| self.release(*at));
        Err(outcome)
    }

    /// Offers pages to the sequencers of a stream. `Crowded` if one of them has room but too many groups waiting.
    pub(crate) fn offer_pages(&self, stream: &Stream, heat: Heat, pages: &[NewPage<'_>]) -> Offer<Vec<PageAddress>> {
        let crowded = Cell::new(false);
        let taken = stream.offer(|sequencer| match sequencer.place(heat, pages) {
            Offer::Taken(addresses) => Some(addresses),
            Offer::Crowded => {
                crowded.set(true);
                None
            }
            Offer::Short => None,
        });
        match taken {
            Some(addresses) => {
                self.counters.add_live_pages(addresses.iter().map(|at| at.len_bytes()).sum());
                Offer::Taken(addresses)
            }
            None if crowded.get() => Offer::Crowded,
            None => Offer::Short,
        }
    }

    /// What a writer hears that found no room, and what it leaves for the next `pump` to do. `blocks` did not fit; 0 if
    /// there are only too many groups waiting.
    fn refuse(&self, stream: &Stream, claim: Claim, blocks: u64) -> PageError {
        let starved = stream.wanted().is_some();
        if stream.may_open() && (blocks > 0 || stream.is_writing()) {
            stream.want(claim);
        } else if blocks > 0 {
            stream.close_one_shorter_than(blocks);
            stream.want(claim);
        }
        // A zone that nobody opened yet, or that waits for another to be finished, is no sign of want.
        let has_none = starved && blocks > 0 && self.is_short();
        if has_none && self.is_full() { self.no_space() } else { PageError::Busy }
    }

    fn claim(&self, heat: Heat) -> Claim {
        Claim::of(heat, self.is_reclaimer())
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

    /// Writes complete groups, seals full zones, opens wanted ones.
    pub(crate) fn pump(&self, moved: Moved<'_>) -> Result<(), PageError> {
        self.make_way()?;
        self.replace_failed(moved)
    }

    /// What `pump` does, but for failed zones: for reclaim, which cannot tell the tree of pages that moved.
    pub(crate) fn make_way(&self) -> Result<(), PageError> {
        for stream in self.streams.iter().filter(|stream| !stream.is_record()) {
            self.write_stream(stream, Extent::Complete)?;
            self.open_wanted(stream)?;
        }
        Ok(())
    }

    /// Writes everything placed before this call and flushes the device.
    pub(crate) fn settle(&self, moved: Moved<'_>) -> Result<(), PageError> {
        for stream in self.streams.iter().filter(|stream| !stream.is_record()) {
            self.write_stream(stream, Extent::Everything)?;
        }
        self.replace_failed(moved)?;
        Ok(self.space.flush()?)
    }

    /// Writes what waits in the sequencers of a stream. A sequencer that another thread writes is skipped, unless
    /// everything must go or it is too full for the caller's next page.
    pub(crate) fn write_stream(&self, stream: &Stream, extent: Extent) -> Result<(), PageError> {
        if extent == Extent::Complete && !stream.has_work() {
            return Ok(());
        }
        for sequencer in stream.sequencers() {
            let groups = match extent {
                Extent::Everything => sequencer.complete_filling(),
                Extent::Complete => sequencer.complete_groups(),
            };
            let must = extent == Extent::Everything || groups >= self.press.groups_max;
            let writer = if must { Some(sequencer.writer()) } else { sequencer.try_writer() };
            if let Some(writer) = writer {
                self.write_groups(stream, &sequencer, writer, groups)?;
            }
        }
        Ok(())
    }

    /// Writes at most `groups` groups and seals the zone if that was all it takes.
    pub(crate) fn write_groups(
        &self,
        stream: &Stream,
        sequencer: &Arc<Sequencer>,
        mut writer: MutexGuard<'_, Option<ZoneWriter>>,
        groups: usize,
    ) -> Result<(), PageError> {
        for _ in 0..groups {
            if !self.write_group(stream, sequencer, &mut writer)? {
                break;
            }
        }
        if sequencer.is_drained() {
            self.seal(stream, sequencer, &mut writer);
        }
        Ok(())
    }

    /// Writes the oldest group of a sequencer; `false` if there is none, or nobody may write here any more.
    pub(crate) fn write_group(
        &self,
        stream: &Stream,
        sequencer: &Arc<Sequencer>,
        writer: &mut Option<ZoneWriter>,
    ) -> Result<bool, PageError> {
        let Some(open) = writer.as_mut() else {
            return Ok(false);
        };
        match sequencer.write_oldest(open)? {
            None => Ok(false),
            Some(Written::Group(group)) => {
                self.after_write(sequencer, &group);
                Ok(true)
            }
            Some(Written::Failed { up_to, source }) => {
                *writer = None;
                self.give_up(stream, sequencer, up_to, source);
                Ok(false)
            }
        }
    }

    /// A group is on the device: pages that were read often enough while they waited go to the read cache (ZKV 3.4).
    fn after_write(&self, sequencer: &Sequencer, group: &Group) {
        self.counters.written(group);
        let threshold_reads = self.cache_threshold_reads;
        let read = |page: &&PendingPage| self.cache.wants_written(page.reads(), threshold_reads) && !page.is_released();
        for page in group.pages().iter().filter(read) {
            self.cache.insert(page.at, group.generation(), group.page_bytes(page.at));
        }
        sequencer.retire();
    }

    /// Finishes a zone whose sequencer is drained. Called with its writer held.
    pub(crate) fn seal(&self, stream: &Stream, sequencer: &Arc<Sequencer>, writer: &mut Option<ZoneWriter>) {
        let Some(open) = writer.take() else { return };
        stream.seal(sequencer, || {
            let _label = zonda_device::cut_label("finish");
            self.space.seal(open);
        });
        self.zones.of(sequencer.zone()).detach();
    }
}

/// The blocks of pages of which each must fit a zone.
fn plan_blocks(pages: &[NewPage<'_>], zone_blocks: u64) -> Result<u64, PageError> {
    let (lengths, blocks_max) =
        (|| pages.iter().map(|page| page_blocks(page.body.len())), PAGE_BLOCKS_MAX.min(zone_blocks));
    match lengths().find(|&blocks| blocks > blocks_max) {
        Some(blocks) => Err(PageError::PageTooLong { blocks, blocks_max }),
        None => Ok(lengths().sum()),
    }
}

/// While it lives, its thread may take zones of the reserve.
pub(crate) struct AsReclaimer<'a>(&'a Flusher);

impl Drop for AsReclaimer<'_> {
    fn drop(&mut self) {
        self.0.reclaimer.store(0, Ordering::Relaxed);
    }
}
