//! The comparisons: what all engines do, in turns, and the targets that this project set itself.

use zonda_bench::contest::{DataShape, Step};
use zonda_bench::race::{Contender, Race};
use zonda_bench::repro::{Axis, Cell, Experiment, Figure, Metric, Results, Scale, cell};
use zonda_bench::{StorePlan, Verdict};

/// This project's store.
const ZONDA: &str = "zonda";

/// This project's mini-pages, as the paper has them and over append-only leaves.
const IN_PLACE: &str = "mini-pages in place";
/// See [`IN_PLACE`].
const ON_ZONES: &str = "mini-pages on zones";
/// This project's design after the ZKV paper, which the other two are compared with.
const OWN_ZKV: &str = "zkv";

/// Series and designs of the peers, and what records, operations and memory are divided by at laptop scale: B+-trees that read
/// a leaf for nearly every insert in random order would load for an hour.
const PEERS: [(&str, &str, u64); 6] = [
    ("RocksDB", "rocksdb", 1),
    ("WiredTiger", "wiredtiger", 4),
    ("LMDB", "lmdb", 4),
    ("redb", "redb", 4),
    ("fjall", "fjall", 1),
    ("bf-tree", "bf-tree", 1),
];

const LOG_OFF: &str = "log off";
const LOG_ON: &str = "log on";
/// With a budget from which the process, its program and records to check against in it, stays within 32 MiB.
const RESIDENT: &str = "log off, 32 MiB resident";

/// What the process holds beside its store's budget: measured.
const RESIDENT_BESIDE: u64 = 12 << 20;
/// The most that it may hold then.
const RESIDENT_MIB_MAX: f64 = 32.0;

/// Turns of a step; a load is as many slices of the same inserts.
const TURNS: u32 = 3;

/// Seconds of a turn that is not a load.
const TURN_SECONDS: f64 = 4.0;

/// Seconds of a turn that only fills caches: several times as many operations as there are records.
const WARMING_SECONDS: f64 = 60.0;

/// Columns of both comparisons.
const METRICS: [Metric; 11] = [
    Metric::Kops,
    Metric::Cpu,
    Metric::P50,
    Metric::P99,
    Metric::P999,
    Metric::Gap,
    Metric::SlowestSecond,
    Metric::WrittenAll,
    Metric::Read,
    Metric::Rss,
    Metric::ProcessWritten,
];

/// 16.8 million pairs of 8 B + 8 B in random order, 32 MiB, 2 threads, log off for all and on for all; and so much less memory
/// that the process of this project's store has 32 MiB resident.
pub const ZKV: Experiment = Experiment {
    name: "zkv-speed",
    title: "speed against other engines: inserts, mixes, reads, scans; 8 B + 8 B",
    source: "this project's own targets beside ZKV figure 20",
    races: zkv_races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "operations per second, log off",
        phases: &ZKV_PHASES,
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: true,
    }],
    facts: &[],
    absent: &[("SplinterDB", "not packaged")],
    judge: zkv_judge,
};

const LOAD: &str = "load";
const SCANS: &str = "scans";
const ZKV_PHASES: [&str; 7] = [LOAD, "zkv-b", "zkv-c", "mix", "get", "multi-get:32", SCANS];

/// The set-up of the Bf-Tree paper, scaled: 6.25 million pairs of 16 B + 16 B, Zipf 0.9, 64 MiB, loaded in random order and
/// in sorted order, with 2 threads and with 1, and with the log on; a minute of updates; and 4 million pairs that are all in memory.
pub const BFTREE: Experiment = Experiment {
    name: "bftree-speed",
    title: "get, update, mix and scan of 32 over Zipf 0.9; 16 B + 16 B",
    source: "Bf-Tree section 6, scaled",
    races: bftree_races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "operations per second after a random load, 2 threads",
        phases: &BFTREE_PHASES,
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: true,
    }],
    facts: &[],
    absent: &[],
    judge: bftree_judge,
};

const BFTREE_PHASES: [&str; 4] = ["get", "update", "mix", "scan:32"];

