//! Frames: encoding pages and chunks into blocks and verifying them (I5, I10).
//!
//! Cost: one CRC-32C over the frame each way; no allocation.

use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

use crate::format::{
    self, CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader, FRAME_VERSION, FrameStart, PAGE_HEADER_BYTES, PAGE_MAGIC,
    PageHeader,
};
use crate::{AreaKind, BLOCK_BYTES, NewPage, PAGE_BLOCKS_MAX, PageError, PageId};

/// The longest chunk payload in bytes that any store writes; a longer length in a header is damage.
pub(crate) const CHUNK_PAYLOAD_BYTES_MAX: usize = (2 << 20) - CHUNK_HEADER_BYTES;

/// Where a frame lies: part of its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Generation of the zone.
    pub(crate) generation: u64,
    /// First block of the frame, counted over the store.
    pub(crate) block: u64,
}

/// A verified page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageFrame<'a> {
    pub(crate) id: PageId,
    pub(crate) sequence: u64,
    pub(crate) blocks: u64,
    pub(crate) body: &'a [u8],
}

/// A verified chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkFrame<'a> {
    pub(crate) kind: AreaKind,
    pub(crate) index: u32,
    pub(crate) payload: &'a [u8],
}

impl ChunkFrame<'_> {
    pub(crate) fn blocks(&self) -> u64 {
        chunk_blocks(self.payload.len())
    }
}

/// A verified frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    Page(PageFrame<'a>),
    Chunk(ChunkFrame<'a>),
}

impl Frame<'_> {
    pub(crate) fn blocks(&self) -> u64 {
        match self {
            Self::Page(page) => page.blocks,
            Self::Chunk(chunk) => chunk.blocks(),
        }
    }
}

/// Why bytes are not the frame that was asked for.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum Fault {
    #[error("no page or chunk begins here")]
    NoFrame,
    #[error("version {0}; this program knows {FRAME_VERSION}")]
    Version(u8),
    #[error("a length of {0} bytes")]
    Length(usize),
    #[error("a chunk of unknown kind {0}")]
    Kind(u8),
    #[error("the checksum does not match")]
    Checksum,
    #[error("zone generation {found}, not {expected}")]
    Generation { found: u64, expected: u64 },
    #[error("page {}, not {}", .found.0, .expected.0)]
    OtherPage { found: PageId, expected: PageId },
    #[error("{found} blocks, not {expected}")]
    OtherLength { found: u64, expected: u64 },
    #[error("a chunk of another area")]
    OtherArea,
    /// The header is plausible, but the frame goes on behind the bytes that were given.
    #[error("cut off: {needed_bytes} bytes needed")]
    CutOff { needed_bytes: usize },
    /// What lies here the device does not read, so nobody knows what it is.
    #[error("the device does not read it")]
    Unreadable,
}

impl Fault {
    /// The error a caller of the store sees.
    pub(crate) fn at(self, what: &'static str, block: u64) -> PageError {
        PageError::Damaged { what, block, why: self.to_string() }
    }
}

/// The page in bytes that this program encoded or verified itself: no checksum is computed.
pub(crate) fn trusted_page(bytes: &[u8]) -> Result<PageFrame<'_>, Fault> {
    let (header, rest) = PageHeader::ref_from_prefix(bytes).map_err(|_| Fault::NoFrame)?;
    let body_bytes = header.body_bytes.get() as usize;
    let body = rest.get(..body_bytes).ok_or(Fault::Length(body_bytes))?;
    let blocks = u64::from(header.start.detail) + 1;
    Ok(PageFrame { id: PageId(header.id.get()), sequence: header.sequence.get(), blocks, body })
}

/// The generation that the frame in `bytes` says to be of, if one seems to begin there; nothing is verified.
pub(crate) fn generation_in(bytes: &[u8]) -> Option<u64> {
    let (start, _) = FrameStart::ref_from_prefix(bytes).ok()?;
    match start.magic {
        PAGE_MAGIC => PageHeader::ref_from_prefix(bytes).ok().map(|(header, _)| header.generation.get()),
        CHUNK_MAGIC => ChunkHeader::ref_from_prefix(bytes).ok().map(|(header, _)| header.generation.get()),
        _ => None,
    }
}

/// Blocks of a page with a body of `body_bytes`.
pub(crate) fn page_blocks(body_bytes: usize) -> u64 {
    (PAGE_HEADER_BYTES + body_bytes).div_ceil(BLOCK_BYTES) as u64
}

/// Blocks of a chunk with a payload of `payload_bytes`.
#[must_use]
pub fn chunk_blocks(payload_bytes: usize) -> u64 {
    (CHUNK_HEADER_BYTES + payload_bytes).div_ceil(BLOCK_BYTES) as u64
}

/// Encodes and verifies the frames of one store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    store_crc: u32,
}

