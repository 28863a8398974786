//! Makes and mounts a store.
//!
//! Life of a mount: 1 zone headers are read, and zones without one recognised -> 2 the journal gives names and extents; a record that does
//! not apply is counted and passed over, never a reason to refuse, but that there is none at all is -> 3 chunks behind the recorded bytes
//! of logs are collected; until here nothing is changed -> 4 live bytes are counted -> 5 partly written zones are taken up again, or
//! finished -> 6 the journal starts anew with a snapshot; only then are its old zones reset.

mod blocks;
mod lost;
mod read_only;
mod recognise;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use zonda_device::cut_label;
use zonda_space::{
    Journal, JournalEntry, JournalFound, NewStore, Recovered, RecoveredZone, Space, SpaceError, StoreId, ZoneId,
    ZoneUse, ZonedDevice, look_at_journal,
};

use self::lost::Beside;
use self::recognise::with_recognised;
use crate::catalogue::{Catalogue, extensions};
use crate::change::Change;
use crate::claim::{COMPACTION, zones_kept_from};
use crate::commit::Committer;
use crate::ground::Ground;
use crate::lanes::Lanes;
use crate::names::Names;
use crate::options::{FEATURE_BLOCKS, FEATURE_SUBZONES, JOURNAL, LOG, META};
use crate::policy::LizaZns;
use crate::stop::Stop;
use crate::store::Core;
use crate::walk::{Lost, chunks_in};
use crate::{Extent, FileError, FileId, FileKind, FileStore, FileStoreOptions, FileTags, Lifetime, Result};

/// What a mount found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountReport {
    /// Files.
    pub files: u64,
    /// Bytes of logs that were found by walking their zones.
    pub log_bytes_found: u64,
    /// Records of the journal that did not apply: damage.
    pub records_ignored: u64,
    /// Chunks of the journal behind a gap: the torn tail of a crash, or damage.
    pub chunks_ignored: u64,
    /// Of these, those that no crash leaves: damage.
    pub chunks_damaged: u64,
    /// Extents whose zone holds something else now: damage, or beside a live store what it has cleaned while it was mounted for
    /// reading. Their files cannot be opened.
    pub extents_lost: u64,
    /// The live store beside which this was mounted for reading never rested: meta files and logs are of a moment close to that of the
    /// names, not of the same. A MANIFEST may name a table that is not there.
    pub moments_differ: bool,
    /// Zones whose header cannot be read, where the store was mounted for reading: what is in them is missing here. A mount for writing
    /// recognises them by what is behind the header.
    pub zones_unknown: u32,
}

impl MountReport {
    /// What a user should know who mounted it for writing, if anything: one line.
    #[must_use]
    pub fn damage(&self) -> Option<&'static str> {
        let is_damaged = self.extents_lost > 0 || self.is_journal_damaged();
        is_damaged.then_some(
            "files have lost bytes or names, with their zones or in the journal; `zonda fs check` names the files",
        )
    }

    /// What a user should know of the names who mounted it for reading, if anything: one line. What else is damaged cannot be told from
    /// what a live store does meanwhile.
    #[must_use]
    pub fn journal_damage(&self) -> Option<&'static str> {
        self.is_journal_damaged().then_some(
            "the journal is damaged, and names or bytes that were recorded in it are missing; `zonda fs check` tells how much",
        )
    }

    fn is_journal_damaged(&self) -> bool {
        self.records_ignored > 0 || self.chunks_damaged > 0
    }

    /// What a user should know who mounted it for reading, if anything: one line.
    #[must_use]
    pub fn warning(&self) -> Option<&'static str> {
        if self.zones_unknown > 0 {
            return Some(
                "the device cannot read the headers of some zones, and what is in them is missing here; mount for writing to recover it",
            );
        }
        self.moments_differ.then_some(
            "the live store commits faster than it can be looked at: a MANIFEST may name a table that is not there; mount again for another moment",
        )
    }
}

impl FileStore {
    /// Makes an empty store on a device that holds nothing, or with `overwrite` on any, and mounts it.
    ///
    /// # Errors
    /// `BadOption`; `Space` if the device is not empty or does not suit.
    pub fn format(
        device: Arc<dyn ZonedDevice>,
        id: StoreId,
        overwrite: bool,
        options: FileStoreOptions,
    ) -> Result<Self> {
        options.check_on(device.geometry().zone_count)?;
        let subzones = Space::subzones_on(device.as_ref())?;
        let features = if subzones.is_some() { FEATURE_SUBZONES } else { 0 };
        let superblock = subzones.map(|subzones| subzones.to_le_bytes().to_vec()).unwrap_or_default();
        let new = NewStore { id, features, superblock, overwrite };
        let space = Space::format(device, new, &options.space())?;
        let ground = Ground::of_zones(space);
        Self::start(ground, options, Default::default(), JournalFound::default(), Vec::new())
    }

