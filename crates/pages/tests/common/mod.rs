//! A toy tree for tests: page id -> (address, version) in a map, with the tree's side of reclaim.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test uses its part; a test may panic")]

use std::collections::HashMap;
use std::sync::Arc;

use zonda_device::{BlockDevice, Geometry, MemBlockDevice, MemDevice, ZonedDevice};
use zonda_pages::{
    AreaKind, ChunkAddress, Heat, InPlaceOptions, InPlaceStore, Liveness, NewPage, PageAddress, PageError, PageId,
    PageStore, PagesWanted, Reclaimed, Relocate, Relocated, SegmentId, Stamp, StoreId, StoreOptions, ZonedStore,
};
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};
use zonda_rt::epoch::Ticket;
use zonda_rt::{Epoch, Mutex};

/// 64 zones of 64 blocks: 16 MiB.
pub fn device() -> Arc<MemDevice> {
    device_of(64, 14)
}

pub fn device_of(zones: u32, active: u32) -> Arc<MemDevice> {
    Arc::new(MemDevice::new(Geometry::new(256 << 10, zones).with_limits(active, active)).unwrap())
}

pub fn options() -> StoreOptions {
    StoreOptions {
        store_id: StoreId(77),
        log_limit_bytes: 256 << 10,
        superblock: b"super".to_vec(),
        ..StoreOptions::default()
    }
}

pub fn create<D: ZonedDevice + 'static>(device: &Arc<D>) -> Arc<ZonedStore> {
    ZonedStore::create(Arc::clone(device) as Arc<dyn ZonedDevice>, &options()).unwrap()
}

/// 16 MiB of blocks.
pub fn block_device() -> Arc<MemBlockDevice> {
    Arc::new(MemBlockDevice::new(4096, 4096).unwrap())
}

/// 64 segments of 64 blocks.
pub fn in_place_options() -> InPlaceOptions {
    InPlaceOptions { common: options(), segment_blocks: 64, ..InPlaceOptions::default() }
}

pub fn create_in_place<D: BlockDevice + 'static>(device: &Arc<D>) -> Arc<InPlaceStore> {
    InPlaceStore::create(Arc::clone(device) as Arc<dyn BlockDevice>, &in_place_options()).unwrap()
}

/// Wants listed pages and hands each to a function, with its index.
pub struct Listed<'a, F> {
    pages: std::slice::Iter<'a, (PageId, PageAddress)>,
    visit: F,
}

impl<F: FnMut(usize, &[u8])> PagesWanted for Listed<'_, F> {
    fn next_page(&mut self) -> Option<(PageId, PageAddress)> {
        self.pages.next().copied()
    }

    fn take(&mut self, nth: usize, body: &[u8]) {
        (self.visit)(nth, body);
    }
}

/// Reads all of `pages` together.
pub fn read_listed<S: PageStore + ?Sized>(
    store: &S,
    pages: &[(PageId, PageAddress)],
    visit: impl FnMut(usize, &[u8]),
) -> Result<(), PageError> {
    store.read_many(&mut Listed { pages: pages.iter(), visit })
}

/// Where a page of the toy tree is and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub at: PageAddress,
    pub version: u64,
    pub blocks: u64,
}

/// All that a toy tree holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    leaves: HashMap<PageId, Leaf>,
    values: HashMap<ChunkAddress, (SegmentId, Vec<u8>)>,
}

/// The toy tree. `leaves` is its leaf table; a leaf in `latched` answers `Busy`, as all values do while their keys are `locked`; a leaf in
/// `homeless` has nowhere to be moved to.
pub struct Toy<S: ?Sized = ZonedStore> {
    pub store: Arc<S>,
    pub leaves: Mutex<HashMap<PageId, Leaf>>,
    pub values: Mutex<HashMap<ChunkAddress, (SegmentId, Vec<u8>)>>,
    pub latched: Mutex<Vec<PageId>>,
    pub locked: AtomicBool,
    pub homeless: Mutex<Vec<PageId>>,
    /// `false`: some old reader never ends.
    pub drained: AtomicBool,
    pub epoch: Epoch,
    stamps: Mutex<Vec<Ticket>>,
    pub commits: AtomicU64,
    pub relocated: AtomicU64,
    /// Pages and values that were put.
    puts: AtomicU64,
    /// What the last commit that returned made durable, and what one that did not may have.
    committed: Mutex<(Image, Option<Image>)>,
}