impl Framing {
    /// For the store with this id.
    pub(crate) fn new(store: u128) -> Self {
        Self { store_crc: crc32c::crc32c(&store.to_le_bytes()) }
    }

    /// CRC of the frame in `bytes` if it lies at `block`.
    pub(crate) fn crc(self, block: u64, bytes: &[u8]) -> u32 {
        let identity = crc32c::crc32c_append(self.store_crc, &block.to_le_bytes());
        crc32c::crc32c_append(identity, &bytes[size_of::<u32>()..])
    }

    /// Writes a page over `into`, which is exactly its blocks.
    pub(crate) fn write_page(self, into: &mut [u8], page: &NewPage<'_>, place: Place) {
        let blocks = page_blocks(page.body.len());
        assert!(into.len() as u64 == blocks * BLOCK_BYTES as u64, "a page of {blocks} blocks in {} bytes", into.len());
        let detail = u8::try_from(blocks - 1).expect("the caller checked the length against PAGE_BLOCKS_MAX");
        let header = PageHeader {
            start: format::start(PAGE_MAGIC, detail),
            id: page.id.0.into(),
            body_bytes: u32::try_from(page.body.len()).expect("at most 64 blocks").into(),
            sequence: page.sequence.into(),
            generation: place.generation.into(),
        };
        self.write(into, header.as_bytes(), page.body, place.block);
    }

    /// Writes a chunk over `into`, which is exactly its blocks.
    pub(crate) fn write_chunk(self, into: &mut [u8], chunk: &ChunkFrame<'_>, place: Place) {
        assert!(into.len() as u64 == chunk.blocks() * BLOCK_BYTES as u64, "a chunk in {} bytes", into.len());
        let header = ChunkHeader {
            start: format::start(CHUNK_MAGIC, format::area_number(chunk.kind)),
            payload_bytes: u32::try_from(chunk.payload.len()).expect("at most CHUNK_PAYLOAD_BYTES_MAX").into(),
            index: chunk.index.into(),
            generation: place.generation.into(),
        };
        self.write(into, header.as_bytes(), chunk.payload, place.block);
    }

    fn write(self, into: &mut [u8], header: &[u8], body: &[u8], block: u64) {
        let end = header.len() + body.len();
        into[..header.len()].copy_from_slice(header);
        into[header.len()..end].copy_from_slice(body);
        into[end..].fill(0);
        let crc = self.crc(block, &into[..end]);
        into[..size_of::<u32>()].copy_from_slice(&crc.to_le_bytes());
    }

    /// Verifies that `bytes` is page `id` at `place`, of exactly `bytes.len()` bytes.
    pub(crate) fn page(self, bytes: &[u8], id: PageId, place: Place) -> Result<PageFrame<'_>, Fault> {
        let Frame::Page(page) = self.frame(bytes, place)? else {
            return Err(Fault::NoFrame);
        };
        let expected = (bytes.len() / BLOCK_BYTES) as u64;
        match page {
            _ if page.id != id => Err(Fault::OtherPage { found: page.id, expected: id }),
            _ if page.blocks != expected => Err(Fault::OtherLength { found: page.blocks, expected }),
            _ => Ok(page),
        }
    }

    /// Verifies that `bytes` begins with a chunk of `kind` at `place`.
    pub(crate) fn chunk(self, bytes: &[u8], kind: AreaKind, place: Place) -> Result<ChunkFrame<'_>, Fault> {
        match self.frame(bytes, place)? {
            Frame::Chunk(chunk) if chunk.kind == kind => Ok(chunk),
            Frame::Chunk(_) => Err(Fault::OtherArea),
            Frame::Page(_) => Err(Fault::NoFrame),
        }
    }

    /// Verifies the frame at the beginning of `bytes`, whatever it is.
    pub(crate) fn frame(self, bytes: &[u8], place: Place) -> Result<Frame<'_>, Fault> {
        let (start, _) = FrameStart::ref_from_prefix(bytes).map_err(|_| Fault::NoFrame)?;
        match start.magic {
            PAGE_MAGIC | CHUNK_MAGIC if start.version != FRAME_VERSION => Err(Fault::Version(start.version)),
            PAGE_MAGIC => self.any_page(bytes, place).map(Frame::Page),
            CHUNK_MAGIC => self.any_chunk(bytes, place).map(Frame::Chunk),
            _ => Err(Fault::NoFrame),
        }
    }

    fn any_page(self, bytes: &[u8], place: Place) -> Result<PageFrame<'_>, Fault> {
        let (header, rest) = PageHeader::ref_from_prefix(bytes).map_err(|_| Fault::NoFrame)?;
        let (body_bytes, blocks) = (header.body_bytes.get() as usize, u64::from(header.start.detail) + 1);
        if blocks > PAGE_BLOCKS_MAX || page_blocks(body_bytes) != blocks {
            return Err(Fault::Length(body_bytes));
        }
        let body = self.verified(bytes, rest, body_bytes, place)?;
        check_generation(header.generation.get(), place)?;
        Ok(PageFrame { id: PageId(header.id.get()), sequence: header.sequence.get(), blocks, body })
    }

    fn any_chunk(self, bytes: &[u8], place: Place) -> Result<ChunkFrame<'_>, Fault> {
        let (header, rest) = ChunkHeader::ref_from_prefix(bytes).map_err(|_| Fault::NoFrame)?;
        let payload_bytes = header.payload_bytes.get() as usize;
        if payload_bytes > CHUNK_PAYLOAD_BYTES_MAX {
            return Err(Fault::Length(payload_bytes));
        }
        let kind = format::area_kind(header.start.detail).ok_or(Fault::Kind(header.start.detail))?;
        let payload = self.verified(bytes, rest, payload_bytes, place)?;
        check_generation(header.generation.get(), place)?;
        Ok(ChunkFrame { kind, index: header.index.get(), payload })
    }

    /// The `body_bytes` behind the header, if they are all there and the CRC matches.
    fn verified<'a>(self, bytes: &[u8], rest: &'a [u8], body_bytes: usize, place: Place) -> Result<&'a [u8], Fault> {
        let needed_bytes = bytes.len() - rest.len() + body_bytes;
        let body = rest.get(..body_bytes).ok_or(Fault::CutOff { needed_bytes })?;
        let stored = bytes.first_chunk().map(|crc| u32::from_le_bytes(*crc));
        if stored == Some(self.crc(place.block, &bytes[..needed_bytes])) { Ok(body) } else { Err(Fault::Checksum) }
    }
}

