//! Creating and opening a zoned store: checks first, then the zone manager, then the zones of earlier lives.

use std::sync::Arc;

use zonda_device::{Geometry, Queues, ZonedDevice};
use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use zonda_space::{Budget, Identity, NewStore, RecoveredZone, Space, SpaceError, SpaceOptions, StreamId, ZoneUse};

use crate::ahead::AheadBudget;
use crate::areas::HOLE_BLOCKS_MAX;
use crate::counters::Counters;
use crate::failed::FailedZones;
use crate::flusher::Flusher;
use crate::frame::Framing;
use crate::gate::Gate;
use crate::hope::Hope;
use crate::in_place::cache::PageCache;
use crate::log_device::{FEATURE_LOG_ELSEWHERE, LogPlace};
use crate::pool::BufferPool;
use crate::records::Records;
use crate::reserve::{self, Demand, Reserve};
use crate::sequencer::Press;
use crate::stream::{self, Claim, Stream};
use crate::walk::Walk;
use crate::wanted::Wanted;
use crate::zone_table::{Holds, ZoneTable};
use crate::{AreaKind, BLOCK_BYTES, FLUSHERS_ANY, PAGE_BLOCKS_MAX, PageError, StoreOptions};

/// The client name in zone headers.
const CLIENT: [u8; 8] = *b"tree\0\0\0\0";
/// The fewest active zones: log, two for the MetaLog, data.
const ACTIVE_ZONES_MIN: u32 = 4;
/// Zones of a device per hot writer: a small device does not spend its zones on writers.
const ZONES_PER_HOT_WRITER: u32 = 16;

/// Makes a store on an empty device.
pub(crate) fn create(
    device: Arc<dyn ZonedDevice>,
    log: LogPlace,
    options: &StoreOptions,
) -> Result<Flusher, PageError> {
    check_zones(device.geometry(), log, &|_| options.clone())?;
    let (space_options, reserve) = plan(device.geometry(), log, options)?;
    let space = Space::format(device, new_store(log, options), &space_options)?;
    Ok(build(space, reserve, options))
}

/// Whether [`create`] would make a store; writes nothing.
pub(crate) fn check_create(device: &dyn ZonedDevice, log: LogPlace, options: &StoreOptions) -> Result<(), PageError> {
    check_zones(device.geometry(), log, &|_| options.clone())?;
    let (space_options, _) = plan(device.geometry(), log, options)?;
    Ok(Space::check_format(device, &new_store(log, options), &space_options)?)
}

/// See [`ZonedStore::check_zones`](crate::ZonedStore::check_zones).
pub(crate) fn check_zones(
    geometry: &Geometry,
    log: LogPlace,
    options_of: &dyn Fn(u64) -> StoreOptions,
) -> Result<(), PageError> {
    reserve::check_zones(geometry.zone_count, |zone_count| {
        let geometry = Geometry { zone_count, ..geometry.clone() };
        plan(&geometry, log, &options_of(geometry.capacity_bytes())).map(|_| ())
    })
}

fn new_store(log: LogPlace, options: &StoreOptions) -> NewStore {
    NewStore {
        id: options.store_id,
        features: options.features | log.features(),
        superblock: options.superblock.clone(),
        overwrite: options.overwrite,
    }
}

/// Opens a store; returns it with the client's superblock bytes.
pub(crate) fn open(
    device: Arc<dyn ZonedDevice>,
    log: LogPlace,
    options: &StoreOptions,
) -> Result<(Flusher, Vec<u8>), PageError> {
    let (space_options, reserve) = plan(device.geometry(), log, options)?;
    let (space, recovered) = Space::open(device, &space_options)?;
    let identity = recovered.identity.clone();
    log.check(identity.features)?;
    let flusher = build(space, reserve, options);
    flusher.recover(&flusher.with_recognised(recovered)?)?;
    flusher.note_space();
    Ok((flusher, identity.superblock))
}

/// Refuses a device of another kind of client: a log, for example.
pub(crate) fn check_client(identity: &Identity) -> Result<(), PageError> {
    let name = |client: &[u8; 8]| String::from_utf8_lossy(client).trim_end_matches('\0').to_string();
    if identity.client == CLIENT {
        return Ok(());
    }
    Err(SpaceError::OtherClient { found: name(&identity.client), expected: name(&CLIENT) }.into())
}

