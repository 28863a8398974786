//! Zones and files of a replay.

use std::collections::HashMap;

use zonda_space::{Budget, StreamId, ZoneId, ZoneUse, ZoneView};

use super::ReplayOptions;
use super::split::SplitZones;
use crate::lsm::TableHint;
use crate::options::{DATA, JOURNAL, LOG, META, RELOCATED, stream_of};
use crate::policy::OpenZoneView;
use crate::{FileId, FileStoreOptions, FileTags, Lifetime, Result};

/// A zone.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) written: u64,
    pub(super) live: u64,
    /// The lane that fills it; none if it is empty or done.
    pub(super) lane: Option<usize>,
    first: FileId,
    lifetime: Lifetime,
    level: Option<u8>,
    opened: u64,
    pub(super) writers: u32,
    /// Bytes written in all when something in it last died, or when it was opened.
    died_at: u64,
    /// It is split: its subzones have numbers of their own.
    pub(super) is_split: bool,
}

impl Zone {
    const EMPTY: Self = Self {
        written: 0,
        live: 0,
        lane: None,
        first: FileId(0),
        lifetime: Lifetime::NotSet,
        level: None,
        opened: 0,
        writers: 0,
        died_at: 0,
        is_split: false,
    };
}

/// A share of the active zones.
#[derive(Clone, Debug)]
struct Lane {
    streams: Vec<StreamId>,
    zones_max: u32,
    open: Vec<usize>,
}

/// A file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) tags: FileTags,
    pub(super) hint: Option<TableHint>,
    /// Bytes that are in no zone yet.
    pub(super) waiting: u64,
    /// Bytes of these that count in the budget of tables that wait for their keys.
    pub(super) held: u64,
    /// Its zones and bytes in them, in order.
    pub(super) pieces: Vec<(usize, u64)>,
    /// The zone that it is being written to.
    pub(super) lease: Option<usize>,
    pub(super) is_open: bool,
    pub(super) is_placed_early: bool,
}

impl File {
    pub(super) fn new(tags: FileTags) -> Self {
        Self {
            tags,
            hint: None,
            waiting: 0,
            held: 0,
            pieces: Vec::new(),
            lease: None,
            is_open: true,
            is_placed_early: false,
        }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, bytes)| bytes).sum::<u64>().saturating_add(self.waiting)
    }

    /// Its zones, each once.
    pub(super) fn zones(&self) -> Vec<ZoneId> {
        let mut zones: Vec<ZoneId> = self.pieces.iter().map(|(zone, _)| zone_id(*zone)).collect();
        zones.sort_unstable();
        zones.dedup();
        zones
    }
}

/// The device.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) zones: Vec<Zone>,
    pub(super) files: HashMap<FileId, File>,
    pub(super) split: SplitZones,
    /// Whether the policy uses subzones, and there is a token for split zones and one for wide ones.
    pub(super) splits: bool,
    lanes: Vec<Lane>,
    pub(super) capacity: u64,
    opened: u64,
    /// Bytes written to zones in all: its clock.
    pub(super) written: u64,
    live: u64,
}

impl Model {
    /// # Errors
    /// `Space` if there are fewer active zones than lanes need.
    pub(super) fn new(options: &ReplayOptions) -> Result<Self> {
        let lanes = lanes(options)?;
        let has_two = lanes.iter().any(|lane| lane.streams.contains(&DATA) && lane.zones_max > 1);
        let zones = options.zones as usize;
        Ok(Self {
            zones: vec![Zone::EMPTY; zones],
            files: HashMap::new(),
            split: SplitZones::new(zones, options.subzones, options.zone_bytes),
            splits: has_two && options.policy.split_percent_max().is_some(),
            lanes,
            capacity: options.zone_bytes,
            opened: 0,
            written: 0,
            live: 0,
        })
    }

    /// Open zones that only moved bytes go to: what cleaning holds of its reserve.
    pub(super) fn moved_zones(&self) -> u32 {
        let of_moved = self.lanes.iter().filter(|lane| lane.streams == [RELOCATED]);
        of_moved.map(|lane| u32::try_from(lane.open.len()).expect("at most 2^20 zones")).sum()
    }

