//! A modelled zoned drive as a device.
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{
    AlignedBuf, DeviceCounters, Geometry, Io, IoQueue, Lba, RandomWriteArea, ReadOrigin, Result, SplitZones, ZoneId,
    ZoneReport, ZoneState, ZonedDevice,
};
use zonda_rt::modelled;

use super::clock::TimeMode;
use super::queue::{FlashQueue, Store};
use super::timing::Timing;
use super::{FlashReport, SplitData, WindowData, bad_profile};
use crate::core::Nanos;
use crate::model::{Answer, Command};
use crate::profile::Profile;
use crate::timeline::Timeline;
use crate::zns::{ZonedModel, ZonedShape};

/// A zoned device with the timing of a modelled SSD. Clones are handles to the same drive.
///
/// Data, zone states, limits and errors are those of the device below, whatever it is: memory, a file, one with faults
/// or with a power switch. A call is done there at once; then its caller waits as long as the modelled drive would take.
/// A call that fails takes no time.
#[derive(Clone, Debug)]
pub struct FlashZoned {
    pub(super) data: Arc<dyn ZonedDevice>,
    /// The same data, on drives that split zones.
    pub(super) split: Option<Arc<SplitData>>,
    /// The same data, on drives with random write areas.
    pub(super) windows: Option<Arc<WindowData>>,
    pub(super) timing: Arc<Timing<ZonedModel>>,
    name: Arc<str>,
}

impl FlashZoned {
    /// Gives a device the timing of `profile`. Numbers and sizes of zones are the device's; zones that hold data hold it
    /// on flash.
    ///
    /// # Errors
    /// `BadName` if the profile is of a conventional drive; those of reporting.
    pub fn over(data: Arc<dyn ZonedDevice>, profile: &Profile, mode: TimeMode, seed: u64) -> Result<Self> {
        Self::new(data, None, profile, mode, seed)
    }

    /// As [`over`](Self::over), of a drive that splits zones.
    ///
    /// # Errors
    /// As there; `BadName` if the profile does not split zones, or into other numbers of subzones.
    pub fn over_split(data: Arc<SplitData>, profile: &Profile, mode: TimeMode, seed: u64) -> Result<Self> {
        let zoned = profile.zoned.as_ref().filter(|zoned| zoned.split.is_some());
        if zoned.is_none_or(|zoned| zoned.dies_per_zone != usize::from(data.subzones())) {
            return Err(bad_profile(profile, "does not split zones into so many subzones"));
        }
        let below: Arc<dyn ZonedDevice> = Arc::clone(&data) as Arc<dyn ZonedDevice>;
        Self::new(below, Some(data), profile, mode, seed)
    }

    /// As [`over`](Self::over), of a drive with random write areas.
    ///
    /// # Errors
    /// As there.
    pub fn over_windows(data: Arc<WindowData>, profile: &Profile, mode: TimeMode, seed: u64) -> Result<Self> {
        let below: Arc<dyn ZonedDevice> = Arc::clone(&data) as Arc<dyn ZonedDevice>;
        Ok(Self { windows: Some(data), ..Self::new(below, None, profile, mode, seed)? })
    }

    fn new(
        data: Arc<dyn ZonedDevice>,
        split: Option<Arc<SplitData>>,
        profile: &Profile,
        mode: TimeMode,
        seed: u64,
    ) -> Result<Self> {
        let shape = profile.zoned_shape().ok_or_else(|| bad_profile(profile, "has no zones"))?;
        let geometry = data.geometry();
        let block = u64::from(geometry.block_bytes);
        let shape = ZonedShape {
            zone_size_bytes: geometry.zone_size_blocks * block,
            zone_capacity_bytes: geometry.zone_capacity_blocks * block,
            zones: geometry.zone_count,
            split: shape.split.filter(|_| split.is_some()),
            ..shape
        };
        let mut model = ZonedModel::new(profile.core_shape(seed), shape);
        preset(&mut model, &*data, split.as_deref())?;
        let name = profile.name.as_str().into();
        Ok(Self { data, split, windows: None, timing: Arc::new(Timing::new(model, mode)), name })
    }

    /// What the flash did so far.
    #[must_use]
    pub fn flash_report(&self) -> FlashReport {
        let (core, writes, waits) = self.timing.stats();
        let clock = self.timing.clock();
        let is_untimed = clock.mode() == TimeMode::Untimed;
        FlashReport { core, writes, waits, dilation: clock.dilation(), is_untimed }
    }

    /// Times that a zone was erased, as a whole or in part: its wear. Erases of its subzones are not counted here.
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

    /// Takes down every command from now on, and what dies do in a window of the drive's time, counted from now.
    pub fn watch(&self, window: Range<Nanos>) {
        self.timing.watch(window);
    }

    /// What was taken down since [`watch`](Self::watch).
    #[must_use]
    pub fn seen(&self) -> Timeline {
        self.timing.seen()
    }

    /// This thread computes for so long, in the drive's time, before its next command. In real time that is counted and
    /// not waited for, as if the host were not slowed down by the dilation; in a simulation it passes; untimed it is
    /// nothing.
    pub fn charge_cpu(&self, time: Duration) {
        self.timing.charge(time);
    }

    pub(super) fn byte(&self, at: Lba) -> u64 {
        at.0 * u64::from(self.data.geometry().block_bytes)
    }
}

fn preset(model: &mut ZonedModel, data: &dyn ZonedDevice, split: Option<&SplitData>) -> Result<()> {
    let geometry = data.geometry();
    let block = u64::from(geometry.block_bytes);
    for report in modelled(|| data.report(ZoneId(0), geometry.zone_count))? {
        if let Some(Ok(subzones)) = split.map(|split| split.report_subzones(report.zone)) {
            super::zoned_split::preset(model, &subzones, block, geometry);
            continue;
        }
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

    fn read_told(&self, at: Lba, into: &mut [u8], origin: ReadOrigin) -> Result<()> {
        modelled(|| self.data.read(at, into))?;
        self.timing.perform(Command::ReadTold { at: self.byte(at), bytes: into.len() as u64, origin });
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        let (written, command) = modelled(|| self.write_data(at, from));
        if let Some(command) = command {
            self.timing.perform(command);
        }
        written
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
        self.take_window_away(zone)?;
        modelled(|| self.data.close(zone))?;
        self.timing.perform(Command::Close { zone: zone.0 });
        Ok(())
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.take_window_away(zone)?;
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

    fn random_write_area(&self) -> Option<&dyn RandomWriteArea> {
        self.windows.as_ref().map(|_| self as &dyn RandomWriteArea)
    }

    fn split_zones(&self) -> Option<&dyn SplitZones> {
        self.split.as_ref().map(|_| self as &dyn SplitZones)
    }

    fn counters(&self) -> DeviceCounters {
        self.data.counters()
    }

    fn describe(&self) -> String {
        super::describe(&self.name, self.timing.clock(), &self.data.describe())
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
                let (written, command) = self.write_data(at, &from);
                (written.map(|()| at), Some(from), command)
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
