//! Opening a volume: every group's header is read, and the newest of every block counts.
//!
//! A group that was not durable for certain is believed block by block. What is not believed is older content again,
//! and that is written anew before anything says that the group was durable: else the next opening would believe it.
//! The last group of a zone may be one whose write failed, which no flush made whole: what of it was never written is not believed.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use zonda_rt::{Condvar, Mutex, RwLock};

use super::format::{GROUP_BLOCKS_MAX, GROUP_HEADER_BYTES, GroupHeader};
use super::group::{BLOCK, Group};
use super::map::{At, BLOCKS_MAX, Map};
use super::stats::Spent;
use super::writer::{Open, Stream, Writer, bytes_of};
use super::{BLOCK_BYTES, HostFtlOptions, HostFtlStats, PERCENT, RESERVED_ZONES, Shared};
use crate::{
    AlignedBuf, DeviceError, ErrorKind, Geometry, Result, ZoneId, ZoneReport, ZoneState, ZonedDevice,
    counters::Counting, geometry::within, mem_block::BlockShape,
};

/// A group that was found: where its data begins, and its header.
struct Found {
    base: u32,
    header: GroupHeader,
}

/// Opens the volume of a device, or makes one.
pub(super) fn open(device: Arc<dyn ZonedDevice>, options: &HostFtlOptions) -> Result<Shared> {
    let geometry = device.geometry().clone();
    check(&geometry)?;
    let mut shared = blank(device, &geometry);
    let zones = shared.device.report(ZoneId(0), geometry.zone_count)?;
    if let Some(zone) = zones.iter().find(|zone| zone.state == ZoneState::Offline) {
        return Err(DeviceError::Offline { zone: zone.zone });
    }
    let mut groups = shared.find(&zones)?;
    groups.sort_by_key(|found| found.header.sequence);
    let blank = blank_writer(zones.len());
    let sequence = groups.last().map_or(blank.sequence, |newest| newest.header.sequence + 1);
    let durable_before = groups.iter().map(|found| found.header.durable_before).max().unwrap_or(blank.durable_before);
    shared.drop_copies(&mut groups);
    let capacity_blocks = match groups.last() {
        Some(newest) => found_capacity(&geometry, options, newest.header.capacity_blocks)?,
        None => new_capacity(&geometry, options)?,
    };
    shared.shape = BlockShape::new(BLOCK_BYTES, capacity_blocks)?;
    within("blocks of the volume", capacity_blocks, 1, capacity_max(&geometry, 0))?;
    let blocks = usize::try_from(capacity_blocks).expect("below 2^31");
    *shared.map.lock() = Map::new(blocks, geometry.zone_count, shared.zone_blocks);
    let doubtful = shared.replay(&zones, &groups, durable_before)?;
    let writer = shared.writer(&zones, &groups, Writer { sequence, durable_before, ..blank });
    *shared.writer.lock() = writer;
    shared.read_only = options.read_only;
    if !options.read_only {
        shared.go_on(&zones, &groups)?;
        shared.write_again(&doubtful)?;
    }
    Ok(shared)
}

fn check(geometry: &Geometry) -> Result<()> {
    if geometry.block_bytes != BLOCK_BYTES {
        return Err(DeviceError::NotSupported { what: "a host FTL on blocks of another size than 4096 bytes" });
    }
    within("zones below a host FTL", geometry.zone_count.into(), u64::from(RESERVED_ZONES) + 1, u32::MAX.into())?;
    let active = geometry.max_active.or(geometry.max_open).unwrap_or(u32::MAX);
    within("active zones below a host FTL", active.into(), 2, u32::MAX.into())?;
    within("blocks of a zone below a host FTL", geometry.zone_capacity_blocks, 4, BLOCKS_MAX - 1)?;
    let blocks = u64::from(geometry.zone_count) * geometry.zone_capacity_blocks;
    within("blocks below a host FTL", blocks, 1, BLOCKS_MAX - 1)
}

