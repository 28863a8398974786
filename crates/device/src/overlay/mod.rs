//! Devices that keep what is written to them in memory, over ones that are only read: recovery may run on them without touching the store.
mod blocks;
mod queue;

use std::sync::Arc;

use zonda_rt::RwLock;

use crate::queue::{SyncQueue, Zoned};
use crate::{DeviceCounters, Geometry, IoQueue, Lba, Result, ZoneId, ZoneMachine, ZoneReport, ZonedDevice};
pub use blocks::BlockOverlay;
use queue::{OverBase, OverlayQueue};

/// A zoned device over a read-only one. Clones are handles to the same.
///
/// Always: block `b` of a zone comes from the base if the zone was not reset and `b` is below the base's write pointer, else from
/// memory. Takes memory for what is written to it: recovery writes little, and nobody writes after it.
#[derive(Clone, Debug)]
pub struct Overlay {
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
    pub fn new(base: Arc<dyn ZonedDevice>) -> Result<Self> {
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

    /// Whether the base has all that a read of `into.len()` bytes from `at` gets.
    fn is_of_base(&self, at: Lba, into: &[u8]) -> Result<bool> {
        let geometry = self.machine.geometry();
        let blocks = geometry.check_buffer(into)?;
        let readable = self.machine.readable_blocks(at, blocks)?;
        let base_blocks = self.written[geometry.zone_of(at).0 as usize].base_blocks;
        Ok(readable == blocks && geometry.offset_in_zone(at) + blocks <= base_blocks)
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
        let here = SyncQueue::new(Zoned(self.clone()), depth)?;
        Ok(Box::new(OverlayQueue::new(here, self.base.queue(depth)?)))
    }

    fn counters(&self) -> DeviceCounters {
        self.base.counters()
    }

    fn describe(&self) -> String {
        format!("{}, read-only", self.base.describe())
    }
}

impl OverBase for Zoned<Overlay> {
    fn is_of_base(&self, at: Lba, into: &[u8]) -> bool {
        self.0.zones.read().is_of_base(at, into).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuf, Completion, DeviceError, Io, MemDevice, ZoneState};

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

    /// Takes all that is in flight, by token.
    fn taken(queue: &mut dyn IoQueue) -> Vec<Completion> {
        let mut done = Vec::new();
        while queue.in_flight() > 0 {
            queue.complete(1, &mut done).unwrap();
        }
        done.sort_by_key(|completion| completion.token);
        done
    }

    fn read_of(at: u64, blocks: usize) -> Io {
        Io::Read { at: Lba(at), into: AlignedBuf::with_len(blocks * 4096) }
    }

    #[test]
    fn a_queue_gives_what_blocking_reads_do() {
        let (_base, overlay) = base_with_two_blocks();
        overlay.write(Lba(2), &block(3)).unwrap();
        let mut queue = overlay.queue(4).unwrap();
        for (token, io) in (0..).zip([read_of(0, 2), read_of(1, 3), read_of(2, 1), read_of(16, 1)]) {
            queue.submit(token, io).unwrap();
        }
        assert_eq!((queue.in_flight(), queue.depth()), (4, 4));
        assert!(queue.submit(9, read_of(0, 1)).is_err(), "it is full");
        let done = taken(&mut *queue);
        let bytes =
            |token: usize| done[token].buffer.as_ref().unwrap().iter().step_by(4096).copied().collect::<Vec<_>>();
        assert_eq!((0..4).map(bytes).collect::<Vec<_>>(), [vec![1, 2], vec![2, 3, 0], vec![3], vec![0]]);
        queue.submit(4, Io::Write { at: Lba(3), from: block(4) }).unwrap();
        overlay.reset(ZoneId(1)).unwrap();
        queue.submit(5, read_of(17, 3)).unwrap();
        queue.submit(6, read_of(62, 3)).unwrap();
        let results: Vec<_> = taken(&mut *queue).into_iter().map(|completion| completion.result.is_ok()).collect();
        assert_eq!(results, [true, true, false], "a read past the device");
        assert!(overlay.queue(0).is_err());
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
