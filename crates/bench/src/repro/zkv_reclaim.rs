//! What cleaning costs: updates on devices that are 60, 80 and 90 % live, plain and with relocation merged with buffers.
//!
//! The device is made so large that the loaded leaves are that share of its usable bytes, in 256 zones or more (at scale tiny in fewer).
//! One load and one round of updates settle it; the round after that is judged. A nearly empty device is the yardstick. At 80 % it is also
//! judged how steadily updates go on beside reclaim and checkpoints.

use super::contenders::{ZONDA, zonda};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Results, Scale};
use crate::contest::Step;
use crate::race::Race;
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-reclaim",
    title: "bytes written per update, everything included, by live share",
    source: "beyond the ZKV paper (its section 3.7 leaves cleaning open)",
    races,
    metrics: &[
        Metric::Kops,
        Metric::WrittenAll,
        Metric::Written,
        Metric::Relocated,
        Metric::Log,
        Metric::SlowestSecond,
        Metric::Gap,
    ],
    figures: &[
        Figure {
            name: "uniform",
            title: "bytes written per update, uniform",
            phases: &[UNIFORM],
            x: None,
            axis: Axis::Parameter("live on the device"),
            metric: Metric::WrittenAll,
            log: false,
        },
        Figure {
            name: "hot-range",
            title: "bytes written per update, 80 % on a fifth of the key range",
            phases: &[HOT_RANGE],
            x: None,
            axis: Axis::Parameter("live on the device"),
            metric: Metric::WrittenAll,
            log: false,
        },
    ],
    facts: &[
        model("uniform, 60 %, plain", 111.0, PLAIN, "60 %", UNIFORM),
        model("uniform, 80 %, plain", 124.0, PLAIN, "80 %", UNIFORM),
        model("uniform, 90 %, plain", 180.0, PLAIN, "90 %", UNIFORM),
        model("uniform, 60 %, merged", 104.0, ZONDA, "60 %", UNIFORM),
        model("uniform, 80 %, merged", 103.0, ZONDA, "80 %", UNIFORM),
        model("uniform, 90 %, merged", 104.0, ZONDA, "90 %", UNIFORM),
        model("hot range, 80 %, plain", 240.0, PLAIN, "80 %", HOT_RANGE),
        model("hot range, 90 %, plain", 439.0, PLAIN, "90 %", HOT_RANGE),
        model("hot range, 80 %, merged", 94.0, ZONDA, "80 %", HOT_RANGE),
        model("hot range, 90 %, merged", 107.0, ZONDA, "90 %", HOT_RANGE),
    ],
    absent: &[],
    judge,
};

pub(super) const UNIFORM: &str = "uniform";
pub(super) const HOT_RANGE: &str = "hot-range";
const PLAIN: &str = "plain";

/// Live leaves in percent of the usable bytes; the first is the yardstick.
pub(super) const LIVE_PERCENTS: [u32; 4] = [10, 60, 80, 90];

/// What a simulation of cleaning gave before it was built.
const fn model(what: &'static str, bytes: f64, series: &'static str, x: &'static str, phase: &'static str) -> Fact {
    Fact::model(what, bytes, cell(series, x, phase, Metric::WrittenAll))
}

fn races(scale: Scale) -> Vec<Race> {
    let (records, threads) = (scale.pick(200_000, 4_000_000, 200_000_000), scale.threads());
    let updates = scale.pick(records / 8, records, records);
    let zone_bytes = scale.pick(64 << 10, 256 << 10, 8 << 20);
    let race = |percent: u32| {
        let contender = zonda(Scale::memory_for(records)).logged().with_zones(zone_bytes);
        let race = Race::new(&format!("{percent} %"), records, threads)
            .contender(contender.clone())
            .contender(contender.called(PLAIN).with("merged-relocation", "off"));
        overwritten(race, percent, updates, scale)
    };
    LIVE_PERCENTS.map(race).into()
}

/// With fewer zones, one is too much of the device for a share of live bytes to mean anything.
const ZONES_MIN: u32 = 256;

/// The race on a device that its load fills by `percent`: `updates` uniform ones that settle it and as many that count, then both again
/// over the hot range.
pub(super) fn overwritten(race: Race, percent: u32, updates: u64, scale: Scale) -> Race {
    let threads = race.steps[0].threads;
    let update = |name: &str| Step::new("update", updates, threads).named(name);
    let mut race = race
        .step(update("settle"))
        .step(update(UNIFORM))
        .step(update("settle hot-range").over("hot-range"))
        .step(update(HOT_RANGE).over("hot-range"));
    // How a small store splits its leaves changes by a tenth with what else runs: at scale tiny the fullest must not be refused for it.
    race.live_percent = Some(scale.pick(percent - percent / 8, percent, percent));
    race.zones_min = scale.pick(None, Some(ZONES_MIN), Some(ZONES_MIN));
    race
}

/// What the fullest device may write over what the nearly empty one does.
const AMPLIFICATION_MAX: f64 = 1.15;

fn judge(results: &Results) -> Vec<Verdict> {
    let ratio = |phase| {
        let full = results.value(&cell(ZONDA, "90 %", phase, Metric::WrittenAll))?;
        let empty = results.value(&cell(ZONDA, "10 %", phase, Metric::WrittenAll))?;
        let target = format!("{phase}, 90 % live over nearly empty, merged");
        Some(Verdict::at_most(target, full / empty, AMPLIFICATION_MAX, "x"))
    };
    let mut verdicts: Vec<_> = [UNIFORM, HOT_RANGE].into_iter().filter_map(ratio).collect();
    verdicts.extend(judge_pace(results));
    verdicts
}

/// How steadily updates go on at 80 % live.
pub(super) fn judge_pace(results: &Results) -> Vec<Verdict> {
    let of = |phase| {
        let at_80 = |metric| results.value(&cell(ZONDA, "80 %", phase, metric));
        let target = |what| format!("{phase}, 80 % live: {what}");
        let slowest = at_80(Metric::SlowestSecond);
        let slowest = slowest.map(|share| Verdict::at_least(target("slowest second / median second"), share, 0.5, "x"));
        let gap = at_80(Metric::Gap);
        slowest.into_iter().chain(gap.map(move |ms| Verdict::at_most(target("longest gap"), ms, 1_000.0, "ms")))
    };
    [UNIFORM, HOT_RANGE].into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without what leaves leave empty and without a reserve the fullest device has enough zones already.
    #[test]
    fn the_fullest_device_has_zones_enough() {
        for scale in [Scale::Laptop, Scale::Paper] {
            for race in races(scale) {
                let store = &race.contenders[0].store;
                let zones = race.records * 16 * 10 / 9 / store.zone_bytes.expect("zones have a size");
                assert!(zones >= u64::from(ZONES_MIN), "{zones} zones at scale {}", scale.name());
                assert_eq!(race.zones_min, Some(ZONES_MIN), "a device that turns out to have fewer is refused");
            }
        }
    }
}
