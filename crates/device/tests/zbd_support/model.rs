//! Random operations on a device and on the model of one, which must answer alike: the same errors, states, write
//! pointers and data. Reopens the device now and then, as a new life would.
use std::path::Path;

use zonda_device::{
    AlignedBuf, Completion, Geometry, Io, MemDevice, Result, ZbdDevice, ZbdOptions, ZoneId, ZoneReport, ZonedDevice,
};
use zonda_rt::{Rng, Seed};

/// Longest write, in blocks: longer than the kernel's longest request in some shapes.
const WRITE_BLOCKS_MAX: u64 = 200;
const QUEUE_DEPTH: u32 = 16;

struct Pair {
    device: ZbdDevice,
    model: MemDevice,
    rng: Rng,
    /// Zones that the tests use: few, so that limits are met.
    zones: u32,
}

/// Runs `steps` random operations. A failure names the device and the seed.
pub(crate) fn run(path: &Path, options: &ZbdOptions, seed: u64, steps: u32) {
    super::devices::reset_all(path);
    let device = ZbdDevice::open(path, options).unwrap();
    let model = MemDevice::new(device.geometry().clone()).unwrap();
    let zones = device.geometry().zone_count.min(10);
    let mut pair = Pair { device, model, rng: Seed(seed).derive("zbd model").rng(), zones };
    for step in 0..steps {
        let what = pair.step();
        let context = format!("{} seed {seed} step {step}: {what}", path.display());
        println!("{context}");
        pair.compare(&context);
        if step % 97 == 96 {
            pair = pair.reopened(path, options);
        }
    }
}

impl Pair {
    fn zone(&mut self) -> ZoneId {
        ZoneId(u32::try_from(self.rng.below(self.zones.into())).unwrap())
    }

    fn report(&self, zone: ZoneId) -> ZoneReport {
        self.model.report(zone, 1).unwrap()[0]
    }

    fn data(&mut self) -> AlignedBuf {
        let blocks = if self.rng.below(4) == 0 { 1 + self.rng.below(WRITE_BLOCKS_MAX) } else { 1 + self.rng.below(8) };
        let mut buffer = AlignedBuf::with_len(usize::try_from(blocks).unwrap() * 4096);
        buffer.chunks_mut(4096).for_each(|block| block[..8].copy_from_slice(&self.rng.next_u64().to_le_bytes()));
        buffer
    }

    /// One operation on both; says which.
    fn step(&mut self) -> String {
        let zone = self.zone();
        match self.rng.below(20) {
            0..7 => self.write(zone),
            7..11 => self.append(zone),
            11 => self.both(zone, "open", |device, zone| device.open(zone)),
            12 => self.both(zone, "close", |device, zone| device.close(zone)),
            13 => self.finish(zone),
            14 | 15 => self.both(zone, "reset", |device, zone| device.reset(zone)),
            16 => self.both(zone, "flush", |device, _| device.flush()),
            17 | 18 => self.read(zone),
            _ => self.fill(zone),
        }
    }

    fn write(&mut self, zone: ZoneId) -> String {
        let (report, data) = (self.report(zone), self.data());
        let stray = if self.rng.below(8) == 0 { self.rng.below(3) } else { 0 };
        let at = report.write_pointer.unwrap_or(report.start).plus(stray);
        let answers = (self.device.write(at, &data), self.model.write(at, &data));
        alike(&format!("write of {} bytes at {at}", data.len()), answers)
    }

    fn append(&mut self, zone: ZoneId) -> String {
        let data = self.data();
        let answers = (self.device.append(zone, &data), self.model.append(zone, &data));
        alike(&format!("append of {} bytes to {zone}", data.len()), answers)
    }

    fn both(&mut self, zone: ZoneId, name: &str, call: fn(&dyn ZonedDevice, ZoneId) -> Result<()>) -> String {
        alike(&format!("{name} {zone}"), (call(&self.device, zone), call(&self.model, zone)))
    }