impl<S: PageStore + ?Sized> Toy<S> {
    pub fn new(store: Arc<S>) -> Self {
        Self {
            store,
            leaves: Mutex::default(),
            values: Mutex::default(),
            latched: Mutex::default(),
            locked: AtomicBool::new(false),
            homeless: Mutex::default(),
            drained: AtomicBool::new(true),
            epoch: Epoch::new(),
            stamps: Mutex::default(),
            commits: AtomicU64::new(0),
            relocated: AtomicU64::new(0),
            puts: AtomicU64::new(0),
            committed: Mutex::default(),
        }
    }

    pub fn body(&self, id: PageId, version: u64, blocks: u64) -> Vec<u8> {
        let mut body =
            vec![u8::try_from((u64::from(id.0) * 31 + version) % 251).unwrap(); self.store.page_body_bytes(blocks)];
        body[..8].copy_from_slice(&version.to_le_bytes());
        body[8..12].copy_from_slice(&id.0.to_le_bytes());
        body
    }

    pub fn pump(&self) -> Result<(), PageError> {
        self.store.pump(&mut |id, from, to| self.moved(id, from, to))
    }

    pub fn settle(&self) -> Result<(), PageError> {
        self.store.settle(&mut |id, from, to| self.moved(id, from, to))
    }

    fn moved(&self, id: PageId, from: PageAddress, to: PageAddress) {
        if let Some(leaf) = self.leaves.lock().get_mut(&id).filter(|leaf| leaf.at == from) {
            leaf.at = to;
        }
    }

    /// What a foreground writer does first: helps with reclaim, then waits for it.
    pub fn make_room(&self) -> Result<(), PageError> {
        loop {
            while self.store.is_short() && self.store.reclaim_step(self)? == Reclaimed::Progress {}
            match self.store.admit(1) {
                // Zones are short, or reclaim must look at values first.
                Err(PageError::Busy) => drop(self.store.reclaim_step(self)?),
                outcome => return outcome,
            }
        }
    }

    /// Writes a new version of a page.
    pub fn put(&self, id: PageId, version: u64, blocks: u64) -> Result<(), PageError> {
        self.make_room()?;
        self.put_at(Heat::Hot, id, version, blocks)
    }

