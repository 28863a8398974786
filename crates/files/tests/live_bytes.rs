//! A check tells what is counted wrong: a zone that is said to have less than its files would be reset under them.

mod common;

use std::sync::Arc;

use common::{geometry, options_with, path};
use zonda_device::MemDevice;
use zonda_files::{FileKind, FileStore, FileTags, Finding, StoreId};

const BLOCK: u64 = 4096;

#[test]
fn a_zone_whose_live_bytes_are_counted_wrong_is_a_finding() {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options_with("liza-zns")).unwrap();
    let mut writer = store.create(&path("/a"), FileTags::of(FileKind::Data)).unwrap();
    writer.append(&[7; 20_000]).unwrap();
    writer.close().unwrap();
    let zone = store.extents(&path("/a")).unwrap()[0].zone;
    let expected = store.space().live_bytes(zone);
    let findings = || store.check().unwrap().findings;
    assert_eq!(findings(), []);
    store.space().add_live(zone, BLOCK);
    assert_eq!(findings(), [Finding::LiveBytes { zone, counted: expected + BLOCK, expected }]);
    store.space().sub_live(zone, 2 * BLOCK);
    assert_eq!(findings(), [Finding::LiveBytes { zone, counted: expected - BLOCK, expected }]);
    store.space().add_live(zone, BLOCK);
    assert_eq!(findings(), []);
}
