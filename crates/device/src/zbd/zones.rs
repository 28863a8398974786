//! What a zoned block device keeps in memory: what it believes of every zone, and which way each is written.
//!
//! The belief is the one zone state machine, so that requests are checked, and limits kept (I2), before the kernel sees
//! them, and errors carry numbers. Always: a zone is written through the block layer or by NVMe commands, never by both
//! while it is not empty; a zone whose state is being changed has no writes in flight; after a failed write no other is
//! begun in the zone until the device has said how the zone is.
use zonda_rt::{Condvar, Mutex, MutexGuard};

use super::descriptor::Descriptor;
use crate::{DeviceError, Geometry, Lba, Result, WriteGrant, ZoneId, ZoneMachine, ZoneReport, ZoneState};

/// Which way a zone is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Through the block layer, one write in flight.
    Block,
    /// By NVMe commands; appends may be many in flight.
    Command,
}

/// A write that was checked and has its blocks.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) grant: WriteGrant,
    pub(crate) way: Way,
}

/// How the end of a write left its zone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// As expected.
    Well,
    /// An earlier write in the zone had failed.
    Lost,
    /// Ask the device how the zone is, then call [`Zones::resume`]. Nobody writes the zone until then.
    Ask,
}

/// The zones of a device, shared by its users.
#[derive(Debug)]
pub(crate) struct Zones {
    belief: Mutex<Belief>,
    /// Something that writers wait for has changed.
    changed: Condvar,
    can_command: bool,
    are_anothers: bool,
}

#[derive(Debug)]
struct Belief {
    machine: ZoneMachine,
    /// How a zone is written, from its first write until it is empty again.
    ways: Vec<Option<Way>>,
    /// Zones whose state is being changed or asked for.
    held: Vec<ZoneId>,
    /// Zones in which a write has failed and others are still in flight.
    suspect: Vec<ZoneId>,
    /// Counts beginnings and ends, so that a report knows whether it raced with one.
    changes: u64,
}

impl Zones {
    /// The zones as the device reports them. Zones that are active without data are taken for empty: the opener resets
    /// them if it may write.
    pub(crate) fn new(geometry: &Geometry, zones: &[Descriptor], can_command: bool) -> Result<Self> {
        let mut machine = ZoneMachine::new(geometry.clone());
        for (id, zone) in (0..geometry.zone_count).map(ZoneId).zip(zones) {
            let report = zone.report(id, geometry);
            let written = if report.state == ZoneState::Offline { 0 } else { zone.written_blocks(geometry) };
            machine.restore(id, report.state, written)?;
        }
        let ways = vec![None; geometry.zone_count as usize];
        let belief = Belief { machine, ways, held: Vec::new(), suspect: Vec::new(), changes: 0 };
        Ok(Self { belief: Mutex::new(belief), changed: Condvar::new(), can_command, are_anothers: false })
    }

    /// Zones that somebody else may be writing. No limit of open and active zones holds for what is believed of them: a report
    /// looks at one zone after the other.
    pub(crate) fn of_another(geometry: &Geometry, zones: &[Descriptor]) -> Result<Self> {
        let limitless = Geometry { max_open: None, max_active: None, ..geometry.clone() };
        Ok(Self { are_anothers: true, ..Self::new(&limitless, zones, false)? })
    }

    /// Whether somebody else may be writing.
    pub(crate) fn are_anothers(&self) -> bool {
        self.are_anothers
    }

    /// Takes over what the device says of zones from `first` on, which nobody writes here.
    pub(crate) fn believe(&self, first: ZoneId, now: &[Descriptor]) -> Result<()> {
        let mut belief = self.belief.lock();
        (first.0..).map(ZoneId).zip(now).try_for_each(|(zone, now)| belief.adopt(zone, now))
    }

