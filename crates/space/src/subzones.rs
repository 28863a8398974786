//! Split zones: zones of which every subzone is written, finished and reset alone.
//!
//! A subzone is a zone here, with a number behind those of the zones (see [`Space::subzone_view`]), a header with a generation of its
//! own, a [`ZoneWriter`], live bytes, and a [reset](Space::reset). What is different: it holds no token; its zone does.
//!
//! Life of a split zone: 1 a free zone is [split](Space::split_zone), with a token -> 2 its subzones are
//! [opened](Space::open_subzone), written, sealed and reset, in any order -> 3 when none is being written it can be
//! [finished](Space::finish_split), which gives the token back; opening a subzone takes one again -> 4 when all are empty it is
//! [joined](Space::join) and free.
//!
//! After a crash a zone is split or not as the device says. A subzone of which nothing but its header became durable is torn, and reset
//! before it is opened again, as a zone is.

use zonda_device::{SplitZones, ZoneId, ZonedDevice, cut_label};

use crate::table::{Pick, Slot, Table};
use crate::units::Units;
use crate::{BLOCK_BYTES, Result, Space, SpaceError, StreamId, Urgency, ZoneUse, ZoneView, ZoneWriter};

/// A split zone in numbers of its subzones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitZoneUse {
    /// The zone.
    pub zone: ZoneId,
    /// Subzones that are sealed, or can never be written again.
    pub full: u32,
    /// Subzones with nothing in them, but for those that failed when they were last opened.
    pub empty: u32,
    /// Subzones that have a writer, or had one when it was dropped.
    pub written: u32,
    /// Whether it holds an active token.
    pub is_active: bool,
    /// When a subzone of it was last opened: a generation.
    pub used: u64,
    /// Bytes of its full subzones that nobody wants: not written, or dead.
    pub wasted_bytes: u64,
}

impl Space {
    /// Subzones of a zone of a device; see [`subzones`](Self::subzones).
    ///
    /// # Errors
    /// `BadGeometry`.
    pub fn subzones_on(device: &dyn ZonedDevice) -> Result<Option<u32>> {
        Ok(Units::on(device)?.parts.map(|parts| parts.count))
    }

    /// Subzones of a zone; `None` if the device does not split zones, or its subzones are too small to hold anything.
    #[must_use]
    pub fn subzones(&self) -> Option<u32> {
        self.core.units.parts.map(|parts| parts.count)
    }

    /// Bytes that a subzone holds after its header.
    #[must_use]
    pub fn subzone_bytes(&self) -> Option<u64> {
        self.core.units.parts.map(|parts| (parts.blocks - 1) * BLOCK_BYTES as u64)
    }

    /// Whether a number is that of a subzone.
    #[must_use]
    pub fn is_subzone(&self, zone: ZoneId) -> bool {
        self.core.units.subzone(zone).is_some()
    }

    /// All subzones of split zones, as zones with numbers of their own: subzone `i` of zone `z` is zone
    /// `zones + z * subzones + i`.
    #[must_use]
    pub fn subzone_view(&self) -> Vec<ZoneView> {
        let table = self.core.table.lock();
        table.subzones().map(|(zone, slot)| self.core.view_of(zone, slot)).collect()
    }

    /// All split zones, by number. Cost: one pass over their subzones.
    #[must_use]
    pub fn split_view(&self) -> Vec<SplitZoneUse> {
        let table = self.core.table.lock();
        let split = table.slots().filter(|(_, slot)| slot.state == ZoneUse::Split);
        let of = |(zone, slot): (ZoneId, &Slot)| {
            let (is_active, used) = (table.is_active(zone), slot.generation);
            let start = SplitZoneUse { zone, full: 0, empty: 0, written: 0, is_active, used, wasted_bytes: 0 };
            table.subzones_of(zone).fold(start, |sum, (id, slot)| self.counted(sum, id, slot))
        };
        split.map(of).collect()
    }

    fn counted(&self, sum: SplitZoneUse, id: ZoneId, slot: &Slot) -> SplitZoneUse {
        match slot.state {
            ZoneUse::Free if slot.refused => sum,
            ZoneUse::Free => SplitZoneUse { empty: sum.empty + 1, ..sum },
            ZoneUse::Open | ZoneUse::Partial | ZoneUse::Changing => SplitZoneUse { written: sum.written + 1, ..sum },
            _ => {
                let wasted = self.core.units.data_bytes_of(id).saturating_sub(self.live_bytes(id));
                SplitZoneUse { full: sum.full + 1, wasted_bytes: sum.wasted_bytes + wasted, ..sum }
            }
        }
    }

    /// Whether a stream may open another zone, or activate another split one.
    #[must_use]
    pub fn has_token(&self, stream: StreamId) -> bool {
        self.core.table.lock().has_token(stream)
    }

    fn splitter(&self) -> Result<&dyn SplitZones> {
        let what = "splitting zones";
        self.core.device.split_zones().ok_or(SpaceError::Device(zonda_device::DeviceError::NotSupported { what }))
    }

