//! Writes that `RocksDB` asks for and that nothing durable needs are not made; what it was promised stays true.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use zonda_device::{Geometry, PowerCut};
use zonda_rocksdb::{System, offer_device};
use zonda_rt::{Rng, Seed};

const NAME: &str = "small-writes";
const URI: &str = "zonda://process:small-writes?create=on";
/// What a power cut leaves of it.
const LEFT: &str = "small-writes-left";
const TABLES: u32 = 20;

/// A number of the report.
fn reported(system: &System, name: &str) -> u64 {
    let report = system.mount().report();
    let (_, behind) = report.split_once(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("{name} in {report}"));
    behind[..behind.find([',', '}']).unwrap()].parse().unwrap()
}

/// The device after a cut at this moment.
fn cut(device: &PowerCut, rng: &mut Rng) -> System {
    offer_device(LEFT, Some(Arc::new(device.reopen(rng))));
    System::open("zonda://process:small-writes-left").unwrap()
}

fn whole(system: &System, path: &str) -> Vec<u8> {
    let file = system.read(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size_bytes()).unwrap()];
    assert_eq!(file.read_at(0, &mut bytes, zonda_rocksdb::Reader::User).unwrap(), bytes.len());
    bytes
}

#[test]
fn only_what_durability_needs_is_written_and_it_survives() {
    let mut rng = Seed(11).rng();
    for closes_info_log in [false, true] {
        run(&mut rng, closes_info_log);
    }
    for name in [NAME, LEFT] {
        offer_device(name, None);
    }
}

fn run(rng: &mut Rng, closes_info_log: bool) {
    let device = PowerCut::new(Geometry::new(1 << 20, 80).with_limits(14, 14)).unwrap();
    offer_device(NAME, Some(Arc::new(device.clone())));
    let system = System::open(URI).unwrap();
    system.make_directory("/db").unwrap();
    system.sync_directory(false).unwrap();
    let before = reported(&system, "commits");
    let info_log = system.create("/db/LOG").unwrap();
    for number in 0..TABLES {
        let table = system.create(&format!("/db/{number:06}.sst")).unwrap();
        table.append(&[7; 10_000]).unwrap();
        table.sync().unwrap();
        table.close().unwrap();
        // Somebody else's change of names waits meanwhile, and may go on waiting.
        system.create(&format!("/db/{:06}.sst", number + 1000)).unwrap().close().unwrap();
        system.sync_directory(true).unwrap();
        info_log.append(b"a line\n").unwrap();
        info_log.flush().unwrap();
    }
    let tables = u64::from(TABLES);
    assert_eq!(reported(&system, "commits") - before, tables, "one for each table");
    assert_eq!((reported(&system, "directory_syncs"), reported(&system, "directory_syncs_spared")), (1, tables));
    let (flushes, put_off) = (reported(&system, "info_log_flushes"), reported(&system, "info_log_flushes_put_off"));
    // On a machine that stands still for a second between two, all of them.
    assert!(flushes >= 1 && flushes + put_off == tables, "{flushes} and {put_off}");
    assert_eq!(whole(&system, "/db/LOG").len(), 7 * TABLES as usize, "who reads it sees what waits");

    if closes_info_log {
        info_log.close().unwrap();
        system.sync_directory(false).unwrap();
    }
    let left = cut(&device, rng);
    for number in 0..TABLES {
        assert_eq!(whole(&left, &format!("/db/{number:06}.sst")), [7; 10_000], "table {number} was synced");
    }
    if closes_info_log {
        assert_eq!(whole(&left, "/db/LOG"), b"a line\n".repeat(TABLES as usize));
    }
}