/// Most blocks of a volume: what fits into the zones that are not reserved, headers and over-provisioning taken off.
fn capacity_max(geometry: &Geometry, over_provisioning_percent: u32) -> u64 {
    let group = GROUP_BLOCKS_MAX as u64 + 1;
    let data_of_zone = geometry.zone_capacity_blocks - geometry.zone_capacity_blocks.div_ceil(group);
    let zones = u64::from(geometry.zone_count - RESERVED_ZONES);
    zones * data_of_zone * 100 / (100 + u64::from(over_provisioning_percent))
}

fn new_capacity(geometry: &Geometry, options: &HostFtlOptions) -> Result<u64> {
    let most = capacity_max(geometry, options.over_provisioning_percent.unwrap_or(PERCENT));
    let asked = options.capacity_blocks.unwrap_or(most);
    within("blocks of the volume", asked, 1, most)?;
    Ok(asked)
}

/// The capacity of a volume that exists. It alone is kept of the over-provisioning that the volume was made with.
fn found_capacity(geometry: &Geometry, options: &HostFtlOptions, found: u64) -> Result<u64> {
    let asked = options.over_provisioning_percent.map_or(found, |percent| capacity_max(geometry, percent));
    if asked != found {
        return Err(DeviceError::Mismatch { field: "blocks left by over-provisioning (`op`):", found, asked });
    }
    Ok(found)
}

fn blank(device: Arc<dyn ZonedDevice>, geometry: &Geometry) -> Shared {
    let zone_blocks = u32::try_from(geometry.zone_capacity_blocks).expect("checked to be below 2^31");
    Shared {
        device,
        read_only: false,
        shape: BlockShape { block_bytes: BLOCK_BYTES, capacity_blocks: 0 },
        zone_blocks,
        writer: Mutex::new(blank_writer(geometry.zone_count as usize)),
        map: Mutex::new(Map::new(0, 0, zone_blocks)),
        drained: Condvar::new(),
        groups: [RwLock::new(Group::new()), RwLock::new(Group::new())],
        counting: Counting::default(),
        spent: Spent::default(),
    }
}

impl Shared {
    /// All groups of all zones.
    fn find(&self, zones: &[ZoneReport]) -> Result<Vec<Found>> {
        let mut groups = Vec::new();
        for report in zones.iter().filter(|report| report.state != ZoneState::Empty) {
            let zone = report.zone.0;
            let mut offset = 0;
            while let Some(header) = self.read_header(zone, offset)? {
                let blocks = u32::try_from(header.data.len()).expect("a group is small");
                groups.push(Found { base: zone * self.zone_blocks + offset + 1, header });
                offset += 1 + blocks;
            }
            if offset == 0 {
                self.check_unwritten(zone)?;
            }
        }
        Ok(groups)
    }

    /// Drops what is only in zones that hold nothing but copies of what is still in its old place: cleaning had not come
    /// to its end. Such zones are empty then, so that a cut during cleaning costs no zone, however often it comes.
    fn drop_copies(&self, groups: &mut Vec<Found>) {
        let zone_of = |found: &Found| found.base / self.zone_blocks;
        let mut first = BTreeMap::new();
        groups.iter().for_each(|found| {
            first.entry(zone_of(found)).or_insert(found.header.sequence);
        });
        let is_copy = |found: &Found| found.header.moved_from.is_some_and(|(zone, at)| first.get(&zone) == Some(&at));
        let needed: BTreeSet<u32> = groups.iter().filter(|found| !is_copy(found)).map(zone_of).collect();
        groups.retain(|found| needed.contains(&zone_of(found)));
    }

    /// A zone without a group is one whose first write was torn: zeros. Anything else is somebody else's.
    fn check_unwritten(&self, zone: u32) -> Result<()> {
        let at = self.lba(zone * self.zone_blocks);
        let mut block = AlignedBuf::with_len(GROUP_HEADER_BYTES);
        self.device.read(at, &mut block)?;
        match GroupHeader::decode(&block, at.0 * BLOCK as u64) {
            Err(error) if is_something(&block) => Err(error),
            _ => Ok(()),
        }
    }