/// What the zone manager is told, and the reserve; everything is checked before anything is written.
fn plan(geometry: &Geometry, log: LogPlace, options: &StoreOptions) -> Result<(SpaceOptions, Reserve), PageError> {
    check("group_pages", options.group_pages, 1, PAGE_BLOCKS_MAX)?;
    check("sequencer_groups_max", options.sequencer_groups_max, 1, 1024)?;
    check("hot_writers_max", options.hot_writers_max, 1, FLUSHERS_ANY.into())?;
    let hot_zones_max = options.hot_writers_max.min(geometry.zone_count / ZONES_PER_HOT_WRITER).max(1);
    let mut streams = stream::specs(hot_zones_max);
    streams.retain(|spec| spec.id != stream::LOG || log == LogPlace::Here);
    let limits = [geometry.max_open, geometry.max_active, options.active_limit];
    let active_max = limits.into_iter().flatten().min().unwrap_or(u32::MAX);
    if active_max < ACTIVE_ZONES_MIN {
        return Err(SpaceError::TooFewActive { active_max, needed: ACTIVE_ZONES_MIN }.into());
    }
    let budget = Budget::plan(active_max, &streams)?;
    let data = budget.shares().iter().filter(|share| !stream::holds(share.streams).only_records());
    let reserve = Reserve::plan(&Demand {
        zones: geometry.zone_count,
        zone_bytes: zone_bytes(geometry),
        open_data_zones: data.map(|share| share.zones).sum(),
        log_limit_bytes: options.log_limit_bytes,
        log_is_here: log == LogPlace::Here,
        extra_zones: options.extra_reserve_zones,
    })?;
    // The floors for each claim are kept here, not by the zone manager.
    let reserve_zones = 0;
    let (known_features, active_limit) = (options.features | FEATURE_LOG_ELSEWHERE, options.active_limit);
    Ok((SpaceOptions { client: CLIENT, streams, known_features, reserve_zones, active_limit }, reserve))
}

/// Bytes that a zone holds behind its header.
pub(crate) fn zone_bytes(geometry: &Geometry) -> u64 {
    let bytes = geometry.zone_capacity_blocks * u64::from(geometry.block_bytes);
    bytes.saturating_sub(BLOCK_BYTES as u64).max(BLOCK_BYTES as u64)
}

fn check(option: &'static str, value: u32, min: u64, max: u64) -> Result<(), PageError> {
    if (min..=max).contains(&u64::from(value)) {
        return Ok(());
    }
    let rule = match option {
        "group_pages" => "1 to 64 blocks can be written together",
        "hot_writers_max" => "1 to 64 zones can be filled at a time",
        _ => "1 to 1,024 groups can wait",
    };
    Err(SpaceError::BadOption { option, value: value.into(), rule }.into())
}

pub(crate) fn build(space: Space, reserve: Reserve, options: &StoreOptions) -> Flusher {
    let geometry = space.device().geometry();
    let zone_size_blocks = space.first_block(zonda_device::ZoneId(1));
    let press = Press {
        framing: Framing::new(space.identity().store.0),
        pool: BufferPool::new(),
        group_blocks: options.group_pages.into(),
        groups_max: options.sequencer_groups_max as usize,
    };
    let flusher = Flusher {
        zones: ZoneTable::new(geometry.zone_count, zone_size_blocks),
        streams: space.shares().iter().map(Stream::new).collect(),
        cache: PageCache::new(options.cache_policy, options.read_cache_bytes),
        cache_threshold_reads: options.cache_threshold_reads,
        counters: Counters::default(),
        failed: FailedZones::default(),
        queues: Queues::default(),
        ahead: AheadBudget::new(options.read_ahead_bytes),
        gate: Gate::default(),
        opening: Mutex::new(()),
        noting: Mutex::new(()),
        spare_zones: AtomicU32::new(0),
        released_zones: AtomicU32::new(0),
        resetting: Mutex::new(()),
        capacity_bytes: AtomicU64::new(0),
        garbage_percent_max: options.garbage_percent_max,
        garbage_is_unwanted: AtomicU32::new(0),
        sealed_zones: AtomicU32::new(0),
        estimated_zones: AtomicU32::new(0),
        hope: Hope::new(),
        must_look: AtomicBool::new(false),
        wanted: Wanted::default(),
        last_resort: AtomicBool::new(false),
        reclaimer: AtomicU64::new(0),
        press,
        records: Records::new(reserve.thresholds),
        reserve,
        space,
    };
    flusher.note_space();
    flusher
}

