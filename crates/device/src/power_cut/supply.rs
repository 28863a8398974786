//! The power of one device or more.
use std::collections::BTreeMap;

use super::{journal::Journal, plan::CutPlan};

/// For each block changed since the last flush: its flushed content and all later ones but the newest, oldest first.
pub(super) type OlderVersions = BTreeMap<u64, Vec<Vec<u8>>>;

/// What devices on one power supply share: they lose their power at the same operation.
#[derive(Default)]
pub(super) struct Supply {
    pub(super) plan: CutPlan,
    /// What each zoned device has not flushed.
    pub(super) journals: Vec<Journal>,
    /// The same of the block device, if there is one.
    pub(super) older: OlderVersions,
}
