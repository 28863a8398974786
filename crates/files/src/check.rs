//! Checks a mounted store: every extent is where it says, once, with its checksum.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use zonda_space::{AlignedBuf, BLOCK_BYTES};

use crate::catalogue::{Catalogue, Entry};
use crate::error::is_lost;
use crate::reader::check_on_device;
use crate::store::Core;
use crate::{Extent, FileError, FileId, FilePath, FileStore, Result, ZoneId};

/// Blocks that one read brings.
const READ_BLOCKS: u64 = 256;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// An extent in a zone that holds something else by now.
    WrongGeneration {
        /// The file.
        file: FileId,
        /// The extent.
        extent: Extent,
        /// The generation of the zone.
        found: Option<u64>,
    },
    /// An extent that ends behind its zone, or begins before it.
    OutsideZone {
        /// The file.
        file: FileId,
        /// The extent.
        extent: Extent,
    },
    /// Two extents with a block in common.
    Overlap {
        /// One file.
        file: FileId,
        /// The other.
        other: FileId,
        /// The first block in common.
        block: u64,
    },
    /// An extent that does not have its checksum.
    Damaged {
        /// The file.
        file: FileId,
        /// The extent.
        extent: Extent,
    },
    /// An extent of which the device has lost a block, or the header of its zone.
    Unreadable {
        /// The file.
        file: FileId,
        /// The extent.
        extent: Extent,
    },
    /// A journal of which something is missing that was recorded, as the mount found: names or bytes of files that nobody knows of. It is
    /// begun anew by a mount for writing, and what was there is then what is recorded.
    Journal {
        /// Records that do not apply.
        records: u64,
        /// Chunks of records that were dropped, behind one that is missing.
        chunks: u64,
    },
    /// A zone whose live bytes are not those of its extents.
    LiveBytes {
        /// The zone.
        zone: ZoneId,
        /// Counted by the zone manager.
        counted: u64,
        /// In extents.
        expected: u64,
    },
}

/// Files by their names, of which a file with hard links has several. One that has none is not there.
pub type FileNames = BTreeMap<FileId, Vec<FilePath>>;

impl Finding {
    /// The files that it is about.
    #[must_use]
    pub fn files(&self) -> Vec<FileId> {
        match self {
            Self::WrongGeneration { file, .. }
            | Self::OutsideZone { file, .. }
            | Self::Damaged { file, .. }
            | Self::Unreadable { file, .. } => vec![*file],
            Self::Overlap { file, other, .. } => vec![*file, *other],
            Self::Journal { .. } | Self::LiveBytes { .. } => Vec::new(),
        }
    }

    /// What is wrong, in one line: of files with their names, where they have any.
    #[must_use]
    pub fn told(&self, names: &FileNames) -> String {
        let name = |file: &FileId| name_of(*file, names);
        match self {
            Self::WrongGeneration { file, extent: Extent { zone, generation, .. }, found } => {
                format!("{}: an extent in {zone} of generation {generation}, which has {found:?}", name(file))
            }
            Self::OutsideZone { file, extent: Extent { zone, block, .. } } => {
                format!("{}: blocks {block} and on are not within {zone}", name(file))
            }
            Self::Overlap { file, other, block } => format!("{} and {} share block {block}", name(file), name(other)),
            Self::Damaged { file, extent: Extent { zone, block, .. } } => {
                format!("{}: no valid checksum in {zone}, block {block}", name(file))
            }
            Self::Unreadable { file, extent: Extent { zone, block, .. } } => {
                format!("{}: what is in {zone}, block {block} and on, cannot be read", name(file))
            }
            Self::Journal { records, chunks } => format!(
                "the journal is damaged: {records} records in it do not apply, {chunks} chunks were dropped behind one that is missing"
            ),
            Self::LiveBytes { zone, counted, expected } => {
                format!("{zone}: {counted} bytes counted as live, extents have {expected}")
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(&FileNames::new()))
    }
}

fn name_of(file: FileId, names: &FileNames) -> String {
    match names.get(&file).map(Vec::as_slice) {
        None | Some([]) => format!("file {}", file.0),
        Some([name]) => name.to_string(),
        Some([name, links @ ..]) => {
            let links: Vec<&str> = links.iter().map(FilePath::as_str).collect();
            format!("{name} (also {})", links.join(", "))
        }
    }
}

/// What a check looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Files.
    pub files: u64,
    /// Extents.
    pub extents: u64,
    /// Bytes read and compared with their checksums.
    pub bytes_read: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Names of the files that findings are about; none where the check was of one file, by its name.
    pub names: FileNames,
    /// Of a store that is mounted for reading: extents whose zone holds something else by now. Either the live store has deleted or
    /// moved them since the mount, or they are damaged: [`settle_stale`](FileStore::settle_stale) tells.
    pub stale: Vec<(FileId, Extent)>,
}

