//! An ordinary file shares its disk with others: a store there takes little more than what is live, long before it is full.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::os::unix::fs::MetadataExt;

use common::{Place, options};
use zonda::{Db, Options, StoreKind};

const ZONE_BYTES: u64 = 1 << 20;

/// Small zones in a large store whose background works when it is told to.
fn roomy(store: StoreKind) -> Options {
    options().memory(2 << 20).zone_bytes(ZONE_BYTES).capacity(1 << 30).store(store).background(false)
}

/// Writes pairs over and over, in no order; one of twenty stays, between those that do not.
fn overwrite(db: &Db, (pairs, value_bytes): (u64, usize), writes: u64) {
    for nth in 0..writes {
        let some = (nth * nth).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let number = if nth % 20 == 0 { pairs + nth } else { some % pairs };
        db.put(number.to_be_bytes(), vec![u8::try_from(nth % 251).unwrap(); value_bytes]).unwrap();
        if nth % 64 == 0 {
            db.step().unwrap();
        }
    }
    while db.step().unwrap() {}
}

/// Bytes of the store's file on the disk.
fn taken(place: &Place) -> u64 {
    std::fs::metadata(place.uri()).unwrap().blocks() * 512
}

#[test]
fn what_earlier_processes_left_dead_is_given_back() {
    for store in StoreKind::ALL {
        let place = Place::new();
        // One value lives; each life overwrites it several times and leaves a zone behind that holds little more. Some get part of the way
        // with reclaim, some end in a crash.
        for life in 0..40_u8 {
            let db = roomy(store).open(&place.uri()).unwrap();
            (0..4).for_each(|_| db.put("value", vec![life; 200_000]).unwrap());
            for _ in 0..life % 5 {
                db.step().unwrap();
            }
            if life % 7 == 6 {
                db.checkpoint().unwrap();
                let crashed = place.named("crashed");
                // With the holes from which a file tells how far its zones are written.
                let copied =
                    std::process::Command::new("cp").args(["--sparse=always", &place.uri(), &crashed]).status();
                assert!(copied.unwrap().success());
                db.close().unwrap();
                std::fs::rename(crashed, place.uri()).unwrap();
            }
        }
        let db = roomy(store).open(&place.uri()).unwrap();
        let space = db.stats().unwrap().space;
        let (known, held) = (space.live_value_bytes, u64::from(space.zones - space.free_zones));
        assert!(known <= ZONE_BYTES, "{store:?}: {known} bytes are said to be live of 200,000");
        assert!(held >= 10, "{store:?}: {held} zones are held, so there is something to give back");
        let before = taken(&place);
        db.compact(&mut |_, _| {}).unwrap();
        let space = db.stats().unwrap().space;
        assert!(space.live_value_bytes < ZONE_BYTES, "{store:?}: {} bytes", space.live_value_bytes);
        let left = u64::from(space.zones - space.free_zones);
        assert!(left <= 8 && taken(&place) < before, "{store:?}: {left} zones are held, of {held} before");
        assert_eq!(db.get("value").unwrap().unwrap(), vec![39; 200_000]);
    }
}

#[test]
fn what_was_deleted_is_given_back() {
    for (store, value_bytes) in [(StoreKind::Zoned, 100), (StoreKind::InPlace, 100), (StoreKind::InPlace, 5_000)] {
        let place = Place::new();
        let db = roomy(store).open(&place.uri()).unwrap();
        let pairs = 20_000_000 / value_bytes as u64;
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        (0..pairs).for_each(|number| db.put(key(number), vec![7; value_bytes]).unwrap());
        while db.step().unwrap() {}
        let before = taken(&place);
        (0..pairs).for_each(|number| db.delete(key(number)).unwrap());
        db.compact(&mut |_, _| {}).unwrap();
        while db.step().unwrap() {}
        let after = taken(&place);
        assert!(before > 20_000_000 && after < before / 4, "{store:?}, {value_bytes}: {after} bytes, {before} before");
    }
}

#[test]
fn a_file_that_is_written_over_and_over_takes_twice_what_is_live_and_a_little() {
    // Long values, which stand in the value log, and short ones, which take the room of dead ones in place.
    let (long, short) = ((64, 40_000, 2_000), (50_000, 60, 400_000));
    for (store, (pairs, value_bytes, writes)) in
        [(StoreKind::Zoned, long), (StoreKind::Zoned, short), (StoreKind::InPlace, long)]
    {
        let taken_by = |options: Options| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("store");
            let db = options.open(path.to_str().unwrap()).unwrap();
            overwrite(&db, (pairs, value_bytes), writes);
            let space = db.stats().unwrap().space;
            let live = space.live_page_bytes + space.live_value_bytes;
            (std::fs::metadata(&path).unwrap().blocks() * 512, live)
        };
        let (taken, live) = taken_by(roomy(store));
        // Eight zones that may be dead, what is being filled, log and MetaLog.
        let most = 2 * live + 20 * ZONE_BYTES;
        assert!(taken <= most, "{store:?}, {value_bytes}: {taken} bytes are taken, {live} live");
        let (unbounded, _) = taken_by(roomy(store).garbage(None));
        assert!(unbounded > most, "{store:?}, {value_bytes}: {unbounded} bytes without a limit, {most} with one");
    }
}
