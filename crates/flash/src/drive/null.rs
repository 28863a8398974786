//! Devices without data: for measurements larger than memory. What is read is zeros, except for what was asked to be kept.
use std::collections::BTreeMap;

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
    /// Blocks that are not all zeros, by zone, if they are kept.
    kept: Option<Vec<BTreeMap<u64, Box<[u8]>>>>,
}

impl NullZones {
    /// A device of empty zones.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned`.
    pub fn new(geometry: Geometry) -> Result<Self> {
        geometry.validate()?;
        let state =
            State { machine: ZoneMachine::new(geometry.clone()), counters: DeviceCounters::default(), kept: None };
        Ok(Self { geometry, state: Mutex::new(state) })
    }

    /// The same, but blocks that are not all zeros are kept: headers and tables of a store whose data is zeros.
    #[must_use]
    pub fn keeping_what_is_not_zero(self) -> Self {
        self.state.lock().kept = Some(vec![BTreeMap::new(); self.geometry.zone_count as usize]);
        self
    }

    fn written(&self, state: &mut State, grant: WriteGrant, from: &[u8]) -> Result<()> {
        let (zone, offset) = (grant.zone(), grant.offset());
        let at = self.geometry.zone_start(zone).plus(offset);
        state.machine.end_write(grant, true)?;
        state.counters.writes += 1;
        state.counters.written_bytes += from.len() as u64;
        if let Some(kept) = &mut state.kept {
            let blocks = (at.0..).zip(from.chunks_exact(self.geometry.block_bytes as usize));
            kept[zone.0 as usize]
                .extend(blocks.filter(|(_, block)| !is_zero(block)).map(|(at, block)| (at, Box::from(block))));
        }
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
        if let Some(kept) = &state.kept {
            let block = self.geometry.block_bytes as usize;
            for (&found, bytes) in kept[self.geometry.zone_of(at).0 as usize].range(at.0..at.0 + blocks) {
                let offset = usize::try_from(found - at.0).expect("below the buffer's length") * block;
                into[offset..offset + block].copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        let blocks = self.geometry.check_buffer(from)?;
        let mut state = self.state.lock();
        let grant = state.machine.begin_write(at, blocks)?;
        self.written(&mut state, grant, from)
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let blocks = self.geometry.check_buffer(from)?;
        let mut state = self.state.lock();
        let grant = state.machine.begin_append(zone, blocks)?;
        let at = self.geometry.zone_start(zone).plus(grant.offset());
        self.written(&mut state, grant, from)?;
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
        if let Some(kept) = &mut state.kept {
            kept[zone.0 as usize].clear();
        }
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

fn is_zero(bytes: &[u8]) -> bool {
    // SIMD finds this form; a block of 4 KiB takes about 100 ns.
    bytes.chunks_exact(64).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}