    /// Whether an open zone waits for tables or for moved bytes; those of logs and meta files soon die by themselves.
    pub(super) fn waits_for_tables(&self, at: usize) -> bool {
        let of_tables = |lane: usize| self.lanes[lane].streams.iter().any(|stream| [DATA, RELOCATED].contains(stream));
        self.zones[at].lane.is_some_and(of_tables)
    }

    /// Zones with nothing in them.
    pub(super) fn empty_zones(&self) -> u32 {
        let empty = self.zones.iter().filter(|zone| is_empty(zone)).count();
        u32::try_from(empty).expect("at most 2^20 zones")
    }

    /// Bytes that can be written without cleaning: empty zones, and what is left of those that wait for tables.
    pub(super) fn free_bytes(&self) -> u64 {
        let waiting = self.lanes.iter().filter(|lane| lane.streams.contains(&DATA)).flat_map(|lane| &lane.open);
        let left: u64 = waiting.map(|at| self.capacity - self.zones[*at].written).sum();
        u64::from(self.empty_zones()) * self.capacity + left
    }

    /// The lane of new bytes, or of moved ones.
    pub(super) fn lane_of(&self, tags: &FileTags, is_moved: bool) -> usize {
        let stream = if is_moved { RELOCATED } else { stream_of(tags.kind) };
        let lane = self.lanes.iter().position(|lane| lane.streams.contains(&stream));
        lane.expect("the budget was made of all streams")
    }

    /// Open zones of a lane with room.
    pub(super) fn views(&self, lane: usize) -> Vec<OpenZoneView> {
        let view = |at: &usize| {
            let zone = &self.zones[*at];
            OpenZoneView {
                zone: zone_id(*at),
                first: zone.first,
                lifetime: zone.lifetime,
                level: zone.level,
                remaining_bytes: self.capacity - zone.written,
                writers: zone.writers,
                opened: zone.opened,
            }
        };
        self.lanes[lane].open.iter().map(view).collect()
    }

    /// Whether the lane may have another zone.
    pub(super) fn has_token(&self, lane: usize) -> bool {
        let it = &self.lanes[lane];
        let of_split = if self.splits && it.streams.contains(&DATA) { self.split.active().max(1) } else { 0 };
        it.open.len() < (it.zones_max as usize).saturating_sub(of_split)
    }

    /// Whether the lane of tables may have another split zone: one token is left for wide ones.
    pub(super) fn has_split_token(&self, lane: usize) -> bool {
        let (it, active) = (&self.lanes[lane], self.split.active());
        let all = it.zones_max as usize;
        it.open.len() + active < all && active + 1 < all
    }

    /// Takes the token of a split zone that idles for a wide one of the lane, which has none; returns whether there was one.
    pub(super) fn take_split_token(&mut self, lane: usize) -> bool {
        self.splits && self.lanes[lane].streams.contains(&DATA) && self.split.take_token()
    }

    /// Splits an empty zone and returns it, if there is one.
    pub(super) fn split_empty(&mut self) -> Option<usize> {
        let at = self.zones.iter().position(is_empty)?;
        self.zones[at].is_split = true;
        self.split.split(at);
        Some(at)
    }

    /// What is left of a subzone stays empty; other zones stay open.
    pub(super) fn close_subzone(&mut self, at: usize) {
        if self.split.is_subzone(at) {
            self.split.close(at);
            self.note_joined();
        }
    }

    /// Whether a zone, or subzone, takes nothing more.
    pub(super) fn is_done(&self, at: usize) -> bool {
        if self.split.is_subzone(at) { self.split.is_full(at) } else { self.zones[at].lane.is_none() }
    }

    fn note_joined(&mut self) {
        let zones = self.zones.iter_mut().enumerate().filter(|(_, zone)| zone.is_split);
        zones.for_each(|(at, zone)| zone.is_split = self.split.is_split(at));
    }

    /// Opens an empty zone for a file, if there is one.
    pub(super) fn open(&mut self, lane: usize, file: FileId, tags: &FileTags) -> Option<usize> {
        let at = self.zones.iter().position(is_empty)?;
        let (opened, lifetime, level) = (self.opened, tags.lifetime, tags.level);
        self.opened += 1;
        let died_at = self.written;
        self.zones[at] = Zone { lane: Some(lane), first: file, lifetime, level, opened, died_at, ..Zone::EMPTY };
        self.lanes[lane].open.push(at);
        Some(at)
    }

