//! libFuzzer entry of `zonda_fuzz::device_entry`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::device_entry(input));