fn contenders(scale: Scale, memory_bytes: u64, log: bool) -> Vec<Contender> {
    let contender = |(series, design, by): (&str, &str, u64)| {
        let mut store = StorePlan::new(String::new(), memory_bytes, 0);
        design.clone_into(&mut store.design);
        store.log = log;
        Contender::new(series, store).scaled_down(scale.pick(1, by, 1))
    };
    std::iter::once((ZONDA, "zonda", 1)).chain(PEERS).map(contender).collect()
}

/// As [`contenders`], and this project's other designs.
fn all_designs(scale: Scale, memory_bytes: u64, log: bool) -> Vec<Contender> {
    let own = |series: &str, design: &str, kind: &str| {
        let mut store = StorePlan::new(String::new(), memory_bytes, 0).with("store", kind);
        design.clone_into(&mut store.design);
        store.log = log;
        Contender::new(series, store)
    };
    // Past the paper in all that has a default of this project: the paper's sizes are compared in its own experiments.
    let mut zkv = own(OWN_ZKV, "zkv", "zoned");
    zkv.store = zkv.store.with("classes", "large").with("eviction", "fullest").with("memory-shares", "none");
    let mut all = contenders(scale, memory_bytes, log);
    all.extend([own(IN_PLACE, "bftree", "in-place"), own(ON_ZONES, "bftree", "zoned"), zkv]);
    all
}

/// A step that ends by time: its operations are only the most that there is room for.
fn timed(scale: Scale, workload: &str, operations_max: u64, threads: usize) -> Step {
    let operations = scale.pick(500, operations_max, operations_max);
    Step::new(workload, operations, threads).within(scale.pick(0.2, TURN_SECONDS, TURN_SECONDS))
}

fn zkv_races(scale: Scale) -> Vec<Race> {
    const THREADS: usize = 2;
    let records = scale.pick(20_000, 16_800_000, 200_000_000);
    let memory_bytes = scale.pick(8 << 20, 32 << 20, 512 << 20);
    let race = |name: &str, memory_bytes, log| {
        let mut race = Race::new(name, records, THREADS).in_turns(TURNS);
        let steps = ZKV_PHASES.iter().skip(1).map(|phase| timed(scale, phase, records, THREADS));
        race.steps.extend(steps);
        race.contenders = contenders(scale, memory_bytes, log);
        race
    };
    let resident = race(RESIDENT, memory_bytes - scale.pick(0, RESIDENT_BESIDE, RESIDENT_BESIDE), false);
    vec![race(LOG_OFF, memory_bytes, false), race(LOG_ON, memory_bytes, true), resident]
}

fn bftree_races(scale: Scale) -> Vec<Race> {
    let records = scale.pick(20_000, 6_250_000, 100_000_000);
    let memory_bytes = scale.pick(8 << 20, 64 << 20, 1 << 30);
    let race = |name: &str, sorted, threads| {
        let mut race = skewed(scale, name, records, threads, memory_bytes).in_turns(TURNS);
        race.data.sorted = sorted;
        race.contenders = all_designs(scale, memory_bytes, name == LOGGED);
        race.steps.extend(BFTREE_PHASES.map(|phase| timed(scale, phase, records, threads).over("zipf:0.9")));
        race
    };
    let mut minute = skewed(scale, MINUTE, records, 2, memory_bytes);
    // More operations than anybody does in that time.
    let updates = Step::new("update", scale.pick(2_000, 1 << 30, 1 << 34), 2);
    minute.steps.push(updates.over("zipf:0.9").within(scale.pick(0.5, 60.0, 60.0)));
    let mut warm = skewed(scale, WARM, records, 2, memory_bytes).in_turns(TURNS);
    warm.contenders.extend(LIKE.map(|(series, budget_mib, _)| {
        let mut store = StorePlan::new(String::new(), scale.pick(memory_bytes, budget_mib << 20, memory_bytes), 0);
        store.log = false;
        Contender::new(series, store)
    }));
    for phase in ["get", "mix", "scan:32"] {
        let warming = timed(scale, phase, records, 2).over("zipf:0.9").named(&format!("warming, {phase}"));
        let seconds = scale.pick(0.2, WARMING_SECONDS, WARMING_SECONDS);
        warm.steps.extend([warming.within(seconds), timed(scale, phase, records, 2).over("zipf:0.9")]);
    }
    vec![
        race(RANDOM, false, 2),
        warm,
        race("random, 1 thread", false, 1),
        race("sorted, 2 threads", true, 2),
        race(LOGGED, false, 2),
        minute,
        in_memory(scale),
    ]
}

