//! Lookups, updates and scans of every design, ZKV's too, and what they cost the device. Figure 1 shows the same three throughputs.

use super::bftree::{ABSENT_BUT_ROCKSDB, BDTREE, BFTREE, BTREE, METRICS, race, step, with_rocksdb};
use super::contenders::{ROCKSDB, zkv};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig6",
    title: "lookups, updates and scans, with device bytes",
    source: "Bf-Tree figures 1 and 6, section 6.3",
    races,
    metrics: &METRICS,
    figures: &[
        Figure {
            name: "",
            title: "throughput",
            phases: &PHASES,
            x: None,
            axis: Axis::Phase,
            metric: Metric::Kops,
            log: true,
        },
        Figure {
            name: "read",
            title: "bytes read per operation",
            phases: &PHASES,
            x: None,
            axis: Axis::Phase,
            metric: Metric::Read,
            log: false,
        },
        Figure {
            name: "written",
            title: "bytes written per operation",
            phases: &PHASES,
            x: None,
            axis: Axis::Phase,
            metric: Metric::WrittenAll,
            log: false,
        },
    ],
    facts: &[
        Fact::ratio("updates: Bf-Tree / B-Tree", 6.0, kops(BFTREE, "update"), kops(BTREE, "update")),
        Fact::ratio("lookups: Bf-Tree / B-Tree", 2.0, kops(BFTREE, "get"), kops(BTREE, "get")),
        Fact::side("updates: Bf-Tree / Bd-Tree", Said::More, kops(BFTREE, "update"), kops(BDTREE, "update")),
        Fact::side("scans: Bf-Tree / B-Tree", Said::Same, kops(BFTREE, "scan:32"), kops(BTREE, "scan:32")),
        Fact::ratio("scans: Bf-Tree / RocksDB", 2.5, kops(BFTREE, "scan:32"), kops(ROCKSDB, "scan:32")),
        Fact::ratio("lookups: Bf-Tree / RocksDB", 2.0, kops(BFTREE, "get"), kops(ROCKSDB, "get")),
        Fact::side("updates: Bd-Tree / RocksDB", Said::Same, kops(BDTREE, "update"), kops(ROCKSDB, "update")),
    ],
    absent: &ABSENT_BUT_ROCKSDB,
    judge: no_targets,
};

/// The same under the number of the paper's first figure.
pub(super) const FIGURE_1: Experiment = Experiment { name: "bftree-fig1", ..EXPERIMENT };

const PHASES: [&str; 3] = ["get", "update", "scan:32"];

const fn kops(series: &'static str, phase: &'static str) -> super::Cell {
    cell(series, "", phase, Metric::Kops)
}

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let mut race = race("", scale, threads).in_turns(4);
    race.steps.extend(PHASES.map(|phase| step(phase, scale, threads)));
    race.id = "pairs".into();
    race.contenders = with_rocksdb(scale.bftree_memory());
    race.contenders.push(zkv(scale.bftree_memory()));
    vec![race]
}
