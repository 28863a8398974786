//! The inner index: from a key to its leaf, and the edits that splits and merges of leaves make.
//!
//! Readers walk down without latches under an epoch guard. Whoever then latches the leaf checks that the parent it came from
//! is not obsolete, else walks again ([`Path::is_current`]). Edits are made while the affected leaves are latched exclusively:
//! a new parent is built and one cell of the level above is swapped. Unsafe code here dereferences cells: a node reached from
//! a cell under a guard lives at least as long as the guard.

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use zonda_pages::PageId;
use zonda_rt::{
    atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
    epoch::{Epoch, Guard},
};

use crate::{
    inner::{CHILDREN_MAX, CellLock, Children, Inner},
    key::range_prefix_bytes,
};

/// Levels of inner nodes at most: 2^27 leaves under nodes of at least 16 children, with room; with the fewest children that options may
/// ask for, some thousand leaves.
const LEVELS_MAX: usize = 12;

/// Children that recovery gives a node, so that early splits do not ripple.
const fn children_built(children_max: usize) -> usize {
    children_max * 9 / 10
}

/// A leaf in an edit: its low key and id. The low key of the first leaf of an edit is not looked at.
pub(crate) type LeafEntry = (Vec<u8>, PageId);

/// The way from the root to a leaf.
#[derive(Clone)]
pub(crate) struct Path<'g> {
    nodes: [Option<(&'g Inner, usize)>; LEVELS_MAX],
    levels: usize,
    guard: PhantomData<&'g ()>,
}

impl<'g> Path<'g> {
    fn push(&mut self, node: &'g Inner, child: usize) {
        self.nodes[self.levels] = Some((node, child));
        self.levels += 1;
    }

    fn level(&self, level: usize) -> (&'g Inner, usize) {
        self.nodes[level].expect("levels below `levels` are set")
    }

    /// The node of the lowest level, and which of its children.
    pub(crate) fn parent(&self) -> (&'g Inner, usize) {
        self.level(self.levels - 1)
    }

    /// The leaf.
    pub(crate) fn leaf(&self) -> PageId {
        let (parent, child) = self.parent();
        parent.leaf(child)
    }

    /// The root of the moment at which it was walked.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(crate) fn root(&self) -> &'g Inner {
        self.level(0).0
    }

    /// Whether the parent still says the truth about the leaf's range; ask after latching the leaf.
    pub(crate) fn is_current(&self) -> bool {
        !self.parent().0.is_obsolete()
    }

    /// The least key of the leaf's range.
    pub(crate) fn low(&self) -> Vec<u8> {
        let step = (0..self.levels).rev().map(|level| self.level(level)).find(|(_, child)| *child > 0);
        step.map_or_else(Vec::new, |(node, child)| node.separator(child - 1))
    }

    /// The key above the leaf's range, or `None` if there is none.
    pub(crate) fn high(&self) -> Option<Vec<u8>> {
        let step = (0..self.levels).rev().map(|level| self.level(level)).find(|(node, child)| child + 1 < node.len());
        step.map(|(node, child)| node.separator(child))
    }

    /// Whether the tree has another leaf.
    pub(crate) fn has_beside(&self) -> bool {
        (0..self.levels).any(|level| self.level(level).0.len() > 1)
    }

    /// The way to another child of the same parent.
    pub(crate) fn at_child(&self, child: usize) -> Self {
        self.at_child_of(self.levels - 1, child)
    }

    /// The same down to `level`, and to another child there; below it nothing is true any more.
    fn at_child_of(&self, level: usize, child: usize) -> Self {
        let mut path = self.clone();
        path.nodes[level] = Some((self.level(level).0, child));
        path
    }

    /// The node's range at `level`, from the levels above.
    fn range_of(&self, level: usize) -> (Vec<u8>, Option<Vec<u8>>) {
        let above = Path { nodes: self.nodes, levels: level, guard: PhantomData };
        (above.low(), above.high())
    }
}

/// On which side of a leaf another is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It has the keys below.
    Left,
    /// It has the keys above.
    Right,
}

/// The index.
pub(crate) struct Index {
    root: AtomicPtr<Inner>,
    root_locked: AtomicBool,
    memory_bytes: AtomicU64,
    /// Most children of a node.
    children_max: usize,
}

impl Index {
    /// An index over leaves in key order; the first low key is empty. At least one leaf.
    pub(crate) fn build(leaves: &[LeafEntry]) -> Self {
        Self::with_children_max(leaves, CHILDREN_MAX)
    }

