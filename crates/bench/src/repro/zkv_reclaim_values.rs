//! What cleaning costs where values lie in the value log: updates on devices that are 60, 80 and 90 % live, beside a nearly empty one.
//!
//! A value that is moved has nothing to be merged with, so cleaning copies what is live in its victims. What it may copy is judged by
//! the bound of cleaning in order of age ([`written_in_order_of_age`]), which knows neither the emptiest zone nor hot from cold.

use super::contenders::{ZONDA, zonda};
use super::fact::cell;
use super::zkv_reclaim::{HOT_RANGE, LIVE_PERCENTS, UNIFORM, judge_pace, overwritten};
use super::{Axis, Experiment, Figure, Metric, Results, Scale};
use crate::race::Race;
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-reclaim-values",
    title: "bytes written per update of a separated value, everything included, by live share",
    source: "beyond the ZKV paper (its section 3.7 leaves cleaning open)",
    races,
    metrics: &[
        Metric::Kops,
        Metric::WrittenAll,
        Metric::Values,
        Metric::Relocated,
        Metric::Log,
        Metric::SlowestSecond,
        Metric::Gap,
    ],
    figures: &[Figure {
        name: "",
        title: "bytes written per update, uniform and with 80 % on a fifth of the key range",
        phases: &[UNIFORM, HOT_RANGE],
        x: None,
        axis: Axis::Parameter("live on the device"),
        metric: Metric::WrittenAll,
        log: false,
    }],
    facts: &[],
    absent: &[],
    judge,
};

/// A block of the value log with its headers and the key.
const VALUE_BYTES: usize = 4_000;

fn races(scale: Scale) -> Vec<Race> {
    let (records, threads) = (scale.pick(5_000, 60_000, 16_000_000), scale.threads());
    let zone_bytes = scale.pick(64 << 10, 256 << 10, 64 << 20);
    let race = |percent: u32| {
        // An eighth of what leaves hold: pairs of key and pointer.
        let contender = zonda(Scale::memory_for(4 * records)).logged().with_zones(zone_bytes);
        let mut race = Race::new(&format!("{percent} %"), records, threads).contender(contender);
        race.data.value_bytes = VALUE_BYTES;
        overwritten(race, percent, records, scale)
    };
    let percents = scale.pick(&LIVE_PERCENTS[..2], &LIVE_PERCENTS[..], &LIVE_PERCENTS[..]);
    percents.iter().copied().map(race).collect()
}

/// What cleaning in order of age writes for a byte of uniform updates on a device of which `live_share` is live: a zone comes up when
/// as much was written as the device has, so `u = exp(-(1 - u) / live_share)` of it is live still, and `1 / (1 - u)` is written.
fn written_in_order_of_age(live_share: f64) -> f64 {
    const ROUNDS: u32 = 200;
    let live = (0..ROUNDS).fold(0.0, |live: f64, _| ((live - 1.0) / live_share).exp());
    1.0 / (1.0 - live)
}

fn judge(results: &Results) -> Vec<Verdict> {
    let of = |phase| {
        let written = |x| results.value(&cell(ZONDA, x, phase, Metric::WrittenAll));
        let over_empty = |(x, live_share): (&'static str, f64)| {
            let target = format!("{phase}, {x} live over nearly empty");
            Some(Verdict::at_most(target, written(x)? / written("10 %")?, written_in_order_of_age(live_share), "x"))
        };
        [("60 %", 0.6), ("80 %", 0.8), ("90 %", 0.9)].into_iter().filter_map(over_empty).collect::<Vec<_>>()
    };
    let verdicts = [UNIFORM, HOT_RANGE].into_iter().flat_map(of);
    verdicts.chain(judge_pace(results)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_where_its_formula_says() {
        for (live_share, live) in [(0.6, 0.324), (0.8, 0.629), (0.9, 0.807)] {
            let found = 1.0 - 1.0 / written_in_order_of_age(live_share);
            assert!((found - live).abs() < 0.005, "{live_share}: {found}");
        }
    }
}
