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

/// What the same of `bf-tree` is divided by at both scales with the log on: each of two threads does one write in a millisecond.
const BFTREE_LOGGED: u64 = 16;

const LOG_OFF: &str = "log off";
const LOG_ON: &str = "log on";

/// With a budget from which the process, its program and records to check against in it, stays within what others are told: the log off,
/// and on.
fn resident(scale: Scale) -> [&'static str; 2] {
    let laptop = ["log off, 32 MiB resident", "log on, 32 MiB resident"];
    scale.pick(laptop, laptop, ["log off, 512 MiB resident", "log on, 512 MiB resident"])
}

/// What the process holds beside its store's budget: measured at laptop scale, and not known at the paper's, where it is not judged.
const RESIDENT_BESIDE: u64 = 13 << 20;

/// What everybody is told. The process of a store that is [`resident`] may hold no more.
fn zkv_memory_bytes(scale: Scale) -> u64 {
    scale.pick(8 << 20, 32 << 20, 512 << 20)
}

/// Turns of a step; a load is as many slices of the same inserts.
const TURNS: u32 = 3;

/// Seconds of a turn that is not a load: whoever is fast works as long as the others, and so meets what its work leaves to do later.
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

/// 16.8 million pairs of 8 B + 8 B in random order, 32 MiB, 2 threads, log off for all and on for all; and both with so
/// much less memory that the process of this project's store has 32 MiB resident.
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
        x: Some(LOG_OFF),
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
        x: Some(RANDOM),
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: true,
    }],
    facts: &[],
    absent: &[("LeanStore", "not packaged"), ("TwoTree", "not packaged")],
    judge: bftree_judge,
};

const BFTREE_PHASES: [&str; 4] = ["get", "update", "mix", "scan:32"];

fn contenders(scale: Scale, memory_bytes: u64, log: bool) -> Vec<Contender> {
    let contender = |(series, design, by): (&str, &str, u64)| {
        let mut store = StorePlan::new(String::new(), memory_bytes, 0);
        design.clone_into(&mut store.design);
        store.log = log;
        let by =
            if log && design == "bf-tree" { scale.pick(4, BFTREE_LOGGED, BFTREE_LOGGED) } else { scale.pick(1, by, 1) };
        Contender::new(series, store).scaled_down(by)
    };
    std::iter::once((ZONDA, "zonda", 1)).chain(PEERS).map(contender).collect()
}

/// A store of this project.
fn our_store(series: &str, design: &str, kind: &str, memory_bytes: u64, log: bool) -> Contender {
    let mut store = StorePlan::new(String::new(), memory_bytes, 0).with("store", kind);
    design.clone_into(&mut store.design);
    store.log = log;
    Contender::new(series, store)
}

/// As [`contenders`], and this project's other designs.
fn all_designs(scale: Scale, memory_bytes: u64, log: bool) -> Vec<Contender> {
    let own = |series, design, kind| our_store(series, design, kind, memory_bytes, log);
    // Past the paper in all that has a default of this project: the paper's sizes are compared in its own experiments.
    let mut zkv = own(OWN_ZKV, "zkv", "zoned");
    zkv.store = zkv.store.with("classes", "large").with("eviction", "fullest").with("memory-shares", "none");
    let mut all = contenders(scale, memory_bytes, log);
    all.extend([own(IN_PLACE, "bftree", "in-place"), own(ON_ZONES, "bftree", "zoned"), zkv]);
    all
}

/// More operations than anybody does in the time of a step.
const OPERATIONS_NO_END: u64 = 1 << 34;

/// A step that ends by time, for everybody after as long; or by `inserts_max` operations if it inserts, since there is room for no more.
fn timed(scale: Scale, workload: &str, inserts_max: u64, threads: usize) -> Step {
    let mut step = Step::new(workload, inserts_max, threads).within(scale.pick(0.2, TURN_SECONDS, TURN_SECONDS));
    let operations_max = if step.inserts() { inserts_max } else { OPERATIONS_NO_END };
    step.operations = scale.pick(500, operations_max, operations_max);
    step
}

