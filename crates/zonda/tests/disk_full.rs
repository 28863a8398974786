//! A file system that runs full under the store: the error says so, what was synced stays, and the store goes on once there is space.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::{fs, path::PathBuf, process::Command};

use common::options;
use tempfile::TempDir;
use zonda::{Db, Durability, Error};

/// A file system in memory of a fixed size, until it is dropped.
struct SmallFileSystem(TempDir);

impl SmallFileSystem {
    /// `None` without the right to mount one.
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(dir.path());
        mount.output().is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }

    fn named(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(125)
}

/// Synced puts until one fails; how many there were, and why no more.
fn fill(db: &Db) -> (u64, Error) {
    for number in 0..100_000_u64 {
        if let Err(error) = db.put_with(number.to_be_bytes(), value(number), Durability::Synced) {
            return (number, error);
        }
    }
    panic!("a file system of 24 MiB takes 100 MB");
}

fn assert_holds(db: &Db, count: u64) {
    for number in 0..count {
        assert_eq!(db.get(number.to_be_bytes()).unwrap(), Some(value(number)), "I4 key {number} of {count}");
    }
}

#[test]
fn a_full_file_system_loses_nothing_and_the_store_goes_on_when_there_is_space() {
    let Some(system) = SmallFileSystem::mount("24m") else {
        println!("NOT RUN: mounting a small file system needs root");
        return;
    };
    let (store, filler) = (system.named("test.zonda"), system.named("filler"));
    fs::write(&filler, vec![1; 12 << 20]).unwrap();
    let db = options().open(store.to_str().unwrap()).unwrap();
    let (count, error) = fill(&db);
    // A thread of the store may have met it first.
    let error = if let Error::Poisoned { cause } = &error { &**cause } else { &error };
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    assert!(error.to_string().contains("full") && error.to_string().contains("test.zonda"), "{error}");
    assert!(count > 1_000, "{count} records of 1,000 bytes in 12 MiB");
    assert_holds(&db, count);
    drop(db);
    fs::remove_file(&filler).unwrap();
    let db = options().open(store.to_str().unwrap()).unwrap();
    assert_holds(&db, count);
    for number in count..count + 1_000 {
        db.put_with(number.to_be_bytes(), value(number), Durability::Synced).unwrap();
    }
    assert_holds(&db, count + 1_000);
    let report = db.check(&mut |_, _| {}, &mut |finding| panic!("{finding}")).unwrap();
    assert!(report.leaves > 0, "{report:?}");
}
