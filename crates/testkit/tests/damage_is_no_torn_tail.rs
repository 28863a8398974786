//! Everything was synced, then one block of the log or of the MetaLog is damaged: the store is refused, or it holds everything. Only of
//! the very newest chunk nobody can say whether it was torn by a crash.
mod common;

use common::{BLOCK_BYTES, Pairs, create, device, device_of, everything, image, open, reclaim, write_synced};
use zonda_space::{StreamId, ZoneHeader};

const ZONES: u32 = 90;
/// The streams of log and MetaLog.
const RECORDS: [StreamId; 2] = [StreamId(0), StreamId(1)];

/// Zone and block of all that is written of log and MetaLog.
fn record_blocks(image: &[Vec<u8>]) -> Vec<(usize, usize)> {
    let is_record = |bytes: &[u8]| {
        let header = bytes.get(..BLOCK_BYTES).and_then(|block| ZoneHeader::decode(block).ok());
        header.and_then(|header| header.stream).is_some_and(|stream| RECORDS.contains(&stream))
    };
    let zones = image.iter().enumerate().filter(|(_, bytes)| is_record(bytes));
    zones.flat_map(|(zone, bytes)| (1..bytes.len() / BLOCK_BYTES).map(move |block| (zone, block))).collect()
}

/// Damages each of these blocks alone. Answers how many stores were refused, and how many lost something without a word.
fn damage_each(image: &[Vec<u8>], expected: &Pairs) -> (usize, Vec<(usize, usize)>) {
    let (mut refused, mut silent) = (0, Vec::new());
    for (zone, block) in record_blocks(image) {
        let mut damaged = image.to_vec();
        damaged[zone][block * BLOCK_BYTES + 20] ^= 0x40;
        match open(device_of(&damaged)).and_then(|engine| everything(&engine)) {
            Err(_) => refused += 1,
            Ok(found) if found == *expected => {}
            Ok(_) => silent.push((zone, block)),
        }
    }
    (refused, silent)
}

#[test]
fn after_a_crash() {
    let disk = device(ZONES);
    let (_store, engine) = create(disk.clone());
    let expected = write_synced(&engine);
    let image = image(&*disk);
    assert_eq!(everything(&open(device_of(&image)).expect("undamaged")).expect("readable"), expected);
    let (refused, silent) = damage_each(&image, &expected);
    assert!(refused > 20, "{refused} refused");
    assert!(silent.len() <= 1, "I4 what was synced was lost without a word: zone and block {silent:?}");
}

#[test]
fn after_a_clean_close() {
    let disk = device(ZONES);
    let (_store, engine) = create(disk.clone());
    let expected = write_synced(&engine);
    reclaim(&engine);
    engine.close().expect("room");
    let image = image(&*disk);
    let (_, silent) = damage_each(&image, &expected);
    assert_eq!(silent, [], "I4 what was closed cleanly was lost without a word");
}