    /// Mounts the store on a device.
    ///
    /// # Errors
    /// `BadOption`; `Space` if there is no file store on the device, or a newer one, or two; `LogUnreadable` and `ZoneUnreadable` where the
    /// device has lost what may be the end of a log or of the journal, `JournalOffline` where a zone of it may be, `JournalLost` where all
    /// of the journal is. Nothing was changed.
    pub fn mount(device: Arc<dyn ZonedDevice>, options: FileStoreOptions) -> Result<(Self, MountReport)> {
        options.check_on(device.geometry().zone_count)?;
        let (space, recovered) = Space::open(device, &options.space())?;
        check_features(&space, false)?;
        Self::mount_on(Ground::of_zones(space), recovered, options)
    }

    fn mount_on(ground: Ground, recovered: Recovered, options: FileStoreOptions) -> Result<(Self, MountReport)> {
        let beside = Beside::of(&recovered);
        let zones = with_recognised(&ground, recovered)?;
        let mut mount = Mount { ground: &ground, catalogue: Catalogue::default(), report: MountReport::default() };
        let mut found = mount.read(&zones, &beside, options.gives_up_offline)?;
        found.settle(ground.space(), &zones)?;
        mount.count_live();
        let read = (mount.catalogue, mount.report);
        let report = mount.report;
        let partial = zones.into_iter().filter(|zone| zone.stream != JOURNAL).collect();
        let store = Self::start(ground, options, read, found, partial)?;
        Ok((store, report))
    }

    fn start(
        ground: Ground,
        options: FileStoreOptions,
        (catalogue, report): (Catalogue, MountReport),
        found: JournalFound,
        zones: Vec<RecoveredZone>,
    ) -> Result<Self> {
        let _label = cut_label("mount");
        let space = ground.space().clone();
        let (options, fallback) = with_subzones_or_without(options, &space);
        let splits = options.policy.split_percent_max().is_some();
        let lanes = Lanes::new(space.clone(), splits);
        let fallback = fallback.or((splits && !lanes.splits()).then_some(FEW_TOKENS));
        let kept = zones_kept_from(COMPACTION, options.flush_reserve_zones);
        take_up(&ground, &lanes, &catalogue, &zones, kept)?;
        let mut items = Vec::new();
        let Ok(()) = catalogue.snapshot(&mut |change| {
            items.push(change.encode());
            Ok::<(), std::convert::Infallible>(())
        });
        // What the snapshot names must not be lost after it.
        space.flush()?;
        let journal =
            Journal::start(&space, JOURNAL, found, &mut |writer| items.iter().try_for_each(|item| writer.put(item)))?;
        space.clear_damaged()?;
        let committer = Committer::new(Some(journal), lanes.journal_owed());
        let mut core = Core::new(ground, (options, fallback), Names::new(catalogue), committer, lanes, Stop::default());
        core.found = report;
        core.trace_existing();
        Ok(Self { core: Arc::new(core) })
    }
}

const NO_SUBZONES: &str = "the device does not split zones";
const FEW_TOKENS: &str = "a split zone and a wide one need two active zones for tables: no zone is split";

/// Whether the store is on zones alone, or on a conventional drive, as it is about to be mounted; and has its subzones.
fn check_features(space: &Space, on_blocks: bool) -> Result<()> {
    const ZONES: &str = "on zones";
    const BLOCKS: &str = "on a conventional drive";
    match (space.identity().features & FEATURE_BLOCKS != 0, on_blocks) {
        (true, false) => Err(FileError::OtherDevice { found: BLOCKS, asked: ZONES }),
        (false, true) => Err(FileError::OtherDevice { found: ZONES, asked: BLOCKS }),
        _ => check_subzones(space),
    }
}

/// A store that was made on a device that splits zones has extents that mean nothing without its subzones.
fn check_subzones(space: &Space) -> Result<()> {
    let identity = space.identity();
    if identity.features & FEATURE_SUBZONES == 0 {
        return Ok(());
    }
    let stored = identity.superblock.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    match space.subzones().unwrap_or(0) {
        actual if actual == stored => Ok(()),
        actual => {
            let (what, stored, actual) = ("a number of subzones in a zone of", stored.into(), actual.into());
            Err(SpaceError::GeometryChanged { what, stored, actual }.into())
        }
    }
}

/// A policy of subzones without them becomes one of lifetimes; and why.
fn with_subzones_or_without(options: FileStoreOptions, space: &Space) -> (FileStoreOptions, Option<&'static str>) {
    let wants = options.policy.split_percent_max().is_some();
    let has = space.subzones().is_some() && space.identity().features & FEATURE_SUBZONES != 0;
    if !wants || has {
        return (options, None);
    }
    (FileStoreOptions { policy: Arc::new(LizaZns), ..options }, Some(NO_SUBZONES))
}

