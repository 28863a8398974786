//! The stores that experiments compare, under the names of their series.

use crate::race::Contender;
use crate::subject::StorePlan;

/// This project's own choice of everything.
pub(super) const ZONDA: &str = "zonda";
/// The ZKV paper's design with its classes of buffers and shares of memory.
pub(super) const ZKV: &str = "ZKV";
/// The same with the paper's count of what a buffer holds: 15 pairs at most, whatever their keys share.
pub(super) const ZKV_WHOLE: &str = "ZKV of 15 pairs";
/// Delta records chained to leaves, the paper's BD-Tree.
pub(super) const BDTREE: &str = "BD-Tree";
/// Whole leaves in a cache, the paper's B+-Tree: its LRU is a clock here (decision 0031).
pub(super) const BTREE: &str = "B+-Tree";

/// The engines of others that papers compare with, of which only `zonda-compare repro` has some.
pub(super) const ROCKSDB: &str = "RocksDB";
/// See [`ROCKSDB`].
pub(super) const WIREDTIGER: &str = "WiredTiger";

/// A store of `design`; without a log, as the papers measure unless they say otherwise.
pub(super) fn store(design: &str, memory_bytes: u64) -> StorePlan {
    let mut plan = StorePlan::new(String::new(), memory_bytes, 0);
    design.clone_into(&mut plan.design);
    plan.log = false;
    plan
}

/// See [`ZONDA`].
pub(super) fn zonda(memory_bytes: u64) -> Contender {
    Contender::new(ZONDA, store("zonda", memory_bytes))
}

/// See [`ZKV`].
pub(super) fn zkv(memory_bytes: u64) -> Contender {
    as_in_the_paper(store("zkv", memory_bytes))
}

/// See [`ZKV_WHOLE`].
pub(super) fn zkv_whole(memory_bytes: u64) -> Contender {
    zkv(memory_bytes).with("classes", "paper-whole").called(ZKV_WHOLE)
}

/// The same in place, with an LRU pool instead of the flusher: ZKV-BLK.
pub(super) fn zkv_block(memory_bytes: u64) -> Contender {
    as_in_the_paper(store("zkv-block", memory_bytes))
}

/// The preset has all of this; it stands in the reports too.
fn as_in_the_paper(store: StorePlan) -> Contender {
    let sizes = Contender::new(ZKV, store).with("classes", "paper").with("eviction", "oldest");
    sizes.with("memory-shares", SHARES).with("log-ring", LOG_RING)
}

/// The paper's rings of the log (section 3.5).
pub(super) const LOG_RING: &str = "4KiB";

/// The paper's shares of memory for merged filter, buffers and flusher: 50, 150 and 200 MB.
pub(super) const SHARES: &str = "1:3:4";

/// See [`BDTREE`].
pub(super) fn bdtree(memory_bytes: u64) -> Contender {
    Contender::new(BDTREE, store("bdtree", memory_bytes))
}

/// See [`BTREE`]. At a tenth of the size: it writes a leaf for nearly every operation. Less small where a tenth of the memory would be
/// less than a store works with: it would then have a larger share of its data in memory than the others.
pub(super) fn btree(memory_bytes: u64) -> Contender {
    let most = memory_bytes / zonda::limits::MEMORY_BYTES_MIN;
    Contender::new(BTREE, store("btree", memory_bytes)).scaled_down(most.clamp(1, BTREE_SCALE_DOWN))
}

/// See [`ROCKSDB`].
pub(super) fn rocksdb(memory_bytes: u64) -> Contender {
    Contender::new(ROCKSDB, store("rocksdb", memory_bytes))
}

/// See [`ROCKSDB`].
pub(super) fn wiredtiger(memory_bytes: u64) -> Contender {
    Contender::new(WIREDTIGER, store("wiredtiger", memory_bytes))
}

/// How much smaller the B+-tree's part is, at the most.
const BTREE_SCALE_DOWN: u64 = 10;

/// The four designs of the ZKV paper's figures that are run here.
pub(super) fn all(memory_bytes: u64) -> Vec<Contender> {
    vec![zonda(memory_bytes), zkv(memory_bytes), bdtree(memory_bytes), btree(memory_bytes)]
}

impl Contender {
    /// The same under another name.
    pub(super) fn called(mut self, series: &str) -> Self {
        series.clone_into(&mut self.series);
        self
    }

    /// The same with a switch of the store at `value`.
    pub(super) fn with(mut self, switch: &str, value: &str) -> Self {
        self.store = self.store.with(switch, value);
        self
    }

    /// The same with a write-ahead log.
    pub(super) fn logged(mut self) -> Self {
        self.store.log = true;
        self
    }

    /// The same with leaves of so many bytes.
    pub(super) fn with_leaves(mut self, leaf_bytes: u32) -> Self {
        self.store.leaf_bytes = Some(leaf_bytes);
        self
    }

    /// The same on zones of so many bytes.
    pub(super) fn with_zones(mut self, zone_bytes: u64) -> Self {
        self.store.zone_bytes = Some(zone_bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_btree_has_the_same_share_of_its_data_in_memory() {
        use zonda::limits::MEMORY_BYTES_MIN;
        for memory_bytes in [MEMORY_BYTES_MIN, 4_000_000, 8_000_000, 40_000_000, 400_000_000] {
            let by = btree(memory_bytes).scale_down;
            assert!(memory_bytes / by >= MEMORY_BYTES_MIN, "{memory_bytes} / {by}");
        }
        assert_eq!([4_000_000, 8_000_000, 40_000_000].map(|memory_bytes| btree(memory_bytes).scale_down), [1, 3, 10]);
    }
}
