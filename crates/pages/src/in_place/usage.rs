//! What is live, waiting for space, and space and memory in numbers (I9).

use std::collections::HashMap;
use std::time::Duration;

use zonda_rt::atomic::Ordering;
use zonda_space::ZoneUse;

use super::core::Core;
use super::layout::SegmentIndex;
use super::table::{Content, Table};
use crate::frame::{CHUNK_PAYLOAD_BYTES_MAX, chunk_blocks};
use crate::map::ZoneMapEntry;
use crate::{AreaKind, BLOCK_BYTES, LiveValues, PageAddress, PageError, SegmentId, StoreUsage, WrittenBy};

/// How often a waiting writer asks whether waiting still makes sense.
const GATE_PATIENCE: Duration = Duration::from_millis(20);
/// Blocks that are enough for a merge of one leaf.
const MERGE_BLOCKS: u64 = 16;

impl Core {
    /// Bytes that live data may fill.
    pub(crate) fn usable_bytes(&self) -> u64 {
        self.capacity_bytes().saturating_sub(self.reserve.bytes)
    }

    fn capacity_bytes(&self) -> u64 {
        self.layout.data_bytes() - self.lost_bytes.load(Ordering::Relaxed)
    }

    /// Counts segments that cannot be used.
    pub(crate) fn note_lost(&self) {
        self.lost_bytes.store(self.with_table(|table| table.lost_bytes()), Ordering::Relaxed);
    }

    /// Blocks that foreground pages can still take.
    pub(crate) fn room_blocks(&self) -> u64 {
        self.with_table(|table| table.room_blocks())
    }

    /// Whether there are segments whose value bytes are an estimate.
    pub(crate) fn has_estimates(&self) -> bool {
        self.estimated.load(Ordering::Relaxed) > 0
    }

    /// Whether live bytes exceed the usable space, for all that is known.
    pub(crate) fn is_full(&self) -> bool {
        self.would_be_full(0) && !self.has_estimates()
    }

    /// Whether `more_bytes` more would exceed it; values of an earlier life count as live until reclaim has looked.
    pub(crate) fn would_be_full(&self, more_bytes: u64) -> bool {
        self.counters.live_bytes() + more_bytes > self.usable_bytes()
    }

    /// Whether a foreground writer may place `pages` pages; waits a moment if segments are short.
    pub(crate) fn admit(&self, pages: u32) -> Result<(), PageError> {
        if pages > 0 && self.would_be_full(u64::from(pages) * BLOCK_BYTES as u64) {
            if !self.has_estimates() {
                return Err(self.no_space());
            }
            self.must_look.store(true, Ordering::Relaxed);
            return Err(PageError::Busy);
        }
        // In a full store too: segments of what is dead may be on their way back.
        match self.wait_once(false) {
            // A merge may be what gives something back, and it fits holes.
            Err(PageError::NoSpace { .. }) if pages == 0 && self.has_holes_for_a_merge() => Ok(()),
            waited => {
                if waited? || !self.is_short() {
                    Ok(())
                } else {
                    Err(PageError::Busy)
                }
            }
        }
    }

    fn has_holes_for_a_merge(&self) -> bool {
        self.with_table(|table| table.hole_blocks()) >= MERGE_BLOCKS
    }

    /// Back-pressure: waits for reclaim while only the reserve is left, as long as that makes sense, and at most `waits_max` times.
    pub(crate) fn wait_for_spare_segments(&self, waits_max: u32) -> Result<(), PageError> {
        for _ in 0..waits_max {
            if self.wait_once(self.is_full())? {
                return Ok(());
            }
        }
        Err(self.no_space())
    }

    /// Waits once if segments are short, unless the writer is `refused` then; whether they were not.
    fn wait_once(&self, refused: bool) -> Result<bool, PageError> {
        let now = self.gate.now();
        if !self.is_short() {
            return Ok(true);
        }
        if refused || self.hope.is_given_up(self.counters.live_bytes()) {
            return Err(self.no_space());
        }
        self.gate.wait(now, GATE_PATIENCE);
        Ok(false)
    }

    /// Reclaim cannot help, for all that it knew when so much was live: writers that wait for space are refused, until it says otherwise
    /// or something dies.
    pub(crate) fn give_up_hope(&self, live_bytes: u64) {
        if self.hope.give_up(live_bytes) {
            self.gate.wake();
        }
    }

    /// There is more room than before.
    pub(crate) fn note_room(&self) {
        self.hope.renew();
        self.gate.wake();
    }

    /// The error that says that live data fills the usable space.
    pub(crate) fn no_space(&self) -> PageError {
        PageError::NoSpace {
            live_bytes: self.counters.live_bytes(),
            usable_bytes: self.usable_bytes(),
            free_zones: self.with_table(|table| table.free_segments()),
            reserve_bytes: self.reserve.bytes,
        }
    }

    /// Bytes of a value chunk are superseded. If reclaim has emptied its segment meanwhile, they are taken off already.
    pub(crate) fn release_value(&self, block: u64, generation: u64, bytes: u64) {
        let Some(segment) = self.layout.segment_of(block, 1) else { return };
        let bytes = chunk_blocks(crate::number::index(bytes)) * BLOCK_BYTES as u64;
        let dead = self.with_table(|table| match table.run_mut_of(segment, generation) {
            Some(run) if run.kind() == AreaKind::Values && !run.is_condemned() => run.sub_live(bytes),
            _ => 0,
        });
        self.counters.sub_live_values(dead);
    }

    /// What recovery found live. Value bytes are estimated as all that is written.
    pub(crate) fn adopt(&self, live: &mut dyn Iterator<Item = PageAddress>) {
        self.with_table(|table| {
            for at in live {
                if table.adopt(at) {
                    self.counters.add_live_pages(at.len_bytes());
                }
            }
            table.free_unused();
            self.layout.all().for_each(|segment| self.estimate(table, segment));
        });
        self.note_lost();
    }

