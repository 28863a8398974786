//! A C++ program that is linked with the plugin, as the operators' page says, and uses its options again and again; and reads of a file
//! together.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{is_here, library, run};

#[test]
fn options_are_used_again_when_the_file_system_is_gone() {
    if !is_here(&["c++"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("linked");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/linked.cc");
    let libraries = library().parent().unwrap().to_owned();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-pthread", "-o"]).arg(&program).arg(source).arg("-L").arg(&libraries);
    run(compiler.args(["-Wl,--no-as-needed", "-lzonda_rocksdb", "-lrocksdb"]));
    let text = run(Command::new(&program).arg(directory.path()).env("LD_LIBRARY_PATH", &libraries));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert_eq!(lines[..2], ["at once: OK, 1 listeners", "mapped: OK, 1 listeners"], "{text}");
    assert!(lines[2].starts_with("mapped plain tables: Not implemented: zonda files cannot be mapped"), "{text}");
    let (together, later) = (lines[3], &lines[4..]);
    assert!(together.starts_with("together: OK; OK 0123; Not implemented: "), "{text}");
    assert!(together.ends_with("; OK 6789"), "one that fails is no error of the others: {text}");
    assert_eq!(later, ["after it: OK, 1 listeners", "another: OK, 1 listeners"], "{text}");
}
