//! Opens a store: reads the zone headers, writes nothing.

use std::sync::Arc;

use zonda_device::{AlignedBuf, ErrorKind, ZoneId, ZoneState, ZonedDevice};

use crate::create::{lost, table_for};
use crate::format::{HeaderFault, Identity, VERSION, ZoneHeader};
use crate::options::check_features;
use crate::scan::{Scanned, decode, scan};
use crate::table::{Slot, Table};
use crate::units::Units;
use crate::{BLOCK_BYTES, Result, Space, SpaceError, SpaceOptions, StoreId, StreamId, StreamSet, ZoneUse};

/// A zone of an earlier life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredZone {
    /// The zone.
    pub zone: ZoneId,
    /// The stream after which it is named.
    pub stream: StreamId,
    /// Every stream whose data it may hold.
    pub holds: StreamSet,
    /// Number of its allocation: zones of a stream were opened in this order.
    pub generation: u64,
    /// Blocks written, the header included; what was not flushed before a crash may be anything. Finished and
    /// read-only zones no longer know and say their capacity; the blocks behind the last written one read as zeros.
    pub written_blocks: u64,
    /// [`Partial`](ZoneUse::Partial) (adopt or seal it), [`Sealed`](ZoneUse::Sealed) or [`ReadOnly`](ZoneUse::ReadOnly).
    pub state: ZoneUse,
}

/// A zone whose header cannot be read although something is written behind it. It is left alone until its client
/// [recognises](Space::recognise) what is in it, [`reset`](Space::reset) names it or [`clear_damaged`](Space::clear_damaged) is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedZone {
    /// The zone.
    pub zone: ZoneId,
    /// Blocks written, the header included.
    pub written_blocks: u64,
    /// What is wrong with the header.
    pub why: String,
}

/// What opening found.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Store id, features, client and superblock, from the header with the highest generation.
    pub identity: Identity,
    /// The store's zones by generation.
    pub zones: Vec<RecoveredZone>,
    /// Zones whose header is damaged.
    pub damaged: Vec<DamagedZone>,
    /// Zones that are lost, whatever was in them; on some devices zones that never can be used.
    pub offline: Vec<ZoneId>,
    /// Zones that hold no more than a torn header: an interrupted allocation, or, beside a live store, one of which it was seen
    /// how it is opened or reset.
    pub torn: Vec<ZoneId>,
}

impl Space {
    /// Opens the store on a device. Reads one block of each zone that is written, many at a time, and writes nothing,
    /// so a read-only device is enough for readers. What an earlier store left in a read-only zone is nobody's. Zones
    /// that hold no more than a torn header (an interrupted allocation) count as free and are reset when the first
    /// zone is opened.
    ///
    /// # Errors
    /// `NotAStore`, `TwoStores`, `OtherClient`, `NewerVersion`, `UnknownFeatures`, `GeometryChanged`; as
    /// [`format`](Self::format) for options that do not suit the device; `Device`.
    pub fn open(device: Arc<dyn ZonedDevice>, options: &SpaceOptions) -> Result<(Self, Recovered)> {
        let units = Units::on(device.as_ref())?;
        let zones = scan_store(device.as_ref(), &units)?;
        let identity = newest(&zones)?.identity.clone();
        check_identity(&identity, &units, options)?;
        let table = table_for(device.geometry(), &units, units.zone_count, options)?;
        let space = Self::build(device, units, identity.clone(), table);
        let damaged = space.adopt_scanned(&zones);
        let (zones, torn) = (space.recovered_zones(), space.torn_zones());
        let offline = space.core.table.lock().zones_in(ZoneUse::Offline);
        Ok((space, Recovered { identity, zones, damaged, offline, torn }))
    }

    /// What a device's zone headers say, without opening the store: for clients that keep the options of
    /// [`open`](Self::open) in their superblock, and for reports.
    ///
    /// # Errors
    /// `BadGeometry`, `NotAStore`, `TwoStores`, `NewerVersion`, `Device`.
    pub fn identify(device: &dyn ZonedDevice) -> Result<Identity> {
        let units = Units::on(device)?;
        Ok(newest(&scan_store(device, &units)?)?.identity.clone())
    }