impl Flusher {
    /// Takes over the zones of an earlier life, oldest first. Partly written zones of log and values are never appended to again; those of
    /// pages are continued where their stream still has one to fill, and so is the newest of the MetaLog (decision 0053). All others are
    /// finished before: of those the device may have as many open as it takes (I2).
    pub(crate) fn recover(&self, zones: &[RecoveredZone]) -> Result<(), PageError> {
        let newest_of_meta = zones.iter().rfind(|zone| stream::holds(zone.holds) == Holds::area(AreaKind::Meta));
        let mut going_on: Vec<&RecoveredZone> = Vec::new();
        for zone in zones {
            self.check_stream(zone)?;
            self.note_recovered(zone);
            let stream = self.stream(zone.stream);
            let may_go_on = stream::holds(zone.holds) == Holds::PAGES
                || newest_of_meta == Some(zone) && self.would_be_found_behind(zone)?;
            let others = going_on.iter().filter(|other| self.stream(other.stream).id == stream.id).count();
            match zone.state {
                ZoneUse::Partial if may_go_on && stream.streams == zone.holds && others < stream.zones_max => {
                    going_on.push(zone);
                }
                ZoneUse::Partial => {
                    let _label = zonda_device::cut_label("finish");
                    self.space.seal_recovered(zone.zone)?;
                }
                _ => {}
            }
        }
        for zone in going_on {
            match self.space.adopt_for_writing(zone.zone) {
                Ok(writer) => self.adopt_writer(self.stream(zone.stream), writer, Claim::Foreground),
                // Nothing that is in it is lost for that; unless nobody writes to it any more it is finished.
                Err(SpaceError::Device(_)) => match self.space.seal_recovered(zone.zone) {
                    Ok(()) | Err(SpaceError::WrongState { .. }) => {}
                    Err(error) => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A header names any stream; not every one has zones on this device.
    fn check_stream(&self, zone: &RecoveredZone) -> Result<(), PageError> {
        let StreamId(number) = zone.stream;
        if self.streams.iter().any(|shared| shared.streams.contains(zone.stream)) {
            return Ok(());
        }
        let (what, block) = ("zone header", self.space.first_block(zone.zone));
        Err(PageError::Damaged { what, block, why: format!("stream {number} has no zones on this device") })
    }

    fn note_recovered(&self, recovered: &RecoveredZone) {
        let zone = self.zones.of(recovered.zone);
        zone.begin(recovered.generation, stream::holds(recovered.holds));
        zone.set_found(recovered.written_blocks.saturating_sub(1) * BLOCK_BYTES as u64);
        if recovered.written_blocks <= 1 {
            zone.release_segment();
        }
    }

    /// Whether a chunk that is appended to a zone would be found: whoever reads a segment gives up behind a hole of so many blocks. A cut
    /// may leave one, where the drive kept its write pointer and not what was written last. Cost: nothing in short zones, else at most 4
    /// MiB read.
    fn would_be_found_behind(&self, zone: &RecoveredZone) -> Result<bool, PageError> {
        if zone.written_blocks <= HOLE_BLOCKS_MAX {
            return Ok(true);
        }
        let end = self.space.first_block(zone.zone) + zone.written_blocks;
        let mut walk = Walk::new(zone.generation, end + 1 - HOLE_BLOCKS_MAX, end);
        while let Some(step) = walk.look(self.eyes(), |bytes| self.counters.read(bytes))? {
            if step.frame.is_ok() {
                return Ok(true);
            }
            walk.advance(1);
        }
        Ok(false)
    }

    /// Counts what recovery found live. Value bytes are estimated as everything else that is written in zones with values.
    pub(crate) fn adopt(&self, live: &mut dyn Iterator<Item = crate::PageAddress>) {
        for at in live {
            if let Some((zone, _)) = self.zones.of_page(at) {
                self.space.add_live(zone, at.len_bytes());
                self.counters.add_live_pages(at.len_bytes());
            }
        }
        for view in self.space.view() {
            self.estimate_values(&view);
        }
    }

    fn estimate_values(&self, view: &zonda_space::ZoneView) {
        let zone = self.zones.of(view.zone);
        let bytes = zone.found_bytes().saturating_sub(view.live_bytes);
        if zone.generation() == 0 || zone.is_open() || !zone.holds().any_of(Holds::area(AreaKind::Values)) || bytes == 0
        {
            return;
        }
        zone.add_values(bytes);
        self.space.add_live(view.zone, bytes);
        self.counters.add_live_values(bytes);
        if !zone.set_estimated(true) {
            self.estimated_zones.fetch_add(1, Ordering::Relaxed);
        }
    }
}
