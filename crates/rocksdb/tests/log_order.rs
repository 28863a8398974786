//! What a power cut leaves of two logs has no hole: where the newer one has bytes, the older one is whole.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use zonda_device::{CutAt, Geometry, PowerCut};
use zonda_rocksdb::{System, Writable, offer_device};
use zonda_rt::{Rng, Seed};

const URI: &str = "zonda://process:log-order?create=on&log_buffer=16KiB";
/// Small enough that logs go on in another zone all the time.
const ZONE_BYTES: u64 = 64 << 10;
const RUNS: u64 = 200;

/// Writes logs of random lengths until the power goes; returns their lengths.
fn write(device: &PowerCut, rng: &mut Rng) -> Vec<u64> {
    let system = System::open(URI).unwrap();
    system.make_directory("/db").unwrap();
    device.arm(CutAt::Change(1 + rng.below(200)));
    let (mut lengths, mut open): (Vec<u64>, Vec<Writable>) = (Vec::new(), Vec::new());
    loop {
        let Ok(log) = system.create(&format!("/db/{:06}.log", lengths.len())) else { return lengths };
        lengths.push(0);
        for _ in 0..rng.below(60) {
            let bytes = 1 + rng.below(3000);
            *lengths.last_mut().unwrap() += bytes;
            if log.append(&vec![7; usize::try_from(bytes).unwrap()]).is_err() {
                return lengths;
            }
        }
        open.push(log);
        // RocksDB closes logs when it likes.
        if rng.below(2) == 0 {
            let at = usize::try_from(rng.below(open.len() as u64)).unwrap();
            if open.remove(at).close().is_err() {
                return lengths;
            }
        }
    }
}

#[test]
fn a_log_with_bytes_says_that_the_older_ones_are_whole() {
    let mut rng = Seed(7).rng();
    let mut found = 0;
    for run in 0..RUNS {
        let device = PowerCut::new(Geometry::new(ZONE_BYTES, 80).with_limits(14, 14)).unwrap();
        offer_device("log-order", Some(Arc::new(device.clone())));
        let lengths = write(&device, &mut rng);
        offer_device("log-order", Some(Arc::new(device.reopen(&mut rng))));
        let system = System::open(URI).unwrap();
        let size = |log: usize| system.info(&format!("/db/{log:06}.log")).map_or(0, |info| info.size_bytes);
        let newest = (0..lengths.len()).rev().find(|log| size(*log) > 0);
        for (log, length) in lengths.iter().enumerate().take(newest.unwrap_or(0)) {
            assert_eq!(size(log), *length, "run {run} of seed 7: log {log}, and {newest:?} has bytes");
            found += 1;
        }
    }
    assert!(found > RUNS, "{found} older logs");
    offer_device("log-order", None);
}
