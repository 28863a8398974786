//! libFuzzer entry of `zonda_fuzz::in_place_open`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::in_place_open(input));
