//! Version edits: what a record of a MANIFEST says.

use std::fmt;

/// Bytes that are no version edit, or not one that we can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Levels of an LSM-tree are small numbers; RocksDB refuses more itself.
const LEVEL_MAX: u64 = 254;
/// Sequence number and type, behind the user's key.
const INTERNAL_KEY_TAIL_BYTES: usize = 8;

/// A table as the MANIFEST knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// Its number, which is in its name.
    pub number: u64,
    /// Bytes.
    pub size_bytes: u64,
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key.
    pub largest: Vec<u8>,
}

/// What one record changes, for one column family. Fields that say nothing of the shape are checked and passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// The column family; 0 is the default one.
    pub column_family: u32,
    /// The family is created, with this name.
    pub creates_family: Option<Vec<u8>>,
    /// The family is dropped.
    pub drops_family: bool,
    /// Name of the order of its keys.
    pub comparator: Option<Vec<u8>>,
    /// Tables that leave a level.
    pub deleted: Vec<(u8, u64)>,
    /// Tables that come to a level.
    pub added: Vec<(u8, TableFile)>,
    /// In an atomic group: how many records of it are still to come.
    pub group_remaining: Option<u32>,
}

/// Tags of fields: on disk, RocksDB never renumbers them.
mod tag {
    pub(super) const COMPARATOR: u64 = 1;
    pub(super) const LOG_NUMBER: u64 = 2;
    pub(super) const NEXT_FILE_NUMBER: u64 = 3;
    pub(super) const LAST_SEQUENCE: u64 = 4;
    pub(super) const COMPACT_CURSOR: u64 = 5;
    pub(super) const DELETED_FILE: u64 = 6;
    pub(super) const NEW_FILE: u64 = 7;
    pub(super) const PREV_LOG_NUMBER: u64 = 9;
    pub(super) const MIN_LOG_NUMBER_TO_KEEP: u64 = 10;
    pub(super) const NEW_FILE_2: u64 = 100;
    pub(super) const NEW_FILE_3: u64 = 102;
    pub(super) const NEW_FILE_4: u64 = 103;
    pub(super) const COLUMN_FAMILY: u64 = 200;
    pub(super) const COLUMN_FAMILY_ADD: u64 = 201;
    pub(super) const COLUMN_FAMILY_DROP: u64 = 202;
    pub(super) const MAX_COLUMN_FAMILY: u64 = 203;
    pub(super) const IN_ATOMIC_GROUP: u64 = 300;
    pub(super) const BLOB_FILE_ADDITION: u64 = 400;
    pub(super) const BLOB_FILE_GARBAGE: u64 = 401;
    /// Fields with this bit have their length in front and may be passed over.
    pub(super) const SAFE_TO_IGNORE: u64 = 1 << 13;
    /// Of `NEW_FILE_4`: ends its list of further fields.
    pub(super) const TABLE_FIELDS_END: u64 = 1;
    /// Of `NEW_FILE_4`: the number of the directory that the table is in.
    pub(super) const TABLE_PATH_ID: u64 = 65;
    /// Of `NEW_FILE_4`: a further field with this bit must be understood.
    pub(super) const TABLE_FIELD_NEEDED: u64 = 1 << 6;
    /// Of blob files: ends the list of further fields.
    pub(super) const BLOB_FIELDS_END: u64 = 0;
    /// Of blob files: a further field with this bit must be understood.
    pub(super) const BLOB_FIELD_NEEDED: u64 = 1 << 6;
}

impl VersionEdit {
    /// Takes a record apart. Takes any bytes (I10): what it allocates is at most what it was given.
    ///
    /// # Errors
    /// `Damaged`: what the record changes is not known, so neither is the shape from here on.
    pub fn decode(record: &[u8]) -> Result<Self, Damaged> {
        let (mut edit, mut fields) = (Self::default(), Fields { rest: record });
        while !fields.rest.is_empty() {
            let tag = fields.number()?;
            edit.take_field(tag, &mut fields)?;
        }
        Ok(edit)
    }

