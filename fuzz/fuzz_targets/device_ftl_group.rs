//! libFuzzer entry of `zonda_fuzz::device_ftl_group`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::device_ftl_group(input));