impl CheckReport {
    /// What the device has lost is a finding.
    ///
    /// # Errors
    /// Any other error: the bytes may be read another time.
    fn add_unreadable(&mut self, (file, extent): (FileId, Extent), error: FileError) -> Result<()> {
        match error {
            FileError::Space(error) if is_lost(&error) => self.findings.push(Finding::Unreadable { file, extent }),
            error => return Err(error),
        }
        Ok(())
    }

    /// Learns the names of files in findings that it does not know. Cost: one pass over all names.
    fn learn_names(&mut self, catalogue: &Catalogue) {
        let files = self.findings.iter().flat_map(Finding::files).filter(|file| !self.names.contains_key(file));
        let unnamed: BTreeSet<FileId> = files.collect();
        for (path, entry) in catalogue.names() {
            if let Entry::File(file) = entry
                && unnamed.contains(&file)
            {
                self.names.entry(file).or_default().push(path.clone());
            }
        }
    }
}

impl FileStore {
    /// Checks everything that is recorded, and whether all that was still is, while nobody writes: live bytes that come or go meanwhile
    /// would be taken for wrong. Files may be open: what of them is in no record counts. A store that is mounted for reading is checked as
    /// it was then, and what is gone since is `stale`, not a finding.
    ///
    /// # Errors
    /// `Space` if something cannot be read for now. What the device has lost is a finding.
    pub fn check(&self) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        report.findings.extend(self.core.journal_finding());
        let mut extents = self.core.recorded_extents(&mut report);
        self.core.set_aside_stale(&mut extents, &mut report)?;
        extents.sort_by_key(|(_, extent)| extent.block);
        self.core.check_places(&extents, &mut report);
        // What was lost with its zone shares nothing with what is there now.
        extents.retain(|(_, extent)| self.core.ground.is_there(extent));
        find_overlaps(&extents, &mut report);
        self.core.check_live(&extents, &mut report);
        for (file, extent) in &extents {
            self.core.check_bytes(*file, extent, &mut report)?;
        }
        report.learn_names(&self.core.names.lock().catalogue);
        Ok(report)
    }
}

impl FileStore {
    /// Checks the recorded bytes of one file.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`; `Space` as [`check`](Self::check).
    pub fn check_file(&self, path: &FilePath) -> Result<CheckReport> {
        let file = self.info(path)?.file;
        let extents = self.extents(path)?;
        let mut report = CheckReport { files: 1, extents: extents.len() as u64, ..CheckReport::default() };
        let mut extents: Vec<(FileId, Extent)> = extents.into_iter().map(|extent| (file, extent)).collect();
        self.core.set_aside_stale(&mut extents, &mut report)?;
        for (file, extent) in &extents {
            let found = self.core.ground.generation_of(extent.zone);
            if found != Some(extent.generation) {
                report.findings.push(Finding::WrongGeneration { file: *file, extent: *extent, found });
            }
            self.core.check_bytes(*file, extent, &mut report)?;
        }
        Ok(report)
    }

    /// Tells damage from what a live store did, in the report of a check of an earlier mount; this one must have begun after that
    /// check. Bytes are recorded as moved or deleted before their zone is reset: what this mount still names was lost, and becomes a
    /// finding. The rest stays in `stale`.
    pub fn settle_stale(&self, report: &mut CheckReport) {
        let names = self.core.names.lock();
        for (file, extent) in std::mem::take(&mut report.stale) {
            if names.catalogue.has_extent(file, extent.place()) {
                let found = self.core.ground.generation_of(extent.zone);
                report.findings.push(Finding::WrongGeneration { file, extent, found });
            } else {
                report.stale.push((file, extent));
            }
        }
        report.learn_names(&names.catalogue);
    }
}

