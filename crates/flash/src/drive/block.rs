//! A modelled conventional drive as a device.
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{AlignedBuf, BlockDevice, DeviceCounters, DeviceError, Io, IoQueue, Lba, Result};
use zonda_rt::modelled;

use super::clock::TimeMode;
use super::queue::{FlashQueue, Store};
use super::timing::Timing;
use super::{FlashReport, bad_profile};
use crate::conventional::{ConventionalModel, ConventionalShape};
use crate::core::Nanos;
use crate::model::Command;
use crate::profile::Profile;
use crate::timeline::Timeline;

/// A block device with the timing of a modelled SSD. Clones are handles to the same drive.
///
/// Data and errors are those of the device below; a call is done there at once, then its caller waits as long as the
/// modelled drive would take, collection included. A call that fails takes no time.
#[derive(Clone, Debug)]
pub struct FlashBlock {
    data: Arc<dyn BlockDevice>,
    timing: Arc<Timing<ConventionalModel>>,
    name: Arc<str>,
}

impl FlashBlock {
    /// Gives a device the timing of `profile`. Its capacity is the device's; the ratio of flash to capacity is the
    /// profile's, and so is the number of superblocks until one is a program of every die; a very small drive has more flash. The drive
    /// starts as if nothing had ever been written.
    ///
    /// # Errors
    /// `BadName` if the profile is of a zoned drive, or its mapping units are too small for so large a device.
    pub fn over(data: Arc<dyn BlockDevice>, profile: &Profile, mode: TimeMode, seed: u64) -> Result<Self> {
        let shape = Self::shape_for(profile, data.capacity_bytes())?;
        let model = ConventionalModel::new(profile.core_shape(seed), shape);
        let name = profile.name.as_str().into();
        Ok(Self { data, timing: Arc::new(Timing::new(model, mode)), name })
    }

    /// The device holds data, of an earlier life of the drive: reads find it on flash. For writes the drive is new all the same.
    pub(super) fn hold_all(&self) {
        self.timing.change(ConventionalModel::hold_all);
    }

    /// The shape of such a drive over a device of so many bytes.
    pub(super) fn shape_for(profile: &Profile, capacity_bytes: u64) -> Result<ConventionalShape> {
        let shape = profile.conventional_shape().ok_or_else(|| bad_profile(profile, "is not a block device"))?;
        let row_bytes = profile.unit_bytes() * profile.flash.dies as u64;
        let shape = fit(shape, capacity_bytes, row_bytes);
        let refused = |why| bad_profile(profile, &format!("does not make a drive of {capacity_bytes} bytes: {why}"));
        shape.check().map_err(refused)?;
        Ok(shape)
    }

    /// What the flash did so far.
    #[must_use]
    pub fn flash_report(&self) -> FlashReport {
        let (core, writes, waits) = self.timing.stats();
        let clock = self.timing.clock();
        let is_untimed = clock.mode() == TimeMode::Untimed;
        FlashReport { core, writes, waits, dilation: clock.dilation(), is_untimed }
    }

    /// Bytes of the mapping table that such a drive keeps in DRAM.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.timing.with(|model| model.shape().table_bytes())
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

    fn byte(&self, at: Lba) -> u64 {
        at.0 * u64::from(self.data.block_bytes())
    }
}

/// The shape for another capacity, with the same ratio of flash to capacity and, as far as that goes, as many superblocks: drives of one
/// flash then keep back the same of it. A superblock is whole rows of units over all dies, and no larger than the profile's, so that there
/// are fewer on a drive too small for as many rows, and more on a larger one. It is smaller where what streams and reserve need would be
/// more than the ratio leaves; where even rows are too large for that, there is more flash.
fn fit(shape: ConventionalShape, capacity_bytes: u64, row_bytes: u64) -> ConventionalShape {
    let ratio = shape.usable_bytes() as f64 / shape.logical_bytes as f64;
    let beside_data = shape.streams as usize + shape.collect_below + 2;
    let flash_bytes = capacity_bytes as f64 * ratio;
    let rows_of_as_many = (flash_bytes / shape.superblocks as f64 / row_bytes as f64).round();
    let rows_of_spare = ((flash_bytes - capacity_bytes as f64) / (beside_data + 1) as f64 / row_bytes as f64).floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rows of a superblock")]
    let rows = rows_of_as_many.min(rows_of_spare).max(1.0) as u64;
    let superblock_bytes = shape.superblock_bytes.min(rows * row_bytes);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of superblocks")]
    let by_ratio = (flash_bytes / superblock_bytes as f64).round() as usize;
    let data = usize::try_from(capacity_bytes.div_ceil(superblock_bytes)).unwrap_or(usize::MAX);
    let superblocks = by_ratio.max(data + beside_data);
    ConventionalShape { logical_bytes: capacity_bytes, superblock_bytes, superblocks, ..shape }
}

