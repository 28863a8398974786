//! Keys from a file of the SOSD benchmark: their number, then so many 64-bit integers, little-endian.

use std::path::Path;

use crate::{BenchError, Result};

/// Bytes of a number.
const NUMBER_BYTES: usize = 8;

/// `count` different keys of the file, evenly spread over it, ascending. Holds the whole file in memory meanwhile.
///
/// # Errors
/// `Io` when the file cannot be read; `Usage` when it is no such file or has too few different keys.
pub(crate) fn sample(path: &Path, count: usize) -> Result<Vec<u64>> {
    let bytes = std::fs::read(path).map_err(|source| BenchError::io(format!("read {}", path.display()), source))?;
    let refused = |expected| BenchError::Usage { option: "--keys", given: path.display().to_string(), expected };
    let (numbers, rest) = bytes.as_chunks::<NUMBER_BYTES>();
    let (head, keys) = numbers.split_first().ok_or_else(|| refused("a SOSD file: it is empty".to_owned()))?;
    let promised = u64::from_le_bytes(*head);
    if !rest.is_empty() || promised != keys.len() as u64 {
        return Err(refused(format!("a SOSD file of 64-bit keys: it says {promised} and has {}", keys.len())));
    }
    let mut keys: Vec<u64> = keys.iter().map(|key| u64::from_le_bytes(*key)).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.len() < count {
        return Err(refused(format!("{count} different keys: it has {}", keys.len())));
    }
    Ok((0..count).map(|at| keys[place(at, keys.len(), count)]).collect())
}

/// Place `at` of `count` among `len`, `len >= count`: different places for different `at`.
fn place(at: usize, len: usize, count: usize) -> usize {
    let place = at as u128 * len as u128 / count as u128;
    usize::try_from(place).expect("a place below a length")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn write(path: &Path, keys: impl Iterator<Item = u64>) {
        let keys: Vec<_> = keys.collect();
        let numbers = std::iter::once(keys.len() as u64).chain(keys);
        std::fs::write(path, numbers.flat_map(u64::to_le_bytes).collect::<Vec<_>>()).unwrap();
    }

    #[test]
    fn samples_are_even_ascending_and_different() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        write(&path, (0..10).rev().chain([3, 3]));
        assert_eq!(sample(&path, 5).unwrap(), [0, 2, 4, 6, 8]);
        assert_eq!(sample(&path, 10).unwrap().len(), 10);
        let few = sample(&path, 11).unwrap_err().to_string();
        assert!(few.contains("it has 10"), "{few}");
        for damaged in [&b""[..], b"torn", &[7; 24]] {
            std::fs::write(&path, damaged).unwrap();
            assert!(sample(&path, 1).is_err());
        }
    }
}
