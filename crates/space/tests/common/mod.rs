//! What the tests share: a small device, the streams of a tree, and blocks to write.
#![allow(dead_code, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

pub(crate) mod model;

use std::sync::Arc;

use zonda_device::{AlignedBuf, Geometry, MemDevice, ZonedDevice};
use zonda_space::{BLOCK_BYTES, NewStore, Space, SpaceOptions, StoreId, StreamId, StreamSpec};

pub(crate) const LOG: StreamId = StreamId(0);
pub(crate) const META: StreamId = StreamId(1);
pub(crate) const HOT: StreamId = StreamId(2);
pub(crate) const VALUES: StreamId = StreamId(3);
pub(crate) const COLD: StreamId = StreamId(4);
pub(crate) const RELOCATED: StreamId = StreamId(5);

/// Blocks of a zone after its header.
pub(crate) const DATA_BLOCKS: u64 = 15;

/// 16 zones of 16 blocks of 4 KiB.
pub(crate) fn geometry(active_max: u32) -> Geometry {
    Geometry::new(64 << 10, 16).with_limits(active_max, active_max)
}

pub(crate) fn device(active_max: u32) -> Arc<MemDevice> {
    Arc::new(MemDevice::new(geometry(active_max)).unwrap())
}

pub(crate) fn streams() -> Vec<StreamSpec> {
    vec![
        StreamSpec::new(LOG, "log", 0).alone(),
        StreamSpec::new(META, "meta", 1).zones(2, 2).alone(),
        StreamSpec::new(HOT, "hot", 2).zones(1, 4),
        StreamSpec::new(VALUES, "values", 4),
        StreamSpec::new(COLD, "cold", 5).zones(1, 2),
        StreamSpec::new(RELOCATED, "relocated", 6).zones(1, 2),
    ]
}

pub(crate) fn options() -> SpaceOptions {
    SpaceOptions {
        client: *b"test\0\0\0\0",
        streams: streams(),
        known_features: 0b11,
        reserve_zones: 3,
        active_limit: None,
    }
}

pub(crate) fn new_store(id: u128) -> NewStore {
    NewStore { id: StoreId(id), features: 0b01, superblock: b"superblock".to_vec(), overwrite: false }
}

pub(crate) fn format(device: &Arc<MemDevice>) -> Space {
    Space::format(as_zoned(device), new_store(1), &options()).unwrap()
}

pub(crate) fn as_zoned(device: &Arc<MemDevice>) -> Arc<dyn ZonedDevice> {
    Arc::clone(device) as Arc<dyn ZonedDevice>
}

/// `count` blocks full of `byte`.
pub(crate) fn blocks(byte: u8, count: u64) -> AlignedBuf {
    let mut buffer = AlignedBuf::with_len(usize::try_from(count).unwrap() * BLOCK_BYTES);
    buffer.fill(byte);
    buffer
}

/// The byte that a block is full of.
pub(crate) fn byte_at(space: &Space, block: u64) -> u8 {
    let mut buffer = AlignedBuf::with_len(BLOCK_BYTES);
    space.read(block, &mut buffer).unwrap();
    assert!(buffer.iter().all(|&byte| byte == buffer[0]), "block {block} is mixed");
    buffer[0]
}