    /// A zone is full or finished; returns the bytes that stay unwritten.
    pub(super) fn finish(&mut self, at: usize) -> u64 {
        if let Some(lane) = self.zones[at].lane.take() {
            self.lanes[lane].open.retain(|open| *open != at);
        }
        let unwritten = self.capacity - self.zones[at].written;
        self.zones[at].written = self.capacity;
        unwritten
    }

    /// Writes to a zone what fits; returns how much.
    pub(super) fn write(&mut self, at: usize, file: FileId, bytes: u64) -> u64 {
        let (bytes, is_full) = if self.split.is_subzone(at) {
            (self.split.write(at, bytes), false)
        } else {
            let zone = &mut self.zones[at];
            let bytes = bytes.min(self.capacity - zone.written);
            zone.written += bytes;
            zone.live += bytes;
            (bytes, zone.written == self.capacity)
        };
        self.written += bytes;
        self.live += bytes;
        if let Some(file) = self.files.get_mut(&file) {
            match file.pieces.last_mut() {
                Some((zone, last)) if *zone == at => *last += bytes,
                _ => file.pieces.push((at, bytes)),
            }
        }
        if is_full {
            self.finish(at);
        }
        bytes
    }

    /// Bytes of a zone die.
    pub(super) fn kill(&mut self, at: usize, bytes: u64) {
        self.live -= bytes;
        if self.split.is_subzone(at) {
            self.split.kill(at, bytes);
            return self.note_joined();
        }
        let written = self.written;
        let zone = &mut self.zones[at];
        zone.live -= bytes;
        zone.died_at = written;
    }

    /// Empties a zone in which nothing is live.
    pub(super) fn reset(&mut self, at: usize) {
        assert!(self.zones[at].live == 0, "I3 zone {at} is to be reset with {} live bytes", self.zones[at].live);
        self.finish(at);
        self.zones[at] = Zone::EMPTY;
    }

    /// Live bytes of all zones. Cost: none, as it is asked for at every write.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// A zone as victim choice sees it.
    pub(super) fn victim_view(&self, at: usize) -> ZoneView {
        let zone = &self.zones[at];
        ZoneView {
            zone: zone_id(at),
            state: if zone.lane.is_none() { ZoneUse::Sealed } else { ZoneUse::Open },
            stream: Some(DATA),
            holds: zonda_space::StreamSet::of(DATA),
            generation: zone.opened,
            written_bytes: zone.written,
            capacity_bytes: self.capacity,
            live_bytes: zone.live,
            age_blocks: (self.written - zone.died_at) / 4096,
            relocating: false,
        }
    }
}

pub(super) fn is_empty(zone: &Zone) -> bool {
    zone.written == 0 && zone.lane.is_none() && !zone.is_split
}

pub(super) fn zone_id(at: usize) -> ZoneId {
    ZoneId(u32::try_from(at).expect("at most 2^20 zones"))
}

/// Open zones that moved bytes are in at most, where there is no limit of active zones: one for each lifetime that tables have. More
/// would let policies that like empty zones take the reserve while they are to refill it.
const MOVED_ZONES_MAX: u32 = 4;

/// The lanes that a file store has with so many active zones; without a limit, logs and meta files have one zone each and new
/// tables what their policy wants.
fn lanes(options: &ReplayOptions) -> Result<Vec<Lane>> {
    let streams = FileStoreOptions::default().space().streams;
    let Some(active_max) = options.active_max else {
        let lane = |stream, zones_max| Lane { streams: vec![stream], zones_max, open: Vec::new() };
        return Ok(vec![lane(LOG, 1), lane(META, 1), lane(DATA, options.zones), lane(RELOCATED, MOVED_ZONES_MAX)]);
    };
    let budget = Budget::plan(active_max, &streams)?;
    let shares = budget.shares().iter().filter(|share| !share.streams.contains(JOURNAL));
    let lane = |share: &zonda_space::Share| Lane {
        streams: share.streams.iter().collect(),
        zones_max: share.zones,
        open: Vec::new(),
    };
    Ok(shares.map(lane).collect())
}