impl Core {
    /// What is wrong with the journal that the mount has read.
    fn journal_finding(&self) -> Option<Finding> {
        let (records, chunks) = (self.found.records_ignored, self.found.chunks_damaged);
        (records > 0 || chunks > 0).then_some(Finding::Journal { records, chunks })
    }

    fn recorded_extents(&self, report: &mut CheckReport) -> Vec<(FileId, Extent)> {
        let names = self.names.lock();
        report.files = names.catalogue.files().count() as u64;
        let of = |(file, inode): (FileId, &crate::catalogue::Inode)| {
            inode.extents.iter().map(|extent| (file, *extent)).collect::<Vec<_>>()
        };
        let extents: Vec<(FileId, Extent)> = names.catalogue.files().flat_map(of).collect();
        report.extents = extents.len() as u64;
        extents
    }

    /// In a store that is mounted for reading, takes out the extents that are not there any more, and those of zones that the live
    /// store opened while they were looked at: of these only the bytes can be checked.
    fn set_aside_stale(&self, extents: &mut Vec<(FileId, Extent)>, report: &mut CheckReport) -> Result<()> {
        if !self.stop.is_read_only() {
            return Ok(());
        }
        let is_known = |(_, extent): &(FileId, Extent)| self.ground.is_there(extent);
        let (known, others): (Vec<_>, Vec<_>) = std::mem::take(extents).into_iter().partition(is_known);
        *extents = known;
        for (file, extent) in others {
            match self.is_stale(&extent) {
                Ok(true) => report.stale.push((file, extent)),
                Ok(false) => self.check_bytes(file, &extent, report)?,
                Err(error) => report.add_unreadable((file, extent), error)?,
            }
        }
        Ok(())
    }

    /// Whether the store is mounted for reading and the zone holds something else by now.
    fn is_stale(&self, extent: &Extent) -> Result<bool> {
        if !self.stop.is_read_only() {
            return Ok(false);
        }
        match check_on_device(self.space(), extent.zone, extent.generation) {
            Err(FileError::Stale { .. }) => Ok(true),
            checked => checked.map(|()| false),
        }
    }

    fn check_places(&self, extents: &[(FileId, Extent)], report: &mut CheckReport) {
        for &(file, extent) in extents {
            let found = self.ground.generation_of(extent.zone);
            if found != Some(extent.generation) {
                report.findings.push(Finding::WrongGeneration { file, extent, found });
            }
            if !self.is_inside(&extent) {
                report.findings.push(Finding::OutsideZone { file, extent });
            }
        }
    }

    /// Whether an extent is within its zone, behind its header, or within its group.
    fn is_inside(&self, extent: &Extent) -> bool {
        if self.ground.group(extent.zone).is_some() {
            return self.ground.run_of(extent).is_some();
        }
        let first = self.space().first_block(extent.zone);
        extent.block > first && extent.block + extent.blocks() <= first + self.space().blocks_of(extent.zone)
    }

    fn check_live(&self, recorded: &[(FileId, Extent)], report: &mut CheckReport) {
        let open = {
            let names = self.names.lock();
            [names.open_files(), names.nameless_files()].concat()
        };
        let unrecorded: Vec<Extent> = open.iter().flat_map(|file| file.live_unrecorded()).collect();
        let unrecorded = unrecorded.iter().filter(|extent| self.ground.is_there(extent));
        let extents: Vec<&Extent> = recorded.iter().map(|(_, extent)| extent).chain(unrecorded).collect();
        let subzones = self.space().subzone_view();
        for view in
            self.space().view().iter().chain(&subzones).filter(|view| view.stream.is_some_and(|stream| stream.0 != 0))
        {
            let here = extents.iter().filter(|extent| extent.zone == view.zone);
            let expected = here.map(|extent| extent.device_bytes()).sum::<u64>();
            if expected != view.live_bytes {
                report.findings.push(Finding::LiveBytes { zone: view.zone, counted: view.live_bytes, expected });
            }
        }
        self.check_groups(&extents, report);
    }

