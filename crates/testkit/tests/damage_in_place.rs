//! As of a store on zones: everything was synced, then one block of a store in place is damaged, or zeros. The store is refused, or it
//! holds everything. Only of the very newest chunk nobody can say whether it was torn by a crash.
mod common;

use std::sync::Arc;

use common::{BLOCK_BYTES, Pairs, everything, put, reclaim, store_options, tree_options, write_synced};
use zonda_device::{AlignedBuf, BlockDevice, Lba, MemBlockDevice};
use zonda_pages::{InPlaceOptions, InPlaceStore};
use zonda_tree::{Engine, TreeError};

const BLOCKS: u64 = 90 * 16;

/// All blocks.
type Image = Vec<Vec<u8>>;

type Damage = fn(&mut [u8]);

/// What may become of a block.
const DAMAGE: [(&str, Damage); 2] = [("a flipped bit", |block| block[20] ^= 0x40), ("zeros", |block| block.fill(0))];

fn device() -> Arc<MemBlockDevice> {
    Arc::new(MemBlockDevice::new(4096, BLOCKS).expect("a legal geometry"))
}

fn options() -> InPlaceOptions {
    InPlaceOptions { common: store_options(), segment_blocks: 16, ..InPlaceOptions::default() }
}

fn create(device: Arc<MemBlockDevice>) -> Engine {
    let store = InPlaceStore::create(device, &options()).expect("an empty device takes a store");
    Engine::create(store, tree_options()).expect("an empty store takes a tree")
}

fn open(device: Arc<MemBlockDevice>) -> Result<Engine, TreeError> {
    let (store, _) = InPlaceStore::open(device, &options())?;
    Engine::open(store, tree_options(), &mut |_| ())
}

fn image(device: &MemBlockDevice) -> Image {
    let mut block = AlignedBuf::with_len(BLOCK_BYTES);
    let read = |at: u64| {
        device.read(Lba(at), &mut block).expect("a memory device reads");
        block.to_vec()
    };
    (0..BLOCKS).map(read).collect()
}

fn is_written(block: &[u8]) -> bool {
    block.iter().any(|byte| *byte != 0)
}

/// A device with these blocks, one of them damaged.
fn damaged(image: &Image, at: usize, damage: Damage) -> Arc<MemBlockDevice> {
    let device = device();
    for (number, block) in image.iter().enumerate().filter(|(_, block)| is_written(block)) {
        let mut block = AlignedBuf::from_slice(block);
        if number == at {
            damage(&mut block);
        }
        device.write(Lba(number as u64), &block).expect("a memory device writes");
    }
    device
}

/// Damages each written block alone. Answers how many stores were refused, and which blocks were missed without a word.
fn damage_each(image: &Image, expected: &Pairs) -> (usize, Vec<(usize, &'static str)>) {
    let (mut refused, mut silent) = (0, Vec::new());
    let written = image.iter().enumerate().filter(|(_, block)| is_written(block)).map(|(at, _)| at);
    for (at, (what, damage)) in written.flat_map(|at| DAMAGE.map(|damage| (at, damage))) {
        match open(damaged(image, at, damage)).and_then(|engine| everything(&engine)) {
            Err(_) => refused += 1,
            Ok(found) if found == *expected => {}
            Ok(_) => silent.push((at, what)),
        }
    }
    (refused, silent)
}

#[test]
fn after_a_crash() {
    let disk = device();
    let engine = create(disk.clone());
    let mut expected = write_synced(&engine);
    let before = image(&disk);
    put(&engine, &mut expected, 1_000);
    let image = image(&disk);
    let is_newest = |at: usize| before[at] != image[at];
    let (refused, mut silent) = damage_each(&image, &expected);
    silent.retain(|(at, _)| !is_newest(*at));
    assert!(refused > 20 && (0..image.len()).filter(|at| is_newest(*at)).count() == 1, "{refused} refused");
    assert_eq!(silent, [], "I4 what was synced was lost without a word");
}

#[test]
fn after_a_clean_close() {
    let disk = device();
    let engine = create(disk.clone());
    let expected = write_synced(&engine);
    reclaim(&engine);
    engine.close().expect("room");
    let (_, silent) = damage_each(&image(&disk), &expected);
    assert_eq!(silent, [], "I4 what was closed cleanly was lost without a word");
}
