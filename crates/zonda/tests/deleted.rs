//! Where everything was deleted a scan reads each page that is left once at the most, and compaction leaves nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::options;
use zonda::{Db, Design, StoreKind};

/// Their deletes are four times as long as leaf buffers.
const PAIRS: u64 = 400_000;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn emptied(design: Design, store: StoreKind) -> (Db, u64) {
    // Room enough that nobody asks a scan's snapshot for the space that it holds.
    let db = options().memory(2 << 20).capacity(1 << 30).design(design).store(store).open("mem:").unwrap();
    (0..PAIRS).for_each(|number| db.put(key(number), number.to_be_bytes()).unwrap());
    let leaves = db.stats().unwrap().tree.leaves;
    (0..PAIRS).for_each(|number| db.delete(key(number)).unwrap());
    (db, leaves)
}

#[test]
fn a_scan_of_what_was_deleted_costs_no_more_than_its_pages() {
    for store in StoreKind::ALL {
        for design in [Design::Adb, Design::BfTree] {
            let (db, leaves) = emptied(design, store);
            let before = db.stats().unwrap();
            let left: Vec<_> = db.iter().unwrap().collect::<zonda::Result<_>>().unwrap();
            assert!(left.is_empty(), "{design:?} {store:?}: {left:?}");
            assert!(db.iter().unwrap().next_back().is_none());
            let after = db.stats().unwrap();
            let scanned = after.tree.leaf_reads - before.tree.leaf_reads;
            assert!(scanned <= 2 * leaves, "{design:?} {store:?}: {scanned} pages of {leaves} for two scans");
            db.compact(&mut |_, _| {}).unwrap();
            let live = db.stats().unwrap().space.live_page_bytes;
            assert!(live <= 4096, "{design:?} {store:?}: {live} bytes live of nothing");
        }
    }
}