    /// How many of the blocks can be asked of the device; the rest reads as zeros.
    pub(crate) fn readable_blocks(&self, at: Lba, blocks: u64) -> Result<u64> {
        let belief = self.belief.lock();
        let readable = belief.machine.readable_blocks(at, blocks)?;
        let zone = belief.machine.geometry().zone_of(at);
        // Appends in flight land in any order, and behind one that failed others may have landed: only the device knows.
        let unsettled = belief.machine.in_flight(zone) > 0 || belief.check_free(zone).is_err();
        let asks = belief.way(zone) == Some(Way::Command) && unsettled;
        Ok(if asks { belief.capacity_from(at, blocks) } else { readable })
    }

    /// Begins a write at the write pointer.
    pub(crate) fn begin_write(&self, at: Lba, blocks: u64) -> Result<Ticket> {
        let mut belief = self.belief.lock();
        let (zone, _) = belief.machine.geometry().check_span(at, blocks)?;
        belief.check_free(zone)?;
        let grant = belief.machine.begin_write(at, blocks)?;
        Ok(belief.ticket(grant, Way::Block))
    }

    /// Begins an append. `None`: it must wait until the zone has no write in flight, see [`wait`](Self::wait).
    pub(crate) fn begin_append(&self, zone: ZoneId, blocks: u64) -> Result<Option<Ticket>> {
        let mut belief = self.belief.lock();
        self.begin_append_in(&mut belief, zone, blocks)
    }

    /// Begins an append, waiting for its turn.
    pub(crate) fn wait_and_append(&self, zone: ZoneId, blocks: u64) -> Result<Ticket> {
        let mut belief = self.belief.lock();
        loop {
            if let Some(ticket) = self.begin_append_in(&mut belief, zone, blocks)? {
                return Ok(ticket);
            }
            belief = self.changed.wait(belief);
        }
    }

    /// Waits until a zone has no write in flight.
    pub(crate) fn wait_for_turn(&self, zone: ZoneId) {
        let mut belief = self.belief.lock();
        while belief.machine.in_flight(zone) > 0 {
            belief = self.changed.wait(belief);
        }
    }

    fn begin_append_in(
        &self,
        belief: &mut MutexGuard<'_, Belief>,
        zone: ZoneId,
        blocks: u64,
    ) -> Result<Option<Ticket>> {
        belief.machine.geometry().check_zone(zone)?;
        belief.check_free(zone)?;
        let fresh = if self.can_command { Way::Command } else { Way::Block };
        let way = belief.way(zone).unwrap_or(fresh);
        if way == Way::Block && belief.machine.in_flight(zone) > 0 {
            return Ok(None);
        }
        let grant = belief.machine.begin_append(zone, blocks)?;
        Ok(Some(belief.ticket(grant, fresh)))
    }

    /// Ends a write.
    pub(crate) fn end(&self, ticket: Ticket, succeeded: bool) -> After {
        let mut belief = self.belief.lock();
        let zone = ticket.grant.zone();
        belief.changes += 1;
        let lost = belief.machine.end_write(ticket.grant, succeeded).is_err();
        if !succeeded && !belief.suspect.contains(&zone) {
            belief.suspect.push(zone);
        }
        let ask = belief.machine.in_flight(zone) == 0 && belief.suspect.contains(&zone);
        if ask {
            belief.suspect.retain(|&suspect| suspect != zone);
            belief.held.push(zone);
        }
        self.changed.notify_all();
        match (ask, lost) {
            (true, _) => After::Ask,
            (false, true) => After::Lost,
            (false, false) => After::Well,
        }
    }

    /// Takes over what the device says of a zone and lets it be written again. Without a report the old belief stays.
    pub(crate) fn resume(&self, zone: ZoneId, now: Option<&Descriptor>) -> Result<()> {
        let mut belief = self.belief.lock();
        let adopted = match now {
            Some(_) if belief.machine.in_flight(zone) > 0 => {
                // The last write in flight asks again.
                belief.suspect.push(zone);
                Ok(())
            }
            Some(now) => belief.adopt(zone, now),
            None => Ok(()),
        };
        belief.release(zone);
        self.changed.notify_all();
        adopted
    }

