//! The body of a leaf page: fences and sorted records.
//!
//! Bytes: low fence length u16 | high fence length u16 (0xffff: none) | prefix length u16 | reserved u16 (0) | low fence |
//! high fence | [`Slots`](crate::slots). The prefix is what all keys of the page share (the first bytes of its first key, stored
//! once, behind the fences); it may be longer than what the fences share. The store adds identity, sequence number and checksum.

use crate::{
    TreeError,
    key::common_prefix_bytes,
    record::Record,
    slots::{self, Slots, SlotsMut, common_shape},
};

const HEAD_BYTES: usize = 8;
/// What a body needs beside fences, prefix and slots.
pub(crate) const HEAD_AND_SLACK_BYTES: usize = HEAD_BYTES;
const NO_FENCE: u16 = u16::MAX;

/// A leaf page's body of which only the head is verified: what a point read needs, which looks at few records.
#[derive(Clone, Copy)]
pub(crate) struct LeafBody<'a> {
    low: &'a [u8],
    high: Option<&'a [u8]>,
    prefix: &'a [u8],
    slots: &'a [u8],
}

impl<'a> LeafBody<'a> {
    /// Reads a body's head; takes any bytes (I10).
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, TreeError> {
        Self::parse(body).map_err(damaged)
    }

    fn parse(body: &'a [u8]) -> Result<Self, &'static str> {
        let (head, rest) = body.split_at_checked(HEAD_BYTES).ok_or("shorter than its head")?;
        let length = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let (low, rest) = rest.split_at_checked(usize::from(length(0))).ok_or("low fence exceeds the page")?;
        let has_high = length(2) != NO_FENCE;
        let high_bytes = if has_high { usize::from(length(2)) } else { 0 };
        let (high, rest) = rest.split_at_checked(high_bytes).ok_or("high fence exceeds the page")?;
        let (prefix, rest) = rest.split_at_checked(usize::from(length(4))).ok_or("prefix exceeds the page")?;
        Ok(Self { low, high: has_high.then_some(high), prefix, slots: rest })
    }

    /// What all keys begin with.
    pub(crate) fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The record of `key`, with its suffix. A bad record is found only if the search looks at it.
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Record<'a>>, TreeError> {
        let Some(suffix) = key.strip_prefix(self.prefix) else { return Ok(None) };
        Slots::find_unverified(self.slots, suffix).map_err(damaged)
    }

    /// The page, for whoever goes over its records.
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn verify(&self) -> Result<LeafPage<'a>, TreeError> {
        let Self { low, high, prefix, slots } = *self;
        Ok(LeafPage { low, high, prefix, slots: Slots::verify(slots).map_err(damaged)? })
    }
}

fn damaged(why: &str) -> TreeError {
    TreeError::Damaged { what: "leaf page", why: why.to_string() }
}

/// A leaf page's body, verified.
#[derive(Clone, Copy)]
pub(crate) struct LeafPage<'a> {
    low: &'a [u8],
    high: Option<&'a [u8]>,
    prefix: &'a [u8],
    slots: Slots<'a>,
}

impl<'a> LeafPage<'a> {
    /// Reads a body; takes any bytes (I10).
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, TreeError> {
        LeafBody::decode(body)?.verify()
    }

    /// Low fence: every key is `>=` it.
    pub(crate) fn low(&self) -> &'a [u8] {
        self.low
    }

    /// High fence: every key is `<` it.
    pub(crate) fn high(&self) -> Option<&'a [u8]> {
        self.high
    }

    /// What all keys begin with.
    pub(crate) fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The records, with key suffixes behind [`prefix`](Self::prefix).
    pub(crate) fn slots(&self) -> Slots<'a> {
        self.slots
    }

    /// The record of `key`, with its suffix.
    pub(crate) fn find(&self, key: &[u8]) -> Option<Record<'a>> {
        self.slots.find(key.strip_prefix(self.prefix)?)
    }
}