    fn take_field(&mut self, tag: u64, fields: &mut Fields<'_>) -> Result<(), Damaged> {
        match tag {
            tag::COMPARATOR => self.comparator = Some(fields.bytes()?.to_vec()),
            tag::LOG_NUMBER
            | tag::NEXT_FILE_NUMBER
            | tag::LAST_SEQUENCE
            | tag::PREV_LOG_NUMBER
            | tag::MIN_LOG_NUMBER_TO_KEEP
            | tag::MAX_COLUMN_FAMILY => drop(fields.number()?),
            tag::COMPACT_CURSOR => drop((fields.level()?, fields.bytes()?)),
            tag::DELETED_FILE => self.deleted.push((fields.level()?, fields.number()?)),
            tag::NEW_FILE | tag::NEW_FILE_2 | tag::NEW_FILE_3 | tag::NEW_FILE_4 => self.added.push(fields.table(tag)?),
            tag::COLUMN_FAMILY => self.column_family = fields.small()?,
            tag::COLUMN_FAMILY_ADD => self.creates_family = Some(fields.bytes()?.to_vec()),
            tag::COLUMN_FAMILY_DROP => self.drops_family = true,
            tag::IN_ATOMIC_GROUP => self.group_remaining = Some(fields.small()?),
            tag::BLOB_FILE_ADDITION => fields.pass_blob_file(2)?,
            tag::BLOB_FILE_GARBAGE => fields.pass_blob_file(0)?,
            other if other & tag::SAFE_TO_IGNORE != 0 => drop(fields.bytes()?),
            _ => return Err(Damaged("a field that this version does not know")),
        }
        Ok(())
    }
}

/// The fields of a record, read from the front.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// A number in 7-bit pieces, lowest first.
    fn number(&mut self) -> Result<u64, Damaged> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Damaged("a number is cut off"))?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged("a number is too long"))
    }

    fn small(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.number()?).map_err(|_| Damaged("a number is too large"))
    }

    fn level(&mut self) -> Result<u8, Damaged> {
        let level = self.number()?;
        u8::try_from(level).ok().filter(|_| level <= LEVEL_MAX).ok_or(Damaged("there is no such level"))
    }

    /// Bytes with their length in front.
    fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let len = usize::try_from(self.number()?).map_err(|_| Damaged("a length is too large"))?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Damaged("bytes are cut off"))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A key of the tree, without what RocksDB adds to the user's.
    fn user_key(&mut self) -> Result<Vec<u8>, Damaged> {
        let key = self.bytes()?;
        let len = key.len().checked_sub(INTERNAL_KEY_TAIL_BYTES).ok_or(Damaged("a key is too short"))?;
        Ok(key[..len].to_vec())
    }

    fn table(&mut self, tag: u64) -> Result<(u8, TableFile), Damaged> {
        let (level, number) = (self.level()?, self.number()?);
        if tag == tag::NEW_FILE_3 {
            self.number()?;
        }
        let size_bytes = self.number()?;
        let (smallest, largest) = (self.user_key()?, self.user_key()?);
        if tag != tag::NEW_FILE {
            // Smallest and largest sequence number.
            self.number()?;
            self.number()?;
        }
        if tag == tag::NEW_FILE_4 {
            self.pass_table_fields()?;
        }
        Ok((level, TableFile { number, size_bytes, smallest, largest }))
    }

    fn pass_table_fields(&mut self) -> Result<(), Damaged> {
        loop {
            let tag = self.number()?;
            if tag == tag::TABLE_FIELDS_END {
                return Ok(());
            }
            self.bytes()?;
            if tag & tag::TABLE_FIELD_NEEDED != 0 && tag != tag::TABLE_PATH_ID {
                return Err(Damaged("a table has a field that this version does not know"));
            }
        }
    }

    /// Number of the file, two counts, `texts` byte strings, further fields.
    fn pass_blob_file(&mut self, texts: usize) -> Result<(), Damaged> {
        for _ in 0..3 {
            self.number()?;
        }
        for _ in 0..texts {
            self.bytes()?;
        }
        loop {
            let tag = self.number()?;
            if tag == tag::BLOB_FIELDS_END {
                return Ok(());
            }
            self.bytes()?;
            if tag & tag::BLOB_FIELD_NEEDED != 0 {
                return Err(Damaged("a blob file has a field that this version does not know"));
            }
        }
    }
}

