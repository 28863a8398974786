//! A store in place on a device that does not read some blocks, or does not write them: that costs what lies there, and no more.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{Toy, in_place_options};
use zonda_device::{
    BlockDevice, Completion, DeviceCounters, DeviceError, Io, IoQueue, Lba, MemBlockDevice, Rejected, Result,
};
use zonda_pages::{
    AreaKind, ChunkAddress, InPlaceOptions, InPlaceStore, PageError, PageStore, Reclaimed, StoreOptions,
};
use zonda_rt::Mutex;

const BLOCKS: u64 = 4096;

/// Blocks of which some are not read and some not written for now, as the system says (EIO).
#[derive(Clone, Debug)]
struct BadBlocks {
    device: Arc<MemBlockDevice>,
    unreadable: Arc<Mutex<BTreeSet<u64>>>,
    unwritable: Arc<Mutex<BTreeSet<u64>>>,
}

impl BadBlocks {
    fn new() -> Self {
        let device = Arc::new(MemBlockDevice::new(4096, BLOCKS).unwrap());
        Self { device, unreadable: Arc::default(), unwritable: Arc::default() }
    }

    fn heal(&self) {
        self.unreadable.lock().clear();
        self.unwritable.lock().clear();
    }

    fn create(&self, options: &InPlaceOptions) -> Arc<InPlaceStore> {
        InPlaceStore::create(Arc::new(self.clone()), options).unwrap()
    }

    fn open(&self) -> std::result::Result<Arc<InPlaceStore>, PageError> {
        Ok(InPlaceStore::open(Arc::new(self.clone()), &in_place_options())?.0)
    }
}

fn check(bad: &Mutex<BTreeSet<u64>>, action: &'static str, at: Lba, bytes: usize) -> Result<()> {
    let end = at.0 + bytes as u64 / 4096;
    if bad.lock().range(at.0..end).next().is_none() {
        return Ok(());
    }
    let source = Arc::new(std::io::Error::from_raw_os_error(5));
    Err(DeviceError::Io { path: "bad".into(), action, source })
}

impl BlockDevice for BadBlocks {
    fn block_bytes(&self) -> u32 {
        self.device.block_bytes()
    }

    fn capacity_blocks(&self) -> u64 {
        self.device.capacity_blocks()
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        check(&self.unreadable, "read", at, into.len())?;
        self.device.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        check(&self.unwritable, "write", at, from.len())?;
        self.device.write(at, from)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        self.device.trim(at, blocks)
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(AtOnce { device: self.clone(), depth: depth as usize, done: Vec::new() }))
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}

/// Requests that are done when they are submitted.
#[derive(Debug)]
struct AtOnce {
    device: BadBlocks,
    depth: usize,
    done: Vec<Completion>,
}

impl IoQueue for AtOnce {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        let (result, buffer) = match io {
            Io::Read { at, mut into } => (self.device.read(at, &mut into).map(|()| at), Some(into)),
            Io::Write { at, from } => (self.device.write(at, &from).map(|()| at), Some(from)),
            Io::Append { .. } => panic!("there are no zones"),
            Io::Flush => (self.device.flush().map(|()| Lba(0)), None),
        };
        self.done.push(Completion { token, result, buffer });
        Ok(())
    }

    fn complete(&mut self, _min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        let done = self.done.len();
        out.append(&mut self.done);
        Ok(done)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn depth(&self) -> usize {
        self.depth
    }
}

/// What of the chunks of the log can be read, and why not all.
fn logged(store: &InPlaceStore) -> (Vec<u8>, Option<PageError>) {
    let log = store.area(AreaKind::Log);
    let mut found = Vec::new();
    let mut keep = |chunk: zonda_pages::Chunk<'_>| {
        found.push(chunk.payload[0]);
        Ok(true)
    };
    let read = log.segments().iter().try_for_each(|segment| log.read_segment(segment.id, &mut keep));
    (found, read.err())
}

/// Ten chunks of two blocks.
fn append_ten(store: &InPlaceStore, kind: AreaKind) -> Vec<ChunkAddress> {
    let area = store.area(kind);
    let chunks = (0..10_u8).map(|n| area.append(&[n; 5_000]).unwrap().0).collect();
    area.flush().unwrap();
    chunks
}

