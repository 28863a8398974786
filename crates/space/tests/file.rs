//! The same on a device in a file: what was flushed is there when another process opens it.

mod common;

use std::sync::Arc;

use common::{HOT, LOG, blocks, byte_at, geometry, new_store, options};
use zonda_device::{FileDevice, FileOptions, ZonedDevice};
use zonda_space::{Space, SpaceError, Urgency, ZoneUse};

#[test]
fn a_store_in_a_file_is_opened_again_also_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.zonda");
    let device = FileDevice::create(&path, geometry(6), &FileOptions::default()).unwrap();
    let space = Space::format(Arc::new(device), new_store(1), &options()).unwrap();
    let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let block = writer.write(&blocks(7, 3)).unwrap();
    space.flush().unwrap();
    let zone = writer.zone();
    drop((writer, space));

    let device = FileDevice::open_read_only(&path, &FileOptions::default()).unwrap();
    let (space, recovered) = Space::open(Arc::new(device), &options()).unwrap();
    assert_eq!((recovered.zones[0].zone, recovered.zones[0].state), (zone, ZoneUse::Partial));
    assert_eq!(byte_at(&space, block + 2), 7);
    assert!(matches!(space.open_zone(LOG, Urgency::Reserve), Err(SpaceError::Device(_))));
    drop(space);

    let device: Arc<dyn ZonedDevice> = Arc::new(FileDevice::open(&path, &FileOptions::default()).unwrap());
    let (space, _) = Space::open(device, &options()).unwrap();
    let mut writer = space.adopt_for_writing(zone).unwrap();
    assert_eq!(writer.write(&blocks(8, 1)).unwrap(), block + 3);
    space.open_zone(LOG, Urgency::Reserve).unwrap();
}
