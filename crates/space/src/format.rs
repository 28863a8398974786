//! What this crate writes to the device: a header block at the start of each zone, and the chunks of a
//! [`Journal`](crate::Journal).
//!
//! # Zone header
//! It says which store, which generation of the zone and which streams, and carries a copy of the client's
//! superblock, because a zoned device has no place to overwrite. Little-endian; one block of 4,096 bytes:
//!
//! | offset | bytes | field |
//! |-------:|------:|-------|
//! | 0      | 8     | magic `ZONDAZON` |
//! | 8      | 4     | format version, 1 |
//! | 12     | 4     | bytes of the superblock, at most 2,048 |
//! | 16     | 8     | feature bits of the client |
//! | 24     | 16    | store id |
//! | 40     | 8     | client, ASCII padded with zeros |
//! | 48     | 8     | generation of the zone |
//! | 56     | 4     | number of the zone |
//! | 60     | 4     | stream after which the zone is named; 255 for the anchor that `format` writes |
//! | 64     | 4     | streams that the zone may hold, bit n for stream n |
//! | 68     | 4     | zones of the device |
//! | 72     | 8     | zone size in blocks of 4,096 bytes |
//! | 80     | 8     | zone capacity in blocks of 4,096 bytes |
//! | 88     | 36    | zeros |
//! | 124    | 4     | CRC-32C of bytes 0 to 123 and 128 to 4,095 |
//! | 128    | 2,048 | superblock, padded with zeros |
//! | 2,176  | 1,920 | zeros |
//!
//! Magic, version and the place of the checksum stay where they are in every later version, so that damage and a newer
//! version can be told apart.
//!
//! # Journal chunk
//! Whole blocks; items of the client, each after its length in 4 bytes:
//!
//! | offset | bytes | field |
//! |-------:|------:|-------|
//! | 0      | 4     | magic `ZJRN` |
//! | 4      | 1     | kind: 1 records, 2 snapshot begins, 3 snapshot items, 4 snapshot ends |
//! | 5      | 3     | zeros |
//! | 8      | 8     | sequence: dense over the life of the store |
//! | 16     | 8     | generation of the zone |
//! | 24     | 4     | bytes of the payload |
//! | 28     | 4     | CRC-32C of bytes 0 to 27 and the payload |
//! | 32     |       | payload, then zeros to the end of the block |

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::stream::StreamSet;
use crate::{BLOCK_BYTES, SUPERBLOCK_BYTES_MAX, StoreId, StreamId};

/// The format version that this program writes.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"ZONDAZON";

/// The stream number of the anchor: the zone that `format` writes so that an unused store is recognisable. On disk,
/// never renumber.
const ANCHOR: u32 = 255;

/// The highest generation that counts: no store lives for so many, and whoever counts on from it never overflows.
pub(crate) const GENERATION_MAX: u64 = u64::MAX / 2;

const CRC_OFFSET: usize = 124;
const SUPERBLOCK_OFFSET: usize = 128;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U32,
    superblock_bytes: U32,
    features: U64,
    store: [u8; 16],
    client: [u8; 8],
    generation: U64,
    zone: U32,
    stream: U32,
    holds: U32,
    zone_count: U32,
    zone_size_blocks: U64,
    zone_capacity_blocks: U64,
    zeros: [u8; 36],
    crc: U32,
    superblock: [u8; SUPERBLOCK_BYTES_MAX],
    padding: [u8; BLOCK_BYTES - SUPERBLOCK_OFFSET - SUPERBLOCK_BYTES_MAX],
}

const _: () = assert!(size_of::<RawHeader>() == BLOCK_BYTES);
const _: () = assert!(std::mem::offset_of!(RawHeader, crc) == CRC_OFFSET);
const _: () = assert!(std::mem::offset_of!(RawHeader, superblock) == SUPERBLOCK_OFFSET);

/// What is the same in all headers of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which store.
    pub store: StoreId,
    /// Which kind of client wrote it.
    pub client: [u8; 8],
    /// The client's feature bits.
    pub features: u64,
    /// The client's bytes, at most [`SUPERBLOCK_BYTES_MAX`].
    pub superblock: Vec<u8>,
    /// Zones of the device.
    pub zone_count: u32,
    /// From zone to zone, in blocks of [`BLOCK_BYTES`].
    pub zone_size_blocks: u64,
    /// Writable in a zone, in blocks of [`BLOCK_BYTES`].
    pub zone_capacity_blocks: u64,
}

/// The content of a zone header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneHeader {
    /// What all headers of the store share.
    pub identity: Identity,
    /// Number of this allocation of the zone; no two allocations of a store have the same.
    pub generation: u64,
    /// The zone that the header was written to.
    pub zone: u32,
    /// The stream after which the zone is named; `None` for the anchor.
    pub stream: Option<StreamId>,
    /// Every stream whose data it may hold.
    pub holds: StreamSet,
}

