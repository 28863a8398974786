//! Mounts a store for reading, beside whoever has it mounted for writing.
//!
//! The device is looked at one zone after the other, and the live store goes on meanwhile. What was seen makes sense if it can have
//! been like this at once:
//!
//! 1. Two looks at all zone headers, one after the other, show the same zones of the journal and of logs, by generation. So these
//!    were all there was between the two: none that was reset before is missed, and none was begun.
//! 2. Between the two the zones of meta files and the journal's are asked in turns how far they are written, until either have not grown
//!    from one
//!    answer to the next, or the journal since the look: what the others said in between is of the same moment. So no MANIFEST names a file
//!    that the journal does not know of yet,
//!    or has forgotten.
//! 3. Zones of logs alone are read as far as the second look shows them written, the others up to there. Logs name no files, but a MANIFEST
//!    counts on
//!    what was logged before: what is too new in a log is replayed twice, what it lacks is lost. Records are durable before zones are reset
//!    in which they bury something, so the journal knows of everything that is missing elsewhere.
//! 4. Each of these zones still has its generation afterwards, so that nothing else was read in its place.
//!
//! If not, it is looked at again; where a live store commits faster than it can be asked, after a while the first look stands for the
//! second point, and the report says so. Data zones do as they please: readers ask for their generation at every read.

use std::sync::Arc;

use zonda_space::{Recovered, RecoveredZone, Space, ZoneId, ZoneUse, ZonedDevice};

use super::lost::Beside;
use super::{Mount, MountReport, check_features};
use crate::catalogue::Catalogue;
use crate::commit::Committer;
use crate::ground::Ground;
use crate::lanes::Lanes;
use crate::names::Names;
use crate::options::{JOURNAL, LOG, META};
use crate::reader::check_on_device;
use crate::stop::Stop;
use crate::store::Core;
use crate::{FileError, FileStore, FileStoreOptions, Result};

/// How often the zones are looked at.
const LOOKS_MAX: u32 = 50;
/// After so many looks that did not show names and meta files of one moment, moments close together will do.
const LOOKS_FOR_ONE_MOMENT: u32 = 8;
/// How often journal and meta files are asked how far they are written, between two looks: those are to be close together.
const ASKED_MAX: u32 = 2;

/// Zones of the journal and of logs with their generations, and zones whose headers cannot be read.
type Moment = (Vec<(ZoneId, u64)>, Vec<ZoneId>);

/// What one look showed of the journal and of meta files.
struct Named {
    zones: Vec<RecoveredZone>,
    /// What else there was at that look: a store that is just being made has other zones as soon as it has names.
    beside: Beside,
    /// Whether journal and meta files are of moments close together, not of one.
    moments_differ: bool,
}

impl FileStore {
    /// Mounts the store for reading, beside whoever has it mounted for writing: what is durable at this moment, and nothing
    /// later. Nothing is written. Every read asks the device whether the zone still holds what it held; where the live store has
    /// cleaned it meanwhile, the read is `Stale` and the store must be mounted again.
    ///
    /// The device must be one that shows what another writes: opened with
    /// [`OpenMode::ReadBeside`](zonda_device::OpenMode::ReadBeside), or shared with the live store. Cost: reads the headers of
    /// all zones twice, and what a mount reads.
    ///
    /// # Errors
    /// As [`mount`](Self::mount); `Unsettled` if the live store changes faster than it can be read.
    pub fn mount_read_only(device: Arc<dyn ZonedDevice>, options: FileStoreOptions) -> Result<(Self, MountReport)> {
        options.check_on(device.geometry().zone_count)?;
        // What the look before showed; within, `None` if it showed no store.
        let mut before: Option<Option<Moment>> = None;
        // Journal and meta files as they were at one moment since then, or as that look showed them.
        let mut named: Option<Named> = None;
        // What there was when no list of the files was whole.
        let mut lost: Option<Option<Moment>> = None;
        for look in 0..LOOKS_MAX {
            let looked = Space::open(Arc::clone(&device), &options.space());
            let moment = looked.as_ref().ok().map(|(_, recovered)| moment(recovered));
            let is_settled = before.as_ref() == Some(&moment);
            before = Some(moment);
            let (space, recovered) = match looked {
                Ok(looked) => looked,
                Err(error) if is_settled => return Err(error.into()),
                Err(_) => continue,
            };
            let zones_unknown = u32::try_from(recovered.damaged.len()).unwrap_or(u32::MAX);
            let beside = Beside::of(&recovered);
            let zones = recovered.zones.into_iter().filter(is_read);
            let (logs, naming): (Vec<_>, Vec<_>) = zones.partition(is_of_logs_alone);
            match named.take().filter(|_| is_settled) {
                Some(Named { zones, beside, moments_differ }) => {
                    match Self::read_only_on(space, &[zones, logs].concat(), &beside, &options) {
                        Err(FileError::Stale { .. }) => {}
                        // The live store may be writing one just now: it is lost if that is still so where nothing else has changed.
                        Err(FileError::JournalLost { .. }) if lost != before => lost.clone_from(&before),
                        mounted => {
                            let said = |report| MountReport { moments_differ, zones_unknown, ..report };
                            return mounted.map(|(store, report)| (store, said(report)));
                        }
                    }
                }
                None if look < LOOKS_FOR_ONE_MOMENT => {
                    let seen = see_at_once(&space, naming)?;
                    named = seen.map(|zones| Named { zones, beside, moments_differ: false });
                }
                None => named = Some(Named { zones: naming, beside, moments_differ: true }),
            }
        }
        Err(FileError::Unsettled { looks: LOOKS_MAX })
    }

