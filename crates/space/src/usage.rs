//! Space in numbers (I9).

use crate::gauge::Gauges;
use crate::table::Table;
use crate::units::Units;
use crate::{BLOCK_BYTES, SpaceError, ZoneUse};

/// Zones in numbers that are always known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    /// With nothing in them.
    pub free: u32,
    /// Reset by their owner, and free with the next header that is durable.
    pub retired: u32,
    /// Free zones that foreground writers may not take.
    pub reserve: u32,
    /// That can never be written again.
    pub lost: u32,
    /// Named after the stream that was asked for.
    pub of_stream: u32,
}

/// Space of a store. Bytes do not count zone headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// What all zones can hold that are not lost.
    pub capacity_bytes: u64,
    /// Kept back: the reserve and one zone for each zone that the budget lets be open.
    pub reserve_bytes: u64,
    /// `capacity - reserve`: what live data may fill. A client that keeps more back (a log, a journal) subtracts it.
    pub usable_bytes: u64,
    /// Live bytes of all zones but those that are offline: what was in these takes no room of others.
    pub live_bytes: u64,
    /// Zones of the device.
    pub zones: u32,
    /// Zones with nothing in them.
    pub free_zones: u32,
    /// Free zones that foreground writers may not take.
    pub reserve_zones: u32,
    /// Zones that can never be written again.
    pub lost_zones: u32,
    /// Zones whose header cannot be read.
    pub damaged_zones: u32,
    /// Zones that have a writer.
    pub open_zones: u32,
    /// Zones that hold an active token.
    pub active: u32,
    /// Active tokens in all.
    pub active_max: u32,
    /// Zones and subzones reset since the store was opened.
    pub zones_reset: u64,
    /// Split zones. The header of every subzone is taken off the capacity.
    pub split_zones: u32,
}

impl SpaceUsage {
    pub(crate) fn of(table: &Table, gauges: &Gauges, units: &Units) -> Self {
        let zone_bytes = units.zone_data_bytes();
        let in_state = |state| table.slots().filter(|(_, slot)| slot.state == state).map(|_| 1).sum::<u32>();
        let lost_zones = table.lost_zones();
        let split_zones = in_state(ZoneUse::Split);
        let headers = units.parts.map_or(0, |parts| u64::from(parts.count - 1) * BLOCK_BYTES as u64);
        let capacity_bytes = u64::from(units.zone_count - lost_zones) * zone_bytes - u64::from(split_zones) * headers;
        let offline = table.slots().filter(|(_, slot)| slot.state == ZoneUse::Offline);
        let lost_bytes: u64 = offline.map(|(zone, _)| gauges.live_bytes(zone)).sum();
        let reserve_bytes = (u64::from(table.reserve_zones) + u64::from(table.budget.zones())) * zone_bytes;
        Self {
            capacity_bytes,
            reserve_bytes,
            usable_bytes: capacity_bytes.saturating_sub(reserve_bytes),
            live_bytes: gauges.live_bytes_total().saturating_sub(lost_bytes),
            zones: units.zone_count,
            free_zones: table.free_zones(),
            reserve_zones: table.reserve_zones,
            lost_zones,
            damaged_zones: in_state(ZoneUse::Damaged),
            open_zones: in_state(ZoneUse::Open),
            active: table.active(),
            active_max: table.active_max,
            zones_reset: table.zones_reset,
            split_zones,
        }
    }

    /// The error that says these numbers.
    #[must_use]
    pub fn no_space(&self) -> SpaceError {
        SpaceError::NoSpace {
            free_zones: self.free_zones,
            reserve_zones: self.reserve_zones,
            active: self.active,
            active_max: self.active_max,
            live_bytes: self.live_bytes,
            usable_bytes: self.usable_bytes,
        }
    }
}
