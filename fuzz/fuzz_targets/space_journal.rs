//! libFuzzer entry of `zonda_fuzz::space_journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| zonda_fuzz::space_journal(input));
