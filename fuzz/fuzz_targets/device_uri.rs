//! libFuzzer entry of `zonda_fuzz::device_uri`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::device_uri(input));
