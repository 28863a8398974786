//! A buffer's records as a checkpoint carries them.
//!
//! Bytes: prefix (length-prefixed), then per record: kind u8, key suffix and value (each length-prefixed).

use crate::{
    TreeError,
    buffer::Buffer,
    codec::{Reader, put_bytes},
    limits::KEY_BYTES_MAX,
    record::{Kind, Record},
    slots::VALUE_BYTES_MAX,
};

/// Encodes all records of a buffer.
pub(crate) fn encode(buffer: &Buffer) -> Vec<u8> {
    let mut image = Vec::with_capacity(buffer.slots().used_bytes());
    put_bytes(&mut image, buffer.prefix());
    for record in buffer.slots().iter() {
        image.push(record.kind as u8);
        put_bytes(&mut image, record.key);
        put_bytes(&mut image, record.value);
    }
    image
}

/// Visits the records of an image with full keys, in key order. An empty image has none.
///
/// # Errors
/// `Damaged` for bytes that are no image; what `visit` returns.
pub(crate) fn decode(
    image: &[u8],
    visit: &mut dyn FnMut(&Record<'_>) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    if image.is_empty() {
        return Ok(());
    }
    let mut reader = Reader::new("buffer image", image);
    let prefix = reader.bytes(KEY_BYTES_MAX)?;
    while !reader.is_empty() {
        let kind = u8::try_from(reader.number()?)
            .ok()
            .and_then(Kind::from_raw)
            .ok_or_else(|| reader.damaged("unknown record kind"))?;
        let key = [prefix, reader.bytes(KEY_BYTES_MAX)?].concat();
        let value = reader.bytes(VALUE_BYTES_MAX)?;
        visit(&Record { key: &key, kind, value })?;
    }
    Ok(())
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn round_trips() {
        let mut buffer = Buffer::new(None, b"p", 200);
        assert!(buffer.upsert(&Record { key: b"pa", kind: Kind::Inline, value: b"1" }));
        assert!(buffer.upsert(&Record { key: b"pb", kind: Kind::Tombstone, value: b"" }));
        let mut seen = Vec::new();
        decode(&encode(&buffer), &mut |record| {
            seen.push((record.key.to_vec(), record.kind, record.value.to_vec()));
            Ok(())
        })
        .expect("own encoding");
        assert_eq!(seen, [(b"pa".to_vec(), Kind::Inline, b"1".to_vec()), (b"pb".to_vec(), Kind::Tombstone, vec![])]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes, &mut |_| Ok(()));
        }
    }
}
