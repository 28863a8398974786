//! A segment of values is closed once its last header is written: what is closed may be reset at any time, and be another segment's then.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::fmt;
use std::sync::{Arc, OnceLock};

use common::{Toy, id, in_place_options};
use zonda_device::{BlockDevice, DeviceCounters, DeviceError, IoQueue, Lba, MemBlockDevice};
use zonda_pages::{AreaKind, InPlaceStore, PageStore};
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};

type Between = Box<dyn Fn() + Send + Sync>;

/// A device before whose next write something happens, if that is one block.
struct Slow {
    device: MemBlockDevice,
    between: OnceLock<Between>,
    is_armed: AtomicBool,
}

impl fmt::Debug for Slow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(out)
    }
}

impl BlockDevice for Slow {
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
        if self.is_armed.swap(false, Ordering::Relaxed) && from.len() == 4096 {
            self.between.get().unwrap()();
        }
        self.device.write(at, from)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<(), DeviceError> {
        self.device.trim(at, blocks)
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>, DeviceError> {
        self.device.queue(depth)
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn describe(&self) -> String {
        self.device.describe()
    }
}

#[test]
fn a_segment_is_not_reset_before_its_last_header_is_written() {
    let device = MemBlockDevice::new(4096, 4096).unwrap();
    let device = Arc::new(Slow { device, between: OnceLock::new(), is_armed: AtomicBool::new(false) });
    let store = InPlaceStore::create(Arc::clone(&device) as Arc<dyn BlockDevice>, &in_place_options()).unwrap();
    let toy = Arc::new(Toy::new(store));
    let (reclaimer, pages) = (Arc::clone(&toy), AtomicU64::new(0));
    // Before the header is written that seals a segment, somebody else reclaims whatever he finds dead, and puts pages there.
    let between = move || {
        reclaimer.reclaim();
        let from = pages.fetch_add(130, Ordering::Relaxed);
        (from..from + 130).for_each(|n| reclaimer.put_without_waiting(id(n), n).unwrap());
        reclaimer.commit().unwrap();
    };
    device.between.set(Box::new(between)).unwrap_or_else(|_| panic!("set once"));
    toy.store.bear_garbage(false);
    for n in 0..200_u8 {
        // Two blocks: of one block are headers only.
        device.is_armed.store(true, Ordering::Relaxed);
        let at = toy.put_value(&[n; 5_000]).unwrap();
        device.is_armed.store(false, Ordering::Relaxed);
        toy.delete_value(at);
    }
    toy.commit().unwrap();
    let (store, _) = InPlaceStore::open(Arc::clone(&device) as Arc<dyn BlockDevice>, &in_place_options()).unwrap();
    let next = Toy::recover(store);
    next.check_committed(&toy);
    next.check_all();
    // As values lie there for the next life, so they do in this one.
    let segments = |toy: &Toy<InPlaceStore>| toy.store.area(AreaKind::Values).segments();
    assert_eq!(segments(&next), segments(&toy));
    next.put(id(7), 1_000, 1).unwrap();
    next.check_all();
}