/// Writes edits as RocksDB does.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    pub(crate) fn number(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        out.push(u8::try_from(value).unwrap());
    }

    pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
        number(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }

    pub(crate) fn table(number: u64, smallest: &[u8], largest: &[u8]) -> TableFile {
        TableFile { number, size_bytes: 100 * number, smallest: smallest.to_vec(), largest: largest.to_vec() }
    }

    pub(crate) fn encode(edit: &VersionEdit) -> Vec<u8> {
        let mut out = Vec::new();
        let text = |out: &mut Vec<u8>, tag: u64, text: &Option<Vec<u8>>| {
            if let Some(text) = text {
                number(out, tag);
                bytes(out, text);
            }
        };
        text(&mut out, tag::COMPARATOR, &edit.comparator);
        [(tag::LOG_NUMBER, 300), (tag::LAST_SEQUENCE, u64::MAX)].iter().for_each(|&(tag, value)| {
            number(&mut out, tag);
            number(&mut out, value);
        });
        for &(level, table) in &edit.deleted {
            [tag::DELETED_FILE, u64::from(level), table].iter().for_each(|&field| number(&mut out, field));
        }
        for (level, table) in &edit.added {
            [tag::NEW_FILE_4, u64::from(*level), table.number, table.size_bytes]
                .iter()
                .for_each(|&f| number(&mut out, f));
            for key in [&table.smallest, &table.largest] {
                bytes(&mut out, &[key, &[0; 8][..]].concat());
            }
            // Sequence numbers; a field that may be passed over; where the table is; the end.
            [5, 9, 2].iter().for_each(|&field| number(&mut out, field));
            bytes(&mut out, b"anything");
            number(&mut out, tag::TABLE_PATH_ID);
            bytes(&mut out, &[1]);
            number(&mut out, tag::TABLE_FIELDS_END);
        }
        if edit.column_family != 0 {
            number(&mut out, tag::COLUMN_FAMILY);
            number(&mut out, edit.column_family.into());
        }
        text(&mut out, tag::COLUMN_FAMILY_ADD, &edit.creates_family);
        if edit.drops_family {
            number(&mut out, tag::COLUMN_FAMILY_DROP);
        }
        if let Some(remaining) = edit.group_remaining {
            number(&mut out, tag::IN_ATOMIC_GROUP);
            number(&mut out, remaining.into());
        }
        // The identity of the database.
        text(&mut out, tag::SAFE_TO_IGNORE + 1, &Some(b"an id".to_vec()));
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edits() -> impl Strategy<Value = VersionEdit> {
        let key = || prop::collection::vec(any::<u8>(), 0..20);
        let table = (any::<u64>(), any::<u64>(), key(), key())
            .prop_map(|(number, size_bytes, smallest, largest)| TableFile { number, size_bytes, smallest, largest });
        let fields = (
            any::<u32>(),
            prop::option::of(key()),
            any::<bool>(),
            prop::option::of(key()),
            prop::collection::vec((0..8_u8, any::<u64>()), 0..4),
            prop::collection::vec((0..8_u8, table), 0..4),
            prop::option::of(any::<u32>()),
        );
        fields.prop_map(|(column_family, creates_family, drops_family, comparator, deleted, added, group_remaining)| {
            VersionEdit { column_family, creates_family, drops_family, comparator, deleted, added, group_remaining }
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(edit in edits()) {
            prop_assert_eq!(VersionEdit::decode(&testing::encode(&edit)), Ok(edit));
        }

        #[test]
        fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = VersionEdit::decode(&bytes);
        }

        #[test]
        fn a_cut_edit_is_damaged_or_shorter(edit in edits(), keep in any::<prop::sample::Index>()) {
            let bytes = testing::encode(&edit);
            let keep = keep.index(bytes.len());
            if let Ok(read) = VersionEdit::decode(&bytes[..keep]) {
                prop_assert!(read.added.len() <= edit.added.len());
            }
        }
    }

    #[test]
    fn absurd_lengths_allocate_nothing() {
        let mut bytes = vec![1];
        testing::number(&mut bytes, u64::MAX);
        assert!(VersionEdit::decode(&bytes).is_err());
        assert!(VersionEdit::decode(&[6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn an_unknown_field_that_matters_is_no_guess() {
        assert!(VersionEdit::decode(&[99, 0]).is_err());
    }
}
