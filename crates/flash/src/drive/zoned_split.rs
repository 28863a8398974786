//! The commands for split zones on a modelled drive: done to the data at once, waited for as the model says.
use zonda_device::{Geometry, Lba, Result, SplitZones, SubzoneId, SubzoneReport, ZoneId, ZoneState};
use zonda_rt::modelled;

use super::{FlashZoned, SplitData};
use crate::histogram::Histogram;
use crate::model::Command;
use crate::zns::{BlockWear, SplitCounts, SplitMemory, TimedWork, ZonedModel};

/// Says what is in the subzones of a zone that was split before.
pub(super) fn preset(model: &mut ZonedModel, subzones: &[SubzoneReport], block_bytes: u64, geometry: &Geometry) {
    let blocks_max = geometry.zone_capacity_blocks / (subzones.len() as u64).max(1);
    for report in subzones {
        let blocks = report.write_pointer.map_or(blocks_max, |pointer| pointer.0 - report.start.0);
        let finished = report.state == ZoneState::Full;
        model.preset_subzone(report.id.zone.0, report.id.index, blocks * block_bytes, finished);
    }
}

impl FlashZoned {
    /// What ring, prefetcher and scheduler did, on drives that split zones.
    #[must_use]
    pub fn split_counts(&self) -> Option<SplitCounts> {
        self.timing.with(ZonedModel::split_counts)
    }

    /// The memory they take.
    #[must_use]
    pub fn split_memory(&self) -> Option<SplitMemory> {
        self.timing.with(ZonedModel::split_memory)
    }

    /// How long commands for such a work took so far, in the drive's time.
    #[must_use]
    pub fn times_of(&self, work: TimedWork) -> Histogram {
        self.timing.with(|model| model.times_of(work).clone())
    }

    /// Times that the block of a zone on one of its chips was erased.
    #[must_use]
    pub fn block_wear(&self, zone: ZoneId, chip: u16) -> u32 {
        self.timing.with(|model| model.block_wear(zone.0, chip))
    }

    /// How often blocks were erased since the drive was opened; zones are all over their chips.
    #[must_use]
    pub fn wear_of_blocks(&self) -> BlockWear {
        self.timing.with(ZonedModel::wear_of_blocks)
    }

    /// The power goes and comes back, with nothing in flight: what was in a ring without capacitors is gone, open zones
    /// are closed, open subzones stay writable.
    ///
    /// # Errors
    /// Those of the device that keeps the data.
    pub fn lose_power(&self) -> Result<()> {
        let Some(split) = &self.split else { return Ok(()) };
        let block_bytes = u64::from(split.block_bytes());
        let lost = self.timing.change(|model| {
            let durable = model.shape().split.is_none_or(|parts| parts.ring_durable || parts.ring_bytes == 0);
            let lost = if durable { Vec::new() } else { model.in_ring() };
            model.lose_power();
            lost
        });
        split.power_cycle();
        for (zone, index, on_flash) in lost {
            let id = SubzoneId { zone: ZoneId(zone), index };
            modelled(|| split.cut_subzone(id, on_flash / block_bytes))?;
        }
        Ok(())
    }

    /// The data, which the caller knows to split zones: this is called through [`SplitZones`] only.
    fn splitting(&self) -> &SplitData {
        self.split.as_deref().expect("only drives that split zones hand out these commands")
    }
}

impl SplitZones for FlashZoned {
    fn subzones(&self) -> u16 {
        self.splitting().subzones()
    }

    fn subzone_blocks(&self) -> u64 {
        self.splitting().subzone_blocks()
    }

    fn split(&self, zone: ZoneId) -> Result<()> {
        modelled(|| self.splitting().split(zone))?;
        self.timing.perform(Command::Split { zone: zone.0 });
        Ok(())
    }

    fn report_subzones(&self, zone: ZoneId) -> Result<Vec<SubzoneReport>> {
        let mut reports = modelled(|| self.splitting().report_subzones(zone))?;
        self.timing.perform(Command::Report);
        self.timing.with(|model| {
            for report in &mut reports {
                report.chip = model.chip_of_subzone(zone.0, report.id.index);
            }
        });
        Ok(reports)
    }

    fn append_subzone(&self, subzone: SubzoneId, from: &[u8]) -> Result<Lba> {
        let at = modelled(|| self.splitting().append_subzone(subzone, from))?;
        let (zone, index) = (subzone.zone.0, subzone.index);
        self.timing.perform(Command::AppendSubzone { zone, index, bytes: from.len() as u64 });
        Ok(at)
    }

    fn finish_subzone(&self, subzone: SubzoneId) -> Result<()> {
        modelled(|| self.splitting().finish_subzone(subzone))?;
        self.timing.perform(Command::FinishSubzone { zone: subzone.zone.0, index: subzone.index });
        Ok(())
    }

    fn reset_subzone(&self, subzone: SubzoneId) -> Result<()> {
        modelled(|| self.splitting().reset_subzone(subzone))?;
        self.timing.perform(Command::ResetSubzone { zone: subzone.zone.0, index: subzone.index });
        Ok(())
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        modelled(|| SplitZones::finish(self.splitting(), zone))?;
        self.timing.perform(Command::FinishSplit { zone: zone.0 });
        Ok(())
    }

    fn join(&self, zone: ZoneId) -> Result<()> {
        modelled(|| self.splitting().join(zone))?;
        self.timing.perform(Command::Join { zone: zone.0 });
        Ok(())
    }
}