    /// Finishes a zone; but one that is not open only while resources are left: null_blk wants some for that.
    fn finish(&mut self, zone: ZoneId) -> String {
        let reports = self.model.report(ZoneId(0), self.zones).unwrap();
        let active = reports.iter().filter(|report| report.state.is_active()).count();
        let Geometry { max_open, max_active, .. } = *self.device.geometry();
        let open = max_open.into_iter().chain(max_active).min();
        if !self.report(zone).state.is_open() && open.is_some_and(|open| active >= open as usize) {
            return "nothing".to_owned();
        }
        self.both(zone, "finish", |device, zone| device.finish(zone))
    }

    /// Reads anything in the zone, also where nothing is written, through a queue.
    fn read(&mut self, zone: ZoneId) -> String {
        let geometry: Geometry = self.device.geometry().clone();
        let mut wanted = Vec::new();
        let mut queue = self.device.queue(QUEUE_DEPTH).unwrap();
        for token in 0..QUEUE_DEPTH {
            let offset = self.rng.below(geometry.zone_size_blocks);
            let blocks = 1 + self.rng.below((geometry.zone_size_blocks - offset).min(40));
            let bytes = usize::try_from(blocks).unwrap() * 4096;
            let at = geometry.zone_start(zone).plus(offset);
            let mut expected = AlignedBuf::with_len(bytes);
            self.model.read(at, &mut expected).unwrap();
            wanted.push(expected);
            queue.submit(token.into(), Io::Read { at, into: AlignedBuf::with_len(bytes) }).unwrap();
        }
        let mut done: Vec<Completion> = Vec::new();
        queue.complete(QUEUE_DEPTH as usize, &mut done).unwrap();
        for completion in done {
            let index = usize::try_from(completion.token).unwrap();
            completion.result.unwrap();
            assert!(completion.buffer.unwrap()[..] == wanted[index][..], "read {index} of {zone}");
        }
        format!("reads of {zone}")
    }

    /// Writes a zone up to its end.
    fn fill(&mut self, zone: ZoneId) -> String {
        let report = self.report(zone);
        let Some(at) = report.write_pointer else { return format!("nothing to fill in {zone}") };
        let data = AlignedBuf::with_len(usize::try_from(report.remaining_blocks()).unwrap() * 4096);
        let answers = (self.device.write(at, &data), self.model.write(at, &data));
        alike(&format!("fill {zone} from {at}"), answers)
    }

    fn compare(&self, context: &str) {
        let (found, wanted) = (self.device.report(ZoneId(0), self.zones), self.model.report(ZoneId(0), self.zones));
        for (found, wanted) in found.unwrap().into_iter().zip(wanted.unwrap()) {
            // Which zone a device closes to open another is its own affair: only that it is active is the same.
            let activity = |report: &ZoneReport| (report.state.is_active(), report.write_pointer);
            assert_eq!(activity(&found), activity(&wanted), "{context}: {found:?} instead of {wanted:?}");
            if !wanted.state.is_active() {
                assert_eq!(found.state, wanted.state, "{context}");
            }
        }
    }

    /// The device in a new life: what was open is closed, and empty if nothing was written.
    fn reopened(self, path: &Path, options: &ZbdOptions) -> Self {
        let Self { device, model, rng, zones } = self;
        drop(device);
        for report in model.report(ZoneId(0), zones).unwrap() {
            if report.state.is_active() && report.written_blocks() == 0 {
                model.reset(report.zone).unwrap();
            } else if report.state.is_open() {
                model.close(report.zone).unwrap();
            }
        }
        Self { device: ZbdDevice::open(path, options).unwrap(), model, rng, zones }
    }
}

/// Both answers must be the same, errors by their kind.
fn alike<T: PartialEq + std::fmt::Debug + Copy>(what: &str, (found, wanted): (Result<T>, Result<T>)) -> String {
    match (&found, &wanted) {
        (Ok(found), Ok(wanted)) => assert_eq!(found, wanted, "{what}"),
        (Err(found), Err(wanted)) => assert_eq!(found.kind(), wanted.kind(), "{what}: {found} instead of {wanted}"),
        _ => panic!("{what}: {found:?} instead of {wanted:?}"),
    }
    format!("{what}: {}", if wanted.is_ok() { "done" } else { "refused" })
}
