//! `zonda fs` beside a program that has the store mounted: what reads works, what writes is refused, and the program notices nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use common::Shell;
use zonda_device::{FileDevice, FileOptions};
use zonda_files::{FileKind, FilePath, FileStore, FileStoreOptions, FileTags};

/// A store with nothing in it, and mounted by this process.
fn live_store() -> (Shell, FileStore) {
    let shell = Shell::new();
    shell.ok("device create d.zoned --zones 32 --zone-size 1MiB --max-active 14");
    shell.ok("fs mkfs d.zoned");
    let device = FileDevice::open(shell.path().join("d.zoned"), &FileOptions::default()).unwrap();
    let (store, _) = FileStore::mount(Arc::new(device), FileStoreOptions::default()).unwrap();
    (shell, store)
}

fn put(store: &FileStore, name: &str, byte: u8) {
    let mut writer = store.create(&FilePath::parse(name).unwrap(), FileTags::of(FileKind::Data)).unwrap();
    writer.append(&vec![byte; 300_000]).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
}

#[test]
fn what_reads_stands_beside_a_live_mount() {
    let (shell, store) = live_store();
    put(&store, "/a.sst", 1);
    assert_eq!(shell.ok("fs ls d.zoned"), "/a.sst\n");
    put(&store, "/b.sst", 2);
    assert_eq!(shell.ok("fs ls d.zoned"), "/a.sst\n/b.sst\n");
    let json: serde_json::Value = serde_json::from_str(&shell.ok("fs df d.zoned --json")).unwrap();
    assert_eq!((json["files"].as_u64(), json["damaged_zones"].as_u64()), (Some(2), Some(0)));
    assert!(json["live_bytes"].as_u64().unwrap() >= 600_000);
    let checked = shell.ok("fs check d.zoned");
    assert!(checked.contains("2 files") && checked.contains("all is well"), "{checked}");
    shell.ok("fs cp d.zoned store:/b.sst b");
    assert_eq!(shell.read("b"), vec![2; 300_000]);
    shell.ok("fs backup d.zoned copy");
    assert_eq!(shell.read("copy/a.sst"), vec![1; 300_000]);
    assert!(shell.ok("fs dump d.zoned").contains("/a.sst") && shell.ok("fs cat d.zoned /b.sst").len() == 300_000);
    put(&store, "/c.sst", 3);
    assert_eq!(store.check().unwrap().findings, [], "the live store noticed nothing");
}

#[test]
fn second_names_are_files_of_the_host_too() {
    let (shell, store) = live_store();
    put(&store, "/db.sst", 1);
    let path = |name: &str| FilePath::parse(name).unwrap();
    store.make_directory(&path("/aaa")).unwrap();
    store.link(&path("/db.sst"), &path("/aaa/db.sst")).unwrap();
    store.sync_names().unwrap();
    shell.ok("fs backup d.zoned copy");
    let copied = |name: &str| fs::metadata(shell.path().join("copy").join(name)).unwrap().ino();
    assert_eq!(copied("db.sst"), copied("aaa/db.sst"), "one file under two names");
    fs::remove_dir_all(shell.path().join("copy/aaa")).unwrap();
    assert_eq!(shell.read("copy/db.sst"), vec![1; 300_000], "it is whole without the other name");
}

#[test]
fn what_writes_is_refused_beside_a_live_mount() {
    let (shell, store) = live_store();
    shell.write("a", "some bytes");
    for command in ["fs cp d.zoned a store:/a", "fs mkfs d.zoned --force", "device reset d.zoned --all"] {
        assert!(shell.fails(1, command).contains("in use"), "{command}");
    }
    assert!(shell.fails(1, "get d.zoned key").contains("in use"), "a tree cannot be read so");
    drop(store);
    shell.ok("fs cp d.zoned a store:/a");
}

#[test]
fn a_lost_zone_is_damage_and_nothing_else() {
    let (shell, store) = live_store();
    put(&store, "/a.sst", 1);
    store.link(&FilePath::parse("/a.sst").unwrap(), &FilePath::parse("/b.sst").unwrap()).unwrap();
    store.sync_names().unwrap();
    let zone = store.extents(&FilePath::parse("/a.sst").unwrap()).unwrap()[0].zone.0;
    drop(store);
    shell.ok(&format!("device reset d.zoned --zone {zone}"));
    let checked = shell.run("fs check d.zoned");
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(checked.out.contains("1 finding") && !checked.out.contains("meanwhile"), "{checked:?}");
    assert!(checked.out.contains("/a.sst (also /b.sst): an extent in zone"), "{checked:?}");
    let json: serde_json::Value = serde_json::from_str(&shell.run("fs check d.zoned --json").out).unwrap();
    assert!(json["findings"][0].as_str().unwrap().starts_with("/a.sst (also /b.sst)"), "{json}");
    assert_eq!(json["found_in"][0]["paths"], serde_json::json!(["/a.sst", "/b.sst"]), "{json}");
    assert!(shell.fails(1, "fs cat d.zoned /a.sst").contains("zonda fs check"));
    assert!(shell.fails(1, "fs backup d.zoned copy").contains("zonda fs check"), "it is not tried for ever");
}

#[test]
fn a_modelled_drive_is_read_beside_a_live_mount() {
    let shell = Shell::new();
    let name = "flash:test?time=untimed&data=drive";
    shell.ok(&format!("fs mkfs {name}"));
    let drive = format!("test?time=untimed&data={}", shell.path().join("drive").display());
    let device = drive.parse::<zonda_flash::drive::Spec>().unwrap().open_zoned().unwrap();
    let (store, _) = FileStore::mount(Arc::new(device), FileStoreOptions::default()).unwrap();
    put(&store, "/a.sst", 1);
    assert_eq!(shell.ok(&format!("fs ls {name}")), "/a.sst\n");
    put(&store, "/b.sst", 2);
    assert!(shell.ok(&format!("fs check {name}")).contains("2 files"));
    assert_eq!(shell.ok(&format!("fs cat {name} /b.sst")).len(), 300_000);
    assert!(shell.fails(1, &format!("fs rm {name} /a.sst")).contains("in use"));
    put(&store, "/c.sst", 3);
    assert_eq!(store.check().unwrap().findings, [], "the live store noticed nothing");
}
