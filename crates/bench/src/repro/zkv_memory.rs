//! Where memory goes: the same store with memory that follows the work, and with the paper's fixed shares, each at one kind of work after a
//! load.
//!
//! Memory that follows should be in leaf buffers where everything is inserted and in caches where everything is read. What that is worth is
//! bytes per operation, which do not depend on how busy the machine is.

use super::contenders::zkv;
use super::{Axis, Experiment, Figure, Metric, Results, Scale};
use crate::contest::Step;
use crate::race::Race;
use crate::subject::MemoryBy;
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-memory",
    title: "where memory is after one kind of work: following it, and in fixed shares",
    source: "beyond the ZKV paper (its section 4.1 fixes the shares)",
    races,
    metrics: &[Metric::WrittenAll, Metric::Written, Metric::Read, Metric::LeafReads],
    figures: &[
        Figure {
            name: "written",
            title: "bytes written per operation",
            phases: &PHASES,
            x: None,
            axis: Axis::Phase,
            metric: Metric::WrittenAll,
            log: false,
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
    ],
    facts: &[],
    absent: &[],
    judge,
};

const FOLLOWS: &str = "follows";
const FIXED: &str = "1:3:4";

const INSERTS: &str = "inserts";
const READS: &str = "reads, uniform";
const SKEWED: &str = "reads, skewed";
const SCANS: &str = "scans";
const MIXED: &str = "mixed";
const PHASES: [&str; 5] = [INSERTS, READS, SKEWED, SCANS, MIXED];

fn races(scale: Scale) -> Vec<Race> {
    let (records, memory_bytes, threads) = (scale.records(), scale.memory(), scale.threads());
    let work = |phase: &str| match phase {
        INSERTS => Step::new("zkv-a", scale.writes(), threads),
        READS => Step::new("get", scale.writes(), threads),
        SKEWED => Step::new("get", scale.writes(), threads).over("zipf:0.9"),
        // Until memory has come to rest.
        SCANS => Step::new("scans", 2 * scale.scans(), threads).over("zipf:0.9"),
        _ => Step::new("mix", scale.writes(), threads).over("zipf:0.9"),
    };
    let race = |phase: &str| {
        Race::new(phase, records, threads)
            .contender(zkv(memory_bytes).called(FOLLOWS).with("memory-shares", "none"))
            .contender(zkv(memory_bytes).called(FIXED))
            .step(work(phase).named(phase))
    };
    PHASES.map(race).into()
}

/// Of the memory that is not pinned and in use, so much is nearly all.
const NEARLY_ALL: f64 = 0.8;

/// What followed must be where the work is.
fn judge(results: &Results) -> Vec<Verdict> {
    let share = |phase, of: fn(&MemoryBy) -> u64| {
        let memory = results.row(FOLLOWS, phase, phase)?.report.memory_by?;
        Some(of(&memory) as f64 / (memory.buffers + memory.filter + memory.caches()).max(1) as f64)
    };
    let at_least = |target: String, share: Option<f64>| Some(Verdict::at_least(target, share?, NEARLY_ALL, "of it"));
    let buffered = at_least(format!("{INSERTS}: in buffers and filter"), share(INSERTS, |by| by.buffers + by.filter));
    let cached =
        [READS, SKEWED, SCANS].map(|phase| at_least(format!("{phase}: in caches"), share(phase, MemoryBy::caches)));
    buffered.into_iter().chain(cached.into_iter().flatten()).collect()
}
