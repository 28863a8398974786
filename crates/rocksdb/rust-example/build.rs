//! Links the plugin, and lets functions be found when they are called: the crate `rocksdb` is as a rule newer than a distribution's
//! librocksdb, and declares functions that this one lacks. Who calls one of those is ended by the dynamic linker, by name.
fn main() {
    println!("cargo::rerun-if-env-changed=ZONDA_LIB_DIR");
    if let Ok(directory) = std::env::var("ZONDA_LIB_DIR") {
        println!("cargo::rustc-link-search=native={directory}");
    }
    println!("cargo::rustc-link-lib=dylib=zonda_rocksdb");
    println!("cargo::rustc-link-arg-bins=-Wl,--unresolved-symbols=ignore-in-object-files");
    println!("cargo::rustc-link-arg-bins=-Wl,-z,lazy");
}