    /// Splits a free zone for a stream: takes an active token. Cost: one device command.
    ///
    /// # Errors
    /// As [`open_zone`](Self::open_zone); `Device` where zones are not split.
    pub fn split_zone(&self, stream: StreamId, urgency: Urgency) -> Result<ZoneId> {
        let _allocation = self.core.allocation.lock();
        self.tidy()?;
        let pick = |table: &mut Table| table.pick(stream, urgency);
        let has_token = |table: &Table| table.has_token(stream);
        Ok(self.prepare_first(&pick, &|pick| self.prepare_split(pick), &has_token)?.zone)
    }

    fn prepare_split(&self, pick: Pick) -> Result<()> {
        let split = self.splitter()?;
        if pick.reset_first {
            self.core.reset(pick.zone)?;
        }
        let _label = cut_label("split");
        split.split(pick.zone)?;
        self.core.gauges.restart(pick.zone, 0);
        let mut table = self.core.table.lock();
        self.core.units.subzones_of(pick.zone).for_each(|id| table.set(ZoneId(id), Slot::FREE, false));
        table.set_state(pick.zone, ZoneUse::Split, true);
        Ok(())
    }

    /// Opens the lowest empty subzone of a split zone and writes its header; takes a token if the zone was finished. Cost: one
    /// block written; rarely a reset of what an earlier opening left behind.
    ///
    /// # Errors
    /// `WrongState` if the zone is not split; `NoSpace` if no subzone of it is empty; `StreamFull`, `TokensHeld`: nothing was changed.
    /// `Device`: those that failed, up to eight, are empty again and taken last.
    pub fn open_subzone(&self, zone: ZoneId) -> Result<ZoneWriter> {
        let _allocation = self.core.allocation.lock();
        self.tidy()?;
        let opened = self.pick_and_prepare_subzone(zone);
        if opened.is_err() {
            self.ask_for_token(zone)?;
        }
        let pick = opened?;
        let writer = ZoneWriter::new(self.clone(), pick.zone, pick.stream, pick.generation, 1);
        self.release_retired()?;
        Ok(writer)
    }

    fn pick_and_prepare_subzone(&self, zone: ZoneId) -> Result<Pick> {
        let pick = |table: &mut Table| table.pick_subzone(zone);
        self.prepare_first(&pick, &|pick| self.prepare(pick), &|table| table.is_active(zone))
    }

    /// After a failure: the device knows whether a split zone is active.
    fn ask_for_token(&self, zone: ZoneId) -> Result<()> {
        let is_active = match self.core.ask(zone) {
            Ok(asked) => asked.active,
            // Whoever opened it hears why.
            Err(_) => return Ok(()),
        };
        let mut table = self.core.table.lock();
        if table.slot(zone).state == ZoneUse::Split {
            table.set_state(zone, ZoneUse::Split, is_active);
        }
        Ok(())
    }

    /// Gives the token of a split zone back. Cost: one device command.
    ///
    /// # Errors
    /// `WrongState` if it is not split, or a subzone is being written; `Device`.
    pub fn finish_split(&self, zone: ZoneId) -> Result<()> {
        let _allocation = self.core.allocation.lock();
        self.check_split(zone, "split, with no subzone being written", &|state| {
            !matches!(state, ZoneUse::Open | ZoneUse::Partial | ZoneUse::Changing)
        })?;
        if !self.core.table.lock().is_active(zone) {
            return Ok(());
        }
        let _label = cut_label("finish");
        if let Err(error) = self.splitter()?.finish(zone) {
            // One that is lost as a whole has given it back already.
            self.ask_for_token(zone)?;
            return if self.core.table.lock().is_active(zone) { Err(error.into()) } else { Ok(()) };
        }
        self.core.table.lock().set_state(zone, ZoneUse::Split, false);
        Ok(())
    }

    /// Makes an ordinary free zone of a split one in which nothing is. Cost: one device command, and one for each subzone that an
    /// interrupted opening left torn.
    ///
    /// # Errors
    /// `WrongState` if it is not split, or a subzone is not empty; `Device`.
    pub fn join(&self, zone: ZoneId) -> Result<()> {
        let _allocation = self.core.allocation.lock();
        self.check_split(zone, "split, with all subzones empty", &|state| state == ZoneUse::Free)?;
        let torn: Vec<ZoneId> = {
            let table = self.core.table.lock();
            table.subzones_of(zone).filter(|(_, slot)| slot.torn).map(|(id, _)| id).collect()
        };
        for id in torn {
            self.core.reset(id)?;
            self.core.table.lock().set(id, Slot::FREE, false);
        }
        let _label = cut_label("join");
        self.splitter()?.join(zone)?;
        self.core.free(zone);
        Ok(())
    }

    fn check_split(&self, zone: ZoneId, needed: &'static str, is_allowed: &dyn Fn(ZoneUse) -> bool) -> Result<()> {
        let table = self.core.table.lock();
        let state = table.slot(zone).state;
        let refused = table.subzones_of(zone).find(|(_, slot)| !is_allowed(slot.state));
        match refused {
            _ if state != ZoneUse::Split => Err(SpaceError::WrongState { zone, state: state.name(), needed }),
            Some((zone, slot)) => Err(SpaceError::WrongState { zone, state: slot.state.name(), needed }),
            None => Ok(()),
        }
    }
}
