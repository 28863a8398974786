//! The records of the MetaLog.
//!
//! ```text
//! record      := tag(1 byte) body                     numbers are variable-length, strings have their length in front
//! Begin       := checkpoint replay_from session session_first next_page_id string(extra)
//! Leaf        := id address string(low_key) string(image)                address: 0 = never written
//! End         := checkpoint
//! Move        := id address merged_to
//! Restructure := count id* count (id address string(low_key))* merged_to  removed leaves, then new and changed ones
//! Session     := session session_first
//! Above       := level oldest string(image)           level: 1 = batch array, 2 = filter
//! Sparse      := id bytes
//! ```
//!
//! A leaf with a key of 8 bytes and an empty image takes at most 24 bytes, a move at most 24,
//! some 12 in a store of a million leaves.
//!
//! `merged_to`: every operation with a lower sequence number on these leaves is in their pages; 0: nothing is known. Replay skips
//! those operations, and images of leaves that were merged since, at whichever record.

use std::borrow::Cow;

use zonda_pages::{PageAddress, PageId};

use crate::TreeError;
use crate::codec::{Reader, put_bytes, put_number};
use crate::limits::KEY_BYTES_MAX;
use crate::log::Session;

/// Tag of a record. On disk, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Begin = 1,
    Leaf = 2,
    End = 3,
    Move = 4,
    Restructure = 5,
    Session = 6,
    Above = 7,
    Sparse = 8,
}

impl Tag {
    fn from_raw(raw: u8) -> Option<Self> {
        let all = [
            Self::Begin,
            Self::Leaf,
            Self::End,
            Self::Move,
            Self::Restructure,
            Self::Session,
            Self::Above,
            Self::Sparse,
        ];
        all.into_iter().find(|tag| *tag as u8 == raw)
    }
}

/// What stands above the leaves, from the oldest records to the newest. On disk, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum AboveLevel {
    /// The batch array.
    Array = 1,
    /// The filter.
    Filter = 2,
}

impl AboveLevel {
    /// In the order in which recovery applies them.
    pub(crate) const ALL: [Self; 2] = [Self::Array, Self::Filter];
}

/// The first record of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begin<'a> {
    /// Number of the checkpoint; its `End` has the same.
    pub(crate) checkpoint: u64,
    /// Every operation with a lower number is in the checkpoint: where the log's replay begins.
    pub(crate) replay_from: u64,
    /// The session that takes it.
    pub(crate) session: Session,
    /// No page id at or above it was in use when the checkpoint began.
    pub(crate) next_page_id: u32,
    /// For the engine.
    pub(crate) extra: &'a [u8],
}

/// A leaf that a restructuring made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upsert<'a> {
    /// The leaf.
    pub(crate) id: PageId,
    /// Its low fence.
    pub(crate) low_key: &'a [u8],
    /// Its page, if it was ever written.
    pub(crate) address: Option<PageAddress>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MetaRecord<'a> {
    /// A checkpoint begins.
    Begin(Begin<'a>),
    /// A leaf as the checkpoint found it; in key order within one checkpoint.
    Leaf {
        /// The leaf.
        id: PageId,
        /// Its low fence.
        low_key: &'a [u8],
        /// Its page, if it was ever written.
        address: Option<PageAddress>,
        /// The records of its buffer that its page lacks; opaque here.
        image: &'a [u8],
    },
    /// The checkpoint is complete.
    End {
        /// Number of the checkpoint.
        checkpoint: u64,
    },
    /// A leaf has a new page.
    Move {
        /// The leaf.
        id: PageId,
        /// Its page.
        address: PageAddress,
        /// Every operation below it on this leaf is in the page; 0: unknown.
        merged_to: u64,
    },
    /// A split or a merge: atomic.
    Restructure {
        /// Leaves that are gone.
        removed: Cow<'a, [PageId]>,
        /// Leaves that are new or changed.
        upserts: Cow<'a, [Upsert<'a>]>,
        /// Every operation below it on the upserted leaves is in their pages; 0: unknown.
        merged_to: u64,
    },
    /// A life of the store begins.
    Session(Session),
    /// Records that a checkpoint found above the leaves: of one filter node or one batch. All of a checkpoint stand before its
    /// leaves, those of the filter first.
    Above {
        /// Where they were.
        level: AboveLevel,
        /// None of them has a lower sequence number.
        oldest: u64,
        /// The records, as in a leaf's image; opaque here.
        image: &'a [u8],
    },
    /// Deletes left little in the page that the records before it give the leaf. Without one nothing is known of how much a page uses.
    Sparse {
        /// The leaf.
        id: PageId,
        /// About how many bytes of its page it uses, at least 1.
        bytes: u32,
    },
}

