//! Recovery of a whole store from damaged parts: a zone of frames, the log, the MetaLog.
//!
//! A small store with pages, buffered records, values and a checkpoint is made once, on a device in memory. Every input
//! replaces one part of it; then the tree is recovered, checked, written to and closed, or refused.

use std::{
    ops::Bound,
    sync::{Arc, OnceLock},
};

use zonda_device::{AlignedBuf, Geometry, MemDevice, ZoneId, ZonedDevice};
use zonda_pages::{Area, AreaKind, PageStore, StoreOptions, ZonedStore, fuzzing::seal_at};
use zonda_space::{StoreId, StreamId, ZoneHeader};
use zonda_tree::{Durability, Engine, TreeError, TreeOptions};

use crate::space::read_block;

const BLOCK_BYTES: usize = 4096;

/// Zones of the device, and blocks of each.
const ZONES: u32 = 40;
const ZONE_BLOCKS: u64 = 16;

/// The stream numbers of log and MetaLog in zone headers.
const LOG: StreamId = StreamId(0);
const META: StreamId = StreamId(1);

/// The log's chunks, each behind its length: the rest of the store is good.
pub fn tree_log(input: &[u8]) {
    recover_with(AreaKind::Log, input);
}

/// The MetaLog's chunks, each behind its length: the rest of the store is good.
pub fn tree_metalog(input: &[u8]) {
    recover_with(AreaKind::Meta, input);
}

/// The blocks of the zone that holds the MetaLog, behind its header: the store opens, its areas can be read, and the
/// tree is recovered or refused.
pub fn page_zone(input: &[u8]) {
    let zone = template().zone_of(META);
    let device = template().device_without(META);
    device.append(zone.id, &AlignedBuf::from_slice(&zone.blocks[0])).expect("an empty zone takes a block");
    let blocks_max = usize::try_from(ZONE_BLOCKS).expect("small") - 1;
    for block in input.chunks_exact(BLOCK_BYTES).take(blocks_max) {
        device.append(zone.id, &AlignedBuf::from_slice(block)).expect("the zone is not full");
    }
    let (store, _) = ZonedStore::open(device, &store_options()).expect("the zone headers are good");
    read_areas(&*store);
    use_tree(store);
}

pub(crate) fn tree_log_valid() -> Vec<Vec<u8>> {
    vec![template().log.clone(), Vec::new()]
}

pub(crate) fn tree_metalog_valid() -> Vec<Vec<u8>> {
    vec![template().meta.clone()]
}

pub(crate) fn page_zone_valid() -> Vec<Vec<u8>> {
    vec![template().zone_of(META).blocks[1..].concat()]
}

/// Makes the checksum of every frame right that begins at a block.
pub(crate) fn page_zone_seal(input: &mut [u8]) {
    let first = u64::from(template().zone_of(META).id.0) * ZONE_BLOCKS + 1;
    for (index, block) in (0..input.len()).step_by(BLOCK_BYTES).zip(first..) {
        seal_at(&mut input[index..], STORE.0, block);
    }
}

const STORE: StoreId = StoreId(7);

/// A zone with something in it.
struct Zone {
    id: ZoneId,
    stream: Option<StreamId>,
    blocks: Vec<Vec<u8>>,
}

/// A good store taken apart.
struct Template {
    zones: Vec<Zone>,
    log: Vec<u8>,
    meta: Vec<u8>,
}

impl Template {
    fn zone_of(&self, stream: StreamId) -> &Zone {
        self.zones.iter().find(|zone| zone.stream == Some(stream)).expect("the store has a log and a MetaLog")
    }

    /// A device with all zones but those of `stream`.
    fn device_without(&self, stream: StreamId) -> Arc<dyn ZonedDevice> {
        let device = device();
        for zone in self.zones.iter().filter(|zone| zone.stream != Some(stream)) {
            device.append(zone.id, &AlignedBuf::from_slice(&zone.blocks.concat())).expect("an empty zone takes them");
        }
        device
    }
}

fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| write_store().expect("an empty device takes a store"))
}

/// Writes a store as a crash leaves it: pages, a checkpoint with images, and a log behind it.
fn write_store() -> Result<Template, TreeError> {
    let device = device();
    let store = ZonedStore::create(Arc::clone(&device), &store_options())?;
    let engine = Engine::create(Arc::clone(&store) as Arc<dyn PageStore>, tree_options())?;
    for number in 0..600_u64 {
        engine.put(&number.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 20], Durability::Buffered)?;
    }
    engine.put(b"large", &[1; 5000], Durability::Buffered)?;
    engine.checkpoint()?;
    for number in 0..20_u64 {
        engine.put(&number.to_be_bytes(), &[8; 30], Durability::Buffered)?;
    }
    engine.delete(&3_u64.to_be_bytes(), Durability::Synced)?;
    let (log, meta) = (chunks_of(store.area(AreaKind::Log))?, chunks_of(store.area(AreaKind::Meta))?);
    Ok(Template { zones: read_zones(device.as_ref()), log, meta })
}

