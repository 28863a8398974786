//! Decoders of `zonda-tree` that take one record or one page.

use zonda_tree::fuzzing;

/// The body of a leaf page: what decodes can be searched and merged, or merging says what is wrong.
pub fn tree_leaf(input: &[u8]) {
    let _ = fuzzing::leaf(input);
}

pub(crate) fn tree_leaf_valid() -> Vec<Vec<u8>> {
    fuzzing::leaf_valid().into()
}

/// The image of a leaf buffer: every record takes at least its kind and two lengths.
pub fn tree_image(input: &[u8]) {
    let Some(records) = fuzzing::buffer_image(input) else { return };
    assert!(3 * records <= input.len() as u64, "{records} records in {} bytes", input.len());
}

pub(crate) fn tree_image_valid() -> Vec<Vec<u8>> {
    vec![fuzzing::buffer_image_valid()]
}

/// A value pointer: what decodes names no more chunks than it has bytes, and encodes to the same.
pub fn tree_value_pointer(input: &[u8]) {
    let Some(chunks) = fuzzing::value_pointer(input) else { return };
    assert!(chunks <= input.len(), "{chunks} chunks from {} bytes", input.len());
}

pub(crate) fn tree_value_pointer_valid() -> Vec<Vec<u8>> {
    fuzzing::value_pointer_valid().into()
}

/// A chunk of a value: key and segment lie within the input.
pub fn tree_value_chunk(input: &[u8]) {
    let Some((key_bytes, bytes)) = fuzzing::value_chunk(input) else { return };
    assert!(key_bytes + bytes < input.len(), "{key_bytes} and {bytes} bytes in {}", input.len());
}

pub(crate) fn tree_value_chunk_valid() -> Vec<Vec<u8>> {
    vec![fuzzing::value_chunk_valid()]
}

/// Records of the MetaLog: every one takes at least its tag.
pub fn tree_meta_records(input: &[u8]) {
    assert!(fuzzing::meta_records(input) <= input.len());
}

pub(crate) fn tree_meta_records_valid() -> Vec<Vec<u8>> {
    vec![fuzzing::meta_records_valid()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_inputs_decode_to_what_they_hold() {
        let [dense, slotted] = fuzzing::leaf_valid();
        assert_eq!((fuzzing::leaf(&dense), fuzzing::leaf(&slotted)), (Some((20, 1)), Some((20, 1))));
        assert_eq!(fuzzing::buffer_image(&fuzzing::buffer_image_valid()), Some(2));
        assert_eq!(fuzzing::value_pointer_valid().map(|pointer| fuzzing::value_pointer(&pointer)), [Some(1), Some(3)]);
        assert_eq!(fuzzing::value_chunk(&fuzzing::value_chunk_valid()), Some((3, 5)));
        assert_eq!(fuzzing::meta_records(&fuzzing::meta_records_valid()), 7);
    }
}
