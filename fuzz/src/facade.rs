//! Decoders of the facade: superblock and catalogue records.

use zonda::fuzzing;

/// A superblock or a catalogue record: decoded or refused.
pub fn superblock(input: &[u8]) {
    let _ = fuzzing::superblock(input);
    let _ = fuzzing::tree_record(input);
}

pub(crate) fn superblock_valid() -> Vec<Vec<u8>> {
    fuzzing::valid().into()
}

/// Makes the checksum of a superblock right: it stands in the last 4 of 32 bytes. A tree record, of 8, has none.
pub(crate) fn superblock_seal(input: &mut [u8]) {
    if let Some(superblock) = input.get_mut(..32) {
        crate::seal_last_4(superblock);
    }
}
