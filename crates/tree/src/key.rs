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

/// Length of the prefix that all keys in `[low, high)` share; `high` of `None` is above every key.
pub(crate) fn range_prefix_bytes(low: &[u8], high: Option<&[u8]>) -> usize {
    high.map_or(0, |high| common_prefix_bytes(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_shortest() {
        assert_eq!(separator_bytes(b"", b"a"), 1);
        assert_eq!(separator_bytes(b"ab", b"abc"), 3);
        assert_eq!(separator_bytes(b"abz", b"ac"), 2);
        assert_eq!(separator_bytes(b"a", b"b"), 1);
    }

    #[test]
    fn range_prefix_holds_for_every_key_between() {
        assert_eq!(range_prefix_bytes(b"abc", Some(b"abd")), 2);
        assert_eq!(range_prefix_bytes(b"abc", None), 0);
        assert_eq!(range_prefix_bytes(b"", Some(b"a")), 0);
    }
}
