//! A device that acknowledges flushes and forgets them.

use zonda_device::{
    Completion, DeviceCounters, Geometry, Io, IoQueue, Lba, PowerCut, Rejected, Result, ZoneId, ZoneReport, ZonedDevice,
};

/// Drops three flushes of four; everything else passes.
#[derive(Debug)]
pub struct DroppedFlush {
    device: PowerCut,
}

impl DroppedFlush {
    /// Puts the bug before a device.
    #[must_use]
    pub fn over(device: PowerCut) -> Self {
        Self { device }
    }
}

impl ZonedDevice for DroppedFlush {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        self.device.report(first, count)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.device.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.device.write(at, from)
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        self.device.append(zone, from)
    }

    fn flush(&self) -> Result<()> {
        if self.device.operations().is_multiple_of(4) { self.device.flush() } else { Ok(()) }
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.device.open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.device.close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.device.finish(zone)
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        self.device.reset(zone)
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(DroppedFlushQueue { queue: self.device.queue(depth)? }))
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        "a device that forgets flushes".to_owned()
    }
}

/// Turns flushes into reads of one block, which complete in the same way and do nothing.
#[derive(Debug)]
struct DroppedFlushQueue {
    queue: Box<dyn IoQueue>,
}

impl IoQueue for DroppedFlushQueue {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        let io = match io {
            Io::Flush => Io::Read { at: Lba(0), into: zonda_device::AlignedBuf::with_len(4096) },
            other => other,
        };
        self.queue.submit(token, io)
    }

    fn start(&mut self) {
        self.queue.start();
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        self.queue.complete(min, out)
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    fn depth(&self) -> usize {
        self.queue.depth()
    }
}
