//! Inner nodes: immutable but for the child pointers of upper levels (decision 0003).
//!
//! A separator is kept as one integer, its *head*: the first bytes of the suffix behind the node's prefix, big-endian, then the
//! suffix length (one more than those bytes for "longer"). Heads order like the byte strings, so a node of short separators is searched as
//! a sorted array of integers. *Narrow* heads, of three bytes, are for nodes whose suffixes are no longer: 4 bytes a separator and 4 a
//! leaf; *wide* ones have seven. Longer suffixes stand in full beside wide heads and break ties.
//!
//! Owner: the one cell (root, or a child cell of the level above) that points to it; a replaced node is marked obsolete and
//! freed through the epoch.

use std::cmp::Ordering as Order;

use smallvec::SmallVec;
use zonda_pages::PageId;
use zonda_rt::{
    Spin,
    atomic::{AtomicBool, AtomicPtr, Ordering},
    spin_wait,
};

/// Bytes of a suffix in a narrow and in a wide head.
const NARROW_BYTES: usize = 3;
const WIDE_BYTES: usize = 7;

/// Heads that a search skips at once: a cache line of narrow ones.
const STRIDE: usize = 16;

/// Bytes of a prefix that stand in the node itself, for which a search goes to no other cache line. Longer ones are allocated.
const PREFIX_BYTES_INLINE: usize = 16;

/// Most children of a node.
pub(crate) const CHILDREN_MAX: usize = crate::INNER_CHILDREN_MAX as usize;

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

/// Heads of all separators of a node.
enum Heads {
    /// Of suffixes of up to three bytes.
    Narrow(Box<[u32]>),
    /// Of any.
    Wide(Box<[u64]>),
}

impl Heads {
    fn of<'k>(suffixes: impl Iterator<Item = &'k [u8]> + Clone) -> Self {
        if suffixes.clone().all(|suffix| suffix.len() <= NARROW_BYTES) {
            Self::Narrow(suffixes.map(narrow_head).collect())
        } else {
            Self::Wide(suffixes.map(wide_head).collect())
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow(heads) => heads.len(),
            Self::Wide(heads) => heads.len(),
        }
    }

    /// First bytes of suffix `index`, and how many of them are its own; one more than there are if it is longer.
    fn get(&self, index: usize) -> ([u8; WIDE_BYTES], usize) {
        let mut bytes = [0; WIDE_BYTES];
        match self {
            Self::Narrow(heads) => {
                let [a, b, c, length] = heads[index].to_be_bytes();
                bytes[..NARROW_BYTES].copy_from_slice(&[a, b, c]);
                (bytes, usize::from(length))
            }
            Self::Wide(heads) => {
                let head = heads[index].to_be_bytes();
                bytes.copy_from_slice(&head[..WIDE_BYTES]);
                (bytes, usize::from(head[WIDE_BYTES]))
            }
        }
    }

    /// The indexes of heads that equal that of `suffix`. All heads before them are below it.
    fn equal(&self, suffix: &[u8]) -> (usize, usize) {
        match self {
            Self::Narrow(heads) => equal_range(heads, narrow_head(suffix)),
            Self::Wide(heads) => equal_range(heads, wide_head(suffix)),
        }
    }

    fn is_any_long(&self) -> bool {
        match self {
            Self::Narrow(_) => false,
            Self::Wide(heads) => heads.iter().any(|head| usize::from(head.to_be_bytes()[WIDE_BYTES]) > WIDE_BYTES),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Narrow(heads) => size_of_val(&**heads),
            Self::Wide(heads) => size_of_val(&**heads),
        }
    }
}

/// Looks at the last of each stride, then goes through one: all that it reads of a node it can ask of memory at once, where each step of a
/// binary search would wait for the one before.
fn equal_range<T: Ord + Copy>(heads: &[T], head: T) -> (usize, usize) {
    let strides = heads.chunks_exact(STRIDE).filter(|stride| stride[STRIDE - 1] < head).count();
    let rest = &heads[strides * STRIDE..];
    let begin = strides * STRIDE + rest.iter().take(STRIDE).filter(|&&separator| separator < head).count();
    let equal = heads[begin..].iter().take_while(|&&separator| separator == head).count();
    (begin, begin + equal)
}

