//! The decoders of this crate, for fuzz targets. Not part of the interface.

use crate::format::{Superblock, TreeRecord};

/// Decodes any bytes as a superblock; says whether they are one.
pub fn superblock(bytes: &[u8]) -> bool {
    Superblock::decode(bytes).is_ok()
}

/// Decodes any bytes as a tree record; says whether they are one.
pub fn tree_record(bytes: &[u8]) -> bool {
    TreeRecord::decode(bytes).is_ok()
}

/// A valid superblock and a valid tree record, from which mutations start.
#[must_use]
pub fn valid() -> [Vec<u8>; 2] {
    [Superblock { leaf_bytes: 4096 }.encode(), TreeRecord { number: 2 }.encode()]
}
