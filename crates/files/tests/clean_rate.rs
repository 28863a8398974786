//! How fast cleaning in the background copies. In virtual time.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{geometry, options_with, path};
use zonda_device::MemDevice;
use zonda_files::{Cleaner, FileKind, FileStore, FileStoreOptions, FileTags, StoreId};
use zonda_rt::{now, sim, sleep};

/// Bytes per second.
const RATE: u64 = 20 << 10;
const COPIED: u64 = 100 << 10;

/// Zones half of which are dead.
fn half_dead() -> FileStore {
    let options = FileStoreOptions { clean_below_free_percent: 90, ..options_with("liza-zns") };
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options).unwrap();
    for file in 0..20 {
        let mut writer = store.create(&path(&format!("/{file}")), FileTags::of(FileKind::Data)).unwrap();
        writer.append(&[7; 30_000]).unwrap();
        writer.close().unwrap();
    }
    (0..20).step_by(2).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
    store
}

/// The time in which so much, or a little more, is copied, and how much.
fn copying(rate: u64) -> (Duration, u64) {
    sim::run(1, || {
        let store = half_dead();
        store.set_clean_rate(rate);
        let began = now();
        let _cleaner = Cleaner::start(store.clone()).unwrap();
        while store.usage().copied_bytes < COPIED {
            sleep(Duration::from_millis(10));
        }
        (now().since(began), store.usage().copied_bytes)
    })
}

#[test]
fn no_more_is_copied_in_a_second_than_the_rate_lets_and_not_much_less() {
    let (took, copied) = copying(RATE);
    let least = Duration::from_secs(copied / RATE);
    assert!((least..2 * least).contains(&took), "{copied} bytes took {took:?} at {RATE} a second");
    let (took, copied) = copying(0);
    assert!(took < Duration::from_secs(1), "{copied} bytes took {took:?} without a rate");
}