    fn check_groups(&self, extents: &[&Extent], report: &mut CheckReport) {
        let Some(blocks) = self.ground.blocks() else { return };
        let mut expected: BTreeMap<ZoneId, u64> = BTreeMap::new();
        for extent in extents.iter().filter(|extent| self.ground.group(extent.zone).is_some()) {
            *expected.entry(extent.zone).or_default() += extent.device_bytes();
        }
        for group in 0..blocks.groups() {
            let zone = self.ground.zone_of_group(group);
            let (counted, expected) = (self.live_bytes(zone), expected.get(&zone).copied().unwrap_or(0));
            if counted != expected {
                report.findings.push(Finding::LiveBytes { zone, counted, expected });
            }
        }
    }

    /// Compares an extent with its checksum, or finds it stale.
    fn check_bytes(&self, file: FileId, extent: &Extent, report: &mut CheckReport) -> Result<()> {
        if !self.stop.is_read_only() && !self.ground.is_there(extent) {
            return Ok(());
        }
        let Some(crc) = extent.crc else { return Ok(()) };
        let found = self.checksum_of(extent, report);
        // First, as drives may fail reads of a zone that was reset.
        match self.is_stale(extent).and_then(|is_stale| if is_stale { Ok(None) } else { found.map(Some) }) {
            Ok(None) => report.stale.push((file, *extent)),
            Ok(Some(found)) if found != crc => report.findings.push(Finding::Damaged { file, extent: *extent }),
            Ok(Some(_)) => {}
            Err(error) => report.add_unreadable((file, *extent), error)?,
        }
        Ok(())
    }

    fn checksum_of(&self, extent: &Extent, report: &mut CheckReport) -> Result<u32> {
        let (mut seen, mut skip, mut left) = (0, extent.skip as usize, extent.bytes);
        for first in (0..extent.blocks()).step_by(usize::try_from(READ_BLOCKS).expect("256")) {
            let blocks = (extent.blocks() - first).min(READ_BLOCKS);
            let mut bytes = AlignedBuf::with_len(usize::try_from(blocks).expect("at most 256") * BLOCK_BYTES);
            self.ground.read(extent.block + first, &mut bytes)?;
            let data = &bytes[std::mem::take(&mut skip)..];
            let data = &data[..data.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            seen = crc32c::crc32c_append(seen, data);
            left -= data.len() as u64;
            report.bytes_read += data.len() as u64;
        }
        Ok(seen)
    }
}

/// Extents, in the order of their blocks, that begin within an earlier one: each with that which reaches farthest.
fn find_overlaps(extents: &[(FileId, Extent)], report: &mut CheckReport) {
    let mut farthest: Option<(FileId, u64)> = None;
    for &(other, extent) in extents {
        if let Some((file, _)) = farthest.filter(|&(_, end)| end > extent.block) {
            report.findings.push(Finding::Overlap { file, other, block: extent.block });
        }
        let end = extent.block + extent.blocks();
        if farthest.is_none_or(|(_, before)| end > before) {
            farthest = Some((other, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_lie_within_a_long_extent_overlap_it() {
        let at = |file, block, blocks| {
            let bytes = blocks * BLOCK_BYTES as u64;
            let extent = Extent { zone: ZoneId(0), generation: 1, block, skip: 0, bytes, crc: None };
            (FileId(file), extent)
        };
        let mut report = CheckReport::default();
        find_overlaps(&[at(1, 0, 100), at(2, 10, 10), at(3, 30, 10), at(4, 100, 5), at(5, 104, 1)], &mut report);
        let found = |file, other, block| Finding::Overlap { file: FileId(file), other: FileId(other), block };
        assert_eq!(report.findings, [found(1, 2, 10), found(1, 3, 30), found(4, 5, 104)]);
    }

    #[test]
    fn files_are_told_by_all_their_names_and_else_by_number() {
        let path = |text: &str| FilePath::parse(text).expect("a good path");
        let names = FileNames::from([(FileId(1), vec![path("/a")]), (FileId(2), vec![path("/b"), path("/c")])]);
        let overlap = |file, other| Finding::Overlap { file: FileId(file), other: FileId(other), block: 9 };
        assert_eq!(overlap(1, 2).told(&names), "/a and /b (also /c) share block 9");
        assert_eq!(overlap(1, 3).told(&names), "/a and file 3 share block 9");
        assert_eq!(overlap(1, 2).to_string(), "file 1 and file 2 share block 9");
    }
}