    /// What is wrong with the header of a zone, as it is on the device now, if anything is. One device read.
    ///
    /// # Errors
    /// `Device`, but for a medium that has lost it, or a zone that is offline.
    pub fn header_fault(&self, zone: ZoneId) -> Result<Option<String>> {
        let mut block = AlignedBuf::with_len(BLOCK_BYTES);
        let header = match self.read(self.first_block(zone), &mut block) {
            Ok(()) => decode(zone, &block, &self.core.units),
            Err(SpaceError::Device(error)) if matches!(error.kind(), ErrorKind::Media | ErrorKind::Offline) => {
                Err(HeaderFault::Unreadable)
            }
            Err(error) => return Err(error),
        };
        Ok(match header {
            Ok(header) if header.identity.store == self.identity().store => None,
            Ok(_) => Some("it is another store's".to_owned()),
            Err(fault) => Some(fault.describe()),
        })
    }

    /// Enters every zone into the table.
    fn adopt_scanned(&self, zones: &[Scanned]) -> Vec<DamagedZone> {
        let mut table = self.core.table.lock();
        let mut damaged = Vec::new();
        for zone in zones {
            let slot = slot_of(zone);
            if let (ZoneUse::Damaged | ZoneUse::ReadOnly, Some(Err(fault))) = (slot.state, &zone.header) {
                damaged.push(damaged_zone(zone, *fault));
            }
            let blocks = if slot.state == ZoneUse::Free { 0 } else { zone.written_blocks };
            self.core.gauges.restart(zone.report.zone, blocks);
            table.note_generation(slot.generation);
            table.set(zone.report.zone, slot, zone.report.state.is_active());
        }
        adopt_split(&mut table, zones);
        // A damaged header hides a generation that may be the highest.
        table.issued += damaged.len() as u64;
        damaged
    }

    fn torn_zones(&self) -> Vec<ZoneId> {
        let table = self.core.table.lock();
        table.slots().filter(|(_, slot)| slot.torn).map(|(zone, _)| zone).collect()
    }

    fn recovered_zones(&self) -> Vec<RecoveredZone> {
        let table = self.core.table.lock();
        let recovered = |(zone, slot): (ZoneId, &Slot)| {
            let states = [ZoneUse::Partial, ZoneUse::Sealed, ZoneUse::ReadOnly];
            let stream = slot.stream.filter(|_| states.contains(&slot.state))?;
            let written_blocks = self.core.gauges.written_blocks(zone);
            let (holds, generation, state) = (slot.holds, slot.generation, slot.state);
            Some(RecoveredZone { zone, stream, holds, generation, written_blocks, state })
        };
        let mut zones: Vec<RecoveredZone> = table.slots().chain(table.subzones()).filter_map(recovered).collect();
        zones.sort_by_key(|zone| zone.generation);
        zones
    }
}

/// Split zones belong to the stream of what is in them, and were used last with the newest of it.
fn adopt_split(table: &mut Table, zones: &[Scanned]) {
    for zone in zones.iter().filter(|zone| zone.is_split) {
        let id = zone.report.zone;
        let newest = table.subzones_of(id).map(|(_, slot)| slot).max_by_key(|slot| slot.generation);
        let Some(Slot { stream, holds, generation, .. }) = newest.cloned() else { continue };
        let slot = Slot { stream, holds, generation, ..table.slot(id).clone() };
        let is_active = table.is_active(id);
        table.set(id, slot, is_active);
    }
}

/// All zones, without the headers of other stores in zones that can never be written again: making a store cannot empty these. Whose store
/// it is, the writable zones must agree on.
fn scan_store(device: &dyn ZonedDevice, units: &Units) -> Result<Vec<Scanned>> {
    let mut zones = scan(device, units)?;
    let is_lost = |zone: &Scanned| lost(zone.report.state).is_some();
    let mut stores = zones.iter().filter(|zone| !is_lost(zone)).filter_map(store_of);
    let Some(store) = stores.next().filter(|&first| stores.all(|store| store == first)) else { return Ok(zones) };
    for zone in zones.iter_mut().filter(|zone| is_lost(zone) && store_of(zone).is_some_and(|other| other != store)) {
        zone.header = None;
    }
    Ok(zones)
}

