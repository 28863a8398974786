//! The data and the states of a drive that splits zones: zones on a device of smaller zones.
//!
//! A zone of the drive is `subzones` zones below and one more, its *marker*. A wide zone fills those below one after the
//! other; a split zone's subzones are those below, each written alone. The marker is finished while the zone is split and
//! empty while it is wide: so the device below, whatever it is, keeps over a crash which zones are split, and needs no
//! format of ours. Limits are those of the zones above; the device below must have none.
//!
//! After a crash a wide zone ends at its first gap, a split zone with an open subzone is open, one without is finished. A reset or
//! a FINISH that was not durable may be undone although what it gave back was used again: what would be active beyond the limits
//! (I2) is finished, as a drive may.
use std::fmt;
use std::sync::Arc;

use zonda_device::{
    AlignedBuf, DeviceCounters, DeviceError, Geometry, IoQueue, Lba, Result, SplitZones, SubzoneId, SubzoneReport,
    WriteGrant, ZoneId, ZoneMachine, ZoneReport, ZoneState, ZonedDevice,
};
use zonda_rt::Mutex;

use super::split_parts::Parts;

/// A drive's zones, wide and split, on zones that are a subzone each.
pub struct SplitData {
    parts: Parts,
    geometry: Geometry,
    state: Mutex<State>,
}

/// Always: a zone with an entry in `split` is explicitly open in the machine while it is active, and full while it is
/// not; so the one machine counts the resources of wide and split zones alike (I2).
struct State {
    machine: ZoneMachine,
    split: Vec<Option<Split>>,
    counters: DeviceCounters,
}

/// A split zone.
#[derive(Clone, Debug)]
struct Split {
    subzones: Vec<Subzone>,
    active: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Subzone {
    /// Blocks that hold data; of a lost one none for certain.
    written: u64,
    full: bool,
    /// It can never be written again.
    lost: Option<ZoneState>,
}

impl Subzone {
    fn is_open(self) -> bool {
        self.written > 0 && !self.full && self.lost.is_none()
    }