impl MetaRecord<'_> {
    fn tag(&self) -> Tag {
        match self {
            Self::Begin(_) => Tag::Begin,
            Self::Leaf { .. } => Tag::Leaf,
            Self::End { .. } => Tag::End,
            Self::Move { .. } => Tag::Move,
            Self::Restructure { .. } => Tag::Restructure,
            Self::Session(_) => Tag::Session,
            Self::Above { .. } => Tag::Above,
            Self::Sparse { .. } => Tag::Sparse,
        }
    }

    /// Appends the record's bytes.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        into.push(self.tag() as u8);
        match self {
            Self::Begin(begin) => put_begin(into, begin),
            Self::Leaf { id, low_key, address, image } => {
                put_leaf(into, &Upsert { id: *id, low_key, address: *address });
                put_bytes(into, image);
            }
            Self::End { checkpoint } => put_number(into, *checkpoint),
            Self::Move { id, address, merged_to } => {
                put_number(into, id.0.into());
                put_number(into, address.raw());
                put_number(into, *merged_to);
            }
            Self::Restructure { removed, upserts, merged_to } => {
                put_number(into, removed.len() as u64);
                removed.iter().for_each(|id| put_number(into, id.0.into()));
                put_number(into, upserts.len() as u64);
                upserts.iter().for_each(|upsert| put_leaf(into, upsert));
                put_number(into, *merged_to);
            }
            Self::Session(session) => put_session(into, *session),
            Self::Above { level, oldest, image } => {
                put_number(into, *level as u64);
                put_number(into, *oldest);
                put_bytes(into, image);
            }
            Self::Sparse { id, bytes } => {
                put_number(into, id.0.into());
                put_number(into, (*bytes).into());
            }
        }
    }
}

fn put_session(into: &mut Vec<u8>, session: Session) {
    put_number(into, session.number.into());
    put_number(into, session.first_sequence);
}

fn put_begin(into: &mut Vec<u8>, begin: &Begin<'_>) {
    put_number(into, begin.checkpoint);
    put_number(into, begin.replay_from);
    put_session(into, begin.session);
    put_number(into, begin.next_page_id.into());
    put_bytes(into, begin.extra);
}

fn put_leaf(into: &mut Vec<u8>, leaf: &Upsert<'_>) {
    put_number(into, leaf.id.0.into());
    put_number(into, leaf.address.map_or(0, PageAddress::raw));
    put_bytes(into, leaf.low_key);
}

/// The records of a group, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records<'a> {
    reader: Reader<'a>,
}