fn store_of(zone: &Scanned) -> Option<StoreId> {
    Some(zone.intact()?.identity.store)
}

/// The intact header with the highest generation, once it is sure that all belong to one store.
fn newest(zones: &[Scanned]) -> Result<&ZoneHeader> {
    refuse_newer(zones)?;
    let mut newest: Option<&ZoneHeader> = None;
    for header in zones.iter().filter_map(Scanned::intact) {
        let best = newest.unwrap_or(header);
        refuse_other_store(best, header)?;
        newest = Some(if header.generation > best.generation { header } else { best });
    }
    newest.ok_or_else(|| not_a_store(zones))
}

fn refuse_newer(zones: &[Scanned]) -> Result<()> {
    for zone in zones {
        if let Some(Err(HeaderFault::NewerVersion(found))) = zone.header {
            return Err(SpaceError::NewerVersion { zone: zone.report.zone, found, known: VERSION });
        }
    }
    Ok(())
}

fn refuse_other_store(one: &ZoneHeader, other: &ZoneHeader) -> Result<()> {
    if one.identity.store == other.identity.store {
        return Ok(());
    }
    Err(SpaceError::TwoStores {
        first: one.identity.store,
        first_zone: ZoneId(one.zone),
        second: other.identity.store,
        second_zone: ZoneId(other.zone),
    })
}

fn not_a_store(zones: &[Scanned]) -> SpaceError {
    let count = |number: usize| u32::try_from(number).expect("a device has at most 2^20 zones");
    let zones: Vec<&Scanned> = zones.iter().filter(|zone| !zone.is_subzone).collect();
    let written = zones.iter().filter(|zone| zone.is_written()).count();
    SpaceError::NotAStore { written_zones: count(written), zones: count(zones.len()) }
}

fn check_identity(identity: &Identity, units: &Units, options: &SpaceOptions) -> Result<()> {
    if identity.client != options.client {
        let name = |client: &[u8; 8]| String::from_utf8_lossy(client).trim_end_matches('\0').to_string();
        return Err(SpaceError::OtherClient { found: name(&identity.client), expected: name(&options.client) });
    }
    check_features(identity.features, options)?;
    let pairs = [
        ("a number of zones of", identity.zone_count.into(), units.zone_count.into()),
        ("a zone size in blocks of", identity.zone_size_blocks, units.zone_size),
        ("a zone capacity in blocks of", identity.zone_capacity_blocks, units.zone_capacity),
    ];
    match pairs.into_iter().find(|(_, stored, actual)| stored != actual) {
        Some((what, stored, actual)) => Err(SpaceError::GeometryChanged { what, stored, actual }),
        None => Ok(()),
    }
}

/// What a scanned zone is to us.
fn slot_of(zone: &Scanned) -> Slot {
    let lost = lost(zone.report.state);
    let active = zone.report.state.is_active();
    if zone.is_split {
        return Slot { state: lost.unwrap_or(ZoneUse::Split), ..Slot::FREE };
    }
    if let Some(header) = zone.intact() {
        let held = if active { ZoneUse::Partial } else { ZoneUse::Sealed };
        let state = lost.unwrap_or(if header.stream.is_none() { ZoneUse::Retired } else { held });
        return Slot { state, stream: header.stream, holds: header.holds, generation: header.generation, ..Slot::FREE };
    }
    if let Some(state) = lost {
        return Slot { state, ..Slot::FREE };
    }
    // Headers are written first and alone: whoever has more behind a bad one was damaged, not interrupted.
    let interrupted = active && zone.written_blocks <= 1 || zone.blank;
    if interrupted || !zone.is_written() {
        return Slot { torn: zone.report.state != ZoneState::Empty, ..Slot::FREE };
    }
    // Of a subzone nothing else would know that it is not full.
    Slot { state: ZoneUse::Damaged, unfinished: zone.is_subzone && active, ..Slot::FREE }
}

fn damaged_zone(zone: &Scanned, fault: HeaderFault) -> DamagedZone {
    DamagedZone { zone: zone.report.zone, written_blocks: zone.written_blocks, why: fault.describe() }
}
