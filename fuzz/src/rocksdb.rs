//! Decoders of `zonda-rocksdb`: the MANIFEST of a database, which RocksDB writes and we follow.

use zonda_rocksdb::lsm::{Shape, VersionEdit};

/// Bytes of a block of a MANIFEST.
const BLOCK_BYTES: usize = 32 << 10;
/// Checksum, length and type of a fragment.
const HEADER_BYTES: usize = 7;
/// Added to a rotated checksum.
const MASK_DELTA: u32 = 0xa282_ead8;

/// A MANIFEST: it gives the same shape in one piece and in many.
pub fn rocksdb_manifest(input: &[u8]) {
    let (mut whole, mut pieces) = (Shape::default(), Shape::default());
    let applied = whole.feed(input).len();
    let in_pieces: usize = input.chunks(13).map(|piece| pieces.feed(piece).len()).sum();
    assert_eq!((applied, whole.families()), (in_pieces, pieces.families()));
    assert_eq!(whole.is_damaged(), pieces.is_damaged());
    let tables = whole.families().values().flat_map(|family| family.levels.values()).map(|level| level.len());
    assert!(tables.sum::<usize>() <= input.len(), "more tables than bytes");
}

/// One version edit, without the checksum around it.
pub fn rocksdb_edit(input: &[u8]) {
    let Ok(edit) = VersionEdit::decode(input) else { return };
    assert!(edit.added.len() + edit.deleted.len() <= input.len());
}

/// What RocksDB 7.8.3 wrote.
pub(crate) fn manifest_valid() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../crates/rocksdb/tests/data/MANIFEST-7.8.3").to_vec()]
}

/// Its edits.
pub(crate) fn edit_valid() -> Vec<Vec<u8>> {
    let manifest = manifest_valid().concat();
    fragments(&manifest).into_iter().map(|(at, end)| manifest[at + HEADER_BYTES..end].to_vec()).collect()
}

/// Makes the checksum of every fragment right that lies within the input.
pub(crate) fn manifest_seal(input: &mut [u8]) {
    for (at, end) in fragments(input) {
        let crc = crc32c::crc32c(&input[at + 6..end]).rotate_right(15).wrapping_add(MASK_DELTA);
        input[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Beginning and end of each fragment, as far as their lengths make sense.
fn fragments(input: &[u8]) -> Vec<(usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + HEADER_BYTES <= input.len() {
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        if left < HEADER_BYTES {
            at += left;
            continue;
        }
        let end = at + HEADER_BYTES + usize::from(u16::from_le_bytes([input[at + 4], input[at + 5]]));
        if end > input.len() || end - at > left {
            break;
        }
        found.push((at, end));
        at = end;
    }
    found
}