impl BlockDevice for FlashBlock {
    fn block_bytes(&self) -> u32 {
        self.data.block_bytes()
    }

    fn capacity_blocks(&self) -> u64 {
        self.data.capacity_blocks()
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        modelled(|| self.data.read(at, into))?;
        self.timing.perform(Command::Read { at: self.byte(at), bytes: into.len() as u64 });
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.write_stream(at, from, 0)
    }

    /// A stream is also a placement id, as in FDP. One that the drive does not have shares its superblocks with stream 0.
    fn write_stream(&self, at: Lba, from: &[u8], stream: u32) -> Result<()> {
        modelled(|| self.data.write(at, from))?;
        self.timing.perform(Command::Write { at: self.byte(at), bytes: from.len() as u64, stream });
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        modelled(|| self.data.flush())?;
        self.timing.perform(Command::Flush);
        Ok(())
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        modelled(|| self.data.trim(at, blocks))?;
        let bytes = blocks * u64::from(self.data.block_bytes());
        self.timing.perform(Command::Trim { at: self.byte(at), bytes });
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(FlashQueue::new(self.clone(), Arc::clone(&self.timing), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.data.counters()
    }

    fn describe(&self) -> String {
        super::describe(&self.name, self.timing.clock(), &self.data.describe())
    }
}

impl Store for FlashBlock {
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
            Io::Append { from, .. } => {
                (Err(DeviceError::NotSupported { what: "append on a block device" }), Some(from), None)
            }
            Io::Flush => (self.data.flush().map(|()| Lba(0)), None, Some(Command::Flush)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(name: &str, scale: u64) -> Profile {
        Profile::named(name).unwrap().scaled(scale).unwrap()
    }

    fn superblocks(name: &str, scale: u64, capacity_bytes: u64) -> (u64, usize) {
        let shape = FlashBlock::shape_for(&profile(name, scale), capacity_bytes).unwrap();
        (shape.superblock_bytes, shape.superblocks)
    }

    #[test]
    fn drives_of_one_flash_keep_back_the_same_of_it() {
        const ROW: u64 = 32 * (192 << 10);
        // As `zonda repro zns-fig6` and `zns-fig9` make them: 200 of 1,900 parts of each drive, at 1/170.
        assert_eq!(superblocks("atc21-28op", 170, 990_707_712), (ROW, 216));
        assert_eq!(superblocks("atc21-7op", 170, 1_188_851_712), (ROW, 216));
        for parts in [2, 3, 5, 8] {
            let [more, less] = [("atc21-28op", 1_599_999_049_728), ("atc21-7op", 1_919_999_279_104)]
                .map(|(name, bytes)| superblocks(name, 1, bytes / parts));
            assert_eq!(more, less, "one of {parts} parts");
            assert!(more.1.abs_diff(560) <= 2, "{} superblocks of one of {parts} parts", more.1);
        }
    }

    #[test]
    fn a_drive_of_its_profiles_capacity_has_its_shape() {
        for (name, scale) in [
            ("atc21-28op", 1),
            ("atc21-7op", 24),
            ("atc21-7op", 170),
            ("splitzns-conv-20op", 1),
            ("splitzns-conv-20op", 32),
            ("test-conv", 1),
        ] {
            let profile = profile(name, scale);
            let shape = profile.conventional_shape().unwrap();
            assert_eq!(FlashBlock::shape_for(&profile, shape.logical_bytes).unwrap(), shape, "{name} at 1/{scale}");
        }
    }

    #[test]
    fn a_very_small_drive_has_more_flash() {
        let shape = FlashBlock::shape_for(&profile("atc21-7op", 1), 20_480).unwrap();
        assert_eq!(shape.superblocks, 1 + 8 + 6 + 2, "data, streams, and what collection needs");
    }
}
