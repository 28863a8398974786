//! CAZA in a store: tables wait in memory for their keys, and lie where the tables lie with which they will be merged.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, path};
use zonda_device::MemDevice;
use zonda_files::lsm::{Job, JobKind, KeyOrder, KeyRange, TableHint, TreeId};
use zonda_files::policy::{Rule, by_name};
use zonda_files::{FileKind, FileStore, FileStoreOptions, FileTags, FileWriter, StoreId, ZoneId};

fn store(held_bytes_max: u64) -> (FileStore, TreeId) {
    let options = FileStoreOptions {
        policy: by_name("caza").unwrap(),
        write_buffer_bytes: 4096,
        held_bytes_max,
        ..FileStoreOptions::default()
    };
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options).unwrap();
    let tree = store.tree(&path("/"), 0, KeyOrder::bytewise());
    (store, tree)
}

fn begin(store: &FileStore, name: &str, bytes: usize) -> FileWriter {
    let mut writer = store.create(&path(name), FileTags::of(FileKind::Data)).unwrap();
    let data: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect();
    writer.append(&data).unwrap();
    writer
}

fn finish(mut writer: FileWriter, tree: TreeId, level: u8, keys: Option<(&str, &str)>) {
    let range = keys.map(|(smallest, largest)| KeyRange::new(smallest, largest));
    writer.describe(TableHint { tree, job: None, level, range }).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
}

fn zones(store: &FileStore, tree: TreeId, name: &str) -> Vec<ZoneId> {
    let file = store.info(&path(name)).unwrap().file;
    store.shape().table(tree, file).unwrap().zones.clone()
}

#[test]
fn tables_that_will_be_merged_share_a_zone() {
    let (store, tree) = store(1 << 20);
    finish(begin(&store, "/b", 9_000), tree, 2, Some(("10", "19")));
    finish(begin(&store, "/c", 9_000), tree, 2, Some(("60", "69")));
    finish(begin(&store, "/a", 9_000), tree, 1, Some(("62", "65")));
    let (b, c, a) = (zones(&store, tree, "/b"), zones(&store, tree, "/c"), zones(&store, tree, "/a"));
    assert_eq!((a.clone(), b == c), (c, false), "keys of their own get a zone of their own");
    let counted = store.allocations();
    assert!(counted.contains(&(Rule::NewKeys, Some(2), 2)) && counted.contains(&(Rule::Overlap, Some(1), 1)));
}

#[test]
fn a_table_waits_in_memory_and_can_be_read_there() {
    let (store, tree) = store(1 << 20);
    let before = store.usage().written_bytes;
    let mut writer = begin(&store, "/a", 50_000);
    writer.flush().unwrap();
    assert_eq!(store.usage().written_bytes, before, "its keys are not known");
    assert!(store.usage().held_bytes >= 45_000);
    let mut bytes = vec![0; 50_000];
    assert_eq!(store.open(&path("/a")).unwrap().read_at(7, &mut bytes).unwrap(), 49_993);
    assert!(bytes[..49_993].iter().enumerate().all(|(at, byte)| usize::from(*byte) == (at + 7) % 251));
    writer.truncate(10_000).unwrap();
    writer.append(&[1; 9_000]).unwrap();
    finish(writer, tree, 1, Some(("a", "b")));
    assert_eq!(store.usage().held_bytes, 0);
    assert_eq!(store.open(&path("/a")).unwrap().read_at(9_999, &mut bytes).unwrap(), 9_001);
    assert_eq!(bytes[..3], [u8::try_from(9_999 % 251).unwrap(), 1, 1]);
}

#[test]
fn past_the_budget_tables_are_placed_by_the_keys_of_their_job() {
    let (store, tree) = store(16 << 10);
    finish(begin(&store, "/in", 5_000), tree, 1, Some(("30", "39")));
    finish(begin(&store, "/below", 5_000), tree, 3, Some(("35", "36")));
    let inputs = vec![path("/in")];
    let job = store.begin_job(&Job { tree, kind: JobKind::Compaction, output_level: Some(2), inputs });
    let mut writer = store.create(&path("/out"), FileTags::of(FileKind::Data)).unwrap();
    writer.describe(TableHint { tree, job: Some(job), level: 2, range: None }).unwrap();
    writer.append(&[5; 30_000]).unwrap();
    assert!(store.usage().held_bytes == 0 && zones(&store, tree, "/out") == zones(&store, tree, "/below"));
    store.end_job(job);
    writer.close().unwrap();
    assert_eq!(store.info(&path("/out")).unwrap().size_bytes, 30_000);
}

#[test]
fn past_the_budget_the_first_key_counts_too() {
    let (store, tree) = store(16 << 10);
    finish(begin(&store, "/in", 5_000), tree, 1, Some(("30", "39")));
    for (name, keys) in [("/low", ("30", "33")), ("/high", ("36", "38"))] {
        finish(begin(&store, name, 5_000), tree, 3, Some(keys));
        finish(begin(&store, &format!("{name}1"), 5_000), tree, 1, Some(keys));
    }
    let inputs = vec![path("/in")];
    let compaction = store.begin_job(&Job { tree, kind: JobKind::Compaction, output_level: Some(2), inputs });
    let flush = store.begin_job(&Job { tree, kind: JobKind::Flush, output_level: Some(0), inputs: Vec::new() });
    for (name, job, level, first_key, beside) in [
        ("/first", compaction, 2, "30", "/low"),
        ("/second", compaction, 2, "35", "/high"),
        ("/flushed", flush, 0, "37", "/high1"),
    ] {
        let mut writer = store.create(&path(name), FileTags::of(FileKind::Data)).unwrap();
        writer.describe(TableHint { tree, job: Some(job), level, range: None }).unwrap();
        writer.begins_with(first_key.as_bytes());
        writer.append(&[5; 30_000]).unwrap();
        assert_eq!(zones(&store, tree, name), zones(&store, tree, beside), "{name}");
        writer.close().unwrap();
    }
}

#[test]
fn a_writer_that_is_dropped_gives_its_memory_back() {
    let (store, _) = store(1 << 20);
    drop(begin(&store, "/a", 50_000));
    let writer = begin(&store, "/b", 50_000);
    store.remove(&path("/b")).unwrap();
    drop(writer);
    assert_eq!(store.usage().held_bytes, 0);
    assert_eq!(store.check().unwrap().findings, []);
}
