//! A page store in memory for the tests of this crate, with the crash model of the contract and nothing more.
//!
//! It is conservative where the contract allows it to be: `settle` makes only pages durable, an area's `flush` only
//! that area's chunks, so that a missing flush shows as a loss.

mod wire;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use zonda_pages::{
    Area, AreaKind, BLOCK_BYTES, Chunk, ChunkAddress, Heat, NewPage, PageAddress, PageError, PageId, PageStore,
    Reclaimed, Relocate, Segment, SegmentId, StoreUsage, WrittenBy,
};
use zonda_rt::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use zonda_rt::{DeviceCall, Mutex, Rng, device_call};

pub(crate) use wire::Wire;

type Result<T> = std::result::Result<T, PageError>;

/// Values that a step of reclaim moves, if each has a block: 256 KiB.
const MOVED_AT_ONCE: usize = 64;
/// Bytes that the double's framing adds to a chunk or page.
const FRAME_BYTES: usize = 32;

/// What survives when a [`MemStore`] is opened again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Survives {
    /// Everything written: the death of a process.
    Written,
    /// Only what was flushed: the harshest power cut.
    Flushed,
    /// What was flushed, and of the rest a legal subset by this seed: per segment a prefix of its chunks, of pages any.
    Seeded(u64),
}

#[derive(Clone, Debug)]
struct StoredChunk {
    address: u64,
    payload: Arc<[u8]>,
    durable: bool,
}

#[derive(Clone, Debug, Default)]
struct StoredSegment {
    chunks: Vec<StoredChunk>,
    blocks: u64,
    sealed: bool,
}

#[derive(Debug)]
struct AreaState {
    segments: BTreeMap<u64, StoredSegment>,
    next_segment: u64,
    next_block: u64,
}

/// An append area in memory.
pub(crate) struct MemArea {
    wire: Arc<Wire>,
    chunk_bytes_max: usize,
    segment_blocks: u64,
    state: Mutex<AreaState>,
    /// The most chunks that were asked for at once.
    most_together: AtomicUsize,
    chunks_read: AtomicU64,
    /// Is called by whoever appends a chunk, before he does.
    watch: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl MemArea {
    fn new(wire: &Arc<Wire>, options: MemOptions) -> Self {
        let state = AreaState { segments: BTreeMap::new(), next_segment: 1, next_block: 1 };
        let MemOptions { chunk_bytes_max, segment_blocks } = options;
        Self::of(wire, (chunk_bytes_max, segment_blocks), state)
    }

    fn of(wire: &Arc<Wire>, (chunk_bytes_max, segment_blocks): (usize, u64), state: AreaState) -> Self {
        let (most_together, chunks_read) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (wire, state) = (Arc::clone(wire), Mutex::new(state));
        Self { wire, chunk_bytes_max, segment_blocks, state, most_together, chunks_read, watch: OnceLock::new() }
    }

    fn survivor(&self, wire: &Arc<Wire>, survives: Survives, rng: &mut Rng) -> Self {
        let state = self.state.lock();
        let mut segments = state.segments.clone();
        for segment in segments.values_mut() {
            let durable = segment.chunks.iter().take_while(|chunk| chunk.durable).count();
            let keep = match survives {
                Survives::Written => segment.chunks.len(),
                Survives::Flushed => durable,
                Survives::Seeded(_) => durable + rng.index(segment.chunks.len() - durable + 1),
            };
            segment.chunks.truncate(keep);
            segment.sealed = true;
        }
        let state = AreaState { segments, ..*state };
        Self::of(wire, (self.chunk_bytes_max, self.segment_blocks), state)
    }

    /// Chunks that were read by address.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn chunks_read(&self) -> u64 {
        self.chunks_read.load(Ordering::SeqCst)
    }

    /// The most chunks that were asked for at once.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn most_together(&self) -> usize {
        self.most_together.load(Ordering::SeqCst)
    }

    /// The payloads of all chunks, for tests that look at bytes.
    pub(crate) fn payloads(&self) -> Vec<Vec<u8>> {
        let state = self.state.lock();
        state.segments.values().flat_map(|segment| &segment.chunks).map(|chunk| chunk.payload.to_vec()).collect()
    }
}

