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