/// Why a block is not a zone header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// The device cannot read it.
    Unreadable,
    /// Shorter than a block.
    Truncated,
    /// Other bytes: not a header at all.
    NoMagic,
    /// The checksum does not fit.
    BadChecksum,
    /// Intact, but of a newer version.
    NewerVersion(u32),
    /// Intact, but a field has a value that no version writes.
    BadField(&'static str),
}

impl HeaderFault {
    /// A phrase for reports.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Unreadable => "the device cannot read it".into(),
            Self::Truncated => "shorter than a block".into(),
            Self::NoMagic => "no zone header".into(),
            Self::BadChecksum => "its checksum does not fit".into(),
            Self::NewerVersion(version) => format!("format version {version}, newer than {VERSION}"),
            Self::BadField(field) => format!("its {field} makes no sense"),
        }
    }
}

impl ZoneHeader {
    /// Writes the header into `block`, all [`BLOCK_BYTES`] of it.
    ///
    /// # Panics
    /// If `block` is not one block or the superblock is too long; both are checked when a store is made.
    pub fn encode(&self, block: &mut [u8]) {
        let identity = &self.identity;
        let mut superblock = [0; SUPERBLOCK_BYTES_MAX];
        superblock[..identity.superblock.len()].copy_from_slice(&identity.superblock);
        let raw = RawHeader {
            magic: MAGIC,
            version: VERSION.into(),
            superblock_bytes: u32::try_from(identity.superblock.len()).expect("at most 2,048").into(),
            features: identity.features.into(),
            store: identity.store.0.to_le_bytes(),
            client: identity.client,
            generation: self.generation.into(),
            zone: self.zone.into(),
            stream: self.stream.map_or(ANCHOR, |stream| stream.0.into()).into(),
            holds: self.holds.0.into(),
            zone_count: identity.zone_count.into(),
            zone_size_blocks: identity.zone_size_blocks.into(),
            zone_capacity_blocks: identity.zone_capacity_blocks.into(),
            zeros: [0; 36],
            crc: 0.into(),
            superblock,
            padding: [0; _],
        };
        block.copy_from_slice(raw.as_bytes());
        let crc = checksum(block);
        block[CRC_OFFSET..SUPERBLOCK_OFFSET].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header from any bytes (I10).
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(block: &[u8]) -> std::result::Result<Self, HeaderFault> {
        let (raw, _) = RawHeader::ref_from_prefix(block).map_err(|_| HeaderFault::Truncated)?;
        if raw.magic != MAGIC {
            return Err(HeaderFault::NoMagic);
        }
        if raw.crc.get() != checksum(raw.as_bytes()) {
            return Err(HeaderFault::BadChecksum);
        }
        if raw.version.get() != VERSION {
            return Err(raw.wrong_version());
        }
        raw.header()
    }
}

impl RawHeader {
    fn wrong_version(&self) -> HeaderFault {
        match self.version.get() {
            0 => HeaderFault::BadField("version"),
            newer => HeaderFault::NewerVersion(newer),
        }
    }

    fn header(&self) -> std::result::Result<ZoneHeader, HeaderFault> {
        let superblock_bytes = self.superblock_bytes.get() as usize;
        let superblock = self.superblock.get(..superblock_bytes).ok_or(HeaderFault::BadField("superblock length"))?;
        let (stream, holds) = self.streams()?;
        let identity = Identity {
            store: StoreId(u128::from_le_bytes(self.store)),
            client: self.client,
            features: self.features.get(),
            superblock: superblock.to_vec(),
            zone_count: self.zone_count.get(),
            zone_size_blocks: self.zone_size_blocks.get(),
            zone_capacity_blocks: self.zone_capacity_blocks.get(),
        };
        let generation = self.generation.get();
        if generation > GENERATION_MAX {
            return Err(HeaderFault::BadField("generation"));
        }
        Ok(ZoneHeader { identity, generation, zone: self.zone.get(), stream, holds })
    }

