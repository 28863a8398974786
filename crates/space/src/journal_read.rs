//! Reads the journal of an earlier life.

use std::collections::BTreeSet;

use zonda_device::{AlignedBuf, DeviceError, ErrorKind, ZoneId};

use crate::format::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, items};
use crate::journal::{CHUNK_BLOCKS_MAX, ITEM_LENGTH_BYTES, give_back, hold, payload_bytes_max};
use crate::{BLOCK_BYTES, OfflineZones, RecoveredZone, Result, Space, SpaceError, StreamId, ZoneUse};

/// Blocks behind the last whole chunk of a zone in which others are looked for. Behind the torn tail of a zone that is full or finished
/// there may be nothing, as far as that goes.
const SEARCH_BLOCKS: u64 = 256;

/// One thing that a journal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalEntry<'a> {
    /// An item of the snapshot.
    Item(&'a [u8]),
    /// A record of a change after it.
    Record(&'a [u8]),
}

/// What an earlier life left, for [`Journal::start`](crate::Journal::start) to replace.
#[derive(Debug)]
pub struct JournalFound {
    /// Whether there was a complete snapshot. Without one nothing was delivered.
    pub has_snapshot: bool,
    /// Whether there are records of changes, delivered or not. They are written behind a durable snapshot only.
    pub has_records: bool,
    /// Chunks behind a gap: they were never durable together with what came before them, or something is damaged.
    pub ignored_chunks: u64,
    /// Of these, those that no crash left without what is missing before them: the device had said that this was durable.
    pub damaged_chunks: u64,
    /// Which zones were offline when the snapshot was written; `None` where it does not say: it is of an earlier version.
    pub offline: Option<OfflineZones>,
    pub(crate) zones: Vec<ZoneId>,
    pub(crate) next_sequence: u64,
    /// The zones from the snapshot to the last record that was delivered, without a gap; `None` without a snapshot.
    delivered: Option<BTreeSet<ZoneId>>,
}

impl Default for JournalFound {
    fn default() -> Self {
        let (has_snapshot, has_records, ignored_chunks, damaged_chunks) = Default::default();
        let (offline, zones, delivered) = Default::default();
        Self { has_snapshot, has_records, ignored_chunks, damaged_chunks, offline, zones, next_sequence: 1, delivered }
    }
}

impl JournalFound {
    /// Seals the journal's zones that are partly written, so that they hold no tokens, and resets those in which nothing counts: what
    /// openings that were cut short left behind would else fill the device. `recovered` is what the journal was read from.
    ///
    /// # Errors
    /// `WrongState`: somebody else has taken up a zone.
    pub fn settle(&mut self, space: &Space, recovered: &[RecoveredZone]) -> Result<()> {
        let is_ours = |zone: &&RecoveredZone| self.zones.contains(&zone.zone) && zone.state == ZoneUse::Partial;
        for zone in recovered.iter().filter(is_ours) {
            space.seal_recovered(zone.zone)?;
        }
        if let Some(delivered) = self.delivered.take() {
            self.zones.retain(|zone| delivered.contains(zone) || !give_back(space, *zone));
        }
        Ok(())
    }
}

/// A block that ends the chunks of a zone because it cannot be read.
struct Unreadable {
    generation: u64,
    block: u64,
    source: DeviceError,
}

/// A whole chunk on the device.
#[derive(Clone, Copy, Debug)]
struct Place {
    sequence: u64,
    kind: ChunkKind,
    generation: u64,
    block: u64,
    blocks: u64,
    payload_bytes: usize,
    /// Of the first item, its length included.
    item_bytes: usize,
}

impl Place {
    /// Whether it was written next after another, and behind it. One of an earlier life, which was never delivered, may have the number of
    /// one that is lost.
    fn follows(&self, before: &Self) -> bool {
        before.sequence.checked_add(1) == Some(self.sequence) && self.order() > before.order()
    }

    /// Later ones were written later.
    fn order(&self) -> (u64, u64) {
        (self.generation, self.block)
    }
}

/// Delivers the newest complete snapshot and the records after it, up to the first gap in the sequence: the torn tail of
/// a crash, or damage. Never fails for a bad chunk; a block that cannot be read is one if what is delivered goes on in a later zone, so
/// that it holds nothing of that. Else it may hold the last records, or a newer snapshot, and these are not dropped silently. Then
/// [settles](JournalFound::settle) the zones.
/// `recovered` are the zones that opening found; those of other streams are passed over.
///
/// Cost: reads each zone once to find the chunks, and the delivered ones a second time; memory for one chunk and 56
/// bytes for each.
///
/// # Errors
/// `JournalUnreadable`, `Device`, and those of `apply`.
pub fn read_journal(
    space: &Space,
    stream: StreamId,
    recovered: &[RecoveredZone],
    apply: &mut dyn FnMut(JournalEntry<'_>) -> Result<()>,
) -> Result<JournalFound> {
    let mut found = look_at_journal(space, stream, recovered, apply)?;
    found.settle(space, recovered)?;
    Ok(found)
}

/// As [`read_journal`], and changes nothing on the device: for who reads beside the store's owner, or looks first whether all is there.
///
/// # Errors
/// As there.
pub fn look_at_journal(
    space: &Space,
    stream: StreamId,
    recovered: &[RecoveredZone],
    apply: &mut dyn FnMut(JournalEntry<'_>) -> Result<()>,
) -> Result<JournalFound> {
    let mut buffer = AlignedBuf::with_len(usize::try_from(CHUNK_BLOCKS_MAX).expect("16") * BLOCK_BYTES);
    let mut found = JournalFound::default();
    let (mut chunks, mut unreadable) = (Vec::new(), Vec::new());
    for zone in recovered.iter().filter(|zone| zone.stream == stream) {
        hold(space, zone.zone);
        found.zones.push(zone.zone);
        unreadable.extend(list_chunks(space, zone, &mut buffer, &mut chunks)?);
    }
    found.next_sequence = select(&mut chunks);
    found.has_records = chunks.iter().any(|chunk| chunk.kind == ChunkKind::Records);
    let Some(snapshot) = newest_snapshot(&chunks) else {
        refuse_lost(space, unreadable, 0)?;
        found.ignored_chunks = chunks.len() as u64;
        return Ok(found);
    };
    found.has_snapshot = true;
    let dense = &chunks[snapshot.begin..][..dense_run(&chunks[snapshot.begin..])];
    refuse_lost(space, unreadable, newest_generation(space, recovered, dense))?;
    let ignored = &chunks[snapshot.begin + dense.len()..];
    found.ignored_chunks = ignored.len() as u64;
    found.damaged_chunks = damaged(space, dense, ignored);
    let end = snapshot.end - snapshot.begin;
    deliver(space, &dense[..end], ChunkKind::SnapshotItems, &mut buffer, apply)?;
    let said = read_chunk(space, &dense[end], &mut buffer)?;
    found.offline = items(said).next().and_then(OfflineZones::decode);
    deliver(space, &dense[end..], ChunkKind::Records, &mut buffer, apply)?;
    // Parts of snapshots that were given up may stand between: without these there would be a gap. Nothing counts of those behind.
    let last = dense.iter().rposition(|chunk| chunk.kind == ChunkKind::Records).unwrap_or(0).max(end);
    found.delivered = Some(dense[..=last].iter().map(|chunk| space.zone_of(chunk.block)).collect());
    Ok(found)
}

/// The generation of the last zone in which a chunk is.
fn newest_generation(space: &Space, recovered: &[RecoveredZone], chunks: &[Place]) -> u64 {
    let zones: BTreeSet<ZoneId> = chunks.iter().map(|chunk| space.zone_of(chunk.block)).collect();
    recovered.iter().filter(|zone| zones.contains(&zone.zone)).map(|zone| zone.generation).max().unwrap_or(0)
}

/// Refuses a journal of which something cannot be read that does not lie before the zone of generation `up_to`.
fn refuse_lost(space: &Space, unreadable: Vec<Unreadable>, up_to: u64) -> Result<()> {
    match unreadable.into_iter().find(|lost| lost.generation >= up_to) {
        Some(Unreadable { block, source, .. }) => {
            Err(SpaceError::JournalUnreadable { zone: space.zone_of(block), block, source })
        }
        None => Ok(()),
    }
}

/// Sorts the chunks, which come by the generation of their zones, by sequence, and returns the next one. A chunk whose zone failed was
/// written again with the same sequence, or, where no zone was to be had, another one later: the last is what was recorded.
fn select(chunks: &mut Vec<Place>) -> u64 {
    chunks.sort_by_key(|chunk| chunk.sequence);
    chunks.dedup_by(|later, kept| {
        let is_again = later.sequence == kept.sequence;
        if is_again {
            std::mem::swap(later, kept);
        }
        is_again
    });
    chunks.last().map_or(1, |chunk| chunk.sequence.saturating_add(1))
}

/// Indexes of the chunks that begin and end a snapshot.
struct Snapshot {
    begin: usize,
    end: usize,
}

/// The newest snapshot of which every chunk is there.
fn newest_snapshot(chunks: &[Place]) -> Option<Snapshot> {
    let ends = (0..chunks.len()).rev().filter(|&end| chunks[end].kind == ChunkKind::SnapshotEnd);
    ends.filter_map(|end| complete(chunks, end)).next()
}

fn complete(chunks: &[Place], end: usize) -> Option<Snapshot> {
    let begin = chunks[..end].iter().rposition(|chunk| chunk.kind == ChunkKind::SnapshotBegin)?;
    let is_of_items = chunks[begin + 1..end].iter().all(|chunk| chunk.kind == ChunkKind::SnapshotItems);
    (is_of_items && dense_run(&chunks[begin..=end]) == end + 1 - begin).then_some(Snapshot { begin, end })
}

/// Chunks from the first on without a gap in the sequence.
fn dense_run(chunks: &[Place]) -> usize {
    let following = chunks.windows(2).take_while(|pair| pair[1].follows(&pair[0])).count();
    chunks.len().min(1 + following)
}

/// Of the chunks behind a gap those that prove damage: all, if one was followed by a flush before the next was written. What is missing is
/// older, so it was durable. Chunks of an earlier life prove nothing, nor does the last: nobody knows whether the flush behind it was done.
/// On a host that is full one may have been left out.
fn damaged(space: &Space, dense: &[Place], ignored: &[Place]) -> u64 {
    let end = dense.last().map(Place::order);
    let ours: Vec<&Place> = ignored.iter().filter(|chunk| Some(chunk.order()) > end).collect();
    let bytes_max = payload_bytes_max(space);
    // A chunk of records that had room for the next one was written because somebody waited for it.
    let was_synced = |chunk: &Place, next: &Place| match (chunk.kind, next.kind) {
        (ChunkKind::SnapshotEnd, _) => true,
        (ChunkKind::Records, ChunkKind::Records) => chunk.payload_bytes + next.item_bytes <= bytes_max,
        _ => false,
    };
    let is_proof = |pair: &[&Place]| pair[1].follows(pair[0]) && was_synced(pair[0], pair[1]);
    if ours.windows(2).any(is_proof) { ours.len() as u64 } else { 0 }
}

/// Adds the whole chunks of a zone. One that is not whole is the torn tail of a crash, or damaged, and then others may be behind it: these
/// are looked for a little further. Returns where the chunks end because that could not be read.
fn list_chunks(
    space: &Space,
    zone: &RecoveredZone,
    buffer: &mut AlignedBuf,
    chunks: &mut Vec<Place>,
) -> Result<Option<Unreadable>> {
    let first = space.first_block(zone.zone);
    let (mut block, end) = (first + 1, first + zone.written_blocks);
    // Behind the last whole one.
    let mut whole = block;
    while block < end && block - whole < SEARCH_BLOCKS {
        let (blocks, lost) = read_up_to_lost(space, block, (end - block).min(CHUNK_BLOCKS_MAX), buffer)?;
        let read = &buffer[..bytes_of(blocks)];
        let listed = list_buffer(read, zone.generation, block, chunks);
        if listed > block {
            (block, whole) = (listed, listed);
        } else if lost.is_some() {
            let unreadable = |source| Unreadable { generation: zone.generation, block, source };
            return Ok(lost.filter(|_| block == whole).map(unreadable));
        } else {
            let may_begin = |at: &u64| ChunkHeader::peek(&read[bytes_of(*at)..]).is_some();
            block += (1..blocks).find(may_begin).unwrap_or(blocks);
        }
    }
    Ok(None)
}

/// Reads blocks, or those before the first that the device has lost; returns how many, and what it said.
fn read_up_to_lost(
    space: &Space,
    block: u64,
    blocks: u64,
    buffer: &mut AlignedBuf,
) -> Result<(u64, Option<DeviceError>)> {
    match space.read(block, &mut buffer[..bytes_of(blocks)]) {
        Ok(()) => return Ok((blocks, None)),
        Err(error) if !error.is_medium() => return Err(error),
        Err(_) => {}
    }
    for done in 0..blocks {
        match space.read(block + done, &mut buffer[bytes_of(done)..bytes_of(done + 1)]) {
            Ok(()) => {}
            Err(SpaceError::Device(lost)) if lost.kind() == ErrorKind::Media => return Ok((done, Some(lost))),
            Err(error) => return Err(error),
        }
    }
    Ok((blocks, None))
}

/// Adds the whole chunks in what was read from `block` on; returns the block after the last.
fn list_buffer(mut bytes: &[u8], generation: u64, mut block: u64, chunks: &mut Vec<Place>) -> u64 {
    while let Some((header, payload)) = ChunkHeader::decode(bytes) {
        if header.generation != generation {
            break;
        }
        let blocks = (CHUNK_HEADER_BYTES + payload.len()).div_ceil(BLOCK_BYTES);
        let ChunkHeader { sequence, kind, .. } = header;
        let item_bytes = items(payload).next().map_or(0, |item| ITEM_LENGTH_BYTES + item.len());
        let (payload_bytes, of_blocks) = (payload.len(), blocks as u64);
        chunks.push(Place { sequence, kind, generation, block, blocks: of_blocks, payload_bytes, item_bytes });
        block += blocks as u64;
        bytes = bytes.get(blocks * BLOCK_BYTES..).unwrap_or_default();
    }
    block
}

/// Delivers the items of the chunks of one kind.
fn deliver(
    space: &Space,
    chunks: &[Place],
    kind: ChunkKind,
    buffer: &mut AlignedBuf,
    apply: &mut dyn FnMut(JournalEntry<'_>) -> Result<()>,
) -> Result<()> {
    for chunk in chunks.iter().filter(|chunk| chunk.kind == kind) {
        for item in items(read_chunk(space, chunk, buffer)?) {
            apply(if kind == ChunkKind::Records { JournalEntry::Record(item) } else { JournalEntry::Item(item) })?;
        }
    }
    Ok(())
}

/// The payload of a chunk.
fn read_chunk<'a>(space: &Space, chunk: &Place, buffer: &'a mut AlignedBuf) -> Result<&'a [u8]> {
    let bytes = bytes_of(chunk.blocks);
    space.read(chunk.block, &mut buffer[..bytes]).map_err(|error| unreadable(space, chunk.block, error))?;
    Ok(ChunkHeader::decode(&buffer[..bytes]).map_or(&[][..], |(_, payload)| payload))
}

fn unreadable(space: &Space, block: u64, error: SpaceError) -> SpaceError {
    match error {
        SpaceError::Device(source) if source.kind() == ErrorKind::Media => {
            SpaceError::JournalUnreadable { zone: space.zone_of(block), block, source }
        }
        error => error,
    }
}

fn bytes_of(blocks: u64) -> usize {
    usize::try_from(blocks).expect("at most 16 blocks") * BLOCK_BYTES
}
