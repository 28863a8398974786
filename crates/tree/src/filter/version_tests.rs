//! MetaLog versions that are written while batches are on their way into the leaves (ZKV 3.5).
#![cfg(not(feature = "shuttle"))]

use std::{collections::BTreeMap, sync::Arc};

use zonda_pages::PageStore;
use zonda_rt::Rng;

use crate::{
    Design, Durability, FilterEviction, TreeOptions,
    metalog::newest_checkpoint,
    recover,
    testing::{MemOptions, MemStore, Survives},
    tree::Tree,
};

/// A tree with a batch array of which some batches are in the leaves and some are not.
struct Halfway {
    store: Arc<MemStore>,
    tree: Tree,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    rng: Rng,
}

fn options(filter_eviction: FilterEviction) -> TreeOptions {
    TreeOptions {
        design: Design::Adb,
        filter_bytes: 48 << 10,
        filter_eviction,
        buffer_bytes: 64 << 10,
        log_limit_bytes: 1 << 20,
        ..TreeOptions::default()
    }
}

impl Halfway {
    fn reached(seed: u64, eviction: FilterEviction) -> Self {
        let store = MemStore::new(MemOptions::default());
        let tree =
            recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options(eviction)).expect("an empty store");
        let mut halfway = Self { store, tree, model: BTreeMap::new(), rng: Rng::seeded(seed) };
        (0..3_000).for_each(|_| halfway.put());
        while !halfway.is_merging() {
            halfway.put();
        }
        halfway.sync();
        halfway
    }

    fn put(&mut self) {
        let number = self.rng.next_u64();
        let key = (number % 5_000).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let value = number.to_le_bytes();
        self.tree.put(&key, &value, Durability::Buffered).expect("room");
        self.model.insert(key.to_vec(), value.to_vec());
    }

    fn sync(&self) {
        self.tree.sync_to(self.tree.log.next_sequence() - 1).expect("the power is on");
    }

    /// Batches that wait, and those that are in the leaves already.
    fn batches(&self) -> (usize, usize) {
        let filter = self.tree.filter.as_ref().expect("it has one");
        let array = filter.array(&self.tree.epoch.pin());
        array.map_or((0, 0), |array| (array.left(), array.batches().len() - array.left()))
    }

    fn is_merging(&self) -> bool {
        let (left, inserted) = self.batches();
        left > 1 && inserted > 0
    }

    /// The version that recovery would begin with.
    fn version(&self) -> u64 {
        version(&self.store)
    }

    /// What is there after a crash.
    fn assert_recovered(&self, survives: Survives, eviction: FilterEviction) -> u64 {
        let store = self.store.reopen(survives);
        let version = version(&store);
        let tree = recover::open(store as Arc<dyn PageStore>, options(eviction), &mut |_| ()).expect("a whole store");
        let mut found = Vec::new();
        for (key, value) in &self.model {
            assert!(tree.get_into(key, &mut found).expect("readable") && found == *value, "{survives:?} {key:?}");
        }
        version
    }
}

fn version(store: &MemStore) -> u64 {
    newest_checkpoint(store).expect("readable").expect("creation writes one").checkpoint
}

#[test]
fn a_version_written_amid_batch_merging_is_recovered_with_the_log_after_it() {
    for (seed, eviction) in [(1, FilterEviction::Nodes), (2, FilterEviction::Pairs)] {
        let mut halfway = Halfway::reached(seed, eviction);
        let (before, batches) = (halfway.version(), halfway.batches());
        halfway.tree.checkpoint().expect("the power is on");
        assert_eq!(halfway.version(), before + 1);
        assert_eq!(halfway.batches(), batches, "a version neither waits for the merging nor hurries it");
        assert_eq!(halfway.assert_recovered(Survives::Flushed, eviction), before + 1);
        // Merging goes on behind it; what is logged then is replayed from the version on.
        (0..500).for_each(|_| halfway.put());
        assert_ne!(halfway.batches(), batches);
        halfway.sync();
        assert_eq!(halfway.assert_recovered(Survives::Flushed, eviction), before + 1);
    }
}

#[test]
fn power_lost_while_a_version_is_written_leaves_it_or_the_one_before() {
    let mut versions = [0; 2];
    for eviction in [FilterEviction::Nodes, FilterEviction::Pairs] {
        for operation in 1.. {
            let halfway = Halfway::reached(3, eviction);
            let before = halfway.version();
            halfway.store.wire().cut_after(operation);
            let written = halfway.tree.checkpoint();
            let recovered = halfway.assert_recovered(Survives::Seeded(operation), eviction) - before;
            versions[usize::try_from(recovered).expect("0 or 1")] += 1;
            if written.is_ok() {
                assert_eq!(recovered, 1, "{operation} operations did not reach its end");
                break;
            }
        }
    }
    assert!(versions.iter().all(|&times| times > 1), "{versions:?}");
}