    /// As [`build`](Self::build), with at most `children_max` to a node.
    pub(crate) fn with_children_max(leaves: &[LeafEntry], children_max: usize) -> Self {
        Self::of_nodes(leaves, children_built(children_max), children_max)
    }

    /// As [`build`](Self::build), at first with `children` to a node.
    pub(crate) fn of_nodes(leaves: &[LeafEntry], children: usize, children_max: usize) -> Self {
        assert!(!leaves.is_empty(), "a tree has at least one leaf");
        let index = Self {
            root: AtomicPtr::default(),
            root_locked: AtomicBool::new(false),
            memory_bytes: AtomicU64::new(0),
            children_max,
        };
        let mut level = index.build_lowest(leaves, children);
        while level.len() > 1 {
            level = index.build_upper(&level, children);
        }
        let (_, root) = level.pop().expect("one node is left");
        index.root.store(root, Ordering::Release);
        index
    }

    fn build_lowest(&self, leaves: &[LeafEntry], children: usize) -> Vec<(Vec<u8>, *mut Inner)> {
        let mut level = Vec::new();
        for (at, group) in leaves.chunks(children).enumerate() {
            let high = leaves.get((at + 1) * children).map(|(low, _)| low.as_slice());
            let ids = Children::Leaves(group.iter().map(|(_, id)| id.0).collect());
            let lows: Vec<&[u8]> = group.iter().map(|(low, _)| low.as_slice()).collect();
            level.push((group[0].0.clone(), self.make(&lows, high, ids)));
        }
        level
    }

    fn build_upper(&self, below: &[(Vec<u8>, *mut Inner)], children: usize) -> Vec<(Vec<u8>, *mut Inner)> {
        let mut level = Vec::new();
        for (at, group) in below.chunks(children).enumerate() {
            let high = below.get((at + 1) * children).map(|(low, _)| low.as_slice());
            let cells = Children::Inners(group.iter().map(|(_, node)| AtomicPtr::new(*node)).collect());
            let lows: Vec<&[u8]> = group.iter().map(|(low, _)| low.as_slice()).collect();
            level.push((group[0].0.clone(), self.make(&lows, high, cells)));
        }
        level
    }

    /// A node whose range is `[lows[0], high)`.
    fn make(&self, lows: &[&[u8]], high: Option<&[u8]>, children: Children) -> *mut Inner {
        let prefix = &lows[0][..range_prefix_bytes(lows[0], high)];
        let node = Inner::new(prefix, lows[1..].iter().copied(), children);
        self.memory_bytes.fetch_add(node.memory_bytes(), Ordering::Relaxed);
        Box::into_raw(Box::new(node))
    }

    fn node<'g>(cell: &AtomicPtr<Inner>, _guard: &'g Guard<'_>) -> &'g Inner {
        let pointer = cell.load(Ordering::Acquire);
        // SAFETY: cells always point to a node; a node taken out of its cell is freed only after every guard that was
        // held then is gone, and `_guard` is held for 'g.
        unsafe { &*pointer }
    }

    fn descend<'g>(&self, guard: &'g Guard<'_>, choose: impl Fn(&Inner) -> usize) -> Path<'g> {
        let mut path = Path { nodes: [None; LEVELS_MAX], levels: 0, guard: PhantomData };
        let mut node = Self::node(&self.root, guard);
        loop {
            let child = choose(node);
            path.push(node, child);
            match node.children() {
                Children::Leaves(_) => return path,
                Children::Inners(cells) => node = Self::node(&cells[child], guard),
            }
        }
    }

    /// The way to the leaf whose range holds `key`.
    pub(crate) fn find<'g>(&self, key: &[u8], guard: &'g Guard<'_>) -> Path<'g> {
        self.descend(guard, |node| node.child_for(key))
    }

    /// The way to the leaf that holds the greatest keys below `bound` (`None`: the greatest of all).
    pub(crate) fn find_before<'g>(&self, bound: Option<&[u8]>, guard: &'g Guard<'_>) -> Path<'g> {
        self.descend(guard, |node| bound.map_or(node.len() - 1, |bound| node.child_before(bound)))
    }