    /// Keeps writers off a zone whose state is to be changed. Ends with [`release`](Self::release) or
    /// [`resume`](Self::resume).
    pub(crate) fn hold(&self, zone: ZoneId, check: impl FnOnce(&mut ZoneMachine) -> Result<()>) -> Result<()> {
        let mut belief = self.belief.lock();
        belief.machine.geometry().check_zone(zone)?;
        if belief.held.contains(&zone) {
            return Err(DeviceError::Busy { in_flight: 1, max: 0 });
        }
        check(&mut belief.machine)?;
        belief.changes += 1;
        belief.held.push(zone);
        Ok(())
    }

    /// Takes note that the zone's state was changed, and lets it be written again.
    pub(crate) fn release(&self, zone: ZoneId, note: impl FnOnce(&mut ZoneMachine) -> Result<()>) -> Result<()> {
        let mut belief = self.belief.lock();
        belief.changes += 1;
        let noted = note(&mut belief.machine);
        belief.release(zone);
        self.changed.notify_all();
        noted
    }

    /// True if the zone is closed.
    pub(crate) fn is_closed(&self, zone: ZoneId) -> Result<bool> {
        let belief = self.belief.lock();
        belief.machine.geometry().check_zone(zone)?;
        Ok(belief.machine.state(zone) == ZoneState::Closed)
    }

    /// A number that differs after every beginning and end.
    pub(crate) fn changes(&self) -> u64 {
        self.belief.lock().changes
    }

    /// What to tell of a zone that the device describes so: what the device says, unless writes were under way between
    /// `changes` and now, or all it lacks is that a closed zone without data holds its resource (NVMe says so, other
    /// devices call it empty).
    pub(crate) fn tell(&self, zone: ZoneId, described: &Descriptor, changes: u64) -> ZoneReport {
        let belief = self.belief.lock();
        let geometry = belief.machine.geometry();
        let told = described.report(zone, geometry);
        let believed = belief.machine.report(zone, 1).ok().and_then(|reports| reports.first().copied());
        let Some(believed) = believed.filter(|_| !matches!(told.state, ZoneState::Offline | ZoneState::ReadOnly))
        else {
            return told;
        };
        let raced = changes != belief.changes || belief.machine.in_flight(zone) > 0;
        let holds = told.state == ZoneState::Empty && believed.state == ZoneState::Closed;
        if raced || holds { believed } else { told }
    }

    /// Open and active zones.
    pub(crate) fn held_resources(&self) -> (u32, u32) {
        let belief = self.belief.lock();
        (belief.machine.open_count(), belief.machine.active_count())
    }
}

impl Belief {
    fn way(&self, zone: ZoneId) -> Option<Way> {
        // What was written before we came was written through the block layer, as far as we know.
        let unknown = (self.machine.state(zone) != ZoneState::Empty).then_some(Way::Block);
        self.ways[zone.0 as usize].or(unknown.filter(|_| self.machine.written_blocks(zone) > 0))
    }

    fn check_free(&self, zone: ZoneId) -> Result<()> {
        if self.held.contains(&zone) || self.suspect.contains(&zone) {
            return Err(DeviceError::SequenceLost { zone });
        }
        Ok(())
    }

    /// The ticket for a grant; a zone that had no way yet gets the one that is `fresh`.
    fn ticket(&mut self, grant: WriteGrant, fresh: Way) -> Ticket {
        self.changes += 1;
        let zone = grant.zone();
        let known = if grant.offset() > 0 { Some(Way::Block) } else { None };
        let way = *self.ways[zone.0 as usize].get_or_insert(known.unwrap_or(fresh));
        Ticket { grant, way }
    }

    fn adopt(&mut self, zone: ZoneId, now: &Descriptor) -> Result<()> {
        let report = now.report(zone, self.machine.geometry());
        let written = report.written_blocks();
        if report.state == ZoneState::Empty {
            self.ways[zone.0 as usize] = None;
        }
        self.machine.adopt(zone, report.state, written)
    }

    /// Ends one hold: a write that fails while the zone is being closed holds it too.
    fn release(&mut self, zone: ZoneId) {
        if let Some(index) = self.held.iter().position(|&held| held == zone) {
            self.held.swap_remove(index);
        }
        if self.machine.state(zone) == ZoneState::Empty {
            self.ways[zone.0 as usize] = None;
        }
    }

