//! A modelled zoned drive as a device.
use std::sync::Arc;

use zonda_device::{
    AlignedBuf, DeviceCounters, Geometry, Io, IoQueue, Lba, Result, ZoneId, ZoneReport, ZoneState, ZonedDevice,
};
use zonda_rt::modelled;

use super::clock::TimeMode;
use super::queue::{FlashQueue, Store};
use super::timing::Timing;
use super::{FlashReport, bad_profile};
use crate::model::{Answer, Command};
use crate::profile::Profile;
use crate::zns::{ZonedModel, ZonedShape};

/// A zoned device with the timing of a modelled SSD. Clones are handles to the same drive.
///
/// Data, zone states, limits and errors are those of the device below, whatever it is: memory, a file, one with faults
/// or with a power switch. A call is done there at once; then its caller waits as long as the modelled drive would take.
/// A call that fails takes no time.
#[derive(Clone, Debug)]
pub struct FlashZoned {
    data: Arc<dyn ZonedDevice>,
    timing: Arc<Timing<ZonedModel>>,
    name: Arc<str>,
}

impl FlashZoned {
    /// Gives a device the timing of `profile`. Numbers and sizes of zones are the device's; zones that hold data hold it
    /// on flash.
    ///
    /// # Errors
    /// `BadName` if the profile is of a conventional drive; those of reporting.
    pub fn over(data: Arc<dyn ZonedDevice>, profile: &Profile, mode: TimeMode, seed: u64) -> Result<Self> {
        let shape = profile.zoned_shape().ok_or_else(|| bad_profile(profile, "has no zones"))?;
        let geometry = data.geometry();
        let block = u64::from(geometry.block_bytes);
        let shape = ZonedShape {
            zone_size_bytes: geometry.zone_size_blocks * block,
            zone_capacity_bytes: geometry.zone_capacity_blocks * block,
            zones: geometry.zone_count,
            ..shape
        };
        let mut model = ZonedModel::new(profile.core_shape(seed), shape);
        preset(&mut model, &*data)?;
        let name = profile.name.as_str().into();
        Ok(Self { data, timing: Arc::new(Timing::new(model, mode)), name })
    }

    /// What the flash did so far.
    #[must_use]
    pub fn flash_report(&self) -> FlashReport {
        let (core, writes) = self.timing.stats();
        FlashReport { core, writes, dilation: self.timing.clock().dilation() }
    }

    /// Times that a zone was erased: its wear.
    #[must_use]
    pub fn wear(&self, zone: ZoneId) -> u32 {
        self.timing.with(|model| model.wear(zone.0))
    }

    /// As [`ZonedDevice::read`], and says where the time went.
    ///
    /// # Errors
    /// As there.
    pub fn read_attributed(&self, at: Lba, into: &mut [u8]) -> Result<Answer> {
        modelled(|| self.data.read(at, into))?;
        Ok(self.timing.perform(Command::Read { at: self.byte(at), bytes: into.len() as u64 }))
    }

    fn byte(&self, at: Lba) -> u64 {
        at.0 * u64::from(self.data.geometry().block_bytes)
    }
}

fn preset(model: &mut ZonedModel, data: &dyn ZonedDevice) -> Result<()> {
    let geometry = data.geometry();
    let block = u64::from(geometry.block_bytes);
    for report in modelled(|| data.report(ZoneId(0), geometry.zone_count))? {
        let full = geometry.zone_capacity_blocks;
        let blocks = report.write_pointer.map_or(full, |pointer| pointer.0 - report.start.0);
        if report.state != ZoneState::Empty {
            model.preset(report.zone.0, blocks * block, report.state == ZoneState::Full);
        }
    }
    Ok(())
}

impl ZonedDevice for FlashZoned {
    fn geometry(&self) -> &Geometry {
        self.data.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        let reports = modelled(|| self.data.report(first, count))?;
        self.timing.perform(Command::Report);
        Ok(reports)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.read_attributed(at, into).map(|_| ())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        modelled(|| self.data.write(at, from))?;
        self.timing.perform(Command::Write { at: self.byte(at), bytes: from.len() as u64, stream: 0 });
        Ok(())
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let at = modelled(|| self.data.append(zone, from))?;
        self.timing.perform(Command::Append { zone: zone.0, bytes: from.len() as u64 });
        Ok(at)
    }

    fn flush(&self) -> Result<()> {
        modelled(|| self.data.flush())?;
        self.timing.perform(Command::Flush);
        Ok(())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        modelled(|| self.data.open(zone))?;
        self.timing.perform(Command::Open { zone: zone.0 });
        Ok(())
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        modelled(|| self.data.close(zone))?;
        self.timing.perform(Command::Close { zone: zone.0 });
        Ok(())
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        modelled(|| self.data.finish(zone))?;
        self.timing.perform(Command::Finish { zone: zone.0 });
        Ok(())
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        modelled(|| self.data.reset(zone))?;
        self.timing.perform(Command::Reset { zone: zone.0 });
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(FlashQueue::new(self.clone(), Arc::clone(&self.timing), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.data.counters()
    }

    fn describe(&self) -> String {
        super::describe(&self.name, self.timing.clock().mode(), &self.data.describe())
    }
}

impl Store for FlashZoned {
    fn apply(&self, io: Io) -> (Result<Lba>, Option<AlignedBuf>, Option<Command>) {
        modelled(|| match io {
            Io::Read { at, mut into } => {
                let result = self.data.read(at, &mut into).map(|()| at);
                let command = Command::Read { at: self.byte(at), bytes: into.len() as u64 };
                (result, Some(into), Some(command))
            }
            Io::Write { at, from } => {
                let result = self.data.write(at, &from).map(|()| at);
                let command = Command::Write { at: self.byte(at), bytes: from.len() as u64, stream: 0 };
                (result, Some(from), Some(command))
            }
            Io::Append { zone, from } => {
                let result = self.data.append(zone, &from);
                let command = Command::Append { zone: zone.0, bytes: from.len() as u64 };
                (result, Some(from), Some(command))
            }
            Io::Flush => (self.data.flush().map(|()| Lba(0)), None, Some(Command::Flush)),
        })
    }
}
