//! How named trees share one key space: an order-preserving, prefix-free code of a tree's number in front of each key.
//!
//! Numbers below 120 take one byte. Above, a first byte of 120 + n says that n + 1 bytes follow, which hold the number
//! less 120, most significant byte first. So numbers sort as their codes do, no code begins another, and all keys of tree `n` lie in
//! `[code(n), code(n + 1))`. First bytes above 124 are free for later formats.

/// The longest code in bytes.
pub(crate) const PREFIX_BYTES_MAX: usize = 6;

const ONE_BYTE: u64 = 120;

/// The code of one tree's number. Cheap to copy; compares as the number does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix {
    bytes: [u8; PREFIX_BYTES_MAX],
    len: u8,
    number: u32,
}

impl Prefix {
    /// The catalogue: names of trees (see `catalogue.rs`).
    pub(crate) const CATALOGUE: Self = Self::small(0);
    /// The tree that `Db` itself reads and writes.
    pub(crate) const DEFAULT: Self = Self::small(1);

    const fn small(number: u8) -> Self {
        Self { bytes: [number, 0, 0, 0, 0, 0], len: 1, number: number as u32 }
    }

    /// The code of tree `number`.
    pub(crate) fn of(number: u32) -> Self {
        let (bytes, len) = encode(u64::from(number));
        Self { bytes, len, number }
    }

    /// The tree's number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The code.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The code of the next number: above every key of this tree.
    pub(crate) fn end(&self) -> Vec<u8> {
        let (bytes, len) = encode(u64::from(self.number) + 1);
        bytes[..usize::from(len)].to_vec()
    }

    /// `key` with the code in front.
    pub(crate) fn join(&self, key: &[u8]) -> Vec<u8> {
        [self.bytes(), key].concat()
    }

    /// `key` without the code; `None` if it is no key of this tree.
    pub(crate) fn strip<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.strip_prefix(self.bytes())
    }
}

/// The smallest byte string above every one that begins with `prefix`; `None` if there is none.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut next = prefix[..=kept].to_vec();
    next[kept] += 1;
    Some(next)
}

fn encode(number: u64) -> ([u8; PREFIX_BYTES_MAX], u8) {
    let mut bytes = [0; PREFIX_BYTES_MAX];
    let Some(rest) = number.checked_sub(ONE_BYTE) else {
        bytes[0] = number.to_le_bytes()[0];
        return (bytes, 1);
    };
    let tail = rest.to_be_bytes();
    let skipped = tail.iter().take(tail.len() - 1).take_while(|&&byte| byte == 0).count();
    let tail = &tail[skipped..];
    let len = u8::try_from(tail.len()).expect("at most 8 bytes");
    bytes[0] = ONE_BYTE.to_le_bytes()[0] + len - 1;
    bytes[1..=tail.len()].copy_from_slice(tail);
    (bytes, len + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codes_at_the_limits() {
        let code = |number| Prefix::of(number).bytes().to_vec();
        assert_eq!(code(0), [0]);
        assert_eq!(code(119), [119]);
        assert_eq!(code(120), [120, 0]);
        assert_eq!(code(375), [120, 255]);
        assert_eq!(code(376), [121, 1, 0]);
        assert_eq!(code(u32::MAX), [123, 255, 255, 255, 135]);
        assert_eq!(Prefix::of(119).end(), [120, 0]);
        assert_eq!(Prefix::of(u32::MAX).end(), [123, 255, 255, 255, 136]);
        assert_eq!(Prefix::of(1), Prefix::DEFAULT);
        assert_eq!(Prefix::of(0), Prefix::CATALOGUE);
    }

    #[test]
    fn successors() {
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff\xff"), None);
        assert_eq!(successor(b""), None);
    }

    #[test]
    fn strip_undoes_join_and_refuses_other_trees() {
        let tree = Prefix::of(400);
        assert_eq!(tree.strip(&tree.join(b"key")), Some(b"key".as_slice()));
        assert_eq!(Prefix::of(401).strip(&tree.join(b"key")), None);
    }

    proptest! {
        #[test]
        fn trees_never_mix(a: u32, b: u32, key in proptest::collection::vec(any::<u8>(), 0..20)) {
            let (a, b) = (Prefix::of(a), Prefix::of(b));
            let joined = a.join(&key);
            prop_assert!(joined.as_slice() >= a.bytes() && joined < a.end());
            prop_assert_eq!(a.bytes().cmp(b.bytes()), a.number().cmp(&b.number()));
            prop_assert_eq!(b.strip(&joined).is_some(), a == b);
        }

        #[test]
        fn a_successor_is_the_least_bound(prefix in proptest::collection::vec(any::<u8>(), 0..6), tail in proptest::collection::vec(any::<u8>(), 0..6)) {
            if let Some(next) = successor(&prefix) {
                prop_assert!([prefix.as_slice(), &tail].concat() < next);
                prop_assert!(next.len() <= prefix.len() && !next.starts_with(&prefix));
            }
        }
    }
}