/// Pairs that all engines can keep in memory.
fn in_memory(scale: Scale) -> Race {
    let records = scale.pick(10_000, 4_000_000, 64_000_000);
    let memory_bytes = scale.pick(8 << 20, 512 << 20, 8 << 30);
    let mut race = skewed(scale, IN_MEMORY, records, 2, memory_bytes).in_turns(TURNS);
    let step = |phase: &str| timed(scale, phase, 4 * records, 2).over("zipf:0.9");
    race.steps.extend([step("get").named("warm"), step("get"), step("update")]);
    race
}

/// A race of all engines over pairs of 16 B + 16 B.
fn skewed(scale: Scale, name: &str, records: u64, threads: usize, memory_bytes: u64) -> Race {
    let mut race = Race::new(name, records, threads);
    race.data = DataShape { key_bytes: 16, value_bytes: 16, ..DataShape::small(records) };
    race.contenders = all_designs(scale, memory_bytes, false);
    race
}

const RANDOM: &str = "random, 2 threads";
/// Reads by caches that have seen as many: the paper measures a system that is warm (section 6.1).
const WARM: &str = "random, 2 threads, warm";
/// The same with everybody's log on; `bf-tree` waits for the device at each write then, and is left out.
const LOGGED: &str = "random, 2 threads, log on";
const MINUTE: &str = "a minute of updates";
const IN_MEMORY: &str = "in memory";

/// This project's store with a budget from which its process holds no more than a peer's: series, MiB at laptop scale, the peer. What the processes hold is
/// judged too.
const LIKE: [(&str, u64, &str); 2] =
    [("zonda at bf-tree's RSS", 68, "bf-tree"), ("zonda at RocksDB's RSS", 80, "RocksDB")];

fn kops(results: &Results, x: &'static str, series: &'static str, phase: &'static str) -> Option<f64> {
    results.value(&cell(series, x, phase, Metric::Kops))
}

/// Ours over the best of `peers`; `None` when one side is missing.
fn over(results: &Results, x: &'static str, phase: &'static str, peers: &[&'static str]) -> Option<f64> {
    let best = peers.iter().filter_map(|peer| kops(results, x, peer, phase)).reduce(f64::max)?;
    Some(kops(results, x, ZONDA, phase)? / best)
}

fn zkv_judge(results: &Results) -> Vec<Verdict> {
    let everybody = PEERS.map(|(series, ..)| series);
    let ratios: [(&'static str, &[&'static str], f64); 5] = [
        (LOAD, &["RocksDB"], 1.0),
        ("zkv-b", &everybody, 1.2),
        ("zkv-c", &everybody, 1.2),
        ("mix", &everybody, 1.2),
        (SCANS, &["LMDB"], 1.0),
    ];
    let mut verdicts = Vec::new();
    for x in [LOG_OFF, LOG_ON, RESIDENT] {
        verdicts.extend(ratios.iter().filter_map(|(phase, peers, bound)| {
            let target = format!("{phase}, {x}: zonda / best of {}", peers.join(", "));
            Some(Verdict::at_least(target, over(results, x, phase, peers)?, *bound, "x"))
        }));
        verdicts.extend(steadiness(results, ZONDA, x, LOAD));
        let cpu: Cell = cell(ZONDA, x, LOAD, Metric::Cpu);
        verdicts.extend(results.value(&cpu).map(|us| Verdict::at_most(format!("CPU per insert, {x}"), us, 5.0, "us")));
    }
    let most = |phase: &&'static str| results.value(&cell(ZONDA, RESIDENT, phase, Metric::Rss));
    let most = ZKV_PHASES.iter().filter_map(most).reduce(f64::max);
    verdicts
        .extend(most.map(|mib| Verdict::at_most(format!("{RESIDENT}: zonda's process"), mib, RESIDENT_MIB_MAX, "MiB")));
    verdicts
}