    /// The way to the leaf beside the one of `path`, to its left if one is there under the closest node that is above both, else to its
    /// right; `None` for the only leaf of the tree.
    pub(crate) fn beside<'g>(&self, path: &Path<'g>, guard: &'g Guard<'_>) -> Option<(Path<'g>, Side)> {
        let fork = (0..path.levels).rev().find(|&level| path.level(level).0.len() > 1)?;
        let (node, child) = path.level(fork);
        let side = if child > 0 { Side::Left } else { Side::Right };
        let mut beside = Path { levels: fork, ..path.clone() };
        let (mut node, mut child) = (node, if side == Side::Left { child - 1 } else { child + 1 });
        loop {
            beside.push(node, child);
            let Children::Inners(cells) = node.children() else { return Some((beside, side)) };
            node = Self::node(&cells[child], guard);
            child = if side == Side::Left { node.len() - 1 } else { 0 };
        }
    }

    /// Takes the leaf of `gone` out with all nodes that have nothing else below them; its range goes to the leaf of `stays`, which is
    /// [`beside`](Self::beside) it under another parent. The caller holds the exclusive latches of both. Calls `before` when it is certain
    /// that it is done, before anybody can see it; `false`: somebody else changes the nodes around them, and nothing was done.
    pub(crate) fn unite<'g>(&self, gone: &Path<'g>, stays: &Path<'g>, epoch: &Epoch, before: &mut dyn FnMut()) -> bool {
        let lowest = gone.levels - 1;
        let shared = |&level: &usize| std::ptr::eq(gone.level(level).0, stays.level(level).0);
        let Some(fork) = (0..lowest).rev().find(shared) else { return false };
        let Some(_locks) = self.lock_between(fork, [gone, stays]) else { return false };
        let Some(_lock) = self.lock_cell_of(stays, fork) else { return false };
        before();
        // All nodes down to the leaf that stays have a wider range: whoever came by an old one must find that it is.
        let range_gone = gone.range_of(fork + 1);
        let is_right = gone.level(fork).1 > stays.level(fork).1;
        let mut widened = Vec::new();
        for level in (fork + 1..=lowest).rev() {
            let (node, child) = stays.level(level);
            let (low, high) = stays.range_of(level);
            let range = if is_right { (low, range_gone.1.clone()) } else { (range_gone.0.clone(), high) };
            let mut draft = Draft::of(node, range);
            if level < lowest {
                draft.splice_nodes(child..=child, widened);
            }
            widened = self.realise(draft);
        }
        let mut draft = Draft::of(stays.level(fork).0, stays.range_of(fork));
        let first = gone.level(fork).1.min(stays.level(fork).1);
        draft.splice_nodes(first..=first + 1, widened);
        let replaced = (fork + 1..=lowest).flat_map(|level| [stays.level(level).0, gone.level(level).0]);
        self.install(stays, fork, (draft, replaced.collect()), epoch);
        true
    }

    /// Joins nodes on the way to `key` with one beside them under the same node, while both together have half of the most children at
    /// most; whether it joined any. For after leaves went there. Leaves keep their ranges, so it needs no latches. What somebody else
    /// changes at the moment stays as it is until the next leaf goes.
    pub(crate) fn gather(&self, key: &[u8], epoch: &Epoch) -> bool {
        let mut joined = false;
        let mut keys = vec![key.to_vec()];
        while let Some(key) = keys.last() {
            let guard = epoch.pin();
            let path = self.find(key, &guard);
            let seam = (1..path.levels).rev().find_map(|level| self.join_beside(&path, level, epoch, &guard));
            joined |= seam.is_some();
            match seam {
                // Nodes below both are neighbours only now.
                Some(seam) => keys.push(seam),
                None => _ = keys.pop(),
            }
        }
        joined
    }

    /// Joins the node of `level` with the one to its left or to its right, and returns where the right one of the two began. `None`: both
    /// others have too many children, or somebody is in the way.
    fn join_beside<'g>(&self, path: &Path<'g>, level: usize, epoch: &Epoch, guard: &'g Guard<'_>) -> Option<Vec<u8>> {
        let (above, child) = path.level(level - 1);
        let Children::Inners(cells) = above.children() else { unreachable!("upper levels have inner children") };
        let pair = |first: usize| Some((Self::node(&cells[first], guard), Self::node(cells.get(first + 1)?, guard)));
        let fits = |(left, right): &(&Inner, &Inner)| left.len() + right.len() <= self.children_max / 2;
        let mut pairs = (child.saturating_sub(1)..=child).filter_map(|first| Some((first, pair(first).filter(fits)?)));
        let (first, (left, right)) = pairs.next()?;
        // Lower levels first, and nobody waits for a neighbour.
        let _locks = [left.try_lock_cells()?, right.try_lock_cells()?, above.try_lock_cells()?];
        pair(first).filter(|(l, r)| std::ptr::eq(*l, left) && std::ptr::eq(*r, right))?;
        let _lock = self.lock_cell_of(path, level - 1)?;
        let range = |child| path.at_child_of(level - 1, child).range_of(level);
        let (low, high) = range(first + 1);
        let mut both = Draft::of(left, range(first));
        both.append(Draft::of(right, (low.clone(), high)));
        let mut draft = Draft::of(above, path.range_of(level - 1));
        draft.splice_nodes(first..=first + 1, self.realise(both));
        self.install(path, level - 1, (draft, vec![left, right]), epoch);
        Some(low)
    }

    /// Locks the cells on both paths from their lowest inner nodes up to those of level `fork`, which is the last that they share, if
    /// nobody else has one of them and both paths are true below it.
    fn lock_between<'p>(&'p self, fork: usize, paths: [&Path<'p>; 2]) -> Option<Vec<CellLock<'p>>> {
        let mut locks = Vec::new();
        for level in (fork..paths[0].levels - 1).rev() {
            let of_both = if level == fork { &paths[..1] } else { &paths[..] };
            for path in of_both {
                locks.push(path.level(level).0.try_lock_cells()?);
            }
        }
        let is_true = |path: &&Path<'p>| {
            (fork + 1..path.levels).all(|level| {
                let cell = self.cell_of(path, level).load(Ordering::Acquire);
                std::ptr::eq(cell, path.level(level).0)
            })
        };
        paths.iter().all(is_true).then_some(locks)
    }

    /// Replaces the neighbouring leaves `removed` (in key order, under one parent, the first of them holding `key`) by
    /// `inserted` (in key order, at least one). The caller holds the exclusive latches of all `removed`, so that their
    /// ranges cannot change meanwhile. Returns whether they still stand under one parent; if not, nothing was done.
    pub(crate) fn edit(&self, key: &[u8], removed: &[PageId], inserted: &[LeafEntry], epoch: &Epoch) -> bool {
        self.edit_after(key, (removed, inserted), epoch, &mut || ())
    }

    /// As [`edit`](Self::edit), and calls `before` once when it is certain that the leaves will be replaced, before anybody can
    /// see it. Latched neighbours do not keep one parent: a leaf beside them may split, and the parent with it, between them.
    pub(crate) fn edit_after(
        &self,
        key: &[u8],
        (removed, inserted): (&[PageId], &[LeafEntry]),
        epoch: &Epoch,
        before: &mut dyn FnMut(),
    ) -> bool {
        loop {
            let guard = epoch.pin();
            let path = self.find(key, &guard);
            let (parent, child) = path.parent();
            let old: Vec<u32> = removed.iter().map(|id| id.0).collect();
            let stands = parent.leaves().get(child..child + old.len()) == Some(&old[..]);
            if !stands && path.is_current() {
                return false;
            }
            if stands && self.replace(&path, (removed.len(), inserted), epoch, before) {
                return true;
            }
        }
    }

    /// One attempt of [`edit_after`](Self::edit_after); `false` if the path is out of date.
    fn replace(
        &self,
        path: &Path<'_>,
        (removed, inserted): (usize, &[LeafEntry]),
        epoch: &Epoch,
        before: &mut dyn FnMut(),
    ) -> bool {
        let (parent, child) = path.parent();
        let level = path.levels - 1;
        let Some(_lock) = self.lock_cell_of(path, level) else { return false };
        before();
        let mut draft = Draft::of(parent, path.range_of(level));
        draft.splice(child, removed, inserted);
        self.install(path, level, (draft, Vec::new()), epoch);
        true
    }

    /// Locks the cell that points to the node of `level`, if the path is still true there.
    fn lock_cell_of<'p>(&'p self, path: &Path<'p>, level: usize) -> Option<CellLock<'p>> {
        let (node, _) = path.level(level);
        let (lock, obsolete) = match level.checked_sub(1) {
            Some(above) => (path.level(above).0.lock_cells(), path.level(above).0.is_obsolete()),
            None => (CellLock::take(&self.root_locked), false),
        };
        let same = std::ptr::eq(self.cell_of(path, level).load(Ordering::Acquire), node);
        (same && !obsolete).then_some(lock)
    }

    fn cell_of<'p>(&'p self, path: &Path<'p>, level: usize) -> &'p AtomicPtr<Inner> {
        let Some(above) = level.checked_sub(1) else { return &self.root };
        let (node, child) = path.level(above);
        match node.children() {
            Children::Inners(cells) => &cells[child],
            Children::Leaves(_) => unreachable!("upper levels have inner children"),
        }
    }

    /// Puts the node(s) of `draft` in the place of the node of `level`, and of those below it that are `replaced`, too; its cell is locked
    /// by the caller.
    fn install<'g>(
        &self,
        path: &Path<'g>,
        level: usize,
        (draft, mut replaced): (Draft, Vec<&'g Inner>),
        epoch: &Epoch,
    ) {
        replaced.push(path.level(level).0);
        let mut nodes = self.realise(draft);
        if nodes.len() == 1 {
            let (_, node) = nodes.remove(0);
            self.publish((self.cell_of(path, level), node), &replaced, epoch);
        } else if level == 0 {
            let root = self.root_over(nodes);
            self.publish((&self.root, root), &replaced, epoch);
        } else {
            self.install_above(path, level - 1, (nodes, replaced), epoch);
        }
    }

    /// Lets everybody see a node that stands for others, which are replaced. They say so before: whoever came by one of them and gets a
    /// latch that somebody let go who came by the new one must find that out.
    fn publish(&self, (cell, node): (&AtomicPtr<Inner>, *mut Inner), replaced: &[&Inner], epoch: &Epoch) {
        replaced.iter().for_each(|old| old.make_obsolete());
        cell.store(node, Ordering::Release);
        replaced.iter().for_each(|old| self.discard(old, epoch));
    }

    /// The child of `level` became several nodes: replaces the node of `level` by one with all of them.
    fn install_above<'g>(
        &self,
        path: &Path<'g>,
        level: usize,
        (nodes, replaced): (Vec<(Vec<u8>, *mut Inner)>, Vec<&'g Inner>),
        epoch: &Epoch,
    ) {
        let (node, child) = path.level(level);
        let mut fresh;
        let (mut path, mut level) = (path, level);
        let lock = loop {
            if let Some(lock) = self.lock_cell_of(path, level) {
                break lock;
            }
            // The levels above changed, the node itself did not: its cells are locked by us. There may be one level more.
            fresh = self.path_to(path, level);
            level = fresh.levels - 1;
            path = &fresh;
        };
        let mut draft = Draft::of(node, path.range_of(level));
        draft.splice_nodes(child..=child, nodes);
        self.install(path, level, (draft, replaced), epoch);
        drop(lock);
    }

    /// A fresh path that ends with the node that is at `level` of `path`.
    fn path_to<'g>(&self, path: &Path<'g>, level: usize) -> Path<'g> {
        let (low, _) = path.range_of(level);
        let (wanted, child) = path.level(level);
        let mut fresh = Path { nodes: [None; LEVELS_MAX], levels: 0, guard: PhantomData };
        // SAFETY: the guard under which `path` was made is held for 'g, so nodes reached now live for 'g too.
        let mut node: &'g Inner = unsafe { &*self.root.load(Ordering::Acquire) };
        while !std::ptr::eq(node, wanted) {
            let next = node.child_for(&low);
            fresh.push(node, next);
            let Children::Inners(cells) = node.children() else { unreachable!("the wanted node is above the leaves") };
            // SAFETY: as above.
            node = unsafe { &*cells[next].load(Ordering::Acquire) };
        }
        fresh.push(node, child);
        fresh
    }

    fn root_over(&self, nodes: Vec<(Vec<u8>, *mut Inner)>) -> *mut Inner {
        let lows: Vec<&[u8]> = nodes.iter().map(|(low, _)| low.as_slice()).collect();
        let cells = nodes.iter().map(|(_, node)| AtomicPtr::new(*node)).collect();
        self.make(&lows, None, Children::Inners(cells))
    }

    /// Builds the one or two nodes of a draft, with their low keys.
    fn realise(&self, draft: Draft) -> Vec<(Vec<u8>, *mut Inner)> {
        let count = draft.lows.len();
        if count <= self.children_max {
            return vec![(draft.lows[0].clone(), self.realise_part(&draft, 0, count))];
        }
        let at = if draft.grew_at_end { count * 15 / 16 } else { count / 2 };
        vec![
            (draft.lows[0].clone(), self.realise_part(&draft, 0, at)),
            (draft.lows[at].clone(), self.realise_part(&draft, at, count)),
        ]
    }

    fn realise_part(&self, draft: &Draft, from: usize, to: usize) -> *mut Inner {
        let lows: Vec<&[u8]> = draft.lows[from..to].iter().map(Vec::as_slice).collect();
        let high = draft.lows.get(to).or(draft.high.as_ref()).map(Vec::as_slice);
        let children = match &draft.children {
            DraftChildren::Leaves(ids) => Children::Leaves(ids[from..to].into()),
            DraftChildren::Inners(nodes) => {
                Children::Inners(nodes[from..to].iter().map(|node| AtomicPtr::new(*node)).collect())
            }
        };
        self.make(&lows, high, children)
    }

    /// Retires an obsolete node that was just taken out of its only cell, which the caller has locked.
    fn discard(&self, node: &Inner, epoch: &Epoch) {
        let bytes = node.memory_bytes();
        self.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let retired = Retired(std::ptr::from_ref(node).cast_mut());
        epoch.defer(Box::new(retired), usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Memory of all nodes in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Levels of inner nodes.
    pub(crate) fn levels(&self, guard: &Guard<'_>) -> usize {
        self.find(b"", guard).levels
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let mut pending = vec![self.root.load(Ordering::Relaxed)];
        while let Some(pointer) = pending.pop() {
            // SAFETY: the index is going away: nobody else reads its nodes, and each stands in exactly one cell.
            let node = unsafe { Box::from_raw(pointer) };
            if let Children::Inners(cells) = node.children() {
                pending.extend(cells.iter().map(|cell| cell.load(Ordering::Relaxed)));
            }
        }
    }
}

/// A node that is out of the index; the epoch drops this when no guard may see the node any more.
struct Retired(*mut Inner);

// SAFETY: a retired node has one owner, this value; `Inner` itself may be dropped by any thread.
unsafe impl Send for Retired {}

impl Drop for Retired {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `Index::make`, retired once, and no guard that could see it is left.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

enum DraftChildren {
    Leaves(Vec<u32>),
    Inners(Vec<*mut Inner>),
}

/// A node being edited: low keys and children, free to change.
struct Draft {
    lows: Vec<Vec<u8>>,
    high: Option<Vec<u8>>,
    children: DraftChildren,
    grew_at_end: bool,
}

impl Draft {
    fn lows_of(node: &Inner, low: Vec<u8>) -> Vec<Vec<u8>> {
        std::iter::once(low).chain((0..node.len() - 1).map(|index| node.separator(index))).collect()
    }

    fn of(node: &Inner, (low, high): (Vec<u8>, Option<Vec<u8>>)) -> Self {
        let children = match node.children() {
            Children::Leaves(ids) => DraftChildren::Leaves(ids.to_vec()),
            Children::Inners(cells) => {
                DraftChildren::Inners(cells.iter().map(|cell| cell.load(Ordering::Acquire)).collect())
            }
        };
        Self { lows: Self::lows_of(node, low), high, children, grew_at_end: false }
    }

    /// Adds what `right`, which begins where this one ends, has.
    fn append(&mut self, right: Self) {
        self.lows.extend(right.lows);
        self.high = right.high;
        match (&mut self.children, right.children) {
            (DraftChildren::Leaves(ids), DraftChildren::Leaves(more)) => ids.extend(more),
            (DraftChildren::Inners(nodes), DraftChildren::Inners(more)) => nodes.extend(more),
            _ => unreachable!("neighbours are of one level"),
        }
    }

    fn splice(&mut self, at: usize, removed: usize, inserted: &[LeafEntry]) {
        let DraftChildren::Leaves(ids) = &mut self.children else { unreachable!("leaves were drafted") };
        self.grew_at_end = at + removed == ids.len();
        ids.splice(at..at + removed, inserted.iter().map(|(_, id)| id.0));
        let low = self.lows[at].clone();
        let lows = std::iter::once(low).chain(inserted[1..].iter().map(|(low, _)| low.clone()));
        self.lows.splice(at..at + removed, lows);
    }

    fn splice_nodes(&mut self, removed: RangeInclusive<usize>, nodes: Vec<(Vec<u8>, *mut Inner)>) {
        let DraftChildren::Inners(children) = &mut self.children else { unreachable!("inner nodes were drafted") };
        self.grew_at_end = removed.end() + 1 == children.len();
        let (lows, nodes): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        children.splice(removed.clone(), nodes);
        self.lows.splice(removed, lows);
    }
}
