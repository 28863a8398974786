//! One bucket: records in the order in which they came, and a hand (SIEVE).
//!
//! Layout of 1,024 bytes: count (1 byte) | hand, the number of a record (1) | bytes of all bodies (2) | heads, one behind the other | free
//! | bodies, the first one last. A head: tag (1) | kind and uses (1) | length of the key (1) | of the value (1). A body: key | value. So a search goes over heads that
//! lie close together, whose places do not depend on each other's lengths, and looks at one body.
//!
//! Zeroed memory is an empty bucket. A use is noted up to three times; the hand goes over the records, takes one use from each, and removes
//! the first that has none. New ones come last and have none: what is read once goes soon.

use crate::record::{Kind, Record};

/// Bytes of a bucket.
pub(super) const BUCKET_BYTES: usize = 1 << 10;
/// Count, hand and bytes of bodies. A bucket has room for 255 heads at the most.
const START_BYTES: usize = 4;
const HEAD_BYTES: usize = 4;
/// Longer records, head included, are not kept: a bucket would hold few.
const RECORD_BYTES_MAX: usize = BUCKET_BYTES / 4;

const KIND_MASK: u8 = 0b11;
const ONE_USE: u8 = 0b100;
const USES_MASK: u8 = 0b1100;

/// The bytes of a bucket, borrowed under its segment's lock. Always: `hand` is below `count`, or 0.
pub(super) struct Bucket<'a>(&'a mut [u8]);

/// Where a record is, until the next is inserted or removed.
#[derive(Clone, Copy)]
pub(super) struct At {
    nth: usize,
    /// Where its body begins.
    body: usize,
}

impl<'a> Bucket<'a> {
    /// The bucket in these bytes, which came from another one or are zero.
    pub(super) fn of(bytes: &'a mut [u8]) -> Self {
        Self(bytes)
    }

    fn count(&self) -> usize {
        usize::from(self.0[0])
    }

    fn hand(&self) -> usize {
        usize::from(self.0[1])
    }

    fn set_hand(&mut self, hand: usize) {
        self.0[1] = if hand < self.count() { byte(hand) } else { 0 };
    }