fn zkv_races(scale: Scale) -> Vec<Race> {
    const THREADS: usize = 2;
    let records = scale.pick(20_000, 16_800_000, 200_000_000);
    let memory_bytes = zkv_memory_bytes(scale);
    let race = |name: &str, memory_bytes, log| {
        let mut race = Race::new(name, records, THREADS).in_turns(TURNS);
        let steps = ZKV_PHASES.iter().skip(1).map(|phase| timed(scale, phase, records, THREADS));
        race.steps.extend(steps);
        race.contenders = contenders(scale, memory_bytes, log);
        race
    };
    let mut off = race(LOG_OFF, memory_bytes, false);
    off.contenders.push(ZKV_LIKE.contender(scale, memory_bytes));
    let less_bytes = memory_bytes - scale.pick(0, RESIDENT_BESIDE, RESIDENT_BESIDE);
    let [resident, resident_logged] = resident(scale);
    let resident = [race(resident, less_bytes, false), race(resident_logged, less_bytes, true)];
    [off, race(LOG_ON, memory_bytes, true)].into_iter().chain(resident).collect()
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
    let updates = Step::new("update", scale.pick(2_000, OPERATIONS_NO_END, OPERATIONS_NO_END), 2);
    minute.steps.push(updates.over("zipf:0.9").within(scale.pick(0.5, 60.0, 60.0)));
    let mut warm = skewed(scale, WARM, records, 2, memory_bytes).in_turns(TURNS);
    warm.contenders.extend(LIKE.map(|like| like.contender(scale, memory_bytes)));
    for phase in ["get", "mix", "scan:32"] {
        let warming = timed(scale, phase, records, 2).over("zipf:0.9").named(&format!("warming, {phase}"));
        let seconds = scale.pick(0.2, WARMING_SECONDS, WARMING_SECONDS);
        warm.steps.extend([warming.within(seconds), timed(scale, phase, records, 2).over("zipf:0.9")]);
    }
    vec![
        race(RANDOM, false, 2),
        warm,
        race(ONE_THREAD, false, 1),
        race(SORTED, true, 2),
        race(LOGGED, false, 2),
        minute,
        in_memory(scale),
    ]
}

