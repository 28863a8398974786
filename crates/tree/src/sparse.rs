//! Leaves that deletes left with little: empty ones leave the tree, and neighbours that fit fewer pages are joined in the background.
//!
//! A leaf that becomes part of its neighbour has snapshots keep both states (decision 0004). Where much was deleted, merges in the background leave leaf after
//! leaf so, and a scan beside them would be given up for the memory of states that nobody changed. So they wait until no snapshot is open, as many as fit a
//! bound; past it empty ones go at once, and of the others the next merge, `compact` or a full store takes care. They do no harm meanwhile: an empty leaf has
//! no page.

use zonda_pages::{PageError, PageId};

use crate::{
    Step, TreeError,
    compact::{Fill, NEIGHBOURS_MAX, seem_to_join},
    flush::FOR_A_MERGE,
    log::can_go_on,
    tree::{Result, Tree},
};

/// A leaf is sparse that fills less than this part of its page: splits leave more, so only deletes make one.
const SPARSE_SHARE: usize = 3;

impl Tree {
    /// Takes a leaf without records out of the tree, or lets it wait for snapshots that would have to keep it and its neighbour.
    pub(crate) fn remove_empty(&self, id: PageId, key: &[u8]) {
        if !self.snapshots.may_need(None) || !self.emptied.push(id, key) {
            self.remove_empty_now(id, key);
        }
    }

    /// Takes leaves out that waited for snapshots, if none is open now.
    pub(crate) fn remove_put_off(&self) {
        while !self.snapshots.may_need(None)
            && let Some((id, key)) = self.emptied.pop()
        {
            self.remove_empty_now(id, &key);
        }
    }

    /// Remembers leaf `id`, whose range holds `key` and which was just merged, if it is sparse. No read.
    pub(crate) fn note_if_sparse(&self, id: PageId, key: &[u8]) {
        if self.known_bytes(id) * SPARSE_SHARE < self.body_bytes() {
            self.sparse.push(id, key);
        }
    }

    /// Background step: joins one leaf that was sparse with its neighbours, if that gives pages back. Reads up to eight neighbours while they are latched.
    /// Waits for no zones: while they are short there is better to do with them.
    ///
    /// # Errors
    /// Those of the device, but not damage: whoever reads that page hears of it.
    pub(crate) fn join_sparse_step(&self) -> Result<Step> {
        self.check_writable()?;
        if self.snapshots.may_need(None) || self.store.is_short() || self.store.admit(FOR_A_MERGE).is_err() {
            return Ok(Step::Idle);
        }
        let Some((id, key)) = self.sparse.pop() else { return Ok(Step::Idle) };
        let Some(low) = self.joinable_with(id, &key) else { return Ok(Step::Progress) };
        match self.compact_group(&low, Fill::Loose) {
            // A full store joins leaves before it refuses a write.
            Err(error) if can_go_on(&error) => Ok(Step::Idle),
            Err(TreeError::Damaged { .. }) => Ok(Step::Progress),
            Err(TreeError::Store(error)) if matches!(*error, PageError::Damaged { .. }) => Ok(Step::Progress),
            outcome => outcome.map(|_| Step::Progress),
        }
    }

    /// The low fence of the leaf with which a group begins that holds leaf `id`, whose range holds `key`, and seems to fit fewer pages: of its own, or of its
    /// neighbour's to the left.
    fn joinable_with(&self, id: PageId, key: &[u8]) -> Option<Vec<u8>> {
        let guard = self.epoch.pin();
        let path = self.index.find(key, &guard);
        let (parent, child) = path.parent();
        if path.leaf() != id {
            return None;
        }
        let seems_to_join = |first: &usize| {
            let last = (first + NEIGHBOURS_MAX).min(parent.len());
            seem_to_join(
                (*first..last).map(|child| self.known_bytes(parent.leaf(child))),
                Fill::Loose,
                self.body_bytes(),
            )
        };
        let first = (child.saturating_sub(1)..=child).rev().find(seems_to_join)?;
        Some(path.at_child(first).low())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use zonda_pages::PageStore;
    use zonda_rt::atomic::Ordering;

    use crate::{
        Design, Durability, Step, TreeOptions, recover,
        testing::{MemOptions, MemStore},
        tree::Tree,
    };

    const PAIRS: u32 = 20_000;

    fn key(number: u32) -> [u8; 4] {
        number.wrapping_mul(0x9e37_79b9).to_be_bytes()
    }

    /// Scattered pairs of which only every tenth is left; what was deleted is merged.
    fn thinned_out(design: Design) -> Tree {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions { design, ..TreeOptions::default() };
        let tree = recover::create(store as Arc<dyn PageStore>, options).expect("empty");
        (0..PAIRS).for_each(|number| tree.put(&key(number), &[7; 12], Durability::Buffered).expect("room"));
        tree.merge_all(&mut |_| {}).expect("room");
        let deleted = (0..PAIRS).filter(|number| !number.is_multiple_of(10));
        deleted.for_each(|number| tree.delete(&key(number), Durability::Buffered).expect("room"));
        tree.merge_all(&mut |_| {}).expect("room");
        tree
    }

    fn leaves(tree: &Tree) -> u32 {
        tree.leaves.load(Ordering::Relaxed)
    }

    #[test]
    fn neighbours_that_deletes_left_sparse_become_one() {
        for design in [Design::BTree, Design::Adb, Design::Deltas, Design::BfTree] {
            let tree = thinned_out(design);
            let before = leaves(&tree);
            while tree.join_sparse_step().expect("room") == Step::Progress {}
            assert!(leaves(&tree) * 4 < before, "{design:?}: {} of {before} leaves", leaves(&tree));
            for number in 0..PAIRS {
                let found = tree.get_into(&key(number), &mut Vec::new()).expect("sound");
                assert_eq!(found, number.is_multiple_of(10), "{design:?}: {number}");
            }
        }
    }

    #[test]
    fn sparse_leaves_wait_for_snapshots() {
        let tree = thinned_out(Design::Adb);
        let (before, snapshot) = (leaves(&tree), tree.open_snapshot());
        assert_eq!(tree.join_sparse_step().expect("room"), Step::Idle);
        assert_eq!((leaves(&tree), tree.snapshots.kept_bytes()), (before, 0));
        tree.snapshots.close(snapshot);
        assert_eq!(tree.join_sparse_step().expect("room"), Step::Progress);
    }

    #[test]
    fn leaves_that_nobody_deleted_from_are_left_alone() {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(store as Arc<dyn PageStore>, TreeOptions::default()).expect("empty");
        for number in 0..PAIRS {
            tree.put(&key(number), &[7; 12], Durability::Buffered).expect("room");
            tree.put(&number.to_be_bytes(), &[7; 12], Durability::Buffered).expect("room");
        }
        tree.merge_all(&mut |_| {}).expect("room");
        let before = leaves(&tree);
        while tree.join_sparse_step().expect("room") == Step::Progress {}
        assert_eq!(leaves(&tree), before);
    }
}
