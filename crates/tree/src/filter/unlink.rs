//! Shadow-deleted nodes leave the filter's index at the next write or eviction that meets them (ZKV 3.2, shadow deletion).
//!
//! Their range goes to a neighbour. A write looks for it under the same parent, and nothing cascades, as in the paper; but a range that
//! nobody writes to again would keep its nodes for ever, so evictions look under others too, and an inner node goes with its last child.
//! The index never loses a level.

use super::{Around, Filter, keep};
use crate::index::{Path, Side};
use zonda_rt::epoch::Guard;

/// How far a neighbour may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Under the same parent.
    Parent,
    /// Under any.
    Tree,
}

impl Filter {
    /// Unlinks the node of `path` if it is shadow-deleted, has a neighbour within `reach` and nobody is in the way; else a writer revives
    /// it, or the next eviction tries again. Returns whether it did.
    pub(super) fn unlink(&self, path: &Path<'_>, reach: Reach, around: Around<'_>, guard: &Guard<'_>) -> bool {
        if reach == Reach::Parent && path.parent().0.len() < 2 {
            return false;
        }
        let Some((beside, side)) = self.index.beside(path, guard) else { return false };
        let (left, right) = if side == Side::Left { (&beside, path) } else { (path, &beside) };
        let Some(left_content) = self.nodes.get(left.leaf()).content.try_write() else { return false };
        let Some(right_content) = self.nodes.get(right.leaf()).content.try_write() else { return false };
        let content = if side == Side::Left { &right_content } else { &left_content };
        if !left.is_current() || !right.is_current() || content.records.is_some() {
            return false;
        }
        // Before two ranges become one, snapshots keep both (decision 0004).
        if around.snapshots.may_need(None) {
            keep(around.snapshots, &left_content, left);
            keep(around.snapshots, &right_content, right);
        }
        let (low, pair) = (left.low(), [left.leaf(), right.leaf()]);
        // A split beside them may have parted the two meanwhile: an empty node does no harm.
        let is_done = if std::ptr::eq(left.parent().0, right.parent().0) {
            self.index.edit(&low, &pair, &[(low.clone(), beside.leaf())], around.epoch)
        } else {
            self.index.unite(path, &beside, around.epoch, &mut || ())
        };
        if is_done {
            self.nodes.recycle(path.leaf());
        }
        is_done
    }
}