    fn streams(&self) -> std::result::Result<(Option<StreamId>, StreamSet), HeaderFault> {
        let holds = StreamSet(self.holds.get());
        if self.stream.get() == ANCHOR {
            return Ok((None, holds));
        }
        let stream = u8::try_from(self.stream.get()).map_err(|_| HeaderFault::BadField("stream"))?;
        if !holds.contains(StreamId(stream)) {
            return Err(HeaderFault::BadField("stream"));
        }
        Ok((Some(StreamId(stream)), holds))
    }
}

const CHUNK_MAGIC: [u8; 4] = *b"ZJRN";
const CHUNK_CRC_OFFSET: usize = 28;

/// Bytes of a journal chunk before its payload.
pub(crate) const CHUNK_HEADER_BYTES: usize = 32;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawChunk {
    magic: [u8; 4],
    kind: u8,
    zeros: [u8; 3],
    sequence: U64,
    generation: U64,
    payload_bytes: U32,
    crc: U32,
}

const _: () = assert!(size_of::<RawChunk>() == CHUNK_HEADER_BYTES);
const _: () = assert!(std::mem::offset_of!(RawChunk, crc) == CHUNK_CRC_OFFSET);

/// What a chunk of a journal holds. On disk, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkKind {
    /// Records of changes.
    Records = 1,
    /// Nothing; what follows is a snapshot.
    SnapshotBegin = 2,
    /// Items of a snapshot.
    SnapshotItems = 3,
    /// One item, none in earlier versions: zones that are offline. The snapshot since the last beginning is complete.
    SnapshotEnd = 4,
}

impl ChunkKind {
    const ALL: [Self; 4] = [Self::Records, Self::SnapshotBegin, Self::SnapshotItems, Self::SnapshotEnd];
}

/// The header of a journal chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// What the chunk holds.
    pub kind: ChunkKind,
    /// Its number in the journal.
    pub sequence: u64,
    /// The generation of the zone that it was written to.
    pub generation: u64,
    /// Bytes behind the header.
    pub payload_bytes: u32,
}

impl ChunkHeader {
    /// Writes the header in front of the payload, which already stands in `chunk`.
    ///
    /// # Panics
    /// If `chunk` is shorter than header and payload: a bug of the journal.
    pub fn encode(&self, chunk: &mut [u8]) {
        let raw = RawChunk {
            magic: CHUNK_MAGIC,
            kind: self.kind as u8,
            zeros: [0; 3],
            sequence: self.sequence.into(),
            generation: self.generation.into(),
            payload_bytes: self.payload_bytes.into(),
            crc: 0.into(),
        };
        chunk[..CHUNK_HEADER_BYTES].copy_from_slice(raw.as_bytes());
        let crc = chunk_checksum(&chunk[..CHUNK_HEADER_BYTES + self.payload_bytes as usize]);
        chunk[CHUNK_CRC_OFFSET..CHUNK_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header from any bytes (I10), without looking at the payload: `None` if it is none.
    #[must_use]
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawChunk::ref_from_prefix(bytes).ok()?;
        let kind = ChunkKind::ALL.into_iter().find(|&kind| kind as u8 == raw.kind)?;
        let intact = raw.magic == CHUNK_MAGIC && raw.zeros == [0; 3];
        intact.then_some(Self {
            kind,
            sequence: raw.sequence.get(),
            generation: raw.generation.get(),
            payload_bytes: raw.payload_bytes.get(),
        })
    }

    /// Reads a chunk from any bytes (I10): its header and payload, or `None` if it is not whole.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let header = Self::peek(bytes)?;
        let end = CHUNK_HEADER_BYTES.checked_add(header.payload_bytes as usize)?;
        let chunk = bytes.get(..end)?;
        let stored = chunk[CHUNK_CRC_OFFSET..CHUNK_HEADER_BYTES].try_into().map(u32::from_le_bytes).ok()?;
        (stored == chunk_checksum(chunk)).then(|| (header, &chunk[CHUNK_HEADER_BYTES..]))
    }
}

/// Bytes of a range of zones.
const OFFLINE_BYTES: usize = 12;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawOffline {
    first: U32,
    zones: U32,
    holds: U32,
}

const _: () = assert!(size_of::<RawOffline>() == OFFLINE_BYTES);

/// Zones that are offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfflineRange {
    /// The first.
    pub(crate) first: u32,
    /// How many.
    pub(crate) zones: u32,
    /// Streams of which something that counts may have been in them.
    pub(crate) holds: StreamSet,
}

impl OfflineRange {
    /// The zone behind it.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.first) + u64::from(self.zones)
    }

    pub(crate) fn contains(&self, zone: u32) -> bool {
        self.first <= zone && u64::from(zone) < self.end()
    }

    pub(crate) fn encode(&self) -> [u8; OFFLINE_BYTES] {
        let raw = RawOffline { first: self.first.into(), zones: self.zones.into(), holds: self.holds.0.into() };
        raw.as_bytes().try_into().expect("twelve bytes")
    }

    /// Ranges one behind the other, from any bytes (I10); `None` where they do not end with one.
    pub(crate) fn decode_all(bytes: &[u8]) -> impl Iterator<Item = Option<Self>> {
        bytes.chunks(OFFLINE_BYTES).map(|range| {
            let raw = RawOffline::ref_from_bytes(range).ok()?;
            Some(Self { first: raw.first.get(), zones: raw.zones.get(), holds: StreamSet(raw.holds.get()) })
        })
    }
}

