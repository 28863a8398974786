//! What the page store knows of each zone while it runs: identity, open sequencer, segments, live values.

use std::sync::Arc;

use zonda_device::ZoneId;
use zonda_rt::RwLock;
use zonda_rt::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::sequencer::Sequencer;
use crate::{AreaKind, PageAddress};

/// What frames a zone may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holds(u8);

impl Holds {
    pub(crate) const PAGES: Self = Self(1);
    pub(crate) const NOTHING: Self = Self(0);

    pub(crate) fn area(kind: AreaKind) -> Self {
        Self(match kind {
            AreaKind::Log => 2,
            AreaKind::Meta => 4,
            AreaKind::Values => 8,
        })
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn any_of(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether pages or values are there.
    pub(crate) fn any_data(self) -> bool {
        self.any_of(Self::PAGES.and(Self::area(AreaKind::Values)))
    }

    /// Whether the zone holds nothing but log or MetaLog, which nobody reads but recovery.
    pub(crate) fn only_records(self) -> bool {
        let records = Self::area(AreaKind::Log).and(Self::area(AreaKind::Meta));
        self.any_of(records) && self.0 & !records.0 == 0
    }
}

/// One zone.
///
/// Life: 1 free (generation 0) -> 2 open (has a sequencer) -> 3 sealed -> 4 condemned (nothing live, waits for its reset) -> 1.
#[derive(Default)]
pub(crate) struct Zone {
    generation: AtomicU64,
    holds: AtomicU8,
    /// A segment of log or MetaLog that is not released.
    kept: AtomicBool,
    condemned: AtomicBool,
    /// The value bytes are an estimate: the zone is of an earlier life and was not walked yet.
    estimated: AtomicBool,
    value_bytes: AtomicU64,
    /// What recovery found written behind the header; 0 in a zone of this life. Sealing makes a zone count as written to its end.
    found_bytes: AtomicU64,
    open: AtomicBool,
    sequencer: RwLock<Option<Arc<Sequencer>>>,
}

impl Zone {
    /// Number of the zone's allocation; 0 when it holds nothing of this store.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn holds(&self) -> Holds {
        Holds(self.holds.load(Ordering::Acquire))
    }

    /// Generation and content of a sealed zone of pages or values that is not condemned. All of it is of one allocation: another thread
    /// may reset a zone of log or MetaLog meanwhile and open it again for pages.
    pub(crate) fn sealed_data(&self) -> Option<(u64, Holds)> {
        let generation = self.generation();
        let is_sealed = generation != 0 && !self.is_open() && !self.is_kept() && !self.is_condemned();
        let holds = self.holds();
        (is_sealed && holds.any_data() && self.generation() == generation).then_some((generation, holds))
    }

    /// Whether an unreleased segment of log or MetaLog lies here.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    pub(crate) fn is_condemned(&self) -> bool {
        self.condemned.load(Ordering::Acquire)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn is_estimated(&self) -> bool {
        self.estimated.load(Ordering::Relaxed)
    }

    pub(crate) fn set_estimated(&self, estimated: bool) -> bool {
        self.estimated.swap(estimated, Ordering::Relaxed)
    }

    /// Enters an allocation. The zone has no generation while the rest changes, so that nobody takes the old one's for the new one's
    /// ([`sealed_data`](Self::sealed_data)).
    pub(crate) fn begin(&self, generation: u64, holds: Holds) {
        let records = Holds::area(AreaKind::Log).and(Holds::area(AreaKind::Meta));
        self.generation.store(0, Ordering::Release);
        self.holds.store(holds.0, Ordering::Release);
        self.kept.store(holds.any_of(records), Ordering::Release);
        self.condemned.store(false, Ordering::Release);
        self.value_bytes.store(0, Ordering::Relaxed);
        self.found_bytes.store(0, Ordering::Relaxed);
        self.estimated.store(false, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Release);
    }

    /// Recovery found so much here.
    pub(crate) fn set_found(&self, bytes: u64) {
        self.found_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn found_bytes(&self) -> u64 {
        self.found_bytes.load(Ordering::Relaxed)
    }

    /// Nothing here counts any more, and nothing is counted any more.
    pub(crate) fn condemn(&self) {
        self.condemned.store(true, Ordering::Release);
    }

    /// The zone is free.
    pub(crate) fn clear(&self) {
        self.begin(0, Holds::NOTHING);
    }

    /// The segment of log or MetaLog here is dead.
    pub(crate) fn release_segment(&self) {
        self.kept.store(false, Ordering::Release);
    }

    /// The sequencer that writes here, or whose unwritten pages were here when the zone failed. One load when there is none.
    pub(crate) fn sequencer(&self) -> Option<Arc<Sequencer>> {
        if self.is_open() { self.sequencer.read().clone() } else { None }
    }

    pub(crate) fn attach(&self, sequencer: &Arc<Sequencer>) {
        *self.sequencer.write() = Some(Arc::clone(sequencer));
        self.open.store(true, Ordering::Release);
    }

    pub(crate) fn detach(&self) {
        self.open.store(false, Ordering::Release);
        let detached = self.sequencer.write().take();
        drop(detached);
    }

    pub(crate) fn add_values(&self, bytes: u64) {
        self.value_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes away value bytes, at most to zero, and returns how many.
    pub(crate) fn sub_values(&self, bytes: u64) -> u64 {
        let less = |live: u64| Some(live.saturating_sub(bytes));
        let before = self.value_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.map_or(0, |live| live.min(bytes))
    }

    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_bytes.load(Ordering::Relaxed)
    }
}

/// All zones, by number.
pub(crate) struct ZoneTable {
    zones: Box<[Zone]>,
    zone_size_blocks: u64,
}

impl ZoneTable {
    pub(crate) fn new(zones: u32, zone_size_blocks: u64) -> Self {
        Self { zones: (0..zones).map(|_| Zone::default()).collect(), zone_size_blocks }
    }

    /// The zone with a number.
    pub(crate) fn of(&self, zone: ZoneId) -> &Zone {
        &self.zones[zone.0 as usize]
    }

    /// The zone of a block; `None` behind the last.
    pub(crate) fn at(&self, block: u64) -> Option<(ZoneId, &Zone)> {
        let number = u32::try_from(block / self.zone_size_blocks).ok()?;
        Some((ZoneId(number), self.zones.get(number as usize)?))
    }

    /// The zone of a page; `None` if the address is none of this store.
    pub(crate) fn of_page(&self, at: PageAddress) -> Option<(ZoneId, &Zone)> {
        let (zone, end) = (self.at(at.block())?, at.block() + at.blocks() - 1);
        (end / self.zone_size_blocks == u64::from(zone.0.0)).then_some(zone)
    }

    /// The zone of an allocation. Cost: one pass.
    pub(crate) fn find(&self, generation: u64) -> Option<(ZoneId, &Zone)> {
        self.iter().find(|(_, zone)| generation != 0 && zone.generation() == generation)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ZoneId, &Zone)> {
        (0..).map(ZoneId).zip(&self.zones)
    }

    /// Zones that hold log or MetaLog alone, and how many of them are not released. Cost: one pass.
    pub(crate) fn count_area(&self, kind: AreaKind) -> (u32, u32) {
        let holds = Holds::area(kind);
        let held = self.iter().filter(|(_, zone)| zone.generation() != 0 && zone.holds() == holds);
        held.fold((0, 0), |(held, kept), (_, zone)| (held + 1, kept + u32::from(zone.is_kept())))
    }

    /// Zones of pages and values that nobody writes. Cost: one pass.
    pub(crate) fn count_sealed_data(&self) -> u32 {
        let is_sealed = |zone: &Zone| zone.generation() != 0 && !zone.is_open() && !zone.holds().only_records();
        let sealed = self.iter().filter(|(_, zone)| is_sealed(zone)).count();
        u32::try_from(sealed).expect("as many as zones")
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(&*self.zones) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is short of zones for the log resets those of released segments himself, beside reclaim, which must not take one for a dead
    /// zone of pages: it would reset it once more, whatever it holds by then.
    #[test]
    fn a_zone_of_log_that_is_reset_meanwhile_is_never_taken_for_one_of_pages() {
        const TURNS: u64 = 200_000;
        let zone = Zone::default();
        std::thread::scope(|scope| {
            let resets = scope.spawn(|| {
                for turn in 0..TURNS {
                    zone.begin(2 * turn + 1, Holds::area(AreaKind::Log));
                    zone.release_segment();
                    zone.clear();
                    zone.open.store(true, Ordering::Release);
                    zone.begin(2 * turn + 2, Holds::PAGES);
                    zone.condemn();
                    zone.open.store(false, Ordering::Release);
                    zone.clear();
                }
            });
            while !resets.is_finished() {
                assert_eq!(zone.sealed_data(), None);
            }
        });
    }
}
