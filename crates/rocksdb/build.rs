//! Builds the C++ half where librocksdb's headers are. Where they are not, the crate is built without it: what is plain Rust
//! in it is tested everywhere, and no build of the workspace needs librocksdb.
//!
//! `ROCKSDB_INCLUDE_DIR` and `ROCKSDB_LIB_DIR` name another RocksDB than the system's.

use std::path::{Path, PathBuf};

const SOURCES: [&str; 9] = ["checks", "driven", "env", "files", "file_system", "jobs", "keys", "register", "status"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(with_rocksdb)");
    for watched in ["shim", "include"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    for variable in ["ROCKSDB_INCLUDE_DIR", "ROCKSDB_LIB_DIR"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if std::env::var_os("CARGO_FEATURE_PLUGIN").is_none() {
        return;
    }
    let places = include_directories();
    // Also of those that are not there: headers that are installed later are found by the next build.
    places.iter().for_each(|place| println!("cargo::rerun-if-changed={}", header_in(place).display()));
    let Some(include) = places.into_iter().find(|place| header_in(place).is_file()) else {
        println!(
            "cargo::warning=without rocksdb/file_system.h (librocksdb-dev), or ROCKSDB_INCLUDE_DIR, this is no plugin"
        );
        return;
    };
    println!("cargo::rerun-if-changed={}", include.join("rocksdb/version.h").display());
    println!("cargo::rustc-cfg=with_rocksdb");
    build_shim(&include);
    link();
}

/// Where headers may be, the first place first.
fn include_directories() -> Vec<PathBuf> {
    let named = std::env::var_os("ROCKSDB_INCLUDE_DIR").map(PathBuf::from);
    named.into_iter().chain(["/usr/include", "/usr/local/include"].map(PathBuf::from)).collect()
}

fn header_in(directory: &Path) -> PathBuf {
    directory.join("rocksdb/file_system.h")
}

fn build_shim(include: &Path) {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").include("include").flag_if_supported("-Wno-unused-parameter");
    if include != Path::new("/usr/include") {
        build.flag(format!("-isystem{}", include.display()));
    }
    build.files(SOURCES.map(|name| format!("shim/{name}.cc")));
    // Linked below, whole: nothing refers to the initialiser that registers the file system.
    build.cargo_metadata(false).compile("zonda_shim");
}

fn link() {
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    println!("cargo::rustc-link-search=native={out}");
    println!("cargo::rustc-link-lib=static:+whole-archive=zonda_shim");
    if let Ok(directory) = std::env::var("ROCKSDB_LIB_DIR") {
        println!("cargo::rustc-link-search=native={directory}");
    }
    println!("cargo::rustc-link-lib=dylib=rocksdb");
    println!("cargo::rustc-link-lib=dylib=stdc++");
}
