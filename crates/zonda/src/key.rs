//! From a user's key to the tree's: checked, and with the prefix of its named tree in front.

use std::cell::Cell;
use std::ops::{Bound, RangeBounds};

use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::prefix::{Prefix, successor};
use crate::{Error, Result};

thread_local! {
    /// Room for one key, so that a point operation allocates nothing.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `run` with `key` behind `prefix`. Nested calls work; the inner one allocates.
///
/// # Errors
/// `KeyTooLong`; what `run` returns.
pub(crate) fn with<T>(prefix: Prefix, key: &[u8], run: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    check(key)?;
    let mut full = SCRATCH.take();
    full.clear();
    full.extend_from_slice(prefix.bytes());
    full.extend_from_slice(key);
    let result = run(&full);
    SCRATCH.set(full);
    result
}

/// Several keys behind `prefix`.
///
/// # Errors
/// `KeyTooLong`.
pub(crate) fn all<K: AsRef<[u8]>>(prefix: Prefix, keys: impl IntoIterator<Item = K>) -> Result<Vec<Vec<u8>>> {
    let full = |key: K| check(key.as_ref()).map(|()| prefix.join(key.as_ref()));
    keys.into_iter().map(full).collect()
}

/// # Errors
/// `KeyTooLong`.
pub(crate) fn check(key: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::KeyTooLong { bytes: key.len(), bytes_max: KEY_BYTES_MAX });
    }
    Ok(())
}

/// # Errors
/// `ValueTooLong`.
pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::ValueTooLong { bytes: value.len(), bytes_max: VALUE_BYTES_MAX });
    }
    Ok(())
}

/// A range of the tree's keys. May be empty or upside down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) low: Bound<Vec<u8>>,
    pub(crate) high: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The user's range of one tree.
    pub(crate) fn of<K: AsRef<[u8]>>(prefix: Prefix, range: &impl RangeBounds<K>) -> Self {
        let join = |key: &K| prefix.join(key.as_ref());
        let low = match range.start_bound().map(join) {
            Bound::Unbounded => Bound::Included(prefix.bytes().to_vec()),
            bound => bound,
        };
        let high = match range.end_bound().map(join) {
            Bound::Unbounded => Bound::Excluded(prefix.end()),
            bound => bound,
        };
        Self { low, high }
    }

    /// All keys of one tree that begin with `start`.
    pub(crate) fn prefixed(prefix: Prefix, start: &[u8]) -> Self {
        let high = successor(start).map_or_else(|| prefix.end(), |next| prefix.join(&next));
        Self { low: Bound::Included(prefix.join(start)), high: Bound::Excluded(high) }
    }

    /// Every key of the store, catalogue included.
    pub(crate) fn everything() -> Self {
        Self { low: Bound::Unbounded, high: Bound::Unbounded }
    }

    /// Whether no key can be in it.
    pub(crate) fn is_empty(&self) -> bool {
        use Bound::{Excluded, Included};
        match (&self.low, &self.high) {
            (Included(low), Included(high)) => low > high,
            (Included(low) | Excluded(low), Included(high) | Excluded(high)) => low >= high,
            _ => false,
        }
    }

    /// The bounds as the tree takes them.
    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.low.as_ref().map(Vec::as_slice), self.high.as_ref().map(Vec::as_slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_ends_stay_inside_the_tree() {
        let tree = Prefix::of(5);
        let all = KeyRange::of::<&[u8]>(tree, &..);
        assert_eq!(all, KeyRange { low: Bound::Included(vec![5]), high: Bound::Excluded(vec![6]) });
        assert_eq!(KeyRange::prefixed(tree, b""), all);
        assert_eq!(KeyRange::prefixed(tree, b"\xff").high, Bound::Excluded(vec![6]));
        assert_eq!(KeyRange::prefixed(tree, b"a").high, Bound::Excluded(b"\x05b".to_vec()));
    }

    #[test]
    fn empty_and_inverted_ranges_are_known() {
        let empty = |range: KeyRange| range.is_empty();
        let tree = Prefix::DEFAULT;
        assert!(empty(KeyRange::of(tree, &("b".."a"))));
        assert!(empty(KeyRange::of(tree, &("a".."a"))));
        assert!(empty(KeyRange::of(tree, &("b"..="a"))));
        assert!(!empty(KeyRange::of(tree, &("a"..="a"))));
        assert!(!empty(KeyRange::of::<&str>(tree, &..)));
    }

    #[test]
    fn nested_calls_have_their_own_room() {
        let seen = with(Prefix::of(2), b"outer", |outer| {
            with(Prefix::of(3), b"inner", |inner| Ok((outer.to_vec(), inner.to_vec())))
        });
        assert_eq!(seen.unwrap(), (b"\x02outer".to_vec(), b"\x03inner".to_vec()));
    }
}
