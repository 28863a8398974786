//! The records of a buffer, filter node or batch as a checkpoint carries them.
//!
//! Bytes: prefix (length-prefixed), then per record: kind u8, key suffix and value (each length-prefixed).

use zonda_pages::{PageAddress, PageId};

use crate::{
    TreeError,
    buffer::Buffer,
    codec::{Reader, put_bytes},
    limits::KEY_BYTES_MAX,
    pool::{arena::Owner, memory::Memory},
    record::{Kind, Record},
    slots::VALUE_BYTES_MAX,
};

/// Encodes the dirty records of a buffer.
pub(crate) fn encode(buffer: &Buffer) -> Vec<u8> {
    encode_records(buffer.prefix(), buffer.dirty_records())
}

/// Encodes records with key suffixes behind `prefix`.
pub(crate) fn encode_records<'r>(prefix: &[u8], records: impl Iterator<Item = Record<'r>>) -> Vec<u8> {
    let mut image = Vec::new();
    put_bytes(&mut image, prefix);
    for record in records {
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
        let record = read_record(&mut reader, prefix)?;
        let key = [prefix, record.key].concat();
        visit(&Record { key: &key, ..record })?;
    }
    Ok(())
}

/// The buffer of an image, for the leaf `id` whose page is `page`.
///
/// # Errors
/// `Damaged` for bytes that are no image.
pub(crate) fn buffer(
    memory: &Memory,
    id: PageId,
    page: Option<PageAddress>,
    image: &[u8],
) -> Result<Buffer, TreeError> {
    let mut reader = Reader::new("buffer image", image);
    let prefix = reader.bytes(KEY_BYTES_MAX)?;
    let mut records: Vec<Record<'_>> = Vec::new();
    while !reader.is_empty() {
        let record = read_record(&mut reader, prefix)?;
        if records.last().is_some_and(|last| last.key >= record.key) {
            return Err(reader.damaged("records out of order"));
        }
        records.push(record);
    }
    let mut buffer = Buffer::of(memory, Owner::of(id), page, prefix, records.iter().copied());
    buffer.note_change(0);
    buffer.mark_all_dirty();
    if page.is_none() {
        buffer.set_complete();
    }
    Ok(buffer)
}

/// The next record, with its key suffix. The limit of keys holds for what that is with `prefix`: a longer one would not fit a buffer.
fn read_record<'a>(reader: &mut Reader<'a>, prefix: &[u8]) -> Result<Record<'a>, TreeError> {
    let kind = u8::try_from(reader.number()?).ok().and_then(Kind::from_raw);
    let kind = kind.ok_or_else(|| reader.damaged("unknown record kind"))?;
    let key = reader.bytes(KEY_BYTES_MAX - prefix.len())?;
    Ok(Record { key, kind, value: reader.bytes(VALUE_BYTES_MAX)? })
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn round_trips() {
        let arena = Memory::slabs(1 << 20);
        let mut buffer = Buffer::new(&arena, Owner::of(PageId(0)), None, b"p", 200);
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

    /// The limit holds for the whole key, of which an image stores the prefix once.
    #[test]
    fn a_key_that_is_too_long_with_its_prefix_is_damage() {
        let memory = Memory::slabs(1 << 20);
        let image_of = |suffix_bytes| {
            let key = vec![b'k'; suffix_bytes];
            encode_records(&[b'p'; 1_000], std::iter::once(Record { key: &key, kind: Kind::Inline, value: b"v" }))
        };
        let longest = image_of(KEY_BYTES_MAX - 1_000);
        assert!(decode(&longest, &mut |_| Ok(())).is_ok());
        assert!(super::buffer(&memory, PageId(0), None, &longest).is_ok());
        let longer = image_of(KEY_BYTES_MAX - 999);
        assert!(matches!(decode(&longer, &mut |_| Ok(())), Err(TreeError::Damaged { .. })));
        assert!(matches!(super::buffer(&memory, PageId(0), None, &longer), Err(TreeError::Damaged { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes, &mut |_| Ok(()));
        }
    }
}
