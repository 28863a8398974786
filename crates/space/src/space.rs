//! The zone manager.

use std::sync::Arc;

use zonda_device::{AlignedBuf, DeviceError, ReadOrigin, SplitZones, SubzoneId, ZoneId, ZonedDevice, cut_label};
use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_rt::{Condvar, Mutex};

use crate::budget::Share;
use crate::format::{GENERATION_MAX, Identity, ZoneHeader};
use crate::gauge::Gauges;
use crate::scan::subzones_of;
use crate::stream::STREAM_ID_MAX;
use crate::table::{Pick, Slot, Table};
use crate::units::Units;
use crate::{
    BLOCK_BYTES, Result, SpaceError, SpaceUsage, StreamId, StreamSet, VictimPolicy, ZoneCounts, ZoneUse, ZoneView,
    victim,
};

/// Which zone a writer gets, and which zones hold what: the only user of a zoned device besides its readers.
///
/// A handle: clones share one manager. All calls may come from any thread. Addresses are blocks of [`BLOCK_BYTES`]
/// counted through the whole device; the first block of every zone is its header and never holds data.
///
/// Always: a zone has one [`ZoneWriter`](crate::ZoneWriter) (I1); at most `active_max` zones are active (I2); a zone
/// is reset only with nothing live in it (I3, the part that can be known here).
///
/// Locks: `allocation` serialises openings of zones, with their device calls; `table` guards the states and is never
/// held over a device call. Order: `allocation`, then `table`. The caller may hold locks of its own over any call but
/// [`wait_for_free`](Self::wait_for_free).
#[derive(Clone, Debug)]
pub struct Space {
    pub(crate) core: Arc<Core>,
}

/// What the handles share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) device: Arc<dyn ZonedDevice>,
    pub(crate) units: Units,
    pub(crate) identity: Identity,
    pub(crate) gauges: Gauges,
    pub(crate) table: Mutex<Table>,
    /// Signalled when `Table::wakes` changes.
    pub(crate) wakeup: Condvar,
    pub(crate) allocation: Mutex<()>,
    written_by_stream: [AtomicU64; STREAM_ID_MAX as usize + 1],
    header_bytes: AtomicU64,
}

/// Bytes written since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenBytes {
    /// Zone headers.
    pub headers: u64,
    /// By the stream after which the zone is named, where there are any.
    pub streams: Vec<(StreamId, u64)>,
}

impl Space {
    pub(crate) fn build(device: Arc<dyn ZonedDevice>, units: Units, identity: Identity, table: Table) -> Self {
        let core = Core {
            device,
            units,
            identity,
            gauges: Gauges::new(units.ids()),
            table: Mutex::new(table),
            wakeup: Condvar::new(),
            allocation: Mutex::new(()),
            written_by_stream: [const { AtomicU64::new(0) }; STREAM_ID_MAX as usize + 1],
            header_bytes: AtomicU64::new(0),
        };
        Self { core: Arc::new(core) }
    }

