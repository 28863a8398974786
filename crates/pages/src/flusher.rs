//! ZFlusher (ZKV 3.4): the sequencers of all open zones, the read cache and the zones below them.
//!
//! Life of a page: 1 [`place`](Flusher::place) puts it into a sequencer under its leaf's latch -> 2 [`pump`](Flusher::pump) or
//! [`settle`](Flusher::settle) writes its group, with no latch held -> 3 it is in the read cache if it was read meanwhile, and on the device.
//! Pages of a zone that fails are placed again ([`failed`](crate::failed)).
//!
//! Lock order: `replacing`, `opening`, a sequencer's writer, then memory locks (a stream's list, a sequencer's queue, a
//! zone's slot, the cache), each held alone or list -> queue. No lock is held over a call to the tree but `replacing`.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{ErrorKind, ZoneId};
use zonda_rt::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use zonda_rt::{Mutex, MutexGuard};
use zonda_space::{Space, SpaceError, StreamId, Urgency, ZoneWriter};

use crate::cache::ReadCache;
use crate::counters::Counters;
use crate::failed::FailedZones;
use crate::frame::{CHUNK_PAYLOAD_BYTES_MAX, chunk_blocks, page_blocks};
use crate::gate::Gate;
use crate::group::{Content, Group, Outcome};
use crate::reader::Queues;
use crate::reserve::{FOREGROUND_FLOOR, RELOCATION_FLOOR, Reserve};
use crate::sequencer::{Offer, Press, Sequencer, Written};
use crate::stream::{self, Claim, Stream};
use crate::zone_table::{Holds, Zone, ZoneTable};
use crate::{AreaKind, BLOCK_BYTES, Heat, NewPage, PAGE_BLOCKS_MAX, PageAddress, PageError, PageId, StoreUsage};

/// How long `pump` waits for reclaim when a foreground writer finds no zone.
const PATIENCE: Duration = Duration::from_millis(1);

/// How often a waiting writer asks whether waiting still makes sense.
const GATE_PATIENCE: Duration = Duration::from_millis(20);

/// The callback that hears of pages that were placed again: (page, old address, new address).
pub(crate) type Moved<'a> = &'a mut dyn FnMut(PageId, PageAddress, PageAddress);

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
    pub(crate) cache: ReadCache,
    pub(crate) cache_threshold_reads: u32,
    pub(crate) cache_bytes_max: u64,
    pub(crate) counters: Counters,
    pub(crate) reserve: Reserve,
    pub(crate) failed: FailedZones,
    pub(crate) queues: Queues,
    /// Where foreground writers wait for space.
    pub(crate) gate: Gate,
    /// Held while a zone is opened, so that nobody goes below the floor of its claim.
    pub(crate) opening: Mutex<()>,
    /// Free zones beyond those that log and MetaLog are still entitled to, when a zone was last opened or reset.
    pub(crate) spare_zones: AtomicU32,
    /// Bytes of all zones that are not lost, at the same time.
    pub(crate) capacity_bytes: AtomicU64,
    /// Zones whose value bytes are an estimate.
    pub(crate) estimated_zones: AtomicU32,
    /// Reclaim found that nothing can be gained although space is short.
    pub(crate) hopeless: AtomicBool,
    /// Thread that reclaims now ([`zonda_rt::thread_ordinal`] + 1), 0 = none: it may take zones of the reserve.
    pub(crate) reclaimer: AtomicU64,
}

impl Flusher {
    /// The streams that share zones with `stream`.
    pub(crate) fn stream(&self, stream: StreamId) -> &Stream {
        let found = self.streams.iter().find(|shared| shared.streams.contains(stream));
        found.expect("the budget puts every stream into a share")
    }

