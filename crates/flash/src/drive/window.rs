//! Data of zones with a random write area: what is in a window is kept here, what is committed goes to the device below.
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use zonda_device::{
    AlignedBuf, DeviceCounters, DeviceError, Geometry, IoQueue, Lba, RandomWriteArea, Result, ZoneId, ZoneReport,
    ZoneState, ZonedDevice,
};
use zonda_rt::Mutex;

/// Zones with windows, on any zones. Windows are in memory: they survive what the model calls a power cut, not the process.
#[derive(Debug)]
pub struct WindowData {
    below: Arc<dyn ZonedDevice>,
    window_blocks: u64,
    granule_blocks: u64,
    windows_max: u32,
    windows: Mutex<HashMap<ZoneId, Window>>,
}

/// What a commit did: a part of it may be done where it failed.
#[derive(Debug)]
#[must_use]
pub struct Committed {
    /// Blocks that are in the zone below now.
    pub blocks: u64,
    /// Why these are not all.
    pub outcome: Result<()>,
}

impl Committed {
    const NOTHING: Self = Self { blocks: 0, outcome: Ok(()) };
}

/// Blocks of a window, from the zone's start. Always: none is before `base`, the write pointer below.
#[derive(Debug, Default)]
struct Window {
    base: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
    /// The zone below is: what was acknowledged can be read here, and never be committed. Such a window is in nobody's way.
    is_lost: bool,
}

impl WindowData {
    /// So many windows of so many blocks, committed by granules.
    ///
    /// # Errors
    /// `Geometry` unless a window is one or more granules and fits into a zone.
    pub fn over(
        below: Arc<dyn ZonedDevice>,
        (window_blocks, granule_blocks): (u64, u64),
        windows_max: u32,
    ) -> Result<Self> {
        let max = below.geometry().zone_capacity_blocks;
        if granule_blocks == 0
            || window_blocks == 0
            || !window_blocks.is_multiple_of(granule_blocks)
            || window_blocks > max
        {
            return Err(DeviceError::Geometry {
                field: "blocks of a write window",
                value: window_blocks,
                min: granule_blocks,
                max,
            });
        }
        Ok(Self { below, window_blocks, granule_blocks, windows_max, windows: Mutex::new(HashMap::new()) })
    }

    /// Writes to a zone with a window; what this committed, or `None` if the zone has none.
    ///
    /// # Errors
    /// As [`RandomWriteArea`] says: nothing was done. Those of the device below are the commit's.
    pub fn write_window(&self, at: Lba, from: &[u8]) -> Result<Option<Committed>> {
        let geometry = self.below.geometry();
        let blocks = geometry.check_buffer(from)?;
        let (zone, offset) = geometry.check_span(at, blocks)?;
        let mut windows = self.windows.lock();
        let Some(window) = windows.get_mut(&zone).filter(|window| !window.is_lost) else { return Ok(None) };
        let (end, capacity) = (offset + blocks, geometry.zone_capacity_blocks);
        if end > capacity {
            let end = geometry.zone_start(zone).plus(capacity);
            return Err(DeviceError::Boundary { zone, at, blocks, end });
        }
        if offset < window.base || end > window.base + 2 * self.window_blocks {
            let write_pointer = geometry.zone_start(zone).plus(window.base);
            return Err(DeviceError::InvalidWrite { zone, at, write_pointer });
        }
        let block = geometry.block_bytes as usize;
        window.blocks.extend((offset..).zip(from.chunks_exact(block).map(Box::from)));
        if end <= window.base + self.window_blocks {
            return Ok(Some(Committed::NOTHING));
        }
        let base = (end - self.window_blocks).div_ceil(self.granule_blocks) * self.granule_blocks;
        Ok(Some(self.commit_to(zone, window, base.min(capacity))))
    }

    /// Commits a window up to a block of its zone. After an error it holds what the device did not take.
    fn commit_to(&self, zone: ZoneId, window: &mut Window, end: u64) -> Committed {
        let (geometry, before) = (self.below.geometry(), window.base);
        let blocks = end.saturating_sub(before);
        if blocks == 0 {
            return Committed::NOTHING;
        }
        let block = geometry.block_bytes as usize;
        let mut buffer = AlignedBuf::with_len(usize::try_from(blocks).expect("two windows fit memory") * block);
        for (&offset, bytes) in window.blocks.range(..end) {
            let place = usize::try_from(offset - window.base).expect("in the buffer") * block;
            buffer[place..place + block].copy_from_slice(bytes);
        }
        let written = self.below.write(geometry.zone_start(zone).plus(window.base), &buffer);
        if written.is_ok() {
            window.base = end;
        } else if let Ok(Some(report)) = self.below.report(zone, 1).map(|reports| reports.first().copied()) {
            // A part of it may be there.
            window.base = report.write_pointer.map_or(window.base, |pointer| pointer.0 - report.start.0);
            window.is_lost = report.write_pointer.is_none();
        }
        window.blocks = window.blocks.split_off(&window.base);
        Committed { blocks: window.base.saturating_sub(before), outcome: written }
    }