/// The payloads of an area, each behind its length in 4 bytes.
fn chunks_of(area: &dyn Area) -> Result<Vec<u8>, TreeError> {
    let mut chunks = Vec::new();
    for segment in area.segments() {
        area.read_segment(segment.id, &mut |chunk| {
            let len = u32::try_from(chunk.payload.len()).expect("a chunk fits a zone");
            chunks.extend_from_slice(&len.to_le_bytes());
            chunks.extend_from_slice(chunk.payload);
            Ok(true)
        })?;
    }
    Ok(chunks)
}

fn read_zones(device: &dyn ZonedDevice) -> Vec<Zone> {
    let reports = device.report(ZoneId(0), ZONES).expect("a memory device reports");
    let written = reports.iter().filter(|report| report.written_blocks() > 0);
    let zone = |report: &zonda_device::ZoneReport| {
        let blocks = (0..report.written_blocks()).map(|offset| read_block(device, report.start.plus(offset)));
        let blocks: Vec<_> = blocks.collect();
        let stream = ZoneHeader::decode(&blocks[0]).ok().and_then(|header| header.stream);
        Zone { id: report.zone, stream, blocks }
    };
    written.map(zone).collect()
}

/// Recovers the store with the chunks of one area from `input`.
fn recover_with(kind: AreaKind, input: &[u8]) {
    let stream = if kind == AreaKind::Log { LOG } else { META };
    let device = template().device_without(stream);
    let (store, _) = ZonedStore::open(device, &store_options()).expect("the zones are good");
    let mut rest = input;
    while let Some((len, after)) = rest.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*len) as usize;
        let (payload, after) = after.split_at(len.min(after.len()).min(store.area(kind).chunk_bytes_max()));
        if store.area(kind).append(payload).is_err() {
            break; // the device is full
        }
        rest = after;
    }
    use_tree(store);
}

pub(crate) fn read_areas(store: &dyn PageStore) {
    for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
        for segment in store.area(kind).segments() {
            let _ = store.area(kind).read_segment(segment.id, &mut |_| Ok(true));
        }
    }
}

/// Recovers the tree and does a little of everything; any error will do, a panic will not.
pub(crate) fn use_tree(store: Arc<dyn PageStore>) {
    let Ok(engine) = Engine::open(store, tree_options(), &mut |_| ()) else { return };
    let _ = engine.check(&mut |_, _| (), &mut |_| ());
    let _ = engine.put(b"key", b"value", Durability::Synced);
    if let Ok(snapshot) = engine.snapshot()
        && let Ok(mut cursor) = engine.scan(&snapshot, Bound::Unbounded, Bound::Unbounded)
    {
        while let Ok(Some(_)) = cursor.next() {}
    }
    let _ = engine.compact(&mut |_, _| ());
    let _ = engine.close();
}

fn device() -> Arc<dyn ZonedDevice> {
    let zone_bytes = ZONE_BLOCKS * BLOCK_BYTES as u64;
    Arc::new(MemDevice::new(Geometry::new(zone_bytes, ZONES)).expect("a legal geometry"))
}

pub(crate) fn store_options() -> StoreOptions {
    StoreOptions { store_id: STORE, read_cache_bytes: 0, log_limit_bytes: 64 << 10, ..StoreOptions::default() }
}

pub(crate) fn tree_options() -> TreeOptions {
    TreeOptions { buffer_bytes: 16 << 10, log_limit_bytes: 64 << 10, log_instances: 1, ..TreeOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovered(kind: AreaKind, chunks: &[u8]) -> Engine {
        let stream = if kind == AreaKind::Log { LOG } else { META };
        let (store, _) = ZonedStore::open(template().device_without(stream), &store_options()).unwrap();
        for chunk in split(chunks) {
            store.area(kind).append(chunk).unwrap();
        }
        Engine::open(store, tree_options(), &mut |_| ()).unwrap()
    }

    fn split(mut chunks: &[u8]) -> Vec<&[u8]> {
        let mut found = Vec::new();
        while let Some((len, rest)) = chunks.split_first_chunk::<4>() {
            let (chunk, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
            found.push(chunk);
            chunks = rest;
        }
        found
    }

    #[test]
    fn the_valid_parts_make_the_whole_store_again() {
        for (kind, chunks) in [(AreaKind::Log, &template().log), (AreaKind::Meta, &template().meta)] {
            let engine = recovered(kind, chunks);
            let mut findings = Vec::new();
            let report = engine.check(&mut |_, _| (), &mut |finding| findings.push(finding)).unwrap();
            assert!(findings.is_empty(), "{kind:?}: {findings:?}");
            assert!(report.leaves > 2 && report.values == 1, "{report:?}");
            let mut value = Vec::new();
            assert!(engine.get_into(&19_u64.to_be_bytes(), &mut value).unwrap());
            assert_eq!(value, [8; 30]);
            assert!(!engine.get_into(&3_u64.to_be_bytes(), &mut value).unwrap());
        }
    }
}
