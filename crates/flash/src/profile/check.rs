//! Which numbers of a profile make a drive.
use super::{Conventional, Profile, ProfileError, Zoned};
use crate::conventional::ConventionalShape;
use crate::core::Nanos;

/// Bytes that all dies program at once: above it there is no drive, and sizes that are made of it could not be counted.
const ROW_BYTES_MAX: u64 = 1 << 40;
/// Of a single thing that a drive does: an hour.
const TIME_MAX: Nanos = 3_600_000_000_000;
/// Dies and channels are numbered with 16 bits.
const DIES_MAX: usize = u16::MAX as usize;

impl Profile {
    /// Whether a drive can be made of it.
    ///
    /// # Errors
    /// With the first number that makes no sense.
    pub(super) fn check(&self) -> Result<(), ProfileError> {
        let flash = &self.flash;
        let positive = [
            ("flash.channels", flash.channels as u64),
            ("flash.dies", flash.dies as u64),
            ("flash.planes", flash.planes),
            ("flash.page_bytes", flash.page_bytes),
            ("flash.pages_per_program", flash.pages_per_program),
            ("flash.reads_per_gap", u64::from(flash.reads_per_gap)),
            ("flash.channel_piece_bytes", flash.channel_piece_bytes),
            ("flash.slice_ns", flash.slice_ns.unwrap_or(1)),
            ("flash.collection_slice_ns", flash.collection_slice_ns.unwrap_or(1)),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(ProfileError(format!("{}: {name} is 0", self.name)));
        }
        let numbered = [("flash.channels", flash.channels), ("flash.dies", flash.dies)];
        if let Some((name, value)) = numbered.iter().find(|(_, value)| *value > DIES_MAX) {
            return Err(ProfileError(format!("{}: {name} is {value}, the most is {DIES_MAX}", self.name)));
        }
        let factors = [flash.page_bytes, flash.pages_per_program, flash.dies as u64].into_iter();
        let row = factors.fold(u128::from(flash.planes), |bytes, by| bytes.saturating_mul(by.into()));
        if row > u128::from(ROW_BYTES_MAX) {
            return Err(ProfileError(format!(
                "{}: planes, pages and dies make a program of more than {ROW_BYTES_MAX} bytes",
                self.name
            )));
        }
        self.check_times()?;
        match (&self.zoned, &self.conventional) {
            (Some(zoned), None) => self.check_zoned(zoned),
            (None, Some(conventional)) => self.check_conventional(conventional),
            _ => Err(ProfileError(format!("{}: a drive is either zoned or conventional", self.name))),
        }
    }