    /// Takes a zone's window away, and commits what was written. After an error the window is still there.
    pub fn take_away(&self, zone: ZoneId) -> Committed {
        let mut windows = self.windows.lock();
        let Some(window) = windows.get_mut(&zone) else { return Committed::NOTHING };
        let end = window.blocks.last_key_value().map_or(window.base, |(&last, _)| last + 1);
        let committed = self.commit_to(zone, window, end);
        if committed.outcome.is_ok() {
            windows.remove(&zone);
        }
        committed
    }

    /// Commits as [`RandomWriteArea::commit`].
    ///
    /// # Errors
    /// As there: nothing was done. Those of the device below are the commit's.
    pub fn commit_window(&self, zone: ZoneId, end: Lba) -> Result<Committed> {
        let geometry = self.below.geometry();
        geometry.check_zone(zone)?;
        let mut windows = self.windows.lock();
        let Some(window) = windows.get_mut(&zone) else {
            let from = self.below.report(zone, 1)?.first().map_or(ZoneState::Offline, |report| report.state);
            return Err(DeviceError::InvalidTransition { zone, from, action: "commit the window of" });
        };
        let (start, capacity) = (geometry.zone_start(zone), geometry.zone_capacity_blocks);
        let write_pointer = start.plus(window.base);
        let offset = end
            .0
            .checked_sub(start.0)
            .filter(|&offset| offset >= window.base && offset <= window.base + self.window_blocks);
        let Some(offset) = offset else { return Err(DeviceError::InvalidWrite { zone, at: end, write_pointer }) };
        if !offset.is_multiple_of(self.granule_blocks) && offset != capacity {
            let (value, multiple) = (offset, self.granule_blocks);
            return Err(DeviceError::Unaligned { what: "end of a commit, in blocks", value, multiple });
        }
        let committed = self.commit_to(zone, window, offset);
        if committed.outcome.is_ok() && offset == capacity {
            // The zone is full: its window is free for another.
            windows.remove(&zone);
        }
        Ok(committed)
    }

    /// What a window holds of a stretch of its zone.
    fn held(&self, zone: ZoneId, stretch: Range<u64>) -> Vec<(u64, Box<[u8]>)> {
        let windows = self.windows.lock();
        let Some(window) = windows.get(&zone) else { return Vec::new() };
        window.blocks.range(stretch).map(|(&at, bytes)| (at, bytes.clone())).collect()
    }
}

impl RandomWriteArea for WindowData {
    fn window_blocks(&self) -> u64 {
        self.window_blocks
    }

    fn granule_blocks(&self) -> u64 {
        self.granule_blocks
    }

    fn windows_max(&self) -> u32 {
        self.windows_max
    }

    fn open_with_window(&self, zone: ZoneId) -> Result<()> {
        self.below.geometry().check_zone(zone)?;
        let mut windows = self.windows.lock();
        let from = self.below.report(zone, 1)?.first().map_or(ZoneState::Offline, |report| report.state);
        if from != ZoneState::Empty {
            return Err(DeviceError::InvalidTransition { zone, from, action: "open with a window" });
        }
        if windows.values().filter(|window| !window.is_lost).count() >= self.windows_max as usize {
            return Err(DeviceError::NoWindow { zone, max: self.windows_max });
        }
        self.below.open(zone)?;
        windows.insert(zone, Window::default());
        Ok(())
    }

    fn commit(&self, zone: ZoneId, end: Lba) -> Result<()> {
        self.commit_window(zone, end)?.outcome
    }
}

impl ZonedDevice for WindowData {
    fn geometry(&self) -> &Geometry {
        self.below.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        self.below.report(first, count)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let geometry = self.below.geometry();
        let (zone, offset) = (geometry.zone_of(at), geometry.offset_in_zone(at));
        let block = geometry.block_bytes as usize;
        // Before the device is read: what leaves the window meanwhile is there then, not in neither of them.
        let held = self.held(zone, offset..offset + (into.len() / block) as u64);
        self.below.read(at, into)?;
        for (found, bytes) in held {
            let place = usize::try_from(found - offset).expect("in the buffer") * block;
            into[place..place + block].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        match self.write_window(at, from)? {
            Some(committed) => committed.outcome,
            None => self.below.write(at, from),
        }
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        if self.windows.lock().contains_key(&zone) {
            return Err(DeviceError::InvalidTransition { zone, from: ZoneState::ExplicitOpen, action: "append to" });
        }
        self.below.append(zone, from)
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.below.open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.take_away(zone).outcome?;
        self.below.close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.take_away(zone).outcome?;
        self.below.finish(zone)
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        self.below.reset(zone)?;
        self.windows.lock().remove(&zone);
        Ok(())
    }

    fn queue(&self, _depth: u32) -> Result<Box<dyn IoQueue>> {
        Err(DeviceError::NotSupported { what: "queues on zones with windows; give them a timing first" })
    }

    fn random_write_area(&self) -> Option<&dyn RandomWriteArea> {
        Some(self)
    }

    fn counters(&self) -> DeviceCounters {
        self.below.counters()
    }

    fn describe(&self) -> String {
        format!("{} windows of {} blocks on {}", self.windows_max, self.window_blocks, self.below.describe())
    }
}