    /// Blocks from `at` up to the capacity of its zone.
    fn capacity_from(&self, at: Lba, blocks: u64) -> u64 {
        let geometry = self.machine.geometry();
        geometry.zone_capacity_blocks.saturating_sub(geometry.offset_in_zone(at)).min(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, zbd::descriptor::ZoneKind};

    const Z1: ZoneId = ZoneId(1);

    /// Zone 1 of four, of 12 blocks in 16.
    fn described(state: ZoneState, blocks: u64) -> Descriptor {
        Descriptor {
            start_sector: 128,
            len_sectors: 128,
            capacity_sectors: 96,
            write_pointer_sector: 128 + 8 * blocks,
            kind: ZoneKind::SequentialRequired,
            condition: state as u8,
            non_sequential: false,
            reset_recommended: false,
        }
    }

    fn zones(can_command: bool) -> Zones {
        let geometry = Geometry::new(64 << 10, 4).with_capacity_blocks(12).with_limits(2, 3);
        Zones::new(&geometry, &[], can_command).unwrap()
    }

    fn ways(zones: &Zones) -> Way {
        let ticket = zones.begin_append(Z1, 1).unwrap().unwrap();
        let way = ticket.way;
        zones.end(ticket, true);
        way
    }

    #[test]
    fn a_zone_keeps_its_way_until_it_is_empty() {
        let zones = zones(true);
        assert_eq!(ways(&zones), Way::Command);
        let write = zones.begin_write(Lba(17), 1).unwrap();
        assert_eq!(write.way, Way::Command);
        zones.end(write, true);
        zones.hold(Z1, |machine| machine.check_idle(Z1, "reset")).unwrap();
        zones.release(Z1, |machine| machine.reset(Z1)).unwrap();
        let write = zones.begin_write(Lba(16), 1).unwrap();
        assert_eq!(write.way, Way::Block);
        zones.end(write, true);
        assert_eq!(ways(&zones), Way::Block);
    }

    #[test]
    fn an_append_through_the_block_layer_waits_for_its_turn() {
        let zones = zones(false);
        let first = zones.begin_append(Z1, 2).unwrap().unwrap();
        assert!(zones.begin_append(Z1, 1).unwrap().is_none());
        zones.end(first, true);
        assert_eq!(zones.begin_append(Z1, 1).unwrap().unwrap().grant.offset(), 2);
    }

    #[test]
    fn appends_by_command_are_many_in_flight_and_readable_as_the_device_has_them() {
        let zones = zones(true);
        let first = zones.begin_append(Z1, 2).unwrap().unwrap();
        let second = zones.begin_append(Z1, 2).unwrap().unwrap();
        assert_eq!(zones.end(second, true), After::Well);
        assert_eq!(zones.readable_blocks(Lba(16), 12).unwrap(), 12);
        assert_eq!(zones.end(first, true), After::Well);
        assert_eq!(zones.readable_blocks(Lba(16), 12).unwrap(), 4);
    }

    #[test]
    fn after_a_failure_nobody_writes_until_the_device_has_told() {
        let zones = zones(true);
        let failing = zones.begin_append(Z1, 2).unwrap().unwrap();
        let other = zones.begin_append(Z1, 3).unwrap().unwrap();
        assert_eq!(zones.end(failing, false), After::Well);
        assert_eq!(zones.begin_write(Lba(16), 1).unwrap_err().kind(), ErrorKind::SequenceLost);
        assert_eq!(zones.end(other, true), After::Ask);
        assert_eq!(zones.readable_blocks(Lba(16), 12).unwrap(), 12, "the other landed somewhere");
        assert_eq!(zones.begin_append(Z1, 1).unwrap_err().kind(), ErrorKind::SequenceLost);
        zones.resume(Z1, Some(&described(ZoneState::ImplicitOpen, 3))).unwrap();
        assert_eq!(zones.readable_blocks(Lba(16), 12).unwrap(), 3);
        let next = zones.begin_write(Lba(19), 1).unwrap();
        assert_eq!(zones.end(next, true), After::Well);
    }

    #[test]
    fn a_zone_that_the_device_gave_up_is_given_up() {
        let zones = zones(false);
        let ticket = zones.begin_write(Lba(16), 2).unwrap();
        assert_eq!(zones.end(ticket, false), After::Ask);
        zones.resume(Z1, Some(&described(ZoneState::ReadOnly, 0))).unwrap();
        assert_eq!(zones.begin_write(Lba(16), 1).unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(zones.held_resources(), (0, 0));
    }

    #[test]
    fn a_write_that_fails_lets_nobody_into_a_zone_that_is_being_closed() {
        let zones = zones(false);
        let ticket = zones.begin_write(Lba(16), 2).unwrap();
        zones.hold(Z1, |_| Ok(())).unwrap();
        assert_eq!(zones.end(ticket, false), After::Ask);
        zones.resume(Z1, Some(&described(ZoneState::ImplicitOpen, 1))).unwrap();
        assert_eq!(zones.begin_write(Lba(17), 1).unwrap_err().kind(), ErrorKind::SequenceLost);
        zones.release(Z1, |machine| machine.close(Z1)).unwrap();
        let next = zones.begin_write(Lba(17), 1).unwrap();
        assert_eq!(zones.end(next, true), After::Well);
    }

    #[test]
    fn a_report_that_raced_with_a_write_is_not_believed() {
        let zones = zones(false);
        let before = zones.changes();
        let ticket = zones.begin_write(Lba(16), 2).unwrap();
        zones.end(ticket, true);
        let stale = described(ZoneState::Empty, 0);
        assert_eq!(zones.tell(Z1, &stale, before).written_blocks(), 2);
        let fresh = described(ZoneState::Closed, 2);
        assert_eq!(zones.tell(Z1, &fresh, zones.changes()).state, ZoneState::Closed);
        let offline = described(ZoneState::Offline, 0);
        assert_eq!(zones.tell(Z1, &offline, before).state, ZoneState::Offline);
    }

    #[test]
    fn a_closed_zone_without_data_holds_its_resource() {
        let zones = zones(false);
        zones.hold(Z1, |machine| machine.open(Z1)).unwrap();
        assert_eq!(zones.begin_write(Lba(16), 1).unwrap_err().kind(), ErrorKind::SequenceLost);
        zones.release(Z1, |machine| machine.close(Z1)).unwrap();
        assert_eq!(zones.tell(Z1, &described(ZoneState::Empty, 0), zones.changes()).state, ZoneState::Closed);
        assert_eq!(zones.held_resources(), (0, 1));
    }

    #[test]
    fn zones_of_an_earlier_life_come_back() {
        let geometry = Geometry::new(64 << 10, 2).with_capacity_blocks(12).with_limits(2, 3);
        let mut first = described(ZoneState::Full, 999);
        first.start_sector = 0;
        let zones = Zones::new(&geometry, &[first, described(ZoneState::ExplicitOpen, 5)], true).unwrap();
        assert_eq!(zones.begin_write(Lba(0), 1).unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(zones.readable_blocks(Lba(16), 12).unwrap(), 5);
        assert_eq!(zones.begin_append(Z1, 1).unwrap().unwrap().way, Way::Block);
    }

    #[test]
    fn zones_of_another_are_as_they_were_described_last() {
        let geometry = Geometry::new(64 << 10, 4).with_capacity_blocks(12).with_limits(1, 1);
        let more_than_can_be_at_once = vec![described(ZoneState::ImplicitOpen, 2); 4];
        let zones = Zones::of_another(&geometry, &more_than_can_be_at_once).unwrap();
        let readable = |zones: &Zones| [16, 32].map(|at| zones.readable_blocks(Lba(at), 12).unwrap());
        assert_eq!((zones.are_anothers(), readable(&zones)), (true, [2, 2]));
        zones.believe(Z1, &[described(ZoneState::Closed, 7), described(ZoneState::Full, 0)]).unwrap();
        assert_eq!(readable(&zones), [7, 12]);
        zones.believe(Z1, &[described(ZoneState::Empty, 0), described(ZoneState::Closed, 1)]).unwrap();
        assert_eq!(readable(&zones), [0, 1]);
    }
}
