//! One bucket: records back to back in the order in which they came, and a hand (SIEVE).
//!
//! Layout of 1,024 bytes: end (2 bytes) | hand (2) | records. A record: tag (1) | kind and uses (1) | length of the key (1) | of the value (1) | key | value.
//! Zeroed memory is an empty bucket. A use is noted up to three times; the hand goes over the records, takes one use from each, and removes the first that has
//! none. New ones come last and have none: what is read once goes soon.

use crate::record::{Kind, Record};

/// Bytes of a bucket.
pub(super) const BUCKET_BYTES: usize = 1 << 10;
/// End and hand; both are kept less this, so that zeroes mean empty.
const HEAD_BYTES: usize = 4;
const RECORD_HEAD_BYTES: usize = 4;
/// Longer records, head included, are not kept: a bucket would hold few.
const RECORD_BYTES_MAX: usize = BUCKET_BYTES / 4;

const KIND_MASK: u8 = 0b11;
const ONE_USE: u8 = 0b100;
const USES_MASK: u8 = 0b1100;

/// The bytes of a bucket, borrowed under its segment's lock. Always: `end` is where the last record ends, `hand` where one begins, or `end`.
pub(super) struct Bucket<'a>(&'a mut [u8]);

impl<'a> Bucket<'a> {
    /// The bucket in these bytes, which came from another one or are zero.
    pub(super) fn of(bytes: &'a mut [u8]) -> Self {
        Self(bytes)
    }

    fn word(&self, at: usize) -> usize {
        HEAD_BYTES + usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    fn set_word(&mut self, at: usize, to: usize) {
        let to = u16::try_from(to - HEAD_BYTES).expect("a bucket is short");
        self.0[at..at + 2].copy_from_slice(&to.to_le_bytes());
    }

    fn end(&self) -> usize {
        self.word(0)
    }

    fn set_end(&mut self, end: usize) {
        self.set_word(0, end);
    }

    fn hand(&self) -> usize {
        self.word(2)
    }

    fn set_hand(&mut self, hand: usize) {
        self.set_word(2, hand);
    }

    /// Bytes of its records.
    #[cfg(test)]
    pub(super) fn used_bytes(&self) -> usize {
        self.end() - HEAD_BYTES
    }

    fn record_bytes(&self, at: usize) -> usize {
        RECORD_HEAD_BYTES + usize::from(self.0[at + 2]) + usize::from(self.0[at + 3])
    }

    /// Where the record of `key`, whose tag is `tag`, begins.
    pub(super) fn search(&self, tag: u8, key: &[u8]) -> Option<usize> {
        let (mut at, end) = (HEAD_BYTES, self.end());
        while at < end {
            if self.0[at] == tag && self.key(at) == key {
                return Some(at);
            }
            at += self.record_bytes(at);
        }
        None
    }

    fn key(&self, at: usize) -> &[u8] {
        let key_at = at + RECORD_HEAD_BYTES;
        &self.0[key_at..key_at + usize::from(self.0[at + 2])]
    }

    /// The record at `at`.
    pub(super) fn record(&self, at: usize) -> Record<'_> {
        let kind = Kind::from_raw(self.0[at + 1] & KIND_MASK).expect("written by `insert` or `replace`");
        let value_at = at + RECORD_HEAD_BYTES + usize::from(self.0[at + 2]);
        Record { key: self.key(at), kind, value: &self.0[value_at..value_at + usize::from(self.0[at + 3])] }
    }

    /// One use more of the record at `at`.
    pub(super) fn note_use(&mut self, at: usize) {
        let state = self.0[at + 1];
        if state & USES_MASK != USES_MASK {
            self.0[at + 1] = state + ONE_USE;
        }
    }

    /// Gives the record at `at` another value of the same length; `false`, and nothing changed, if it has another one.
    pub(super) fn replace(&mut self, at: usize, record: &Record<'_>) -> bool {
        if record.value.len() != usize::from(self.0[at + 3]) {
            return false;
        }
        self.0[at + 1] = self.0[at + 1] & !KIND_MASK | record.kind as u8;
        let value_at = at + RECORD_HEAD_BYTES + record.key.len();
        self.0[value_at..value_at + record.value.len()].copy_from_slice(record.value);
        true
    }

