//! A device that writes down what is done to it and when each call began and returned.
use std::sync::Arc;

use zonda_device::{
    AlignedBuf, Completion, DeviceCounters, Geometry, Io, IoQueue, Lba, Rejected, Result, ZoneId, ZoneReport,
    ZonedDevice,
};
use zonda_rt::Mutex;

/// What was done.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A write.
    Write {
        /// Where.
        at: Lba,
        /// What.
        data: AlignedBuf,
    },
    /// A zone was finished.
    Finish(ZoneId),
    /// A zone was reset.
    Reset(ZoneId),
    /// A flush.
    Flush,
    /// Not the device's: so many puts are acknowledged.
    Acknowledged(u64),
}

/// A deed with the moments of its beginning and its end; both count beginnings and ends.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When it began.
    pub begin: u64,
    /// When it returned.
    pub end: u64,
    /// What.
    pub deed: Deed,
}

#[derive(Debug, Default)]
struct Log {
    now: u64,
    entries: Vec<Entry>,
}

/// The recording device. Calls that failed are not written down. Zones are neither opened nor closed here: that moves no data.
#[derive(Clone, Debug)]
pub struct Recorder {
    device: Arc<dyn ZonedDevice>,
    log: Arc<Mutex<Log>>,
}

impl Recorder {
    /// Records what is done to `device`.
    #[must_use]
    pub fn over(device: Arc<dyn ZonedDevice>) -> Self {
        Self { device, log: Arc::default() }
    }

    /// Notes that so many puts are acknowledged.
    pub fn acknowledge(&self, puts: u64) {
        let begin = self.tick();
        self.note(begin, Deed::Acknowledged(puts));
    }

    /// All that was done, by the time of its beginning.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.log.lock().entries.clone();
        entries.sort_by_key(|entry| entry.begin);
        entries
    }

    fn tick(&self) -> u64 {
        let mut log = self.log.lock();
        log.now += 1;
        log.now
    }

    fn note(&self, begin: u64, deed: Deed) {
        let mut log = self.log.lock();
        log.now += 1;
        let end = log.now;
        log.entries.push(Entry { begin, end, deed });
    }

    fn doing<T>(&self, call: impl FnOnce() -> Result<T>, deed: impl FnOnce(&T) -> Deed) -> Result<T> {
        let begin = self.tick();
        let done = call()?;
        self.note(begin, deed(&done));
        Ok(done)
    }
}

impl ZonedDevice for Recorder {
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
        self.doing(|| self.device.write(at, from), |()| Deed::Write { at, data: AlignedBuf::from_slice(from) })
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let deed = |&at: &Lba| Deed::Write { at, data: AlignedBuf::from_slice(from) };
        self.doing(|| self.device.append(zone, from), deed)
    }

    fn flush(&self) -> Result<()> {
        self.doing(|| self.device.flush(), |()| Deed::Flush)
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.device.open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.device.close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.doing(|| self.device.finish(zone), |()| Deed::Finish(zone))
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        self.doing(|| self.device.reset(zone), |()| Deed::Reset(zone))
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(ReadQueue(self.device.queue(depth)?)))
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}

/// A queue for reads: the store writes through calls, and what went past the record would make it worthless.
#[derive(Debug)]
struct ReadQueue(Box<dyn IoQueue>);

impl IoQueue for ReadQueue {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        assert!(matches!(io, Io::Read { .. }), "only reads go through a recorded device's queue");
        self.0.submit(token, io)
    }

    fn start(&mut self) {
        self.0.start();
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        self.0.complete(min, out)
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn depth(&self) -> usize {
        self.0.depth()
    }
}