/// A mount in progress.
struct Mount<'a> {
    ground: &'a Ground,
    catalogue: Catalogue,
    report: MountReport,
}

impl Mount<'_> {
    /// Reads journal and logs, and changes nothing.
    fn read(&mut self, zones: &[RecoveredZone], beside: &Beside, gives_up_offline: bool) -> Result<JournalFound> {
        let found = self.read_journal(zones)?;
        beside.refuse_lost_names(&found, zones)?;
        let mut lost = None;
        if !gives_up_offline {
            beside.refuse_lost_end(&found, zones)?;
            lost = beside.lost_of_logs(&found, &self.catalogue, self.ground.space());
        }
        self.collect_chunks(zones, lost)?;
        Ok(found)
    }

    fn read_journal(&mut self, zones: &[RecoveredZone]) -> Result<JournalFound> {
        let (catalogue, report) = (&mut self.catalogue, &mut self.report);
        let found = look_at_journal(self.ground.space(), JOURNAL, zones, &mut |entry| {
            let (JournalEntry::Item(record) | JournalEntry::Record(record)) = entry;
            let applied = Change::decode(record).is_some_and(|change| catalogue.apply(&change).is_ok());
            report.records_ignored += u64::from(!applied);
            Ok(())
        })?;
        (self.report.chunks_ignored, self.report.chunks_damaged) = (found.ignored_chunks, found.damaged_chunks);
        self.report.files = self.catalogue.files().count() as u64;
        Ok(found)
    }

    /// Adds the chunks of logs that continue what is recorded; of those for the same place in the file the one that was written last: the
    /// log goes on behind it, and not behind one whose write failed and reached the device all the same. What cannot be read does not
    /// matter to a log that goes on behind it. `lost` is known before.
    fn collect_chunks(&mut self, zones: &[RecoveredZone], mut lost: Option<Lost>) -> Result<()> {
        let mut found: HashMap<FileId, BTreeMap<u64, Extent>> = HashMap::new();
        for zone in zones.iter().filter(|zone| zone.holds.contains(LOG) || zone.holds.contains(META)) {
            let lost_here = chunks_in(self.ground.space(), zone, &mut |header, extent| {
                let last = found.entry(header.file).or_default().entry(header.offset).or_insert(extent);
                if order_of(&extent) > order_of(last) {
                    *last = extent;
                }
            })?;
            lost = lost_here.into_iter().chain(lost).max_by_key(Lost::place);
        }
        // A file may have been lost with the power and its chunks not: its number must not be given to another.
        let newest = found.keys().max().copied();
        newest.map_or(Ok(()), |file| {
            self.catalogue.apply(&Change::NextFile { file: FileId(file.0.saturating_add(1)) }).map(|_| ())
        })?;
        let open: Vec<(FileId, u64, u64)> = self
            .catalogue
            .files()
            .filter(|(_, inode)| inode.chunks_count)
            .map(|(file, inode)| (file, inode.extents.bytes(), inode.modified_seconds))
            .collect();
        for (file, size, modified_seconds) in open {
            let extents = run_from(size, found.get(&file));
            let bytes = extents.iter().map(|extent| extent.bytes).sum::<u64>();
            refuse_lost(file, size + bytes, found.get(&file), &mut lost)?;
            self.report.log_bytes_found += bytes;
            self.add_chunks(file, size, modified_seconds, extents)?;
        }
        Ok(())
    }

    /// A log of an earlier life ends here; what is appended to it is recorded.
    fn add_chunks(&mut self, file: FileId, size: u64, modified_seconds: u64, extents: Vec<Extent>) -> Result<()> {
        let end = size + extents.iter().map(|extent| extent.bytes).sum::<u64>();
        for change in extensions(file, size, modified_seconds, extents) {
            self.catalogue.apply(&change)?;
        }
        self.catalogue.apply(&Change::Seal { file, size: end }).map(|_| ())
    }

    fn count_live(&mut self) {
        for (_, inode) in self.catalogue.files() {
            for extent in inode.extents.iter() {
                if !self.ground.revive(extent) {
                    self.report.extents_lost += 1;
                    self.ground.space().keep_generation(extent.generation);
                }
            }
        }
    }
}

