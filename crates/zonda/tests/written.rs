//! What was written once stays counted as what it was.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]

use zonda::{Options, StoreKind, WrittenStats};

fn causes(written: &WrittenStats) -> [u64; 7] {
    let &WrittenStats {
        flush_bytes,
        relocation_bytes,
        log_bytes,
        journal_bytes,
        image_bytes,
        value_bytes,
        header_bytes,
        ..
    } = written;
    [flush_bytes, relocation_bytes, log_bytes, journal_bytes, image_bytes, value_bytes, header_bytes]
}

/// Checkpoints of full buffers write a hundred times what address records do in between.
#[test]
fn no_count_falls_when_another_grows() {
    for store in StoreKind::ALL {
        let options = Options::new().memory(4 << 20).capacity(256 << 20).seed(7).background(false).store(store);
        let db = options.open("mem:").unwrap();
        let mut before = db.stats().unwrap().written;
        for round in 0..40_u64 {
            for number in 0..5_000_u64 {
                let key = (round * 5_000 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                db.put(key, [7; 20]).unwrap();
            }
            db.step().unwrap();
            if round % 8 == 7 {
                db.checkpoint().unwrap();
            }
            let now = db.stats().unwrap().written;
            let fell = causes(&before).iter().zip(causes(&now)).any(|(before, now)| *before > now);
            assert!(!fell, "{store:?}, round {round}: {before:?} and then {now:?}");
            before = now;
        }
        assert!(before.journal_bytes > 0 && before.image_bytes > 0, "{store:?}: {before:?}");
    }
}
