//! libFuzzer entry of `zonda_fuzz::superblock`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::superblock(input));
