//! Page stores that break one rule of the contract each: a common decorator, and what each bug does differently.

use std::{collections::HashMap, sync::Arc};

use zonda_pages::{
    Area, AreaKind, CacheUsage, ChunkAddress, Heat, LiveValues, Liveness, NewPage, PageAddress, PageError, PageId,
    PageStore, Reclaimed, RecordPressure, Relocate, Relocated, SegmentId, Stamp, StoreUsage, WrittenBy,
};
use zonda_rt::Mutex;

type Result<T> = std::result::Result<T, PageError>;
type Moved<'a> = &'a mut dyn FnMut(PageId, PageAddress, PageAddress);

/// What a bug replaces; the rest passes through.
trait Faulty: Send + Sync {
    fn read(&self, store: &dyn PageStore, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        store.read(id, at, visit)
    }

    fn place(&self, store: &dyn PageStore, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>> {
        store.place(heat, pages)
    }

    fn settle(&self, store: &dyn PageStore, moved: Moved<'_>) -> Result<()> {
        store.settle(moved)
    }

    fn reclaim_step(&self, store: &dyn PageStore, relocate: &dyn Relocate) -> Result<Reclaimed> {
        store.reclaim_step(relocate)
    }
}

/// A page store with a bug.
struct FaultyStore<F> {
    store: Arc<dyn PageStore>,
    fault: F,
}

impl<F: Faulty> PageStore for FaultyStore<F> {
    fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.fault.read(&*self.store, id, at, visit)
    }

    fn place(&self, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>> {
        self.fault.place(&*self.store, heat, pages)
    }

    fn is_short(&self) -> bool {
        self.store.is_short()
    }

    fn press_for(&self, pages: u32) -> bool {
        self.store.press_for(pages)
    }

    fn admit(&self, pages: u32) -> Result<()> {
        self.store.admit(pages)
    }

    fn pump(&self, moved: Moved<'_>) -> Result<()> {
        self.store.pump(moved)
    }

    fn settle(&self, moved: Moved<'_>) -> Result<()> {
        self.fault.settle(&*self.store, moved)
    }

    fn release(&self, at: PageAddress) {
        self.store.release(at);
    }

    fn release_value(&self, at: ChunkAddress, segment: SegmentId, bytes: u64) {
        self.store.release_value(at, segment, bytes);
    }

    fn adopt(&self, live: &mut dyn Iterator<Item = PageAddress>) {
        self.store.adopt(live);
    }

    fn live_values(&self) -> Vec<LiveValues> {
        self.store.live_values()
    }

    fn adopt_values(&self, live: &[LiveValues]) {
        self.store.adopt_values(live);
    }

    fn area(&self, kind: AreaKind) -> &dyn Area {
        self.store.area(kind)
    }

    fn bear_garbage(&self, bears: bool) {
        self.store.bear_garbage(bears);
    }

    fn reclaim_step(&self, relocate: &dyn Relocate) -> Result<Reclaimed> {
        self.fault.reclaim_step(&*self.store, relocate)
    }

    fn record_pressure(&self) -> RecordPressure {
        self.store.record_pressure()
    }

    fn page_body_bytes(&self, blocks: u64) -> usize {
        self.store.page_body_bytes(blocks)
    }

    fn usage(&self) -> StoreUsage {
        self.store.usage()
    }

    fn memory_bytes(&self) -> u64 {
        self.store.memory_bytes()
    }

    fn written_by(&self) -> WrittenBy {
        self.store.written_by()
    }

    fn reads(&self) -> (u64, u64) {
        self.store.reads()
    }

    fn cache_usage(&self) -> CacheUsage {
        self.store.cache_usage()
    }

    fn set_read_cache_bytes(&self, bytes: u64) {
        self.store.set_read_cache_bytes(bytes);
    }
}

/// The decorator alone.
pub(crate) struct Sound;

impl Sound {
    /// A store without a bug.
    pub(crate) fn over(store: Arc<dyn PageStore>) -> impl PageStore {
        FaultyStore { store, fault: Self }
    }
}

impl Faulty for Sound {}

/// Pages are cached by address alone when they are written or read, and what is cached stays when the zone is reset.
pub(crate) struct StaleCache {
    cached: Mutex<HashMap<PageAddress, Vec<u8>>>,
}

impl StaleCache {
    /// A store with this bug.
    pub(crate) fn over(store: Arc<dyn PageStore>) -> impl PageStore {
        FaultyStore { store, fault: Self { cached: Mutex::new(HashMap::new()) } }
    }
}

impl Faulty for StaleCache {
    fn place(&self, store: &dyn PageStore, heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>> {
        let addresses = store.place(heat, pages)?;
        let mut cached = self.cached.lock();
        for (&at, page) in addresses.iter().zip(pages) {
            cached.entry(at).or_insert_with(|| page.body.to_vec());
        }
        Ok(addresses)
    }

    fn read(&self, store: &dyn PageStore, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        let cached = self.cached.lock().get(&at).cloned();
        if let Some(body) = cached {
            visit(&body);
            return Ok(());
        }
        store.read(id, at, &mut |body| {
            self.cached.lock().insert(at, body.to_vec());
            visit(body);
        })
    }
}

/// Address records are written without waiting for the pages that they name.
pub(crate) struct WriteAhead;

impl WriteAhead {
    /// A store with this bug.
    pub(crate) fn over(store: Arc<dyn PageStore>) -> impl PageStore {
        FaultyStore { store, fault: Self }
    }
}

impl Faulty for WriteAhead {
    fn settle(&self, _: &dyn PageStore, _: Moved<'_>) -> Result<()> {
        Ok(())
    }
}

/// Zones are reset as soon as their pages have moved: the records of the moves may be lost, readers may still be there.
pub(crate) struct ResetEarly;

impl ResetEarly {
    /// A store with this bug.
    pub(crate) fn over(store: Arc<dyn PageStore>) -> impl PageStore {
        FaultyStore { store, fault: Self }
    }
}

impl Faulty for ResetEarly {
    fn reclaim_step(&self, store: &dyn PageStore, relocate: &dyn Relocate) -> Result<Reclaimed> {
        store.reclaim_step(&Hasty(relocate))
    }
}

/// A tree that says that everything is durable and nobody reads.
struct Hasty<'a>(&'a dyn Relocate);

impl Relocate for Hasty<'_> {
    fn relocate_page(&self, id: PageId, at: PageAddress, body: &[u8]) -> Result<Relocated> {
        self.0.relocate_page(id, at, body)
    }

    fn relocate_value(&self, at: ChunkAddress, payload: &[u8]) -> Result<Relocated> {
        self.0.relocate_value(at, payload)
    }

    fn value_liveness(&self, at: ChunkAddress, payload: &[u8]) -> Result<Liveness> {
        self.0.value_liveness(at, payload)
    }

    fn writes(&self) -> u64 {
        self.0.writes()
    }

    fn knows_values(&self) -> bool {
        self.0.knows_values()
    }

    fn stamp(&self) -> Stamp {
        self.0.stamp()
    }

    fn commit_moves(&self) -> Result<()> {
        Ok(())
    }

    fn drained(&self, _: Stamp) -> bool {
        true
    }
}
