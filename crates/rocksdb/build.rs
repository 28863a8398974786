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
    let Some(include) = include_directory() else { return };
    println!("cargo::rerun-if-changed={}", include.join("rocksdb/version.h").display());
    println!("cargo::rustc-cfg=with_rocksdb");
    build_shim(&include);
    link();
}

/// Where `rocksdb/file_system.h` is.
fn include_directory() -> Option<PathBuf> {
    let named = std::env::var_os("ROCKSDB_INCLUDE_DIR").map(PathBuf::from);
    let usual = ["/usr/include", "/usr/local/include"].map(PathBuf::from);
    named.into_iter().chain(usual).find(|directory| directory.join("rocksdb/file_system.h").is_file())
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
