//! The plugin refuses a RocksDB that it was not built for, in one line, and harms nobody who does not use it.
#![cfg(with_rocksdb)]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{is_here, library, run, text_of, with_library};

/// Builds `libNAME.so` of `tests/programs`.
fn build_fake(here: &Path, name: &str, flags: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.cc"));
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-shared", "-fPIC", "-o"]).arg(here.join(format!("lib{name}.so"))).arg(source);
    run(compiler.args(flags));
}

/// What the plugin says at load in a process with `libNAME.so`, which does nothing else.
fn said_at_load(here: &Path, name: &str) -> String {
    let fake = here.join(format!("lib{name}.so"));
    let mut command = Command::new("true");
    run(command.env("LD_PRELOAD", format!("{} {}", fake.display(), library().display())))
}

/// `ldb` in a process that says it has RocksDB 0.0.1.
fn ldb(here: &Path, arguments: &[&str]) -> Output {
    let old = here.join("libold.so");
    let mut command = Command::new("ldb");
    command.env("LD_PRELOAD", format!("{} {}", old.display(), library().display()));
    command.args(arguments).output().unwrap()
}

#[test]
fn another_version_is_refused_in_one_line() {
    if !is_here(&["c++", "ldb"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    build_fake(here, "old", &[]);

    let uri = format!("--fs_uri=zonda://file:{}/zones?create=64MiB", here.display());
    let refused = ldb(here, &[&uri, "--db=/db", "--create_if_missing", "put", "key", "value"]);
    let text = text_of(&refused);
    let is_it = |line: &&str| line.starts_with("zonda: not loaded: built for RocksDB ");
    let lines: Vec<&str> = text.lines().filter(is_it).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].ends_with(", but this process has 0.0.1"), "{text}");
    assert!(
        refused.status.code().is_some_and(|code| code != 0),
        "it ends by itself, and not well: {}\n{text}",
        refused.status
    );
    assert!(!here.join("zones").exists(), "nothing was made");

    let host = format!("--db={}", here.join("host").display());
    let other = ldb(here, &[&host, "--create_if_missing", "put", "key", "value"]);
    assert!(other.status.success(), "the default file system is as it was: {}", text_of(&other));
}

/// Sizes of the headers here, as the program that prints them says.
fn sizes(here: &Path) -> Vec<(&'static str, &'static str, usize)> {
    let printed = run(&mut Command::new(common::build("sizes", here)));
    let types = [
        ("DBOptions", "_ZN7rocksdb9DBOptionsC1Ev"),
        ("ColumnFamilyOptions", "_ZN7rocksdb19ColumnFamilyOptionsC1Ev"),
        ("EnvOptions", "_ZN7rocksdb10EnvOptionsC1Ev"),
    ];
    types
        .into_iter()
        .zip(printed.split_whitespace())
        .map(|((name, symbol), size)| (name, symbol, size.parse().unwrap()))
        .collect()
}

#[test]
fn types_of_other_sizes_are_refused_in_one_line() {
    if !is_here(&["c++"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (name, symbol, size) in sizes(here) {
        for (bytes, what) in [(size - 8, "smaller"), (size, ""), (size + 8, "larger")] {
            let flags = [format!("-DSYMBOL=\"{symbol}\""), format!("-DBYTES={bytes}")];
            build_fake(here, "sized", &flags.each_ref().map(String::as_str));
            let said = said_at_load(here, "sized");
            let lines: Vec<&str> = said.lines().collect();
            match (what, lines.as_slice()) {
                ("", []) => {}
                (_, [line])
                    if line.ends_with(&format!(
                        "built with other flags than its headers here say: its {name} is {what}"
                    )) => {}
                _ => panic!("{name} of {bytes} instead of {size} bytes: {said}"),
            }
        }
    }
}

#[test]
fn a_build_that_asserts_that_statuses_are_checked_is_refused() {
    if !is_here(&["c++"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::create_dir(here.join("port")).unwrap();
    std::fs::write(here.join("port/stack_trace.h"), "").unwrap();
    let include = format!("-I{}", here.display());
    for (flag, line) in [("-DROCKSDB_ASSERT_STATUS_CHECKED", "its IOStatus is larger\n"), ("-O1", "")] {
        build_fake(here, "checked", &[&include, flag]);
        let said = said_at_load(here, "checked");
        assert!(said.ends_with(line) && said.lines().count() == line.lines().count(), "{flag}: {said}");
    }
}

/// Names of file systems that nobody knows crash RocksDB's own tools.
#[test]
fn names_that_are_nearly_ours_are_answered_in_words() {
    if !is_here(&["ldb"]) {
        return;
    }
    for name in ["zonda:", "zonda://", "zonda:/x"] {
        let arguments = [format!("--fs_uri={name}"), "--db=/db".to_owned(), "scan".to_owned()];
        let refused = with_library("ldb").args(arguments).output().unwrap();
        let text = text_of(&refused);
        assert!(refused.status.code() == Some(1) && text.contains("Invalid argument"), "{name}: {text}");
    }
}