/// Refuses a log that ends at `end` and of which a chunk may have been lost: there are chunks behind a gap, or none behind what cannot be
/// read. Chunks of a file lie in the order in which they were written.
fn refuse_lost(file: FileId, end: u64, chunks: Option<&BTreeMap<u64, Extent>>, lost: &mut Option<Lost>) -> Result<()> {
    let last = chunks.and_then(|chunks| chunks.range(..end).map(|(_, extent)| order_of(extent)).max());
    let has_gap = chunks.is_some_and(|chunks| chunks.range(end..).next().is_some());
    match lost.take_if(|lost| has_gap || last < Some(lost.place())) {
        Some(Lost { zone, block, cause, .. }) => {
            Err(FileError::LogUnreadable { file: file.0, zone: zone.0, block, cause })
        }
        None => Ok(()),
    }
}

/// The order in which chunks of a file were written.
fn order_of(extent: &Extent) -> (u64, u64) {
    (extent.generation, extent.block)
}

/// The chunks that continue a file of `size` without a gap.
fn run_from(mut size: u64, chunks: Option<&BTreeMap<u64, Extent>>) -> Vec<Extent> {
    let mut run = Vec::new();
    while let Some(extent) = chunks.and_then(|chunks| chunks.get(&size)) {
        run.push(*extent);
        size += extent.bytes;
    }
    run
}

/// Goes on in the partly written zones of an earlier life; finishes those that no lane has a token for.
/// Subzones are finished whatever is in them: who wrote a table does not go on. Then split zones hold no tokens.
fn take_up(
    ground: &Ground,
    lanes: &Lanes,
    catalogue: &Catalogue,
    zones: &[RecoveredZone],
    kept_from_compactions: u32,
) -> Result<()> {
    let space = ground.space();
    let (subzones, zones): (Vec<&RecoveredZone>, _) = zones.iter().partition(|zone| space.is_subzone(zone.zone));
    for zone in subzones.iter().filter(|zone| zone.state == ZoneUse::Partial) {
        space.seal_recovered(zone.zone)?;
    }
    for view in space.split_view().iter().filter(|view| view.is_active && view.written == 0) {
        match space.finish_split(view.zone) {
            // It keeps its token.
            Ok(()) | Err(SpaceError::Device(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    take_up_wide(ground, lanes, catalogue, &zones, kept_from_compactions)
}

fn take_up_wide(
    ground: &Ground,
    lanes: &Lanes,
    catalogue: &Catalogue,
    zones: &[&RecoveredZone],
    kept_from_compactions: u32,
) -> Result<()> {
    let space = ground.space();
    for zone in zones.iter().filter(|zone| zone.state == ZoneUse::Partial) {
        // Stores of earlier versions have meta files in zones in front; nothing is added to these.
        let is_of_no_lane = ground.blocks().is_some() && zone.stream != LOG;
        if space.live_bytes(zone.zone) == 0 || is_of_no_lane {
            space.seal_recovered(zone.zone)?;
            continue;
        }
        let writer = match space.adopt_for_writing(zone.zone) {
            Ok(writer) => writer,
            Err(SpaceError::Device(_)) => {
                seal_if_partial(space, zone.zone)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let first = first_in(catalogue, zone);
        let had_compaction = files_in(catalogue, zone).any(|(.., tags)| tags.kind == FileKind::Data);
        let kept = if had_compaction { 0 } else { kept_from_compactions };
        if let Some(refused) = lanes.adopt(writer, (first.0, &first.1), kept) {
            space.seal(refused);
        }
    }
    Ok(())
}

/// Finishes a zone that the device does not open, unless that has shown that it is lost.
fn seal_if_partial(space: &Space, zone: ZoneId) -> Result<()> {
    if space.mark_bad(zone)? == ZoneUse::Partial {
        space.seal_recovered(zone)?;
    }
    Ok(())
}

/// The first file in a zone that is still there, and its tags: policies see the zone as before. If the first of all is gone they see it
/// as that of the next one: only the journal knows of files, and forgets those that are gone.
fn first_in(catalogue: &Catalogue, zone: &RecoveredZone) -> (FileId, FileTags) {
    let first = files_in(catalogue, zone).min_by_key(|(block, ..)| *block);
    let unknown = (FileId(0), FileTags { kind: FileKind::Data, lifetime: Lifetime::NotSet, level: None });
    first.map_or(unknown, |(_, file, tags)| (file, tags))
}

/// The files in a zone, each with its first block there, and their tags.
fn files_in<'a>(
    catalogue: &'a Catalogue,
    zone: &'a RecoveredZone,
) -> impl Iterator<Item = (u64, FileId, FileTags)> + use<'a> {
    catalogue.files().filter_map(move |(file, inode)| {
        let is_here = |extent: &&Extent| extent.zone == zone.zone && extent.generation == zone.generation;
        let first = inode.extents.iter().filter(is_here).map(|extent| extent.block).min();
        first.map(|block| (block, file, inode.tags))
    })
}
