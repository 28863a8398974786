//! On-disk structs of a store in place: superblock and segment header (byte tables: docs/format.md).
//!
//! All that counts of a segment header lies in its first 512 bytes, so that it is old or new, never a mix, on a device whose
//! blocks are that short: it is overwritten while its segment is in use.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};
use zonda_device::ZoneId;
use zonda_space::{SUPERBLOCK_BYTES_MAX, SpaceError, StoreId};

use super::layout::SegmentIndex;
use crate::format::{area_kind, area_number};
use crate::{AreaKind, BLOCK_BYTES};

/// Version of both structs.
const VERSION: u32 = 1;
const SUPERBLOCK_MAGIC: [u8; 8] = *b"ZONDABLK";
const HEADER_MAGIC: [u8; 8] = *b"ZONDASEG";
/// The kind of a segment of pages; areas have the numbers of their chunks. On disk, never renumber.
const KIND_PAGES: u32 = 16;
/// The kind of a segment in which nothing counts; it keeps its generation, so that none is ever used twice.
const KIND_FREE: u32 = 17;
/// Bytes of a header that can be torn apart by no device.
const HEADER_BYTES: usize = 512;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    magic: [u8; 8],
    version: U32,
    superblock_bytes: U32,
    features: U64,
    store: [u8; 16],
    client: [u8; 8],
    segment_blocks: U64,
    capacity_blocks: U64,
    zeros: [u8; 60],
    crc: U32,
    superblock: [u8; SUPERBLOCK_BYTES_MAX],
    padding: [u8; BLOCK_BYTES - 128 - SUPERBLOCK_BYTES_MAX],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSegmentHeader {
    magic: [u8; 8],
    version: U32,
    kind: U32,
    store: [u8; 16],
    generation: U64,
    segment: U32,
    written_blocks: U32,
    zeros: [u8; HEADER_BYTES - 52],
    crc: U32,
}

const _: () = assert!(size_of::<RawSuperblock>() == BLOCK_BYTES);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, crc) == 124);
const _: () = assert!(size_of::<RawSegmentHeader>() == HEADER_BYTES);

/// What a store was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) store: StoreId,
    pub(crate) client: [u8; 8],
    pub(crate) features: u64,
    pub(crate) segment_blocks: u64,
    pub(crate) capacity_blocks: u64,
    /// The client's bytes, at most [`SUPERBLOCK_BYTES_MAX`].
    pub(crate) superblock: Vec<u8>,
}

/// Why a block is not a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuperblockFault {
    /// Only zeros: nothing was ever written.
    Blank,
    /// Something else, or damaged.
    Other,
    /// Intact, of a newer version.
    Newer(u32),
}

impl Identity {
    /// The block of a superblock.
    ///
    /// # Panics
    /// If the client's bytes are too long: the caller checked them.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut raw = RawSuperblock::new_zeroed();
        raw.magic = SUPERBLOCK_MAGIC;
        raw.version = VERSION.into();
        raw.superblock_bytes = u32::try_from(self.superblock.len()).expect("at most 2,048").into();
        raw.features = self.features.into();
        raw.store = self.store.0.to_le_bytes();
        raw.client = self.client;
        raw.segment_blocks = self.segment_blocks.into();
        raw.capacity_blocks = self.capacity_blocks.into();
        raw.superblock[..self.superblock.len()].copy_from_slice(&self.superblock);
        raw.crc = superblock_crc(&raw).into();
        raw.as_bytes().to_vec()
    }

    /// Reads any bytes (I10).
    ///
    /// # Errors
    /// Why they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SuperblockFault> {
        let (raw, _) = RawSuperblock::ref_from_prefix(bytes).map_err(|_| SuperblockFault::Other)?;
        if raw.magic != SUPERBLOCK_MAGIC {
            let blank = bytes.iter().all(|&byte| byte == 0);
            return Err(if blank { SuperblockFault::Blank } else { SuperblockFault::Other });
        }
        if raw.crc.get() != superblock_crc(raw) {
            return Err(SuperblockFault::Other);
        }
        if raw.version.get() > VERSION {
            return Err(SuperblockFault::Newer(raw.version.get()));
        }
        let len = raw.superblock_bytes.get() as usize;
        let superblock = raw.superblock.get(..len).ok_or(SuperblockFault::Other)?.to_vec();
        Ok(Self {
            store: StoreId(u128::from_le_bytes(raw.store)),
            client: raw.client,
            features: raw.features.get(),
            segment_blocks: raw.segment_blocks.get(),
            capacity_blocks: raw.capacity_blocks.get(),
            superblock,
        })
    }
}

/// What two faulty copies of a superblock say together.
pub(crate) fn no_superblock(faults: [SuperblockFault; 2]) -> SpaceError {
    let newer = faults.iter().find_map(|fault| match fault {
        SuperblockFault::Newer(version) => Some(*version),
        SuperblockFault::Blank | SuperblockFault::Other => None,
    });
    match newer {
        Some(found) => SpaceError::NewerVersion { zone: ZoneId(0), found, known: VERSION },
        None => {
            let (what, rule) = ("superblock", "no store in place: neither copy of the superblock is intact");
            SpaceError::BadGeometry { what, value: 0, rule }
        }
    }
}

fn superblock_crc(raw: &RawSuperblock) -> u32 {
    let bytes = raw.as_bytes();
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..124]), &bytes[128..])
}

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Free,
    Pages,
    Area(AreaKind),
}

