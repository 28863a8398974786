//! A journal: snapshots and records of changes, over the zones of one stream.

use zonda_device::{AlignedBuf, ZoneId};

use crate::format::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind};
use crate::journal_read::JournalFound;
use crate::{BLOCK_BYTES, OfflineZones, Result, Space, SpaceError, StreamId, Urgency, ZoneUse, ZoneWriter};

/// The longest chunk, in blocks.
pub(crate) const CHUNK_BLOCKS_MAX: u64 = 16;

/// A zone with so many bytes of journal in it gets no further snapshot: a mount reads all of it.
const ZONE_BYTES_MAX: u64 = 64 << 20;

/// Bytes of an item's length before it.
pub(crate) const ITEM_LENGTH_BYTES: usize = 4;

/// A client's metadata as a snapshot and the changes since, for clients that keep none of their own.
///
/// Owned by one thread at a time. Takes its zones from one stream, which should hold nothing else, with
/// [`Urgency::Reserve`]; they count as fully live while the journal needs them, so they are never victims.
///
/// Life cycle: 1 [`read`](crate::read_journal) what an earlier life left -> 2 [`start`](Self::start) with a snapshot in a
/// fresh zone; the old zones are reset once it is durable -> 3 records -> 4 a new [`snapshot`](Self::snapshot), in the same zone
/// as long as it has room, and 3 again. A crash anywhere leaves a complete snapshot, and all records synced since, in zones that are not
/// reset (I3). After a device error other than that the host is full it is failed and takes nothing more. Where one of its zones is lost,
/// with the snapshot and records in it, nothing is durable until there is a new snapshot in others.
///
/// Cost: a sync writes the records since the last one, padded to blocks, and flushes; a snapshot writes itself and two
/// blocks.
#[derive(Debug)]
pub struct Journal {
    space: Space,
    stream: StreamId,
    writer: Option<ZoneWriter>,
    /// Zones that recovery would read, oldest first, the writer's included.
    zones: Vec<ZoneId>,
    next_sequence: u64,
    pending: Vec<u8>,
    bytes_since_snapshot: u64,
    /// The same without what pads chunks to blocks.
    payload_since_snapshot: u64,
    snapshot_bytes: u64,
    /// What the last snapshot says.
    offline: OfflineZones,
    failed: bool,
}

/// Where a snapshot would go.
struct Room {
    free: u32,
    /// Blocks left in the zone that is open.
    left: u64,
    /// Blocks that it takes.
    taken: u64,
    /// Blocks of a fresh one.
    zone: u64,
}

impl Room {
    /// Takes the blocks of a chunk with so much payload; `false` if none are left.
    fn take(&mut self, payload: usize) -> bool {
        let blocks = (CHUNK_HEADER_BYTES + payload).div_ceil(BLOCK_BYTES) as u64;
        if self.left < blocks {
            let Some(free) = self.free.checked_sub(1) else { return false };
            (self.free, self.left) = (free, self.zone);
        }
        self.left -= blocks;
        self.taken += blocks;
        true
    }
}

/// Takes the items of a snapshot.
#[derive(Debug)]
pub struct SnapshotWriter<'a> {
    journal: &'a mut Journal,
}

impl SnapshotWriter<'_> {
    /// Adds one item; recovery gets the items in the same order.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn put(&mut self, item: &[u8]) -> Result<()> {
        self.journal.add(ChunkKind::SnapshotItems, item)
    }
}

impl Journal {
    /// Begins a journal with a snapshot, which `fill` writes, and makes it durable; then resets the zones of the earlier
    /// life. For a new store `found` is [`JournalFound::default`].
    ///
    /// # Errors
    /// `NoSpace` and the other errors of [`Space::open_zone`], `RecordTooLong`, `Device`, and those of `fill`. What was
    /// found is then still there.
    pub fn start(
        space: &Space,
        stream: StreamId,
        found: JournalFound,
        fill: &mut dyn FnMut(&mut SnapshotWriter<'_>) -> Result<()>,
    ) -> Result<Self> {
        let mut journal = Self {
            space: space.clone(),
            stream,
            writer: None,
            zones: found.zones,
            next_sequence: found.next_sequence,
            pending: Vec::new(),
            bytes_since_snapshot: 0,
            payload_since_snapshot: 0,
            snapshot_bytes: 0,
            offline: OfflineZones::default(),
            failed: false,
        };
        if !journal.snapshot(fill)? {
            // Nobody goes on without it.
            journal.flush()?;
        }
        Ok(journal)
    }

    /// Adds a record. It is durable after the next [`sync`](Self::sync).
    ///
    /// # Errors
    /// `RecordTooLong`; `NoSpace`, [a full host](SpaceError::is_host_full) and the other errors of [`Space::open_zone`]: this record is
    /// not taken, earlier ones are kept and it may be tried again; where zones are short, after a snapshot, for which
    /// [some are kept](Self::zones_owed). `Device`, `JournalFailed`.
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        self.add(ChunkKind::Records, record)
    }

