//! A drive that loses split zones as a whole.

use std::fmt;
use std::sync::Arc;

use zonda_device::{
    Completion, DeviceCounters, DeviceError, Geometry, Io, IoQueue, Lba, Rejected, Result, SplitZones, SubzoneId,
    SubzoneReport, ZoneId, ZoneReport, ZoneState, ZonedDevice,
};
use zonda_rt::Mutex;

/// What it says of the subzones of a zone that it has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// As if nothing had happened: only the zone is offline.
    AsBefore,
    /// That it is offline.
    Offline,
    /// That it is not split.
    NotSplit,
}

/// The zones are offline when they are asked for, and every command on them fails.
pub(crate) struct Losing {
    device: Arc<dyn ZonedDevice>,
    says: Says,
    lost: Mutex<Vec<ZoneId>>,
}

impl Losing {
    pub(crate) fn over(device: Arc<dyn ZonedDevice>, says: Says) -> Self {
        Self { device, says, lost: Mutex::new(Vec::new()) }
    }

    pub(crate) fn lose(&self, zone: ZoneId) {
        self.lost.lock().push(zone);
    }

    fn is_lost(&self, zone: ZoneId) -> bool {
        self.lost.lock().contains(&zone)
    }

    fn check(&self, zone: ZoneId, action: &'static str) -> Result<()> {
        match self.is_lost(zone) {
            true => Err(DeviceError::InvalidTransition { zone, from: ZoneState::Offline, action }),
            false => Ok(()),
        }
    }

    fn below(&self) -> &dyn SplitZones {
        self.device.split_zones().unwrap()
    }
}

impl fmt::Debug for Losing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)
    }
}

impl ZonedDevice for Losing {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        let mut reports = self.device.report(first, count)?;
        for report in reports.iter_mut().filter(|report| self.is_lost(report.zone)) {
            (report.state, report.write_pointer) = (ZoneState::Offline, None);
        }
        Ok(reports)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let zone = self.geometry().zone_of(at);
        if self.is_lost(zone) {
            return Err(DeviceError::Offline { zone });
        }
        self.device.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.device.write(at, from)
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        self.device.append(zone, from)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
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
        let (below, lost) = (self.device.queue(depth)?, self.lost.lock().clone());
        Ok(Box::new(LosingQueue { below, lost, geometry: self.geometry().clone(), failing: Vec::new() }))
    }

    fn split_zones(&self) -> Option<&dyn SplitZones> {
        Some(self)
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}

impl SplitZones for Losing {
    fn subzones(&self) -> u16 {
        self.below().subzones()
    }

    fn subzone_blocks(&self) -> u64 {
        self.below().subzone_blocks()
    }

    fn split(&self, zone: ZoneId) -> Result<()> {
        self.below().split(zone)
    }

    fn report_subzones(&self, zone: ZoneId) -> Result<Vec<SubzoneReport>> {
        match self.says {
            Says::Offline if self.is_lost(zone) => return Err(DeviceError::Offline { zone }),
            Says::NotSplit => self.check(zone, "report subzones of")?,
            _ => {}
        }
        self.below().report_subzones(zone)
    }

    fn append_subzone(&self, subzone: SubzoneId, from: &[u8]) -> Result<Lba> {
        if self.is_lost(subzone.zone) {
            return Err(DeviceError::Offline { zone: subzone.zone });
        }
        self.below().append_subzone(subzone, from)
    }

    fn finish_subzone(&self, subzone: SubzoneId) -> Result<()> {
        self.check(subzone.zone, "finish")?;
        self.below().finish_subzone(subzone)
    }

    fn reset_subzone(&self, subzone: SubzoneId) -> Result<()> {
        self.check(subzone.zone, "reset")?;
        self.below().reset_subzone(subzone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.check(zone, "finish")?;
        self.below().finish(zone)
    }

    fn join(&self, zone: ZoneId) -> Result<()> {
        self.check(zone, "join")?;
        self.below().join(zone)
    }
}

/// Reads of zones that were lost when it was made fail.
#[derive(Debug)]
struct LosingQueue {
    below: Box<dyn IoQueue>,
    lost: Vec<ZoneId>,
    geometry: Geometry,
    failing: Vec<(u64, ZoneId)>,
}

impl IoQueue for LosingQueue {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        if let Io::Read { at, .. } = &io {
            let zone = self.geometry.zone_of(*at);
            self.failing.extend(self.lost.contains(&zone).then_some((token, zone)));
        }
        self.below.submit(token, io)
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        let before = out.len();
        let done = self.below.complete(min, out)?;
        for completion in &mut out[before..] {
            if let Some(&(_, zone)) = self.failing.iter().find(|(token, _)| *token == completion.token) {
                completion.result = Err(DeviceError::Offline { zone });
            }
        }
        Ok(done)
    }

    fn in_flight(&self) -> usize {
        self.below.in_flight()
    }

    fn depth(&self) -> usize {
        self.below.depth()
    }
}