    /// The device below, for reads, queues and counters. Nobody but this crate writes, opens, finishes or resets its
    /// zones.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn ZonedDevice> {
        &self.core.device
    }

    /// What every zone header of the store says.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.core.identity
    }

    /// How the active tokens are divided among the streams.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        self.core.table.lock().budget.shares().to_vec()
    }

    /// The share of one stream: whom it shares zones with and how many they may hold open.
    ///
    /// # Errors
    /// `NoSuchStream`.
    pub fn share_of(&self, stream: StreamId) -> Result<Share> {
        let table = self.core.table.lock();
        table.budget.share_of(stream).cloned().ok_or(SpaceError::NoSuchStream(stream))
    }

    /// The zone of a block.
    #[must_use]
    pub fn zone_of(&self, block: u64) -> ZoneId {
        self.core.units.zone_of(block)
    }

    /// The block of the header of a zone or subzone; its data begins at the next one.
    #[must_use]
    pub fn first_block(&self, zone: ZoneId) -> u64 {
        self.core.units.first_block(zone)
    }

    /// Blocks of a zone that can be written, its header included.
    #[must_use]
    pub fn zone_blocks(&self) -> u64 {
        self.core.units.zone_capacity
    }

    /// Blocks of a zone or subzone that can be written, its header included.
    #[must_use]
    pub fn blocks_of(&self, zone: ZoneId) -> u64 {
        self.core.units.capacity_of(zone)
    }

    /// The device's address of a block, for use with a queue.
    #[must_use]
    pub fn lba_of(&self, block: u64) -> zonda_device::Lba {
        self.core.units.lba(block)
    }

    /// Reads whole blocks of one zone; what is not written reads as zeros. `into` must be aligned for the device (see
    /// [`AlignedBuf`]). One device read.
    ///
    /// # Errors
    /// `NotWholeBlocks`, `Device`.
    pub fn read(&self, block: u64, into: &mut [u8]) -> Result<()> {
        Units::blocks_of(into.len())?;
        Ok(self.core.device.read(self.lba_of(block), into)?)
    }

    /// The same, by somebody who may say for what ([`ZonedDevice::read_told`](zonda_device::ZonedDevice::read_told)).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_told(&self, block: u64, into: &mut [u8], origin: Option<ReadOrigin>) -> Result<()> {
        let Some(origin) = origin else { return self.read(block, into) };
        Units::blocks_of(into.len())?;
        Ok(self.core.device.read_told(self.lba_of(block), into, origin)?)
    }

    /// Makes everything written before this call durable: one device flush.
    ///
    /// # Errors
    /// `Device`: nothing since the last good flush may be taken as durable.
    pub fn flush(&self) -> Result<()> {
        let written = self.core.table.lock().written;
        self.core.device.flush()?;
        let mut table = self.core.table.lock();
        table.durable = table.durable.max(written);
        Ok(())
    }

    /// Counts `bytes` in a zone as live. One atomic addition.
    pub fn add_live(&self, zone: ZoneId, bytes: u64) {
        self.core.gauges.add_live(zone, bytes);
    }

    /// Counts `bytes` in a zone as dead and remembers when, for the choice of victims. Stops at zero: after recovery a
    /// client may only have an estimate.
    pub fn sub_live(&self, zone: ZoneId, bytes: u64) {
        self.core.gauges.sub_live(zone, bytes);
    }

    /// Live bytes of one zone.
    #[must_use]
    pub fn live_bytes(&self, zone: ZoneId) -> u64 {
        self.core.gauges.live_bytes(zone)
    }

    /// The number of a zone's present allocation; `None` for a zone that holds nothing of this store.
    #[must_use]
    pub fn generation_of(&self, zone: ZoneId) -> Option<u64> {
        let table = self.core.table.lock();
        if zone.0 >= self.core.units.ids() {
            return None;
        }
        Some(table.slot(zone).generation).filter(|&generation| generation != 0)
    }

    /// Somebody refers to a zone of this generation, which is gone: no zone is given its number again, or what was in one were taken for
    /// what is in the other. A number that no zone ever had is passed over.
    pub fn keep_generation(&self, generation: u64) {
        if generation <= GENERATION_MAX {
            let mut table = self.core.table.lock();
            table.issued = table.issued.max(generation);
        }
    }

    /// Whether a zone is known to be lost. No device call.
    pub(crate) fn is_offline(&self, zone: ZoneId) -> bool {
        self.core.table.lock().slot(zone).state == ZoneUse::Offline
    }

    /// How many blocks of a zone are written, its header included, as the device says now: for who reads beside the store's owner. One
    /// report.
    ///
    /// # Errors
    /// `Device`.
    pub fn written_on_device(&self, zone: ZoneId) -> Result<u64> {
        Ok(self.core.ask_alone(zone)?.written_blocks)
    }

    /// All zones, by number. What is in a split zone is in its [subzones](Self::subzone_view).
    #[must_use]
    pub fn view(&self) -> Vec<ZoneView> {
        let table = self.core.table.lock();
        table.slots().map(|(zone, slot)| self.core.view_of(zone, slot)).collect()
    }

    /// The zone to clean next among those that `eligible` accepts. Cost: one pass over the zones; `eligible` is called
    /// with no lock held.
    pub fn victim(&self, policy: VictimPolicy, eligible: &dyn Fn(&ZoneView) -> bool) -> Option<ZoneView> {
        victim::choose(policy, self.view().iter().filter(|view| eligible(view))).copied()
    }

    /// Claims a zone for relocation, so that it is no victim again; `false` if somebody else has claimed it.
    pub fn begin_relocation(&self, zone: ZoneId) -> bool {
        self.core.table.lock().set_relocating(zone, true)
    }

    /// Gives up a claim, after an error. A reset ends it too.
    pub fn end_relocation(&self, zone: ZoneId) {
        self.core.table.lock().set_relocating(zone, false);
    }

    /// Space in numbers (I9). Cost: one pass over the zones.
    #[must_use]
    pub fn usage(&self) -> SpaceUsage {
        self.core.usage()
    }

    /// Zones in numbers, with those named after one stream. Cost: a lock.
    #[must_use]
    pub fn zone_counts(&self, stream: StreamId) -> ZoneCounts {
        self.core.table.lock().counts(stream)
    }

    /// Bytes written since the store was opened, by the stream after which a zone is named.
    #[must_use]
    pub fn written_by_stream(&self) -> WrittenBytes {
        let bytes = self.core.written_by_stream.iter().map(|bytes| bytes.load(Ordering::Relaxed));
        let streams = (0..).map(StreamId).zip(bytes).filter(|&(_, bytes)| bytes > 0).collect();
        WrittenBytes { headers: self.core.header_bytes.load(Ordering::Relaxed), streams }
    }
}

