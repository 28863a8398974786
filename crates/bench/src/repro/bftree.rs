//! The Bf-Tree paper's setting (section 6.1): pairs of 16 B + 16 B, Zipf with a skew of 0.9, memory for a third of the data, no log.

use super::contenders::store;
use super::{Metric, Scale};
use crate::contest::{DataShape, Step};
use crate::race::{Contender, Race};

/// Mini-pages in place, as in the paper.
pub(super) const BFTREE: &str = "Bf-Tree";
/// Mini-pages over append-only leaves.
pub(super) const ON_ZONES: &str = "Bf-Tree on zones";
/// Up to 10 delta records a leaf.
pub(super) const BDTREE: &str = "Bd-Tree";
/// Whole pages cached.
pub(super) const BTREE: &str = "B-Tree";

/// Bytes of a pair.
pub(super) const PAIR_BYTES: u64 = 32;
/// The paper's skew: 80 % of the requests to a third of the records.
pub(super) const SKEW: &str = "zipf:0.9";
const LEANSTORE: (&str, &str) = ("LeanStore", "not packaged");
const TWOTREE: (&str, &str) = ("TwoTree", "not packaged");
/// Systems of the paper that are not run by this command.
pub(super) const ABSENT: [(&str, &str); 3] = [
    ("RocksDB", "`zonda-compare bftree-speed` runs it beside ours, and the Bf-Tree authors' own crate"),
    LEANSTORE,
    TWOTREE,
];
/// The same where [`with_rocksdb`] runs: what of it the paper has and no run here.
pub(super) const ABSENT_BUT_ROCKSDB: [(&str, &str); 3] = [
    ("RocksDB's row cache", "a quarter of its memory in the paper, which the block cache has here"),
    LEANSTORE,
    TWOTREE,
];
/// Columns of most tables.
pub(super) const METRICS: [Metric; 8] = [
    Metric::Kops,
    Metric::Cpu,
    Metric::P50,
    Metric::P99,
    Metric::WrittenAll,
    Metric::Read,
    Metric::LeafReads,
    Metric::Rss,
];

impl Scale {
    /// Records of the Bf-Tree paper's experiments: 200 million there.
    pub(super) fn bftree_records(self) -> u64 {
        self.pick(20_000, 2_000_000, 200_000_000)
    }

    /// Memory: 2 GB for 6.4 GB in the paper.
    pub(super) fn bftree_memory(self) -> u64 {
        self.pick(zonda::limits::MEMORY_BYTES_MIN, 20 << 20, 2 << 30)
    }

    /// Operations of each step.
    pub(super) fn bftree_operations(self) -> u64 {
        self.pick(2_000, 400_000, 200_000_000)
    }
}

/// See [`BFTREE`].
pub(super) fn bftree(memory_bytes: u64) -> Contender {
    on_zones(memory_bytes).called(BFTREE).with("store", "in-place")
}

/// See [`ON_ZONES`]. Promotes as rarely as the paper's evaluation does (section 6.1), evicts each mini-page as it comes to the head
/// (section 4.1), has sizes that double (section 3.1), and does not turn the ring for readers.
pub(super) fn on_zones(memory_bytes: u64) -> Contender {
    Contender::new(ON_ZONES, store("bftree", memory_bytes))
        .with("promotion", "20")
        .with("scan-promotion", "20")
        .with("eviction", "oldest")
        .with("classes", "paper")
        .with("ring-turns", "off")
        .with("store", "zoned")
}

/// See [`BDTREE`].
pub(super) fn bdtree(memory_bytes: u64) -> Contender {
    Contender::new(BDTREE, store("bdtree", memory_bytes)).with("delta-records", "10").with("store", "in-place")
}

/// See [`BTREE`].
pub(super) fn btree(memory_bytes: u64) -> Contender {
    super::contenders::btree(memory_bytes).called(BTREE).with("store", "in-place")
}

/// The paper's designs that are run here, and ours.
pub(super) fn all(memory_bytes: u64) -> Vec<Contender> {
    vec![
        bftree(memory_bytes),
        on_zones(memory_bytes),
        super::contenders::zonda(memory_bytes),
        bdtree(memory_bytes),
        btree(memory_bytes),
    ]
}

/// The same and RocksDB, which `zonda-compare repro` has; `zonda repro` runs our side alone and says so.
pub(super) fn with_rocksdb(memory_bytes: u64) -> Vec<Contender> {
    all(memory_bytes).into_iter().chain([super::contenders::rocksdb(memory_bytes)]).collect()
}

/// A race over the paper's records, loaded and warmed up with skewed reads.
pub(super) fn race(x: &str, scale: Scale, threads: usize) -> Race {
    let records = scale.bftree_records();
    let mut race = Race::new(x, records, threads);
    race.data = DataShape { key_bytes: 16, value_bytes: 16, ..DataShape::small(records) };
    race.step(step("get", scale, threads).named("warm"))
}

/// The same, warmed up until pages that are read at all are in memory.
pub(super) fn race_in_memory(x: &str, scale: Scale, threads: usize) -> Race {
    const GETS_OF_A_RECORD: u64 = 20;
    let mut race = race(x, scale, threads);
    for warm in race.steps.iter_mut().filter(|step| step.phase == "warm") {
        warm.operations = scale.pick(warm.operations, GETS_OF_A_RECORD * race.records, GETS_OF_A_RECORD * race.records);
    }
    race
}

/// A step of `workload` over the paper's distribution.
pub(super) fn step(workload: &str, scale: Scale, threads: usize) -> Step {
    Step::new(workload, scale.bftree_operations(), threads).over(SKEW)
}

#[cfg(test)]
mod tests {
    use super::super::{EXPERIMENTS, Ours, contenders::ROCKSDB};
    use super::*;

    #[test]
    fn rocksdb_takes_part_where_the_paper_has_its_numbers() {
        for name in ["bftree-fig1", "bftree-fig6", "bftree-fig9", "bftree-fig12"] {
            let experiment = EXPERIMENTS.into_iter().find(|experiment| experiment.name == name).unwrap();
            let of_it = experiment.facts.iter().filter(|fact| fact.what.contains(ROCKSDB));
            assert!(of_it.clone().count() > 0 && of_it.into_iter().all(|fact| fact.ours != Ours::Absent), "{name}");
            assert!(experiment.absent.iter().all(|(who, _)| *who != ROCKSDB), "{name}");
            for race in (experiment.races)(Scale::Laptop) {
                let store = |series| &race.contenders.iter().find(|one| one.series == series).unwrap().store;
                let (theirs, ours) = (store(ROCKSDB), store(BFTREE));
                assert_eq!((theirs.memory_bytes, theirs.log), (ours.memory_bytes, ours.log), "{name}: {}", race.x);
                let said = theirs.unavailable().unwrap();
                assert!(said.contains("zonda-compare runs it"), "{said}");
            }
        }
    }
}
