//! The state of every zone and the active tokens: a plain value, changed under one lock, without I/O.
//!
//! Life of a zone: 1 free -> 2 changing (token taken, header being written) -> 3 open -> 4 sealed (token returned) ->
//! 5 changing (being reset) -> 1. A writer that is dropped leaves its zone partly written, from where it is adopted (3) or sealed
//! (4). The newest zone is retired instead of reset, until a newer header is durable.

use std::collections::BTreeSet;

use zonda_device::ZoneId;

use crate::budget::{Budget, Share};
use crate::stream::STREAM_ID_MAX;
use crate::units::Units;
use crate::{Result, SpaceError, StreamId, StreamSet, Urgency, ZoneCounts, ZoneUse};

/// One zone.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) state: ZoneUse,
    pub(crate) stream: Option<StreamId>,
    pub(crate) holds: StreamSet,
    pub(crate) generation: u64,
    pub(crate) relocating: bool,
    /// Free as far as we are concerned, but the device holds the rest of an interrupted allocation.
    pub(crate) torn: bool,
    /// Partly written, and nobody goes on: the device did not finish it. It is tried again when its token is needed.
    pub(crate) unfinished: bool,
    /// Free, but the device failed when it was last opened. It is taken when no other is left.
    pub(crate) refused: bool,
}

impl Slot {
    pub(crate) const FREE: Self = Self {
        state: ZoneUse::Free,
        stream: None,
        holds: StreamSet::EMPTY,
        generation: 0,
        relocating: false,
        torn: false,
        unfinished: false,
        refused: false,
    };
}

/// All zones. Always: `free` holds exactly the free zones; `tokens` those that the device counts as active, at most
/// `active_max` once zones are opened (I2).
#[derive(Debug)]
pub(crate) struct Table {
    /// Zones, and subzones behind them. Subzones count only while their zone is split; they are in neither set.
    slots: Vec<Slot>,
    units: Units,
    free: BTreeSet<u32>,
    tokens: BTreeSet<u32>,
    retired: u32,
    /// Zones that can never be written again.
    lost: u32,
    /// Zones named after each stream.
    by_stream: [u32; STREAM_ID_MAX as usize + 1],
    pub(crate) budget: Budget,
    pub(crate) active_max: u32,
    pub(crate) reserve_zones: u32,
    /// The highest generation ever given to a zone, even if its header was never written.
    pub(crate) issued: u64,
    /// The highest generation whose header is written.
    pub(crate) written: u64,
    /// The highest generation whose header is known to be durable.
    pub(crate) durable: u64,
    pub(crate) zones_reset: u64,
    /// Counts events for which a waiting writer should look again.
    pub(crate) wakes: u64,
}

/// A free zone that was given to a writer; its header is not written yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    pub(crate) zone: ZoneId,
    pub(crate) generation: u64,
    pub(crate) stream: StreamId,
    pub(crate) holds: StreamSet,
    /// Whether the device must reset it first.
    pub(crate) reset_first: bool,
}

impl Table {
    pub(crate) fn new(units: Units, budget: Budget, active_max: u32, reserve_zones: u32) -> Self {
        Self {
            slots: vec![Slot::FREE; units.ids() as usize],
            units,
            free: (0..units.zone_count).collect(),
            tokens: BTreeSet::new(),
            retired: 0,
            lost: 0,
            by_stream: [0; STREAM_ID_MAX as usize + 1],
            budget,
            active_max,
            reserve_zones,
            issued: 0,
            written: 0,
            durable: 0,
            zones_reset: 0,
            wakes: 0,
        }
    }

    pub(crate) fn slot(&self, zone: ZoneId) -> &Slot {
        &self.slots[zone.0 as usize]
    }

