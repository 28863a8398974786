//! What a zoned file backend keeps under its lock: the zone states in memory, and what the file knows of them.
//!
//! The table in the file is written only when a zone is first written after being empty, finished or reset, so that an
//! append costs one data write and a flush one `fdatasync`. Where holes are exact the write pointer of an active zone
//! is, after a crash, the end of its data; elsewhere a flush records it.
use std::{collections::BTreeSet, ops::Range};

use super::{ahead::Ahead, blanks::Blanks, host_file::HostFile};
use crate::{
    DeviceError, Geometry, Result, WriteGrant, ZoneId, ZoneMachine, ZoneState,
    format::{self, Entry},
};

/// What the file knows of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFile {
    /// Recorded as empty, and all hole.
    Empty,
    /// Recorded as active or full.
    InUse,
    /// A reset is under way: some thread records, syncs and punches.
    Resetting,
    /// A reset failed half-way: to be completed before the zone is written again.
    HalfReset,
}

/// Places of zones in the file.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    data: u64,
    block_bytes: u64,
    zone_bytes: u64,
    capacity_bytes: u64,
}

impl Layout {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let block_bytes = u64::from(geometry.block_bytes);
        Self {
            data: format::data_offset(geometry.zone_count),
            block_bytes,
            zone_bytes: geometry.zone_size_blocks * block_bytes,
            capacity_bytes: geometry.zone_capacity_bytes(),
        }
    }

    /// Byte offset in the file of a block of a zone.
    pub(crate) fn byte_of(&self, zone: ZoneId, offset_blocks: u64) -> u64 {
        self.data + u64::from(zone.0) * self.zone_bytes + offset_blocks * self.block_bytes
    }

    /// The zone's writable bytes: first byte and length.
    pub(crate) fn extent(&self, zone: ZoneId) -> (u64, u64) {
        (self.byte_of(zone, 0), self.capacity_bytes)
    }

    /// Blocks of a zone as bytes of the file: first byte and length.
    pub(crate) fn bytes_of(&self, zone: ZoneId, blocks: Range<u64>) -> (u64, u64) {
        (self.byte_of(zone, blocks.start), (blocks.end - blocks.start) * self.block_bytes)
    }

    pub(crate) fn data_offset(&self) -> u64 {
        self.data
    }

    pub(crate) fn block_bytes(&self) -> usize {
        usize::try_from(self.block_bytes).expect("a block is at most 64 KiB")
    }
}

/// The zones of a file device. Lives under the device's lock; the table writes it does there are single small writes to
/// the page cache.
#[derive(Debug)]
pub(crate) struct FileZones {
    pub(crate) machine: ZoneMachine,
    pub(crate) on_file: Vec<OnFile>,
    pub(crate) layout: Layout,
    pub(crate) exact_holes: bool,
    /// What stands ahead of write pointers; `None` where holes are not exact, and in files made without.
    pub(crate) blanks: Option<Blanks>,
    /// What is allocated ahead of write pointers.
    pub(crate) ahead: Ahead,
    pub(crate) file_bytes: u64,
    /// Zones whose write pointer the table does not know; only where holes are not exact.
    pub(crate) dirty: BTreeSet<ZoneId>,
}

impl FileZones {
    /// Begins a write: checks it in memory, then makes sure that the file knows that the zone is in use. After an error the
    /// zone is as before. Also the bytes of the file that are to be allocated before it is done, outside the lock.
    pub(crate) fn begin(
        &mut self,
        file: &HostFile,
        begin: impl FnOnce(&mut ZoneMachine) -> Result<WriteGrant>,
    ) -> Result<(WriteGrant, Option<(u64, u64)>)> {
        let grant = begin(&mut self.machine)?;
        let wanted = match self.prepare(file, &grant) {
            Ok(wanted) => wanted,
            Err(error) => {
                self.machine.withdraw_write(grant);
                return Err(error);
            }
        };
        if !self.exact_holes {
            self.dirty.insert(grant.zone());
        }
        if let Some(blanks) = &mut self.blanks {
            blanks.granted(&grant);
        }
        Ok((grant, wanted))
    }

    fn prepare(&mut self, file: &HostFile, grant: &WriteGrant) -> Result<Option<(u64, u64)>> {
        self.use_zone(file, grant.zone())?;
        match self.exact_holes {
            true => self.ahead.wanted(grant, &self.machine, &self.layout, file),
            false => Ok(None),
        }
    }

    fn use_zone(&mut self, file: &HostFile, zone: ZoneId) -> Result<()> {
        match self.on_file[zone.0 as usize] {
            OnFile::InUse => return Ok(()),
            OnFile::Resetting => return Err(DeviceError::Busy { in_flight: 1, max: 0 }),
            OnFile::HalfReset => self.erase(file, zone)?,
            OnFile::Empty => {}
        }
        self.grow(file, zone)?;
        self.record(file, zone, ZoneState::Closed, 0)?;
        self.on_file[zone.0 as usize] = OnFile::InUse;
        Ok(())
    }

    /// Makes the file long enough for a zone. Synced, so that no table entry can be durable for a zone that the file
    /// does not reach.
    fn grow(&mut self, file: &HostFile, zone: ZoneId) -> Result<()> {
        let (start, bytes) = self.layout.extent(zone);
        if start + bytes > self.file_bytes {
            file.set_len(start + bytes)?;
            file.sync()?;
            self.file_bytes = start + bytes;
        }
        Ok(())
    }

    /// Ends a write; the I/O's own error goes before a lost sequence.
    pub(crate) fn end(&mut self, grant: WriteGrant, outcome: Result<()>) -> Result<()> {
        let ended = self.machine.end_write(grant, outcome.is_ok());
        outcome.and(ended)
    }

