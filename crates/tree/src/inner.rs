//! Inner nodes: immutable but for the child pointers of upper levels (decision 0003).
//!
//! A separator is kept as one integer, its *head*: seven bytes of the suffix behind the node's prefix, big-endian, then the
//! suffix length (8 for "longer"). Heads order like the byte strings, so a node of short separators is searched as a sorted
//! array of integers: 8 bytes a separator and 4 a leaf. Longer suffixes stand in full beside the heads and break ties.
//!
//! Owner: the one cell (root, or a child cell of the level above) that points to it; a replaced node is marked obsolete and
//! freed through the epoch.

use std::cmp::Ordering as Order;

use zonda_pages::PageId;
use zonda_rt::{
    Spin,
    atomic::{AtomicBool, AtomicPtr, Ordering},
    spin_wait,
};

const HEAD_BYTES: usize = 7;
const HEAD_LONG: u64 = 8;

/// Most children of a node.
pub(crate) const CHILDREN_MAX: usize = 256;

/// Children of a node.
pub(crate) enum Children {
    /// Lowest level: leaves.
    Leaves(Box<[u32]>),
    /// Upper levels: cells that point to inner nodes.
    Inners(Box<[AtomicPtr<Inner>]>),
}

impl Children {
    fn len(&self) -> usize {
        match self {
            Self::Leaves(ids) => ids.len(),
            Self::Inners(cells) => cells.len(),
        }
    }
}

/// Full suffixes of separators, where some are longer than a head.
struct Tails {
    ends: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl Tails {
    fn get(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[begin..self.ends[index] as usize]
    }
}

/// One inner node. Separator `i` divides child `i` (below it) from child `i + 1` (at or above it).
pub(crate) struct Inner {
    prefix: Box<[u8]>,
    heads: Box<[u64]>,
    tails: Option<Tails>,
    children: Children,
    obsolete: AtomicBool,
    /// Serialises changes of this node's child cells.
    locked: AtomicBool,
}

fn head_of(suffix: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let taken = suffix.len().min(HEAD_BYTES);
    bytes[..taken].copy_from_slice(&suffix[..taken]);
    let length = if suffix.len() > HEAD_BYTES { HEAD_LONG } else { suffix.len() as u64 };
    u64::from_be_bytes(bytes) | length
}

impl Inner {
    /// A node over `children` divided by `separators` (full keys), all of which begin with `prefix`.
    pub(crate) fn new<'k>(
        prefix: &[u8],
        separators: impl Iterator<Item = &'k [u8]> + Clone,
        children: Children,
    ) -> Self {
        let suffixes = separators.map(|key| key.strip_prefix(prefix).expect("separators lie in the node's range"));
        let heads: Box<[u64]> = suffixes.clone().map(head_of).collect();
        assert_eq!(heads.len() + 1, children.len(), "one separator between two children");
        let tails = heads.iter().any(|head| head & 0xff == HEAD_LONG).then(|| tails_of(suffixes));
        Self {
            prefix: prefix.into(),
            heads,
            tails,
            children,
            obsolete: AtomicBool::new(false),
            locked: AtomicBool::new(false),
        }
    }

    /// Number of children.
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// The children.
    pub(crate) fn children(&self) -> &Children {
        &self.children
    }

    /// The leaf ids of a node of the lowest level.
    pub(crate) fn leaves(&self) -> &[u32] {
        match &self.children {
            Children::Leaves(ids) => ids,
            Children::Inners(_) => &[],
        }
    }

    /// Id of leaf `index` of a node of the lowest level.
    pub(crate) fn leaf(&self, index: usize) -> PageId {
        PageId(self.leaves()[index])
    }

    /// Separator `index` as a full key.
    pub(crate) fn separator(&self, index: usize) -> Vec<u8> {
        let mut key = self.prefix.to_vec();
        match &self.tails {
            Some(tails) => key.extend_from_slice(tails.get(index)),
            None => {
                let head = self.heads[index];
                let length = usize::try_from(head & 0xff).expect("at most 8");
                key.extend_from_slice(&head.to_be_bytes()[..length]);
            }
        }
        key
    }

    /// Index of the child whose range holds `key`: the number of separators `<= key`.
    pub(crate) fn child_for(&self, key: &[u8]) -> usize {
        self.count(key, |order| order != Order::Greater)
    }

    /// Index of the child that holds the greatest keys below `bound`: the number of separators `< bound`.
    pub(crate) fn child_before(&self, bound: &[u8]) -> usize {
        self.count(bound, |order| order == Order::Less)
    }