fn narrow_head(suffix: &[u8]) -> u32 {
    u32::from_be_bytes(head_of::<4>(suffix))
}

fn wide_head(suffix: &[u8]) -> u64 {
    u64::from_be_bytes(head_of::<8>(suffix))
}

/// The first `N - 1` bytes of a suffix, then its length, to `N`.
#[expect(clippy::cast_possible_truncation, reason = "a length of at most eight")]
fn head_of<const N: usize>(suffix: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let taken = suffix.len().min(N - 1);
    bytes[..taken].copy_from_slice(&suffix[..taken]);
    bytes[N - 1] = suffix.len().min(N) as u8;
    bytes
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
    prefix: SmallVec<[u8; PREFIX_BYTES_INLINE]>,
    heads: Heads,
    tails: Option<Tails>,
    children: Children,
    obsolete: AtomicBool,
    /// Serialises changes of this node's child cells.
    locked: AtomicBool,
}

impl Inner {
    /// A node over `children` divided by `separators` (full keys), all of which begin with `prefix`.
    pub(crate) fn new<'k>(
        prefix: &[u8],
        separators: impl Iterator<Item = &'k [u8]> + Clone,
        children: Children,
    ) -> Self {
        let suffixes = separators.map(|key| key.strip_prefix(prefix).expect("separators lie in the node's range"));
        let heads = Heads::of(suffixes.clone());
        assert_eq!(heads.len() + 1, children.len(), "one separator between two children");
        let tails = heads.is_any_long().then(|| tails_of(suffixes));
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
                let (bytes, length) = self.heads.get(index);
                key.extend_from_slice(&bytes[..length]);
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
        let (mut begin, mut end) = self.heads.equal(suffix);
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

    /// Marks it as replaced, before anybody can see what replaces it.
    pub(crate) fn make_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Waits for the right to change child cells. Order: lower levels first; nobody waits for a leaf latch under it.
    pub(crate) fn lock_cells(&self) -> CellLock<'_> {
        CellLock::take(&self.locked)
    }

    /// The same, if nobody has it.
    pub(crate) fn try_lock_cells(&self) -> Option<CellLock<'_>> {
        CellLock::try_take(&self.locked)
    }

    /// Memory in bytes, allocations included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let children = match &self.children {
            Children::Leaves(ids) => size_of_val(&**ids),
            Children::Inners(cells) => size_of_val(&**cells),
        };
        let tails = self.tails.as_ref().map_or(0, |tails| size_of_val(&*tails.ends) + tails.bytes.len());
        let prefix = if self.prefix.spilled() { self.prefix.capacity() } else { 0 };
        (size_of::<Self>() + prefix + self.heads.memory_bytes() + tails + children) as u64
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
        loop {
            if let Some(lock) = Self::try_take(flag) {
                return lock;
            }
            spin_wait(&mut spin);
        }
    }

    fn try_take(flag: &'a AtomicBool) -> Option<Self> {
        // Only then: who drops a lock gives it back.
        flag.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| Self(flag))
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
            mut suffixes in prop_oneof![
                prop::collection::btree_set(prop::collection::vec(0_u8..3, 0..12), 0..40),
                prop::collection::btree_set(prop::collection::vec(0_u8..3, 0..=NARROW_BYTES), 0..40),
                prop::collection::btree_set(prop::collection::vec(0_u8..3, 0..=WIDE_BYTES), 0..40),
            ],
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
    fn short_separators_cost_eight_bytes_a_child_and_longer_ones_twelve() {
        let separators = |bytes: usize| (1..256_u32).map(move |i| (i << 16).to_be_bytes().repeat(2)[..bytes].to_vec());
        for (bytes, bytes_a_child) in [(3, 8), (4, 12), (7, 12)] {
            let separators: Vec<Vec<u8>> = separators(bytes).collect();
            let node = node(b"", &separators);
            assert!(node.memory_bytes() <= 256 * bytes_a_child + 128, "{} bytes", node.memory_bytes());
            assert_eq!(node.separator(99), separators[99]);
        }
    }
}
