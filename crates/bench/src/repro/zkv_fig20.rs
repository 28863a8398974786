//! Against RocksDB and WiredTiger, and reads of keys that lie as those of real data sets do. They are other programs' libraries:
//! `zonda-compare repro` has them, `zonda repro` runs our side alone and says so.

use super::contenders::{ROCKSDB, WIREDTIGER, ZKV, ZONDA, rocksdb, wiredtiger, zkv, zonda};
use super::fact::cell;
use super::{Axis, Cell, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::Spread;
use crate::contest::{KeysFrom, Step};
use crate::race::{Contender, Race};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig20",
    title: "against RocksDB and WiredTiger: YCSB a-e, reads of three data sets",
    source: "ZKV figure 20, Exp#12",
    races,
    metrics: &[Metric::Kops, Metric::Cpu, Metric::ProcessWritten, Metric::ProcessRead, Metric::P99, Metric::Rss],
    figures: &[Figure {
        name: "",
        title: "YCSB a-e, reads of keys like AMZN's, WIKI's and FACEBOOK's",
        phases: &["zkv-a", "zkv-b", "zkv-c", "zkv-d", "zkv-e", BOOKS, TIMES, IDS],
        x: None,
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: true,
    }],
    facts: &[
        Fact::ratio("YCSB-a: ZKV / WiredTiger", 6.8, kops(ZKV, "zkv-a"), kops(WIREDTIGER, "zkv-a")),
        Fact::side("YCSB-a: ZKV / RocksDB", Said::More, kops(ZKV, "zkv-a"), kops(ROCKSDB, "zkv-a")),
        Fact::side("YCSB-d: ZKV / WiredTiger", Said::Same, kops(ZKV, "zkv-d"), kops(WIREDTIGER, "zkv-d")),
        Fact::side("YCSB-d: ZKV / RocksDB", Said::More, kops(ZKV, "zkv-d"), kops(ROCKSDB, "zkv-d")),
        Fact::side("YCSB-e: ZKV / RocksDB", Said::More, kops(ZKV, "zkv-e"), kops(ROCKSDB, "zkv-e")),
        Fact::side("AMZN: ZKV / RocksDB", Said::More, reads(ZKV, BOOKS), reads(ROCKSDB, BOOKS)),
        Fact::side("AMZN: ZKV / WiredTiger", Said::Same, reads(ZKV, BOOKS), reads(WIREDTIGER, BOOKS)),
        Fact::side("WIKI: ZKV / RocksDB", Said::More, reads(ZKV, TIMES), reads(ROCKSDB, TIMES)),
        Fact::side("WIKI: ZKV / WiredTiger", Said::Same, reads(ZKV, TIMES), reads(WIREDTIGER, TIMES)),
        Fact::side("FACEBOOK: ZKV / RocksDB", Said::More, reads(ZKV, IDS), reads(ROCKSDB, IDS)),
        Fact::side("FACEBOOK: ZKV / WiredTiger", Said::Same, reads(ZKV, IDS), reads(WIREDTIGER, IDS)),
        Fact::ratio("YCSB-a: zonda / WiredTiger, beside ZKV's", 6.8, kops(ZONDA, "zkv-a"), kops(WIREDTIGER, "zkv-a")),
        Fact::side("YCSB-a: zonda / RocksDB, beside ZKV's", Said::More, kops(ZONDA, "zkv-a"), kops(ROCKSDB, "zkv-a")),
    ],
    absent: &[
        ZENFS,
        F2FS_WIREDTIGER,
        (
            "SOSD's AMZN, WIKI and FACEBOOK",
            "unless --keys FILE gives one: a generator's keys, whose gaps are spread like theirs, are the points books, times and ids",
        ),
    ],
    judge: no_targets,
};

/// What the paper's RocksDB is on.
pub(super) const ZENFS: (&str, &str) = (
    "RocksDB on ZenFS",
    "`zonda-compare repro` runs it on files of the host: what zones save it or cost it is not in it",
);
/// What the paper's WiredTiger is on.
pub(super) const F2FS_WIREDTIGER: (&str, &str) =
    ("WiredTiger on F2FS-ZNS", "`zonda-compare repro` runs it on a file of the host's file system");

const fn kops(series: &'static str, phase: &'static str) -> Cell {
    cell(series, "", phase, Metric::Kops)
}

/// Points with a generator's keys, and their only steps.
const BOOKS: &str = "books";
const TIMES: &str = "times";
const IDS: &str = "ids";

const fn reads(series: &'static str, of: &'static str) -> Cell {
    cell(series, of, of, Metric::Kops)
}

/// Ours and the two engines, all with this memory and no log.
pub(super) fn contenders(memory_bytes: u64) -> Vec<Contender> {
    vec![zonda(memory_bytes), zkv(memory_bytes), rocksdb(memory_bytes), wiredtiger(memory_bytes)]
}

/// Both engines need more than a few MiB to work at all.
pub(super) const MEMORY_BYTES_MIN: u64 = 16 << 20;

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let operations = [scale.writes(), scale.writes() / 2, scale.reads(), scale.reads(), scale.scans()];
    let mut race = Race::new("", scale.records(), threads).in_turns(4);
    race.id = "YCSB".into();
    for (letter, count) in ["a", "b", "c", "d", "e"].into_iter().zip(operations) {
        race = race.step(Step::new(&format!("zkv-{letter}"), count, threads));
    }
    let spread = [(BOOKS, Spread::Books), (TIMES, Spread::Times), (IDS, Spread::Ids)].map(|(name, spread)| {
        let step = Step::new("zkv-d", scale.reads(), threads).named(name);
        let mut race = Race::new(name, scale.records(), threads).in_turns(4).step(step);
        race.data.keys_from = Some(KeysFrom::Spread(spread));
        race
    });
    let mut races: Vec<Race> = [race].into_iter().chain(spread).collect();
    races.iter_mut().for_each(|race| race.contenders = contenders(scale.memory().max(MEMORY_BYTES_MIN)));
    races
}