fn check_generation(found: u64, place: Place) -> Result<(), Fault> {
    let expected = place.generation;
    if found == expected { Ok(()) } else { Err(Fault::Generation { found, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { generation: 7, block: 100 };

    fn framing() -> Framing {
        Framing::new(0x1234)
    }

    fn page_bytes(body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xEE; usize::try_from(page_blocks(body.len())).unwrap() * BLOCK_BYTES];
        framing().write_page(&mut bytes, &NewPage { id: PageId(5), sequence: 9, body }, PLACE);
        bytes
    }

    #[test]
    fn a_page_comes_back_and_its_padding_is_zero() {
        for len in [0, 1, 4064, 4065, 60_000] {
            let body: Vec<u8> = (0u8..=255).cycle().take(len).collect();
            let bytes = page_bytes(&body);
            let page = framing().page(&bytes, PageId(5), PLACE).unwrap();
            assert_eq!((page.body, page.sequence, page.blocks), (&body[..], 9, (bytes.len() / BLOCK_BYTES) as u64));
            assert!(bytes[PAGE_HEADER_BYTES + len..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_page_elsewhere_or_of_another_identity_is_refused() {
        let bytes = page_bytes(b"body");
        let at = |id, place| framing().page(&bytes, PageId(id), place).unwrap_err();
        assert_eq!(at(6, PLACE), Fault::OtherPage { found: PageId(5), expected: PageId(6) });
        assert_eq!(at(5, Place { block: 101, ..PLACE }), Fault::Checksum);
        assert_eq!(at(5, Place { generation: 8, ..PLACE }), Fault::Generation { found: 7, expected: 8 });
        assert_eq!(Framing::new(1).page(&bytes, PageId(5), PLACE), Err(Fault::Checksum));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let mut bytes = page_bytes(b"body");
        for bit in 0..(PAGE_HEADER_BYTES + 4) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(framing().page(&bytes, PageId(5), PLACE).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_chunk_comes_back_and_says_when_it_is_cut_off() {
        let payload = vec![3; 10_000];
        let chunk = ChunkFrame { kind: AreaKind::Meta, index: 4, payload: &payload };
        let mut bytes = vec![0xEE; 3 * BLOCK_BYTES];
        framing().write_chunk(&mut bytes, &chunk, PLACE);
        assert_eq!(framing().chunk(&bytes, AreaKind::Meta, PLACE), Ok(chunk));
        assert_eq!(framing().chunk(&bytes, AreaKind::Log, PLACE), Err(Fault::OtherArea));
        let cut_off = framing().frame(&bytes[..BLOCK_BYTES], PLACE);
        assert_eq!(cut_off, Err(Fault::CutOff { needed_bytes: CHUNK_HEADER_BYTES + 10_000 }));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), magic in 0..3) {
            let mut bytes = bytes;
            if let (Some(at), Some(magic)) = (bytes.get_mut(4..7), [*b"ZP\x01", *b"ZC\x01"].get(usize::try_from(magic).unwrap())) {
                at.copy_from_slice(magic);
            }
            assert!(framing().frame(&bytes, PLACE).is_err());
        }
    }
}
