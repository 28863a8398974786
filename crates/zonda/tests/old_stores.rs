//! Stores that earlier versions made open in this one: `tests/stores` keeps one of each format version.
//!
//! A kept store is the blocks of its file that are not zero: the file's length, then offset and bytes of each block, numbers in eight
//! bytes, little-endian. It was copied while it was open, so that opening it is a recovery: a checkpoint, address records and log.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::Place;
use zonda::{Batch, Db, Options};

const BLOCK_BYTES: usize = 4096;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn kept(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/stores/version-{version}.blocks"))
}

fn unpack(kept: &Path, to: &str) {
    let bytes = fs::read(kept).unwrap();
    let number = |at: usize| usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap();
    let mut file = vec![0; number(0)];
    for at in (8..bytes.len()).step_by(8 + BLOCK_BYTES) {
        file[number(at)..number(at) + BLOCK_BYTES].copy_from_slice(&bytes[at + 8..at + 8 + BLOCK_BYTES]);
    }
    fs::write(to, file).unwrap();
}

fn pack(file: &str, to: &Path) {
    let bytes = fs::read(file).unwrap();
    let mut packed = (bytes.len() as u64).to_le_bytes().to_vec();
    for (number, block) in
        bytes.chunks_exact(BLOCK_BYTES).enumerate().filter(|(_, block)| block.iter().any(|b| *b != 0))
    {
        packed.extend(((number * BLOCK_BYTES) as u64).to_le_bytes());
        packed.extend(block);
    }
    fs::write(to, packed).unwrap();
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{:05}", number.wrapping_mul(7_919) % 10_007).into_bytes()
}

/// The first half of what a kept store went through; a checkpoint follows.
fn before_the_checkpoint(put: &mut dyn FnMut(Vec<u8>, Option<Vec<u8>>)) {
    for number in 0..600 {
        put(key(number), Some(vec![b'v'; number as usize % 60]));
    }
    put(b"large".to_vec(), Some(vec![b'L'; 20_000]));
    (0..600).step_by(50).for_each(|number| put(key(number), None));
}

/// The second half, which only the log has.
fn after_the_checkpoint(put: &mut dyn FnMut(Vec<u8>, Option<Vec<u8>>)) {
    for number in 300..900 {
        put(key(number), Some(number.to_le_bytes().to_vec()));
    }
    (1..900).step_by(50).for_each(|number| put(key(number), None));
    put(b"".to_vec(), Some(b"the empty key".to_vec()));
}

fn model() -> Model {
    let mut model = Model::new();
    let mut put = |key, value| match value {
        Some(value) => drop(model.insert(key, value)),
        None => drop(model.remove(&key)),
    };
    before_the_checkpoint(&mut put);
    after_the_checkpoint(&mut put);
    model
}

fn assert_whole(db: &Db) {
    let found: Model = db.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(found, model());
    let tree = db.tree("other").unwrap();
    assert_eq!(tree.get("in a batch").unwrap(), Some(b"yes".to_vec()));
    assert_eq!(tree.get("after the checkpoint").unwrap(), Some(b"yes".to_vec()));
    db.check(&mut |_, _| {}, &mut |finding| panic!("{finding}")).unwrap();
}

#[test]
fn a_store_of_version_2_opens_and_goes_on() {
    let place = Place::new();
    unpack(&kept(2), &place.uri());
    let db = Options::new().memory(4 << 20).open(&place.uri()).unwrap();
    assert_whole(&db);
    db.put("new", "pair").unwrap();
    db.close().unwrap();
    let db = Options::new().memory(4 << 20).open(&place.uri()).unwrap();
    assert_eq!(db.get("new").unwrap(), Some(b"pair".to_vec()));
    db.delete("new").unwrap();
    assert_whole(&db);
}

#[test]
#[ignore = "makes tests/stores/version-N.blocks, once for each new format version, into the directory ZONDA_KEEP_STORE"]
fn keep_a_store_of_this_version() {
    let to = std::env::var("ZONDA_KEEP_STORE").unwrap();
    let place = Place::new();
    let db = Options::new().memory(4 << 20).seed(7).open(&format!("{}?zone_size=64KiB&zones=96", place.uri())).unwrap();
    let mut put = |key: Vec<u8>, value: Option<Vec<u8>>| match value {
        Some(value) => db.put(key, value).unwrap(),
        None => db.delete(key).unwrap(),
    };
    before_the_checkpoint(&mut put);
    let tree = db.tree("other").unwrap();
    let mut batch = Batch::new();
    batch.put_in(&tree, "in a batch", "yes");
    db.write(batch).unwrap();
    db.checkpoint().unwrap();
    after_the_checkpoint(&mut put);
    tree.put("after the checkpoint", "yes").unwrap();
    db.sync().unwrap();
    assert_whole(&db);
    pack(&place.uri(), &Path::new(&to).join("version-now.blocks"));
}
