//! Keys as byte strings: common prefixes and the shortest separators.

/// Length of the longest common prefix of two keys.
pub(crate) fn common_prefix_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Length of the shortest prefix of `right` that is greater than `left`: a separator `s` with `left < s <= right`.
pub(crate) fn separator_bytes(left: &[u8], right: &[u8]) -> usize {
    debug_assert!(left < right, "a separator needs left < right");
    common_prefix_bytes(left, right) + 1
}

/// Length of the prefix that all keys in `[low, high)` share; `high` of `None` is above every key. One byte more than what the two share if
/// `high` is the least key above that prefix of `low`: where pages are cut at short separators, that is every other leaf.
pub(crate) fn range_prefix_bytes(low: &[u8], high: Option<&[u8]>) -> usize {
    let Some(high) = high else { return 0 };
    let shared = common_prefix_bytes(low, high);
    match (low.get(shared), &high[shared..]) {
        (Some(least), [above]) if least.checked_add(1) == Some(*above) => shared + 1,
        _ => shared,
    }
}

const HASH_SEED: u64 = 0x243f_6a88_85a3_08d3;
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// 64 bits that tell keys apart, in memory only: which stripe orders a key's writers, where the record cache keeps it. Keys that are made
/// to collide share a latch and a bucket, no more.
pub(crate) fn hash(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks();
    let mut last = [0; size_of::<u64>()];
    last[..rest.len()].copy_from_slice(rest);
    let state = words.iter().fold(HASH_SEED, |state, word| fold(state, u64::from_le_bytes(*word)));
    fold(fold(state, u64::from_le_bytes(last)), key.len() as u64)
}

/// Both halves of a long product, so that every bit of `word` changes bits above and below it.
#[expect(clippy::cast_possible_truncation, reason = "both halves are wanted")]
fn fold(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word) * u128::from(HASH_FACTOR);
    product as u64 ^ (product >> u64::BITS) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn separators_are_shortest() {
        assert_eq!(separator_bytes(b"", b"a"), 1);
        assert_eq!(separator_bytes(b"ab", b"abc"), 3);
        assert_eq!(separator_bytes(b"abz", b"ac"), 2);
        assert_eq!(separator_bytes(b"a", b"b"), 1);
    }

    /// Stripes, segments, buckets and tags take other bits of it.
    #[test]
    fn hashes_of_keys_that_differ_in_one_place_spread_over_all_their_bits() {
        for (bytes, at) in [(2, 0), (8, 6), (8, 0), (9, 3), (17, 15), (40, 8)] {
            let of = |number: u16| {
                let mut key = vec![7; bytes];
                key[at..at + 2].copy_from_slice(&number.to_be_bytes());
                hash(&key)
            };
            for shift in [0, 16, 32, 40, 56] {
                let mut counts = [0_u32; 256];
                (0..=u16::MAX).for_each(|number| counts[usize::from((of(number) >> shift).to_le_bytes()[0])] += 1);
                let (least, most) = (counts.iter().min(), counts.iter().max());
                assert!(
                    least >= Some(&150) && most <= Some(&400),
                    "{bytes}, {at}, {shift}: {least:?} to {most:?} of 256"
                );
            }
        }
        assert_ne!(hash(b""), hash(&[0]));
        assert_ne!(hash(&[0; 7]), hash(&[0; 8]));
    }

    #[test]
    fn range_prefixes_of_leaves_beside_each_other() {
        assert_eq!(range_prefix_bytes(b"abc", Some(b"abd")), 3, "`abd` itself lies above");
        assert_eq!(range_prefix_bytes(b"abcx", Some(b"abd")), 3);
        assert_eq!(range_prefix_bytes(b"abc", Some(b"abda")), 2, "`abd` lies between");
        assert_eq!(range_prefix_bytes(b"abc", Some(b"abe")), 2);
        assert_eq!(range_prefix_bytes(b"ab", Some(b"abd")), 2);
        assert_eq!(range_prefix_bytes(b"abc", None), 0);
        assert_eq!(range_prefix_bytes(b"", Some(b"a")), 0);
        assert_eq!(range_prefix_bytes(b"a\xff", Some(b"b")), 1);
    }

    proptest! {
        /// Few letters, so that many keys lie between; 0xff and 0 among them.
        #[test]
        fn a_range_prefix_is_that_of_every_key_between(
            keys in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, 254, 255]), 0..5), 3..60),
        ) {
            let mut keys = keys;
            keys.sort();
            keys.dedup();
            let (low, high) = (&keys[0], &keys[keys.len() - 1]);
            let prefix = &low[..range_prefix_bytes(low, Some(high).filter(|high| *high > low).map(Vec::as_slice))];
            for key in &keys[..keys.len() - 1] {
                prop_assert!(key.starts_with(prefix), "{:?} in {:?}..{:?}", key, low, high);
            }
        }
    }
}
