//! A device that keeps what is written to it in memory, over one that is only read: recovery may run on it without touching the store.

use std::sync::Arc;

use zonda_device::{DeviceCounters, Geometry, Io, IoQueue, Lba, Result, ZoneId, ZoneMachine, ZoneReport, ZonedDevice};
use zonda_rt::RwLock;

use crate::plain_queue::{Perform, PlainQueue};

/// A zoned device over a read-only one. Clones are handles to the same.
///
/// Always: block `b` of a zone comes from the base if the zone was not reset and `b` is below the base's write pointer, else from
/// memory. Takes memory for what is written to it: recovery writes little, and nobody writes after it.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    base: Arc<dyn ZonedDevice>,
    zones: Arc<RwLock<Zones>>,
}

#[derive(Debug)]
struct Zones {
    machine: ZoneMachine,
    written: Vec<Written>,
}

/// What the overlay holds of one zone.
#[derive(Clone, Debug, Default)]
struct Written {
    /// Blocks from the zone's start that are the base's.
    base_blocks: u64,
    /// Bytes behind them.
    bytes: Vec<u8>,
}

impl Overlay {
    /// Lays nothing over `base`.
    ///
    /// # Errors
    /// Those of reporting its zones.
    pub(crate) fn new(base: Arc<dyn ZonedDevice>) -> Result<Self> {
        let mut machine = ZoneMachine::new(base.geometry().clone());
        let mut written = Vec::new();
        for report in base.report(ZoneId(0), base.geometry().zone_count)? {
            machine.restore(report.zone, report.state, report.written_blocks())?;
            written.push(Written { base_blocks: report.written_blocks(), bytes: Vec::new() });
        }
        Ok(Self { base, zones: Arc::new(RwLock::new(Zones { machine, written })) })
    }

    fn with_machine<T>(&self, run: impl FnOnce(&mut ZoneMachine) -> Result<T>) -> Result<T> {
        run(&mut self.zones.write().machine)
    }
}

impl Zones {
    /// Bytes in memory of `into.len()` from `at`: copied; returns the blocks before them that the base has.
    fn read_written(&self, at: Lba, into: &mut [u8]) -> Result<u64> {
        let geometry = self.machine.geometry();
        let block_bytes = u64::from(geometry.block_bytes);
        let blocks = geometry.check_buffer(into)?;
        self.machine.readable_blocks(at, blocks)?;
        let zone = &self.written[geometry.zone_of(at).0 as usize];
        let offset = geometry.offset_in_zone(at);
        let from_base = zone.base_blocks.saturating_sub(offset).min(blocks);
        let skipped = usize::try_from(offset.saturating_sub(zone.base_blocks) * block_bytes).unwrap_or(usize::MAX);
        let held = zone.bytes.get(skipped..).unwrap_or_default();
        let rest = &mut into[usize::try_from(from_base * block_bytes).unwrap_or(usize::MAX)..];
        let (data, beyond) = rest.split_at_mut(held.len().min(rest.len()));
        data.copy_from_slice(&held[..data.len()]);
        beyond.fill(0);
        Ok(from_base)
    }

    fn append(&mut self, zone: ZoneId, at: Option<Lba>, from: &[u8]) -> Result<Lba> {
        let blocks = self.machine.geometry().check_buffer(from)?;
        let grant = match at {
            Some(at) => self.machine.begin_write(at, blocks)?,
            None => self.machine.begin_append(zone, blocks)?,
        };
        let at = Lba(self.machine.geometry().zone_start(grant.zone()).0 + grant.offset());
        self.written[grant.zone().0 as usize].bytes.extend_from_slice(from);
        self.machine.end_write(grant, true)?;
        Ok(at)
    }
}

