//! Makes a store on a device.

use std::sync::Arc;

use zonda_device::{Geometry, SplitZones, ZoneId, ZoneState, ZonedDevice};

use crate::budget::Budget;
use crate::format::Identity;
use crate::options::check_features;
use crate::scan::{Scanned, scan};
use crate::table::{Slot, Table};
use crate::units::Units;
use crate::{NewStore, Result, Space, SpaceError, SpaceOptions, ZoneUse};

/// The generation of the anchor: the first of a store.
const FIRST_GENERATION: u64 = 1;

impl Space {
    /// Makes a store on an empty device, or with `overwrite` on any, and opens it. Checks everything before it writes
    /// anything. Writes one zone header (the anchor; its zone is given back once other headers are durable), so that
    /// the store is recognisable from now on.
    ///
    /// # Errors
    /// `BadOption`, `UnknownFeatures`, `BadGeometry`, `TooFewActive`, `TooFewZones`, `NotEmpty`: nothing was written.
    /// `Device`: a half-made store is not recognised as one; make it again with `overwrite`.
    pub fn format(device: Arc<dyn ZonedDevice>, new: NewStore, options: &SpaceOptions) -> Result<Self> {
        let Checked { units, table, zones, anchor } = check(device.as_ref(), &new, options)?;
        empty(device.as_ref(), &zones)?;
        let identity = identity(new, options, &units);
        let space = Self::build(device, units, identity, table);
        space.write_first_zone(anchor)?;
        Ok(space)
    }

    /// Whether [`format`](Self::format) would make this store; writes nothing.
    ///
    /// # Errors
    /// As `format`.
    pub fn check_format(device: &dyn ZonedDevice, new: &NewStore, options: &SpaceOptions) -> Result<()> {
        check(device, new, options).map(|_| ())
    }

    fn write_first_zone(&self, anchor: ZoneId) -> Result<()> {
        let core = &self.core;
        core.write_anchor(anchor, FIRST_GENERATION)?;
        core.finish(anchor)?;
        let mut table = core.table.lock();
        table.set(anchor, Slot { state: ZoneUse::Retired, generation: FIRST_GENERATION, ..Slot::FREE }, false);
        (table.issued, table.written) = (FIRST_GENERATION, FIRST_GENERATION);
        drop(table);
        self.flush()
    }
}

/// What a store that can be made begins with.
struct Checked {
    units: Units,
    table: Table,
    zones: Vec<Scanned>,
    anchor: ZoneId,
}

fn check(device: &dyn ZonedDevice, new: &NewStore, options: &SpaceOptions) -> Result<Checked> {
    new.check(options)?;
    let units = Units::on(device)?;
    let zones = scan(device, &units)?;
    let is_usable = |zone: &&Scanned| !zone.is_subzone && lost(zone.report.state).is_none();
    let usable = u32::try_from(zones.iter().filter(is_usable).count()).expect("a device has at most 2^20 zones");
    let mut table = table_for(device.geometry(), &units, usable, options)?;
    if !new.overwrite {
        refuse_written(&zones)?;
    }
    let anchor = mark_lost(&mut table, &zones)?;
    Ok(Checked { units, table, zones, anchor })
}

/// A table of free zones for this device, with its budget, which is cut down where so few zones are usable.
pub(crate) fn table_for(geometry: &Geometry, units: &Units, usable: u32, options: &SpaceOptions) -> Result<Table> {
    let limits = [geometry.max_open, geometry.max_active, options.active_limit];
    let limit = limits.into_iter().flatten().min().unwrap_or(u32::MAX);
    let budget = plan(limit, usable, options)?;
    let active_max = if limit == u32::MAX { budget.zones() } else { limit };
    Ok(Table::new(*units, budget, active_max, options.reserve_zones))
}

/// The budget, cut down on a device with so few zones that the open ones and the reserve would fill it.
fn plan(limit: u32, zones: u32, options: &SpaceOptions) -> Result<Budget> {
    let kept = options.reserve_zones.saturating_add(1);
    let room = zones.saturating_sub(kept);
    match Budget::plan(limit.min(room), &options.streams) {
        Err(SpaceError::TooFewActive { needed, .. }) if needed <= limit => {
            Err(SpaceError::TooFewZones { zones, needed: needed.saturating_add(kept) })
        }
        planned => planned,
    }
}

fn identity(new: NewStore, options: &SpaceOptions, units: &Units) -> Identity {
    debug_assert!(check_features(new.features, options).is_ok(), "checked with the options");
    Identity {
        store: new.id,
        client: options.client,
        features: new.features,
        superblock: new.superblock,
        zone_count: units.zone_count,
        zone_size_blocks: units.zone_size,
        zone_capacity_blocks: units.zone_capacity,
    }
}

fn refuse_written(zones: &[Scanned]) -> Result<()> {
    let written = zones.iter().filter(|zone| zone.is_written());
    let written_zones = u32::try_from(written.clone().count()).expect("no more than there are zones");
    let Some(first) = written.clone().next() else {
        return Ok(());
    };
    let header = written.filter_map(Scanned::intact).next();
    let holds = header.map_or("unknown data".to_string(), |header| format!("store {}", header.identity.store));
    let zones = u32::try_from(zones.len()).expect("a device has at most 2^20 zones");
    Err(SpaceError::NotEmpty { written_zones, zones, first: first.report.zone, holds })
}

/// Records zones that can never be written again, and finds the first that can: the anchor's.
fn mark_lost(table: &mut Table, zones: &[Scanned]) -> Result<ZoneId> {
    for zone in zones.iter().filter(|zone| !zone.is_subzone) {
        if let Some(state) = lost(zone.report.state) {
            table.set(zone.report.zone, Slot { state, ..Slot::FREE }, false);
        }
    }
    let usable = table.free_zones();
    let needed = table.reserve_zones.saturating_add(table.budget.zones()).saturating_add(1);
    let anchor = table.zones_in(ZoneUse::Free).first().copied();
    anchor.filter(|_| usable >= needed).ok_or(SpaceError::TooFewZones { zones: usable, needed })
}

/// Our word for a state in which a zone can never be written again.
pub(crate) fn lost(state: ZoneState) -> Option<ZoneUse> {
    match state {
        ZoneState::ReadOnly => Some(ZoneUse::ReadOnly),
        ZoneState::Offline => Some(ZoneUse::Offline),
        _ => None,
    }
}

/// Resets everything that is not empty, durably, before the first header is written: a crash in between leaves no
/// mixture of two stores.
fn empty(device: &dyn ZonedDevice, zones: &[Scanned]) -> Result<()> {
    let used = |zone: &&Scanned| zone.report.state != ZoneState::Empty && lost(zone.report.state).is_none();
    let mut any = false;
    for zone in zones.iter().filter(|zone| !zone.is_subzone).filter(used) {
        match device.split_zones().filter(|_| zone.is_split) {
            Some(split) => join_used(split, zone.report.zone)?,
            None => device.reset(zone.report.zone)?,
        }
        any = true;
    }
    if any {
        device.flush()?;
    }
    Ok(())
}

/// Makes an ordinary empty zone of a split one, whatever is in its subzones.
fn join_used(split: &dyn SplitZones, zone: ZoneId) -> Result<()> {
    for subzone in split.report_subzones(zone)? {
        split.reset_subzone(subzone.id)?;
    }
    Ok(split.join(zone)?)
}