    fn bodies_bytes(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[2], self.0[3]]))
    }

    fn set_sizes(&mut self, count: usize, bodies_bytes: usize) {
        self.0[0] = byte(count);
        self.0[2..4].copy_from_slice(&u16::try_from(bodies_bytes).expect("a bucket is short").to_le_bytes());
    }

    fn free_bytes(&self) -> usize {
        BUCKET_BYTES - self.used_bytes() - START_BYTES
    }

    /// Bytes of its records.
    pub(super) fn used_bytes(&self) -> usize {
        self.count() * HEAD_BYTES + self.bodies_bytes()
    }

    fn heads(&self) -> &[[u8; HEAD_BYTES]] {
        self.0[START_BYTES..].as_chunks().0.get(..self.count()).unwrap_or_default()
    }

    fn head_mut(&mut self, nth: usize) -> &mut [u8; HEAD_BYTES] {
        &mut self.0[START_BYTES..].as_chunks_mut().0[nth]
    }

    /// Where the record of `key`, whose tag is `tag`, is.
    pub(super) fn search(&self, tag: u8, key: &[u8]) -> Option<At> {
        // Most searches find no such tag: this goes over all heads without a branch.
        if !self.heads().iter().fold(false, |any, head| any | (head[0] == tag)) {
            return None;
        }
        let mut body = BUCKET_BYTES;
        for (nth, head) in self.heads().iter().enumerate() {
            body -= body_bytes(head);
            if head[0] == tag && usize::from(head[2]) == key.len() && self.0[body..].starts_with(key) {
                return Some(At { nth, body });
            }
        }
        None
    }

    fn at(&self, nth: usize) -> At {
        At { nth, body: BUCKET_BYTES - self.heads()[..=nth].iter().map(body_bytes).sum::<usize>() }
    }

    fn body(&self, at: At) -> &[u8] {
        &self.0[at.body..at.body + body_bytes(&self.heads()[at.nth])]
    }

    /// The record at `at`.
    pub(super) fn record(&self, at: At) -> Record<'_> {
        let [_, state, key_bytes, _] = self.heads()[at.nth];
        let kind = Kind::from_raw(state & KIND_MASK).expect("written by `insert` or `replace`");
        let (key, value) = self.body(at).split_at(usize::from(key_bytes));
        Record { key, kind, value }
    }

    /// One use more of the record at `at`.
    pub(super) fn note_use(&mut self, at: At) {
        let [_, state, ..] = self.head_mut(at.nth);
        if *state & USES_MASK != USES_MASK {
            *state += ONE_USE;
        }
    }

    /// Gives the record at `at` another value of the same length; `false`, and nothing changed, if it has another one.
    pub(super) fn replace(&mut self, at: At, record: &Record<'_>) -> bool {
        let [_, state, _, value_bytes] = self.head_mut(at.nth);
        if record.value.len() != usize::from(*value_bytes) {
            return false;
        }
        *state = *state & !KIND_MASK | record.kind as u8;
        let value_at = at.body + record.key.len();
        self.0[value_at..value_at + record.value.len()].copy_from_slice(record.value);
        true
    }

    /// Adds a record that is not here, and removes others until there is room; nothing if it is too long. Whether it was added, and how
    /// many were removed.
    pub(super) fn insert(&mut self, tag: u8, record: &Record<'_>) -> (bool, u64) {
        let (Ok(key_bytes), Ok(value_bytes)) = (u8::try_from(record.key.len()), u8::try_from(record.value.len()))
        else {
            return (false, 0);
        };
        let bytes = HEAD_BYTES + record.key.len() + record.value.len();
        if bytes > RECORD_BYTES_MAX {
            return (false, 0);
        }
        let removed = self.make_room(bytes);
        self.push([tag, record.kind as u8, key_bytes, value_bytes], &[record.key, record.value]);
        (true, removed)
    }

    /// Adds a record, for which there is room, as the last.
    fn push(&mut self, head: [u8; HEAD_BYTES], body: &[&[u8]]) {
        let count = self.count() + 1;
        let bodies_bytes = self.bodies_bytes() + body_bytes(&head);
        let mut at = BUCKET_BYTES - bodies_bytes;
        for part in body {
            self.0[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.set_sizes(count, bodies_bytes);
        *self.head_mut(count - 1) = head;
    }

    /// Removes records at the hand until `bytes` more fit. Ends: each round of the hand takes a use from every record. Returns how many.
    fn make_room(&mut self, bytes: usize) -> u64 {
        let mut removed = 0;
        while self.free_bytes() < bytes {
            let hand = self.hand();
            let [_, state, ..] = self.head_mut(hand);
            if *state & USES_MASK == 0 {
                self.remove(self.at(hand));
                removed += 1;
            } else {
                *state -= ONE_USE;
                self.set_hand(hand + 1);
            }
        }
        removed
    }

    /// Removes the record at `at`.
    pub(super) fn remove(&mut self, at: At) {
        let (count, bodies_bytes, hand) = (self.count(), self.bodies_bytes(), self.hand());
        let bytes = body_bytes(&self.heads()[at.nth]);
        let bodies = BUCKET_BYTES - bodies_bytes;
        self.0.copy_within(bodies..at.body, bodies + bytes);
        self.0.copy_within(heads_end(at.nth + 1)..heads_end(count), heads_end(at.nth));
        self.set_sizes(count - 1, bodies_bytes - bytes);
        self.set_hand(if hand > at.nth { hand - 1 } else { hand });
    }

    /// Moves the records whose keys `moves` picks to the end of `other`, which has room.
    pub(super) fn move_into(&mut self, other: &mut Bucket<'_>, moves: impl Fn(&[u8]) -> bool) {
        let mut nth = 0;
        while nth < self.count() {
            let at = self.at(nth);
            if moves(self.record(at).key) {
                other.push(self.heads()[nth], &[self.body(at)]);
                self.remove(at);
            } else {
                nth += 1;
            }
        }
    }
}

fn body_bytes(&[_, _, key_bytes, value_bytes]: &[u8; HEAD_BYTES]) -> usize {
    usize::from(key_bytes) + usize::from(value_bytes)
}

/// Where the first `count` heads end.
fn heads_end(count: usize) -> usize {
    START_BYTES + count * HEAD_BYTES
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).expect("a bucket has at most 255 records")
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
        let longest = [1; RECORD_BYTES_MAX - HEAD_BYTES - 1];
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
