//! The first key of a table, from the bytes that it begins with.

/// Behind every key of the user: its sequence number, and what kind of entry it is.
const TRAILER_BYTES: usize = 8;

/// The first key of a block-based table whose first block is not compressed; `None` for any other, or if `bytes` end before it does.
///
/// The table begins with its first block, and that with an entry: how many bytes of the key are those of the one before (none), how many
/// follow, the length of the value, the key. A compressed block begins with its length when it is not, which is not 0.
#[must_use]
pub(crate) fn first_key(bytes: &[u8]) -> Option<&[u8]> {
    let behind = bytes.strip_prefix(&[0])?;
    let (key_bytes, behind) = varint(behind)?;
    let (_, behind) = varint(behind)?;
    behind.get(..usize::try_from(key_bytes).ok()?.checked_sub(TRAILER_BYTES)?)
}

/// A number of at most 32 bits, 7 in each byte, and what is behind it.
fn varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        number |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_begins_with_its_first_key() {
        let table = [&[0, 11, 0xac, 0x02][..], b"key", &[1, 7, 0, 0, 0, 0, 0, 0], &[b'v'; 300]].concat();
        assert_eq!(first_key(&table), Some(&b"key"[..]));
        assert_eq!(first_key(&table[..6]), None, "the key is cut off");
        // Compressed: 4096 bytes that begin with what stands above.
        assert_eq!(first_key(&[&[0x80, 0x20][..], &table].concat()), None);
        assert_eq!(first_key(&[0, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1]), None, "shorter than its trailer");
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = first_key(&bytes);
            let _ = first_key(&[&[0], &bytes[..]].concat());
        }
    }
}