impl AreaState {
    /// The segment that the next chunk goes to.
    fn open_segment(&mut self, blocks: u64, segment_blocks: u64) -> u64 {
        let last = self.segments.last_key_value();
        match last.filter(|(_, segment)| !segment.sealed && segment.blocks + blocks <= segment_blocks) {
            Some((&id, _)) => id,
            None => {
                let id = self.next_segment;
                self.next_segment += 1;
                self.segments.insert(id, StoredSegment::default());
                id
            }
        }
    }

    fn push(&mut self, payload: &[u8], blocks: u64, segment_blocks: u64) -> (ChunkAddress, SegmentId) {
        let id = self.open_segment(blocks, segment_blocks);
        let address = self.next_block;
        self.next_block += blocks;
        let segment = self.segments.get_mut(&id).expect("just opened");
        segment.blocks += blocks;
        segment.chunks.push(StoredChunk { address, payload: payload.into(), durable: false });
        (ChunkAddress(address), SegmentId(id))
    }
}

impl Area for MemArea {
    fn append(&self, payload: &[u8]) -> Result<(ChunkAddress, SegmentId)> {
        if payload.len() > self.chunk_bytes_max {
            return Err(PageError::ChunkTooLong { bytes: payload.len(), bytes_max: self.chunk_bytes_max });
        }
        self.watch.get().into_iter().for_each(|watch| watch());
        self.wire.room_for_chunk()?;
        let mut state = self.state.lock();
        device_call(DeviceCall::Write, || {
            let blocks = self.wire.write(payload.len())?;
            Ok(state.push(payload, blocks, self.segment_blocks))
        })
    }

    fn flush(&self) -> Result<()> {
        let written = self.state.lock().next_block;
        device_call(DeviceCall::Flush, || self.wire.flush())?;
        let mut state = self.state.lock();
        let chunks = state.segments.values_mut().flat_map(|segment| &mut segment.chunks);
        chunks.filter(|chunk| chunk.address < written).for_each(|chunk| chunk.durable = true);
        Ok(())
    }

    fn chunk_bytes_max(&self) -> usize {
        self.chunk_bytes_max
    }

    fn segments(&self) -> Vec<Segment> {
        let state = self.state.lock();
        let segment = |(&id, segment): (&u64, &StoredSegment)| Segment {
            id: SegmentId(id),
            bytes: segment.blocks * BLOCK_BYTES as u64,
        };
        state.segments.iter().map(segment).collect()
    }

