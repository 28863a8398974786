//! libFuzzer entry of `zonda_fuzz::zone_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::zone_state(input));
