//! Pages read ahead are in flight together, on both kinds of device, and are never older than the page that they stand for.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::sync::Arc;

use common::{Toy, id};
use zonda_device::{
    BlockDevice, Completion, DeviceCounters, DeviceError, Geometry, Io, IoQueue, Lba, MemBlockDevice, MemDevice,
    Rejected, ZoneId, ZoneReport, ZonedDevice,
};
use zonda_pages::{
    AreaKind, ChunkAddress, InPlaceOptions, InPlaceStore, PageAddress, PageError, PageId, PageStore, StoreOptions,
    ZonedStore,
};
use zonda_rt::Rng;
use zonda_rt::atomic::{AtomicBool, AtomicUsize, Ordering};

fn uncached() -> StoreOptions {
    StoreOptions { read_cache_bytes: 0, ..common::options() }
}

fn in_place(device: Arc<dyn BlockDevice>) -> Arc<InPlaceStore> {
    let options = InPlaceOptions { common: uncached(), ..common::in_place_options() };
    InPlaceStore::create(device, &options).unwrap()
}

/// What is seen of a device's queues, and whether they fail.
#[derive(Debug, Default)]
struct Watch {
    /// Requests that were in flight at the most.
    most: AtomicUsize,
    /// No queue tells of a completion.
    fails: AtomicBool,
}

impl Watch {
    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A device with queues that are watched.
#[derive(Debug)]
struct Watched<D> {
    device: Arc<D>,
    watch: Arc<Watch>,
}

impl<D> Watched<D> {
    fn new(device: Arc<D>) -> Self {
        Self { device, watch: Arc::default() }
    }

