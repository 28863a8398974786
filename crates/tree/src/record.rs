//! What a key maps to, as log, buffers and pages carry it.

/// Kind of a record. On disk, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The value stands in the record.
    Inline = 0,
    /// The record holds an encoded value pointer.
    Pointer = 1,
    /// The key is deleted.
    Tombstone = 2,
}

impl Kind {
    /// The kind numbered `raw`.
    pub(crate) fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Inline),
            1 => Some(Self::Pointer),
            2 => Some(Self::Tombstone),
            _ => None,
        }
    }
}

/// One record: a key and what it maps to. `value` is empty for tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The key.
    pub(crate) key: &'a [u8],
    /// Kind of `value`.
    pub(crate) kind: Kind,
    /// Value bytes or encoded pointer.
    pub(crate) value: &'a [u8],
}

/// A record that owns its bytes.
pub(crate) type OwnedRecord = (Vec<u8>, Kind, Vec<u8>);

/// A copy of `record`.
pub(crate) fn owned(record: Record<'_>) -> OwnedRecord {
    (record.key.to_vec(), record.kind, record.value.to_vec())
}

/// The record in `owned`.
pub(crate) fn borrowed((key, kind, value): &OwnedRecord) -> Record<'_> {
    Record { key, kind: *kind, value }
}
