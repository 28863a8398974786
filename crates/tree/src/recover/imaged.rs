//! What of the checkpoint's images pages have.
//!
//! A page has it for good: whatever is merged into it later is newer, and recovery puts into it no record that it has, or has a newer
//! one of. So it is told by key, and neither who moves a page nor recovery itself, which merges and splits leaves on its way, changes
//! it. The log cannot be told so: a recovery that did not end may have replayed a part of it ([`ReplayedLeaves`](super::ReplayedLeaves)).

use std::collections::{BTreeMap, HashMap};

use super::Leaf;

/// From which key on, up to the next, pages have what images say, and up to which number: an operation below is in the page.
pub(super) type ImagedFrom = BTreeMap<Box<[u8]>, u64>;

/// The same of all leaves, in key order.
#[derive(Default)]
pub(super) struct Imaged(Vec<(Box<[u8]>, u64)>);

impl Imaged {
    pub(super) fn of(leaves: HashMap<u32, Leaf>) -> Self {
        let mut all: Vec<_> = leaves.into_values().flat_map(Leaf::into_imaged).collect();
        all.sort_unstable();
        all.dedup_by_key(|(_, image_to)| *image_to);
        all.shrink_to_fit();
        Self(all)
    }

    /// Whether the page of `key`'s leaf has the effect of a record of an image, none of which is older than operation `oldest`.
    pub(super) fn holds(&self, key: &[u8], oldest: u64) -> bool {
        let behind = self.0.partition_point(|(low, _)| **low <= *key);
        self.0[..behind].last().is_some_and(|(_, image_to)| oldest < *image_to)
    }
}

/// What holds of leaves that become others. The longest is what the others go into: many leaves, one after the other, may join one.
pub(super) fn joined(leaves: Vec<Leaf>) -> ImagedFrom {
    let mut of_leaves: Vec<_> = leaves.into_iter().map(|leaf| (leaf.low, leaf.image_to, leaf.joined)).collect();
    of_leaves.sort_by_key(|(_, _, joined)| joined.len());
    let mut all = of_leaves.last_mut().map_or_else(ImagedFrom::new, |(_, _, longest)| std::mem::take(longest));
    for (low, image_to, joined) in of_leaves {
        all.insert(low, image_to);
        all.extend(joined);
    }
    all
}

/// Takes what holds from `low` on away, and answers what holds at it, and what from keys behind it on.
pub(super) fn split_off(all: &mut ImagedFrom, low: &[u8]) -> (u64, ImagedFrom) {
    let mut from_low = all.split_off(low);
    let at_low = from_low.remove(low).or_else(|| all.values().next_back().copied());
    (at_low.unwrap_or(0), from_low)
}
