//! A store that is only read has the memory that it was given where reads need it, too.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::sync::OnceLock;

use common::Place;
use zonda::{Db, Design, Error, MemoryStats, Options};
use zonda_rt::Seed;

const MIB: u64 = 1 << 20;
const BUDGET_BYTES: u64 = 4 * MIB;
const PAIRS: u64 = 300_000;
const BLOCK_BYTES: usize = 4096;
const FAVOURITES: u64 = 40_000;
/// Rounds of gets beside the store's own thread: far more than it takes.
const ROUNDS_MAX: u32 = 100;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn options() -> Options {
    Options::new().memory(BUDGET_BYTES).capacity(1 << 30).seed(7).direct_io(false)
}

/// A store in a file, all of it merged; loaded once for all tests, each of which has a copy.
fn loaded(place: &Place) {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = FILE.get_or_init(load);
    let mut file = File::create_new(place.uri()).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    // Holes stay holes.
    for (at, block) in (0..).step_by(BLOCK_BYTES).zip(bytes.chunks(BLOCK_BYTES)) {
        if block.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(block)).unwrap();
        }
    }
}

fn load() -> Vec<u8> {
    let place = Place::new();
    let db = options().open(&place.uri()).unwrap();
    (0..PAIRS).for_each(|number| db.put(key(number), number.to_be_bytes()).unwrap());
    db.compact(&mut |_, _| {}).unwrap();
    db.close().unwrap();
    fs::read(place.uri()).unwrap()
}

/// Gets of favourites, the first ones most, `between` after each hundred.
fn read(db: &Db, seed: u64, gets: u64, between: impl Fn()) {
    let mut rng = Seed(seed).rng();
    for count in 0..gets {
        let draw = rng.next_u64() % FAVOURITES;
        let number = draw * draw / FAVOURITES;
        assert_eq!(db.get(key(number)).unwrap(), Some(number.to_be_bytes().to_vec()));
        if count % 100 == 0 {
            between();
        }
    }
}

fn memory(db: &Db) -> MemoryStats {
    db.stats().unwrap().memory
}

#[test]
fn favourites_of_readers_are_kept() {
    let place = Place::new();
    loaded(&place);
    let db = options().background(false).open_read_only(&place.uri()).unwrap();
    read(&db, 7, 300_000, || assert!(!db.step().unwrap(), "there is nothing to be written"));
    let (memory, before) = (memory(&db), db.stats().unwrap().tree);
    assert!(memory.record_cache_bytes > BUDGET_BYTES / 16 && memory.peak_bytes <= BUDGET_BYTES, "I6 {memory:?}");
    read(&db, 8, 20_000, || ());
    let hits = db.stats().unwrap().tree.record_hits - before.record_hits;
    assert!(hits > 18_000, "{hits} of 20,000 from memory, {memory:?}");
}

#[test]
fn a_thread_of_the_store_sees_to_it() {
    let place = Place::new();
    loaded(&place);
    let db = options().open_read_only(&place.uri()).unwrap();
    let rounds = (0..ROUNDS_MAX).find(|round| {
        read(&db, (*round).into(), 5_000, || ());
        zonda_rt::sleep(std::time::Duration::from_millis(20));
        memory(&db).record_cache_bytes > BUDGET_BYTES / 16
    });
    assert!(rounds.is_some(), "{:?}", memory(&db));
    db.close().unwrap();
}

/// The file, and what readers find, are as before; what is larger than at the opening is refused as ever.
#[test]
fn the_budget_of_readers_changes_too() {
    let place = Place::new();
    loaded(&place);
    let before = fs::read(place.uri()).unwrap();
    for design in Design::ALL {
        let with = options().memory(16 * MIB).design(design).background(false);
        let db = with.open_read_only(&place.uri()).unwrap();
        read(&db, 7, 100_000, || _ = db.step().unwrap());
        db.set_memory(BUDGET_BYTES).unwrap();
        let less = memory(&db);
        assert!(
            less.budget_bytes == BUDGET_BYTES && less.used_bytes <= BUDGET_BYTES,
            "I6 at once, {design:?}: {less:?}"
        );
        read(&db, 8, 20_000, || _ = db.step().unwrap());
        db.set_memory(16 * MIB).unwrap();
        assert!(matches!(db.set_memory(16 * MIB + 1), Err(Error::BadOption { name: "memory", .. })), "{design:?}");
        read(&db, 9, 20_000, || _ = db.step().unwrap());
        let other = db.clone();
        db.close().unwrap();
        assert!(matches!(other.set_memory(BUDGET_BYTES), Err(Error::Closed)), "{design:?}");
        drop(other);
        assert!(before == fs::read(place.uri()).unwrap(), "{design:?}: the file changed");
    }
}

/// Merged they would take more memory, not less: nothing is written.
#[test]
fn readers_keep_the_changes_that_the_log_left() {
    let place = Place::new();
    loaded(&place);
    let options = options().memory(16 * MIB).background(false);
    let db = options.open(&place.uri()).unwrap();
    (0..PAIRS / 3).for_each(|number| db.put(key(number), [7; 20]).unwrap());
    db.sync().unwrap();
    let crashed = place.named("crashed");
    fs::copy(place.uri(), &crashed).unwrap();
    let db = options.open_read_only(&crashed).unwrap();
    let (before, merges) = (memory(&db), db.stats().unwrap().tree.merges);
    assert!(before.buffer_bytes > 2 * MIB, "{before:?}");
    let refused = db.set_memory(2 * MIB);
    let Err(Error::TooLittleMemory { bytes_needed, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(memory(&db).budget_bytes, 16 * MIB);
    db.set_memory(bytes_needed).unwrap();
    let after = memory(&db);
    assert!(bytes_needed < 16 * MIB && after.used_bytes <= bytes_needed, "I6: {after:?}");
    assert_eq!((after.buffer_bytes, db.stats().unwrap().tree.merges), (before.buffer_bytes, merges));
    (0..PAIRS / 3).for_each(|number| assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&[7; 20][..])));
}
