//! What is live, and space and memory in numbers (I9).

use std::collections::HashMap;

use zonda_device::ZoneId;
use zonda_rt::atomic::Ordering;

use crate::flusher::Flusher;
use crate::frame::{CHUNK_PAYLOAD_BYTES_MAX, chunk_blocks};
use crate::reclaim::is_sealed;
use crate::zone_table::{Holds, Zone};
use crate::{
    AreaKind, BLOCK_BYTES, GARBAGE_ZONES_MIN, LiveValues, PageAddress, PageError, SegmentId, StoreUsage, WrittenBy,
};

impl Flusher {
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

    /// Bytes of a value chunk are superseded. If reclaim has emptied its zone meanwhile, they are taken off already.
    pub(crate) fn release_value(&self, block: u64, generation: u64, bytes: u64) {
        if let Some((id, _)) = self.zones.at(block).filter(|(_, zone)| zone.generation() == generation) {
            self.sub_live_value(id, chunk_blocks(crate::number::index(bytes)) * BLOCK_BYTES as u64);
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

    /// See [`PageStore::live_values`](crate::PageStore::live_values).
    pub(crate) fn live_values(&self) -> Vec<LiveValues> {
        let (values, views) = (Holds::area(AreaKind::Values), self.space.view());
        let zone_bytes = self.space.zone_blocks() * BLOCK_BYTES as u64;
        let of_zone = |(id, zone): (ZoneId, &Zone)| {
            let segment = SegmentId(zone.generation());
            if zone.is_condemned() {
                return LiveValues { segment, bytes: 0, written: None };
            }
            let written = (!is_sealed(zone)).then(|| views[id.0 as usize].written_bytes);
            LiveValues { segment, bytes: zone.value_bytes(), written }
        };
        let zones = self.zones.iter().filter(|(_, zone)| zone.generation() != 0 && zone.holds().any_of(values));
        zones.map(of_zone).filter(|live| live.is_worth_telling(zone_bytes)).collect()
    }

    /// See [`PageStore::adopt_values`](crate::PageStore::adopt_values).
    pub(crate) fn adopt_values(&self, live: &[LiveValues]) {
        let known: HashMap<u64, &LiveValues> = live.iter().map(|live| (live.segment.0, live)).collect();
        for (id, zone) in self.zones.iter().filter(|(_, zone)| zone.is_estimated()) {
            if let Some(live) = known.get(&zone.generation()) {
                self.sub_live_value(id, zone.value_bytes().saturating_sub(live.most(zone.found_bytes())));
            }
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
            live_values_are_estimated: self.has_estimates(),
            free_zones: space.free_zones,
            zones: space.zones,
            active_zones: space.active,
            zones_reset: space.zones_reset,
            memory_bytes: self.memory_bytes(),
            memory_bytes_max: self.memory_bytes_max(),
        }
    }

    /// Bytes written by cause.
    pub(crate) fn written_by(&self) -> WrittenBy {
        self.counters.written_by(self.space.written_by_stream().headers)
    }

    /// Memory that it holds. A few loads.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.press.pool.bytes() + self.cache.bytes() + self.zones.bytes()
    }

    /// The sequencers' groups at their fullest, one longest chunk for each area and the reader of one, what is read ahead, cache
    /// and tables.
    fn memory_bytes_max(&self) -> u64 {
        let writers: usize =
            self.streams.iter().filter(|stream| !stream.is_record()).map(|stream| stream.zones_max).sum();
        let group_bytes = self.press.group_blocks.next_power_of_two() * BLOCK_BYTES as u64;
        let groups = (writers * (self.press.groups_max + 2)) as u64 * group_bytes;
        let chunk_bytes = (CHUNK_PAYLOAD_BYTES_MAX as u64).min(self.space.zone_blocks() * BLOCK_BYTES as u64);
        groups + 4 * chunk_bytes + self.ahead.bytes_max() + self.cache.bytes_max() + self.zones.bytes()
    }

    /// Whether live bytes fill more than the usable space.
    pub(crate) fn is_over_full(&self) -> bool {
        self.counters.live_bytes() > self.usable_bytes()
    }

    /// Whether more is dead in sealed zones of pages and values than the client wants to bear, and `more_zones`; their unwritten ends
    /// count as dead. A few loads.
    pub(crate) fn holds_garbage(&self, more_zones: u32) -> bool {
        let Some(percent) = self.garbage_percent_max else { return false };
        let zones = self.sealed_zones.load(Ordering::Relaxed).saturating_sub(more_zones + GARBAGE_ZONES_MIN);
        let borne_bytes = self.counters.live_bytes().saturating_mul(100 + u64::from(percent)) / 100;
        u64::from(zones) * self.space.zone_blocks() * BLOCK_BYTES as u64 > borne_bytes
    }

    /// Whether none is to be borne.
    pub(crate) fn bears_none(&self) -> bool {
        self.garbage_is_unwanted.load(Ordering::Relaxed) > 0
    }

    /// The error that says so.
    pub(crate) fn no_space(&self) -> PageError {
        PageError::NoSpace {
            live_bytes: self.counters.live_bytes(),
            usable_bytes: self.usable_bytes(),
            free_zones: self.space.usage().free_zones,
            reserve_bytes: self.reserve.bytes,
        }
    }
}