    /// Adds a record that is not here, and removes others until there is room; nothing if it is too long. Whether it was added, and how many
    /// were removed.
    pub(super) fn insert(&mut self, tag: u8, record: &Record<'_>) -> (bool, u64) {
        let bytes = RECORD_HEAD_BYTES + record.key.len() + record.value.len();
        let (Ok(key_bytes), Ok(value_bytes)) = (u8::try_from(record.key.len()), u8::try_from(record.value.len()))
        else {
            return (false, 0);
        };
        if bytes > RECORD_BYTES_MAX {
            return (false, 0);
        }
        let removed = self.make_room(bytes);
        let at = self.end();
        let (head, rest) = self.0[at..at + bytes].split_at_mut(RECORD_HEAD_BYTES);
        head.copy_from_slice(&[tag, record.kind as u8, key_bytes, value_bytes]);
        let (key, value) = rest.split_at_mut(record.key.len());
        key.copy_from_slice(record.key);
        value.copy_from_slice(record.value);
        self.set_end(at + bytes);
        (true, removed)
    }

    /// Removes records at the hand until `bytes` more fit. Ends: each round of the hand takes a use from every record. Returns how many.
    fn make_room(&mut self, bytes: usize) -> u64 {
        let mut removed = 0;
        while self.end() + bytes > BUCKET_BYTES {
            let at = if self.hand() >= self.end() { HEAD_BYTES } else { self.hand() };
            self.set_hand(at);
            if self.0[at + 1] & USES_MASK == 0 {
                self.remove(at);
                removed += 1;
            } else {
                self.0[at + 1] -= ONE_USE;
                self.set_hand(at + self.record_bytes(at));
            }
        }
        removed
    }

    /// Removes the record at `at`.
    pub(super) fn remove(&mut self, at: usize) {
        let (bytes, end, hand) = (self.record_bytes(at), self.end(), self.hand());
        self.0.copy_within(at + bytes..end, at);
        self.set_end(end - bytes);
        if hand > at {
            self.set_hand(hand - bytes);
        }
    }

    /// Moves the records whose keys `moves` picks to the end of `other`, which has room.
    pub(super) fn move_into(&mut self, other: &mut Bucket<'_>, moves: impl Fn(&[u8]) -> bool) {
        let mut at = HEAD_BYTES;
        while at < self.end() {
            let bytes = self.record_bytes(at);
            if moves(self.key(at)) {
                let to = other.end();
                other.0[to..to + bytes].copy_from_slice(&self.0[at..at + bytes]);
                other.set_end(to + bytes);
                self.remove(at);
            } else {
                at += bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { key, kind: Kind::Inline, value }
    }

    #[test]
    fn the_hand_spares_what_was_used_and_takes_the_rest_in_order() {
        let mut bytes = vec![0; BUCKET_BYTES];
        let mut bucket = Bucket::of(&mut bytes);
        // Ten records of 102 bytes fill it.
        let value = [5; 97];
        (0..10_u8).for_each(|key| assert_eq!(bucket.insert(key, &put(&[key], &value)), (true, 0)));
        for key in [0, 2, 2] {
            let at = bucket.search(key, &[key]).expect("there");
            bucket.note_use(at);
        }
        (10..13_u8).for_each(|key| assert_eq!(bucket.insert(key, &put(&[key], &value)), (true, 1)));
        let left: Vec<u8> = (0..13).filter(|key| bucket.search(*key, &[*key]).is_some()).collect();
        assert_eq!(left, [0, 2, 5, 6, 7, 8, 9, 10, 11, 12]);
        // The next round finds 0 without a use, and takes the second one of 2.
        (13..20_u8).for_each(|key| assert_eq!(bucket.insert(key, &put(&[key], &value)), (true, 1)));
        let left: Vec<u8> = (0..20).filter(|key| bucket.search(*key, &[*key]).is_some()).collect();
        assert!(!left.contains(&5) && left.contains(&19) && left.len() == 10, "{left:?}");
    }

    #[test]
    fn limits_of_lengths() {
        let mut bytes = vec![0; BUCKET_BYTES];
        let mut bucket = Bucket::of(&mut bytes);
        let longest = [1; RECORD_BYTES_MAX - RECORD_HEAD_BYTES - 1];
        assert_eq!(bucket.insert(1, &put(b"k", &longest)), (true, 0));
        assert_eq!(bucket.insert(2, &put(b"kk", &longest)), (false, 0));
        assert_eq!(bucket.insert(3, &put(&[3; 300], b"")), (false, 0));
        assert!(bucket.search(1, b"k").is_some() && bucket.search(2, b"kk").is_none());
        assert_eq!(bucket.used_bytes(), RECORD_BYTES_MAX);
        assert_eq!(bucket.insert(4, &put(b"", b"")), (true, 0));
        let at = bucket.search(4, b"").expect("empty keys are keys");
        assert_eq!(bucket.record(at), put(b"", b""));
    }
}
