//! Changes: what the journal records, and what a snapshot of it is made of.
//!
//! # On the device
//! Records of the journal, little-endian. The first byte is the kind: on disk, never renumber.
//!
//! | kind | change | fields |
//! |-----:|--------|--------|
//! | 1 | directory made | path |
//! | 2 | directory removed | path |
//! | 3 | file made; what had its name loses it | file (8), kind (1), lifetime (1), level (1; 255: unknown), modified (8), path |
//! | 4 | another name for a file | file (8), path |
//! | 5 | name removed | path |
//! | 6 | renamed, with everything below | path, path |
//! | 7 | bytes added | file (8), size before (8), modified (8), count (4), extents |
//! | 8 | no chunk after this size counts: the file is written through the journal from now on | file (8), size (8) |
//! | 9 | shortened | file (8), size (8) |
//! | 10 | an extent moved | file (8), zone (4), generation (8), block (8), count (4), extents |
//! | 11 | lifetime or level known now | file (8), lifetime (1), level (1) |
//! | 12 | files below this number have been used | number (8) |
//! | 13 | what the store did since it was made | bytes copied (8), bytes left in finished zones (8), nanoseconds of finishing (8), resets with (8) and without a copy (8), count (4), allocations |
//!
//! A path is its length in 4 bytes and UTF-8; an extent is zone (4), generation (8), block (8), skip (4), bytes (8), 1 and its CRC-32C
//! (4), or 0. Allocations are rule (1), level (1; 255: unknown) and how many (8).
//!
//! On devices that split zones an extent may lie in a subzone. Its zone is then the number of the subzone, behind those of the zones:
//! subzone `i` of zone `z` is `zones + z * subzones + i`, with the number of subzones of a zone from the superblock. Its generation is
//! that of the subzone's header, its block is counted through the whole device as ever. That a zone is split is in no record: the
//! device says so.

use crate::bytes::{Decoder, Encoder};
use crate::extent::Place;
use crate::{Extent, FileId, FileKind, FilePath, FileTags, Lifetime, Work, ZoneId};

/// Extents in one record at most, so that every record fits into a chunk of the journal.
pub(crate) const EXTENTS_MAX: usize = 64;

const LEVEL_UNKNOWN: u8 = 255;

/// One change of what is stored. Applied in order to an empty catalogue, the changes of a journal give its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    MakeDirectory { path: FilePath },
    RemoveDirectory { path: FilePath },
    Create { file: FileId, tags: FileTags, modified_seconds: u64, path: FilePath },
    Link { file: FileId, path: FilePath },
    Unlink { path: FilePath },
    Rename { from: FilePath, to: FilePath },
    Extend { file: FileId, size_before: u64, modified_seconds: u64, extents: Vec<Extent> },
    Seal { file: FileId, size: u64 },
    Truncate { file: FileId, size: u64 },
    Move { file: FileId, from: Place, to: Vec<Extent> },
    Retag { file: FileId, lifetime: Lifetime, level: Option<u8> },
    NextFile { file: FileId },
    Work { work: Work },
}

impl Change {
    /// Whether names or bytes may be given back by it.
    pub(crate) fn gives_back(&self) -> bool {
        matches!(
            self,
            Self::RemoveDirectory { .. }
                | Self::Unlink { .. }
                | Self::Rename { .. }
                | Self::Truncate { .. }
                | Self::Move { .. }
        )
    }

