//! Zones without data: for measurements larger than memory. What is read is zeros.
use zonda_device::{
    DeviceCounters, DeviceError, Geometry, IoQueue, Lba, Result, WriteGrant, ZoneId, ZoneMachine, ZoneReport,
    ZonedDevice,
};
use zonda_rt::Mutex;

/// A zoned device that keeps states and write pointers, and forgets what is written.
#[derive(Debug)]
pub struct NullZones {
    geometry: Geometry,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    machine: ZoneMachine,
    counters: DeviceCounters,
}

impl NullZones {
    /// A device of empty zones.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned`.
    pub fn new(geometry: Geometry) -> Result<Self> {
        geometry.validate()?;
        let state = State { machine: ZoneMachine::new(geometry.clone()), counters: DeviceCounters::default() };
        Ok(Self { geometry, state: Mutex::new(state) })
    }

    fn written(state: &mut State, grant: WriteGrant, bytes: usize) -> Result<()> {
        state.machine.end_write(grant, true)?;
        state.counters.writes += 1;
        state.counters.written_bytes += bytes as u64;
        Ok(())
    }
}

impl ZonedDevice for NullZones {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        self.state.lock().machine.report(first, count)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let blocks = self.geometry.check_buffer(into)?;
        let mut state = self.state.lock();
        state.machine.readable_blocks(at, blocks)?;
        state.counters.reads += 1;
        state.counters.read_bytes += into.len() as u64;
        into.fill(0);
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        let blocks = self.geometry.check_buffer(from)?;
        let mut state = self.state.lock();
        let grant = state.machine.begin_write(at, blocks)?;
        Self::written(&mut state, grant, from.len())
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let blocks = self.geometry.check_buffer(from)?;
        let mut state = self.state.lock();
        let grant = state.machine.begin_append(zone, blocks)?;
        let at = self.geometry.zone_start(zone).plus(grant.offset());
        Self::written(&mut state, grant, from.len())?;
        Ok(at)
    }

    fn flush(&self) -> Result<()> {
        self.state.lock().counters.flushes += 1;
        Ok(())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.state.lock().machine.open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.state.lock().machine.close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        let mut state = self.state.lock();
        state.machine.finish(zone)?;
        state.counters.finishes += 1;
        Ok(())
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        let mut state = self.state.lock();
        state.machine.reset(zone)?;
        state.counters.resets += 1;
        Ok(())
    }

    fn queue(&self, _depth: u32) -> Result<Box<dyn IoQueue>> {
        Err(DeviceError::NotSupported { what: "queues on zones without data; give them a timing first" })
    }

    fn counters(&self) -> DeviceCounters {
        self.state.lock().counters
    }

    fn describe(&self) -> String {
        "no data".to_owned()
    }
}
