//! libFuzzer entry of `zonda_fuzz::tree_value_pointer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::tree_value_pointer(input));