    /// Places pages, all or none, in one zone. Memory only.
    pub(crate) fn place(&self, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>, PageError> {
        let blocks = self.check_plan(pages)?;
        if blocks == 0 {
            return Ok(Vec::new());
        }
        let stream = self.stream(stream::of_heat(heat));
        match self.offer_pages(stream, heat, pages) {
            Offer::Taken(addresses) => Ok(addresses),
            Offer::Crowded => Err(self.refuse(stream, self.claim(heat), 0)),
            Offer::Short => Err(self.refuse(stream, self.claim(heat), blocks)),
        }
    }

    /// The blocks of a plan, which must fit one zone.
    fn check_plan(&self, pages: &[NewPage<'_>]) -> Result<u64, PageError> {
        let blocks_max = self.space.zone_blocks() - 1;
        let too_long = pages.iter().any(|page| page_blocks(page.body.len()) > PAGE_BLOCKS_MAX);
        let blocks = pages.iter().map(|page| page_blocks(page.body.len())).sum();
        if too_long || blocks > blocks_max {
            return Err(PageError::PlanTooLong { blocks, blocks_max });
        }
        Ok(blocks)
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
        if starved && blocks > 0 && self.is_over_full() { self.no_space() } else { PageError::Busy }
    }

    fn claim(&self, heat: Heat) -> Claim {
        if heat == Heat::Relocated || self.is_reclaimer() { Claim::Relocation } else { Claim::Foreground }
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
    fn write_groups(
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
            self.seal(stream, sequencer, &mut writer)?;
        }
        Ok(())
    }

    /// Writes the oldest group of a sequencer; `false` if there is none, or nobody may write here any more.
    fn write_group(
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

    /// A group is on the device: pages that were read while they waited go to the read cache (ZKV 3.4).
    fn after_write(&self, sequencer: &Sequencer, group: &Group) {
        self.counters.written(group);
        let read = |page: &&crate::group::PendingPage| page.reads() > self.cache_threshold_reads && !page.is_released();
        for page in group.pages().iter().filter(read) {
            self.cache.insert(page.at, group.generation(), group.page_bytes(page.at));
        }
        sequencer.retire();
    }

    /// Finishes a zone whose sequencer is drained. Called with its writer held.
    fn seal(
        &self,
        stream: &Stream,
        sequencer: &Arc<Sequencer>,
        writer: &mut Option<ZoneWriter>,
    ) -> Result<(), PageError> {
        let Some(open) = writer.take() else {
            return Ok(());
        };
        stream.remove(sequencer);
        let _label = zonda_device::cut_label("finish");
        let sealed = self.space.seal(open);
        self.zones.of(sequencer.zone()).detach();
        Ok(sealed?)
    }

    /// Opens the zone that somebody wants. If none is free for a foreground writer, waits a little for reclaim.
    fn open_wanted(&self, stream: &Stream) -> Result<(), PageError> {
        let Some(claim) = stream.wanted() else {
            return Ok(());
        };
        let now = self.gate.now();
        if !self.open(stream, claim)? && claim == Claim::Foreground && !self.is_reclaimer() {
            self.gate.wait(now, PATIENCE);
        }
        Ok(())
    }

    /// Opens one more zone of a stream if it may have one; `false` if there is no zone for this claim now.
    pub(crate) fn open(&self, stream: &Stream, claim: Claim) -> Result<bool, PageError> {
        let _opening = self.opening.lock();
        if !stream.may_open() {
            stream.satisfied();
            return Ok(true);
        }
        let writer = match self.take_zone(stream, claim) {
            Ok(writer) => writer,
            Err(SpaceError::NoSpace { .. } | SpaceError::StreamFull { .. } | SpaceError::TokensHeld { .. }) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.adopt_writer(stream, writer);
        stream.satisfied();
        self.note_space();
        Ok(true)
    }

    fn take_zone(&self, stream: &Stream, claim: Claim) -> Result<ZoneWriter, SpaceError> {
        self.note_space();
        let floor = match claim {
            Claim::Foreground => FOREGROUND_FLOOR,
            Claim::Relocation => RELOCATION_FLOOR,
            Claim::Record => 0,
        };
        if claim != Claim::Record && self.spare_zones() <= floor {
            return Err(self.space.usage().no_space());
        }
        let mut opened = self.space.open_zone(stream.id, Urgency::Reserve);
        for _ in 1..crate::failed::ATTEMPTS_MAX {
            match &opened {
                Err(SpaceError::Device(cause)) if cause.kind() == ErrorKind::Media => {
                    opened = self.space.open_zone(stream.id, Urgency::Reserve);
                }
                _ => break,
            }
        }
        opened
    }

    /// Starts a sequencer for a zone's writer.
    pub(crate) fn adopt_writer(&self, stream: &Stream, writer: ZoneWriter) {
        let (zone, generation) = (self.zones.of(writer.zone()), writer.generation());
        let sequencer = Arc::new(Sequencer::new(writer, self.space.clone(), self.press.clone()));
        // First open, then of this generation: a zone with a generation that is not open counts as sealed.
        zone.attach(&sequencer);
        zone.begin(generation, stream::holds(stream.streams));
        stream.add(sequencer);
    }

    /// Remembers numbers of the zone manager, whose count costs a pass over the zones.
    pub(crate) fn note_space(&self) {
        let usage = self.space.usage();
        let held = |kind| {
            let holds = Holds::area(kind);
            self.zones
                .iter()
                .filter(|(_, zone)| zone.generation() != 0 && zone.holds() == holds)
                .map(|_| 1)
                .sum::<u32>()
        };
        let log = self.reserve.log_zones.saturating_sub(held(AreaKind::Log));
        let meta = self.reserve.meta_zones.saturating_sub(held(AreaKind::Meta));
        self.spare_zones.store(usage.free_zones.saturating_sub(log + meta), Ordering::Relaxed);
        self.capacity_bytes.store(usage.capacity_bytes, Ordering::Relaxed);
    }

    /// Free zones beyond those that log and MetaLog are still entitled to.
    pub(crate) fn spare_zones(&self) -> u32 {
        self.spare_zones.load(Ordering::Relaxed)
    }

    /// Makes room for `blocks` more blocks in a stream: writes, seals and opens zones. `false` if there is no zone.
    pub(crate) fn make_room(&self, stream: &Stream, blocks: u64, claim: Claim) -> Result<bool, PageError> {
        stream.close_one_shorter_than(blocks);
        self.write_stream(stream, Extent::Everything)?;
        self.open(stream, claim)
    }

    /// Writes a chunk: enters it into the stream of its area and writes up to it. Placed again if its zone fails.
    pub(crate) fn write_chunk(&self, kind: AreaKind, payload: &[u8], claim: Claim) -> Result<Arc<Group>, PageError> {
        let stream = self.stream(stream::of_area(kind));
        for _ in 0..crate::failed::ATTEMPTS_MAX {
            let (sequencer, group) = self.enter_chunk(stream, kind, payload, claim)?;
            if self.write_through(stream, &sequencer, &group)? == Outcome::Written {
                return Ok(group);
            }
        }
        Err(self.failed.last_cause())
    }

    fn enter_chunk(
        &self,
        stream: &Stream,
        kind: AreaKind,
        payload: &[u8],
        claim: Claim,
    ) -> Result<(Arc<Sequencer>, Arc<Group>), PageError> {
        let blocks = chunk_blocks(payload.len());
        for _ in 0..crate::failed::ATTEMPTS_MAX {
            let entered = stream.offer(|sequencer| match sequencer.enter_chunk(kind, payload) {
                Offer::Taken(group) => Some((Arc::clone(sequencer), group)),
                Offer::Crowded | Offer::Short => None,
            });
            if let Some((sequencer, group)) = entered {
                self.count_value(&sequencer, &group);
                return Ok((sequencer, group));
            }
            if !self.make_room(stream, blocks, claim)? {
                return Err(self.no_space());
            }
        }
        Err(PageError::Busy)
    }

    fn count_value(&self, sequencer: &Sequencer, group: &Group) {
        if let Content::Chunk(AreaKind::Values) = group.content() {
            let bytes = group.bytes().len() as u64;
            self.zones.of(sequencer.zone()).add_values(bytes);
            self.counters.add_live_values(bytes);
        }
    }

    fn write_through(&self, stream: &Stream, sequencer: &Arc<Sequencer>, group: &Group) -> Result<Outcome, PageError> {
        let mut writer = sequencer.writer();
        while group.outcome() == Outcome::Pending && self.write_group(stream, sequencer, &mut writer)? {}
        let outcome = group.outcome();
        assert!(outcome != Outcome::Pending, "a group stays in its queue until it is written or its zone fails");
        if sequencer.is_drained() {
            self.seal(stream, sequencer, &mut writer)?;
        }
        Ok(outcome)
    }

    /// Closes a zone that is open and writes and seals it.
    pub(crate) fn close_zone(&self, sequencer: &Arc<Sequencer>) -> Result<(), PageError> {
        let holds_it = |stream: &&Stream| stream.sequencers().iter().any(|other| Arc::ptr_eq(other, sequencer));
        let Some(stream) = self.streams.iter().find(holds_it) else {
            return Ok(());
        };
        sequencer.close();
        let groups = sequencer.complete_filling();
        self.write_groups(stream, sequencer, sequencer.writer(), groups)
    }

    /// The page at `at` is superseded.
    pub(crate) fn release(&self, at: PageAddress) {
        let mut at = at;
        // Every turn but the last follows a page that was placed again after its zone had failed; addresses never cycle.
        while let Some(next) = self.release_at(at) {
            at = next;
        }
    }

    /// Releases a page where it lies, or says where it lies now.
    fn release_at(&self, at: PageAddress) -> Option<PageAddress> {
        let (zone_id, zone) = self.zones.of_page(at)?;
        match zone.sequencer() {
            Some(sequencer) if !sequencer.release(at) => return self.release_in_failed_zone(&sequencer, at),
            Some(_) => {}
            None => {
                if let Some(next) = self.failed.forward(at) {
                    return Some(next);
                }
            }
        }
        self.sub_live_page(zone_id, at);
        self.cache.remove(at, zone.generation());
        None
    }

    /// Counts a page as dead, unless its zone is given up already and its bytes with it.
    pub(crate) fn sub_live_page(&self, zone: ZoneId, at: PageAddress) {
        if !self.zones.of(zone).is_condemned() {
            self.space.sub_live(zone, at.len_bytes());
            self.counters.sub_live_pages(at.len_bytes());
        }
    }

    /// Bytes of a value chunk are superseded.
    pub(crate) fn release_value(&self, block: u64, bytes: u64) {
        if let Some((zone, _)) = self.zones.at(block) {
            self.sub_live_value(zone, chunk_blocks(crate::number::index(bytes)) * BLOCK_BYTES as u64);
        }
    }

    /// Counts value bytes as dead, unless their zone is given up already.
    pub(crate) fn sub_live_value(&self, id: ZoneId, bytes: u64) {
        let zone = self.zones.of(id);
        if !zone.is_condemned() {
            let dead = zone.sub_values(bytes);
            self.space.sub_live(id, dead);
            self.counters.sub_live_values(dead);
        }
    }

    /// Usable space in bytes. One load.
    pub(crate) fn usable_bytes(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed).saturating_sub(self.reserve.bytes)
    }

    /// Whether there are zones whose value bytes are an estimate.
    pub(crate) fn has_estimates(&self) -> bool {
        self.estimated_zones.load(Ordering::Relaxed) > 0
    }

    /// A zone's value bytes are known, or do not matter any more.
    pub(crate) fn forget_estimate(&self, zone: &Zone) {
        if zone.set_estimated(false) {
            self.estimated_zones.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Blocks written in a zone, its header included.
    pub(crate) fn written_blocks(&self, zone: ZoneId) -> u64 {
        1 + self.space.view()[zone.0 as usize].written_bytes / BLOCK_BYTES as u64
    }

    /// Space and memory in numbers.
    pub(crate) fn usage(&self) -> StoreUsage {
        let (space, (live_page_bytes, live_value_bytes)) = (self.space.usage(), self.counters.live());
        StoreUsage {
            capacity_bytes: space.capacity_bytes,
            reserve_bytes: self.reserve.bytes,
            usable_bytes: space.capacity_bytes.saturating_sub(self.reserve.bytes),
            live_page_bytes,
            live_value_bytes,
            free_zones: space.free_zones,
            zones: space.zones,
            active_zones: space.active,
            zones_reset: space.zones_reset,
            memory_bytes: self.press.pool.bytes() + self.cache.bytes() + self.zones.bytes(),
            memory_bytes_max: self.memory_bytes_max(),
        }
    }

    /// The sequencers' groups at their fullest, one longest chunk for each area and the reader of one, cache and tables.
    fn memory_bytes_max(&self) -> u64 {
        let writers: usize =
            self.streams.iter().filter(|stream| !stream.is_record()).map(|stream| stream.zones_max).sum();
        let group_bytes = self.press.group_blocks.next_power_of_two() * BLOCK_BYTES as u64;
        let groups = (writers * (self.press.groups_max + 2)) as u64 * group_bytes;
        let chunk_bytes = (CHUNK_PAYLOAD_BYTES_MAX as u64).min(self.space.zone_blocks() * BLOCK_BYTES as u64);
        groups + 4 * chunk_bytes + self.cache_bytes_max + self.zones.bytes()
    }

    /// Whether foreground writers must wait for reclaim. One load.
    pub(crate) fn is_short(&self) -> bool {
        self.spare_zones() <= FOREGROUND_FLOOR
    }

    /// Whether live bytes exceed the usable space, for all that is known.
    pub(crate) fn is_full(&self) -> bool {
        self.is_over_full() && !self.has_estimates()
    }

    /// Back-pressure: waits for reclaim while only the reserve is left, as long as that makes sense and at most
    /// `waits_max` times [`GATE_PATIENCE`].
    pub(crate) fn wait_for_spare_zones(&self, waits_max: u32) -> Result<(), PageError> {
        for _ in 0..waits_max {
            let now = self.gate.now();
            if !self.is_short() {
                return Ok(());
            }
            if self.is_full() || self.hopeless.load(Ordering::Relaxed) {
                break;
            }
            self.gate.wait(now, GATE_PATIENCE);
        }
        Err(self.no_space())
    }

    /// Whether live bytes fill more than the usable space.
    pub(crate) fn is_over_full(&self) -> bool {
        let (pages, values) = self.counters.live();
        pages + values > self.usable_bytes()
    }

    /// The error that says so.
    pub(crate) fn no_space(&self) -> PageError {
        let (usage, (pages, values)) = (self.space.usage(), self.counters.live());
        PageError::NoSpace {
            live_bytes: pages + values,
            usable_bytes: self.usable_bytes(),
            free_zones: usage.free_zones,
            reserve_bytes: self.reserve.bytes,
        }
    }
}

/// While it lives, its thread may take zones of the reserve.
pub(crate) struct AsReclaimer<'a>(&'a Flusher);

impl Drop for AsReclaimer<'_> {
    fn drop(&mut self) {
        self.0.reclaimer.store(0, Ordering::Relaxed);
    }
}