    /// All zones.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (ZoneId, &Slot)> {
        (0..self.units.zone_count).map(ZoneId).zip(&self.slots)
    }

    /// The subzones of all split zones.
    pub(crate) fn subzones(&self) -> impl Iterator<Item = (ZoneId, &Slot)> {
        let split = self.slots().filter(|(_, slot)| slot.state == ZoneUse::Split);
        split.flat_map(|(zone, _)| self.subzones_of(zone))
    }

    /// The subzones of one zone.
    pub(crate) fn subzones_of(&self, zone: ZoneId) -> impl Iterator<Item = (ZoneId, &Slot)> {
        self.units.subzones_of(zone).map(|id| (ZoneId(id), &self.slots[id as usize]))
    }

    pub(crate) fn free_zones(&self) -> u32 {
        count(&self.free)
    }

    pub(crate) fn active(&self) -> u32 {
        count(&self.tokens)
    }

    /// Zones that can never be written again.
    pub(crate) fn lost_zones(&self) -> u32 {
        self.lost
    }

    /// Whether a zone holds a token.
    pub(crate) fn is_active(&self, zone: ZoneId) -> bool {
        self.tokens.contains(&zone.0)
    }

    /// Zones in this state. Cost: one pass.
    pub(crate) fn zones_in(&self, state: ZoneUse) -> Vec<ZoneId> {
        self.slots().filter(|(_, slot)| slot.state == state).map(|(zone, _)| zone).collect()
    }

    /// Zones and subzones in this state. Cost: one pass.
    pub(crate) fn all_in(&self, state: ZoneUse) -> Vec<ZoneId> {
        let all = self.slots().chain(self.subzones());
        all.filter(|(_, slot)| slot.state == state).map(|(zone, _)| zone).collect()
    }

    /// Torn zones that the device counts as active. Others are reset when they are taken.
    pub(crate) fn torn(&self) -> Vec<ZoneId> {
        self.tokens.iter().map(|&zone| ZoneId(zone)).filter(|&zone| self.slot(zone).torn).collect()
    }

    /// Zones in this state that the device counts as active.
    pub(crate) fn active_in(&self, state: ZoneUse) -> Vec<ZoneId> {
        self.tokens.iter().map(|&zone| ZoneId(zone)).filter(|&zone| self.slot(zone).state == state).collect()
    }

    /// Zones and subzones that keep a token because the device did not finish them. Cost: one pass.
    pub(crate) fn unfinished(&self) -> Vec<ZoneId> {
        let all = self.slots().chain(self.subzones());
        all.filter(|(_, slot)| slot.unfinished).map(|(zone, _)| zone).collect()
    }

    /// Puts a zone into a state; `active` says whether the device counts it as active.
    pub(crate) fn set(&mut self, zone: ZoneId, slot: Slot, active: bool) {
        if zone.0 >= self.units.zone_count {
            self.slots[zone.0 as usize] = slot;
            return;
        }
        put(&mut self.free, zone, slot.state == ZoneUse::Free);
        put(&mut self.tokens, zone, active);
        let before = std::mem::replace(&mut self.slots[zone.0 as usize], slot.clone());
        self.retired -= u32::from(before.state == ZoneUse::Retired);
        self.retired += u32::from(slot.state == ZoneUse::Retired);
        let is_lost = |slot: &Slot| matches!(slot.state, ZoneUse::ReadOnly | ZoneUse::Offline);
        self.lost -= u32::from(is_lost(&before));
        self.lost += u32::from(is_lost(&slot));
        if let Some(count) = before.stream.and_then(|stream| self.by_stream.get_mut(usize::from(stream.0))) {
            *count -= 1;
        }
        if let Some(count) = slot.stream.and_then(|stream| self.by_stream.get_mut(usize::from(stream.0))) {
            *count += 1;
        }
    }

    /// Zones in numbers. Costs nothing.
    pub(crate) fn counts(&self, stream: StreamId) -> ZoneCounts {
        let of_stream = self.by_stream.get(usize::from(stream.0)).copied().unwrap_or(0);
        let (free, retired, reserve) = (self.free_zones(), self.retired, self.reserve_zones);
        ZoneCounts { free, retired, reserve, lost: self.lost, of_stream }
    }

    /// Changes a zone's state and keeps what it holds.
    pub(crate) fn set_state(&mut self, zone: ZoneId, state: ZoneUse, active: bool) {
        let slot = Slot { state, unfinished: false, ..self.slot(zone).clone() };
        self.set(zone, slot, active);
    }

    /// A zone of an earlier life has this generation.
    pub(crate) fn note_generation(&mut self, generation: u64) {
        self.issued = self.issued.max(generation);
        self.written = self.written.max(generation);
    }

    /// Marks whether a zone's live data is being moved; returns whether that changed anything.
    pub(crate) fn set_relocating(&mut self, zone: ZoneId, relocating: bool) -> bool {
        let slot = &mut self.slots[zone.0 as usize];
        std::mem::replace(&mut slot.relocating, relocating) != relocating
    }

    /// Makes a zone free and counts the wake-up that this is for waiting writers.
    pub(crate) fn set_free(&mut self, zone: ZoneId) {
        let refused = self.slot(zone).refused;
        self.set(zone, Slot { refused, ..Slot::FREE }, false);
        self.wakes += 1;
    }

    /// Takes the lowest free zone that was not refused, else the lowest, and a token for a stream, or `None` if no free zone may be taken.
    /// The lowest: a device in a file then grows no more than it must.
    ///
    /// # Errors
    /// `NoSuchStream`, `StreamFull`, `TokensHeld`; nothing is taken.
    pub(crate) fn pick(&mut self, stream: StreamId, urgency: Urgency) -> Result<Option<Pick>> {
        let share = self.budget.share_of(stream).cloned().ok_or(SpaceError::NoSuchStream(stream))?;
        self.check_tokens(stream, &share)?;
        let Some(zone) = self.takeable(urgency) else {
            return Ok(None);
        };
        let before = self.slot(zone);
        let reset_first = before.torn || before.state == ZoneUse::Retired;
        self.issued += 1;
        let pick = Pick { zone, generation: self.issued, stream: share.stream, holds: share.streams, reset_first };
        self.take(pick);
        Ok(Some(pick))
    }

    fn take(&mut self, pick: Pick) {
        let slot = Slot {
            state: ZoneUse::Changing,
            stream: Some(pick.stream),
            holds: pick.holds,
            generation: pick.generation,
            ..Slot::FREE
        };
        self.set(pick.zone, slot, true);
        assert!(self.active() <= self.active_max, "I2 {} of {} zones active", self.active(), self.active_max);
    }

    /// Takes an empty subzone of a split zone, the lowest that was not refused, else the lowest, and a token if the zone was finished;
    /// `None` if it has none.
    ///
    /// # Errors
    /// `WrongState` for a zone that is not split, `StreamFull`, `TokensHeld`; nothing is taken.
    pub(crate) fn pick_subzone(&mut self, zone: ZoneId) -> Result<Option<Pick>> {
        let split = self.slot(zone).clone();
        let share = split.stream.and_then(|stream| self.budget.share_of(stream).cloned());
        let Some(share) = share.filter(|_| split.state == ZoneUse::Split) else {
            return Err(SpaceError::WrongState { zone, state: split.state.name(), needed: "split" });
        };
        let empty = || self.subzones_of(zone).filter(|(_, slot)| slot.state == ZoneUse::Free);
        let best = empty().find(|(_, slot)| !slot.refused).or_else(|| empty().next());
        let Some((id, torn)) = best.map(|(id, slot)| (id, slot.torn)) else { return Ok(None) };
        if !self.is_active(zone) {
            self.check_tokens(share.stream, &share)?;
        }
        self.issued += 1;
        let generation = self.issued;
        let pick = Pick { zone: id, generation, stream: share.stream, holds: share.streams, reset_first: torn };
        self.take(pick);
        self.set(zone, Slot { generation, ..split }, true);
        assert!(self.active() <= self.active_max, "I2 {} of {} zones active", self.active(), self.active_max);
        Ok(Some(pick))
    }

    /// Whether a stream may open another zone.
    pub(crate) fn has_token(&self, stream: StreamId) -> bool {
        self.budget.share_of(stream).is_some_and(|share| self.check_tokens(stream, share).is_ok())
    }

    /// Whether a stream may open another zone, now or when one of its zones is done that is just being finished or reset.
    pub(crate) fn will_have_token(&self, stream: StreamId) -> bool {
        let is_of = |share: &Share, zone: &ZoneId| self.slot(*zone).stream.is_some_and(|of| share.streams.contains(of));
        let gives_back = |share| self.active_in(ZoneUse::Changing).iter().any(|zone| is_of(share, zone));
        self.has_token(stream) || self.budget.share_of(stream).is_some_and(gives_back)
    }

    fn check_tokens(&self, stream: StreamId, share: &Share) -> Result<()> {
        let held = self.held_by(share);
        if held >= share.zones {
            return Err(SpaceError::StreamFull { stream, held, held_max: share.zones });
        }
        if self.active() >= self.active_max {
            return Err(SpaceError::TokensHeld { active: self.active(), active_max: self.active_max });
        }
        Ok(())
    }

    /// Tokens of the zones whose stream belongs to this share. Those that the device does not finish are nobody's: they would keep a
    /// stream of one zone from ever having another.
    fn held_by(&self, share: &Share) -> u32 {
        let stream_of = |&zone: &u32| self.slot(ZoneId(zone)).stream.filter(|_| !self.slot(ZoneId(zone)).unfinished);
        let held = self.tokens.iter().filter_map(stream_of).filter(|&stream| share.streams.contains(stream)).count();
        u32::try_from(held).expect("no more tokens than zones")
    }

    fn takeable(&self, urgency: Urgency) -> Option<ZoneId> {
        let kept = match urgency {
            Urgency::Foreground => self.reserve_zones,
            Urgency::Reserve => 0,
        };
        if self.free_zones() > kept {
            let mut free = self.free.iter().map(|&zone| ZoneId(zone));
            let is_good = |zone: &ZoneId| !self.slot(*zone).refused;
            return free.clone().find(is_good).or_else(|| free.next());
        }
        // The very last resort of a relocation: give up the zone that keeps the newest generation number.
        let last_resort = urgency == Urgency::Reserve && self.free.is_empty();
        last_resort.then(|| self.zones_in(ZoneUse::Retired).first().copied()).flatten()
    }
}

fn put(set: &mut BTreeSet<u32>, zone: ZoneId, member: bool) {
    if member {
        set.insert(zone.0);
    } else {
        set.remove(&zone.0);
    }
}

fn count(set: &BTreeSet<u32>) -> u32 {
    u32::try_from(set.len()).expect("no more members than zones")
}