    /// How many separators compare to `key` in a way that `counts`; `counts` must hold for a prefix of them.
    fn count(&self, key: &[u8], counts: impl Fn(Order) -> bool) -> usize {
        let Some(suffix) = key.strip_prefix(&*self.prefix) else {
            let all = if *self.prefix < *key { self.heads.len() } else { 0 };
            return all;
        };
        let head = head_of(suffix);
        let below = self.heads.partition_point(|&separator| separator < head);
        let mut end = below + self.heads[below..].partition_point(|&separator| separator == head);
        let mut begin = below;
        while begin < end {
            let middle = begin.midpoint(end);
            if counts(self.compare_equal_head(middle, suffix)) { begin = middle + 1 } else { end = middle }
        }
        begin
    }

    fn compare_equal_head(&self, index: usize, suffix: &[u8]) -> Order {
        match &self.tails {
            Some(tails) => tails.get(index).cmp(suffix),
            None => Order::Equal,
        }
    }

    /// Whether this node was replaced: what it says of ranges may be old.
    pub(crate) fn is_obsolete(&self) -> bool {
        self.obsolete.load(Ordering::Acquire)
    }

    /// Marks it as replaced, before any latch of a leaf that moved is released.
    pub(crate) fn make_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Waits for the right to change child cells. Order: lower levels first; nobody waits for a leaf latch under it.
    pub(crate) fn lock_cells(&self) -> CellLock<'_> {
        CellLock::take(&self.locked)
    }

    /// Memory in bytes, allocations included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let children = match &self.children {
            Children::Leaves(ids) => size_of_val(&**ids),
            Children::Inners(cells) => size_of_val(&**cells),
        };
        let tails = self.tails.as_ref().map_or(0, |tails| size_of_val(&*tails.ends) + tails.bytes.len());
        (size_of::<Self>() + self.prefix.len() + size_of_val(&*self.heads) + tails + children) as u64
    }
}

fn tails_of<'k>(suffixes: impl Iterator<Item = &'k [u8]>) -> Tails {
    let (mut ends, mut bytes) = (Vec::new(), Vec::new());
    for suffix in suffixes {
        bytes.extend_from_slice(suffix);
        ends.push(u32::try_from(bytes.len()).expect("256 separators of at most 2 KiB"));
    }
    Tails { ends: ends.into(), bytes: bytes.into() }
}

/// The right to change the cells of one node (or the root cell).
pub(crate) struct CellLock<'a>(&'a AtomicBool);

impl<'a> CellLock<'a> {
    /// Waits for `flag`.
    pub(crate) fn take(flag: &'a AtomicBool) -> Self {
        let mut spin = Spin::new();
        while flag.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spin_wait(&mut spin);
        }
        Self(flag)
    }
}

impl Drop for CellLock<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(prefix: &[u8], separators: &[Vec<u8>]) -> Inner {
        let ids = (0..=u32::try_from(separators.len()).expect("few")).collect();
        Inner::new(prefix, separators.iter().map(Vec::as_slice), Children::Leaves(ids))
    }

    proptest! {
        #[test]
        fn finds_the_child_like_a_sorted_list(
            mut suffixes in prop::collection::btree_set(prop::collection::vec(0_u8..3, 0..12), 0..40),
            probes in prop::collection::vec(prop::collection::vec(0_u8..3, 0..13), 1..40),
            prefix in prop::collection::vec(0_u8..3, 0..3),
        ) {
            suffixes.remove(&Vec::new());
            let separators: Vec<Vec<u8>> = suffixes.iter().map(|suffix| [&*prefix, suffix].concat()).collect();
            let node = node(&prefix, &separators);
            for (index, separator) in separators.iter().enumerate() {
                prop_assert_eq!(&node.separator(index), separator);
            }
            for probe in probes {
                let want = separators.iter().filter(|separator| **separator <= probe).count();
                prop_assert_eq!(node.child_for(&probe), want);
                let want = separators.iter().filter(|separator| **separator < probe).count();
                prop_assert_eq!(node.child_before(&probe), want);
            }
        }
    }

    #[test]
    fn short_separators_cost_twelve_bytes_a_child() {
        let separators: Vec<Vec<u8>> = (1..256_u32).map(|i| (i << 16).to_be_bytes()[..3].to_vec()).collect();
        let node = node(b"", &separators);
        assert!(node.memory_bytes() <= 256 * 12 + 128, "{} bytes", node.memory_bytes());
    }
}