    fn read_segment(&self, segment: SegmentId, visit: &mut dyn FnMut(Chunk<'_>) -> Result<bool>) -> Result<()> {
        let chunks = {
            let state = self.state.lock();
            state.segments.get(&segment.0).ok_or(PageError::NoSuchSegment(segment.0))?.chunks.clone()
        };
        for chunk in chunks {
            if !visit(Chunk { address: ChunkAddress(chunk.address), payload: &chunk.payload })? {
                break;
            }
        }
        Ok(())
    }

    fn read_chunk(&self, at: ChunkAddress, payload_bytes: usize) -> Result<Vec<u8>> {
        self.chunks_read.fetch_add(1, Ordering::SeqCst);
        let state = self.state.lock();
        let mut chunks = state.segments.values().flat_map(|segment| &segment.chunks);
        let found = chunks.find(|chunk| chunk.address == at.0 && chunk.payload.len() == payload_bytes);
        let missing = || PageError::Damaged { what: "chunk", block: at.0, why: "no whole chunk there".into() };
        found.map(|chunk| chunk.payload.to_vec()).ok_or_else(missing)
    }

    fn read_chunks(&self, chunks: &[(ChunkAddress, usize)], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.most_together.fetch_max(chunks.len(), Ordering::SeqCst);
        // Not in their order: nobody may count on it.
        for (index, &(at, payload_bytes)) in chunks.iter().enumerate().rev() {
            visit(index, &self.read_chunk(at, payload_bytes)?);
        }
        Ok(())
    }

    fn release(&self, segment: SegmentId) -> Result<()> {
        self.state.lock().segments.remove(&segment.0);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Placed,
    Written,
    Durable,
}

#[derive(Clone, Debug)]
struct StoredPage {
    id: PageId,
    body: Arc<[u8]>,
    stage: Stage,
    released: bool,
    damaged: bool,
}

#[derive(Debug)]
struct Pages {
    pages: HashMap<PageAddress, StoredPage>,
    /// Where pages of failed zones lie now: old addresses stay good (contract, "Failed zones").
    forwards: HashMap<PageAddress, PageAddress>,
    fifo: VecDeque<PageAddress>,
    next_block: u64,
}

impl Pages {
    fn new(pages: HashMap<PageAddress, StoredPage>, next_block: u64) -> Self {
        Self { pages, forwards: HashMap::new(), fifo: VecDeque::new(), next_block }
    }

    /// Where the page placed at `at` lies now.
    fn resolve(&self, mut at: PageAddress) -> PageAddress {
        while let Some(next) = self.forwards.get(&at) {
            at = *next;
        }
        at
    }

    /// Places the page at `at` again.
    fn forward(&mut self, at: PageAddress) -> Option<(PageId, PageAddress, PageAddress)> {
        let page = self.pages.remove(&at)?;
        let to = self.put(page.id, page.body);
        self.pages.get_mut(&to).expect("just put").released = page.released;
        self.forwards.insert(at, to);
        Some((page.id, at, to))
    }

    fn put(&mut self, id: PageId, body: Arc<[u8]>) -> PageAddress {
        let blocks = (body.len() + FRAME_BYTES).div_ceil(BLOCK_BYTES) as u64;
        let address = PageAddress::new(self.next_block, blocks);
        self.next_block += blocks;
        self.pages.insert(address, StoredPage { id, body, stage: Stage::Placed, released: false, damaged: false });
        self.fifo.push_back(address);
        address
    }
}

/// Sizes of a [`MemStore`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemOptions {
    /// Longest chunk in bytes.
    pub(crate) chunk_bytes_max: usize,
    /// Blocks of one segment.
    pub(crate) segment_blocks: u64,
}

impl Default for MemOptions {
    fn default() -> Self {
        Self { chunk_bytes_max: 2 << 20, segment_blocks: 1024 }
    }
}

/// A page store in memory.
pub(crate) struct MemStore {
    wire: Arc<Wire>,
    pages: Mutex<Pages>,
    /// Pages that may wait to be written before `place` answers `Busy`.
    waiting_pages_max: usize,
    fail_zone: AtomicBool,
    /// How often `place` yields before it returns.
    linger_yields: AtomicU64,
    /// Held while pages are placed again and the tree hears of it.
    replacing: Mutex<()>,
    /// Is called by whoever reads a page, before he does.
    watch: OnceLock<Box<dyn Fn() + Send + Sync>>,
    watch_pumps: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Chunks of values that reclaim is to move.
    to_move: Mutex<Vec<(ChunkAddress, Vec<u8>)>>,
    log: MemArea,
    meta: MemArea,
    values: MemArea,
}

impl MemStore {
    /// An empty store.
    pub(crate) fn new(options: MemOptions) -> Arc<Self> {
        let wire = Arc::new(Wire::default());
        let pages = Pages::new(HashMap::new(), 1);
        let [log, meta, values] = [(); 3].map(|()| MemArea::new(&wire, options));
        Arc::new(Self {
            wire,
            pages: Mutex::new(pages),
            waiting_pages_max: 256,
            fail_zone: AtomicBool::new(false),
            linger_yields: AtomicU64::new(0),
            replacing: Mutex::new(()),
            watch: OnceLock::new(),
            watch_pumps: OnceLock::new(),
            to_move: Mutex::default(),
            log,
            meta,
            values,
        })
    }

    /// The store as the next life finds it.
    pub(crate) fn reopen(&self, survives: Survives) -> Arc<Self> {
        let mut rng = Rng::seeded(if let Survives::Seeded(seed) = survives { seed } else { 0 });
        let wire = Arc::new(Wire::default());
        let state = self.pages.lock();
        let kept = |page: &StoredPage, rng: &mut Rng| match survives {
            Survives::Written => page.stage >= Stage::Written,
            Survives::Flushed => page.stage == Stage::Durable,
            Survives::Seeded(_) => page.stage == Stage::Durable || page.stage == Stage::Written && rng.chance(0.5),
        };
        let mut pages: Vec<_> = state.pages.iter().map(|(at, page)| (*at, page.clone())).collect();
        pages.sort_by_key(|(at, _)| *at);
        pages.retain(|(_, page)| kept(page, &mut rng));
        let pages = Pages::new(pages.into_iter().collect(), state.next_block);
        Arc::new(Self {
            pages: Mutex::new(pages),
            waiting_pages_max: self.waiting_pages_max,
            fail_zone: AtomicBool::new(false),
            linger_yields: AtomicU64::new(0),
            replacing: Mutex::new(()),
            watch: OnceLock::new(),
            watch_pumps: OnceLock::new(),
            to_move: Mutex::default(),
            log: self.log.survivor(&wire, survives, &mut rng),
            meta: self.meta.survivor(&wire, survives, &mut rng),
            values: self.values.survivor(&wire, survives, &mut rng),
            wire,
        })
    }