fn bftree_judge(results: &Results) -> Vec<Verdict> {
    let ratios: [(&'static str, &'static str, &'static str, f64); 10] = [
        ("get", WARM, "bf-tree", 1.2),
        ("mix", WARM, "bf-tree", 1.2),
        ("scan:32", WARM, "RocksDB", 3.0),
        ("get", RANDOM, "bf-tree", 1.2),
        ("mix", RANDOM, "bf-tree", 1.2),
        ("update", RANDOM, "RocksDB", 2.0),
        ("update", LOGGED, "RocksDB", 2.0),
        ("scan:32", RANDOM, "RocksDB", 3.0),
        ("get", IN_MEMORY, "bf-tree", 1.0),
        ("update", IN_MEMORY, "bf-tree", 1.0),
    ];
    let mut verdicts = Vec::new();
    for own in [ZONDA, IN_PLACE, ON_ZONES] {
        verdicts.extend(ratios.iter().filter_map(|&(phase, x, peer, bound)| {
            let ratio = kops(results, x, own, phase)? / kops(results, x, peer, phase)?;
            Some(Verdict::at_least(format!("{phase}, {x}: {own} / {peer}"), ratio, bound, "x"))
        }));
        verdicts.extend(steadiness(results, own, MINUTE, "update"));
    }
    let like = [("get", LIKE[0], 1.2), ("mix", LIKE[0], 1.2), ("scan:32", LIKE[1], 3.0)];
    verdicts.extend(like.into_iter().flat_map(|(phase, (own, _, peer), bound)| {
        let over = |metric| {
            let value = |series| results.value(&cell(series, WARM, phase, metric));
            Some(value(own)? / value(peer)?)
        };
        let speed = over(Metric::Kops)
            .map(|ratio| Verdict::at_least(format!("{phase}, {WARM}: {own} / {peer}"), ratio, bound, "x"));
        let held = over(Metric::Rss)
            .map(|ratio| Verdict::at_most(format!("{phase}, {WARM}: memory of {own} / {peer}"), ratio, 1.0, "x"));
        speed.into_iter().chain(held)
    }));
    verdicts
}

/// No second below half the median, no gap of more than a second.
fn steadiness(results: &Results, own: &'static str, x: &'static str, phase: &'static str) -> Vec<Verdict> {
    let value = |metric| results.value(&cell(own, x, phase, metric));
    let slowest = value(Metric::SlowestSecond).map(|share| {
        Verdict::at_least(format!("{phase}, {x}, {own}: slowest second / median second"), share, 0.5, "x")
    });
    let gap =
        value(Metric::Gap).map(|gap| Verdict::at_most(format!("{phase}, {x}, {own}: longest gap"), gap, 1_000.0, "ms"));
    slowest.into_iter().chain(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_does_the_same_with_the_same_memory() {
        for experiment in [ZKV, BFTREE] {
            for scale in Scale::ALL {
                for race in (experiment.races)(scale) {
                    let own = if experiment.name == BFTREE.name { 4 } else { 1 };
                    let like = if race.id == WARM { LIKE.len() } else { 0 };
                    assert_eq!(race.contenders.len(), PEERS.len() + own + like, "{}", race.id);
                    let memory_bytes = race.contenders[0].store.memory_bytes;
                    let told = &race.contenders[..PEERS.len() + own];
                    assert!(told.iter().all(|contender| contender.store.memory_bytes == memory_bytes));
                    assert!(race.steps.iter().all(|step| step.slice(0, 1).is_ok()), "{}", race.id);
                }
            }
        }
    }

    #[test]
    fn nothing_is_judged_that_was_not_run() {
        let results = Results::new(ZKV.name, Scale::Laptop, 1);
        assert!(zkv_judge(&results).is_empty() && bftree_judge(&results).is_empty());
    }
}
