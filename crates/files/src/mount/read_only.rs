//! Mounts a store for reading, beside whoever has it mounted for writing.
//!
//! The device is looked at one zone after the other, and the live store goes on meanwhile. What was seen makes sense if it can have
//! been like this at once:
//!
//! 1. Two looks at all zone headers, one after the other, show the same zones of the journal and of logs, by generation. So these
//!    were all there was between the two, when the second asked how far each is written: none that was reset before is missed.
//! 2. The journal and the logs are read up to there. Records are durable before zones are reset in which they bury something, so
//!    the journal knows of everything that is missing elsewhere.
//! 3. Each of these zones still has its generation afterwards, so that nothing else was read in its place.
//!
//! If not, it is looked at again. Data zones do as they please: readers ask for their generation at every read.

use std::sync::Arc;

use zonda_space::{Recovered, RecoveredZone, Space, ZoneId, ZonedDevice, look_at_journal};

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

/// Zones of the journal and of logs with their generations, and zones whose headers cannot be read.
type Moment = (Vec<(ZoneId, u64)>, Vec<ZoneId>);

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
        options.check()?;
        // What the look before showed; within, `None` if it showed no store.
        let mut before: Option<Option<Moment>> = None;
        for _ in 0..LOOKS_MAX {
            let looked = Space::open(Arc::clone(&device), &options.space());
            let moment = looked.as_ref().ok().map(|(_, recovered)| moment(recovered));
            let is_settled = before.as_ref() == Some(&moment);
            before = Some(moment);
            if !is_settled {
                continue;
            }
            let (space, recovered) = looked?;
            match Self::read_only_on(space, &recovered.zones, &options) {
                Err(FileError::Stale { .. }) => {}
                mounted => return mounted,
            }
        }
        Err(FileError::Unsettled { looks: LOOKS_MAX })
    }

    fn read_only_on(space: Space, zones: &[RecoveredZone], options: &FileStoreOptions) -> Result<(Self, MountReport)> {
        check_features(&space, false)?;
        let ground = Ground::of_zones(space);
        let mut mount = Mount { ground: &ground, catalogue: Catalogue::default(), report: MountReport::default() };
        let read = mount.read_journal(zones, look_at_journal).and_then(|_| mount.collect_chunks(zones));
        // First, as drives may fail reads of a zone that was reset.
        zones
            .iter()
            .filter(|zone| is_read(zone))
            .try_for_each(|zone| check_on_device(ground.space(), zone.zone, zone.generation))?;
        read?;
        mount.count_live();
        let (catalogue, report) = (mount.catalogue, mount.report);
        let lanes = Lanes::new(ground.space().clone(), false);
        let options = (options.clone(), None);
        let core = Core::new(ground, options, Names::new(catalogue), Committer::new(None), lanes, Stop::read_only());
        Ok((Self { core: Arc::new(core) }, report))
    }
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
