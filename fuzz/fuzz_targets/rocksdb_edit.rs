//! libFuzzer entry of `zonda_fuzz::rocksdb_edit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::rocksdb_edit(input));