    fn read_only_on(
        space: Space,
        zones: &[RecoveredZone],
        beside: &Beside,
        options: &FileStoreOptions,
    ) -> Result<(Self, MountReport)> {
        check_features(&space, false)?;
        let ground = Ground::of_zones(space);
        let mut mount = Mount { ground: &ground, catalogue: Catalogue::default(), report: MountReport::default() };
        let read = mount.read(zones, beside, options.gives_up_offline);
        // First, as drives may fail reads of a zone that was reset.
        zones.iter().try_for_each(|zone| check_on_device(ground.space(), zone.zone, zone.generation))?;
        read?;
        mount.count_live();
        let (catalogue, report) = (mount.catalogue, mount.report);
        let lanes = Lanes::new(ground.space().clone(), false);
        let options = (options.clone(), None);
        let committer = Committer::new(None, lanes.journal_owed());
        let mut core = Core::new(ground, options, Names::new(catalogue), committer, lanes, Stop::read_only());
        core.found = report;
        core.trace_existing();
        Ok((Self { core: Arc::new(core) }, report))
    }
}

/// Zones of journal and meta files that a look showed, with what is written in them at one moment; `None` if both grow all the time.
fn see_at_once(space: &Space, zones: Vec<RecoveredZone>) -> Result<Option<Vec<RecoveredZone>>> {
    let (mut journal, mut meta): (Vec<_>, Vec<_>) = zones.into_iter().partition(|zone| zone.stream == JOURNAL);
    has_grown(space, &mut meta)?;
    for _ in 0..ASKED_MAX {
        if !has_grown(space, &mut journal)? || !has_grown(space, &mut meta)? {
            return Ok(Some([journal, meta].concat()));
        }
    }
    Ok(None)
}

/// Asks how far zones are written that are not full; returns whether any of them has grown since it was asked.
fn has_grown(space: &Space, zones: &mut [RecoveredZone]) -> Result<bool> {
    let mut has_grown = false;
    for zone in zones.iter_mut().filter(|zone| zone.state == ZoneUse::Partial) {
        let before = std::mem::replace(&mut zone.written_blocks, space.written_on_device(zone.zone)?);
        has_grown |= zone.written_blocks != before;
    }
    Ok(has_grown)
}

fn moment(recovered: &Recovered) -> Moment {
    let zones = recovered.zones.iter().filter(|zone| is_read(zone)).map(|zone| (zone.zone, zone.generation)).collect();
    let damaged = recovered.damaged.iter().map(|damaged| damaged.zone);
    (zones, damaged.chain(recovered.torn.iter().copied()).collect())
}

/// Whether a mount reads what is in the zone.
fn is_read(zone: &RecoveredZone) -> bool {
    zone.stream == JOURNAL || zone.holds.contains(LOG) || zone.holds.contains(META)
}

/// Whether nothing but logs is in the zone.
fn is_of_logs_alone(zone: &RecoveredZone) -> bool {
    zone.stream != JOURNAL && !zone.holds.contains(META)
}
