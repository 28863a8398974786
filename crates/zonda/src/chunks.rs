//! Long writes in batches of bounded size: what `ingest`, `delete_range`, `drop_tree` and `backup` have in common.

use std::ops::Bound;

use zonda_tree::{BatchOp, Engine};

use crate::{Error, Result};

/// Bytes of keys and values after which a chunk is written where zones are not short: large enough to spread the cost of a batch, far below
/// its limit.
const CHUNK_BYTES: usize = 32 << 10;
/// Operations after which a chunk is written.
const CHUNK_OPERATIONS: usize = 1024;
/// Snapshots that may be given up for one read before they are of any use: each had more written over it meanwhile than memory keeps.
const SNAPSHOTS_MAX: u32 = 64;

/// Bytes of keys and values after which a chunk for `engine` is written: no more than half of what its log takes at once, which is little
/// where zones are short. The other half is for what operations take there beside these.
pub(crate) fn chunk_bytes(engine: &Engine) -> usize {
    CHUNK_BYTES.min(engine.log_batch_bytes_max() / 2)
}

/// Puts that wait to be written together. Holds at most a chunk and one pair.
pub(crate) struct PutChunks<W> {
    write: W,
    chunk_bytes: usize,
    bytes: Vec<u8>,
    /// Ends of key and value in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl<W: FnMut(&[BatchOp<'_>]) -> Result<()>> PutChunks<W> {
    /// Nothing waits yet; `write` will write each batch, of about [`chunk_bytes`] of the store that it writes to.
    pub(crate) fn new(chunk_bytes: usize, write: W) -> Self {
        Self { write, chunk_bytes, bytes: Vec::with_capacity(chunk_bytes), ends: Vec::new() }
    }

    /// Adds a pair; `key` is given in two parts. Writes when there is enough.
    ///
    /// # Errors
    /// Those of writing a batch.
    pub(crate) fn put(&mut self, prefix: &[u8], key: &[u8], value: &[u8]) -> Result<()> {
        if !self.ends.is_empty() && self.bytes.len() + prefix.len() + key.len() + value.len() > self.chunk_bytes {
            self.flush()?;
        }
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
        if self.ends.len() == CHUNK_OPERATIONS { self.flush() } else { Ok(()) }
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// Those of writing a batch.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let mut start = 0;
        let puts = self.ends.iter().map(|&(key_end, value_end)| {
            let op = BatchOp::Put { key: &self.bytes[start..key_end], value: &self.bytes[key_end..value_end] };
            start = value_end;
            op
        });
        let batch: Vec<BatchOp<'_>> = puts.collect();
        if !batch.is_empty() {
            (self.write)(&batch)?;
        }
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}

/// Deletes the keys of a range by batches that `write` writes, each found on a snapshot of its own: nothing is kept for
/// long. Returns how many.
///
/// # Errors
/// Those of reading and of `write`; chunks before stay deleted.
pub(crate) fn delete_range(
    engine: &Engine,
    mut low: Bound<Vec<u8>>,
    high: Bound<&[u8]>,
    mut write: impl FnMut(&[BatchOp<'_>]) -> Result<()>,
) -> Result<u64> {
    let mut deleted = 0;
    loop {
        let mut keys = next_keys(engine, low.clone(), high)?;
        let batch: Vec<BatchOp<'_>> = keys.iter().map(|key| BatchOp::Delete { key }).collect();
        if batch.is_empty() {
            return Ok(deleted);
        }
        write(&batch)?;
        deleted += batch.len() as u64;
        low = keys.pop().map_or(low, Bound::Excluded);
    }
}

/// Some keys of a range from its low end on; none if it has none.
fn next_keys(engine: &Engine, mut low: Bound<Vec<u8>>, high: Bound<&[u8]>) -> Result<Vec<Vec<u8>>> {
    let mut in_vain = 0;
    loop {
        let (mut keys, mut rest) = (Vec::new(), None);
        match take_keys(engine, (low.as_ref().map(Vec::as_slice), high), &mut keys, &mut rest) {
            // What was found is there all the same, and whoever asks for more does so on a new one.
            Err(Error::SnapshotTooOld { .. }) if !keys.is_empty() => return Ok(keys),
            Err(error @ Error::SnapshotTooOld { .. }) => {
                // There was nothing in what it has gone through.
                let rest = rest.unwrap_or_else(|| low.clone());
                in_vain = if rest == low { in_vain + 1 } else { 0 };
                if in_vain == SNAPSHOTS_MAX {
                    return Err(error);
                }
                low = rest;
            }
            outcome => return outcome.map(|()| keys),
        }
    }
}

/// Takes keys from the low end of a range, on a snapshot of its own. After an error `rest` is where the scan stood, if that is known.
fn take_keys(
    engine: &Engine,
    (low, high): (Bound<&[u8]>, Bound<&[u8]>),
    keys: &mut Vec<Vec<u8>>,
    rest: &mut Option<Bound<Vec<u8>>>,
) -> Result<()> {
    let snapshot = engine.snapshot()?;
    let mut cursor = engine.scan(&snapshot, low, high)?.keys_only();
    let (mut bytes, bytes_max) = (0, chunk_bytes(engine));
    while keys.len() < CHUNK_OPERATIONS && bytes < bytes_max {
        match cursor.next() {
            Ok(Some((key, _))) => {
                bytes += key.len();
                keys.push(key.to_vec());
            }
            Ok(None) => break,
            Err(error) => {
                *rest = cursor.rest_low();
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// Reads on a snapshot of its own that others' writes can make too old, again on a new one.
///
/// # Errors
/// Those of `read`; `SnapshotTooOld` if that is the last word of many attempts.
pub(crate) fn while_snapshots_last<T>(read: impl Fn() -> Result<T>) -> Result<T> {
    for _ in 1..SNAPSHOTS_MAX {
        match read() {
            Err(Error::SnapshotTooOld { .. }) => {}
            outcome => return outcome,
        }
    }
    read()
}
