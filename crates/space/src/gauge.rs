//! Live bytes, written blocks and age of every zone: plain counters that any thread updates without a lock.

use zonda_device::ZoneId;
use zonda_rt::atomic::{AtomicU64, Ordering};

/// The counters of one zone. Relaxed: they order nothing; the table's lock orders changes of state.
#[derive(Debug, Default)]
struct Gauge {
    live_bytes: AtomicU64,
    written_blocks: AtomicU64,
    last_death: AtomicU64,
}

/// The counters of all zones, and the store's clock: blocks written since it was opened.
#[derive(Debug)]
pub(crate) struct Gauges {
    zones: Vec<Gauge>,
    clock: AtomicU64,
}

impl Gauges {
    /// Counters of zones, and of subzones behind them.
    pub(crate) fn new(ids: u32) -> Self {
        Self { zones: (0..ids).map(|_| Gauge::default()).collect(), clock: AtomicU64::new(0) }
    }

    pub(crate) fn add_live(&self, zone: ZoneId, bytes: u64) {
        self.of(zone).live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes live bytes away, at most to zero: after recovery a client may only have an estimate.
    pub(crate) fn sub_live(&self, zone: ZoneId, bytes: u64) {
        let gauge = self.of(zone);
        let less = |live: u64| Some(live.saturating_sub(bytes));
        let _always_some = gauge.live_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        gauge.last_death.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn live_bytes(&self, zone: ZoneId) -> u64 {
        self.of(zone).live_bytes.load(Ordering::Relaxed)
    }

    /// Live bytes of all zones. Cost: one load per zone.
    pub(crate) fn live_bytes_total(&self) -> u64 {
        self.zones.iter().map(|gauge| gauge.live_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Blocks written in a zone, the header included.
    pub(crate) fn written_blocks(&self, zone: ZoneId) -> u64 {
        self.of(zone).written_blocks.load(Ordering::Relaxed)
    }

    /// Moves a zone's written end forward and the clock with it.
    pub(crate) fn wrote(&self, zone: ZoneId, blocks: u64) {
        self.of(zone).written_blocks.fetch_add(blocks, Ordering::Relaxed);
        self.clock.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Starts a zone over with `written_blocks` blocks, nothing live, and no age.
    pub(crate) fn restart(&self, zone: ZoneId, written_blocks: u64) {
        let gauge = self.of(zone);
        gauge.live_bytes.store(0, Ordering::Relaxed);
        gauge.written_blocks.store(written_blocks, Ordering::Relaxed);
        gauge.last_death.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Adopts the device's word for what is written.
    pub(crate) fn set_written(&self, zone: ZoneId, blocks: u64) {
        self.of(zone).written_blocks.store(blocks, Ordering::Relaxed);
    }

    pub(crate) fn age_blocks(&self, zone: ZoneId) -> u64 {
        let death = self.of(zone).last_death.load(Ordering::Relaxed);
        self.clock.load(Ordering::Relaxed).saturating_sub(death)
    }

    fn of(&self, zone: ZoneId) -> &Gauge {
        &self.zones[zone.0 as usize]
    }
}
