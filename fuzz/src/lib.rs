//! One fuzz target per decoder (I10: any bytes, without panic, hang or unbounded allocation).
//!
//! A target is a plain function over bytes. Two programs call it: the libFuzzer entry of the same name in
//! `fuzz_targets/` (nightly, coverage-guided, for hours) and the smoke run in `src/bin/smoke.rs` (stable, seeded, for
//! seconds; part of `cargo xtask test`). To add one: write the function in the file of its crate, give it its line in
//! [`TARGETS`], a file in `fuzz_targets/` and a `[[bin]]` in `Cargo.toml`. A test below fails when one of these is missing.

mod device;
mod facade;
pub mod generate;
mod in_place;
mod journal;
mod pages;
mod recovery;
pub mod regressions;
mod rocksdb;
mod space;
mod tree;

pub use device::{device_entry, device_ftl_group, device_header, device_image, device_uri};
pub use facade::superblock;
pub use in_place::{in_place_block, in_place_open};
pub use journal::{space_chunk, space_journal};
pub use pages::{page_address, page_frame};
pub use recovery::{page_zone, tree_log, tree_metalog};
pub use rocksdb::{rocksdb_edit, rocksdb_manifest};
pub use space::{space_header, space_open};
pub use tree::{tree_image, tree_leaf, tree_meta_records, tree_value_chunk, tree_value_pointer};

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
pub const TARGETS: &[Target] = &[
    Target { name: "device_uri", run: device_uri, valid: device::device_uri_valid, seal: no_checksum },
    Target { name: "device_header", run: device_header, valid: device::device_header_valid, seal: seal_last_4 },
    Target { name: "device_entry", run: device_entry, valid: device::device_entry_valid, seal: seal_last_4 },
    Target {
        name: "device_image",
        run: device_image,
        valid: device::device_image_valid,
        seal: device::device_image_seal,
    },
    Target {
        name: "device_ftl_group",
        run: device_ftl_group,
        valid: device::device_ftl_group_valid,
        seal: seal_last_4,
    },
    Target { name: "space_header", run: space_header, valid: space::space_valid, seal: space::space_seal },
    Target { name: "space_open", run: space_open, valid: space::space_valid, seal: space::space_seal },
    Target {
        name: "space_chunk",
        run: space_chunk,
        valid: journal::space_journal_valid,
        seal: journal::space_journal_seal,
    },
    Target {
        name: "space_journal",
        run: space_journal,
        valid: journal::space_journal_valid,
        seal: journal::space_journal_seal,
    },
    Target { name: "page_address", run: page_address, valid: pages::page_address_valid, seal: no_checksum },
    Target { name: "page_frame", run: page_frame, valid: pages::page_frame_valid, seal: zonda_pages::fuzzing::seal },
    Target { name: "page_zone", run: page_zone, valid: recovery::page_zone_valid, seal: recovery::page_zone_seal },
    Target {
        name: "in_place_block",
        run: in_place_block,
        valid: in_place::in_place_block_valid,
        seal: in_place::in_place_block_seal,
    },
    Target {
        name: "in_place_open",
        run: in_place_open,
        valid: in_place::in_place_open_valid,
        seal: in_place::in_place_open_seal,
    },
    Target { name: "tree_leaf", run: tree_leaf, valid: tree::tree_leaf_valid, seal: no_checksum },
    Target { name: "tree_image", run: tree_image, valid: tree::tree_image_valid, seal: no_checksum },
    Target {
        name: "tree_value_pointer",
        run: tree_value_pointer,
        valid: tree::tree_value_pointer_valid,
        seal: no_checksum,
    },
    Target { name: "tree_value_chunk", run: tree_value_chunk, valid: tree::tree_value_chunk_valid, seal: no_checksum },
    Target {
        name: "tree_meta_records",
        run: tree_meta_records,
        valid: tree::tree_meta_records_valid,
        seal: no_checksum,
    },
    Target { name: "tree_log", run: tree_log, valid: recovery::tree_log_valid, seal: no_checksum },
    Target { name: "tree_metalog", run: tree_metalog, valid: recovery::tree_metalog_valid, seal: no_checksum },
    Target {
        name: "rocksdb_manifest",
        run: rocksdb_manifest,
        valid: rocksdb::manifest_valid,
        seal: rocksdb::manifest_seal,
    },
    Target { name: "rocksdb_edit", run: rocksdb_edit, valid: rocksdb::edit_valid, seal: no_checksum },
    Target { name: "superblock", run: superblock, valid: facade::superblock_valid, seal: facade::superblock_seal },
];

/// The target called `name`.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// For inputs without a checksum.
fn no_checksum(_: &mut [u8]) {}

/// Makes the CRC-32C right that stands in the last 4 bytes and covers the others.
fn seal_last_4(record: &mut [u8]) {
    let Some(at) = record.len().checked_sub(4) else { return };
    let crc = crc32c::crc32c(&record[..at]);
    record[at..].copy_from_slice(&crc.to_le_bytes());
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
