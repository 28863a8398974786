//! Streams: which zones a kind of data fills, and the sequencers of those that are open.
//!
//! Which streams share zones at how many active zones is the table of `zonda_space`'s budget. Log and MetaLog always have
//! zones of their own, filled one at a time; the data streams may share, and foreground pages may fill several at a time.

use std::sync::Arc;

use zonda_rt::RwLock;
use zonda_rt::atomic::{AtomicU8, Ordering};
use zonda_space::{Share, StreamId, StreamSet, StreamSpec};

use crate::sequencer::Sequencer;
use crate::zone_table::Holds;
use crate::{AreaKind, Heat};

/// Numbers of the streams: in zone headers, never renumber.
pub(crate) const LOG: StreamId = StreamId(0);
/// MetaLog.
pub(crate) const META: StreamId = StreamId(1);
/// Pages of foreground merges.
pub(crate) const HOT: StreamId = StreamId(2);
/// Large values.
pub(crate) const VALUES: StreamId = StreamId(3);
/// Pages of ordered loads.
pub(crate) const COLD: StreamId = StreamId(4);
/// Pages that reclaim moved.
pub(crate) const RELOCATED: StreamId = StreamId(5);

/// What the zone manager is told of the streams.
pub(crate) fn specs(hot_zones_max: u32) -> Vec<StreamSpec> {
    vec![
        StreamSpec::new(LOG, "log", 0).alone(),
        StreamSpec::new(META, "meta", 1).zones(2, 2).alone(),
        StreamSpec::new(HOT, "hot", 2).zones(1, hot_zones_max.max(1)),
        // A second zone for those that reclaim moves, where pages may have two as well.
        StreamSpec::new(VALUES, "values", 4).zones(1, hot_zones_max.clamp(1, 2)),
        StreamSpec::new(COLD, "cold", 5),
        StreamSpec::new(RELOCATED, "relocated", 6),
    ]
}

/// The stream of pages with this heat.
pub(crate) fn of_heat(heat: Heat) -> StreamId {
    match heat {
        Heat::Hot => HOT,
        Heat::Cold => COLD,
        Heat::Relocated => RELOCATED,
    }
}

/// The stream of an area.
pub(crate) fn of_area(kind: AreaKind) -> StreamId {
    match kind {
        AreaKind::Log => LOG,
        AreaKind::Meta => META,
        AreaKind::Values => VALUES,
    }
}

/// What a zone of these streams may hold.
pub(crate) fn holds(streams: StreamSet) -> Holds {
    streams.iter().fold(Holds::NOTHING, |holds, stream| {
        holds.and(match stream {
            LOG => Holds::area(AreaKind::Log),
            META => Holds::area(AreaKind::Meta),
            VALUES => Holds::area(AreaKind::Values),
            _ => Holds::PAGES,
        })
    })
}

/// The name of a stream in reports.
pub(crate) fn name(stream: StreamId) -> &'static str {
    match stream {
        LOG => "log",
        META => "meta",
        HOT => "hot",
        VALUES => "values",
        COLD => "cold",
        RELOCATED => "relocated",
        _ => "unknown",
    }
}

/// For whom a zone is wanted: decides how far down the free zones may go (see `reserve`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Claim {
    /// User data.
    Foreground = 1,
    /// Leaves that are merged for what that gives back, while user data waits.
    Gain = 2,
    /// Live data of a victim.
    Relocation = 3,
    /// Pages of a zone that failed under a write: until they have a place nothing is committed, and no zone comes back.
    Rescue = 4,
    /// Log and MetaLog.
    Record = 5,
}

impl Claim {
    /// The claim of whoever places a page of this heat. Whatever reclaim places is live data of a victim.
    pub(crate) fn of(heat: Heat, is_reclaimer: bool) -> Self {
        match (is_reclaimer, heat) {
            (true, _) => Self::Relocation,
            (false, Heat::Relocated) => Self::Gain,
            (false, Heat::Hot | Heat::Cold) => Self::Foreground,
        }
    }
}

/// Streams that share zones, with their open zones.
///
/// Always: at most `zones_max` sequencers (I2).
pub(crate) struct Stream {
    /// The stream after which the zones are named.
    pub(crate) id: StreamId,
    pub(crate) streams: StreamSet,
    pub(crate) zones_max: usize,
    sequencers: RwLock<Vec<Arc<Sequencer>>>,
    /// The strongest claim of those that found no room; 0 = none.
    wanted: AtomicU8,
    /// Shared by those that seal a zone, which has a token still and is no sequencer any more.
    sealing: RwLock<()>,
}

impl Stream {
    pub(crate) fn new(share: &Share) -> Self {
        let one_at_a_time = holds(share.streams).only_records();
        Self {
            id: share.stream,
            streams: share.streams,
            zones_max: if one_at_a_time { 1 } else { share.zones as usize },
            sequencers: RwLock::new(Vec::new()),
            wanted: AtomicU8::new(0),
            sealing: RwLock::new(()),
        }
    }

    /// Seals one of its zones with `seal`.
    pub(crate) fn seal(&self, sequencer: &Arc<Sequencer>, seal: impl FnOnce()) {
        let _sealing = self.sealing.read();
        self.remove(sequencer);
        seal();
    }

    /// Waits for those that seal zones: their tokens are free then.
    pub(crate) fn wait_for_sealing(&self) {
        drop(self.sealing.write());
    }

