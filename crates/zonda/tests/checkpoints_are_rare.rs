//! A full device is short of zones all the time; the log, which keeps to zones reserved for it, is not written out for that.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]

use zonda::{Error, Options};

#[test]
fn checkpoints_follow_the_log_on_a_device_that_is_nearly_full() {
    let db = Options::new().memory(2 << 20).seed(3).open("mem:?zones=160&zone_size=128KiB").unwrap();
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let mut keys = 0;
    let stats = || db.stats().unwrap();
    while stats().space.live_page_bytes * 3 < stats().space.usable_bytes * 2 {
        for _ in 0..1_000 {
            match db.put(key(keys), keys.to_le_bytes()) {
                Ok(()) => keys += 1,
                Err(Error::NoSpace { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let before = stats();
    for number in 0..2 * keys {
        db.put(key(number * 7 % keys), number.to_le_bytes()).unwrap();
    }
    let after = stats();
    assert!(after.space.zones_reset - before.space.zones_reset > 160, "nothing was reclaimed");
    let logged = after.written.log_bytes - before.written.log_bytes;
    let checkpoints = after.tree.checkpoints - before.tree.checkpoints;
    // The buffers have half a MiB or more, so a checkpoint is due every 2 MiB of log, or by the MetaLog's own growth.
    assert!(checkpoints <= 2 + logged / (1 << 20), "{checkpoints} checkpoints in {logged} bytes of log");
}
