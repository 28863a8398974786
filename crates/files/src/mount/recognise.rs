//! Zones whose header is damaged are recognised by what is behind it, so that one block that a device loses costs nothing:
//!
//! 1. A zone of the journal by the chunk that it begins with.
//! 2. A zone in which the journal names something by that: it is of this generation, whatever chunks in it say. Cleaning moves chunks as
//!    they are, with the generation of the zone that they were written to.
//! 3. Any other by a chunk of a log or meta file, which names the store; best by one that is in no record.
//!
//! What is recognised by none is nobody's, if it could be read. If not, it may have been the end of the journal or of a log.

use std::collections::BTreeMap;

use zonda_space::{
    ChunkHeader as JournalChunk, DamagedZone, Recognised, Recovered, RecoveredZone, Space, SpaceError, StreamId,
    StreamSet,
};

use super::{Mount, MountReport};
use crate::catalogue::Catalogue;
use crate::chunk::ChunkHeader;
use crate::ground::Ground;
use crate::options::{DATA, JOURNAL, LOG, META, RELOCATED};
use crate::walk::Window;
use crate::{FileError, Result};

/// Blocks that cannot be read, after which a zone is given up: failed reads are slow.
const UNREADABLE_MAX: u32 = 256;
/// The longest chunk of a journal.
const JOURNAL_CHUNK_BLOCKS_MAX: u64 = 16;

/// The chunks of logs and meta files in a zone.
#[derive(Default)]
struct Chunks {
    /// Their generations, each with whether one of them is in no record.
    generations: BTreeMap<u64, bool>,
    /// The first block that cannot be read.
    unreadable: Option<(u64, SpaceError)>,
}

/// What opening found, with the damaged zones among the others, by generation. Writes nothing. Cost: nothing if there are none; else reads
/// these once and, if one of them is not the journal's, the journal one time more.
///
/// # Errors
/// `ZoneUnreadable`; those of reading the journal.
pub(super) fn with_recognised(ground: &Ground, recovered: Recovered) -> Result<Vec<RecoveredZone>> {
    let space = ground.space();
    let Recovered { mut zones, damaged, .. } = recovered;
    let mut others = Vec::new();
    for zone in &damaged {
        let of_journal = journal_in(space, zone)?.map_or(Ok(None), |found| space.recognise(zone.zone, found))?;
        match of_journal {
            Some(zone) => zones.push(zone),
            None => others.push(zone),
        }
    }
    zones.sort_by_key(|zone| zone.generation);
    if !others.is_empty() {
        let catalogue = look_at_names(ground, &zones)?;
        for zone in others {
            zones.extend(by_content(space, &catalogue, zone)?);
        }
        zones.sort_by_key(|zone| zone.generation);
    }
    Ok(zones)
}

/// The zone as one of the journal, if it begins with a chunk of that. These do not name their store, so they count only there: in a table
/// anything may stand.
fn journal_in(space: &Space, zone: &DamagedZone) -> Result<Option<Recognised>> {
    let first = space.first_block(zone.zone);
    let mut window = Window::up_to(space, first + zone.written_blocks);
    for block in (first + 1..window.end()).take(UNREADABLE_MAX as usize) {
        match journal_chunk_at(&mut window, block) {
            Ok(chunk) => return Ok(chunk.map(|chunk| named(JOURNAL, JOURNAL, chunk.generation))),
            Err(cause) if cause.is_medium() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn journal_chunk_at(window: &mut Window<'_>, block: u64) -> std::result::Result<Option<JournalChunk>, SpaceError> {
    if JournalChunk::peek(window.bytes_at(block, 1)?).is_none() {
        return Ok(None);
    }
    let blocks = JOURNAL_CHUNK_BLOCKS_MAX.min(window.end() - block);
    Ok(JournalChunk::decode(window.bytes_at(block, blocks)?).map(|(chunk, _)| chunk))
}

/// Of `stream`, and perhaps of `other`, which may have shared zones with it.
fn named(stream: StreamId, other: StreamId, generation: u64) -> Recognised {
    Recognised { stream, holds: StreamSet::of(stream).union(StreamSet::of(other)), generation }
}

/// What the journal says, and nothing counted for it.
fn look_at_names(ground: &Ground, zones: &[RecoveredZone]) -> Result<Catalogue> {
    let mut mount = Mount { ground, catalogue: Catalogue::default(), report: MountReport::default() };
    mount.read_journal(zones)?;
    for zone in zones.iter().filter(|zone| zone.stream == JOURNAL) {
        ground.space().sub_live(zone.zone, u64::MAX);
    }
    Ok(mount.catalogue)
}

/// The zone, if what is in it is anybody's.
fn by_content(space: &Space, catalogue: &Catalogue, zone: &DamagedZone) -> Result<Option<RecoveredZone>> {
    let Chunks { generations, unreadable } = chunks_in(space, catalogue, zone)?;
    let extents = catalogue.files().flat_map(|(_, inode)| inode.extents.iter());
    let generation = extents.filter(|extent| extent.zone == zone.zone).map(|extent| extent.generation).max();
    if let Some(generation) = generation {
        // Chunks of its own may be in no record: they must be walked for, where streams share zones too.
        let is_walked = generations.contains_key(&generation);
        let (stream, other) = if is_walked { (LOG, META) } else { (DATA, RELOCATED) };
        return Ok(space.recognise(zone.zone, named(stream, other, generation))?);
    }
    // Nothing in it is recorded: what was moved there is dead, or was not yet recorded there, and its zone still has its generation.
    let of = |needed| generations.iter().filter(move |(_, is_needed)| **is_needed == needed);
    for (generation, _) in of(true).chain(of(false)) {
        if let Some(zone) = space.recognise(zone.zone, named(LOG, META, *generation))? {
            return Ok(Some(zone));
        }
    }
    match unreadable {
        Some((block, cause)) => Err(FileError::ZoneUnreadable { zone: zone.zone.0, block, cause }),
        None => Ok(None),
    }
}

fn chunks_in(space: &Space, catalogue: &Catalogue, zone: &DamagedZone) -> Result<Chunks> {
    let first = space.first_block(zone.zone);
    let mut window = Window::up_to(space, first + zone.written_blocks);
    let (mut chunks, mut block, mut unreadable_blocks) = (Chunks::default(), first + 1, 0);
    while block < window.end() && unreadable_blocks < UNREADABLE_MAX {
        block += match window.chunk_at(block, None) {
            Ok(Some(chunk)) => {
                *chunks.generations.entry(chunk.generation).or_default() |= is_in_no_record(catalogue, &chunk);
                chunk.blocks()
            }
            Ok(None) => 1,
            Err(cause) if cause.is_medium() => {
                chunks.unreadable.get_or_insert((block, cause));
                unreadable_blocks += 1;
                1
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(chunks)
}

/// Whether a chunk goes on behind what is recorded of its file, or is of a file that no record has.
fn is_in_no_record(catalogue: &Catalogue, chunk: &ChunkHeader) -> bool {
    match catalogue.inode(chunk.file) {
        Some(inode) => inode.chunks_count && chunk.offset >= inode.extents.bytes(),
        None => chunk.file >= catalogue.next_file(),
    }
}
