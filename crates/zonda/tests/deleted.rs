//! Where everything was deleted a scan reads each page that is left once at the most; the background gives nearly all space back,
//! compaction all of it.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::options;
use zonda::{Db, Design, StoreKind};

/// Their deletes are twice as long as leaf buffers.
const PAIRS: u64 = 150_000;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A store whose background works when it is told to.
fn filled(design: Design, store: StoreKind) -> Db {
    // Room enough that nobody asks a scan's snapshot for the space that it holds.
    let options = options().memory(2 << 20).capacity(1 << 30).background(false);
    let db = options.design(design).store(store).open("mem:").unwrap();
    (0..PAIRS).for_each(|number| db.put(key(number), number.to_be_bytes()).unwrap());
    db
}

/// One whose pairs were all deleted, and whose background has done nothing.
fn emptied(design: Design, store: StoreKind) -> Db {
    let db = filled(design, store);
    (0..PAIRS).for_each(|number| db.delete(key(number)).unwrap());
    db
}

#[test]
fn a_scan_of_what_was_deleted_costs_no_more_than_its_pages() {
    for store in StoreKind::ALL {
        for design in Design::ALL {
            let db = emptied(design, store);
            let live_bytes = db.stats().unwrap().space.live_page_bytes;
            for backwards in [false, true] {
                let before = db.stats().unwrap().device;
                let mut left = db.iter().unwrap();
                assert!(if backwards { left.next_back() } else { left.next() }.is_none(), "{design:?} {store:?}");
                let after = db.stats().unwrap().device;
                let (bytes, reads) = (after.read_bytes - before.read_bytes, after.reads - before.reads);
                assert!(
                    bytes <= live_bytes + live_bytes / 10 && reads <= live_bytes / 4096 + 10,
                    "{design:?} {store:?}: {reads} reads of {bytes} bytes where {live_bytes} are live"
                );
                // Else the test would say nothing. Buffers of whole pages answer for those that they delete.
                let must_read = design == Design::Adb;
                assert!(!must_read || bytes >= live_bytes / 4, "{store:?}: {bytes} bytes where {live_bytes} are live");
            }
            db.compact(&mut |_, _| {}).unwrap();
            let live_bytes = db.stats().unwrap().space.live_page_bytes;
            assert!(live_bytes <= 4096, "{design:?} {store:?}: {live_bytes} bytes live of nothing");
        }
    }
}

#[test]
fn the_background_gives_the_space_of_deletes_back() {
    for store in StoreKind::ALL {
        for design in Design::ALL {
            let db = filled(design, store);
            let live_bytes = |db: &Db| db.stats().unwrap().space.live_page_bytes;
            let full_bytes = live_bytes(&db);
            (0..PAIRS).for_each(|number| db.delete(key(number)).unwrap());
            while db.step().unwrap() {}
            let (left_bytes, leaves) = (live_bytes(&db), db.stats().unwrap().tree.leaves);
            assert!(left_bytes <= full_bytes / 20, "{design:?} {store:?}: {left_bytes} of {full_bytes} bytes live");
            assert!(leaves <= full_bytes / 4096 / 10, "{design:?} {store:?}: {leaves} leaves");
            assert!(db.iter().unwrap().next().is_none(), "{design:?} {store:?}");
        }
    }
}