/// The first block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) kind: SegmentKind,
    pub(crate) generation: u64,
    /// Blocks written behind the header of a sealed segment of an area; 0 = not known.
    pub(crate) written_blocks: u32,
}

impl SegmentHeader {
    /// Its bytes, for the beginning of a block of zeros.
    pub(crate) fn encode(&self, store: StoreId, segment: SegmentIndex) -> [u8; HEADER_BYTES] {
        let mut raw = RawSegmentHeader::new_zeroed();
        raw.magic = HEADER_MAGIC;
        raw.version = VERSION.into();
        raw.kind = match self.kind {
            SegmentKind::Free => KIND_FREE.into(),
            SegmentKind::Pages => KIND_PAGES.into(),
            SegmentKind::Area(kind) => u32::from(area_number(kind)).into(),
        };
        raw.store = store.0.to_le_bytes();
        raw.generation = self.generation.into();
        raw.segment = segment.0.into();
        raw.written_blocks = self.written_blocks.into();
        raw.crc = header_crc(&raw).into();
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Reads any bytes (I10): the header of a segment of this store, or nothing.
    pub(crate) fn decode(bytes: &[u8], store: StoreId, segment: SegmentIndex) -> Option<Self> {
        let (raw, _) = RawSegmentHeader::ref_from_prefix(bytes).ok()?;
        let whole = raw.magic == HEADER_MAGIC && raw.version.get() == VERSION && raw.crc.get() == header_crc(raw);
        if !whole || raw.store != store.0.to_le_bytes() || raw.segment.get() != segment.0 || raw.generation.get() == 0 {
            return None;
        }
        let kind = match raw.kind.get() {
            KIND_FREE => SegmentKind::Free,
            KIND_PAGES => SegmentKind::Pages,
            number => SegmentKind::Area(area_kind(u8::try_from(number).ok()?)?),
        };
        Some(Self { kind, generation: raw.generation.get(), written_blocks: raw.written_blocks.get() })
    }
}

fn header_crc(raw: &RawSegmentHeader) -> u32 {
    crc32c::crc32c(&raw.as_bytes()[..HEADER_BYTES - size_of::<U32>()])
}

/// Makes the checksum right of the superblock or segment header that `bytes` begin with, if they have its magic and length (for fuzz
/// targets).
pub(crate) fn seal(bytes: &mut [u8]) {
    if let Ok((raw, _)) = RawSuperblock::mut_from_prefix(bytes)
        && raw.magic == SUPERBLOCK_MAGIC
    {
        raw.crc = superblock_crc(raw).into();
    }
    if let Ok((raw, _)) = RawSegmentHeader::mut_from_prefix(bytes)
        && raw.magic == HEADER_MAGIC
    {
        raw.crc = header_crc(raw).into();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity() -> Identity {
        Identity {
            store: StoreId(77),
            client: *b"tree\0\0\0\0",
            features: 5,
            segment_blocks: 64,
            capacity_blocks: 6400,
            superblock: b"super".to_vec(),
        }
    }

    const HEADER: SegmentHeader =
        SegmentHeader { kind: SegmentKind::Area(AreaKind::Meta), generation: 9, written_blocks: 3 };

    #[test]
    fn superblocks_round_trip_and_every_flipped_bit_is_found() {
        let bytes = identity().encode();
        assert_eq!(Identity::decode(&bytes), Ok(identity()));
        for bit in (0..160 * 8).chain([4095 * 8]) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Identity::decode(&flipped).is_err(), "bit {bit}");
        }
        assert_eq!(Identity::decode(&[0; BLOCK_BYTES]), Err(SuperblockFault::Blank));
    }

    #[test]
    fn a_newer_superblock_says_so() {
        let mut raw = RawSuperblock::read_from_bytes(&identity().encode()).unwrap();
        raw.version = 2.into();
        raw.crc = superblock_crc(&raw).into();
        assert_eq!(Identity::decode(raw.as_bytes()), Err(SuperblockFault::Newer(2)));
        let said = no_superblock([SuperblockFault::Other, SuperblockFault::Newer(2)]);
        assert!(matches!(said, SpaceError::NewerVersion { found: 2, .. }));
    }

    #[test]
    fn headers_round_trip_and_are_of_one_place_and_store() {
        let bytes = HEADER.encode(StoreId(7), SegmentIndex(4));
        assert_eq!(SegmentHeader::decode(&bytes, StoreId(7), SegmentIndex(4)), Some(HEADER));
        assert_eq!(SegmentHeader::decode(&bytes, StoreId(8), SegmentIndex(4)), None);
        assert_eq!(SegmentHeader::decode(&bytes, StoreId(7), SegmentIndex(5)), None);
        assert_eq!(SegmentHeader::decode(&[0; BLOCK_BYTES], StoreId(0), SegmentIndex(0)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4200), which in 0..3) {
            let mut bytes = bytes;
            let magic = [SUPERBLOCK_MAGIC, HEADER_MAGIC, [0; 8]][usize::try_from(which).unwrap()];
            if let Some(at) = bytes.get_mut(..8) {
                at.copy_from_slice(&magic);
            }
            prop_assert!(Identity::decode(&bytes).is_err());
            prop_assert_eq!(SegmentHeader::decode(&bytes, StoreId(0), SegmentIndex(0)), None);
        }
    }
}