impl ZonedDevice for Overlay {
    fn geometry(&self) -> &Geometry {
        self.base.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        self.zones.read().machine.report(first, count)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let from_base = self.zones.read().read_written(at, into)?;
        let bytes = usize::try_from(from_base * u64::from(self.geometry().block_bytes)).unwrap_or(usize::MAX);
        if bytes > 0 { self.base.read(at, &mut into[..bytes]) } else { Ok(()) }
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.geometry().check_span(at, 1)?;
        self.zones.write().append(self.geometry().zone_of(at), Some(at), from).map(|_| ())
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        self.zones.write().append(zone, None, from)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.with_machine(|machine| machine.open(zone))
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.with_machine(|machine| machine.close(zone))
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.with_machine(|machine| machine.finish(zone))
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        let mut zones = self.zones.write();
        zones.machine.reset(zone)?;
        zones.written[zone.0 as usize] = Written::default();
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(PlainQueue::new(self.clone(), depth)))
    }

    fn counters(&self) -> DeviceCounters {
        self.base.counters()
    }

    fn describe(&self) -> String {
        format!("{}, read-only", self.base.describe())
    }
}

impl Perform for Overlay {
    fn perform(&self, io: &mut Io) -> Result<Lba> {
        match io {
            Io::Read { at, into } => self.read(*at, into).map(|()| *at),
            Io::Write { at, from } => self.write(*at, from).map(|()| *at),
            Io::Append { zone, from } => self.append(*zone, from),
            Io::Flush => Ok(Lba(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use zonda_device::{AlignedBuf, DeviceError, MemDevice, ZoneState};

    use super::*;

    fn block(byte: u8) -> AlignedBuf {
        AlignedBuf::from_slice(&[byte; 4096])
    }

    fn first_byte(device: &dyn ZonedDevice, at: u64) -> u8 {
        let mut read = AlignedBuf::with_len(4096);
        device.read(Lba(at), &mut read).unwrap();
        read[0]
    }

    fn base_with_two_blocks() -> (MemDevice, Overlay) {
        let base = MemDevice::new(Geometry::new(64 << 10, 4)).unwrap();
        base.write(Lba(0), &block(1)).unwrap();
        base.write(Lba(1), &block(2)).unwrap();
        let overlay = Overlay::new(Arc::new(base.clone())).unwrap();
        (base, overlay)
    }

    #[test]
    fn the_base_shines_through_and_is_not_written() {
        let (base, overlay) = base_with_two_blocks();
        overlay.write(Lba(2), &block(3)).unwrap();
        assert_eq!(overlay.append(ZoneId(1), &block(4)).unwrap(), Lba(16));
        assert_eq!([0, 1, 2, 3, 16].map(|at| first_byte(&overlay, at)), [1, 2, 3, 0, 4]);
        assert_eq!(base.counters().written_bytes, 8192);
        assert_eq!(first_byte(&base, 2), 0);
    }

    #[test]
    fn one_read_spans_base_and_memory() {
        let (_base, overlay) = base_with_two_blocks();
        overlay.write(Lba(2), &block(3)).unwrap();
        let mut read = AlignedBuf::with_len(4 * 4096);
        overlay.read(Lba(0), &mut read).unwrap();
        assert_eq!([0, 1, 2, 3].map(|index| read[index * 4096]), [1, 2, 3, 0]);
    }

    #[test]
    fn a_reset_hides_the_base() {
        let (base, overlay) = base_with_two_blocks();
        overlay.reset(ZoneId(0)).unwrap();
        overlay.write(Lba(0), &block(9)).unwrap();
        assert_eq!([0, 1].map(|at| first_byte(&overlay, at)), [9, 0]);
        assert_eq!(first_byte(&base, 0), 1);
        assert_eq!(base.report(ZoneId(0), 1).unwrap()[0].written_blocks(), 2);
    }

    #[test]
    fn a_write_away_from_the_write_pointer_is_refused() {
        let (_base, overlay) = base_with_two_blocks();
        assert!(matches!(overlay.write(Lba(0), &block(1)), Err(DeviceError::InvalidWrite { .. })));
        assert_eq!(overlay.report(ZoneId(0), 1).unwrap()[0].state, ZoneState::Closed, "as after a power cycle");
    }
}