    /// Makes all records so far durable.
    ///
    /// # Errors
    /// `NoSpace`, [a full host](SpaceError::is_host_full) and the other errors of [`Space::open_zone`]: try again. `SnapshotNeeded`: a zone
    /// is lost, so take a [`snapshot`](Self::snapshot). `Device`, `JournalFailed`.
    pub fn sync(&mut self) -> Result<()> {
        self.write_pending(ChunkKind::Records)?;
        self.flush()?;
        match self.zones.iter().find(|zone| self.space.is_offline(**zone)) {
            Some(&zone) => Err(SpaceError::SnapshotNeeded { zone }),
            None => Ok(()),
        }
    }

    /// Writes a snapshot, makes it durable, and resets the zones before the one in which it begins; those whose reset fails are tried again
    /// behind the next. Records so far are covered
    /// by it: whatever `fill` writes must include their effect. It begins in the open zone, if that seems to have room: to finish
    /// a zone that is hardly written costs a drive as much as to fill it, and nothing can be made durable meanwhile. Where a zone is lost
    /// that it lies in, it is written again, before any other is reset. Cost: one report of each zone that it lies in.
    ///
    /// `false`: it is whole, and the flush behind it found the host full. The next [`sync`](Self::sync) makes it durable; the zones before
    /// it are reset behind the next one.
    ///
    /// # Errors
    /// As [`start`](Self::start). An incomplete snapshot is ignored at recovery, and recording may go on.
    pub fn snapshot(&mut self, fill: &mut dyn FnMut(&mut SnapshotWriter<'_>) -> Result<()>) -> Result<bool> {
        let covered = (std::mem::take(&mut self.pending), self.payload_since_snapshot);
        // Items of an incomplete snapshot must not be written later as records, and what it was to cover must.
        let written = self.write_readable_snapshot(fill);
        let (old_zones, bytes) = written.inspect_err(|_| (self.pending, self.payload_since_snapshot) = covered)?;
        // What a whole snapshot covers must not be recorded behind it, as it would be after an error.
        let flushed = self.flush();
        let waits = flushed.as_ref().is_err_and(SpaceError::is_host_full);
        if !waits {
            flushed.inspect_err(|_| self.failed = true)?;
        }
        (self.snapshot_bytes, self.bytes_since_snapshot) = (bytes, 0);
        self.payload_since_snapshot = 0;
        if !waits {
            self.release(old_zones);
        }
        Ok(!waits)
    }

    /// Free zones that are kept for the next snapshot: as many as one takes that says what the last one and all records since say. Records
    /// leave these and one more, and so must who writes to other streams, but for that one: without a snapshot no zone is ever given back.
    #[must_use]
    pub fn zones_owed(&self) -> u32 {
        self.zones_owed_after(0)
    }

    /// As [`zones_owed`](Self::zones_owed), once so many zones more are full of records.
    fn zones_owed_after(&self, zones: u64) -> u32 {
        let payload = self.payload_since_snapshot + self.pending.len() as u64 + zones * self.chunked_bytes();
        self.zones_of(self.snapshot_bytes + payload)
    }

    /// Zones that a snapshot of so many bytes takes, at most.
    fn zones_of(&self, bytes: u64) -> u32 {
        // Chunks are not full to the last byte.
        let zones = (bytes * 17 / 16).div_ceil(self.chunked_bytes());
        u32::try_from(zones).unwrap_or(u32::MAX).max(1)
    }

    /// Bytes of a zone that long chunks fill.
    fn chunked_bytes(&self) -> u64 {
        let (chunk, zone) = (chunk_blocks_max(&self.space), self.space.zone_blocks() - 1);
        (zone - zone % chunk) * BLOCK_BYTES as u64
    }

    /// Whether a snapshot finds room for items of so many bytes each, unless zones fail; and whether, once it has given zones back, so many
    /// are left `for_others` beside those that the next one like it is [owed](Self::zones_owed).
    #[must_use]
    pub fn has_room_for(&self, items: impl Iterator<Item = usize>, for_others: u32) -> bool {
        let counts = self.space.zone_counts(self.stream);
        let goes_on = self.writer.as_ref().filter(|writer| self.has_room_in(writer));
        let given_back = self.zones.len() - usize::from(goes_on.is_some());
        let mut room = Room {
            free: counts.free + counts.retired,
            left: goes_on.map_or(0, ZoneWriter::remaining_blocks),
            taken: 0,
            zone: self.space.zone_blocks() - 1,
        };
        let (mut fits, mut pending) = (room.take(0), 0);
        for bytes in items.map(|item| ITEM_LENGTH_BYTES + item) {
            if pending + bytes > self.payload_bytes_max() {
                fits &= room.take(std::mem::take(&mut pending));
            }
            pending += bytes;
        }
        let end = ITEM_LENGTH_BYTES + self.space.offline_zones(self.stream).encode().len();
        let fits = fits && (pending == 0 || room.take(pending)) && room.take(end.min(self.payload_bytes_max()));
        // What is left in the last zone, records fill without a question.
        let owed = self.zones_of((room.taken + room.left) * BLOCK_BYTES as u64);
        let free = u64::from(room.free) + given_back as u64;
        fits && (for_others == 0 || free >= u64::from(owed) + u64::from(for_others))
    }

    /// Whether the next snapshot may begin in a zone: if it is not twice as long as the last, it fits.
    fn has_room_in(&self, writer: &ZoneWriter) -> bool {
        let block = BLOCK_BYTES as u64;
        let remaining = writer.remaining_blocks();
        let written_bytes = (self.space.zone_blocks() - remaining) * block;
        remaining >= 2 * self.snapshot_bytes.div_ceil(block) && remaining > 0 && written_bytes < ZONE_BYTES_MAX
    }

    /// Whether zones went offline, or what was in them has died, since the last snapshot said which are: who opens the store next would
    /// have to take them for lost with what counts. Cost: one pass over the zones.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.offline != self.space.offline_zones(self.stream)
    }