    /// Whether values that reclaim moved may have a zone of their own: they are cold, and new ones are not yet.
    pub(crate) fn separates_values(&self) -> bool {
        self.zones_max > 1 && holds(self.streams) == Holds::area(AreaKind::Values)
    }

    /// Whether log or MetaLog is written here.
    pub(crate) fn is_record(&self) -> bool {
        holds(self.streams).only_records()
    }

    /// The power-cut harness counts its hits while a zone is opened under this name.
    pub(crate) fn opening_label(&self) -> &'static str {
        if holds(self.streams).any_of(Holds::area(AreaKind::Meta)) { "journal switch" } else { "open" }
    }

    /// The sequencers of the open zones.
    pub(crate) fn sequencers(&self) -> Vec<Arc<Sequencer>> {
        self.sequencers.read().clone()
    }

    /// Offers something to the sequencers in turn, beginning with the one of this thread, until one `takes` it. Allocates
    /// nothing.
    pub(crate) fn offer<T>(&self, mut takes: impl FnMut(&Arc<Sequencer>) -> Option<T>) -> Option<T> {
        let sequencers = self.sequencers.read();
        let first = zonda_rt::thread_ordinal().checked_rem(sequencers.len()).unwrap_or(0);
        let (before, from) = sequencers.split_at(first);
        from.iter().chain(before).find_map(&mut takes)
    }

    /// Whether a group is complete or a zone can be sealed. Allocates nothing.
    pub(crate) fn has_work(&self) -> bool {
        self.sequencers.read().iter().any(|sequencer| sequencer.has_work())
    }

    /// Whether another zone may be opened.
    pub(crate) fn may_open(&self) -> bool {
        self.sequencers.read().len() < self.zones_max
    }

    /// Whether a write is in flight: then one zone more lets two threads write at a time.
    pub(crate) fn is_writing(&self) -> bool {
        self.sequencers.read().iter().any(|sequencer| sequencer.try_writer().is_none())
    }

    pub(crate) fn add(&self, sequencer: Arc<Sequencer>) {
        self.sequencers.write().push(sequencer);
    }

    pub(crate) fn remove(&self, sequencer: &Arc<Sequencer>) {
        self.sequencers.write().retain(|other| !Arc::ptr_eq(other, sequencer));
    }

    /// Closes the sequencer with the least room if that is less than `blocks`, so that another zone can be opened.
    pub(crate) fn close_one_shorter_than(&self, blocks: u64) {
        let sequencers = self.sequencers.read();
        let fullest = sequencers.iter().min_by_key(|sequencer| sequencer.room_blocks());
        if let Some(fullest) = fullest.filter(|fullest| fullest.room_blocks() < blocks) {
            fullest.close();
        }
    }

    /// Remembers that somebody found no room.
    pub(crate) fn want(&self, claim: Claim) {
        self.wanted.fetch_max(claim as u8, Ordering::AcqRel);
    }

    /// The strongest claim since the last zone was opened.
    pub(crate) fn wanted(&self) -> Option<Claim> {
        match self.wanted.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Claim::Foreground),
            2 => Some(Claim::Gain),
            3 => Some(Claim::Relocation),
            4 => Some(Claim::Rescue),
            _ => Some(Claim::Record),
        }
    }

    pub(crate) fn satisfied(&self) {
        self.wanted.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use zonda_space::Budget;

    use super::*;
    use crate::FLUSHERS_ANY;

    /// Zones of each stream, and the stream after which its zones are named.
    fn row(active_max: u32) -> [(u32, StreamId); 6] {
        let budget = Budget::plan(active_max, &specs(2)).unwrap();
        [LOG, META, HOT, VALUES, COLD, RELOCATED].map(|stream| {
            let share = budget.share_of(stream).unwrap();
            (share.zones, share.stream)
        })
    }

    #[test]
    fn the_zone_budget_table_of_the_architecture_is_true() {
        let records = [(1, LOG), (2, META)];
        let with = |data: [(u32, StreamId); 4]| [&records[..], &data].concat();
        assert_eq!(row(14).to_vec(), with([(2, HOT), (2, VALUES), (1, COLD), (1, RELOCATED)]));
        assert_eq!(row(9), row(14));
        assert_eq!(row(8).to_vec(), with([(2, HOT), (1, VALUES), (1, COLD), (1, RELOCATED)]));
        assert_eq!(row(6).map(|(_, name)| name), [LOG, META, HOT, VALUES, COLD, COLD]);
        assert_eq!(row(4).map(|(_, name)| name), [LOG, META, HOT, HOT, HOT, HOT]);
        let any = |active| Budget::plan(active, &specs(FLUSHERS_ANY)).unwrap();
        let hot = |active| any(active).share_of(HOT).unwrap().zones;
        assert_eq!([14, 8, 6, 4].map(hot), [7, 2, 1, 1], "as many flushers as the limits allow");
        assert_eq!([14, 8, 6, 4].map(|active| any(active).zones()), [14, 8, 6, 4], "I2");
        assert_eq!(hot(u32::MAX), FLUSHERS_ANY, "a device without limits");
        let totals = [6, 4].map(|active| Budget::plan(active, &specs(2)).unwrap().zones());
        assert_eq!(totals, [6, 4]);
    }
}