impl Core {
    pub(crate) fn usage(&self) -> SpaceUsage {
        SpaceUsage::of(&self.table.lock(), &self.gauges, &self.units)
    }

    pub(crate) fn view_of(&self, zone: ZoneId, slot: &Slot) -> ZoneView {
        let written = self.gauges.written_blocks(zone).saturating_sub(1);
        ZoneView {
            zone,
            state: slot.state,
            stream: slot.stream,
            holds: slot.holds,
            generation: slot.generation,
            written_bytes: written * BLOCK_BYTES as u64,
            capacity_bytes: self.units.data_bytes_of(zone),
            live_bytes: self.gauges.live_bytes(zone),
            age_blocks: self.gauges.age_blocks(zone),
            relocating: slot.relocating,
        }
    }

    /// Writes the header of a zone that is empty on the device.
    pub(crate) fn write_header(&self, pick: Pick) -> Result<()> {
        self.write_header_of(pick.zone, pick.generation, Some(pick.stream), pick.holds)
    }

    /// Writes the header of the anchor: a zone of no stream.
    pub(crate) fn write_anchor(&self, zone: ZoneId, generation: u64) -> Result<()> {
        self.write_header_of(zone, generation, None, StreamSet::EMPTY)
    }

    fn write_header_of(&self, zone: ZoneId, generation: u64, stream: Option<StreamId>, holds: StreamSet) -> Result<()> {
        let header = ZoneHeader { identity: self.identity.clone(), generation, zone: zone.0, stream, holds };
        let mut block = AlignedBuf::with_len(BLOCK_BYTES);
        header.encode(&mut block);
        self.write(zone, self.units.first_block(zone), &block)?;
        self.header_bytes.fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
        self.gauges.restart(zone, 0);
        self.gauges.wrote(zone, 1);
        Ok(())
    }

