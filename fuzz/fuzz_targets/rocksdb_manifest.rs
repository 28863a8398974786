//! libFuzzer entry of `zonda_fuzz::rocksdb_manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::rocksdb_manifest(input));