    fn estimate(&self, table: &mut Table, segment: SegmentIndex) {
        if let Some(run) = table.run_mut(segment).filter(|run| run.is_sealed_values()) {
            self.counters.add_live_values(run.estimate());
            self.estimated.fetch_add(u32::from(run.is_estimated()), Ordering::Relaxed);
        }
    }

    /// See [`PageStore::live_values`](crate::PageStore::live_values).
    pub(crate) fn live_values(&self) -> Vec<LiveValues> {
        self.with_table(|table| {
            let of_segment = |segment: SegmentIndex| {
                let Content::Area(run) = table.content(segment) else { return None };
                if run.kind() != AreaKind::Values {
                    return None;
                }
                let written = run.is_open().then(|| run.written_bytes());
                let live =
                    LiveValues { segment: SegmentId(table.generation(segment)), bytes: run.live_bytes(), written };
                live.is_worth_telling(self.layout.data_blocks(segment) * BLOCK_BYTES as u64).then_some(live)
            };
            self.layout.all().filter_map(of_segment).collect()
        })
    }

    /// See [`PageStore::adopt_values`](crate::PageStore::adopt_values).
    pub(crate) fn adopt_values(&self, live: &[LiveValues]) {
        let known: HashMap<u64, &LiveValues> = live.iter().map(|live| (live.segment.0, live)).collect();
        let dead: u64 = self.with_table(|table| {
            let lower = |segment: SegmentIndex| {
                let live = known.get(&table.generation(segment))?;
                let run = table.run_mut(segment).filter(|run| run.is_estimated())?;
                Some(run.sub_live(run.live_bytes().saturating_sub(live.most(run.written_bytes()))))
            };
            self.layout.all().filter_map(lower).sum()
        });
        self.counters.sub_live_values(dead);
    }

    /// Bytes written by cause.
    pub(crate) fn written_by(&self) -> WrittenBy {
        self.counters.written_by(self.headers_written_bytes.load(Ordering::Relaxed))
    }

    /// Space and memory in numbers.
    pub(crate) fn usage(&self) -> StoreUsage {
        let (live_page_bytes, live_value_bytes) = self.counters.live();
        let (free_zones, active_zones, table_bytes) =
            self.with_table(|table| (table.free_segments(), table.open_segments(), table.bytes()));
        StoreUsage {
            capacity_bytes: self.capacity_bytes(),
            reserve_bytes: self.reserve.bytes,
            usable_bytes: self.usable_bytes(),
            live_page_bytes,
            live_value_bytes,
            live_values_are_estimated: self.has_estimates(),
            free_zones,
            zones: self.layout.segments(),
            active_zones,
            zones_reset: self.segments_reset.load(Ordering::Relaxed),
            memory_bytes: self.pool.bytes() + self.cache.bytes() + table_bytes + self.limbo.lock().bytes(),
            memory_bytes_max: self.memory_bytes_max(table_bytes),
        }
    }

    /// Pages that wait, twice: while they are written there are copies of them; one longest chunk for each area and the reader of one;
    /// what is read ahead; the cache; two bits for each block, and the addresses of all blocks in limbo.
    fn memory_bytes_max(&self, table_bytes: u64) -> u64 {
        let pending = 2 * (self.pending_blocks_max + crate::PAGE_BLOCKS_MAX).next_power_of_two() * BLOCK_BYTES as u64;
        let chunk_bytes = (CHUNK_PAYLOAD_BYTES_MAX as u64).min(self.layout.segment_blocks() * BLOCK_BYTES as u64);
        let blocks = self.layout.capacity_blocks();
        2 * pending
            + 4 * chunk_bytes
            + self.ahead.bytes_max()
            + self.cache.bytes_max()
            + table_bytes
            + blocks / 4
            + blocks * 8
    }

    /// All segments, by number. Cost: one pass over them.
    pub(crate) fn map(&self) -> Vec<ZoneMapEntry> {
        self.with_table(|table| self.layout.all().map(|segment| self.map_entry(table, segment)).collect())
    }

    fn map_entry(&self, table: &Table, segment: SegmentIndex) -> ZoneMapEntry {
        let block = BLOCK_BYTES as u64;
        let capacity_bytes = self.layout.data_blocks(segment) * block;
        let (state, stream, live_bytes, written_bytes, condemned) = match table.content(segment) {
            Content::Free => (ZoneUse::Free, None, 0, 0, false),
            Content::Lost => (ZoneUse::Offline, None, 0, 0, false),
            Content::Pages(slots) => {
                let used = capacity_bytes - slots.free_blocks() * block;
                let state = if table.is_filling(segment) { ZoneUse::Open } else { ZoneUse::Sealed };
                (state, Some("pages"), slots.live_blocks() * block, used, table.is_closed(segment))
            }
            Content::Area(run) => {
                let live = if run.kind() == AreaKind::Values { run.live_bytes() } else { run.written_bytes() };
                let state = if run.is_open() { ZoneUse::Open } else { ZoneUse::Sealed };
                (state, Some(area_name(run.kind())), live, run.written_bytes(), !run.is_kept())
            }
        };
        let (zone, generation) = (zonda_device::ZoneId(segment.0), table.generation(segment));
        ZoneMapEntry { zone, state, stream, live_bytes, written_bytes, capacity_bytes, generation, condemned }
    }
}

fn area_name(kind: AreaKind) -> &'static str {
    match kind {
        AreaKind::Log => "log",
        AreaKind::Meta => "meta",
        AreaKind::Values => "values",
    }
}
