//! Whole pages in memory, the conventional B+-tree ([`Design::BTree`]): a mirror is a complete buffer, and the pool's clock hand takes
//! those that nobody used.
//!
//! Before a leaf is changed its page is brought in, as a page cache must have a page to change it: a change costs a read where the page is
//! not there, and merging a mirror reads nothing. Bringing in happens before a write is logged, without latches. Where it comes to nothing,
//! because others had the leaf latched or it was evicted again meanwhile, the record waits beside its page like in the other designs.

use zonda_pages::{PageAddress, PageId};

use crate::{
    Design,
    buffer::Buffer,
    leaf_page::LeafPage,
    leaf_table::Location,
    pool::arena::Owner,
    relocate::is_damage,
    tree::{Result, Tree},
};

/// The longest body that is mirrored: twice the longest leaf, so that any leaf fits, and the buffer can still grow.
const MIRROR_BYTES_MAX: usize = 64 << 10;

impl Tree {
    /// Reads the page of the leaf of `key` into memory if it is not there and the design has whole pages. What it takes beyond the budget
    /// the next writer evicts. No latch may be held. Costs a comparison in every other design.
    ///
    /// # Errors
    /// Those of the device. A damaged page is left to whoever reads or merges it.
    pub(crate) fn bring_in(&self, key: &[u8]) -> Result<()> {
        // Over the budget there is no room to be had for a page: the store is full.
        if self.options.design != Design::BTree || self.pool.is_over() {
            return Ok(());
        }
        let guard = self.epoch.pin();
        let path = self.index.find(key, &guard);
        let id = path.leaf();
        let page = match self.table.lock_shared(id).location() {
            Location::Page(page) if path.is_current() => *page,
            _ => return Ok(()),
        };
        match self.store.read(id, page, &mut |body| self.cache_page(id, page, body)).map_err(Into::into) {
            Err(error) if !is_damage(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Caches a page that was read, if nothing changed meanwhile and memory is at hand without a dirty eviction (reads never write pages).
    pub(crate) fn mirror(&self, id: PageId, page: PageAddress, body: &[u8]) {
        if !self.pool.is_over_limit() || self.drop_clean_buffer() {
            self.cache_page(id, page, body);
        }
    }

    fn cache_page(&self, id: PageId, page: PageAddress, body: &[u8]) {
        let Ok(leaf_page) = LeafPage::decode(body) else { return };
        if body.len() > MIRROR_BYTES_MAX {
            return;
        }
        let Some(mut leaf) = self.table.try_lock(id) else { return };
        if matches!(leaf.location(), Location::Page(now) if *now == page) {
            let (memory, owner, records) = (self.pool.memory(), Owner::of(id), leaf_page.slots().iter());
            let mut buffer = Buffer::of(memory, owner, Some(page), leaf_page.prefix(), records);
            buffer.set_complete();
            self.relocate_leaf(&mut leaf, Location::Buffered(buffer));
        }
    }

    /// Frees a clean buffer if the hand finds one.
    pub(crate) fn drop_clean_buffer(&self) -> bool {
        let Some(id) = self.pool.victim(&self.table) else { return false };
        let Some(mut leaf) = self.table.try_lock(id) else { return false };
        leaf.location().buffer().is_some() && self.drop_if_clean(&mut leaf)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use zonda_pages::PageStore;

    use super::*;
    use crate::{
        Durability, TreeOptions, recover,
        testing::{MemOptions, MemStore},
    };

    const KEYS: u64 = 4_000;

    fn key(number: u64) -> [u8; 8] {
        (number * 2).to_be_bytes()
    }

    /// A tree of some 20 leaves whose pages are on the device, and none of them in memory.
    fn on_device(design: Design, filter_bytes: u64) -> (Arc<MemStore>, Tree) {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions { design, filter_bytes, ..TreeOptions::default() };
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("an empty store");
        for number in 0..KEYS {
            tree.put(&key(number), &[1; 16], Durability::Buffered).expect("room");
        }
        // Not compacted: leaves have room.
        tree.empty_filter().expect("room");
        tree.merge_all(&mut |_| ()).expect("room");
        while tree.drop_clean_buffer() {}
        (store, tree)
    }

    fn reads(store: &MemStore) -> u64 {
        store.reads().0
    }

    #[test]
    fn a_change_reads_the_page_that_it_changes_and_a_merge_reads_nothing() {
        let (store, tree) = on_device(Design::BTree, 0);
        let before = reads(&store);
        tree.put(&key(100), &[2; 16], Durability::Buffered).expect("room");
        assert_eq!(reads(&store), before + 1, "the page is brought in");
        tree.put(&key(101), &[2; 16], Durability::Buffered).expect("room");
        tree.delete(&key(102), Durability::Buffered).expect("room");
        let mut value = Vec::new();
        assert!(tree.get_into(&key(101), &mut value).expect("readable") && value == [2; 16]);
        assert!(tree.get_into(&key(103), &mut value).expect("readable") && value == [1; 16]);
        assert!(!tree.get_into(&key(102), &mut value).expect("readable"));
        tree.merge_all(&mut |_| ()).expect("room");
        assert_eq!(reads(&store), before + 1, "what is in memory is neither read again nor to be merged");
    }

    #[test]
    fn other_designs_change_what_they_have_not_read() {
        let (store, tree) = on_device(Design::Adb, 0);
        let before = reads(&store);
        tree.put(&key(100), &[2; 16], Durability::Buffered).expect("room");
        assert_eq!(reads(&store), before);
    }

    #[test]
    fn what_leaves_the_filter_finds_its_page() {
        let (store, tree) = on_device(Design::BTree, 64 << 10);
        tree.put(&key(100), &[2; 16], Durability::Buffered).expect("room");
        let before = reads(&store);
        tree.empty_filter().expect("room");
        assert_eq!(reads(&store), before + 1);
        tree.merge_all(&mut |_| ()).expect("room");
        assert_eq!(reads(&store), before + 1);
    }

    /// A page is full when it holds what a page holds, not three quarters of it.
    #[test]
    fn a_full_page_takes_many_changes_before_it_is_written() {
        let (store, tree) = on_device(Design::BTree, 0);
        tree.put(&key(0), &[2; 16], Durability::Buffered).expect("room");
        let written = store.wire().blocks_written();
        for number in 0..100 {
            tree.put(&key(number), &[3; 8], Durability::Buffered).expect("room");
        }
        assert!(
            store.wire().blocks_written() <= written + 2,
            "only the log is written: {written}, {}",
            store.wire().blocks_written()
        );
    }
}
