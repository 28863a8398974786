//! What a check of a whole store saw.

use crate::Result;
use crate::store::Store;

/// What a check saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Leaves read.
    pub leaves: u64,
    /// Records in leaves and their buffers; a key that is in both counts twice.
    pub records: u64,
    /// Long values read.
    pub values: u64,
    /// Bytes of leaves read.
    pub bytes: u64,
    /// Things that are wrong.
    pub findings: u64,
}

impl CheckReport {
    /// # Errors
    /// `Forked`, `Closed`.
    pub(crate) fn of(
        store: &Store,
        progress: &mut dyn FnMut(u64, u64),
        finding: &mut dyn FnMut(String),
    ) -> Result<Self> {
        let report = store.reader()?.check(progress, finding)?;
        let zonda_tree::CheckReport { leaves, records, values, bytes, findings } = report;
        Ok(Self { leaves, records, values, bytes, findings })
    }
}
