//! What else a process does that has something mounted.
#![cfg(with_rocksdb)]

mod common;

use common::{build, is_here, run, text_of, with_library};
use zonda_files::trace::{self, TraceEvent};

/// A child that ends before its parent writes nothing of the parent's, and waits for none of its threads.
#[test]
fn a_child_leaves_the_mount_to_its_parent() {
    if !is_here(&["c++"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let program = build("mounts", here);
    for cleaning in ["clean_threshold=0", "clean_threshold=5"] {
        let (report, recorded) = (here.join(format!("{cleaning}.report")), here.join(format!("{cleaning}.trace")));
        let uri = format!("zonda://file:{}/{cleaning}?create=64MiB&{cleaning}", here.display());
        let mut command = with_library(&program);
        run(command.env("ZONDA_REPORT", &report).env("ZONDA_TRACE", &recorded).args(["fork", &uri]));
        assert_eq!(std::fs::read_to_string(&report).unwrap().lines().count(), 1, "{cleaning}");
        let records = trace::read(std::fs::read(&recorded).unwrap().as_slice()).unwrap();
        let made = records.iter().filter(|record| matches!(record.event, TraceEvent::Create { .. }));
        assert_eq!(made.count(), 2, "{cleaning}: {records:?}");
    }
}

/// The system refuses every thread of ours, as at a limit: none has room for so large a stack.
#[test]
fn a_mount_that_gets_no_thread_is_refused_and_gives_the_device_back() {
    if !is_here(&["c++"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let program = build("mounts", here);
    let uri = format!("zonda://file:{}/zones?create=64MiB", here.display());
    let mut command = with_library(&program);
    command.env("RUST_MIN_STACK", (1_u64 << 62).to_string()).env("ZONDA_TRACE", here.join("trace"));
    let text = run(command.args(["without-threads", &uri]));
    assert!(text.contains("cannot start the threads that clean: ") && !text.contains("panicked"), "{text}");
    assert!(!here.join("trace.1").exists(), "the refused mount took no trace");
}

#[test]
fn a_report_is_where_it_was_asked_for_or_the_mount_is_refused() {
    if !is_here(&["c++", "ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let program = build("mounts", here);
    let uri = format!("zonda://file:{}/zones?create=64MiB", here.display());
    let mut command = with_library(&program);
    run(command.current_dir(here).env("ZONDA_REPORT", "report").args(["elsewhere", &uri]));
    assert_eq!(std::fs::read_to_string(here.join("report")).unwrap().lines().count(), 1);
    let mut command = with_library("ldb");
    command.env("ZONDA_REPORT", here.join("nowhere/report")).args([&format!("--fs_uri={uri}"), "--db=/db", "scan"]);
    let refused = command.output().unwrap();
    let text = text_of(&refused);
    assert!(!refused.status.success() && text.contains("nowhere/report: No such file or directory"), "{text}");
}
