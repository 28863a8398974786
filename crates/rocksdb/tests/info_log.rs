//! What an info log costs while it is written for months. In a file of its own: in a simulation nobody else uses the process's mounts.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;
use std::time::Duration;

use zonda_device::{Geometry, MemDevice};
use zonda_rocksdb::{Reader, System, offer_device};
use zonda_rt::{sim, sleep};

/// A database that says a line a second keeps no extent for each of them.
#[test]
fn an_info_log_is_written_by_blocks_or_by_minutes() {
    const LINES: usize = 2_000;
    const LINE: [u8; 100] = [b'l'; 100];
    sim::run(1, || {
        offer_device("lines", Some(Arc::new(MemDevice::new(Geometry::new(1 << 20, 80).with_limits(14, 14)).unwrap())));
        let system = System::open("zonda://process:lines?create=on").unwrap();
        system.make_directory("/db").unwrap();
        let info_log = system.create("/db/LOG").unwrap();
        for _ in 0..LINES {
            info_log.append(&LINE).unwrap();
            info_log.flush().unwrap();
            sleep(Duration::from_secs(1));
        }
        let report = system.mount().report();
        let (_, behind) = report.split_once("\"info_log_flushes\": ").unwrap();
        let flushes: usize = behind[..behind.find([',', '}']).unwrap()].parse().unwrap();
        let most = 1 + LINES * LINE.len() / 4096 + LINES / 60;
        assert!((LINES / 60..=most).contains(&flushes), "{flushes} flushes of {LINES} lines");
        let file = system.read("/db/LOG").unwrap();
        let mut bytes = vec![0; LINES * LINE.len() + 1];
        let count = file.read_at(0, &mut bytes, Reader::User).unwrap();
        assert!(
            count == LINES * LINE.len() && bytes[..count].iter().all(|byte| *byte == b'l'),
            "who reads it sees all"
        );
    });
}
