//! Pages read ahead are in flight together, on both kinds of device, and are never older than the page that they stand for.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::sync::Arc;

use common::{Toy, id};
use zonda_device::{
    BlockDevice, Completion, DeviceCounters, DeviceError, Io, IoQueue, Lba, MemBlockDevice, Rejected, ZonedDevice,
};
use zonda_pages::{
    AreaKind, ChunkAddress, InPlaceOptions, InPlaceStore, PageError, PageStore, StoreOptions, ZonedStore,
};
use zonda_rt::Rng;
use zonda_rt::atomic::{AtomicUsize, Ordering};

fn uncached() -> StoreOptions {
    StoreOptions { read_cache_bytes: 0, ..common::options() }
}

fn in_place(device: Arc<dyn BlockDevice>) -> Arc<InPlaceStore> {
    let options = InPlaceOptions { common: uncached(), ..common::in_place_options() };
    InPlaceStore::create(device, &options).unwrap()
}

/// A device whose queues say how many requests were in flight at the most.
#[derive(Debug)]
struct Watched {
    device: Arc<MemBlockDevice>,
    most: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct WatchedQueue {
    queue: Box<dyn IoQueue>,
    most: Arc<AtomicUsize>,
}

impl IoQueue for WatchedQueue {
    fn submit(&mut self, token: u64, io: Io) -> Result<(), Box<Rejected>> {
        self.queue.submit(token, io)?;
        self.most.fetch_max(self.queue.in_flight(), Ordering::SeqCst);
        Ok(())
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize, DeviceError> {
        self.queue.complete(min, out)
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    fn depth(&self) -> usize {
        self.queue.depth()
    }
}

impl BlockDevice for Watched {
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
        Ok(Box::new(WatchedQueue { queue: self.device.queue(depth)?, most: Arc::clone(&self.most) }))
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}

#[test]
fn pages_of_a_store_in_place_are_in_flight_together_and_read_once() {
    const PAGES: u64 = 24;
    let most = Arc::new(AtomicUsize::new(0));
    let device = Arc::new(Watched { device: common::block_device(), most: Arc::clone(&most) });
    let toy = Toy::new(in_place(device.clone()));
    (0..PAGES).for_each(|n| toy.put(id(n), n, 1).unwrap());
    toy.settle().unwrap();
    most.store(0, Ordering::SeqCst);
    let reads = device.counters().reads;
    let pages: Vec<_> = (0..PAGES).map(|n| (id(n), toy.leaves.lock()[&id(n)].at)).collect();
    let mut ahead = toy.store.read_ahead().expect("it reads ahead");
    ahead.want(&pages);
    assert_eq!(most.load(Ordering::SeqCst), 24, "all of them before the first is taken");
    for (n, &(page, at)) in (0..).zip(&pages) {
        assert!(ahead.take(page, at, &mut |body| assert_eq!(body, toy.body(page, n, 1))), "page {n}");
    }
    assert_eq!(device.counters().reads - reads, PAGES);
    assert!(!ahead.take(pages[0].0, pages[0].1, &mut |_| ()), "each is handed out once");
}

/// Large values, and the segments of one: as many in flight as there are, but 4 MiB.
#[test]
fn chunks_are_in_flight_together_and_each_is_read_once() {
    let most = Arc::new(AtomicUsize::new(0));
    let device = Arc::new(Watched { device: common::block_device(), most: Arc::clone(&most) });
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
    assert_eq!((reads, most.load(Ordering::SeqCst)), (24, 24));
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
