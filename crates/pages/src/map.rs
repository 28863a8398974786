//! The map of a store's zones, for reports.

use zonda_device::ZoneId;
use zonda_space::{ZoneUse, ZoneView};

use crate::zone_table::Zone;
use crate::{ZonedStore, stream};

/// What lives in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneMapEntry {
    /// The zone.
    pub zone: ZoneId,
    /// What it is.
    pub state: ZoneUse,
    /// The stream after which it is named: `log`, `meta`, `hot`, `cold`, `relocated` or `values`; `None` if nothing is in it.
    pub stream: Option<&'static str>,
    /// Live bytes: pages and values; all bytes of unreleased log and MetaLog segments.
    pub live_bytes: u64,
    /// Bytes written behind the header; the capacity for finished zones of an earlier life.
    pub written_bytes: u64,
    /// Bytes that it holds behind the header.
    pub capacity_bytes: u64,
    /// Number of its allocation; the segment id of areas.
    pub generation: u64,
    /// Whether nothing in it is live and it waits for its reset.
    pub condemned: bool,
}

impl ZonedStore {
    /// All zones, by number. Cost: one pass over the zones.
    #[must_use]
    pub fn map(&self) -> Vec<ZoneMapEntry> {
        let flusher = self.flusher();
        flusher.space.view().iter().map(|view| entry(flusher.zones.of(view.zone), view)).collect()
    }
}

fn entry(zone: &Zone, view: &ZoneView) -> ZoneMapEntry {
    ZoneMapEntry {
        zone: view.zone,
        state: view.state,
        stream: view.stream.map(stream::name),
        live_bytes: if zone.is_kept() { view.written_bytes } else { view.live_bytes },
        written_bytes: view.written_bytes,
        capacity_bytes: view.capacity_bytes,
        generation: view.generation,
        condemned: zone.is_condemned(),
    }
}