    /// Maps every block to its newest place. Groups that were not durable for certain are believed as far as their
    /// checksums agree; returns the blocks where they do not.
    fn replay(&self, zones: &[ZoneReport], groups: &[Found], durable: u64) -> Result<Vec<u64>> {
        let mut doubtful = Vec::new();
        let mut scratch = AlignedBuf::with_len(bytes_of(GROUP_BLOCKS_MAX));
        let mut last = BTreeMap::new();
        for found in groups {
            let base = last.entry(found.base / self.zone_blocks).or_insert(found.base);
            *base = found.base.max(*base);
        }
        for found in groups {
            let zone = found.base / self.zone_blocks;
            let intact = match found.header.sequence < durable {
                true if last[&zone] == found.base => self.written(found, &zones[zone as usize], &mut scratch)?,
                true => vec![true; found.header.data.len()],
                false => self.intact(found, &mut scratch)?,
            };
            let mut map = self.map.lock();
            let blocks = map.blocks();
            for &(first, count) in &found.header.trims {
                (first..(first + count).min(blocks)).for_each(|block| map.put(block, At::Nowhere));
            }
            for ((address, &(block, _)), intact) in (found.base..).zip(&found.header.data).zip(intact) {
                match block.filter(|&block| block < blocks) {
                    Some(block) if intact => map.put(block, At::Device(address)),
                    Some(block) => doubtful.push(block),
                    None => {}
                }
            }
        }
        Ok(doubtful)
    }

    /// Which data blocks of a group have their checksum.
    fn intact(&self, found: &Found, scratch: &mut AlignedBuf) -> Result<Vec<bool>> {
        self.judge(found, scratch, |_| false)
    }

    /// Which data blocks of a group were written. What was not reads as zeros; other bytes than those of the checksum, and what cannot be
    /// read, went bad later: older content must not take their place.
    fn written(&self, found: &Found, report: &ZoneReport, scratch: &mut AlignedBuf) -> Result<Vec<bool>> {
        let judged = self.judge(found, scratch, is_something);
        match judged {
            Err(error) if matches!(error.kind(), ErrorKind::Media | ErrorKind::Io) => self.written_each(found, report),
            judged => judged,
        }
    }