/// Bytes of a body with these fences and records (full keys, sorted).
pub(crate) fn body_bytes(low: &[u8], high: Option<&[u8]>, records: &[Record<'_>]) -> usize {
    let prefix = shared_prefix(records);
    let payload: usize = records.iter().map(|r| r.key.len() + r.value.len()).sum();
    let payload = payload - records.len() * prefix;
    let dense = common_shape(records.iter().copied()).is_some_and(|shape| shape.stride() > prefix);
    let fences = low.len() + high.map_or(0, <[u8]>::len);
    HEAD_BYTES + fences + prefix + slots::encoded_bytes(records.len(), payload, dense)
}

/// Bytes that every key of sorted records begins with. A single record keeps its last byte, so that no suffix is empty
/// where that would make a dense page of nothing.
fn shared_prefix(records: &[Record<'_>]) -> usize {
    match records {
        [] => 0,
        [only] => only.key.len().saturating_sub(1),
        [first, .., last] => common_prefix_bytes(first.key, last.key),
    }
}

/// A body without fences, of records that lie in `slots` already, with key suffixes behind `prefix`.
pub(crate) fn of_slots(prefix: &[u8], slots: Slots<'_>) -> Vec<u8> {
    let length = |bytes: usize| u16::try_from(bytes).expect("keys are shorter than 64 KiB").to_le_bytes();
    let mut body = Vec::with_capacity(HEAD_BYTES + prefix.len() + slots.bytes().len());
    body.extend_from_slice(&length(0));
    body.extend_from_slice(&NO_FENCE.to_le_bytes());
    body.extend_from_slice(&length(prefix.len()));
    body.extend_from_slice(&[0; 2]);
    body.extend_from_slice(prefix);
    body.extend_from_slice(slots.bytes());
    body
}

/// Encodes a body of exactly the bytes it needs.
pub(crate) fn encode(low: &[u8], high: Option<&[u8]>, records: &[Record<'_>]) -> Vec<u8> {
    let prefix = shared_prefix(records);
    let mut body = Vec::with_capacity(body_bytes(low, high, records));
    let length = |bytes: usize| u16::try_from(bytes).expect("keys are shorter than 64 KiB").to_le_bytes();
    body.extend_from_slice(&length(low.len()));
    body.extend_from_slice(&high.map_or(NO_FENCE.to_le_bytes(), |high| length(high.len())));
    body.extend_from_slice(&length(prefix));
    body.extend_from_slice(&[0; 2]);
    body.extend_from_slice(low);
    body.extend_from_slice(high.unwrap_or_default());
    body.extend_from_slice(records.first().map_or(&[], |first| &first.key[..prefix]));
    let at = body.len();
    body.resize(body_bytes(low, high, records), 0);
    let suffixes = records.iter().map(|record| Record { key: &record.key[prefix..], ..*record });
    let fits = SlotsMut::new(&mut body[at..]).fill(suffixes);
    assert!(fits, "the body was sized for its records");
    body
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Kind;

    #[test]
    fn dense_pages_cost_sixteen_bytes_a_pair() {
        let keys: Vec<[u8; 9]> = (0..250_u64)
            .map(|i| {
                let mut key = [1; 9];
                key[1..].copy_from_slice(&(i << 40).to_be_bytes());
                key
            })
            .collect();
        let records: Vec<Record<'_>> =
            keys.iter().map(|key| Record { key, kind: Kind::Inline, value: &key[1..] }).collect();
        let body = encode(&keys[0], None, &records);
        assert!(body.len() <= 250 * 16 + 48, "{}", body.len());
        let page = LeafPage::decode(&body).expect("own encoding");
        assert_eq!(page.find(&keys[77]).expect("present").value, &keys[77][1..]);
        assert!(page.find(b"absent").is_none());
    }

    proptest! {
        #[test]
        fn round_trips(map in prop::collection::btree_map(prop::collection::vec(0_u8..5, 0..9), prop::collection::vec(any::<u8>(), 0..30), 0..40), high in prop::option::of(prop::collection::vec(250_u8..255, 1..4))) {
            let records: Vec<Record<'_>> = map.iter().map(|(key, value)| Record { key, kind: Kind::Inline, value }).collect();
            let body = encode(b"", high.as_deref(), &records);
            prop_assert_eq!(body.len(), body_bytes(b"", high.as_deref(), &records));
            let page = LeafPage::decode(&body).expect("own encoding");
            prop_assert_eq!(page.high(), high.as_deref());
            prop_assert_eq!(page.low(), b"".as_slice());
            for (key, value) in &map {
                prop_assert_eq!(page.find(key).map(|r| r.value), Some(value.as_slice()));
            }
            prop_assert_eq!(page.slots().len(), map.len());
        }

        #[test]
        fn any_bytes_are_refused_or_read(body in prop::collection::vec(any::<u8>(), 0..200), key in prop::collection::vec(any::<u8>(), 0..5)) {
            let found = LeafBody::decode(&body).and_then(|body| body.find(&key));
            if let Ok(page) = LeafPage::decode(&body) {
                prop_assert_eq!(found.ok(), Some(page.find(&key)));
            }
        }
    }
}
