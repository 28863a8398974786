//! The examples of docs/format.md are what the code writes.
#![cfg(not(feature = "shuttle"))]

use zerocopy::IntoBytes;
use zonda_pages::{PageAddress, PageId};

use crate::{
    buffer::Buffer,
    format::{CHUNK_VERSION, LOG_MAGIC, LogChunkHeader, LogPartHeader},
    image, leaf_page,
    log::encoded_unit,
    metalog::MetaRecord,
    pool::{arena::Owner, memory::Memory},
    record::{Kind, Record},
    values::ValuePointer,
};

const DOCUMENT: &str = include_str!("../../../docs/format.md");

/// The bytes of the document's block ```` ```hex NAME ````: what stands before the bar of each line.
fn documented(name: &str) -> Vec<u8> {
    let start = DOCUMENT.split_once(&format!("```hex {name}\n")).expect("the document has the example").1;
    let block = start.split_once("```").expect("the block ends").0;
    let hex = block.lines().flat_map(|line| line.split('|').next().unwrap_or_default().split_whitespace());
    hex.map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record { key, kind: Kind::Inline, value }
}

fn tombstone(key: &[u8]) -> Record<'_> {
    Record { key, kind: Kind::Tombstone, value: b"" }
}

#[test]
fn a_leaf_page() {
    let body = leaf_page::encode(b"", None, &[put(b"user:1", b"a"), put(b"user:2", b"b")]);
    assert_eq!(documented("leaf-page"), body, "{body:02x?}");
}

#[test]
fn a_log_chunk() {
    let single = encoded_unit(&[put(b"k", b"v")]);
    let units = [single, encoded_unit(&[put(b"a", b"1"), tombstone(b"k")])].concat();
    let header = LogChunkHeader {
        magic: LOG_MAGIC,
        version: CHUNK_VERSION.into(),
        parts: 1.into(),
        session: 1.into(),
        reserved: 0.into(),
        complete_before: 4.into(),
        durable_before: 2.into(),
    };
    let len_bytes = u32::try_from(units.len()).expect("short").into();
    let part = LogPartHeader { first_sequence: 1.into(), len_bytes };
    let chunk = [header.as_bytes(), part.as_bytes(), &units].concat();
    assert_eq!(documented("log-chunk"), chunk, "{chunk:02x?}");
}

#[test]
fn a_move_record() {
    let mut bytes = Vec::new();
    MetaRecord::Move { id: PageId(300), address: PageAddress::new(77, 1), merged_to: 41 }.encode(&mut bytes);
    assert_eq!(documented("move-record"), bytes, "{bytes:02x?}");
}

#[test]
fn a_buffer_image() {
    let arena = Memory::slabs(1 << 20);
    let mut buffer = Buffer::new(&arena, Owner::of(PageId(0)), None, b"pre", 100);
    assert!(buffer.upsert(&put(b"prea", b"1")) && buffer.upsert(&tombstone(b"preb")));
    let image = image::encode(&buffer);
    assert_eq!(documented("image"), image, "{image:02x?}");
}

#[test]
fn a_value_pointer() {
    let pointer = ValuePointer::decode(&documented("value-pointer")).expect("a pointer");
    let chunks: Vec<_> = pointer.chunks(0).map(|(place, _)| (place.at.0, place.segment.0)).collect();
    assert_eq!(chunks, [(9, 20), (10, 20), (8, 19)]);
    let mut bytes = Vec::new();
    pointer.encode(&mut bytes);
    assert_eq!(documented("value-pointer"), bytes);
}