    /// Writes blocks of a zone or subzone at its write pointer.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write(&self, zone: ZoneId, block: u64, from: &[u8]) -> std::result::Result<(), DeviceError> {
        let at = self.units.lba(block);
        match self.subzone(zone) {
            None => self.device.write(at, from),
            Some((split, id)) => {
                let written = split.append_subzone(id, from)?;
                assert!(written == at, "I1 {zone} was written by another: {written} instead of {at}");
                Ok(())
            }
        }
    }

    /// The subzone of this number, and who splits.
    pub(crate) fn subzone(&self, zone: ZoneId) -> Option<(&dyn SplitZones, SubzoneId)> {
        let id = self.units.subzone(zone)?;
        self.device.split_zones().map(|split| (split, id))
    }

    /// The device command; the table is the caller's.
    pub(crate) fn reset(&self, zone: ZoneId) -> Result<()> {
        if let Some((split, id)) = self.subzone(zone) {
            let _label = cut_label("merge");
            return Ok(split.reset_subzone(id)?);
        }
        let _label = cut_label("reset");
        Ok(self.device.reset(zone)?)
    }

    /// The device command; the table is the caller's.
    pub(crate) fn finish(&self, zone: ZoneId) -> Result<()> {
        let _label = cut_label("finish");
        if let Some((split, id)) = self.subzone(zone) {
            return Ok(split.finish_subzone(id)?);
        }
        Ok(self.device.finish(zone)?)
    }

    pub(crate) fn count_written(&self, stream: StreamId, bytes: usize) {
        self.written_by_stream[usize::from(stream.0)].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Makes a zone free and wakes waiting writers.
    pub(crate) fn free(&self, zone: ZoneId) {
        self.gauges.restart(zone, 0);
        self.table.lock().set_free(zone);
        self.wakeup.notify_all();
    }

    /// What the device says of a zone, in our words, with the blocks written and whether it is active. A subzone is lost with its zone,
    /// whatever is said of itself. Cost: one report, of a subzone two.
    pub(crate) fn ask(&self, zone: ZoneId) -> Result<Asked> {
        let asked = self.ask_alone(zone);
        let Some(id) = self.units.subzone(zone) else { return asked };
        if asked.as_ref().is_ok_and(|asked| asked.lost.is_some()) {
            return asked;
        }
        match self.ask_alone(id.zone) {
            Ok(Asked { lost: Some(lost), .. }) => {
                let written_blocks = asked.map_or(0, |asked| asked.written_blocks);
                Ok(Asked { lost: Some(lost), written_blocks, missing_lbas: 0, active: false, write_pointer: None })
            }
            _ => asked,
        }
    }

    /// The same, but of a subzone what is said of itself.
    pub(crate) fn ask_alone(&self, zone: ZoneId) -> Result<Asked> {
        let report = match self.units.subzone(zone) {
            None => self.device.report(zone, 1)?.into_iter().next(),
            Some(id) => subzones_of(self.device.as_ref(), &self.units, id.zone)?
                .and_then(|reports| reports.into_iter().nth(id.index.into())),
        };
        let report = report.ok_or(SpaceError::BadGeometry {
            what: "the zone number",
            value: zone.0.into(),
            rule: "the device must have it",
        })?;
        Ok(Asked {
            lost: match report.state {
                zonda_device::ZoneState::ReadOnly => Some(ZoneUse::ReadOnly),
                zonda_device::ZoneState::Offline => Some(ZoneUse::Offline),
                _ => None,
            },
            written_blocks: self.units.written(&report),
            missing_lbas: self.units.missing_lbas(&report),
            active: report.state.is_active(),
            write_pointer: report.write_pointer,
        })
    }
}

/// What the device says of one zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The zone can never be written again.
    pub(crate) lost: Option<ZoneUse>,
    pub(crate) written_blocks: u64,
    /// Device blocks missing to complete a torn block.
    pub(crate) missing_lbas: u64,
    pub(crate) active: bool,
    pub(crate) write_pointer: Option<zonda_device::Lba>,
}
