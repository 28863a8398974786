//! A zoned device in memory whose power can be cut.
use std::{collections::BTreeMap, fmt, sync::Arc};

use zonda_rt::{DeviceCall, Mutex, Rng, device_call};

use super::{
    journal::{CrashModel, Journal},
    plan::{CutAt, CutPlan, CutReport},
};
use crate::{
    DeviceCounters, DeviceError, Geometry, IoQueue, Lba, MemDevice, Result, ZoneId, ZoneReport, ZonedDevice,
    counters::Counting,
    mem::MemZones,
    queue::{SyncQueue, Zoned},
};

/// A memory device that loses its power, when it is told to or at an armed operation, and comes back in a random state
/// that I4 allows.
///
/// Life cycle: 1 powered -> 2 cut: every call answers `PowerLost` -> 3 [`reopen`](Self::reopen) gives what survived as
/// a new device; the old one stays cut. Clones are handles to the same device. Operations exclude each other. Memory:
/// the data, plus the old bytes of zones reset since the last flush.
#[derive(Clone)]
pub struct PowerCut {
    shared: Arc<Shared>,
}

struct Shared {
    geometry: Geometry,
    live: MemDevice,
    state: Mutex<State>,
    counting: Counting,
}

#[derive(Default)]
struct State {
    plan: CutPlan,
    journal: Journal,
}

impl PowerCut {
    /// Puts a power switch before a memory device. What it holds now counts as flushed. Use the device only through the
    /// switch.
    #[must_use]
    pub fn over(live: MemDevice) -> Self {
        let geometry = live.geometry().clone();
        let state = Mutex::new(State::default());
        Self { shared: Arc::new(Shared { geometry, live, state, counting: Counting::default() }) }
    }

    /// A new, empty device with a power switch.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned`.
    pub fn new(geometry: Geometry) -> Result<Self> {
        Ok(Self::over(MemDevice::new(geometry)?))
    }

    /// Says when the power goes; replaces what was said before. `None`: only when [`cut`](Self::cut) is called.
    pub fn arm(&self, at: impl Into<Option<CutAt>>) {
        self.shared.state.lock().plan.arm(at.into());
    }

    /// Cuts the power now, between operations.
    pub fn cut(&self) {
        self.shared.state.lock().plan.cut(None);
    }

    /// What the cut hit; `None` while the power is on.
    #[must_use]
    pub fn cut_report(&self) -> Option<CutReport> {
        self.shared.state.lock().plan.report()
    }

    /// Operations so far, reads included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.state.lock().plan.operations()
    }

    /// Operations so far by label; those outside all labels are under `other`.
    #[must_use]
    pub fn operations_by_label(&self) -> BTreeMap<&'static str, u64> {
        self.shared.state.lock().plan.by_label()
    }

    /// Cuts the power unless it is cut, and returns a device that holds one legal outcome, drawn from `rng`.
    #[must_use]
    pub fn reopen(&self, rng: &mut Rng) -> MemDevice {
        self.reopen_as(rng, CrashModel::Prefix)
    }

    /// As [`reopen`](Self::reopen), under another model of what may be missing.
    #[must_use]
    pub fn reopen_as(&self, rng: &mut Rng, model: CrashModel) -> MemDevice {
        let mut state = self.shared.state.lock();
        state.plan.cut(None);
        let survivors = self.shared.live.apply(|zones| state.journal.survivors(zones, model, rng));
        MemDevice::from_zones(survivors)
    }

    /// Does an operation, counts it, and loses the power during it if that is the plan: it has then happened, but
    /// nobody hears of it.
    fn run<R>(&self, call: DeviceCall, work: impl FnOnce(&mut MemZones, &mut Journal) -> Result<R>) -> Result<R> {
        device_call(call, || {
            let mut state = self.shared.state.lock();
            let power_goes = state.plan.count(call)?;
            let result = self.shared.live.apply(|zones| work(zones, &mut state.journal));
            if power_goes { Err(DeviceError::PowerLost) } else { result }
        })
    }
}

impl fmt::Debug for PowerCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PowerCut").field("geometry", &self.shared.geometry).finish_non_exhaustive()
    }
}

impl ZonedDevice for PowerCut {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        self.run(DeviceCall::Report, |zones, _| zones.machine.report(first, count))
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.run(DeviceCall::Read, |zones, _| zones.read(at, into))?;
        self.shared.counting.read(into.len());
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.run(DeviceCall::Write, |zones, journal| {
            zones.write(at, from)?;
            let geometry = zones.machine.geometry();
            journal.written(zones, geometry.zone_of(at), geometry.check_buffer(from)?);
            Ok(())
        })?;
        self.shared.counting.written(from.len());
        Ok(())
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let at = self.run(DeviceCall::Append, |zones, journal| {
            let at = zones.append(zone, from)?;
            journal.written(zones, zone, zones.machine.geometry().check_buffer(from)?);
            Ok(at)
        })?;
        self.shared.counting.written(from.len());
        Ok(at)
    }

    fn flush(&self) -> Result<()> {
        device_call(DeviceCall::Flush, || {
            let mut state = self.shared.state.lock();
            if state.plan.count(DeviceCall::Flush)? {
                return Err(DeviceError::PowerLost);
            }
            state.journal.flush();
            Ok(())
        })?;
        self.shared.counting.flushed();
        Ok(())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.run(DeviceCall::Open, |zones, _| zones.machine.open(zone))
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.run(DeviceCall::Close, |zones, _| zones.machine.close(zone))
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.run(DeviceCall::Finish, |zones, journal| {
            zones.machine.check_idle(zone, "finish")?;
            journal.finishing(zones, zone);
            zones.machine.finish(zone)
        })?;
        self.shared.counting.finished();
        Ok(())
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        self.run(DeviceCall::Reset, |zones, journal| {
            zones.machine.check_idle(zone, "reset")?;
            journal.resetting(zones, zone);
            zones.reset(zone)
        })?;
        self.shared.counting.reset();
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(SyncQueue::new(Zoned(self.clone()), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counting.now()
    }

    fn describe(&self) -> String {
        "memory with a power switch".to_owned()
    }
}
