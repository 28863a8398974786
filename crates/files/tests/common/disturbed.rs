//! A device beside whose reader something happens at a given call.

use std::fmt;
use std::sync::Arc;

use zonda_device::{DeviceCounters, Geometry, IoQueue, Lba, Result, ZoneId, ZoneReport, ZonedDevice};
use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicU64, Ordering};

type Happening = Box<dyn FnMut() + Send>;

/// For reading, as one that another has open, hence zones are reported one by one: before one report or read something happens. It knows
/// no extension, whatever the device below does.
pub(crate) struct Disturbed {
    device: Arc<dyn ZonedDevice>,
    at: u64,
    is_restless: bool,
    calls: AtomicU64,
    happening: Mutex<Happening>,
}

impl Disturbed {
    /// `happening` comes before the `at`-th report of a zone or read; 1 is the first.
    pub(crate) fn new(device: Arc<dyn ZonedDevice>, at: u64, happening: Happening) -> Self {
        Self { device, at, is_restless: false, calls: AtomicU64::new(0), happening: Mutex::new(happening) }
    }

    /// It happens before all later ones too.
    pub(crate) fn restless(self) -> Self {
        Self { is_restless: true, ..self }
    }

    /// Whether there were as many.
    pub(crate) fn was_disturbed(&self) -> bool {
        self.calls.load(Ordering::Relaxed) >= self.at
    }

    fn call(&self) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if call == self.at || self.is_restless && call > self.at {
            self.happening.lock()();
        }
    }
}

impl fmt::Debug for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)
    }
}

impl ZonedDevice for Disturbed {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        let mut reports = Vec::new();
        for zone in first.0..first.0.saturating_add(count).min(self.geometry().zone_count) {
            self.call();
            reports.extend(self.device.report(ZoneId(zone), 1)?);
        }
        Ok(reports)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.call();
        self.device.read(at, into)
    }

    fn write(&self, _: Lba, _: &[u8]) -> Result<()> {
        unreachable!("a reader writes nothing")
    }

    fn append(&self, _: ZoneId, _: &[u8]) -> Result<Lba> {
        unreachable!("a reader writes nothing")
    }

    fn flush(&self) -> Result<()> {
        unreachable!("a reader writes nothing")
    }

    fn open(&self, _: ZoneId) -> Result<()> {
        unreachable!("a reader opens no zone")
    }

    fn close(&self, _: ZoneId) -> Result<()> {
        unreachable!("a reader closes no zone")
    }

    fn finish(&self, _: ZoneId) -> Result<()> {
        unreachable!("a reader finishes no zone")
    }

    fn reset(&self, _: ZoneId) -> Result<()> {
        unreachable!("a reader resets no zone")
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        self.device.queue(depth)
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}
