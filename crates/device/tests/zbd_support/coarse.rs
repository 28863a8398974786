//! A device whose blocks are stored with room between them: so a suite made for zones of a few blocks runs on one whose
//! zones are whole MiB. Block `n` of the suite is block `n * factor` below; what lies between is written as zeros.
use std::collections::HashMap;

use zonda_device::{
    AlignedBuf, Completion, DeviceCounters, Geometry, Io, IoQueue, Lba, Rejected, Result, ZbdDevice, ZoneId,
    ZoneReport, ZonedDevice,
};

#[derive(Debug)]
pub(crate) struct Coarse {
    below: ZbdDevice,
    factor: u32,
    geometry: Geometry,
}

impl Coarse {
    /// The shape that the device below must have.
    pub(crate) fn below(geometry: &Geometry, factor: u32) -> Geometry {
        let times = u64::from(factor);
        let append = geometry.append_blocks_max.map_or(geometry.zone_size_blocks, u64::from) * times;
        Geometry {
            zone_size_blocks: geometry.zone_size_blocks * times,
            zone_capacity_blocks: geometry.zone_capacity_blocks * times,
            append_blocks_max: Some(u32::try_from(append).unwrap()),
            ..geometry.clone()
        }
    }

    pub(crate) fn new(below: ZbdDevice, factor: u32) -> Self {
        let found = below.geometry();
        let append = found.append_blocks_max.unwrap() / factor;
        assert!(append > 0, "the device below takes appends of a coarse block");
        let geometry = Geometry {
            zone_size_blocks: found.zone_size_blocks / u64::from(factor),
            zone_capacity_blocks: found.zone_capacity_blocks / u64::from(factor),
            append_blocks_max: Some(append),
            ..found.clone()
        };
        Self { below, factor, geometry }
    }

    fn down(&self, at: Lba) -> Lba {
        Lba(at.0.saturating_mul(self.factor.into()))
    }

    fn up(&self, at: Lba) -> Lba {
        Lba(at.0 / u64::from(self.factor))
    }

    /// The buffer with room between its blocks.
    fn spread(&self, from: &[u8]) -> AlignedBuf {
        let mut wide = AlignedBuf::with_len(from.len() * self.factor as usize);
        for (wide, block) in wide.chunks_mut(4096 * self.factor as usize).zip(from.chunks(4096)) {
            wide[..4096].copy_from_slice(block);
        }
        wide
    }

    fn gather(&self, wide: &[u8], into: &mut [u8]) {
        for (wide, block) in wide.chunks(4096 * self.factor as usize).zip(into.chunks_mut(4096)) {
            block.copy_from_slice(&wide[..4096]);
        }
    }

    fn check(&self, buffer: &[u8]) -> Result<()> {
        self.geometry.check_buffer(buffer).map(drop)
    }
}

impl ZonedDevice for Coarse {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        let narrow = |report: ZoneReport| ZoneReport {
            start: self.up(report.start),
            capacity_blocks: report.capacity_blocks / u64::from(self.factor),
            write_pointer: report.write_pointer.map(|at| self.up(at)),
            ..report
        };
        Ok(self.below.report(first, count)?.into_iter().map(narrow).collect())
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.check(into)?;
        let mut wide = AlignedBuf::with_len(into.len() * self.factor as usize);
        self.below.read(self.down(at), &mut wide)?;
        self.gather(&wide, into);
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.check(from)?;
        self.below.write(self.down(at), &self.spread(from))
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        self.check(from)?;
        self.below.append(zone, &self.spread(from)).map(|at| self.up(at))
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.below.open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.below.close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.below.finish(zone)
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        self.below.reset(zone)
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        let device = Self { below: self.below.clone(), factor: self.factor, geometry: self.geometry.clone() };
        Ok(Box::new(CoarseQueue { below: self.below.queue(depth)?, device, buffers: HashMap::new() }))
    }

    fn counters(&self) -> DeviceCounters {
        let found = self.below.counters();
        let factor = u64::from(self.factor);
        DeviceCounters { read_bytes: found.read_bytes / factor, written_bytes: found.written_bytes / factor, ..found }
    }

    fn describe(&self) -> String {
        self.below.describe()
    }
}

#[derive(Debug)]
struct CoarseQueue {
    below: Box<dyn IoQueue>,
    device: Coarse,
    /// The callers' buffers by token.
    buffers: HashMap<u64, AlignedBuf>,
}

impl IoQueue for CoarseQueue {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        let device = &self.device;
        let wide = match &io {
            Io::Read { at, into } => {
                Io::Read { at: device.down(*at), into: AlignedBuf::with_len(into.len() * device.factor as usize) }
            }
            Io::Write { at, from } => Io::Write { at: device.down(*at), from: device.spread(from) },
            Io::Append { zone, from } => Io::Append { zone: *zone, from: device.spread(from) },
            Io::Flush => Io::Flush,
        };
        match self.below.submit(token, wide) {
            Ok(()) => {
                let buffer = match io {
                    Io::Read { into, .. } => Some(into),
                    Io::Write { from, .. } | Io::Append { from, .. } => Some(from),
                    Io::Flush => None,
                };
                self.buffers.extend(buffer.map(|buffer| (token, buffer)));
                Ok(())
            }
            Err(rejected) => Err(Box::new(Rejected { error: rejected.error, io })),
        }
    }

    fn start(&mut self) {
        self.below.start();
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        let mut below = Vec::new();
        let count = self.below.complete(min, &mut below)?;
        for completion in below {
            let mut buffer = self.buffers.remove(&completion.token);
            if let (Some(buffer), Some(wide)) = (&mut buffer, &completion.buffer) {
                self.device.gather(wide, buffer);
            }
            let result = completion.result.map(|at| self.device.up(at));
            out.push(Completion { token: completion.token, result, buffer });
        }
        Ok(count)
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight()
    }

    fn depth(&self) -> usize {
        self.below.depth()
    }
}
