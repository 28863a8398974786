//! The decoders of this crate, for fuzz targets. Not part of the interface.

use zonda_pages::{ChunkAddress, LiveValues, PageId, SegmentId};

use crate::{
    TreeError,
    buffer::Buffer,
    checkpoint_extra::CheckpointExtra,
    format::{CHUNK_VERSION, VALUE_MAGIC, ValueChunkHeader},
    image,
    leaf_page::{self, LeafBody},
    log::Session,
    merge::{Frame, plan},
    metalog::{Begin, MetaRecord, Records, Upsert},
    pool::{arena::Owner, memory::Memory},
    record::{Kind, Record},
    values::{Place, ValuePointer, parse_chunk},
};

/// The page sizes that merges of [`leaf`] aim at.
const FRAME: Frame<'static> = Frame { low: b"", high: None, body_bytes: 4064, body_bytes_max: (64 << 12) - 32 };

fn inline<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record { key, kind: Kind::Inline, value }
}

/// Decodes any bytes as the body of a leaf page, searches it for each of its keys and merges it with a record. Returns
/// how many records it has and how many pages it becomes.
///
/// # Panics
/// If a search of the page as it is says something else than one of the verified page.
#[must_use]
pub fn leaf(bytes: &[u8]) -> Option<(usize, usize)> {
    let body = LeafBody::decode(bytes).ok()?;
    // Of a page that nobody verified; any keys: its first ones' bytes as they lie there, too.
    for suffix in [&[][..], &[0xff; 3]].into_iter().chain(bytes.windows(2).take(64)) {
        let _ = body.find(&[body.prefix(), suffix].concat());
    }
    let page = body.verify().ok()?;
    for record in page.slots().iter() {
        let key = [page.prefix(), record.key].concat();
        assert_eq!(body.find(&key).ok(), Some(page.find(&key)), "a search looks at verified records alone");
    }
    let merged = plan(FRAME, Some(page), std::iter::once(inline(b"merged", b"value"))).ok()?;
    Some((page.slots().len(), merged.pages.len()))
}

/// A dense and a slotted page.
#[must_use]
pub fn leaf_valid() -> [Vec<u8>; 2] {
    let keys: Vec<[u8; 8]> = (0..20_u64).map(|number| (number << 8).to_be_bytes()).collect();
    let dense: Vec<Record<'_>> = keys.iter().map(|key| inline(key, key)).collect();
    let slotted: Vec<Record<'_>> = keys.iter().zip(0..).map(|(key, len)| inline(&key[..], &key[..len % 8])).collect();
    [leaf_page::encode(b"", None, &dense), leaf_page::encode(&keys[0], Some(b"\x01"), &slotted)]
}

/// Decodes any bytes as a buffer image; returns how many records it has.
#[must_use]
pub fn buffer_image(bytes: &[u8]) -> Option<u64> {
    let mut records = 0;
    let count = &mut |_: &Record<'_>| {
        records += 1;
        Ok(())
    };
    image::decode(bytes, count).ok().map(|()| records)
}

/// The image of a buffer with a value and a tombstone.
#[must_use]
pub fn buffer_image_valid() -> Vec<u8> {
    let arena = Memory::slabs(1 << 20);
    let mut buffer = Buffer::new(&arena, Owner::of(PageId(0)), None, b"pre", 100);
    let fits = buffer.upsert(&inline(b"prefix", b"value"))
        && buffer.upsert(&Record { key: b"prey", kind: Kind::Tombstone, value: b"" });
    assert!(fits, "the buffer was made large enough");
    image::encode(&buffer)
}

/// Decodes any bytes as a value pointer and encodes it again; returns how many chunks it names.
#[must_use]
pub fn value_pointer(bytes: &[u8]) -> Option<usize> {
    let pointer = ValuePointer::decode(bytes).ok()?;
    let mut again = Vec::new();
    pointer.encode(&mut again);
    assert_eq!(ValuePointer::decode(&again).ok().as_ref(), Some(&pointer), "an encoded pointer decodes");
    assert!(again.len() <= bytes.len(), "the shortest encoding is {} bytes of {}", again.len(), bytes.len());
    let chunks = pointer.chunks(8).count();
    let (last, new) = (ChunkAddress(u64::MAX), Place { at: ChunkAddress(0), segment: SegmentId(0) });
    assert!(pointer.clone().replace(last, new) == pointer.refers_to(last));
    Some(chunks)
}

/// Pointers to one chunk and to three.
#[must_use]
pub fn value_pointer_valid() -> [Vec<u8>; 2] {
    // Total and segment bytes, checksum, first block and generation, differences of the others (+2 and 0, -1 and +1).
    [vec![100, 0xe8, 0x07, 1, 2, 3, 4, 9, 5], vec![0xb8, 0x17, 0xe8, 0x07, 1, 2, 3, 4, 9, 5, 4, 0, 1, 2]]
}

/// Decodes any bytes as a value chunk; returns the bytes of key and segment.
#[must_use]
pub fn value_chunk(bytes: &[u8]) -> Option<(usize, usize)> {
    parse_chunk(bytes).ok().map(|chunk| (chunk.key.len(), chunk.bytes.len()))
}

/// A chunk of a value.
#[must_use]
pub fn value_chunk_valid() -> Vec<u8> {
    let header = ValueChunkHeader {
        magic: VALUE_MAGIC,
        version: CHUNK_VERSION.into(),
        key_bytes: 3.into(),
        segment: 0.into(),
        total_bytes: 5.into(),
    };
    [zerocopy::IntoBytes::as_bytes(&header), b"key", b"value"].concat()
}

/// Decodes any bytes as the records of a MetaLog group, and what a checkpoint says besides, up to the first that is none; returns how many
/// there are.
#[must_use]
pub fn meta_records(bytes: &[u8]) -> usize {
    let is_sound = |record: &Result<MetaRecord<'_>, TreeError>| match record {
        Ok(MetaRecord::Begin(begin)) => CheckpointExtra::decode(begin.extra).is_ok(),
        record => record.is_ok(),
    };
    Records::new(bytes).take_while(is_sound).count()
}

/// One record of each kind.
#[must_use]
pub fn meta_records_valid() -> Vec<u8> {
    let address = zonda_pages::PageAddress::from_raw(77 << 6);
    let at = address.expect("a block and a length");
    let session = Session { number: 3, first_sequence: 40 };
    let id = zonda_pages::PageId(5);
    let values = |segment, written| LiveValues { segment: SegmentId(segment), bytes: 8_192, written };
    let extra = CheckpointExtra { log_is_durable: true, live_values: vec![values(7, None), values(300, Some(16_384))] }
        .encode();
    let records = [
        MetaRecord::Begin(Begin { checkpoint: 2, replay_from: 40, session, next_page_id: 6, extra: &extra }),
        MetaRecord::Leaf { id, low_key: b"low", address, image: &buffer_image_valid() },
        MetaRecord::End { checkpoint: 2 },
        MetaRecord::Move { id, address: at, merged_to: 41 },
        MetaRecord::Restructure {
            removed: vec![id].into(),
            upserts: vec![Upsert { id, low_key: b"key", address }].into(),
            merged_to: 42,
        },
        MetaRecord::Session(session),
        MetaRecord::Sparse { id, bytes: 1_000 },
    ];
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}
