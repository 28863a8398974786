//! The one zone state machine: every state, transition and limit of NVMe ZNS, without any I/O.
//!
//! Always: open and active zones are within the geometry's limits (I2); `written <= capacity`; the write pointer of a
//! zone is its start plus `written`; the set of implicitly open zones is ordered by the time of opening. Every backend
//! drives one machine under its own lock.
use std::collections::BTreeSet;

use crate::{DeviceError, Geometry, Lba, Result, ZoneId, ZoneReport, ZoneState};

/// One zone. `written` counts submitted blocks: it moves when a write begins and moves back if the write fails.
#[derive(Clone, Copy, Debug)]
struct Zone {
    state: ZoneState,
    written: u64,
    in_flight: u32,
    /// Where the first of the writes that failed began, as long as others are in flight: those behind it are void, however they go.
    lost_from: Option<u64>,
    /// Tick at which the zone was opened implicitly: the oldest is closed first.
    opened: u64,
}

/// The states of all zones of a device, and the resources they hold.
///
/// A write has two halves: [`begin_write`](Self::begin_write) checks it, opens the zone and moves the write pointer;
/// [`end_write`](Self::end_write) says how the I/O went. Between the two nothing is locked, so writes to many zones are
/// in flight at once. After one that failed no other is begun in its zone until those in flight there have ended: they might land on it.
/// Cost: O(1), O(log open zones) for opening and closing.
#[derive(Clone, Debug)]
pub struct ZoneMachine {
    geometry: Geometry,
    zones: Vec<Zone>,
    implicit: BTreeSet<(u64, ZoneId)>,
    open: u32,
    active: u32,
    tick: u64,
}

/// The right to write some blocks; must be given back to [`ZoneMachine::end_write`].
#[derive(Debug)]
#[must_use = "a write in flight keeps its zone busy until end_write"]
pub struct WriteGrant {
    zone: ZoneId,
    offset: u64,
    blocks: u64,
    /// The zone's state before.
    from: ZoneState,
}

impl WriteGrant {
    /// The zone to write.
    #[must_use]
    pub fn zone(&self) -> ZoneId {
        self.zone
    }

    /// Blocks from the zone's start to the first one to write.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Blocks to write.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
}

impl ZoneMachine {
    /// A device whose zones are all empty. The geometry must be valid.
    #[must_use]
    pub fn new(geometry: Geometry) -> Self {
        let empty = Zone { state: ZoneState::Empty, written: 0, in_flight: 0, lost_from: None, opened: 0 };
        let zones = vec![empty; geometry.zone_count as usize];
        Self { geometry, zones, implicit: BTreeSet::new(), open: 0, active: 0, tick: 0 }
    }

    /// The geometry.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Zones open now.
    #[must_use]
    pub fn open_count(&self) -> u32 {
        self.open
    }

    /// Zones open or closed now.
    #[must_use]
    pub fn active_count(&self) -> u32 {
        self.active
    }

    /// State of a zone, which must exist.
    #[must_use]
    pub fn state(&self, zone: ZoneId) -> ZoneState {
        self.zones[zone.0 as usize].state
    }

    /// Blocks of a zone that hold data, from its start. Also known for zones without a write pointer.
    #[must_use]
    pub fn written_blocks(&self, zone: ZoneId) -> u64 {
        self.zones[zone.0 as usize].written
    }

