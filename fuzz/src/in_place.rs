//! The store in place: its superblock and segment headers, and opening a store that has damaged ones.

use std::sync::{Arc, OnceLock};

use zonda_device::{AlignedBuf, BlockDevice, Lba, MemBlockDevice};
use zonda_pages::{InPlaceOptions, InPlaceStore, PageStore, fuzzing};
use zonda_tree::{Durability, Engine, TreeError};

use crate::recovery::{read_areas, store_options, tree_options, use_tree};

const BLOCK_BYTES: usize = 4096;
/// Blocks of the device, and of each segment.
const BLOCKS: u64 = 640;
const SEGMENT_BLOCKS: u64 = 16;
/// Segments whose headers an input brings, behind both copies of the superblock.
const HEADERS: u64 = 12;

/// A superblock or the header of a segment: what decodes says the same when it is encoded and decoded again.
pub fn in_place_block(input: &[u8]) {
    assert!(fuzzing::in_place_superblock(input).unwrap_or(true), "another superblock");
    assert!(fuzzing::in_place_header(input).unwrap_or(true), "another header");
}

pub(crate) fn in_place_block_valid() -> Vec<Vec<u8>> {
    fuzzing::in_place_valid().into()
}

pub(crate) fn in_place_block_seal(input: &mut [u8]) {
    fuzzing::in_place_seal(input);
}

/// Both copies of the superblock and the first headers of a store: it opens, its areas can be read, and the tree is recovered, or it is
/// refused.
pub fn in_place_open(input: &[u8]) {
    let device = device();
    write(device.as_ref(), 0, template());
    for (at, block) in places().zip(input.chunks_exact(BLOCK_BYTES)) {
        write(device.as_ref(), at, block);
    }
    let Ok((store, _)) = InPlaceStore::open(device, &options()) else { return };
    read_areas(&*store);
    use_tree(store);
}

pub(crate) fn in_place_open_valid() -> Vec<Vec<u8>> {
    let block = |at| &template()[at * BLOCK_BYTES..][..BLOCK_BYTES];
    let places = places().map(|at| usize::try_from(at).expect("a small device"));
    vec![places.flat_map(block).copied().collect()]
}

pub(crate) fn in_place_open_seal(input: &mut [u8]) {
    input.chunks_exact_mut(BLOCK_BYTES).for_each(fuzzing::in_place_seal);
}

/// Where the blocks of an input go.
fn places() -> impl Iterator<Item = u64> {
    [0, BLOCKS - 1].into_iter().chain((0..HEADERS).map(|segment| (segment * SEGMENT_BLOCKS).max(1)))
}

/// The blocks of a store as a crash leaves it: pages, values, a checkpoint and a log behind it.
fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| write_store().expect("an empty device takes a store"))
}

fn write_store() -> Result<Vec<u8>, TreeError> {
    let device = device();
    let store = InPlaceStore::create(Arc::clone(&device), &options())?;
    let engine = Engine::create(store as Arc<dyn PageStore>, tree_options())?;
    for number in 0..600_u64 {
        engine.put(&number.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 20], Durability::Buffered)?;
    }
    engine.put(b"large", &[1; 5000], Durability::Buffered)?;
    engine.checkpoint()?;
    engine.delete(&3_u64.to_be_bytes(), Durability::Synced)?;
    let mut all = AlignedBuf::with_len(usize::try_from(BLOCKS).expect("few") * BLOCK_BYTES);
    device.read(Lba(0), &mut all).expect("a memory device can be read");
    Ok(all.to_vec())
}

fn write(device: &dyn BlockDevice, at: u64, bytes: &[u8]) {
    device.write(Lba(at), &AlignedBuf::from_slice(bytes)).expect("it lies within the device");
}

fn device() -> Arc<dyn BlockDevice> {
    Arc::new(MemBlockDevice::new(4096, BLOCKS).expect("a legal shape"))
}

fn options() -> InPlaceOptions {
    InPlaceOptions { common: store_options(), segment_blocks: SEGMENT_BLOCKS, ..InPlaceOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_valid_blocks_make_the_whole_store_again() {
        let device = device();
        write(device.as_ref(), 0, template());
        let (store, _) = InPlaceStore::open(device, &options()).unwrap();
        let engine = Engine::open(store, tree_options(), &mut |_| ()).unwrap();
        let mut findings = Vec::new();
        let report = engine.check(&mut |_, _| (), &mut |finding| findings.push(finding)).unwrap();
        assert!(findings.is_empty() && report.leaves > 2 && report.values == 1, "{findings:?} {report:?}");
    }
}