/// Pairs that all engines can keep in memory. They are read for as long as caches are warmed elsewhere, since bf-tree keeps but three of
/// ten pages that it reads; what it still reads is judged, and stands in the column of bytes read.
fn in_memory(scale: Scale) -> Race {
    let records = scale.pick(10_000, 4_000_000, 64_000_000);
    let memory_bytes = scale.pick(8 << 20, 512 << 20, 8 << 30);
    let mut race = skewed(scale, IN_MEMORY, records, 2, memory_bytes).in_turns(TURNS);
    let step = |phase: &str| timed(scale, phase, records, 2).over("zipf:0.9");
    let seconds = scale.pick(0.2, WARMING_SECONDS, WARMING_SECONDS);
    race.steps.extend([step("get").named("warm").within(seconds), step("get"), step("update")]);
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
const ONE_THREAD: &str = "random, 1 thread";
const SORTED: &str = "sorted, 2 threads";
/// Reads by caches that have seen as many: the paper measures a system that is warm (section 6.1).
const WARM: &str = "random, 2 threads, warm";
/// The same with everybody's log on.
const LOGGED: &str = "random, 2 threads, log on";
const MINUTE: &str = "a minute of updates";
const IN_MEMORY: &str = "in memory";
/// A page for each hundredth get.
const STILL_READ_MAX: f64 = 41.0;

/// A store of this project with a budget from which its process holds no more than its peers'. What the processes hold is judged too.
#[derive(Clone, Copy)]
struct Like {
    series: &'static str,
    /// The race it takes part in.
    race: &'static str,
    design: &'static str,
    /// The switch `store`.
    store: &'static str,
    /// At laptop scale.
    budget_mib: u64,
    /// What is judged: step, peer, and how many times as fast.
    against: &'static [(&'static str, &'static str, f64)],
}

const LIKE: [Like; 4] = [
    Like {
        series: "zonda at bf-tree's RSS",
        race: WARM,
        design: "zonda",
        store: "zoned",
        budget_mib: 68,
        against: &[("get", "bf-tree", 1.2), ("mix", "bf-tree", 1.2)],
    },
    Like {
        series: "zonda at RocksDB's RSS",
        race: WARM,
        design: "zonda",
        store: "zoned",
        budget_mib: 80,
        against: &[("scan:32", "RocksDB", 3.0)],
    },
    Like { series: "mini-pages in place at bf-tree's RSS", store: "in-place", ..MINI_PAGES_LIKE },
    Like { series: "mini-pages on zones at bf-tree's RSS", store: "zoned", ..MINI_PAGES_LIKE },
];

/// Mini-pages hold less beside their budget than delta buffers do.
const MINI_PAGES_LIKE: Like = Like {
    series: "",
    race: WARM,
    design: "bftree",
    store: "",
    budget_mib: 74,
    against: &[("get", "bf-tree", 1.2), ("mix", "bf-tree", 1.2), ("scan:32", "RocksDB", 3.0)],
};

/// Told 32 MiB, the process of `bf-tree` holds a quarter more than that of this project's store.
const ZKV_LIKE: Like = Like {
    series: "zonda at bf-tree's RSS",
    race: LOG_OFF,
    design: "zonda",
    store: "zoned",
    budget_mib: 39,
    against: &[("zkv-b", "bf-tree", 1.2), ("zkv-c", "bf-tree", 1.2), ("mix", "bf-tree", 1.2)],
};

impl Like {
    fn contender(self, scale: Scale, memory_bytes: u64) -> Contender {
        let memory_bytes = scale.pick(memory_bytes, self.budget_mib << 20, memory_bytes);
        our_store(self.series, self.design, self.store, memory_bytes, false)
    }

    fn judge(self, results: &Results) -> Vec<Verdict> {
        let judge = |&(phase, peer, bound): &(&'static str, &'static str, f64)| {
            let over = |metric| {
                let value = |series| results.value(&cell(series, self.race, phase, metric));
                Some(value(self.series)? / value(peer)?)
            };
            let (own, of) = (self.series, format!("{phase}, {}", self.race));
            let speed =
                over(Metric::Kops).map(|ratio| Verdict::at_least(format!("{of}: {own} / {peer}"), ratio, bound, "x"));
            let held = over(Metric::Rss)
                .map(|ratio| Verdict::at_most(format!("{of}: memory of {own} / {peer}"), ratio, 1.0, "x"));
            [speed, held]
        };
        self.against.iter().flat_map(judge).flatten().collect()
    }
}

fn kops(results: &Results, x: &'static str, series: &'static str, phase: &'static str) -> Option<f64> {
    results.value(&cell(series, x, phase, Metric::Kops))
}

/// The best of those peers that ran, and how they are named in a target, with those that did not; `None` when nobody did.
fn best_of(peers: &[(&str, Option<f64>)]) -> Option<(f64, String)> {
    let best = peers.iter().filter_map(|(_, speed)| *speed).reduce(f64::max)?;
    let names = |ran: bool| {
        let those = peers.iter().filter(|(_, speed)| speed.is_some() == ran).map(|(name, _)| *name);
        those.collect::<Vec<_>>().join(", ")
    };
    let absent = names(false);
    let absent = if absent.is_empty() { absent } else { format!(" (without {absent})") };
    Some((best, format!("{}{absent}", names(true))))
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
    for x in [LOG_OFF, LOG_ON].into_iter().chain(resident(results.scale)) {
        verdicts.extend(ratios.iter().filter_map(|(phase, peers, bound)| {
            let speeds: Vec<_> = peers.iter().map(|peer| (*peer, kops(results, x, peer, phase))).collect();
            let (best, names) = best_of(&speeds)?;
            let target = format!("{phase}, {x}: zonda / best of {names}");
            Some(Verdict::at_least(target, kops(results, x, ZONDA, phase)? / best, *bound, "x"))
        }));
        verdicts.extend(steadiness(results, ZONDA, x, LOAD));
        let cpu: Cell = cell(ZONDA, x, LOAD, Metric::Cpu);
        verdicts.extend(results.value(&cpu).map(|us| Verdict::at_most(format!("CPU per insert, {x}"), us, 5.0, "us")));
    }
    verdicts.extend(ZKV_LIKE.judge(results));
    let told_mib = zkv_memory_bytes(results.scale) as f64 / f64::from(1 << 20);
    let judged = resident(results.scale).into_iter().filter(|_| results.scale != Scale::Paper);
    verdicts.extend(judged.filter_map(|x| {
        let held = |phase: &&'static str| results.value(&cell(ZONDA, x, phase, Metric::Rss));
        let most = ZKV_PHASES.iter().filter_map(held).reduce(f64::max)?;
        Some(Verdict::at_most(format!("{x}: zonda's process"), most, told_mib, "MiB"))
    }));
    verdicts
}

/// What is judged: step, race, peer, and how many times as fast.
fn bftree_targets() -> Vec<(&'static str, &'static str, &'static str, f64)> {
    /// Wherever more than memory is read.
    const TARGETS: [(&str, &str, f64); 4] =
        [("get", "bf-tree", 1.2), ("mix", "bf-tree", 1.2), ("update", "RocksDB", 2.0), ("scan:32", "RocksDB", 3.0)];
    let everywhere = [WARM, RANDOM, ONE_THREAD, SORTED].into_iter();
    everywhere
        .flat_map(|x| TARGETS.map(|(phase, peer, bound)| (phase, x, peer, bound)))
        // Caches that are warm are only read and scanned with.
        .filter(|(phase, x, ..)| (*phase, *x) != ("update", WARM))
        .chain([
            ("update", LOGGED, "RocksDB", 2.0),
            ("update", MINUTE, "RocksDB", 2.0),
            ("get", IN_MEMORY, "bf-tree", 1.0),
            ("update", IN_MEMORY, "bf-tree", 1.0),
        ])
        .collect()
}

fn bftree_judge(results: &Results) -> Vec<Verdict> {
    let ratios = bftree_targets();
    let mut verdicts = Vec::new();
    for own in [ZONDA, IN_PLACE, ON_ZONES] {
        verdicts.extend(ratios.iter().filter_map(|&(phase, x, peer, bound)| {
            let ratio = kops(results, x, own, phase)? / kops(results, x, peer, phase)?;
            Some(Verdict::at_least(format!("{phase}, {x}: {own} / {peer}"), ratio, bound, "x"))
        }));
        verdicts.extend(steadiness(results, own, MINUTE, "update"));
    }
    verdicts.extend(LIKE.into_iter().flat_map(|like| like.judge(results)));
    let still_read = results.value(&cell("bf-tree", IN_MEMORY, "get", Metric::Read));
    let all_in_memory =
        |bytes| Verdict::at_most(format!("get, {IN_MEMORY}: bf-tree still reads"), bytes, STILL_READ_MAX, "B");
    verdicts.extend(still_read.map(all_in_memory));
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
    use std::sync::Arc;

    use zonda_bench::progress::Progress;
    use zonda_bench::race::{Outcome, Row};
    use zonda_bench::repro::Point;
    use zonda_bench::subject::MapSubject;
    use zonda_bench::{DataSet, Order, Phase, PhaseReport, Subject, Workload};
    use zonda_rt::Seed;

    use super::*;

    #[test]
    fn everybody_does_the_same_with_the_same_memory() {
        for experiment in [ZKV, BFTREE] {
            for scale in Scale::ALL {
                for race in (experiment.races)(scale) {
                    let own = if experiment.name == BFTREE.name { 4 } else { 1 };
                    let like = LIKE.iter().chain([&ZKV_LIKE]).filter(|like| like.race == race.id).count();
                    assert_eq!(race.contenders.len(), PEERS.len() + own + like, "{}", race.id);
                    let memory_bytes = race.contenders[0].store.memory_bytes;
                    let told = &race.contenders[..PEERS.len() + own];
                    assert!(told.iter().all(|contender| contender.store.memory_bytes == memory_bytes));
                    assert!(race.steps.iter().all(|step| step.slice(0, 1).is_ok()), "{}", race.id);
                }
            }
        }
    }

    /// Who is fast would else work for a shorter time than the others, and leave what follows from its work to nobody's turn.
    #[test]
    fn what_ends_by_time_ends_by_operations_only_where_it_inserts() {
        for scale in [Scale::Laptop, Scale::Paper] {
            for race in [zkv_races(scale), bftree_races(scale)].concat() {
                for step in race.steps.iter().filter(|step| step.seconds_max.is_some()) {
                    let by = race.contenders.iter().map(|contender| contender.scale_down).fold(1, u64::max);
                    let has_no_end = step.operations / by >= 1 << 30;
                    assert_eq!(has_no_end, !step.inserts(), "{}: {}", race.id, step.phase);
                    assert!(has_no_end || step.operations <= race.records, "{}: {}", race.id, step.phase);
                }
            }
        }
        let tiny = [zkv_races(Scale::Tiny), bftree_races(Scale::Tiny)].concat();
        assert!(tiny.iter().flat_map(|race| &race.steps).all(|step| step.operations <= 20_000));
    }

    /// With the log on it does what two threads' waits allow, and so a part; with no smaller share of it in memory.
    #[test]
    fn bf_tree_runs_with_the_log_on_too() {
        for race in [zkv_races(Scale::Laptop), bftree_races(Scale::Laptop), zkv_races(Scale::Paper)].concat() {
            let its = race.contenders.iter().find(|contender| contender.series == "bf-tree").unwrap();
            assert_eq!(its.scale_down, if its.store.log { BFTREE_LOGGED } else { 1 }, "{}", race.id);
            let memory_bytes = its.store.memory_bytes / its.scale_down;
            // No contender gets less than 2 MiB.
            assert!(memory_bytes >= 2 << 20 || race.x.contains("resident"), "{}", race.id);
            let can = (crate::engines::ALL.unavailable)(&its.store).is_none();
            assert_eq!(can, memory_bytes.is_power_of_two(), "{}: whatever its log", race.id);
        }
    }

    /// A target about a step or a peer that no race has would never be judged.
    #[test]
    fn targets_are_about_something_that_is_run() {
        let races = bftree_races(Scale::Laptop);
        for (phase, x, peer, _) in bftree_targets() {
            let race = races.iter().find(|race| race.x == x).unwrap();
            assert!(race.steps.iter().any(|step| step.phase == phase), "{phase} in {x}");
            assert!(race.contenders.iter().any(|contender| contender.series == peer), "{peer} in {x}");
        }
        assert!(
            bftree_targets().contains(&("update", MINUTE, "RocksDB", 2.0)),
            "past what a few seconds leave to do later"
        );
    }

    /// Bars of one step that several races have would be of whichever comes first.
    #[test]
    fn a_figure_shows_one_race() {
        for experiment in [ZKV, BFTREE] {
            let races = (experiment.races)(Scale::Laptop);
            for figure in experiment.figures {
                assert_eq!(races.iter().filter(|race| figure.x.is_none_or(|x| x == race.x)).count(), 1);
            }
        }
    }

    #[test]
    fn a_target_names_those_that_ran() {
        let best = best_of(&[("LMDB", Some(2.0)), ("redb", Some(3.0))]);
        assert_eq!(best, Some((3.0, "LMDB, redb".to_owned())));
        let best = best_of(&[("RocksDB", None), ("LMDB", Some(2.0)), ("bf-tree", None)]);
        assert_eq!(best, Some((2.0, "LMDB (without RocksDB, bf-tree)".to_owned())));
        assert_eq!(best_of(&[("LMDB", None)]), None);
    }

    /// A process told 512 MiB would never stay within the 32 of a smaller scale; what it holds beside them nobody has measured.
    #[test]
    fn a_resident_process_may_hold_what_others_are_told() {
        for (scale, told_mib, bounds) in [(Scale::Laptop, 32.0, vec![32.0; 2]), (Scale::Paper, 512.0, Vec::new())] {
            let mut results = Results::new(ZKV.name, scale, 1);
            for x in resident(scale) {
                assert!(x.contains(&format!("{told_mib} MiB")), "{x}");
                let race = zkv_races(scale).into_iter().find(|race| race.x == x).unwrap();
                assert!(race.contenders[0].store.memory_bytes < zkv_memory_bytes(scale));
                let row =
                    Row { x: x.to_owned(), series: ZONDA.to_owned(), scale_down: 1, memory_bytes: 1, report: loaded() };
                let outcome = Outcome { rows: vec![row], ..Outcome::default() };
                results.points.push(Point { race, outcome, from: None });
            }
            let verdicts = zkv_judge(&results);
            let held = verdicts.iter().filter(|verdict| verdict.target.ends_with("zonda's process"));
            assert_eq!(held.map(|verdict| verdict.bound).collect::<Vec<_>>(), bounds);
        }
    }

    fn loaded() -> PhaseReport {
        let subject: Arc<dyn Subject> = Arc::new(MapSubject::default());
        let mut data = DataSet::new(8, 8, 10, Order::Random, Seed(1)).unwrap();
        Phase::new(Workload::load(), 10, 1).run(&subject, &mut data, ZONDA, &Progress::hidden()).unwrap()
    }

    #[test]
    fn nothing_is_judged_that_was_not_run() {
        let results = Results::new(ZKV.name, Scale::Laptop, 1);
        assert!(zkv_judge(&results).is_empty() && bftree_judge(&results).is_empty());
    }
}
