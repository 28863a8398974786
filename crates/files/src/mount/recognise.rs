//! Zones whose header is damaged are recognised by what is behind it, so that one block that a device loses costs nothing:
//!
//! 1. A zone of the journal by the chunk that it begins with; zones of logs and meta files by any chunk of theirs, which names the store.
//! 2. Zones of tables by the extents that the journal names in them.
//!
//! What is recognised by neither is nobody's, if it could be read. If not, it may have been the end of the journal or of a log.

use zonda_space::{
    ChunkHeader, DamagedZone, Recognised, Recovered, RecoveredZone, Space, SpaceError, StreamId, StreamSet, ZoneId,
};

use super::{Mount, MountReport};
use crate::catalogue::Catalogue;
use crate::ground::Ground;
use crate::options::{DATA, JOURNAL, LOG, META, RELOCATED};
use crate::walk::Window;
use crate::{FileError, Result};

/// Blocks that cannot be read, after which a zone is given up: failed reads are slow.
const UNREADABLE_MAX: u32 = 256;
/// The longest chunk of a journal.
const JOURNAL_CHUNK_BLOCKS_MAX: u64 = 16;

/// A zone that no chunk names, and the first block in it that cannot be read.
struct Nameless {
    zone: ZoneId,
    unreadable: Option<(u64, SpaceError)>,
}

/// What opening found, with the damaged zones among the others, by generation. Writes nothing. Cost: nothing if there are none; else reads
/// these as far as the first chunk, and the journal one time more if one of them has none.
///
/// # Errors
/// `ZoneUnreadable`; those of reading the journal.
pub(super) fn with_recognised(ground: &Ground, recovered: Recovered) -> Result<Vec<RecoveredZone>> {
    let space = ground.space();
    let Recovered { mut zones, damaged, .. } = recovered;
    let mut nameless = Vec::new();
    for zone in &damaged {
        match by_chunks(space, zone)? {
            Ok(found) => zones.extend(space.recognise(zone.zone, found)?),
            Err(zone) => nameless.push(zone),
        }
    }
    zones.sort_by_key(|zone| zone.generation);
    if !nameless.is_empty() {
        let catalogue = look_at_names(ground, &zones)?;
        for zone in nameless {
            zones.extend(by_extents(space, &catalogue, zone)?);
        }
        zones.sort_by_key(|zone| zone.generation);
    }
    Ok(zones)
}

/// What the first chunk in a zone says of it.
fn by_chunks(space: &Space, zone: &DamagedZone) -> Result<std::result::Result<Recognised, Nameless>> {
    let first = space.first_block(zone.zone);
    let mut window = Window::up_to(space, first + zone.written_blocks);
    let (mut unreadable, mut unreadable_blocks) = (None, 0);
    let mut is_first = true;
    for block in first + 1..first + zone.written_blocks {
        match chunk_at(&mut window, block, is_first) {
            Ok(Some(found)) => return Ok(Ok(found)),
            Ok(None) => is_first = false,
            Err(cause) if cause.is_medium() => {
                unreadable.get_or_insert((block, cause));
                unreadable_blocks += 1;
            }
            Err(error) => return Err(error.into()),
        }
        if unreadable_blocks == UNREADABLE_MAX {
            break;
        }
    }
    Ok(Err(Nameless { zone: zone.zone, unreadable }))
}

/// The chunk at a block. Those of the journal do not name their store, so they count only where a zone begins: in a table anything may
/// stand.
fn chunk_at(
    window: &mut Window<'_>,
    block: u64,
    is_first: bool,
) -> std::result::Result<Option<Recognised>, SpaceError> {
    if let Some(chunk) = window.chunk_at(block, None)? {
        return Ok(Some(named(LOG, META, chunk.generation)));
    }
    if !is_first || ChunkHeader::peek(window.bytes_at(block, 1)?).is_none() {
        return Ok(None);
    }
    let blocks = JOURNAL_CHUNK_BLOCKS_MAX.min(window.end() - block);
    let chunk = ChunkHeader::decode(window.bytes_at(block, blocks)?);
    Ok(chunk.map(|(chunk, _)| named(JOURNAL, JOURNAL, chunk.generation)))
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

/// The zone, if the journal names something in it.
fn by_extents(space: &Space, catalogue: &Catalogue, nameless: Nameless) -> Result<Option<RecoveredZone>> {
    let Nameless { zone, unreadable } = nameless;
    let extents = catalogue.files().flat_map(|(_, inode)| inode.extents.iter());
    let generation = extents.filter(|extent| extent.zone == zone).map(|extent| extent.generation).max();
    match (generation, unreadable) {
        (Some(generation), _) => Ok(space.recognise(zone, named(DATA, RELOCATED, generation))?),
        (None, None) => Ok(None),
        (None, Some((block, cause))) => Err(FileError::ZoneUnreadable { zone: zone.0, block, cause }),
    }
}
