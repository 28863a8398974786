//! What record number `i` holds in its version `v`, so that every value read can be checked without storing any.

use zonda_rt::Seed;

use crate::keys::mix;
use crate::{BenchError, Result};

/// Bytes of the version at the start of a value.
const VERSION_BYTES: usize = 4;

/// The values of one data set: the version, then bytes that follow from seed, index and version.
///
/// Values shorter than 4 bytes carry no version: all versions are the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    value_bytes: usize,
    seed: u64,
}

impl Values {
    /// Values of `value_bytes` bytes each.
    #[must_use]
    pub fn new(value_bytes: usize, seed: Seed) -> Self {
        Self { value_bytes, seed: seed.derive("values").0 }
    }

    /// Length of every value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Whether a value says which version it is.
    #[must_use]
    pub fn carry_versions(&self) -> bool {
        self.value_bytes >= VERSION_BYTES
    }

    /// Puts version `version` of record `index` into `into`.
    pub fn fill(&self, index: u64, version: u32, into: &mut Vec<u8>) {
        into.clear();
        let version = if self.carry_versions() { version } else { 0 };
        if self.carry_versions() {
            into.extend_from_slice(&version.to_le_bytes());
        }
        let mut state = mix(self.seed ^ mix(index)) ^ u64::from(version);
        while into.len() < self.value_bytes {
            state = mix(state);
            let take = (self.value_bytes - into.len()).min(8);
            into.extend_from_slice(&state.to_le_bytes()[..take]);
        }
    }

    /// Checks that `value` is some version of record `index` and says which; `scratch` is overwritten.
    ///
    /// # Errors
    /// `Wrong` when it is not.
    pub fn check(&self, index: u64, value: &[u8], scratch: &mut Vec<u8>) -> Result<u32> {
        let version = value.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        self.fill(index, version, scratch);
        if scratch == value {
            return Ok(version);
        }
        let what = format!("holds {} bytes that are no version of it", value.len());
        Err(BenchError::Wrong { index, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_recognised_and_strangers_refused() {
        let (mut value, mut scratch) = (Vec::new(), Vec::new());
        for value_bytes in [4, 5, 8, 100] {
            let values = Values::new(value_bytes, Seed(1));
            values.fill(7, 42, &mut value);
            assert_eq!((value.len(), values.check(7, &value, &mut scratch).ok()), (value_bytes, Some(42)));
            if value_bytes > 4 {
                assert!(values.check(8, &value, &mut scratch).is_err());
            }
            value.push(0);
            assert!(values.check(7, &value, &mut scratch).is_err());
        }
    }

    #[test]
    fn short_values_have_one_version() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let values = Values::new(3, Seed(1));
        values.fill(7, 1, &mut first);
        values.fill(7, 2, &mut second);
        assert_eq!((first.len(), &first), (3, &second));
        assert!(values.check(7, &first, &mut second).is_ok());
        let empty = Values::new(0, Seed(1));
        assert_eq!(empty.check(1, &[], &mut second).ok(), Some(0));
    }
}
