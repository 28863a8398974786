//! libFuzzer entry of `zonda_fuzz::page_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::page_frame(input));
