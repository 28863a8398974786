//! The decoders of this crate, for fuzz targets. Not part of the interface.

use zerocopy::FromBytes;
use zonda_space::StoreId;

use crate::format::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader, PAGE_HEADER_BYTES, PAGE_MAGIC, PageHeader};
use crate::frame::{ChunkFrame, Frame, Framing, Place, chunk_blocks, page_blocks};
use crate::in_place::format::{Identity, SegmentHeader, SegmentKind, seal as seal_in_place};
use crate::in_place::layout::SegmentIndex;
use crate::{AreaKind, BLOCK_BYTES, NewPage, PageId};

/// The store of [`frame`].
const STORE: u128 = 7;

/// Where the frames of [`frame`] lie.
const PLACE: Place = Place { generation: 5, block: 100 };

/// Decodes any bytes as a frame; returns the bytes of its body or payload and its blocks.
#[must_use]
pub fn frame(bytes: &[u8]) -> Option<(usize, u64)> {
    let frame = Framing::new(STORE).frame(bytes, PLACE).ok()?;
    let body = match frame {
        Frame::Page(page) => page.body,
        Frame::Chunk(chunk) => chunk.payload,
    };
    Some((body.len(), frame.blocks()))
}

/// A valid page and a valid chunk, from which mutations start.
#[must_use]
pub fn valid() -> [Vec<u8>; 2] {
    let body = [7; 100];
    let blank = |blocks: u64| vec![0; usize::try_from(blocks).expect("few") * BLOCK_BYTES];
    let (mut page, mut chunk) = (blank(page_blocks(body.len())), blank(chunk_blocks(body.len())));
    let framing = Framing::new(STORE);
    framing.write_page(&mut page, &NewPage { id: PageId(3), sequence: 9, body: &body }, PLACE);
    framing.write_chunk(&mut chunk, &ChunkFrame { kind: AreaKind::Meta, index: 2, payload: &body }, PLACE);
    [page, chunk]
}

/// Makes the checksum right of a frame as [`frame`] decodes it.
pub fn seal(bytes: &mut [u8]) {
    seal_at(bytes, STORE, PLACE.block);
}

/// Makes the checksum right of the frame that `bytes` begin with, if they hold one whole. It lies at `block` of `store`.
pub fn seal_at(bytes: &mut [u8], store: u128, block: u64) {
    let Some(frame) = whole_frame(bytes).and_then(|end| bytes.get_mut(..end)) else { return };
    let crc = Framing::new(store).crc(block, frame);
    frame[..size_of::<u32>()].copy_from_slice(&crc.to_le_bytes());
}

/// Bytes of the frame that `bytes` begin with, as its header says.
fn whole_frame(bytes: &[u8]) -> Option<usize> {
    let magic = bytes.get(4..6)?;
    if magic == PAGE_MAGIC {
        let (header, _) = PageHeader::ref_from_prefix(bytes).ok()?;
        return PAGE_HEADER_BYTES.checked_add(header.body_bytes.get() as usize);
    }
    let (header, _) = ChunkHeader::ref_from_prefix(bytes).ok().filter(|_| magic == CHUNK_MAGIC)?;
    CHUNK_HEADER_BYTES.checked_add(header.payload_bytes.get() as usize)
}

/// The segment of [`in_place_header`].
const SEGMENT: SegmentIndex = SegmentIndex(3);

/// Decodes any bytes as the superblock of a store in place; `None` if they are none, else whether it is the same after encoding and
/// decoding.
#[must_use]
pub fn in_place_superblock(bytes: &[u8]) -> Option<bool> {
    let identity = Identity::decode(bytes).ok()?;
    Some(Identity::decode(&identity.encode()) == Ok(identity))
}

/// As [`in_place_superblock`], for the header of a segment.
#[must_use]
pub fn in_place_header(bytes: &[u8]) -> Option<bool> {
    let header = SegmentHeader::decode(bytes, StoreId(STORE), SEGMENT)?;
    Some(SegmentHeader::decode(&header.encode(StoreId(STORE), SEGMENT), StoreId(STORE), SEGMENT) == Some(header))
}

/// A valid superblock and a valid header, from which mutations start.
#[must_use]
pub fn in_place_valid() -> [Vec<u8>; 2] {
    let identity = Identity {
        store: StoreId(STORE),
        client: *b"tree\0\0\0\0",
        features: 0,
        segment_blocks: 16,
        capacity_blocks: 640,
        superblock: b"options".to_vec(),
    };
    let kind = SegmentKind::Area(AreaKind::Log);
    let header = SegmentHeader { kind, generation: 5, written_blocks: 9 }.encode(StoreId(STORE), SEGMENT);
    [identity.encode(), header.to_vec()]
}

/// Makes the checksum right of a superblock or header as these decode it.
pub fn in_place_seal(bytes: &mut [u8]) {
    seal_in_place(bytes);
}
