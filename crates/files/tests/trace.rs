//! What a store records is what happened to it.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::io::{self, Write};
use std::sync::Arc;

use common::{geometry, options, path};
use zonda_device::MemDevice;
use zonda_files::lsm::{Job, JobKind, KeyOrder, KeyRange, TableHint, VersionEdit};
use zonda_files::trace::{self, TraceEvent, TraceWriter};
use zonda_files::{FileKind, FileStore, FileStoreOptions, FileTags, StoreId};
use zonda_rt::Mutex;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Words of the events, without the numbers of time.
fn words(sink: &Sink) -> Vec<String> {
    let text = String::from_utf8(sink.0.lock().clone()).unwrap();
    text.lines().skip(1).map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

fn traced() -> (FileStore, Arc<TraceWriter>, Sink) {
    let sink = Sink::default();
    let trace = Arc::new(TraceWriter::new(Box::new(sink.clone())));
    let options = FileStoreOptions { trace: Some(Arc::clone(&trace)), ..options(0) };
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    (FileStore::format(device, StoreId(1), false, options).unwrap(), trace, sink)
}

fn table(store: &FileStore, name: &str, hint: TableHint) {
    let mut writer = store.create(&path(name), FileTags::of(FileKind::Data)).unwrap();
    writer.describe(hint).unwrap();
    writer.append(&[7; 10_000]).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_compaction_leaves_its_records_in_order() {
    let (store, trace, sink) = traced();
    store.make_directory(&path("/db")).unwrap();
    let tree = store.tree(&path("/db"), 0, KeyOrder::bytewise());
    let range = KeyRange::new("a", "m");
    table(&store, "/db/1.sst", TableHint { tree, job: None, level: 1, range: Some(range.clone()) });
    let added = vec![(path("/db/1.sst"), 1, range.clone())];
    store.apply_edit(tree, &VersionEdit { removed: Vec::new(), added });
    let inputs = vec![path("/db/1.sst"), path("/db/gone.sst")];
    let job = store.begin_job(&Job { tree, kind: JobKind::Compaction, output_level: Some(2), inputs });
    table(&store, "/db/2.sst", TableHint { tree, job: Some(job), level: 2, range: None });
    let edit =
        VersionEdit { removed: vec![path("/db/1.sst")], added: vec![(path("/db/2.sst"), 2, KeyRange::new("a", "k"))] };
    store.apply_edit(tree, &edit);
    store.end_job(job);
    store.rename(&path("/db/2.sst"), &path("/db/3.sst")).unwrap();
    store.remove(&path("/db/1.sst")).unwrap();
    trace.finish().unwrap();
    assert_eq!(
        words(&sink),
        [
            "directory /db",
            "tree 0 bytewise 0 /db",
            "create 0 data not-set - /db/1.sst",
            "retag 0 not-set 1",
            "describe 0 0 - 1 x61 x6d",
            "append 0 10000",
            "sync 0",
            "close 0",
            "edit 0 +0:1:x61:x6d",
            "job-begin 0 0 compaction 2 0",
            "create 1 data not-set - /db/2.sst",
            "retag 1 not-set 2",
            "describe 1 0 0 2",
            "append 1 10000",
            "sync 1",
            "close 1",
            "edit 0 -0 +1:2:x61:x6b",
            "job-end 0",
            "rename /db/2.sst /db/3.sst",
            "unlink /db/1.sst",
        ]
    );
    assert_eq!(trace::read(sink.0.lock().as_slice()).unwrap().len(), 20);
    assert_eq!(store.shape().tables(), 1, "what lost its last name is in no tree");
}

#[test]
fn a_trace_begins_with_what_the_store_holds() {
    for is_read_only in [false, true] {
        check_beginning(is_read_only);
    }
}

fn check_beginning(is_read_only: bool) {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(device.clone(), StoreId(1), false, options(0)).unwrap();
    let tree = store.tree(&path("/"), 0, KeyOrder::bytewise());
    table(&store, "/1.sst", TableHint { tree, job: None, level: 3, range: None });
    store.link(&path("/1.sst"), &path("/2.sst")).unwrap();
    store.sync_names().unwrap();
    drop(store);
    let sink = Sink::default();
    let trace = Arc::new(TraceWriter::new(Box::new(sink.clone())).with_reads());
    let options = FileStoreOptions { trace: Some(Arc::clone(&trace)), ..options(0) };
    let mount = if is_read_only { FileStore::mount_read_only } else { FileStore::mount };
    let (store, _) = mount(device, options).unwrap();
    store.open(&path("/2.sst")).unwrap().read_at(9_990, &mut [0; 20]).unwrap();
    trace.finish().unwrap();
    let events: Vec<TraceEvent> =
        trace::read(sink.0.lock().as_slice()).unwrap().into_iter().map(|record| record.event).collect();
    let tags = FileTags::of(FileKind::Data).with_level(3);
    let file = store.info(&path("/1.sst")).unwrap().file;
    assert_eq!(
        events,
        [
            TraceEvent::Existing { file, tags, bytes: 10_000, path: path("/1.sst") },
            TraceEvent::Link { file, path: path("/2.sst") },
            TraceEvent::Read { file, offset: 9_990, bytes: 10 },
        ],
        "read-only: {is_read_only}"
    );
}

#[test]
fn what_a_close_could_not_write_is_cut_off_in_the_trace_too() {
    let (store, trace, sink) = traced();
    let mut writer = store.create(&path("/1"), FileTags::of(FileKind::Data)).unwrap();
    while writer.append(&[7; 10_000]).is_ok() {}
    let size = writer.size_bytes();
    writer.close().unwrap_err();
    let left = store.info(&path("/1")).unwrap().size_bytes;
    assert!(left < size, "{left} of {size} bytes found room");
    trace.finish().unwrap();
    let words = words(&sink);
    assert_eq!(words[words.len() - 2..], [format!("truncate 0 {left}"), "close 0".to_owned()]);
    let appended = words.iter().filter_map(|line| line.strip_prefix("append 0 ")?.parse::<u64>().ok());
    assert_eq!(appended.sum::<u64>(), size);
}
