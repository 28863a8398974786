//! On-disk structs of the facade: the superblock, which the zone manager keeps in every zone header, and catalogue records.
//!
//! | superblock | bytes | meaning |
//! |-------:|------:|---|
//! | 0  | 8 | magic `ZONDADB1` |
//! | 8  | 4 | format version |
//! | 12 | 4 | length of this struct in bytes |
//! | 16 | 4 | leaf size in bytes |
//! | 20 | 8 | zero |
//! | 28 | 4 | CRC-32C of the bytes before |
//!
//! The catalogue is tree 0. A key `n` + name holds a tree record (`TreeRecord`); a key `d` + number (4 bytes, most significant first) with
//! an empty value marks a tree that is being dropped; the key `c` holds the next free number (4 bytes, little-endian); the key `u` with an
//! empty value marks a store that is being copied to.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

use crate::Error;

const MAGIC: [u8; 8] = *b"ZONDADB1";
/// Version of the whole format; what lies behind the superblock has no other.
const VERSION: u32 = 2;
/// Version of catalogue records.
const RECORD_VERSION: u32 = 1;

/// Catalogue keys that begin with this byte name a tree.
pub(crate) const NAME_KEY: u8 = b'n';
/// Catalogue keys that begin with this byte number a tree that is being dropped.
pub(crate) const DROPPING_KEY: u8 = b'd';
/// The catalogue key of the next free number.
pub(crate) const COUNTER_KEY: &[u8] = b"c";
/// The catalogue key that a copy has while it is being made.
pub(crate) const UNFINISHED_KEY: &[u8] = b"u";

/// What a store was created with and cannot change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Leaf size in bytes.
    pub(crate) leaf_bytes: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    magic: [u8; 8],
    version: U32,
    len_bytes: U32,
    leaf_bytes: U32,
    reserved: U64,
    crc: U32,
}

const SUPERBLOCK_BYTES: usize = 32;
const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_BYTES, "on disk");

impl Superblock {
    /// The bytes that go into every zone header.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut raw = RawSuperblock {
            magic: MAGIC,
            version: VERSION.into(),
            len_bytes: 32.into(),
            leaf_bytes: self.leaf_bytes.into(),
            reserved: 0.into(),
            crc: 0.into(),
        };
        raw.crc = checksum(raw.as_bytes()).into();
        raw.as_bytes().to_vec()
    }

    /// Reads any bytes (I10).
    ///
    /// # Errors
    /// `NotAStore` without the magic, `NewerVersion`, `OlderVersion`, `Damaged`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let Ok((raw, _)) = RawSuperblock::ref_from_prefix(bytes) else {
            return Err(damaged(format!("{} bytes of {SUPERBLOCK_BYTES}", bytes.len())));
        };
        if raw.magic != MAGIC {
            let why = "its superblock belongs to another program".to_owned();
            return Err(Error::NotAStore { what: "the device".to_owned(), why });
        }
        if raw.version.get() > VERSION {
            return Err(Error::NewerVersion { found: raw.version.get(), known: VERSION });
        }
        if raw.crc.get() != checksum(raw.as_bytes()) {
            return Err(damaged("the checksum does not match".to_owned()));
        }
        if raw.version.get() < VERSION {
            return Err(Error::OlderVersion { found: raw.version.get(), oldest: VERSION });
        }
        Ok(Self { leaf_bytes: raw.leaf_bytes.get() })
    }
}

/// A catalogue record: the number of a named tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeRecord {
    /// Its number, from which its key prefix follows.
    pub(crate) number: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTreeRecord {
    version: U32,
    number: U32,
}

const _: () = assert!(size_of::<RawTreeRecord>() == 8, "on disk");

impl TreeRecord {
    /// The value of a name key.
    pub(crate) fn encode(self) -> Vec<u8> {
        RawTreeRecord { version: RECORD_VERSION.into(), number: self.number.into() }.as_bytes().to_vec()
    }

    /// Reads any bytes (I10). Longer records come from later versions, which only add to the end.
    ///
    /// # Errors
    /// `Damaged`, `NewerVersion`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let Ok((raw, _)) = RawTreeRecord::ref_from_prefix(bytes) else {
            return Err(Error::Damaged { what: "tree record".to_owned(), why: format!("{} bytes of 8", bytes.len()) });
        };
        if raw.version.get() > RECORD_VERSION {
            return Err(Error::NewerVersion { found: raw.version.get(), known: RECORD_VERSION });
        }
        Ok(Self { number: raw.number.get() })
    }
}

fn damaged(why: String) -> Error {
    Error::Damaged { what: "superblock".to_owned(), why }
}

fn checksum(raw: &[u8]) -> u32 {
    crc32c::crc32c(&raw[..SUPERBLOCK_BYTES - size_of::<U32>()])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_where_the_table_says() {
        let bytes = Superblock { leaf_bytes: 8192 }.encode();
        assert_eq!(&bytes[..8], b"ZONDADB1");
        assert_eq!(bytes[8..16], [2, 0, 0, 0, 32, 0, 0, 0]);
        assert_eq!(bytes[16..20], [0, 32, 0, 0]);
        assert_eq!(bytes[28..32], crc32c::crc32c(&bytes[..28]).to_le_bytes());
        assert_eq!(Superblock::decode(&bytes).unwrap(), Superblock { leaf_bytes: 8192 });
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = Superblock { leaf_bytes: 4096 }.encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn newer_and_older_versions_are_told_from_damage() {
        let mut bytes = Superblock { leaf_bytes: 4096 }.encode();
        bytes[8] = 3;
        assert!(matches!(Superblock::decode(&bytes), Err(Error::NewerVersion { found: 3, known: 2 })));
        bytes[8] = 1;
        assert!(matches!(Superblock::decode(&bytes), Err(Error::Damaged { .. })), "the checksum is of another version");
        let crc = checksum(&bytes).to_le_bytes();
        bytes[28..32].copy_from_slice(&crc);
        let error = Superblock::decode(&bytes).unwrap_err();
        assert!(matches!(error, Error::OlderVersion { found: 1, oldest: 2 }), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), magic: bool) {
            let mut bytes = bytes;
            if magic && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&MAGIC);
            }
            let _ = Superblock::decode(&bytes);
            let _ = TreeRecord::decode(&bytes);
        }

        #[test]
        fn tree_records_round_trip(number: u32) {
            let record = TreeRecord { number };
            prop_assert_eq!(TreeRecord::decode(&record.encode()).unwrap(), record);
        }
    }
}