    /// Finishes a zone, in the file first.
    pub(crate) fn finish(&mut self, file: &HostFile, zone: ZoneId) -> Result<()> {
        self.machine.check_idle(zone, "finish")?;
        match self.on_file[zone.0 as usize] {
            OnFile::Resetting => return Err(DeviceError::Busy { in_flight: 1, max: 0 }),
            OnFile::HalfReset => self.erase(file, zone)?,
            OnFile::Empty | OnFile::InUse => {}
        }
        if self.machine.state(zone) != ZoneState::Full {
            self.record(file, zone, ZoneState::Full, self.machine.written_blocks(zone))?;
            self.on_file[zone.0 as usize] = OnFile::InUse;
        }
        self.machine.finish(zone)?;
        self.ahead.give_back(zone, &self.machine, &self.layout, file);
        Ok(())
    }

    /// Gives back what is allocated ahead of write pointers, for a clean close; not where a write is still under way.
    pub(crate) fn give_back(&mut self, file: &HostFile) {
        for zone in (0..self.machine.geometry().zone_count).map(ZoneId) {
            if self.machine.state(zone).is_active() && self.machine.in_flight(zone) == 0 {
                self.ahead.give_back(zone, &self.machine, &self.layout, file);
            }
        }
    }

    /// Gives back what a life that did not end cleanly had taken in zones that were finished then, or are by now: no other finish and no
    /// clean close will. Cost: of each such zone one punched hole.
    pub(crate) fn give_back_full(&mut self, file: &HostFile) {
        for zone in (0..self.machine.geometry().zone_count).map(ZoneId) {
            if self.machine.state(zone) == ZoneState::Full {
                self.ahead.give_back(zone, &self.machine, &self.layout, file);
            }
        }
    }

    /// Empties a zone in memory. True if the file must follow with [`erase_on`]; the zone is then busy until
    /// [`end_reset`](Self::end_reset).
    pub(crate) fn begin_reset(&mut self, zone: ZoneId) -> Result<bool> {
        self.machine.check_idle(zone, "reset")?;
        let on_file = &mut self.on_file[zone.0 as usize];
        match *on_file {
            OnFile::Resetting => return Err(DeviceError::Busy { in_flight: 1, max: 0 }),
            OnFile::Empty => {}
            OnFile::InUse | OnFile::HalfReset => *on_file = OnFile::Resetting,
        }
        let must_erase = *on_file == OnFile::Resetting;
        self.machine.reset(zone)?;
        self.dirty.remove(&zone);
        self.ahead.reset(zone);
        if let Some(blanks) = &mut self.blanks {
            blanks.reset(zone);
        }
        Ok(must_erase)
    }

    /// Takes note of how the erasure went.
    pub(crate) fn end_reset(&mut self, zone: ZoneId, erased: bool) {
        self.on_file[zone.0 as usize] = if erased { OnFile::Empty } else { OnFile::HalfReset };
    }

    fn erase(&mut self, file: &HostFile, zone: ZoneId) -> Result<()> {
        erase_on(file, &self.layout, zone)?;
        self.on_file[zone.0 as usize] = OnFile::Empty;
        Ok(())
    }

    fn record(&self, file: &HostFile, zone: ZoneId, state: ZoneState, written_blocks: u64) -> Result<()> {
        file.write_table(format::entry_offset(zone), &Entry { state, written_blocks }.encode(zone))
    }

    /// Records the write pointers that a flush makes durable; nothing to do where holes are exact.
    pub(crate) fn record_dirty(&mut self, file: &HostFile) -> Result<()> {
        while let Some(&zone) = self.dirty.first() {
            self.record_now(file, zone)?;
            self.dirty.remove(&zone);
        }
        Ok(())
    }

    /// Writes what a flush takes with it so that the next ones are cheap. Returns the bytes written.
    pub(crate) fn write_blanks(&mut self, file: &HostFile) -> u64 {
        self.blanks.as_mut().map_or(0, |blanks| blanks.write(&self.machine, &self.layout, file))
    }

    /// Records a zone as it is in memory.
    pub(crate) fn record_now(&self, file: &HostFile, zone: ZoneId) -> Result<()> {
        self.record(file, zone, self.machine.state(zone), self.machine.written_blocks(zone))
    }

    /// Records all zones, for a clean close.
    pub(crate) fn record_all(&self, file: &HostFile) -> Result<()> {
        let zones = (0..self.machine.geometry().zone_count).map(ZoneId);
        let entry = |zone| {
            let written_blocks = self.machine.written_blocks(zone);
            Entry { state: self.machine.state(zone), written_blocks }.encode(zone)
        };
        let table: Vec<u8> = zones.flat_map(entry).collect();
        file.write_table(format::TABLE_OFFSET, &table)
    }

    /// True if every zone that is empty in memory is empty in the file too.
    pub(crate) fn is_settled(&self) -> bool {
        self.on_file.iter().all(|&z| matches!(z, OnFile::Empty | OnFile::InUse))
    }
}

/// Records a zone as empty, durably, and only then gives its blocks back: a crash between leaves an empty zone with old
/// data, which opening erases. The other way round it could leave a full zone of zeros.
pub(crate) fn erase_on(file: &HostFile, layout: &Layout, zone: ZoneId) -> Result<()> {
    let empty = Entry { state: ZoneState::Empty, written_blocks: 0 };
    file.write_table(format::entry_offset(zone), &empty.encode(zone))?;
    file.sync()?;
    let (start, bytes) = layout.extent(zone);
    file.punch(start, bytes)?;
    Ok(())
}
