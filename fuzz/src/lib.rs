//! One fuzz target per decoder (I10: any bytes, without panic, hang or unbounded allocation).
//!
//! A target is a plain function over bytes. Two programs call it: the libFuzzer entry of the same name in
//! `fuzz_targets/` (nightly, coverage-guided, for hours) and the smoke run in `src/bin/smoke.rs` (stable, seeded, for
//! seconds; part of `cargo xtask test`). To add one: write the function, give it its line in [`TARGETS`], a file in
//! `fuzz_targets/` and a `[[bin]]` in `Cargo.toml`. A test below fails when one of these is missing.

pub mod generate;

use zonda_device::ZoneState;

/// A decoder under test.
pub struct Target {
    /// Its name: of the function, of the libFuzzer entry, and of its directory in `regressions/`.
    pub name: &'static str,
    /// Decodes the input. Panics when the decoder breaks a promise.
    pub run: fn(&[u8]),
    /// Valid inputs, from which mutations start.
    pub valid: fn() -> Vec<Vec<u8>>,
    /// Makes the checksums of a mutated input right again, so that the fields behind them are reached.
    pub seal: fn(&mut [u8]),
}

/// Every target, in the order of the layers.
pub const TARGETS: &[Target] =
    &[Target { name: "zone_state", run: zone_state, valid: zone_state_valid, seal: no_checksum }];

/// The target called `name`.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// For inputs without a checksum.
fn no_checksum(_: &mut [u8]) {}

/// The state byte of a zone table entry: what decodes encodes to the same number.
pub fn zone_state(input: &[u8]) {
    let Some(&number) = input.first() else { return };
    let Some(state) = ZoneState::from_number(number) else {
        return;
    };
    assert_eq!(state as u8, number);
}

fn zone_state_valid() -> Vec<Vec<u8>> {
    vec![vec![ZoneState::Empty as u8], vec![ZoneState::Offline as u8]]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_target_has_its_libfuzzer_entry() {
        let manifest = include_str!("../Cargo.toml");
        for target in TARGETS {
            let entry = format!("fuzz_targets/{}.rs", target.name);
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(&entry).is_file(), "no {entry}");
            assert!(manifest.contains(&format!("path = \"{entry}\"")), "no [[bin]] with {entry}");
        }
    }

    #[test]
    fn valid_inputs_run_and_sealing_keeps_them() {
        for target in TARGETS {
            for mut input in (target.valid)() {
                (target.run)(&input);
                let before = input.clone();
                (target.seal)(&mut input);
                assert_eq!(input, before, "{}: sealing changes a valid input", target.name);
            }
        }
    }
}
