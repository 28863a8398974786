//! What a batch may hold: it is known before any of it is written.

use std::collections::HashMap;

use zonda_pages::PageId;

use crate::{
    BATCH_BYTES_MAX, BatchOp, TreeError,
    buffer::Buffer,
    record::{Kind, Record},
    slots::SLOT_BYTES,
    tree::{Result, Tree},
    write::{check_key, check_value},
};

/// What a leaf gets of a batch without its page being looked at first; its buffer has room for that, whatever becomes of a merge.
const SHARE_BYTES_MAX: usize = 32 << 10;

impl<'a> BatchOp<'a> {
    /// The key.
    pub(crate) fn key(&self) -> &'a [u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    /// The value; empty of a delete.
    fn value(&self) -> &'a [u8] {
        match self {
            Self::Put { value, .. } => value,
            Self::Delete { .. } => &[],
        }
    }
}

impl Tree {
    /// Bytes of keys, of inline values and of pointers to the others. What is too long is refused before a value is written.
    ///
    /// # Errors
    /// Limits; `BatchTooLong`.
    pub(crate) fn check_batch(&self, batch: &[BatchOp<'_>]) -> Result<usize> {
        let (mut bytes, mut longest) = (0, 0);
        for op in batch {
            check_key(op.key())?;
            check_value(op.value())?;
            let pointer_bytes = self.pointer_bytes_max(op)?;
            longest = longest.max(pointer_bytes.unwrap_or(0));
            bytes += op.key().len() + pointer_bytes.unwrap_or(op.value().len());
        }
        if bytes > BATCH_BYTES_MAX {
            return Err(TreeError::BatchTooLong { bytes, bytes_max: BATCH_BYTES_MAX });
        }
        if longest > 0 {
            let pointer = vec![0; longest];
            let records: Result<Vec<_>> = batch.iter().map(|op| self.record_like(op, &pointer)).collect();
            self.log.check(records?.into_iter())?;
        }
        Ok(bytes)
    }

    /// Of a long batch: that the pages of leaves that get more than a buffer bears can be read, as they are merged while it is applied,
    /// when everything is logged. Cost: nothing for a batch that is shorter; else a walk for each key, and a page read for such a leaf.
    ///
    /// # Errors
    /// Those of reading; `Damaged` before anything is logged.
    pub(crate) fn check_shares(&self, batch: &[BatchOp<'_>], bytes: usize) -> Result<()> {
        if bytes <= SHARE_BYTES_MAX || self.filter.is_some() {
            return Ok(());
        }
        let mut shares: HashMap<PageId, (usize, &[u8])> = HashMap::new();
        for op in batch {
            let bytes = SLOT_BYTES + op.key().len() + self.pointer_bytes_max(op)?.unwrap_or(op.value().len());
            shares.entry(self.leaf_of(op.key()).0).or_insert((0, op.key())).0 += bytes;
        }
        for (_, key) in shares.into_values().filter(|(bytes, _)| *bytes > SHARE_BYTES_MAX) {
            // The page that it has now is there as long as the guard is.
            let _guard = self.epoch.pin();
            let (id, page) = self.leaf_of(key);
            let has_mirror = self.table.lock_shared(id).location().buffer().is_some_and(Buffer::is_complete);
            page.filter(|_| !has_mirror).map_or(Ok(()), |page| self.store.read(id, page, &mut |_| ()))?;
        }
        Ok(())
    }

    /// The most that the pointer to the value takes; `None` for one that is inline.
    fn pointer_bytes_max(&self, op: &BatchOp<'_>) -> Result<Option<usize>> {
        if op.value().len() <= self.options.value_inline_bytes_max as usize {
            return Ok(None);
        }
        self.values.pointer_bytes_max(op.key().len(), op.value().len()).map(Some)
    }

    /// A record that is as long as that of `op` at the most, with a part of `pointer`, which is as long as the longest, for one that is not
    /// known yet.
    fn record_like<'a>(&self, op: &BatchOp<'a>, pointer: &'a [u8]) -> Result<Record<'a>> {
        let key = op.key();
        Ok(match (op, self.pointer_bytes_max(op)?) {
            (BatchOp::Delete { .. }, _) => Record { key, kind: Kind::Tombstone, value: &[] },
            (BatchOp::Put { value, .. }, None) => Record { key, kind: Kind::Inline, value },
            (BatchOp::Put { .. }, Some(bytes)) => Record { key, kind: Kind::Pointer, value: &pointer[..bytes] },
        })
    }
}
