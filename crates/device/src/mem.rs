//! The memory backend: a zoned and a block device whose data lives in memory. Nothing survives the process; a flush has
//! nothing to do.
use std::{fmt, sync::Arc};

use zonda_rt::{DeviceCall, RwLock, device_call};

use crate::{
    DeviceCounters, DeviceError, Geometry, IoQueue, Lba, Result, ZoneId, ZoneReport, ZoneState, ZonedDevice,
    counters::Counting,
    queue::{SyncQueue, Zoned},
    zone_machine::ZoneMachine,
};

/// A zoned device in memory. Clones are handles to the same device.
///
/// A zone takes memory for what was written to it. Reads run side by side; writes exclude each other and the reads for
/// one copy.
#[derive(Clone)]
pub struct MemDevice {
    shared: Arc<Shared>,
}

struct Shared {
    geometry: Geometry,
    zones: RwLock<MemZones>,
    counting: Counting,
}

/// The zones of a memory device: states and bytes. `bytes[z].len()` is what is written in zone `z`.
#[derive(Clone)]
pub(crate) struct MemZones {
    pub(crate) machine: ZoneMachine,
    pub(crate) bytes: Vec<Vec<u8>>,
}

impl MemZones {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let bytes = vec![Vec::new(); geometry.zone_count as usize];
        Self { machine: ZoneMachine::new(geometry), bytes }
    }

    pub(crate) fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let geometry = self.machine.geometry();
        let blocks = geometry.check_buffer(into)?;
        let readable = self.machine.readable_blocks(at, blocks)? * u64::from(geometry.block_bytes);
        let (data, beyond) = into.split_at_mut(index(readable));
        let from = index(geometry.offset_in_zone(at) * u64::from(geometry.block_bytes));
        if !data.is_empty() {
            data.copy_from_slice(&self.bytes[geometry.zone_of(at).0 as usize][from..][..data.len()]);
        }
        beyond.fill(0);
        Ok(())
    }

    pub(crate) fn write(&mut self, at: Lba, from: &[u8]) -> Result<()> {
        let blocks = self.machine.geometry().check_buffer(from)?;
        let grant = self.machine.begin_write(at, blocks)?;
        self.bytes[grant.zone().0 as usize].extend_from_slice(from);
        self.machine.end_write(grant, true)
    }

    pub(crate) fn append(&mut self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let blocks = self.machine.geometry().check_buffer(from)?;
        let grant = self.machine.begin_append(zone, blocks)?;
        let at = self.machine.geometry().zone_start(zone).plus(grant.offset());
        self.bytes[zone.0 as usize].extend_from_slice(from);
        self.machine.end_write(grant, true)?;
        Ok(at)
    }

    pub(crate) fn reset(&mut self, zone: ZoneId) -> Result<()> {
        self.machine.reset(zone)?;
        self.bytes[zone.0 as usize] = Vec::new();
        Ok(())
    }
}

/// A byte count of something held in memory as an index.
pub(crate) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is held in memory is addressable")
}

impl MemDevice {
    /// A new, empty device.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned` for absurd numbers.
    pub fn new(geometry: Geometry) -> Result<Self> {
        geometry.validate()?;
        Ok(Self::from_zones(MemZones::new(Self::backend_geometry(geometry))))
    }

    fn backend_geometry(geometry: Geometry) -> Geometry {
        Geometry { ordered_queue: true, volatile_cache: true, ..geometry }
    }

    pub(crate) fn from_zones(zones: MemZones) -> Self {
        let geometry = zones.machine.geometry().clone();
        let shared = Shared { geometry, zones: RwLock::new(zones), counting: Counting::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Works on the zones directly, as the power cut decorator does.
    pub(crate) fn apply<R>(&self, work: impl FnOnce(&mut MemZones) -> R) -> R {
        work(&mut self.shared.zones.write())
    }

    /// Makes a zone read-only or offline, as a worn medium would. Its resources come free.
    ///
    /// # Errors
    /// `NoSuchZone`; `NotSupported` for another state.
    pub fn retire(&self, zone: ZoneId, to: ZoneState) -> Result<()> {
        self.shared.geometry.check_zone(zone)?;
        if !matches!(to, ZoneState::ReadOnly | ZoneState::Offline) {
            return Err(DeviceError::NotSupported {
                what: "retiring a zone to another state than read-only or offline",
            });
        }
        self.shared.zones.write().machine.retire(zone, to);
        Ok(())
    }

    /// What a power cycle of a drive with a durable cache does: open zones come back closed, or empty if unwritten.
    pub fn power_cycle(&self) {
        self.shared.zones.write().machine.power_cycle(|_| false);
    }
}

impl fmt::Debug for MemDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemDevice").field("geometry", &self.shared.geometry).finish_non_exhaustive()
    }
}

impl ZonedDevice for MemDevice {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        device_call(DeviceCall::Report, || self.shared.zones.read().machine.report(first, count))
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        device_call(DeviceCall::Read, || self.shared.zones.read().read(at, into))?;
        self.shared.counting.read(into.len());
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        device_call(DeviceCall::Write, || self.shared.zones.write().write(at, from))?;
        self.shared.counting.written(from.len());
        Ok(())
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let at = device_call(DeviceCall::Append, || self.shared.zones.write().append(zone, from))?;
        self.shared.counting.written(from.len());
        Ok(at)
    }

    fn flush(&self) -> Result<()> {
        device_call(DeviceCall::Flush, || ());
        self.shared.counting.flushed();
        Ok(())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Open, || self.shared.zones.write().machine.open(zone))
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Close, || self.shared.zones.write().machine.close(zone))
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Finish, || self.shared.zones.write().machine.finish(zone))?;
        self.shared.counting.finished();
        Ok(())
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Reset, || self.shared.zones.write().reset(zone))?;
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
        "memory".to_owned()
    }
}
