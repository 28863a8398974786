//! What a program that knows nothing of traces leaves in one.
#![cfg(with_rocksdb)]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::path::Path;

use common::{is_here, text_of, with_library};

/// Lines of the trace of one `ldb get`, by their word; `None` if it was refused.
fn traced(here: &Path, name: &str, reads: Option<&str>) -> Option<Vec<String>> {
    let trace = here.join(name);
    let uri = format!("--fs_uri=zonda://file:{}/zones?create=64MiB", here.display());
    let mut command = with_library("ldb");
    command.env("ZONDA_TRACE", &trace).args([&uri, "--db=/db", "--create_if_missing", "put", "key", "value"]);
    if let Some(reads) = reads {
        command.env("ZONDA_TRACE_READS", reads);
    }
    let output = command.output().unwrap();
    if !output.status.success() {
        assert!(text_of(&output).contains("ZONDA_TRACE_READS"), "{}", text_of(&output));
        return None;
    }
    let text = std::fs::read_to_string(&trace).unwrap();
    Some(text.lines().skip(1).map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect())
}

#[test]
fn reads_are_in_a_trace_if_they_are_asked_for() {
    if !is_here(&["ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let count = |words: &[String], word: &str| words.iter().filter(|one| *one == word).count();
    for (name, reads, has_reads) in [("plain", None, false), ("off", Some("off"), false), ("on", Some("on"), true)] {
        let words = traced(here, name, reads).unwrap();
        assert!(count(&words, "append") > 0, "{words:?}");
        assert_eq!(count(&words, "read") > 0, has_reads, "{name}: {words:?}");
    }
    assert_eq!(traced(here, "what", Some("perhaps")), None);
}
