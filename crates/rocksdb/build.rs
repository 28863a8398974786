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
    let named = std::env::var_os("ROCKSDB_INCLUDE_DIR").filter(|name| !name.is_empty()).map(PathBuf::from);
    let places = named.clone().map_or_else(|| SYSTEM.map(PathBuf::from).to_vec(), |named| vec![named]);
    match (find(&places), named) {
        (Some(include), _) => {
            println!("cargo::rustc-cfg=with_rocksdb");
            build_shim(&include);
            link();
        }
        // Another RocksDB than the one that was named would be found out when the library is loaded, if at all.
        (None, Some(named)) => {
            println!("cargo::error=ROCKSDB_INCLUDE_DIR={}: there is no {HEADER} in it", named.display());
        }
        (None, None) => {
            println!("cargo::warning=without {HEADER} (librocksdb-dev), or ROCKSDB_INCLUDE_DIR, this is no plugin");
        }
    }
}

/// Where headers may be, the first place first.
const SYSTEM: [&str; 2] = ["/usr/include", "/usr/local/include"];
const HEADER: &str = "rocksdb/file_system.h";

/// The first place with the headers. Cargo is told to look at them, and at the places before, where they may be installed later; at nothing
/// that is not there, as cargo would run this at every build.
fn find(places: &[PathBuf]) -> Option<PathBuf> {
    for place in places {
        if place.join(HEADER).is_file() {
            let watched = [HEADER, "rocksdb/version.h"].map(|header| place.join(header));
            watched.iter().for_each(|header| println!("cargo::rerun-if-changed={}", header.display()));
            return Some(place.clone());
        }
        let there = [place.join("rocksdb"), place.clone()].into_iter().find(|path| path.is_dir());
        there.iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
    }
    None
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