    /// Power and counters.
    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The next `pump` or `settle` finds that the zone of all waiting pages failed and places them again.
    pub(crate) fn fail_zone(&self) {
        self.fail_zone.store(true, Ordering::SeqCst);
    }

    /// From now on whoever reads a page calls `watch` before.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn watch_reads(&self, watch: impl Fn() + Send + Sync + 'static) {
        let is_first = self.watch.set(Box::new(watch)).is_ok();
        assert!(is_first, "one watches");
    }

    /// The same of who pumps.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn watch_pumps(&self, watch: impl Fn() + Send + Sync + 'static) {
        let is_first = self.watch_pumps.set(Box::new(watch)).is_ok();
        assert!(is_first, "one watches");
    }

    /// The same of who writes a chunk of a value.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn watch_values(&self, watch: impl Fn() + Send + Sync + 'static) {
        let is_first = self.values.watch.set(Box::new(watch)).is_ok();
        assert!(is_first, "one watches");
    }

    /// The chunks of all values that were written, live or not.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn value_chunks(&self) -> Vec<(ChunkAddress, Vec<u8>)> {
        let state = self.values.state.lock();
        let chunks = state.segments.values().flat_map(|segment| &segment.chunks);
        chunks.map(|chunk| (ChunkAddress(chunk.address), chunk.payload.to_vec())).collect()
    }

    /// Lets reclaim move the values that there are.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn move_values(&self) {
        *self.to_move.lock() = self.value_chunks();
    }

    /// From now on nobody can read the page at `at`.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn damage(&self, at: PageAddress) {
        let mut state = self.pages.lock();
        let at = state.resolve(at);
        state.pages.get_mut(&at).expect("a page that was placed").damaged = true;
    }

    /// From now on `place` yields so often between placing pages and returning: others can write them, or find that
    /// their zone failed, before the caller knows where they are.
    #[cfg(feature = "shuttle")]
    pub(crate) fn linger(&self, yields: u64) {
        self.linger_yields.store(yields, Ordering::SeqCst);
    }

    /// The area, with its test-only methods.
    pub(crate) fn mem_area(&self, kind: AreaKind) -> &MemArea {
        match kind {
            AreaKind::Log => &self.log,
            AreaKind::Meta => &self.meta,
            AreaKind::Values => &self.values,
        }
    }

    /// Pages that were placed and not released, in address order.
    pub(crate) fn live_pages(&self) -> Vec<(PageId, PageAddress)> {
        let state = self.pages.lock();
        let live = state.pages.iter().filter(|(_, page)| !page.released);
        let mut live: Vec<_> = live.map(|(at, page)| (page.id, *at)).collect();
        live.sort_by_key(|(_, at)| *at);
        live
    }

    fn place_again(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) {
        let _replacing = self.replacing.lock();
        if !self.fail_zone.swap(false, Ordering::SeqCst) {
            return;
        }
        let moves: Vec<_> = {
            let mut state = self.pages.lock();
            let waiting = std::mem::take(&mut state.fifo);
            waiting.into_iter().filter_map(|at| state.forward(at)).collect()
        };
        moves.into_iter().for_each(|(id, from, to)| moved(id, from, to));
    }

    /// Writes the waiting pages in order; returns the first block that no written page reaches.
    fn write_waiting(&self) -> Result<u64> {
        let until = self.pages.lock().next_block;
        loop {
            let next = { self.pages.lock().fifo.front().copied().filter(|at| at.block() < until) };
            let Some(at) = next else { return Ok(until) };
            device_call(DeviceCall::Write, || self.wire.write(usize_of(at.len_bytes()) - FRAME_BYTES))?;
            let mut state = self.pages.lock();
            if state.fifo.front() == Some(&at) {
                state.fifo.pop_front();
            }
            if let Some(page) = state.pages.get_mut(&at) {
                page.stage = Stage::Written;
            }
        }
    }
}

fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a page fits in memory")
}

impl PageStore for MemStore {
    fn read(&self, id: PageId, at: PageAddress, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.watch.get().into_iter().for_each(|watch| watch());
        let page = {
            let state = self.pages.lock();
            state.pages.get(&state.resolve(at)).cloned()
        };
        let page = page.filter(|page| page.id == id && !page.damaged).ok_or_else(|| PageError::Damaged {
            what: "page",
            block: at.block(),
            why: format!("page {} is not there, or damaged", id.0),
        })?;
        if page.stage != Stage::Placed {
            device_call(DeviceCall::Read, || self.wire.read())?;
        }
        visit(&page.body);
        Ok(())
    }

    fn place(&self, _heat: Heat, pages: &[NewPage<'_>]) -> Result<Vec<PageAddress>> {
        self.wire.room_for_pages()?;
        let mut state = self.pages.lock();
        if state.fifo.len() + pages.len() > self.waiting_pages_max {
            return Err(PageError::Busy);
        }
        let placed = pages.iter().map(|page| state.put(page.id, page.body.into())).collect();
        drop(state);
        (0..self.linger_yields.load(Ordering::SeqCst)).for_each(|_| zonda_rt::yield_now());
        Ok(placed)
    }

    fn is_short(&self) -> bool {
        self.wire.room_for_pages().is_err()
    }

    fn admit(&self, _pages: u32) -> Result<()> {
        self.wire.room_for_pages()
    }

    fn pump(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) -> Result<()> {
        self.watch_pumps.get().into_iter().for_each(|watch| watch());
        self.place_again(moved);
        self.write_waiting().map(|_| ())
    }

    fn settle(&self, moved: &mut dyn FnMut(PageId, PageAddress, PageAddress)) -> Result<()> {
        self.place_again(moved);
        let until = self.write_waiting()?;
        device_call(DeviceCall::Flush, || self.wire.flush())?;
        let mut state = self.pages.lock();
        let written = state.pages.iter_mut().filter(|(at, page)| at.block() < until && page.stage == Stage::Written);
        written.for_each(|(_, page)| page.stage = Stage::Durable);
        Ok(())
    }

    fn release(&self, at: PageAddress) {
        let mut state = self.pages.lock();
        let at = state.resolve(at);
        let page = state.pages.get_mut(&at).expect("only placed pages are released");
        assert!(!page.released, "page {} at {at:?} is released twice", page.id.0);
        page.released = true;
    }

    fn release_value(&self, _at: ChunkAddress, _segment: SegmentId, bytes: u64) {
        self.wire.released_value_bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    fn adopt(&self, live: &mut dyn Iterator<Item = PageAddress>) {
        let mut state = self.pages.lock();
        state.pages.values_mut().for_each(|page| page.released = true);
        for at in live {
            state.pages.get_mut(&at).expect("I3 a durable record names a durable page").released = false;
        }
    }

    fn area(&self, kind: AreaKind) -> &dyn Area {
        self.mem_area(kind)
    }

    fn reclaim_step(&self, relocate: &dyn Relocate) -> Result<Reclaimed> {
        let chunks = {
            let mut to_move = self.to_move.lock();
            let rest = to_move.len().saturating_sub(MOVED_AT_ONCE);
            to_move.split_off(rest)
        };
        let is_idle = chunks.is_empty();
        for (at, payload) in chunks {
            relocate.relocate_value(at, &payload)?;
        }
        Ok(if is_idle { Reclaimed::Idle } else { Reclaimed::Progress })
    }

    fn page_body_bytes(&self, blocks: u64) -> usize {
        usize_of(blocks) * BLOCK_BYTES - FRAME_BYTES
    }

    fn usage(&self) -> StoreUsage {
        let live = self.live_pages().iter().map(|(_, at)| at.len_bytes()).sum();
        StoreUsage { capacity_bytes: 1 << 40, live_page_bytes: live, ..StoreUsage::default() }
    }

    fn written_by(&self) -> WrittenBy {
        WrittenBy { flush: self.wire.blocks_written() * BLOCK_BYTES as u64, ..WrittenBy::default() }
    }

    fn reads(&self) -> (u64, u64) {
        let reads = self.wire.reads.load(Ordering::SeqCst);
        (reads, reads * BLOCK_BYTES as u64)
    }
}