    fn is_empty(self) -> bool {
        self.written == 0 && !self.full && self.lost.is_none()
    }
}

/// Whether something became active; not, where a limit forbids it.
fn within_limits(active: Result<()>) -> Result<bool> {
    match active {
        Ok(()) => Ok(true),
        Err(DeviceError::TooManyActive { .. } | DeviceError::TooManyOpen { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

impl SplitData {
    /// The drive on a device made with [`geometry_below`](super::geometry_below); what is on it is found again.
    ///
    /// # Errors
    /// `Mismatch` if the device below has another shape; those of the device.
    pub fn over(below: Arc<dyn ZonedDevice>, geometry: Geometry, subzones: u16) -> Result<Self> {
        let parts = Parts::over(below, &geometry, subzones)?;
        let (ordered_queue, volatile_cache) = (parts.geometry().ordered_queue, parts.geometry().volatile_cache);
        let geometry = Geometry { ordered_queue, volatile_cache, ..geometry };
        let state = State {
            machine: ZoneMachine::new(geometry.clone()),
            split: vec![None; geometry.zone_count as usize],
            counters: DeviceCounters::default(),
        };
        let drive = Self { parts, geometry, state: Mutex::new(state) };
        drive.find()?;
        Ok(drive)
    }

    /// Finds what is on the device below.
    fn find(&self) -> Result<()> {
        let reports = self.parts.report_all()?;
        let state = &mut *self.state.lock();
        let mut wide = Vec::new();
        let of_zones = reports.chunks(usize::from(self.parts.subzones()) + 1);
        for (zone, parts) in (0..self.geometry.zone_count).map(ZoneId).zip(of_zones) {
            let Some((marker, parts)) = parts.split_last() else { continue };
            let subzones: Vec<Subzone> = parts.iter().map(|part| self.subzone(part)).collect();
            if marker.state == ZoneState::Full {
                self.find_split(zone, subzones, state)?;
            } else {
                wide.push((zone, subzones));
            }
        }
        wide.iter().try_for_each(|(zone, subzones)| self.find_wide(*zone, subzones, &mut state.machine))
    }

    /// A split zone with an open subzone is open. Beyond the limits its open subzones are finished.
    fn find_split(&self, zone: ZoneId, mut subzones: Vec<Subzone>, state: &mut State) -> Result<()> {
        let has_open = subzones.iter().any(|subzone| subzone.is_open());
        let active = has_open && within_limits(state.machine.open(zone))?;
        if !active {
            for (index, subzone) in (0..).zip(&mut subzones).filter(|(_, subzone)| subzone.is_open()) {
                self.parts.finish(zone, index)?;
                subzone.full = true;
            }
            state.machine.finish(zone)?;
        }
        state.split[zone.0 as usize] = Some(Split { subzones, active });
        Ok(())
    }

    fn subzone(&self, report: &ZoneReport) -> Subzone {
        let (full, lost) = (report.state == ZoneState::Full, lost(report.state));
        // A lost one has no write pointer either, but it need not hold anything.
        let unsaid = if lost.is_some() { 0 } else { self.parts.subzone_blocks() };
        let written = report.write_pointer.map_or(unsaid, |pointer| pointer.0 - report.start.0);
        Subzone { written, full, lost }
    }

    /// A wide zone ends at its first gap; what lies behind was never durable, and of a lost zone nobody will write there.
    fn find_wide(&self, zone: ZoneId, parts: &[Subzone], machine: &mut ZoneMachine) -> Result<()> {
        let whole = parts.iter().take_while(|part| part.full).count();
        let is_lost = parts.iter().any(|part| part.lost.is_some());
        for (index, part) in (0..).zip(parts).skip(whole + 1).filter(|_| !is_lost) {
            if !part.is_empty() {
                self.parts.reset(zone, index)?;
            }
        }
        self.settle(zone, parts, machine)
    }

    /// Makes a wide zone what its parts are. Beyond the limits it is finished. So is what is left of a lost one: in a file with the data
    /// a zone that was lost comes back full, and nobody may write behind the hole.
    fn settle(&self, zone: ZoneId, parts: &[Subzone], machine: &mut ZoneMachine) -> Result<()> {
        let (state, written) = self.measure(parts);
        if !within_limits(machine.adopt(zone, state, written))? {
            self.all(|index| self.parts.finish(zone, index))?;
            return machine.adopt(zone, ZoneState::Full, written);
        }
        if lost(state).is_none() {
            return Ok(());
        }
        let is_left = |part: Subzone| !part.full && part.lost.is_none();
        self.all(|index| match is_left(parts[usize::from(index)]) {
            true => self.parts.finish(zone, index),
            false => Ok(()),
        })
    }

    /// After an error below: a part of what was to be done may be, and a part of the zone may be lost.
    fn take_over(&self, zone: ZoneId, machine: &mut ZoneMachine) -> Result<()> {
        let reports = self.parts.report(zone)?;
        let parts: Vec<Subzone> = reports.iter().map(|report| self.subzone(report)).collect();
        self.settle(zone, &parts, machine)
    }

    /// Refuses ordinary commands on a split zone.
    fn check_wide(&self, state: &State, zone: ZoneId, action: &'static str) -> Result<()> {
        self.geometry.check_zone(zone)?;
        match state.split[zone.0 as usize] {
            Some(_) => Err(DeviceError::InvalidTransition { zone, from: state.machine.state(zone), action }),
            None => Ok(()),
        }
    }

    /// Does a write that the machine allowed. The state is locked over it: writes that overtook each other would not be at
    /// the write pointer below.
    fn write_wide(&self, state: &mut State, grant: WriteGrant, from: &[u8]) -> Result<Lba> {
        let (zone, offset) = (grant.zone(), grant.offset());
        let written = self.parts.write(zone, offset, from);
        let ended = state.machine.end_write(grant, written.is_ok());
        let settled = if written.is_err() { self.take_over(zone, &mut state.machine) } else { Ok(()) };
        written.and(ended).and(settled)?;
        state.counters.writes += 1;
        state.counters.written_bytes += from.len() as u64;
        Ok(self.geometry.zone_start(zone).plus(offset))
    }

    /// State and written blocks of a wide zone made of these: up to its first gap. With one that is lost it can never be filled: it is
    /// lost itself, as far as that one is.
    fn measure(&self, parts: &[Subzone]) -> (ZoneState, u64) {
        let whole = parts.iter().take_while(|part| part.full).count();
        let rest = parts.get(whole).map_or(0, |part| part.written);
        let written = whole as u64 * self.parts.subzone_blocks() + rest;
        let has_lost = |state| parts.iter().any(|part| part.lost == Some(state));
        match () {
            () if has_lost(ZoneState::Offline) => (ZoneState::Offline, written),
            () if has_lost(ZoneState::ReadOnly) => (ZoneState::ReadOnly, written),
            () if whole == parts.len() => (ZoneState::Full, written),
            () if written == 0 => (ZoneState::Empty, 0),
            () => (ZoneState::Closed, written),
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.geometry.block_bytes
    }

    /// The power goes and comes back: open wide zones are closed, split zones stay as they are.
    pub fn power_cycle(&self) {
        let State { machine, split, .. } = &mut *self.state.lock();
        machine.power_cycle(|zone| split[zone.0 as usize].is_some());
    }

    /// Makes a subzone as if only its first blocks had ever been written: what is left of it when a buffer in front of
    /// the flash was lost. If it is open then, and its zone was finished, the zone takes its resources again; where limits forbid that (I2)
    /// the subzone is finished, as after a crash.
    ///
    /// # Errors
    /// Those of the device below.
    pub fn cut_subzone(&self, id: SubzoneId, blocks: u64) -> Result<()> {
        self.check_subzone(id)?;
        let state = &mut *self.state.lock();
        let subzone = &mut state.split(id.zone, "cut a subzone of")?.subzones[usize::from(id.index)];
        // A lost one cannot be written again.
        if subzone.written <= blocks || subzone.lost.is_some() {
            return Ok(());
        }
        (subzone.written, subzone.full) = (blocks, false);
        let bytes = usize::try_from(blocks * u64::from(self.geometry.block_bytes)).expect("a subzone fits memory");
        let (start, mut kept) = (u64::from(id.index) * self.parts.subzone_blocks(), AlignedBuf::with_len(bytes));
        self.parts.read(id.zone, start, &mut kept)?;
        self.parts.reset(id.zone, id.index)?;
        self.parts.write(id.zone, start, &kept)?;
        if blocks > 0 && !within_limits(state.activate(id.zone))? {
            self.parts.finish(id.zone, id.index)?;
            state.split(id.zone, "cut a subzone of")?.subzones[usize::from(id.index)].full = true;
        }
        Ok(())
    }

    /// Finishes or resets all parts of a wide zone, from the last: one that was interrupted is not done.
    fn all(&self, action: impl Fn(u16) -> Result<()>) -> Result<()> {
        (0..self.parts.subzones()).rev().try_for_each(action)
    }

    /// The same for a caller, with what an error leaves of the zone.
    fn change_all(&self, zone: ZoneId, machine: &mut ZoneMachine, action: impl Fn(u16) -> Result<()>) -> Result<()> {
        let changed = self.all(action);
        let settled = if changed.is_err() { self.take_over(zone, machine) } else { Ok(()) };
        changed.and(settled)
    }
}

impl fmt::Debug for SplitData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SplitData").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl ZonedDevice for SplitData {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        self.state.lock().machine.report(first, count)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let (zone, offset) = self.geometry.check_span(at, self.geometry.check_buffer(into)?)?;
        if self.state.lock().machine.state(zone) == ZoneState::Offline {
            return Err(DeviceError::Offline { zone });
        }
        into.fill(0);
        // Zones below are read to their write pointers; behind is nothing.
        self.parts.read(zone, offset, into)?;
        let counters = &mut self.state.lock().counters;
        counters.reads += 1;
        counters.read_bytes += into.len() as u64;
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        let blocks = self.geometry.check_buffer(from)?;
        let state = &mut *self.state.lock();
        let (zone, _) = self.geometry.check_span(at, blocks)?;
        self.check_wide(state, zone, "write")?;
        let grant = state.machine.begin_write(at, blocks)?;
        self.write_wide(state, grant, from).map(|_| ())
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let blocks = self.geometry.check_buffer(from)?;
        let state = &mut *self.state.lock();
        self.check_wide(state, zone, "append to")?;
        let grant = state.machine.begin_append(zone, blocks)?;
        self.write_wide(state, grant, from)
    }

    fn flush(&self) -> Result<()> {
        self.parts.flush()?;
        self.state.lock().counters.flushes += 1;
        Ok(())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        let state = &mut *self.state.lock();
        self.check_wide(state, zone, "open")?;
        state.machine.open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        let state = &mut *self.state.lock();
        self.check_wide(state, zone, "close")?;
        state.machine.close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        let state = &mut *self.state.lock();
        self.check_wide(state, zone, "finish")?;
        state.machine.check_idle(zone, "finish")?;
        self.change_all(zone, &mut state.machine, |index| self.parts.finish(zone, index))?;
        state.machine.finish(zone)?;
        state.counters.finishes += 1;
        Ok(())
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        let state = &mut *self.state.lock();
        self.check_wide(state, zone, "reset")?;
        state.machine.check_idle(zone, "reset")?;
        let was_full = state.machine.state(zone) == ZoneState::Full;
        let emptied = self.change_all(zone, &mut state.machine, |index| self.parts.reset(zone, index));
        if emptied.is_err() && was_full && state.machine.state(zone).is_active() {
            // Who resets a full zone counts on no active one, whatever became of it.
            let finished = self.all(|index| self.parts.finish(zone, index));
            return emptied.and(finished).and(state.machine.finish(zone));
        }
        emptied?;
        state.machine.reset(zone)?;
        state.counters.resets += 1;
        Ok(())
    }

    fn queue(&self, _depth: u32) -> Result<Box<dyn IoQueue>> {
        Err(DeviceError::NotSupported { what: "queues on split zones; give them a timing first" })
    }

    fn split_zones(&self) -> Option<&dyn SplitZones> {
        Some(self)
    }

    fn counters(&self) -> DeviceCounters {
        self.state.lock().counters
    }

    fn describe(&self) -> String {
        format!("zones of {} subzones on {}", self.parts.subzones(), self.parts.describe())
    }
}

impl State {
    fn split(&mut self, zone: ZoneId, action: &'static str) -> Result<&mut Split> {
        let from = self.machine.state(zone);
        self.split[zone.0 as usize].as_mut().ok_or(DeviceError::InvalidTransition { zone, from, action })
    }

    fn refuse<T>(&self, zone: ZoneId, action: &'static str) -> Result<T> {
        Err(DeviceError::InvalidTransition { zone, from: self.machine.state(zone), action })
    }

    /// A split zone that was finished takes its resources again.
    fn activate(&mut self, zone: ZoneId) -> Result<()> {
        if self.split(zone, "write to a subzone of")?.active {
            return Ok(());
        }
        self.machine.reset(zone)?;
        if let Err(error) = self.machine.open(zone) {
            self.machine.finish(zone)?;
            return Err(error);
        }
        self.split(zone, "write to a subzone of")?.active = true;
        Ok(())
    }
}

fn lost(state: ZoneState) -> Option<ZoneState> {
    matches!(state, ZoneState::ReadOnly | ZoneState::Offline).then_some(state)
}

impl SplitData {
    fn check_subzone(&self, id: SubzoneId) -> Result<()> {
        self.geometry.check_zone(id.zone)?;
        match id.index < self.parts.subzones() {
            true => Ok(()),
            false => {
                let (value, max) = (id.index.into(), (self.parts.subzones() - 1).into());
                Err(DeviceError::Geometry { field: "subzone", value, min: 0, max })
            }
        }
    }

    /// After an error of the zone below: it may be written in part, or read-only, or offline, and so is its subzone.
    fn failed(&self, state: &mut State, id: SubzoneId, error: DeviceError) -> DeviceError {
        let (index, reports) = (usize::from(id.index), self.parts.report(id.zone).unwrap_or_default());
        if let (Some(report), Some(split)) = (reports.get(index), &mut state.split[id.zone.0 as usize]) {
            split.subzones[index] = self.subzone(report);
        }
        error
    }

    fn subzone_start(&self, id: SubzoneId) -> Lba {
        self.geometry.zone_start(id.zone).plus(u64::from(id.index) * self.parts.subzone_blocks())
    }
}

impl SplitZones for SplitData {
    fn subzones(&self) -> u16 {
        self.parts.subzones()
    }

    fn subzone_blocks(&self) -> u64 {
        self.parts.subzone_blocks()
    }

    fn split(&self, zone: ZoneId) -> Result<()> {
        let state = &mut *self.state.lock();
        self.check_wide(state, zone, "split")?;
        if state.machine.state(zone) != ZoneState::Empty {
            return state.refuse(zone, "split");
        }
        state.machine.open(zone)?;
        if let Err(error) = self.parts.finish(zone, self.parts.marker()) {
            state.machine.reset(zone)?;
            return Err(error);
        }
        let subzones = vec![Subzone::default(); self.parts.subzones().into()];
        state.split[zone.0 as usize] = Some(Split { subzones, active: true });
        Ok(())
    }

    fn report_subzones(&self, zone: ZoneId) -> Result<Vec<SubzoneReport>> {
        self.geometry.check_zone(zone)?;
        let state = &mut *self.state.lock();
        let split = state.split(zone, "report subzones of")?;
        let report = |(index, subzone): (u16, &Subzone)| {
            let id = SubzoneId { zone, index };
            let start = self.subzone_start(id);
            let state = match subzone {
                Subzone { lost: Some(lost), .. } => *lost,
                subzone if subzone.full => ZoneState::Full,
                subzone if subzone.is_open() => ZoneState::ImplicitOpen,
                _ => ZoneState::Empty,
            };
            let write_pointer = (!subzone.full && subzone.lost.is_none()).then(|| start.plus(subzone.written));
            SubzoneReport { id, state, start, write_pointer, chip: None }
        };
        Ok((0..).zip(&split.subzones).map(report).collect())
    }

    fn append_subzone(&self, id: SubzoneId, from: &[u8]) -> Result<Lba> {
        self.check_subzone(id)?;
        let blocks = self.geometry.check_buffer(from)?;
        if let Some(max) = self.geometry.append_blocks_max.filter(|&max| blocks > max.into()) {
            return Err(DeviceError::AppendTooLong { blocks, max });
        }
        let state = &mut *self.state.lock();
        let subzone = state.split(id.zone, "append to a subzone of")?.subzones[usize::from(id.index)];
        match subzone.lost {
            Some(ZoneState::ReadOnly) => return Err(DeviceError::ReadOnly { zone: id.zone }),
            Some(_) => return Err(DeviceError::Offline { zone: id.zone }),
            None => {}
        }
        if subzone.full {
            return Err(DeviceError::Full { zone: id.zone });
        }
        let (at, end) = (subzone.written, self.parts.subzone_blocks());
        if at + blocks > end {
            let start = self.subzone_start(id);
            let (at, end) = (start.plus(at), start.plus(end));
            return Err(DeviceError::Boundary { zone: id.zone, at, blocks, end });
        }
        state.activate(id.zone)?;
        let written = self.parts.write(id.zone, u64::from(id.index) * end + at, from);
        written.map_err(|error| self.failed(state, id, error))?;
        let subzone = &mut state.split(id.zone, "append to a subzone of")?.subzones[usize::from(id.index)];
        subzone.written += blocks;
        subzone.full = subzone.written == end;
        state.counters.writes += 1;
        state.counters.written_bytes += from.len() as u64;
        Ok(self.subzone_start(id).plus(at))
    }

    fn finish_subzone(&self, id: SubzoneId) -> Result<()> {
        self.check_subzone(id)?;
        let state = &mut *self.state.lock();
        let subzone = state.split(id.zone, "finish a subzone of")?.subzones[usize::from(id.index)];
        if !subzone.full {
            let finished = self.parts.finish(id.zone, id.index);
            finished.map_err(|error| self.failed(state, id, error))?;
        }
        state.split(id.zone, "finish a subzone of")?.subzones[usize::from(id.index)].full = true;
        state.counters.finishes += 1;
        Ok(())
    }

    fn reset_subzone(&self, id: SubzoneId) -> Result<()> {
        self.check_subzone(id)?;
        let state = &mut *self.state.lock();
        state.split(id.zone, "reset a subzone of")?;
        let reset = self.parts.reset(id.zone, id.index);
        reset.map_err(|error| self.failed(state, id, error))?;
        state.split(id.zone, "reset a subzone of")?.subzones[usize::from(id.index)] = Subzone::default();
        state.counters.resets += 1;
        Ok(())
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.geometry.check_zone(zone)?;
        let state = &mut *self.state.lock();
        if state.split(zone, "finish")?.subzones.iter().any(|subzone| subzone.is_open()) {
            return state.refuse(zone, "finish");
        }
        state.machine.finish(zone)?;
        state.split(zone, "finish")?.active = false;
        Ok(())
    }

    fn join(&self, zone: ZoneId) -> Result<()> {
        self.geometry.check_zone(zone)?;
        let state = &mut *self.state.lock();
        if !state.split(zone, "join")?.subzones.iter().all(|subzone| subzone.is_empty()) {
            return state.refuse(zone, "join");
        }
        self.parts.reset(zone, self.parts.marker())?;
        state.machine.reset(zone)?;
        state.split[zone.0 as usize] = None;
        Ok(())
    }
}