    /// Writes a new version of a page; `Busy` if three rounds of `pump` make no room.
    pub fn put_without_waiting(&self, id: PageId, version: u64) -> Result<(), PageError> {
        let body = self.body(id, version, 1);
        for _ in 0..3 {
            if let Ok(placed) = self.store.place(Heat::Hot, &[NewPage { id, sequence: version, body: &body }]) {
                let old = self.leaves.lock().insert(id, Leaf { at: placed[0], version, blocks: 1 });
                old.iter().for_each(|old| self.store.release(old.at));
                self.puts.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            self.pump()?;
        }
        Err(PageError::Busy)
    }

    pub fn put_at(&self, heat: Heat, id: PageId, version: u64, blocks: u64) -> Result<(), PageError> {
        let body = self.body(id, version, blocks);
        loop {
            // The map's lock is the toy's leaf latch.
            let mut leaves = self.leaves.lock();
            match self.store.place(heat, &[NewPage { id, sequence: version, body: &body }]) {
                Ok(placed) => {
                    if let Some(old) = leaves.insert(id, Leaf { at: placed[0], version, blocks }) {
                        self.store.release(old.at);
                    }
                    self.puts.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(PageError::Busy) => {
                    drop(leaves);
                    self.pump()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub fn delete(&self, id: PageId) {
        if let Some(old) = self.leaves.lock().remove(&id) {
            self.store.release(old.at);
        }
    }

    /// Reads a page and compares it with what the tree wrote.
    pub fn check(&self, id: PageId) {
        let _epoch = self.epoch.pin();
        let leaf = self.leaves.lock()[&id];
        let mut seen = false;
        let expected = self.body(id, leaf.version, leaf.blocks);
        let visit = &mut |body: &[u8]| {
            assert!(body == expected, "page {} at {:?}", id.0, leaf.at);
            seen = true;
        };
        self.store.read(id, leaf.at, visit).unwrap_or_else(|error| panic!("page {} at {:?}: {error}", id.0, leaf.at));
        assert!(seen);
    }

    pub fn check_all(&self) {
        let ids: Vec<_> = self.leaves.lock().keys().copied().collect();
        ids.into_iter().for_each(|id| self.check(id));
    }

    /// Reclaims until nothing is left to do now.
    pub fn reclaim(&self) {
        for _ in 0..100_000 {
            if self.store.reclaim_step(self).unwrap() != Reclaimed::Progress {
                return;
            }
        }
        panic!("reclaim does not come to an end");
    }

    /// Makes the leaf table and the values' addresses durable in one MetaLog chunk; older ones are released.
    pub fn commit(&self) -> Result<(), PageError> {
        let mut chunk = Vec::new();
        let image = self.image();
        self.committed.lock().1 = Some(image.clone());
        let leaves = image.leaves.clone();
        chunk.extend((leaves.len() as u64).to_le_bytes());
        for (id, leaf) in leaves {
            [u64::from(id.0), leaf.at.raw(), leaf.version, leaf.blocks]
                .iter()
                .for_each(|n| chunk.extend(n.to_le_bytes()));
        }
        for (at, (segment, payload)) in image.values.clone() {
            [at.0, payload.len() as u64, u64::from(payload[0]), segment.0]
                .iter()
                .for_each(|n| chunk.extend(n.to_le_bytes()));
        }
        self.settle()?;
        let meta = self.store.area(AreaKind::Meta);
        let (_, segment) = meta.append(&chunk)?;
        meta.flush()?;
        *self.committed.lock() = (image, None);
        meta.segments().into_iter().filter(|old| old.id < segment).try_for_each(|old| meta.release(old.id))
    }

    fn image(&self) -> Image {
        Image { leaves: self.leaves.lock().clone(), values: self.values.lock().clone() }
    }

    /// Checks that a tree that was recovered holds what the last commit of the one before it said, or the one that was under way.
    pub fn check_committed(&self, before: &Self) {
        let (found, (last, under_way)) = (self.image(), before.committed.lock().clone());
        assert!(
            found == last || Some(&found) == under_way.as_ref(),
            "{} pages and {} values of {} and {}",
            found.leaves.len(),
            found.values.len(),
            last.leaves.len(),
            last.values.len(),
        );
    }

    /// The tree of a store that was opened again: what its last whole MetaLog chunk says.
    pub fn recover(store: Arc<S>) -> Self {
        let mut last: Vec<u64> = vec![0];
        let meta = store.area(AreaKind::Meta);
        for segment in meta.segments() {
            let visit = &mut |chunk: zonda_pages::Chunk<'_>| {
                last = chunk.payload.chunks(8).map(|n| u64::from_le_bytes(n.try_into().unwrap())).collect();
                Ok(true)
            };
            meta.read_segment(segment.id, visit).unwrap();
        }
        let toy = Self::new(store);
        let (leaves, values) = last[1..].split_at(4 * usize::try_from(last[0]).unwrap());
        for leaf in leaves.chunks(4) {
            let at = PageAddress::from_raw(leaf[1]).unwrap();
            toy.leaves.lock().insert(id(leaf[0]), Leaf { at, version: leaf[2], blocks: leaf[3] });
        }
        for value in values.chunks(4) {
            let payload = vec![u8::try_from(value[2]).unwrap(); usize::try_from(value[1]).unwrap()];
            toy.values.lock().insert(ChunkAddress(value[0]), (SegmentId(value[3]), payload));
        }
        let live: Vec<_> = toy.leaves.lock().values().map(|leaf| leaf.at).collect();
        toy.store.adopt(&mut live.into_iter());
        toy.committed.lock().0 = toy.image();
        toy
    }

    /// Adds a value.
    pub fn put_value(&self, payload: &[u8]) -> Result<ChunkAddress, PageError> {
        self.make_room()?;
        let (at, segment) = self.store.area(AreaKind::Values).append(payload)?;
        self.values.lock().insert(at, (segment, payload.to_vec()));
        self.puts.fetch_add(1, Ordering::Relaxed);
        Ok(at)
    }

    pub fn delete_value(&self, at: ChunkAddress) {
        let (segment, payload) = self.values.lock().remove(&at).unwrap();
        self.store.release_value(at, segment, payload.len() as u64);
    }

    pub fn check_values(&self) {
        let values = self.values.lock().clone();
        for (at, (_, payload)) in values {
            assert_eq!(self.store.area(AreaKind::Values).read_chunk(at, payload.len()).unwrap(), payload);
        }
    }
}

impl<S: PageStore + ?Sized> Relocate for Toy<S> {
    fn relocate_page(&self, id: PageId, at: PageAddress, body: &[u8]) -> Result<Relocated, PageError> {
        if self.latched.lock().contains(&id) {
            return Ok(Relocated::Busy);
        }
        let mut leaves = self.leaves.lock();
        let Some(leaf) = leaves.get_mut(&id).filter(|leaf| leaf.at == at) else {
            return Ok(Relocated::Dead);
        };
        assert_eq!(body, self.body(id, leaf.version, leaf.blocks));
        if self.homeless.lock().contains(&id) {
            return Err(PageError::Busy);
        }
        leaf.at = self.store.place(Heat::Relocated, &[NewPage { id, sequence: leaf.version, body }])?[0];
        self.store.release(at);
        self.relocated.fetch_add(1, Ordering::Relaxed);
        Ok(Relocated::Moved)
    }

    fn relocate_value(&self, at: ChunkAddress, payload: &[u8]) -> Result<Relocated, PageError> {
        if self.values.lock().get(&at).is_none() {
            return Ok(Relocated::Dead);
        }
        if self.locked.load(Ordering::Relaxed) {
            return Ok(Relocated::Busy);
        }
        let (to, segment) = self.store.area(AreaKind::Values).append(payload)?;
        let (old, moved) = self.values.lock().remove(&at).unwrap();
        self.values.lock().insert(to, (segment, moved));
        self.store.release_value(at, old, payload.len() as u64);
        Ok(Relocated::Moved)
    }

    fn value_liveness(&self, at: ChunkAddress, _: &[u8]) -> Result<Liveness, PageError> {
        let is_live = self.values.lock().contains_key(&at);
        Ok(match is_live {
            true if self.locked.load(Ordering::Relaxed) => Liveness::Unknown,
            true => Liveness::Live,
            false => Liveness::Dead,
        })
    }

    fn writes(&self) -> u64 {
        self.puts.load(Ordering::Relaxed)
    }

    fn knows_values(&self) -> bool {
        true
    }

    fn stamp(&self) -> Stamp {
        let mut stamps = self.stamps.lock();
        stamps.push(self.epoch.advance());
        Stamp(stamps.len() as u64 - 1)
    }

    fn commit_moves(&self) -> Result<(), PageError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit()
    }

    fn drained(&self, stamp: Stamp) -> bool {
        let ticket = self.stamps.lock()[usize::try_from(stamp.0).unwrap()];
        self.drained.load(Ordering::Relaxed) && self.epoch.has_drained(ticket)
    }
}

/// Values whose keys were locked when reclaim came to them are looked at again; the n-th reads of that look, as `fail_reads` is told, fail.
/// Whether all zones or segments of that time came back later.
pub fn look_again_while_reads_fail<S: PageStore + ?Sized>(toy: &Toy<S>, fail_reads: &dyn Fn(&[u64])) -> bool {
    toy.locked.store(true, Ordering::Relaxed);
    for n in 0_u32.. {
        if toy.store.is_short() {
            break;
        }
        let at = toy.put_value(&vec![n.to_le_bytes()[0]; 5000]).unwrap();
        // Something is live in each zone or segment.
        if n % 20 > 0 {
            toy.delete_value(at);
        }
    }
    let waits = (0..1000).any(|_| toy.store.reclaim_step(toy).unwrap() == Reclaimed::Waiting);
    assert!(waits, "there is garbage, and something live in it");
    toy.locked.store(false, Ordering::Relaxed);
    // The value as a whole, then its two blocks, of which the second is not read; once more, as a whole one was expected.
    fail_reads(&[1, 3, 4, 6]);
    toy.reclaim();
    toy.check_values();
    // Once nothing of it is live, what holds it comes back like all others.
    let kept: Vec<_> = toy.values.lock().keys().copied().collect();
    kept.into_iter().for_each(|at| toy.delete_value(at));
    let segments = || toy.store.area(AreaKind::Values).segments().into_iter().map(|segment| segment.id);
    let newest = segments().max();
    // As many live as all is needed for.
    let live_max = usize::try_from(toy.store.usage().usable_bytes / 8192 * 4 / 5).unwrap();
    let mut live = std::collections::VecDeque::new();
    for _ in 0..3 * live_max {
        live.push_back(toy.put_value(&[1; 5000]).unwrap());
        if live.len() > live_max {
            toy.delete_value(live.pop_front().unwrap());
        }
    }
    segments().min() >= newest
}

pub fn id(number: u64) -> PageId {
    PageId(u32::try_from(number).unwrap())
}

/// Waits until `pages` pages may be placed; others reclaim.
#[allow(dead_code, reason = "not every test file waits")]
pub fn admit(store: &dyn PageStore, pages: u32) -> Result<(), PageError> {
    loop {
        match store.admit(pages) {
            Err(PageError::Busy) => {}
            outcome => return outcome,
        }
    }
}