/// Whoever reads the log may want what comes before.
#[test]
fn a_block_of_the_log_that_is_not_read_is_no_reason_not_to_open_the_store() {
    for in_chunk in 0..2 {
        let device = BadBlocks::new();
        let chunks = append_ten(&device.create(&in_place_options()), AreaKind::Log);
        device.unreadable.lock().insert(chunks[3].0 + in_chunk);
        let store = device.open().unwrap();
        let (found, why) = logged(&store);
        assert_eq!(found, [0, 1, 2]);
        assert!(matches!(why, Some(PageError::Damaged { what: "chunk", .. })), "{why:?}");
        // It was for that moment only: nothing that is there now may be missing.
        device.heal();
        let (found, why) = logged(&store);
        assert!(found == (0..10).collect::<Vec<_>>() && why.is_none(), "{found:?} {why:?}");
    }
}

/// Without all of it nobody knows what lives.
#[test]
fn a_block_of_the_metalog_that_is_not_read_is_one() {
    let device = BadBlocks::new();
    let chunks = append_ten(&device.create(&in_place_options()), AreaKind::Meta);
    device.unreadable.lock().insert(chunks[3].0);
    let refused = device.open().map(drop).unwrap_err();
    assert!(matches!(refused, PageError::Damaged { what: "chunk", .. }), "{refused}");
    device.heal();
    device.open().unwrap();
}

#[test]
fn a_segment_header_or_a_superblock_that_is_not_read_costs_nothing() {
    let device = BadBlocks::new();
    let chunks = append_ten(&device.create(&in_place_options()), AreaKind::Log);
    for block in [chunks[0].0 - 1, 0, BLOCKS - 1] {
        *device.unreadable.lock() = BTreeSet::from([block]);
        let (found, why) = logged(&device.open().unwrap());
        assert!(found.len() == 10 && why.is_none(), "block {block}: {found:?} {why:?}");
    }
    // A device that reads neither may read them another time: that there is no store it does not say.
    *device.unreadable.lock() = BTreeSet::from([0, BLOCKS - 1]);
    let refused = device.open().map(drop).unwrap_err();
    assert!(matches!(refused, PageError::Device(_)), "{refused}");
}

/// The first of several segments that go together cannot be reset for now.
#[test]
fn a_segment_that_cannot_be_reset_keeps_no_other_from_being_so() {
    let device = BadBlocks::new();
    let toy: Toy<InPlaceStore> = Toy::new(device.create(&in_place_options()));
    let log = toy.store.area(AreaKind::Log);
    let first = log.append(&[7; 200_000]).unwrap().0;
    (0..4).for_each(|_| _ = log.append(&[7; 200_000]).unwrap());
    let segments = log.segments();
    assert_eq!(segments.len(), 5);
    segments.iter().for_each(|segment| log.release(segment.id).unwrap());
    device.unwritable.lock().insert(first.0 - 1);
    let reset = || toy.store.usage().zones_reset;
    assert!(toy.store.reclaim_step(&toy).is_err());
    assert_eq!(reset(), 4, "released segments");
    device.heal();
    toy.reclaim();
    assert_eq!(reset(), 5, "released segments");
}

/// Free segments once values that were written to twenty segments are dead and reclaimed; the first of them cannot be reset for a while.
fn free_after_values_died(fails: bool) -> u32 {
    let device = BadBlocks::new();
    let common = StoreOptions { garbage_percent_max: Some(10), ..in_place_options().common };
    let toy: Toy<InPlaceStore> = Toy::new(device.create(&InPlaceOptions { common, ..in_place_options() }));
    let values: Vec<_> = (0..20 * 21_u32).map(|n| toy.put_value(&[n.to_le_bytes()[0]; 9_000]).unwrap()).collect();
    values.iter().for_each(|&at| toy.delete_value(at));
    if fails {
        device.unwritable.lock().insert(values.iter().map(|at| at.0).min().unwrap() - 1);
        let reset = || toy.store.usage().zones_reset;
        let failed = (0..1_000).find_map(|_| {
            let before = reset();
            toy.store.reclaim_step(&toy).is_err().then_some(before)
        });
        assert_eq!(failed.map(|before| reset() - before), Some(7), "the others of its batch");
        device.heal();
    }
    toy.store.bear_garbage(false);
    while toy.store.reclaim_step(&toy).unwrap() == Reclaimed::Progress {}
    toy.store.usage().free_zones
}

#[test]
fn segments_of_dead_values_come_back_although_one_could_not_for_a_while() {
    assert_eq!(free_after_values_died(true), free_after_values_died(false));
}