    /// The record of this change.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        match self {
            Self::MakeDirectory { path } => out.u8(1).text(path.as_str()),
            Self::RemoveDirectory { path } => out.u8(2).text(path.as_str()),
            Self::Create { file, tags, modified_seconds, path } => out
                .u8(3)
                .u64(file.0)
                .u8(tags.kind as u8)
                .u8(tags.lifetime as u8)
                .u8(tags.level.unwrap_or(LEVEL_UNKNOWN))
                .u64(*modified_seconds)
                .text(path.as_str()),
            Self::Link { file, path } => out.u8(4).u64(file.0).text(path.as_str()),
            Self::Unlink { path } => out.u8(5).text(path.as_str()),
            Self::Rename { from, to } => out.u8(6).text(from.as_str()).text(to.as_str()),
            Self::Extend { file, size_before, modified_seconds, extents } => {
                put_extents(out.u8(7).u64(file.0).u64(*size_before).u64(*modified_seconds), extents)
            }
            Self::Seal { file, size } => out.u8(8).u64(file.0).u64(*size),
            Self::Truncate { file, size } => out.u8(9).u64(file.0).u64(*size),
            Self::Move { file, from, to } => {
                put_extents(out.u8(10).u64(file.0).u32(from.zone.0).u64(from.generation).u64(from.block), to)
            }
            Self::Retag { file, lifetime, level } => {
                out.u8(11).u64(file.0).u8(*lifetime as u8).u8(level.unwrap_or(LEVEL_UNKNOWN))
            }
            Self::NextFile { file } => out.u8(12).u64(file.0),
            Self::Work { work } => work.encode(out.u8(13)),
        };
        out.finish()
    }

    /// Reads a record from any bytes (I10); `None` if they are none.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let mut from = Decoder::new(record);
        let change = match from.u8()? {
            1 => Self::MakeDirectory { path: path(&mut from)? },
            2 => Self::RemoveDirectory { path: path(&mut from)? },
            3 => create(&mut from)?,
            4 => Self::Link { file: file(&mut from)?, path: path(&mut from)? },
            5 => Self::Unlink { path: path(&mut from)? },
            6 => Self::Rename { from: path(&mut from)?, to: path(&mut from)? },
            7 => extend(&mut from)?,
            8 => Self::Seal { file: file(&mut from)?, size: from.u64()? },
            9 => Self::Truncate { file: file(&mut from)?, size: from.u64()? },
            10 => relocation(&mut from)?,
            11 => Self::Retag { file: file(&mut from)?, lifetime: lifetime(&mut from)?, level: level(&mut from)? },
            12 => Self::NextFile { file: file(&mut from)? },
            13 => Self::Work { work: Work::decode(&mut from)? },
            _ => return None,
        };
        from.end(change)
    }
}

fn put_extents<'a>(out: &'a mut Encoder, extents: &[Extent]) -> &'a mut Encoder {
    let count = u32::try_from(extents.len()).expect("at most EXTENTS_MAX");
    let out = out.u32(count);
    extents.iter().fold(out, |out, extent| {
        out.u32(extent.zone.0).u64(extent.generation).u64(extent.block).u32(extent.skip).u64(extent.bytes);
        match extent.crc {
            Some(crc) => out.u8(1).u32(crc),
            None => out.u8(0),
        }
    })
}

fn extents(from: &mut Decoder<'_>) -> Option<Vec<Extent>> {
    let count = from.u32()? as usize;
    (count <= EXTENTS_MAX).then(|| (0..count).map(|_| extent(from)).collect())?
}

fn extent(from: &mut Decoder<'_>) -> Option<Extent> {
    let (zone, generation, block) = (ZoneId(from.u32()?), from.u64()?, from.u64()?);
    let (skip, bytes) = (from.u32()?, from.u64()?);
    let crc = match from.u8()? {
        0 => None,
        1 => Some(from.u32()?),
        _ => return None,
    };
    let extent = Extent { zone, generation, block, skip, bytes, crc };
    let is_sane = extent.bytes > 0 && extent.bytes < 1 << 56 && extent.skip < 4096;
    is_sane.then_some(extent)
}

fn create(from: &mut Decoder<'_>) -> Option<Change> {
    let file = file(from)?;
    let kind = from.u8()?;
    let kind = FileKind::ALL.into_iter().find(|known| *known as u8 == kind)?;
    let tags = FileTags { kind, lifetime: lifetime(from)?, level: level(from)? };
    Some(Change::Create { file, tags, modified_seconds: from.u64()?, path: path(from)? })
}

fn extend(from: &mut Decoder<'_>) -> Option<Change> {
    let (file, size_before, modified_seconds) = (file(from)?, from.u64()?, from.u64()?);
    Some(Change::Extend { file, size_before, modified_seconds, extents: extents(from)? })
}