    /// As `written`, block by block. One that answers `Io` was written if the write pointer is behind it, or else if something behind it
    /// was: a zone is written in order. Of any other nothing tells, and neither older content nor zeros may be taken for it.
    fn written_each(&self, found: &Found, report: &ZoneReport) -> Result<Vec<bool>> {
        let mut block = AlignedBuf::with_len(BLOCK);
        let mut written = Vec::with_capacity(found.header.data.len());
        let mut is_behind = false;
        let addresses: Vec<u32> = (found.base..).take(found.header.data.len()).collect();
        for (&address, &(_, crc)) in addresses.iter().zip(&found.header.data).rev() {
            let at = self.lba(address);
            written.push(match self.device.read(at, &mut block) {
                Ok(()) => {
                    is_behind |= is_something(&block);
                    is_something(&block) || crc32c::crc32c(&block) == crc
                }
                Err(error) if error.kind() == ErrorKind::Media => true,
                Err(error) if error.kind() == ErrorKind::Io => match report.write_pointer {
                    Some(pointer) => at < pointer,
                    None if is_behind => true,
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            });
        }
        written.reverse();
        Ok(written)
    }

    /// Which data blocks of a group have their checksum, or are believed without.
    fn judge(&self, found: &Found, scratch: &mut AlignedBuf, believes: impl Fn(&[u8]) -> bool) -> Result<Vec<bool>> {
        let data = &found.header.data;
        let read = &mut scratch[..bytes_of(data.len())];
        if !data.is_empty() {
            self.device.read(self.lba(found.base), read)?;
        }
        let is_good =
            |(&(_, crc), block): (&(Option<u64>, u32), &[u8])| crc32c::crc32c(block) == crc || believes(block);
        Ok(data.iter().zip(read.chunks_exact(BLOCK)).map(is_good).collect())
    }

    /// The writer that goes on from here.
    fn writer(&self, zones: &[ZoneReport], groups: &[Found], mut writer: Writer) -> Writer {
        for found in groups {
            let first = &mut writer.first_sequence[(found.base / self.zone_blocks) as usize];
            *first = (*first).min(found.header.sequence);
            writer.group_starts[(found.base / self.zone_blocks) as usize].push(found.base % self.zone_blocks - 1);
        }
        for report in zones {
            if report.state == ZoneState::Empty {
                writer.free.push_back(report.zone.0);
            } else {
                writer.sealed.insert(report.zone.0);
            }
        }
        writer
    }

    /// Goes on in the zones that were being filled, where their last group is whole; finishes them where it is not.
    /// Zones in which nothing is wanted are emptied: a crash may have left too few free ones for cleaning.
    fn go_on(&self, zones: &[ZoneReport], groups: &[Found]) -> Result<()> {
        self.device.flush()?;
        let writer = &mut *self.writer.lock();
        let mut ends = vec![0; zones.len()];
        let mut trims = BTreeSet::new();
        for found in groups {
            let zone = found.base / self.zone_blocks;
            let blocks = u32::try_from(found.header.data.len()).expect("a group is small");
            let end = &mut ends[zone as usize];
            *end = (*end).max(found.base % self.zone_blocks + blocks);
            if !found.header.trims.is_empty() {
                trims.insert(zone);
            }
        }
        for report in zones.iter().filter(|report| report.state != ZoneState::Empty) {
            let (zone, end) = (report.zone.0, ends[report.zone.0 as usize]);
            let written = report.write_pointer.map(|pointer| pointer.0 - report.start.0);
            let free_stream = writer.open.iter().position(Option::is_none);
            if self.map.lock().live(zone) == 0 && !trims.contains(&zone) && report.state != ZoneState::ReadOnly {
                self.device.reset(report.zone)?;
                writer.sealed.remove(&zone);
                writer.first_sequence[zone as usize] = u64::MAX;
                writer.group_starts[zone as usize].clear();
                writer.free.push_back(zone);
            } else if let Some(stream) = free_stream.filter(|_| written == Some(u64::from(end))) {
                writer.sealed.remove(&zone);
                writer.open[stream] = Some(Open { zone, offset: end });
            } else if report.state.is_active() {
                self.device.finish(report.zone)?;
            }
        }
        Ok(())
    }

    /// Writes blocks again as they are, and makes that durable before what they were in doubt about is taken for it.
    fn write_again(&self, blocks: &[u64]) -> Result<()> {
        let mut buffer = AlignedBuf::with_len(BLOCK);
        for &block in blocks {
            let at = self.map.lock().at(block);
            match at {
                At::Nowhere => self.trim(block, 1)?,
                At::Memory(_) => {}
                At::Device(_) => {
                    self.read(block, &mut buffer)?;
                    self.write(block, &buffer)?;
                }
            }
        }
        self.write_group(&mut self.writer.lock(), Stream::Host)?;
        self.device.flush()?;
        let writer = &mut *self.writer.lock();
        (writer.durable_before, writer.recovering) = (writer.sequence, false);
        Ok(())
    }
}

/// Whether a block holds anything but zeros.
fn is_something(block: &[u8]) -> bool {
    block.iter().any(|&byte| byte != 0)
}

fn blank_writer(zones: usize) -> Writer {
    Writer {
        free: VecDeque::new(),
        sealed: BTreeSet::new(),
        open: [None; 2],
        lost: 0,
        recovering: true,
        sequence: 1,
        durable_before: 1,
        first_sequence: vec![u64::MAX; zones],
        group_starts: vec![Vec::new(); zones],
        stats: HostFtlStats::default(),
    }
}
