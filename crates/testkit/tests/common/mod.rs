//! A small engine on a device in memory, and copies of its device.
#![allow(dead_code, reason = "not every test file uses all of it")]

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use zonda_device::{AlignedBuf, Geometry, MemDevice, ZoneId, ZonedDevice};
use zonda_pages::{StoreId, StoreOptions, ZonedStore};
use zonda_tree::{Durability, Engine, Step, TreeError, TreeOptions};

pub(crate) const BLOCK_BYTES: usize = 4096;

/// The pairs of a store.
pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn device(zones: u32) -> Arc<MemDevice> {
    Arc::new(MemDevice::new(Geometry::new(16 * BLOCK_BYTES as u64, zones)).expect("a legal geometry"))
}

pub(crate) fn store_options() -> StoreOptions {
    StoreOptions { store_id: StoreId(7), read_cache_bytes: 0, log_limit_bytes: 1 << 20, ..StoreOptions::default() }
}

pub(crate) fn tree_options() -> TreeOptions {
    TreeOptions { buffer_bytes: 32 << 10, log_limit_bytes: 1 << 20, ..TreeOptions::default() }
}

pub(crate) fn create(device: Arc<dyn ZonedDevice>) -> (Arc<ZonedStore>, Engine) {
    let store = ZonedStore::create(device, &store_options()).expect("an empty device takes a store");
    let engine = Engine::create(store.clone(), tree_options()).expect("an empty store takes a tree");
    (store, engine)
}

pub(crate) fn open(device: Arc<dyn ZonedDevice>) -> Result<Engine, TreeError> {
    let (store, _) = ZonedStore::open(device, &store_options())?;
    Engine::open(store, tree_options(), &mut |_| ())
}

/// Reclaims until there is nothing to do.
pub(crate) fn reclaim(engine: &Engine) {
    while engine.reclaim_step().expect("a sound store") == Step::Progress {}
}

pub(crate) fn put(engine: &Engine, pairs: &mut Pairs, number: u64) {
    let (key, value) = ((number * 7 % 61).to_be_bytes().to_vec(), number.to_le_bytes().repeat(5));
    engine.put(&key, &value, Durability::Synced).expect("room");
    pairs.insert(key, value);
}

/// Makes a store in which everything is synced: checkpoints with a log between and behind them, zones of released log reset.
pub(crate) fn write_synced(engine: &Engine) -> Pairs {
    let mut pairs = Pairs::new();
    for number in 0..120 {
        put(engine, &mut pairs, number);
        if number % 50 == 40 {
            engine.checkpoint().expect("room");
            reclaim(engine);
        }
    }
    pairs
}

pub(crate) fn everything(engine: &Engine) -> Result<Pairs, TreeError> {
    let snapshot = engine.snapshot()?;
    let mut cursor = engine.scan(&snapshot, Bound::Unbounded, Bound::Unbounded)?;
    let mut pairs = Pairs::new();
    while let Some((key, value)) = cursor.next()? {
        pairs.insert(key.to_vec(), value.to_vec());
    }
    Ok(pairs)
}

/// What is written in each zone.
pub(crate) fn image(device: &dyn ZonedDevice) -> Vec<Vec<u8>> {
    let reports = device.report(ZoneId(0), device.geometry().zone_count).expect("a memory device reports");
    let read = |report: &zonda_device::ZoneReport| {
        let blocks = usize::try_from(report.written_blocks()).expect("a small zone");
        let mut bytes = AlignedBuf::with_len(blocks * BLOCK_BYTES);
        if blocks > 0 {
            device.read(report.start, &mut bytes).expect("a memory device reads");
        }
        bytes.to_vec()
    };
    reports.iter().map(read).collect()
}

/// A device with these zones.
pub(crate) fn device_of(image: &[Vec<u8>]) -> Arc<MemDevice> {
    let device = device(u32::try_from(image.len()).expect("few zones"));
    for (zone, bytes) in (0..).map(ZoneId).zip(image).filter(|(_, bytes)| !bytes.is_empty()) {
        device.append(zone, &AlignedBuf::from_slice(bytes)).expect("an empty zone takes them");
    }
    device
}