    /// Reports up to `count` zones from `first`.
    ///
    /// # Errors
    /// `NoSuchZone`.
    pub fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        self.geometry.check_zone(first)?;
        let end = first.0.saturating_add(count).min(self.geometry.zone_count);
        Ok((first.0..end).map(|z| self.report_one(ZoneId(z))).collect())
    }

    fn report_one(&self, id: ZoneId) -> ZoneReport {
        let (zone, start) = (&self.zones[id.0 as usize], self.geometry.zone_start(id));
        ZoneReport {
            zone: id,
            state: zone.state,
            start,
            capacity_blocks: self.geometry.zone_capacity_blocks,
            write_pointer: zone.state.has_write_pointer().then(|| start.plus(zone.written)),
        }
    }

    /// Checks a read and returns how many of its blocks, from the first, hold data; the rest reads as zeros.
    ///
    /// # Errors
    /// `OutOfRange`, `Boundary`, `Offline`.
    pub fn readable_blocks(&self, at: Lba, blocks: u64) -> Result<u64> {
        let (id, offset) = self.geometry.check_span(at, blocks)?;
        let zone = &self.zones[id.0 as usize];
        if zone.state == ZoneState::Offline {
            return Err(DeviceError::Offline { zone: id });
        }
        Ok(zone.written.saturating_sub(offset).min(blocks))
    }

    /// Begins a write at the write pointer.
    ///
    /// # Errors
    /// As [`ZonedDevice::write`](crate::ZonedDevice::write); nothing has changed then.
    pub fn begin_write(&mut self, at: Lba, blocks: u64) -> Result<WriteGrant> {
        let (id, offset) = self.geometry.check_span(at, blocks)?;
        self.check_writable(id)?;
        self.check_fits(id, offset, blocks)?;
        let written = self.zones[id.0 as usize].written;
        if offset != written {
            let write_pointer = self.geometry.zone_start(id).plus(written);
            return Err(DeviceError::InvalidWrite { zone: id, at, write_pointer });
        }
        self.grant(id, blocks)
    }

    /// Begins a write wherever the write pointer is.
    ///
    /// # Errors
    /// As [`ZonedDevice::append`](crate::ZonedDevice::append); nothing has changed then.
    pub fn begin_append(&mut self, id: ZoneId, blocks: u64) -> Result<WriteGrant> {
        self.geometry.check_zone(id)?;
        if let Some(max) = self.geometry.append_blocks_max
            && blocks > u64::from(max)
        {
            return Err(DeviceError::AppendTooLong { blocks, max });
        }
        self.check_writable(id)?;
        self.check_fits(id, self.zones[id.0 as usize].written, blocks)?;
        self.grant(id, blocks)
    }

    fn check_writable(&self, id: ZoneId) -> Result<()> {
        let zone = &self.zones[id.0 as usize];
        match zone.state {
            ZoneState::Full => Err(DeviceError::Full { zone: id }),
            ZoneState::ReadOnly => Err(DeviceError::ReadOnly { zone: id }),
            ZoneState::Offline => Err(DeviceError::Offline { zone: id }),
            _ if zone.lost_from.is_some() => Err(DeviceError::SequenceLost { zone: id }),
            _ if zone.written == self.geometry.zone_capacity_blocks => Err(DeviceError::Full { zone: id }),
            _ => Ok(()),
        }
    }

    fn check_fits(&self, id: ZoneId, offset: u64, blocks: u64) -> Result<()> {
        let (start, capacity) = (self.geometry.zone_start(id), self.geometry.zone_capacity_blocks);
        if offset + blocks <= capacity {
            return Ok(());
        }
        let (at, end) = (start.plus(offset), start.plus(capacity));
        Err(DeviceError::Boundary { zone: id, at, blocks, end })
    }

    fn grant(&mut self, id: ZoneId, blocks: u64) -> Result<WriteGrant> {
        let from = self.state(id);
        if !from.is_open() {
            self.take_resources(id)?;
            self.enter(id, ZoneState::ImplicitOpen);
        }
        let zone = &mut self.zones[id.0 as usize];
        let offset = zone.written;
        zone.written += blocks;
        zone.in_flight += 1;
        Ok(WriteGrant { zone: id, offset, blocks, from })
    }

    /// Takes back the newest write of its zone, of which nothing was done: the zone is as before it. One that was closed to make
    /// room stays closed.
    pub(crate) fn withdraw_write(&mut self, grant: WriteGrant) {
        let zone = &mut self.zones[grant.zone.0 as usize];
        assert_eq!(zone.written, grant.offset + grant.blocks, "I1 a write of {} is not its newest", grant.zone);
        zone.in_flight -= 1;
        zone.written = grant.offset;
        if zone.state != grant.from {
            self.enter(grant.zone, grant.from);
        }
    }

    /// Ends a write; those of a zone end in any order. After a failure the write pointer is back where the first write that failed began,
    /// and writes in flight behind it have failed too.
    ///
    /// # Errors
    /// `SequenceLost` if a write before it in the zone failed meanwhile: this one is void, however it went.
    pub fn end_write(&mut self, grant: WriteGrant, succeeded: bool) -> Result<()> {
        let capacity = self.geometry.zone_capacity_blocks;
        let zone = &mut self.zones[grant.zone.0 as usize];
        assert!(zone.in_flight > 0, "I1 a write of {} ended twice", grant.zone);
        zone.in_flight -= 1;
        let lost = zone.lost_from.is_some_and(|from| from < grant.offset);
        if !succeeded && !lost {
            zone.written = grant.offset;
            zone.lost_from = Some(grant.offset);
        }
        if zone.in_flight == 0 {
            zone.lost_from = None;
        }
        if zone.written == capacity && zone.in_flight == 0 && zone.state.is_active() {
            self.enter(grant.zone, ZoneState::Full);
        }
        if lost { Err(DeviceError::SequenceLost { zone: grant.zone }) } else { Ok(()) }
    }

    /// Opens a zone explicitly.
    ///
    /// # Errors
    /// As [`ZonedDevice::open`](crate::ZonedDevice::open).
    pub fn open(&mut self, id: ZoneId) -> Result<()> {
        self.geometry.check_zone(id)?;
        match self.state(id) {
            ZoneState::ExplicitOpen => return Ok(()),
            ZoneState::ImplicitOpen => {}
            ZoneState::Empty | ZoneState::Closed => self.take_resources(id)?,
            from => {
                return Err(DeviceError::InvalidTransition { zone: id, from, action: "open" });
            }
        }
        self.enter(id, ZoneState::ExplicitOpen);
        Ok(())
    }

    /// Closes an open zone; closing a closed one does nothing.
    ///
    /// # Errors
    /// As [`ZonedDevice::close`](crate::ZonedDevice::close).
    pub fn close(&mut self, id: ZoneId) -> Result<()> {
        self.geometry.check_zone(id)?;
        match self.state(id) {
            state if state.is_active() => {
                self.enter(id, ZoneState::Closed);
                Ok(())
            }
            from => Err(DeviceError::InvalidTransition { zone: id, from, action: "close" }),
        }
    }

    /// Makes a zone full; finishing a full one does nothing.
    ///
    /// # Errors
    /// As [`ZonedDevice::finish`](crate::ZonedDevice::finish).
    pub fn finish(&mut self, id: ZoneId) -> Result<()> {
        self.check_idle(id, "finish")?;
        self.enter(id, ZoneState::Full);
        Ok(())
    }

    /// Empties a zone; resetting an empty one does nothing.
    ///
    /// # Errors
    /// As [`ZonedDevice::reset`](crate::ZonedDevice::reset).
    pub fn reset(&mut self, id: ZoneId) -> Result<()> {
        self.check_idle(id, "reset")?;
        self.enter(id, ZoneState::Empty);
        self.zones[id.0 as usize].written = 0;
        Ok(())
    }

    /// What [`finish`](Self::finish) and [`reset`](Self::reset) check, for backends that must do I/O first.
    ///
    /// # Errors
    /// `NoSuchZone`, `InvalidTransition` from read-only or offline, `Busy`.
    pub fn check_idle(&self, id: ZoneId, action: &'static str) -> Result<()> {
        self.geometry.check_zone(id)?;
        let zone = &self.zones[id.0 as usize];
        match zone.state {
            from @ (ZoneState::ReadOnly | ZoneState::Offline) => {
                Err(DeviceError::InvalidTransition { zone: id, from, action })
            }
            _ if zone.in_flight > 0 => Err(DeviceError::Busy { in_flight: zone.in_flight.into(), max: 0 }),
            _ => Ok(()),
        }
    }

    /// The device gives up on a zone: from any state to read-only or offline. Its resources come free.
    ///
    /// # Panics
    /// If `to` is another state.
    pub fn retire(&mut self, id: ZoneId, to: ZoneState) {
        assert!(matches!(to, ZoneState::ReadOnly | ZoneState::Offline), "a zone retires to read-only or offline");
        self.enter(id, to);
    }

    /// What a power cycle does: open zones are closed, or empty if unwritten, except those that `stays_open` keeps.
    /// Closed zones without data are empty afterwards. Nothing is in flight any more.
    pub fn power_cycle(&mut self, mut stays_open: impl FnMut(ZoneId) -> bool) {
        for id in (0..self.geometry.zone_count).map(ZoneId) {
            let zone = &mut self.zones[id.0 as usize];
            (zone.in_flight, zone.lost_from) = (0, None);
            let (state, written) = (zone.state, zone.written);
            if !state.is_active() || (state.is_open() && stays_open(id)) {
                continue;
            }
            self.enter(id, if written == 0 { ZoneState::Empty } else { ZoneState::Closed });
        }
    }

    /// Puts an empty zone into a remembered state; used when a device is opened. Open zones come back closed.
    ///
    /// # Errors
    /// `Geometry` if more is written than fits; `TooManyActive` if the remembered zones exceed the limit (I2).
    pub fn restore(&mut self, id: ZoneId, state: ZoneState, written: u64) -> Result<()> {
        self.geometry.check_zone(id)?;
        let capacity = self.geometry.zone_capacity_blocks;
        crate::geometry::within("written_blocks", written, 0, capacity)?;
        let state = match state {
            s if s.is_active() && written == capacity => ZoneState::Full,
            s if s.is_active() && written == 0 => ZoneState::Empty,
            s if s.is_active() => ZoneState::Closed,
            s => s,
        };
        if state.is_active() {
            self.check_active_limit(id)?;
        }
        self.enter(id, state);
        self.zones[id.0 as usize].written = if state == ZoneState::Empty { 0 } else { written };
        Ok(())
    }

    /// Writes in flight in a zone, which must exist.
    #[must_use]
    pub fn in_flight(&self, id: ZoneId) -> u32 {
        self.zones[id.0 as usize].in_flight
    }

    /// Takes over what a device that keeps its own states says of a zone, after an error or somebody else's doing. A
    /// zone that is active here and there keeps its state: which zones the device closes by itself is its own affair.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    ///
    /// # Panics
    /// With writes in flight in the zone.
    pub fn adopt(&mut self, id: ZoneId, state: ZoneState, written: u64) -> Result<()> {
        assert_eq!(self.in_flight(id), 0, "I1 {id} is written while its state is taken over");
        let capacity = self.geometry.zone_capacity_blocks;
        if state.is_active() && self.state(id).is_active() && written < capacity {
            self.zones[id.0 as usize].written = written;
            return Ok(());
        }
        // A full zone keeps what we know of its data: the device does not tell.
        let written = match (state, self.zones[id.0 as usize].written) {
            (ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline, known) if self.state(id) == state => known,
            _ => written,
        };
        self.enter(id, ZoneState::Empty);
        self.restore(id, state, written)
    }

    /// Makes sure that the zone can become open: a free active resource if it holds none, and a free open one,
    /// for which the oldest implicitly open zone is closed if need be. Active is tested first, as drives do.
    fn take_resources(&mut self, id: ZoneId) -> Result<()> {
        if !self.state(id).is_active() {
            self.check_active_limit(id)?;
        }
        match self.geometry.max_open {
            Some(max) if self.open >= max => self.close_oldest(id, max),
            _ => Ok(()),
        }
    }

    fn check_active_limit(&self, zone: ZoneId) -> Result<()> {
        match self.geometry.max_active {
            Some(max) if self.active >= max => Err(DeviceError::TooManyActive { zone, active: self.active, max }),
            _ => Ok(()),
        }
    }

    fn close_oldest(&mut self, for_zone: ZoneId, max: u32) -> Result<()> {
        let Some(&(_, oldest)) = self.implicit.first() else {
            return Err(DeviceError::TooManyOpen { zone: for_zone, open: self.open, max });
        };
        self.enter(oldest, ZoneState::Closed);
        Ok(())
    }

    /// The only place where a state changes, so that the counts cannot drift.
    fn enter(&mut self, id: ZoneId, to: ZoneState) {
        self.tick += 1;
        let zone = &mut self.zones[id.0 as usize];
        let from = std::mem::replace(&mut zone.state, to);
        if from == ZoneState::ImplicitOpen {
            self.implicit.remove(&(zone.opened, id));
        }
        if to == ZoneState::ImplicitOpen {
            zone.opened = self.tick;
            self.implicit.insert((self.tick, id));
        }
        self.open = self.open + u32::from(to.is_open()) - u32::from(from.is_open());
        self.active = self.active + u32::from(to.is_active()) - u32::from(from.is_active());
        assert!(self.open <= self.geometry.max_open.unwrap_or(u32::MAX), "I2 {} zones open", self.open);
        assert!(self.active <= self.geometry.max_active.unwrap_or(u32::MAX), "I2 {} zones active", self.active);
    }
}
