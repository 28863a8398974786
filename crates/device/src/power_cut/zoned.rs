//! A zoned device in memory whose power can be cut.
use std::{collections::BTreeMap, fmt, sync::Arc};

use zonda_rt::{DeviceCall, Mutex, Rng, device_call};

use super::{
    journal::{CrashModel, Journal},
    plan::{CutAt, CutReport},
    supply::Supply,
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
///
/// Devices on one supply ([`beside`](Self::beside)) lose their power at the same operation and are counted as one; what
/// each had flushed, and what of the rest survives on it, is its own affair.
#[derive(Clone)]
pub struct PowerCut {
    shared: Arc<Shared>,
}

struct Shared {
    geometry: Geometry,
    live: MemDevice,
    supply: Arc<Mutex<Supply>>,
    /// Which of the supply's zoned devices this is.
    socket: usize,
    counting: Counting,
}

impl PowerCut {
    /// Puts a power switch before a memory device. What it holds now counts as flushed. Use the device only through the
    /// switch.
    #[must_use]
    pub fn over(live: MemDevice) -> Self {
        Self::plug_in(live, Arc::default())
    }

    /// Puts another memory device on the power supply of this one: a cut hits both, whichever operation of either it falls into.
    /// Labels and operations are counted together.
    #[must_use]
    pub fn beside(&self, live: MemDevice) -> Self {
        Self::plug_in(live, Arc::clone(&self.shared.supply))
    }

    pub(super) fn plug_in(live: MemDevice, supply: Arc<Mutex<Supply>>) -> Self {
        let geometry = live.geometry().clone();
        let socket = {
            let mut plugged = supply.lock();
            plugged.journals.push(Journal::default());
            plugged.journals.len() - 1
        };
        Self { shared: Arc::new(Shared { geometry, live, supply, socket, counting: Counting::default() }) }
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
        self.shared.supply.lock().plan.arm(at.into());
    }

    /// Cuts the power now, between operations.
    pub fn cut(&self) {
        self.shared.supply.lock().plan.cut(None);
    }

    /// What the cut hit; `None` while the power is on.
    #[must_use]
    pub fn cut_report(&self) -> Option<CutReport> {
        self.shared.supply.lock().plan.report()
    }

    /// Operations so far, reads included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.supply.lock().plan.operations()
    }

    /// Operations so far by label; those outside all labels are under `other`.
    #[must_use]
    pub fn operations_by_label(&self) -> BTreeMap<&'static str, u64> {
        self.shared.supply.lock().plan.by_label()
    }

    /// Cuts the power unless it is cut, and returns a device that holds one legal outcome, drawn from `rng`.
    #[must_use]
    pub fn reopen(&self, rng: &mut Rng) -> MemDevice {
        self.reopen_as(rng, CrashModel::Prefix)
    }

    /// As [`reopen`](Self::reopen), under another model of what may be missing.
    #[must_use]
    pub fn reopen_as(&self, rng: &mut Rng, model: CrashModel) -> MemDevice {
        let mut supply = self.shared.supply.lock();
        supply.plan.cut(None);
        let journal = &supply.journals[self.shared.socket];
        let survivors = self.shared.live.apply(|zones| journal.survivors(zones, model, rng));
        MemDevice::from_zones(survivors)
    }

    /// Does an operation, counts it, and loses the power during it if that is the plan: it has then happened, but
    /// nobody hears of it.
    fn run<R>(&self, call: DeviceCall, work: impl FnOnce(&mut MemZones, &mut Journal) -> Result<R>) -> Result<R> {
        device_call(call, || {
            let mut supply = self.shared.supply.lock();
            let power_goes = supply.plan.count(call)?;
            let journal = &mut supply.journals[self.shared.socket];
            let result = self.shared.live.apply(|zones| work(zones, journal));
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
            let mut supply = self.shared.supply.lock();
            if supply.plan.count(DeviceCall::Flush)? {
                return Err(DeviceError::PowerLost);
            }
            supply.journals[self.shared.socket].flush();
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
            zones.machine.reset(zone)
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
