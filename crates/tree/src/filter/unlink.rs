//! Shadow-deleted nodes leave the filter's index at the next write that meets them (ZKV 3.2, shadow deletion).
//!
//! Their range goes to a neighbour under the same parent. Nothing cascades: a parent with one child keeps it, and the index never
//! loses a level.

use super::{Around, Filter, keep};
use crate::index::Path;

impl Filter {
    /// Unlinks the node of `path` if it is shadow-deleted, has a neighbour and nobody is in the way; else the writer revives it.
    pub(super) fn unlink(&self, path: &Path<'_>, around: Around<'_>) {
        let (parent, child) = path.parent();
        if parent.len() < 2 {
            return;
        }
        let first = child.saturating_sub(1);
        let (left, right) = (parent.leaf(first), parent.leaf(first + 1));
        let Some(left_content) = self.nodes.get(left).content.try_write() else { return };
        let Some(right_content) = self.nodes.get(right).content.try_write() else { return };
        let (gone, survivor) = if left == path.leaf() { (left, right) } else { (right, left) };
        let content = if gone == left { &left_content } else { &right_content };
        if !path.is_current() || content.records.is_some() {
            return;
        }
        let (path, next) = (path.at_child(first), path.at_child(first + 1));
        // Before two ranges become one, snapshots keep both (decision 0004).
        if around.snapshots.may_need(None) {
            keep(around.snapshots, &left_content, &path);
            keep(around.snapshots, &right_content, &next);
        }
        let low = path.low();
        // A split beside them may have parted the two meanwhile: an empty node does no harm.
        if self.index.edit(&low, &[left, right], &[(low.clone(), survivor)], around.epoch) {
            self.nodes.recycle(gone);
        }
    }
}