fn relocation(from: &mut Decoder<'_>) -> Option<Change> {
    let file = file(from)?;
    let place = Place { zone: ZoneId(from.u32()?), generation: from.u64()?, block: from.u64()? };
    Some(Change::Move { file, from: place, to: extents(from)? })
}

fn file(from: &mut Decoder<'_>) -> Option<FileId> {
    from.u64().map(FileId)
}

fn path(from: &mut Decoder<'_>) -> Option<FilePath> {
    FilePath::parse(from.text()?).ok()
}

fn lifetime(from: &mut Decoder<'_>) -> Option<Lifetime> {
    let byte = from.u8()?;
    Lifetime::ALL.into_iter().find(|known| *known as u8 == byte)
}

#[expect(clippy::option_option, reason = "outer: whether the record goes on; inner: whether the level is known")]
fn level(from: &mut Decoder<'_>) -> Option<Option<u8>> {
    from.u8().map(|byte| (byte != LEVEL_UNKNOWN).then_some(byte))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::Rule;

    fn path(text: &str) -> FilePath {
        FilePath::parse(text).expect("a good path")
    }

    fn work() -> Work {
        let levels = (0..=254).map(Some).chain([None]);
        let allocations = levels.map(|level| ((Rule::NearKeys, level), u64::MAX)).collect();
        let finishing_time = Duration::from_nanos(7);
        Work {
            copied_bytes: 1,
            finishing_time,
            resets_with_copy: 3,
            resets_without_copy: 4,
            allocations,
            ..Work::default()
        }
    }

    fn all() -> Vec<Change> {
        let extent = Extent { zone: ZoneId(3), generation: 9, block: 77, skip: 40, bytes: 5000, crc: Some(6) };
        let tags = FileTags::of(FileKind::Data).with_level(4);
        let file = FileId(12);
        vec![
            Change::MakeDirectory { path: path("/db") },
            Change::RemoveDirectory { path: path("/db") },
            Change::Create { file, tags, modified_seconds: 5, path: path("/db/1.sst") },
            Change::Link { file, path: path("/x") },
            Change::Unlink { path: path("/x") },
            Change::Rename { from: path("/x"), to: path("/y") },
            Change::Extend { file, size_before: 8, modified_seconds: 5, extents: vec![extent; EXTENTS_MAX] },
            Change::Seal { file, size: 9 },
            Change::Truncate { file, size: 9 },
            Change::Move { file, from: extent.place(), to: vec![extent] },
            Change::Retag { file, lifetime: Lifetime::Long, level: None },
            Change::NextFile { file },
            Change::Work { work: work() },
        ]
    }

    #[test]
    fn every_change_comes_back() {
        for change in all() {
            assert_eq!(Change::decode(&change.encode()), Some(change));
        }
    }

    #[test]
    fn work_of_more_levels_than_a_record_holds_is_cut() {
        let mut much = work();
        much.allocations.insert((Rule::Death, None), 1);
        assert_eq!(Change::decode(&Change::Work { work: much }.encode()), Some(Change::Work { work: work() }));
    }

    #[test]
    fn the_longest_record_fits_into_a_small_journal_chunk() {
        // Zones have at least 8 blocks; a chunk then takes 7 of them.
        assert!(all().iter().all(|change| change.encode().len() < 4096));
        let longest = path(&format!("/{}", ["x"; 2048].join("/")));
        let rename = Change::Rename { from: longest.clone(), to: longest };
        assert!(rename.encode().len() < 3 * 4096);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_change_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..15) {
            let _ = Change::decode(&bytes);
            let _ = Change::decode(&[&[kind], &bytes[..]].concat());
        }

        #[test]
        fn a_cut_record_is_none(which in 0_usize..13, cut in 0_usize..5000) {
            let record = all()[which].encode();
            if cut < record.len() {
                prop_assert_eq!(Change::decode(&record[..cut]), None);
            }
        }
    }
}