    fn watched(&self, queue: Box<dyn IoQueue>) -> Box<dyn IoQueue> {
        Box::new(WatchedQueue { queue, watch: Arc::clone(&self.watch) })
    }
}

#[derive(Debug)]
struct WatchedQueue {
    queue: Box<dyn IoQueue>,
    watch: Arc<Watch>,
}

impl IoQueue for WatchedQueue {
    fn submit(&mut self, token: u64, io: Io) -> Result<(), Box<Rejected>> {
        self.queue.submit(token, io)?;
        self.watch.most.fetch_max(self.queue.in_flight(), Ordering::SeqCst);
        Ok(())
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize, DeviceError> {
        if self.watch.fails.load(Ordering::SeqCst) {
            return Err(DeviceError::PowerLost);
        }
        self.queue.complete(min, out)
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    fn depth(&self) -> usize {
        self.queue.depth()
    }
}

impl BlockDevice for Watched<MemBlockDevice> {
    fn block_bytes(&self) -> u32 {
        self.device.block_bytes()
    }

    fn capacity_blocks(&self) -> u64 {
        self.device.capacity_blocks()
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<(), DeviceError> {
        self.device.write(at, from)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<(), DeviceError> {
        self.device.trim(at, blocks)
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>, DeviceError> {
        Ok(self.watched(self.device.queue(depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}

impl ZonedDevice for Watched<MemDevice> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>, DeviceError> {
        self.device.report(first, count)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<(), DeviceError> {
        self.device.write(at, from)
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba, DeviceError> {
        self.device.append(zone, from)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }

    fn open(&self, zone: ZoneId) -> Result<(), DeviceError> {
        self.device.open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<(), DeviceError> {
        self.device.close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<(), DeviceError> {
        self.device.finish(zone)
    }

    fn reset(&self, zone: ZoneId) -> Result<(), DeviceError> {
        self.device.reset(zone)
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>, DeviceError> {
        Ok(self.watched(self.device.queue(depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}

const PAGES: u64 = 24;

/// Settled pages of one block each on a watched device.
struct Scene {
    name: &'static str,
    toy: Toy<dyn PageStore>,
    watch: Arc<Watch>,
    reads: Box<dyn Fn() -> u64>,
}

impl Scene {
    /// On both kinds of device.
    fn both() -> [Self; 2] {
        let zoned = Arc::new(Watched::new(common::device()));
        let blocks = Arc::new(Watched::new(common::block_device()));
        let (of_zones, of_blocks) = (Arc::clone(&zoned.watch), Arc::clone(&blocks.watch));
        let zones = ZonedStore::create(zoned.clone(), &uncached()).unwrap();
        [
            Self::of("zoned", (zones, of_zones), move || zoned.counters().reads),
            Self::of("in place", (in_place(blocks.clone()), of_blocks), move || blocks.counters().reads),
        ]
    }

    fn of(
        name: &'static str,
        (store, watch): (Arc<dyn PageStore>, Arc<Watch>),
        reads: impl Fn() -> u64 + 'static,
    ) -> Self {
        let toy = Toy::new(store);
        (0..PAGES).for_each(|n| toy.put(id(n), n, 1).unwrap());
        toy.settle().unwrap();
        watch.most.store(0, Ordering::SeqCst);
        Self { name, toy, watch, reads: Box::new(reads) }
    }

    fn pages(&self) -> Vec<(PageId, PageAddress)> {
        (0..PAGES).map(|n| (id(n), self.toy.leaves.lock()[&id(n)].at)).collect()
    }
}

#[test]
fn pages_read_ahead_are_in_flight_together_and_read_once() {
    for scene in &Scene::both() {
        let Scene { name, toy, watch, reads } = scene;
        let (before, pages) = (reads(), scene.pages());
        let mut ahead = toy.store.read_ahead().expect("it reads ahead");
        ahead.want(&pages);
        assert_eq!(watch.most(), 24, "{name}: all of them before the first is taken");
        for (n, &(page, at)) in (0..).zip(&pages) {
            assert!(ahead.take(page, at, &mut |body| assert_eq!(body, toy.body(page, n, 1))), "{name}: page {n}");
        }
        assert_eq!(reads() - before, PAGES, "{name}");
        assert!(!ahead.take(pages[0].0, pages[0].1, &mut |_| ()), "{name}: each is handed out once");
    }
}

#[test]
fn a_queue_that_fails_takes_neither_memory_nor_the_right_to_read_ahead_with_it() {
    for scene in &Scene::both() {
        let (store, pages) = (&scene.toy.store, scene.pages());
        let taken = || {
            let mut ahead = store.read_ahead().expect("it reads ahead");
            ahead.want(&pages);
            pages.iter().filter(|&&(page, at)| ahead.take(page, at, &mut |_| ())).count()
        };
        let all = pages.len();
        assert_eq!(taken(), all, "{}", scene.name);
        let memory_bytes = store.memory_bytes();
        for round in 0..10 {
            scene.watch.fails.store(true, Ordering::SeqCst);
            assert_eq!(taken(), 0, "{}", scene.name);
            scene.watch.fails.store(false, Ordering::SeqCst);
            assert_eq!(taken(), all, "{}", scene.name);
            let now = store.memory_bytes();
            assert!(now <= memory_bytes, "{}, round {round}: {now} bytes, not {memory_bytes}", scene.name);
        }
    }
}

#[test]
fn many_pages_of_one_caller_are_in_flight_together_and_read_once() {
    for scene in &Scene::both() {
        let (before, pages, mut seen) = ((scene.reads)(), scene.pages(), 0);
        common::read_listed(scene.toy.store.as_ref(), &pages, |nth, body: &[u8]| {
            assert_eq!(body, scene.toy.body(pages[nth].0, nth as u64, 1), "{}: page {nth}", scene.name);
            seen += 1;
        })
        .unwrap();
        assert_eq!((seen, (scene.reads)() - before), (PAGES, PAGES), "{}", scene.name);
        assert_eq!(scene.watch.most(), 24, "{}: all of them before the first is waited for", scene.name);
    }
}

/// Large values, and the segments of one: as many in flight as there are, but 4 MiB.
#[test]
fn chunks_are_in_flight_together_and_each_is_read_once() {
    let device = Arc::new(Watched::new(common::block_device()));
    let store = in_place(device.clone());
    let values = store.area(AreaKind::Values);
    let payload = |nth: usize| vec![nth.to_le_bytes()[0]; 100 + 397 * nth];
    let chunks: Vec<(ChunkAddress, usize)> =
        (0..24).map(|nth| (values.append(&payload(nth)).unwrap().0, payload(nth).len())).collect();
    let read = |chunks: &[(ChunkAddress, usize)]| {
        let (reads, mut seen) = (device.counters().reads, vec![None; chunks.len()]);
        let read = values.read_chunks(chunks, &mut |nth, payload| seen[nth] = Some(payload.to_vec()));
        read.map(|()| (device.counters().reads - reads, seen))
    };
    let expected: Vec<_> = (0..24).map(|nth| Some(payload(nth))).collect();
    let (reads, seen) = read(&chunks).unwrap();
    assert!(seen == expected);
    assert_eq!((reads, device.watch.most()), (24, 24));
    // Hints that are too short cost a read more.
    let short: Vec<_> = chunks.iter().map(|&(at, _)| (at, 0)).collect();
    let (reads, seen) = read(&short).unwrap();
    assert!(seen == expected && (25..=48).contains(&reads), "{reads} reads");
    // One that is not there fails the call, and the next one is none the worse.
    let wrong: Vec<_> = chunks[..3].iter().copied().chain([(ChunkAddress(chunks[20].0.0 + 1), 4)]).collect();
    assert!(matches!(read(&wrong), Err(PageError::Damaged { .. })));
    assert!(read(&chunks).unwrap().1 == expected && read(&[]).unwrap().1.is_empty());
}

#[test]
fn what_was_read_ahead_is_never_older_than_the_page_at_its_address() {
    let zones = ZonedStore::create(common::device() as Arc<dyn ZonedDevice>, &uncached()).unwrap();
    let stores: [(&str, Arc<dyn PageStore>); 2] =
        [("zoned", zones), ("in place", in_place(Arc::new(MemBlockDevice::new(4096, 2048).unwrap())))];
    for (name, store) in stores {
        let toy = Toy::new(store);
        let mut rng = Rng::seeded(13);
        let (mut taken, mut dropped, mut version) = (0, 0, 0);
        let mut put = |toy: &Toy<dyn PageStore>, page, rng: &mut Rng| {
            version += 1;
            toy.put(page, version, 1 + rng.below(2)).unwrap();
        };
        (0..300).for_each(|n| put(&toy, id(n), &mut rng));
        for _round in 0..300 {
            toy.settle().unwrap();
            let mut ahead = toy.store.read_ahead().expect("it reads ahead");
            let first = rng.below(280);
            let wanted: Vec<_> = (first..first + 16).map(|n| (id(n), toy.leaves.lock()[&id(n)].at)).collect();
            ahead.want(&wanted);
            // Now and then everything moves several times, so that slots are used again.
            let writes = [0, 4, 900][rng.index(3)];
            for n in 0..writes {
                put(&toy, id(rng.below(300)), &mut rng);
                if n % 40 == 0 {
                    toy.settle().unwrap();
                    toy.reclaim();
                }
            }
            for (page, _) in wanted {
                let leaf = toy.leaves.lock()[&page];
                let expected = toy.body(page, leaf.version, leaf.blocks);
                let here = ahead.take(page, leaf.at, &mut |body| assert!(body == expected, "{name} {page:?}"));
                *if here { &mut taken } else { &mut dropped } += 1;
            }
        }
        assert!(taken > 1_000 && dropped > 1_000, "{name}: {taken} taken, {dropped} not");
        toy.check_all();
    }
}