/// The items of a chunk's payload; stops at the first that is not whole.
pub fn items(mut payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = payload.split_first_chunk::<4>()?;
        let (item, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        payload = rest;
        Some(item)
    })
}

fn chunk_checksum(chunk: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&chunk[..CHUNK_CRC_OFFSET]), &chunk[CHUNK_HEADER_BYTES..])
}

fn checksum(block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block[..CRC_OFFSET]), &block[SUPERBLOCK_OFFSET..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> ZoneHeader {
        let identity = Identity {
            store: StoreId(0x1234_5678_9abc_def0_0fed_cba9_8765_4321),
            client: *b"tree\0\0\0\0",
            features: 5,
            superblock: b"options".to_vec(),
            zone_count: 16,
            zone_size_blocks: 256,
            zone_capacity_blocks: 200,
        };
        ZoneHeader { identity, generation: 77, zone: 3, stream: Some(StreamId(2)), holds: StreamSet(0b1100) }
    }

    fn encoded(header: &ZoneHeader) -> Vec<u8> {
        let mut block = vec![0xff; BLOCK_BYTES];
        header.encode(&mut block);
        block
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let anchor = ZoneHeader { stream: None, holds: StreamSet::default(), ..header() };
        let mut longest = header();
        longest.identity.superblock = vec![9; SUPERBLOCK_BYTES_MAX];
        for header in [header(), anchor, longest] {
            assert_eq!(ZoneHeader::decode(&encoded(&header)), Ok(header));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let block = encoded(&header());
        for byte in 0..BLOCK_BYTES {
            let mut damaged = block.clone();
            damaged[byte] ^= 1 << (byte % 8);
            assert!(ZoneHeader::decode(&damaged).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut block = encoded(&header());
        block[8] = 2;
        let crc = checksum(&block);
        block[CRC_OFFSET..SUPERBLOCK_OFFSET].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(ZoneHeader::decode(&block), Err(HeaderFault::NewerVersion(2)));
    }

    /// The byte table of this module and of docs/format.md, worked out on one example.
    #[test]
    fn fields_are_where_the_table_says() {
        let block = encoded(&header());
        assert_eq!(&block[..8], b"ZONDAZON");
        assert_eq!(block[8..16], [1, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(block[16], 5);
        assert_eq!(block[24], 0x21);
        assert_eq!(&block[40..44], b"tree");
        assert_eq!((block[48], block[56], block[60], block[64], block[68]), (77, 3, 2, 12, 16));
        assert_eq!((block[72..74].to_vec(), block[80]), (vec![0, 1], 200));
        assert_eq!(&block[128..135], b"options");
    }

    #[test]
    fn a_chunk_comes_back_and_every_flipped_bit_is_noticed() {
        let header = ChunkHeader { kind: ChunkKind::SnapshotItems, sequence: 7, generation: 9, payload_bytes: 10 };
        let mut chunk = vec![0; 64];
        chunk[32..42].copy_from_slice(b"\x02\0\0\0ab\0\0\0\0");
        header.encode(&mut chunk);
        let (decoded, payload) = ChunkHeader::decode(&chunk).unwrap();
        assert_eq!((decoded, items(payload).collect::<Vec<_>>()), (header, vec![&b"ab"[..], b""]));
        assert_eq!((&chunk[..4], chunk[4], chunk[8], chunk[16], chunk[24]), (&b"ZJRN"[..], 3, 7, 9, 10));
        for byte in 0..42 {
            let mut damaged = chunk.clone();
            damaged[byte] ^= 1 << (byte % 8);
            assert!(ChunkHeader::decode(&damaged).is_none(), "byte {byte}");
        }
        assert!(ChunkHeader::decode(&chunk[..41]).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_as_chunks_without_panic(
            mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            fix in proptest::bool::ANY,
        ) {
            if fix && bytes.len() > CHUNK_HEADER_BYTES {
                let payload_bytes = u32::try_from(bytes.len() - CHUNK_HEADER_BYTES).unwrap();
                let header = ChunkHeader { kind: ChunkKind::Records, sequence: 1, generation: 1, payload_bytes };
                header.encode(&mut bytes);
            }
            if let Some((_, payload)) = ChunkHeader::decode(&bytes) {
                assert!(items(payload).map(|item| item.len() + 4).sum::<usize>() <= payload.len());
            }
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(
            mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..5_000),
            fix in proptest::bool::ANY,
        ) {
            if fix && bytes.len() >= BLOCK_BYTES {
                bytes[..8].copy_from_slice(&MAGIC);
                bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
                let crc = checksum(&bytes[..BLOCK_BYTES]);
                bytes[CRC_OFFSET..SUPERBLOCK_OFFSET].copy_from_slice(&crc.to_le_bytes());
            }
            let _ = ZoneHeader::decode(&bytes);
        }
    }
}
