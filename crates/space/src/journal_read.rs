//! Reads the journal of an earlier life.

use std::collections::BTreeSet;

use zonda_device::{AlignedBuf, DeviceError, ErrorKind, ZoneId};

use crate::format::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, items};
use crate::journal::{CHUNK_BLOCKS_MAX, give_back, hold};
use crate::{BLOCK_BYTES, RecoveredZone, Result, Space, SpaceError, StreamId, ZoneUse};

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
    /// Chunks behind a gap: they were never durable together with what came before them, or something is damaged.
    pub ignored_chunks: u64,
    pub(crate) zones: Vec<ZoneId>,
    pub(crate) next_sequence: u64,
}

impl Default for JournalFound {
    fn default() -> Self {
        Self { has_snapshot: false, ignored_chunks: 0, zones: Vec::new(), next_sequence: 1 }
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
    block: u64,
    blocks: u64,
}

/// Delivers the newest complete snapshot and the records after it, up to the first gap in the sequence: the torn tail of
/// a crash, or damage. Never fails for a bad chunk; a block that cannot be read is one if what is delivered goes on in a later zone, so
/// that it holds nothing of that. Else it may hold the last records, or a newer snapshot, and these are not dropped silently. Seals zones
/// that are partly written, so that they hold no tokens, and resets those in which nothing counts.
/// `recovered` are the zones that opening found; those of other streams are passed over.
///
/// Cost: reads each zone once to find the chunks, and the delivered ones a second time; memory for one chunk and 32
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
    for zone in recovered.iter().filter(|zone| zone.stream == stream && zone.state == ZoneUse::Partial) {
        space.seal_recovered(zone.zone)?;
    }
    let (mut found, delivered) = deliver_newest(space, stream, recovered, apply)?;
    if let Some(delivered) = delivered {
        // What openings that were cut short left behind would else fill the device.
        found.zones.retain(|zone| delivered.contains(zone) || !give_back(space, *zone));
    }
    Ok(found)
}

/// As [`read_journal`], and changes nothing on the device: for who reads beside the store's owner.
///
/// # Errors
/// As there.
pub fn look_at_journal(
    space: &Space,
    stream: StreamId,
    recovered: &[RecoveredZone],
    apply: &mut dyn FnMut(JournalEntry<'_>) -> Result<()>,
) -> Result<JournalFound> {
    Ok(deliver_newest(space, stream, recovered, apply)?.0)
}

/// Delivers what counts; returns the zones that it came from, if there is a snapshot.
fn deliver_newest(
    space: &Space,
    stream: StreamId,
    recovered: &[RecoveredZone],
    apply: &mut dyn FnMut(JournalEntry<'_>) -> Result<()>,
) -> Result<(JournalFound, Option<BTreeSet<ZoneId>>)> {
    let mut buffer = AlignedBuf::with_len(usize::try_from(CHUNK_BLOCKS_MAX).expect("16") * BLOCK_BYTES);
    let mut found = JournalFound::default();
    let (mut chunks, mut unreadable) = (Vec::new(), Vec::new());
    for zone in recovered.iter().filter(|zone| zone.stream == stream) {
        hold(space, zone.zone);
        found.zones.push(zone.zone);
        unreadable.extend(list_chunks(space, zone, &mut buffer, &mut chunks)?);
    }
    found.next_sequence = select(&mut chunks);
    let Some(snapshot) = newest_snapshot(&chunks) else {
        refuse_lost(space, unreadable, 0)?;
        found.ignored_chunks = chunks.len() as u64;
        return Ok((found, None));
    };
    found.has_snapshot = true;
    let dense = &chunks[snapshot.begin..][..dense_run(&chunks[snapshot.begin..])];
    refuse_lost(space, unreadable, newest_generation(space, recovered, dense))?;
    found.ignored_chunks = (chunks.len() - snapshot.begin - dense.len()) as u64;
    let end = snapshot.end - snapshot.begin;
    deliver(space, &dense[..end], ChunkKind::SnapshotItems, &mut buffer, apply)?;
    deliver(space, &dense[end..], ChunkKind::Records, &mut buffer, apply)?;
    let is_delivered = |(at, chunk): &(usize, &Place)| *at <= end || chunk.kind == ChunkKind::Records;
    let delivered = dense.iter().enumerate().filter(is_delivered).map(|(_, chunk)| space.zone_of(chunk.block));
    Ok((found, Some(delivered.collect())))
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
    let snapshot = &chunks[begin..=end];
    (dense_run(snapshot) == snapshot.len()).then_some(Snapshot { begin, end })
}

/// Chunks from the first on without a gap in the sequence.
fn dense_run(chunks: &[Place]) -> usize {
    let first = chunks.first().map_or(0, |chunk| chunk.sequence);
    chunks.iter().zip(first..).take_while(|(chunk, expected)| chunk.sequence == *expected).count()
}

/// Adds the whole chunks of a zone, up to the first that is not. Returns where that could not be read.
fn list_chunks(
    space: &Space,
    zone: &RecoveredZone,
    buffer: &mut AlignedBuf,
    chunks: &mut Vec<Place>,
) -> Result<Option<Unreadable>> {
    let first = space.first_block(zone.zone);
    let (mut block, end) = (first + 1, first + zone.written_blocks);
    while block < end {
        let (blocks, lost) = read_up_to_lost(space, block, (end - block).min(CHUNK_BLOCKS_MAX), buffer)?;
        let listed = list_buffer(&buffer[..bytes_of(blocks)], zone.generation, block, chunks);
        if listed == block {
            return Ok(lost.map(|source| Unreadable { generation: zone.generation, block, source }));
        }
        block = listed;
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
        chunks.push(Place { sequence: header.sequence, kind: header.kind, block, blocks: blocks as u64 });
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
        let bytes = bytes_of(chunk.blocks);
        space.read(chunk.block, &mut buffer[..bytes]).map_err(|error| unreadable(space, chunk.block, error))?;
        let payload = ChunkHeader::decode(&buffer[..bytes]).map_or(&[][..], |(_, payload)| payload);
        for item in items(payload) {
            apply(if kind == ChunkKind::Records { JournalEntry::Record(item) } else { JournalEntry::Item(item) })?;
        }
    }
    Ok(())
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
