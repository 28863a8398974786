//! Sorted records with full keys that a scan takes with it when it lets a leaf go: copies, one behind the other in one piece of memory, so
//! that a record costs no allocation.

use crate::record::{Kind, Record};

/// The records.
#[derive(Default)]
pub(crate) struct RecordList {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// Where a record's key begins and ends, and where its value ends.
struct Place {
    key: u32,
    value: u32,
    end: u32,
    kind: Kind,
}

impl RecordList {
    /// Copies of `records`, whose keys lack `prefix`. Passes over them twice, so that memory is asked for once.
    pub(crate) fn of<'r>(prefix: &[u8], records: impl Iterator<Item = Record<'r>> + Clone) -> Self {
        let bytes_of = |record: Record<'_>| prefix.len() + record.key.len() + record.value.len();
        let (count, bytes) =
            records.clone().fold((0, 0), |(count, bytes), record| (count + 1, bytes + bytes_of(record)));
        let mut list = Self { bytes: Vec::with_capacity(bytes), places: Vec::with_capacity(count) };
        for record in records {
            list.push(prefix, &record);
        }
        list
    }

    fn push(&mut self, prefix: &[u8], record: &Record<'_>) {
        let key = self.end();
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(record.key);
        let value = self.end();
        self.bytes.extend_from_slice(record.value);
        self.places.push(Place { key, value, end: self.end(), kind: record.kind });
    }

    fn end(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("a leaf and what lies above it are far below 4 GiB")
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Record number `index`, which is below [`len`](Self::len).
    pub(crate) fn get(&self, index: usize) -> Record<'_> {
        let Place { key, value, end, kind } = self.places[index];
        let bytes = |from: u32, to: u32| &self.bytes[from as usize..to as usize];
        Record { key: bytes(key, value), kind, value: bytes(value, end) }
    }

    /// Where the record of `key` is (`Ok`) or belongs (`Err`).
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.places.binary_search_by(|place| self.bytes[place.key as usize..place.value as usize].cmp(key))
    }

    /// All of them in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_with_their_prefix() {
        let records: [(&[u8], Kind, &[u8]); 4] = [
            (b"", Kind::Inline, b"x"),
            (b"a", Kind::Tombstone, b""),
            (b"bc", Kind::Pointer, b"0123"),
            (b"d", Kind::Inline, b""),
        ];
        let list = RecordList::of(b"pre", records.iter().map(|&(key, kind, value)| Record { key, kind, value }));
        assert_eq!((list.len(), RecordList::default().len()), (4, 0));
        for (found, (key, kind, value)) in list.iter().zip(records) {
            assert_eq!((found.key, found.kind, found.value), ([b"pre", key].concat().as_slice(), kind, value));
        }
        assert_eq!(list.iter().count(), 4);
        assert_eq!((list.search(b"prea"), list.search(b"preb"), list.search(b"pre")), (Ok(1), Err(2), Ok(0)));
    }
}