impl<'a> Records<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new("MetaLog record", bytes) }
    }

    /// Bytes that were not read yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    fn read(&mut self) -> Result<MetaRecord<'a>, TreeError> {
        let raw = self.reader.take(1)?[0];
        let tag = Tag::from_raw(raw).ok_or_else(|| self.reader.damaged(format!("no record has tag {raw}")))?;
        Ok(match tag {
            Tag::Begin => MetaRecord::Begin(self.begin()?),
            Tag::Leaf => {
                let Upsert { id, low_key, address } = self.leaf()?;
                MetaRecord::Leaf { id, low_key, address, image: self.reader.bytes(usize::MAX)? }
            }
            Tag::End => MetaRecord::End { checkpoint: self.reader.counter()? },
            Tag::Move => {
                let (id, address) = (self.id()?, self.address()?.ok_or_else(|| self.no_page())?);
                MetaRecord::Move { id, address, merged_to: self.reader.counter()? }
            }
            Tag::Restructure => {
                let removed = self.many(Self::id)?;
                let upserts = self.many(Self::leaf)?;
                let merged_to = self.reader.counter()?;
                MetaRecord::Restructure { removed: removed.into(), upserts: upserts.into(), merged_to }
            }
            Tag::Session => MetaRecord::Session(self.session()?),
            Tag::Above => {
                let (level, oldest) = (self.above_level()?, self.sequence()?);
                MetaRecord::Above { level, oldest, image: self.reader.bytes(usize::MAX)? }
            }
            Tag::Sparse => MetaRecord::Sparse { id: self.id()?, bytes: self.reader.number32()? },
        })
    }

    /// A counted list; memory grows only as elements are found.
    fn many<T>(&mut self, one: impl Fn(&mut Self) -> Result<T, TreeError>) -> Result<Vec<T>, TreeError> {
        let count = self.reader.number()?;
        (0..count).map(|_| one(self)).collect()
    }

    fn id(&mut self) -> Result<PageId, TreeError> {
        self.reader.number32().map(PageId)
    }

    fn address(&mut self) -> Result<Option<PageAddress>, TreeError> {
        let raw = self.reader.number()?;
        let address = PageAddress::from_raw(raw);
        let sound = address.is_some() || raw == 0;
        sound.then_some(address).ok_or_else(|| self.reader.damaged(format!("{raw:#x} is no page address")))
    }

    fn no_page(&self) -> TreeError {
        self.reader.damaged("a move to no page")
    }

    fn leaf(&mut self) -> Result<Upsert<'a>, TreeError> {
        let (id, address) = (self.id()?, self.address()?);
        Ok(Upsert { id, low_key: self.reader.bytes(KEY_BYTES_MAX)?, address })
    }

    fn above_level(&mut self) -> Result<AboveLevel, TreeError> {
        let raw = self.reader.number()?;
        let level = AboveLevel::ALL.into_iter().find(|level| *level as u64 == raw);
        level.ok_or_else(|| self.reader.damaged(format!("nothing stands at level {raw}")))
    }

    fn session(&mut self) -> Result<Session, TreeError> {
        let (number, first_sequence) = (self.reader.number32()?, self.sequence()?);
        match number {
            u32::MAX => Err(self.reader.damaged("no session comes after this one")),
            _ => Ok(Session { number, first_sequence }),
        }
    }

    /// A sequence number; 0 means none.
    fn sequence(&mut self) -> Result<u64, TreeError> {
        match self.reader.counter()? {
            0 => Err(self.reader.damaged("sequence number 0")),
            sequence => Ok(sequence),
        }
    }

    fn begin(&mut self) -> Result<Begin<'a>, TreeError> {
        Ok(Begin {
            checkpoint: self.reader.counter()?,
            replay_from: self.sequence()?,
            session: self.session()?,
            next_page_id: self.reader.number32()?,
            extra: self.reader.bytes(usize::MAX)?,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<MetaRecord<'a>, TreeError>;

    /// Ends after an error: what follows cannot be read.
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let record = self.read();
        if record.is_err() {
            *self = Self::new(&[]);
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(record: &MetaRecord<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    #[test]
    fn leaf_entries_and_moves_are_small_at_their_largest() {
        let (id, address) = (PageId(u32::MAX), PageAddress::from_raw((1 << 46) - 1).expect("an address"));
        let leaf = MetaRecord::Leaf { id, low_key: &[9; 8], address: Some(address), image: b"" };
        assert!(encoded(&leaf).len() <= 24, "{} bytes", encoded(&leaf).len());
        let moved = MetaRecord::Move { id, address, merged_to: u64::MAX };
        assert!(encoded(&moved).len() <= 24, "{} bytes", encoded(&moved).len());
    }

    #[test]
    fn all_kinds_come_back() {
        let at = |block| Some(PageAddress::new(block, 2));
        let session = Session { number: 3, first_sequence: 1 << 40 };
        let upserts = [
            Upsert { id: PageId(1), low_key: b"", address: None },
            Upsert { id: PageId(300), low_key: b"key", address: at(77) },
        ];
        let records = [
            MetaRecord::Begin(Begin { checkpoint: 9, replay_from: 500, session, next_page_id: 7, extra: b"extra" }),
            MetaRecord::Leaf { id: PageId(5), low_key: b"low", address: at(1 << 39), image: &[1; 300] },
            MetaRecord::End { checkpoint: 9 },
            MetaRecord::Move { id: PageId(5), address: PageAddress::new(4, 1), merged_to: 300 },
            MetaRecord::Restructure {
                removed: Cow::Borrowed(&[PageId(8), PageId(9)]),
                upserts: Cow::Borrowed(&upserts),
                merged_to: 0,
            },
            MetaRecord::Session(session),
            MetaRecord::Above { level: AboveLevel::Array, oldest: 7, image: &[2; 200] },
            MetaRecord::Above { level: AboveLevel::Filter, oldest: 1 << 40, image: b"" },
            MetaRecord::Sparse { id: PageId(300), bytes: 1_000 },
        ];
        let bytes: Vec<u8> = records.iter().flat_map(encoded).collect();
        let read: Result<Vec<_>, _> = Records::new(&bytes).collect();
        assert_eq!(read.expect("well-formed"), records);
        assert!(Records::new(&bytes[..bytes.len() - 1]).any(|record| record.is_err()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![0_u8..9, any::<u8>()], 0..200)) {
            let good = Records::new(&bytes).take_while(Result::is_ok).count();
            prop_assert!(good <= bytes.len());
        }
    }
}