    /// Bytes written since the last snapshot. A usual rule is to take the next when they exceed a few times
    /// [`snapshot_bytes`](Self::snapshot_bytes).
    #[must_use]
    pub fn bytes_since_snapshot(&self) -> u64 {
        self.bytes_since_snapshot
    }

    /// Bytes of the last snapshot.
    #[must_use]
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes
    }

    /// The longest record or item, in bytes.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.payload_bytes_max() - ITEM_LENGTH_BYTES
    }

    fn payload_bytes_max(&self) -> usize {
        payload_bytes_max(&self.space)
    }

    /// Writes a whole snapshot into zones that can be read as far as the device knows; returns how many of the zones are older than the one
    /// in which it begins, and its bytes. Ends because every round uses up a zone.
    fn write_readable_snapshot(
        &mut self,
        fill: &mut dyn FnMut(&mut SnapshotWriter<'_>) -> Result<()>,
    ) -> Result<(usize, u64)> {
        loop {
            let before = self.bytes_since_snapshot;
            let old_zones = self.write_snapshot(fill)?;
            // Who does not answer may be asked by the next write.
            let is_lost = |zone: &ZoneId| self.space.mark_bad(*zone).is_ok_and(|state| state == ZoneUse::Offline);
            if !self.zones[old_zones..].iter().any(is_lost) {
                return Ok((old_zones, self.bytes_since_snapshot - before));
            }
        }
    }

    /// Writes a whole snapshot; returns how many of the zones are older than the one in which it begins.
    fn write_snapshot(&mut self, fill: &mut dyn FnMut(&mut SnapshotWriter<'_>) -> Result<()>) -> Result<usize> {
        match self.writer.take() {
            Some(writer) if self.has_room_in(&writer) => self.writer = Some(writer),
            Some(writer) => self.leave(writer, 0)?,
            None => {}
        }
        self.write_chunk(ChunkKind::SnapshotBegin)?;
        // It stands in the last of them.
        let old_zones = self.zones.len() - 1;
        fill(&mut SnapshotWriter { journal: self })?;
        self.write_pending(ChunkKind::SnapshotItems)?;
        self.offline = self.space.offline_zones(self.stream);
        let item = self.offline.encode();
        // Without, it says nothing of them, as those of earlier versions.
        if item.len() <= self.record_bytes_max() {
            self.add(ChunkKind::SnapshotEnd, &item)?;
        }
        self.write_chunk(ChunkKind::SnapshotEnd)?;
        Ok(old_zones)
    }

    fn add(&mut self, kind: ChunkKind, item: &[u8]) -> Result<()> {
        let bytes_max = self.record_bytes_max();
        if item.len() > bytes_max {
            return Err(SpaceError::RecordTooLong { bytes: item.len(), bytes_max });
        }
        if self.pending.len() + ITEM_LENGTH_BYTES + item.len() > self.payload_bytes_max() {
            self.write_pending(kind)?;
        }
        let length = u32::try_from(item.len()).expect("at most 64 KiB");
        self.pending.extend_from_slice(&length.to_le_bytes());
        self.pending.extend_from_slice(item);
        Ok(())
    }

    fn write_pending(&mut self, kind: ChunkKind) -> Result<()> {
        if self.pending.is_empty() { Ok(()) } else { self.write_chunk(kind) }
    }

    /// Writes what is pending as one chunk, in the next zone if it does not fit or the zone fails. Ends because every
    /// round uses up a zone.
    fn write_chunk(&mut self, kind: ChunkKind) -> Result<()> {
        if self.failed {
            return Err(SpaceError::JournalFailed);
        }
        let bytes = (CHUNK_HEADER_BYTES + self.pending.len()).next_multiple_of(BLOCK_BYTES);
        loop {
            let generation = self.make_room((bytes / BLOCK_BYTES) as u64, kind)?;
            let chunk = self.chunk(kind, generation, bytes);
            match self.writer.as_mut().map(|writer| writer.write(&chunk)) {
                Some(Ok(_)) => break,
                Some(Err(SpaceError::ZoneFailed { .. })) | None => self.writer = None,
                Some(Err(error)) => return Err(self.failed_with(error)),
            }
        }
        self.next_sequence += 1;
        self.bytes_since_snapshot += bytes as u64;
        self.payload_since_snapshot += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn chunk(&self, kind: ChunkKind, generation: u64, bytes: usize) -> AlignedBuf {
        let payload_bytes = u32::try_from(self.pending.len()).expect("at most 64 KiB");
        let mut chunk = AlignedBuf::with_len(bytes);
        chunk[CHUNK_HEADER_BYTES..][..self.pending.len()].copy_from_slice(&self.pending);
        ChunkHeader { kind, sequence: self.next_sequence, generation, payload_bytes }.encode(&mut chunk);
        chunk
    }

    /// Sees to a writer with room for so many blocks, and returns the generation of its zone.
    fn make_room(&mut self, blocks: u64, kind: ChunkKind) -> Result<u64> {
        let kept = if kind == ChunkKind::Records { self.zones_owed_after(1) + 1 } else { 0 };
        match self.writer.take() {
            Some(writer) if writer.remaining_blocks() >= blocks => {
                return Ok(self.writer.insert(writer).generation());
            }
            Some(writer) => self.leave(writer, kept)?,
            None => self.check_free(kept)?,
        }
        let writer = self.space.open_zone(self.stream, Urgency::Reserve)?;
        self.zones.push(writer.zone());
        hold(&self.space, writer.zone());
        Ok(self.writer.insert(writer).generation())
    }

    /// Seals the open zone, but where there is no other to go on in, above those that are kept: what still fits there can be recorded.
    fn leave(&mut self, writer: ZoneWriter, kept: u32) -> Result<()> {
        if let Err(error) = self.check_free(kept) {
            self.writer = Some(writer);
            return Err(error);
        }
        self.space.seal(writer);
        Ok(())
    }

    /// Whether a zone is free above so many.
    fn check_free(&self, kept: u32) -> Result<()> {
        let counts = self.space.zone_counts(self.stream);
        if counts.free + counts.retired > kept { Ok(()) } else { Err(self.space.usage().no_space()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.failed {
            return Err(SpaceError::JournalFailed);
        }
        self.space.flush().map_err(|error| self.failed_with(error))
    }

    /// On a host that is full the device did nothing: what is pending is written when there is room.
    fn failed_with(&mut self, error: SpaceError) -> SpaceError {
        self.failed = !error.is_host_full();
        error
    }

    /// Resets the first `count` zones: a durable snapshot replaces them. Those whose reset fails wait for the next one.
    fn release(&mut self, count: usize) {
        let newer = self.zones.split_off(count);
        self.zones.retain(|&zone| !give_back(&self.space, zone));
        self.zones.extend(newer);
    }
}

fn chunk_blocks_max(space: &Space) -> u64 {
    CHUNK_BLOCKS_MAX.min(space.zone_blocks() - 1)
}

/// Bytes of items in the longest chunk.
pub(crate) fn payload_bytes_max(space: &Space) -> usize {
    usize::try_from(chunk_blocks_max(space)).expect("at most 16") * BLOCK_BYTES - CHUNK_HEADER_BYTES
}

/// Counts a zone as fully live, so that it is no victim and cannot be reset by mistake.
pub(crate) fn hold(space: &Space, zone: ZoneId) {
    space.add_live(zone, (space.zone_blocks() - 1) * BLOCK_BYTES as u64);
}

/// Resets a zone of which recovery reads nothing any more. `false`: the device did not; the zone is held as before. That costs room and
/// time at the next mount, and keeps nobody from the journal.
pub(crate) fn give_back(space: &Space, zone: ZoneId) -> bool {
    space.sub_live(zone, u64::MAX);
    let is_reset = space.reset(zone).is_ok();
    if !is_reset {
        hold(space, zone);
    }
    is_reset
}