    fn check_times(&self) -> Result<(), ProfileError> {
        let (flash, controller) = (&self.flash, &self.controller);
        let slices = [("flash.slice_ns", flash.slice_ns), ("flash.collection_slice_ns", flash.collection_slice_ns)];
        for (name, slice_ns) in slices {
            if slice_ns.is_some_and(|slice_ns| slice_ns <= flash.resume_ns) {
                return Err(ProfileError(format!(
                    "{}: flash.resume_ns is {}, and {name} no more: a program would not get on beside reads",
                    self.name, flash.resume_ns
                )));
            }
        }
        let demands = [
            ("controller.write_demand", &controller.write_demand),
            ("controller.append_demand", &controller.append_demand),
        ];
        self.check_length(&[
            ("flash.sense_ns", flash.sense_ns),
            ("flash.program_ns", flash.program_ns),
            ("flash.erase_ns", flash.erase_ns),
            ("flash.resume_ns", flash.resume_ns),
            ("controller.read_serial_ns", controller.read_serial_ns),
            ("controller.read_latency_ns", controller.read_latency_ns),
            ("controller.bus_command_ns", controller.bus_command_ns),
            ("controller.write_latency_ns", controller.write_latency_ns),
            ("controller.append_latency_ns", controller.append_latency_ns),
            ("controller.flush_ns", controller.flush_ns),
        ])?;
        for (name, points) in demands {
            self.check_length(&points.iter().map(|&(_, ns)| (name, ns)).collect::<Vec<_>>())?;
            if let Some(pair) = points.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
                let (before, bytes) = (pair[0].0, pair[1].0);
                return Err(ProfileError(format!(
                    "{}: {name} has {bytes} bytes behind {before}: sizes ascend",
                    self.name
                )));
            }
        }
        Ok(())
    }

    /// Sums of times of a run can be counted if none of them is absurd.
    fn check_length(&self, times: &[(&str, Nanos)]) -> Result<(), ProfileError> {
        match times.iter().find(|(_, ns)| *ns > TIME_MAX) {
            Some((name, ns)) => Err(ProfileError(format!("{}: {name} is {ns}, the most is {TIME_MAX}", self.name))),
            None => Ok(()),
        }
    }

    fn check_zoned(&self, zoned: &Zoned) -> Result<(), ProfileError> {
        self.check_length(&[
            ("zoned.open_ns", zoned.open_ns),
            ("zoned.close_ns", zoned.close_ns),
            ("zoned.report_ns", zoned.report_ns),
            ("zoned.reset_empty_ns", zoned.reset_empty_ns),
            ("zoned.reset_base_ns", zoned.reset_base_ns),
            ("zoned.reset_occupancy_ns", zoned.reset_occupancy_ns),
            ("zoned.reset_unfinished_ns", zoned.reset_unfinished_ns),
            ("zoned.finish_empty_ns", zoned.finish_empty_ns),
            ("zoned.finish_min_ns", zoned.finish_min_ns),
        ])?;
        if u64::from(zoned.zones).checked_mul(zoned.zone_size_bytes).is_none() {
            let (zones, bytes) = (zoned.zones, zoned.zone_size_bytes);
            return Err(ProfileError(format!("{}: {zones} zones of {bytes} bytes are no drive", self.name)));
        }
        let width = zoned.dies_per_zone;
        if width == 0 || !self.flash.dies.is_multiple_of(width) {
            return Err(ProfileError(format!(
                "{}: {width} dies per zone do not divide {}",
                self.name, self.flash.dies
            )));
        }
        let row = self.unit_bytes() * width as u64;
        if zoned.zone_capacity_bytes < row || zoned.zone_size_bytes < zoned.zone_capacity_bytes {
            return Err(ProfileError(format!(
                "{}: a zone of {} bytes holds {}, at least {row} are needed",
                self.name, zoned.zone_size_bytes, zoned.zone_capacity_bytes
            )));
        }
        let ring_zones = zoned.split.as_ref().map_or(0, |split| split.ring_zones);
        if ring_zones.checked_mul(zoned.zone_capacity_bytes).is_none() {
            return Err(ProfileError(format!("{}: a ring of {ring_zones} zones", self.name)));
        }
        Ok(())
    }

    fn check_conventional(&self, conventional: &Conventional) -> Result<(), ProfileError> {
        let row = self.unit_bytes() * self.flash.dies as u64;
        if conventional.superblocks == 0 || conventional.physical_bytes / conventional.superblocks < row {
            return Err(ProfileError(format!("{}: a superblock is less than {row} bytes", self.name)));
        }
        if conventional.superblocks > u64::from(u32::MAX) || conventional.logical_bytes == 0 {
            let (blocks, bytes) = (conventional.superblocks, conventional.logical_bytes);
            return Err(ProfileError(format!("{}: {blocks} superblocks for {bytes} bytes of the host", self.name)));
        }
        if conventional.collect_depth_min.unwrap_or(1) == 0 || conventional.collect_depth == 0 {
            return Err(ProfileError(format!("{}: collection needs a depth of at least 1", self.name)));
        }
        let shape = self.conventional_shape();
        if let Some(Err(why)) = shape.as_ref().map(ConventionalShape::check) {
            return Err(ProfileError(format!("{}: {why}", self.name)));
        }
        let usable = shape.map_or(0, |shape| shape.usable_bytes());
        if usable <= conventional.logical_bytes {
            return Err(ProfileError(format!(
                "{}: {usable} usable bytes of flash do not hold {} bytes of the host",
                self.name, conventional.logical_bytes
            )));
        }
        Ok(())
    }
}
