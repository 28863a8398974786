//! What the experiments of the CAZA paper have in common: one replay is a trace, a policy, a threshold and a limit of active zones.
//!
//! A row is the mean over the traces of a source; `seeds` says how far they lie apart. Replays are exact: the same trace gives the
//! same figures on every machine. Throughput, latency and stalls no replay can know, and table 1 is not replayed.

use zonda_files::policy::by_name;
use zonda_files::replay::{ORACLE, ReplayOptions, ReplayReport, SHARES, replay, replay_oracle};
use zonda_files::trace::TraceRecord;

use super::made::Maker;
use super::{DriveRow, Point};
use crate::Result;
use crate::lsm::{self, LOADED, LsmWorkload};
use crate::repro::Scale;
use crate::traces;

/// The paper's baseline, its policy, three of ours, and how far there is to go.
pub(super) const POLICIES: [&str; 6] = [LIZA, CAZA, LEVELS, LEVEL_KEYS, LASTING, ORACLE];
pub(super) const LIZA: &str = "liza-caza";
pub(super) const CAZA: &str = "caza";
pub(super) const LEVELS: &str = "levels";
pub(super) const LEVEL_KEYS: &str = "level-keys";
pub(super) const LASTING: &str = "lasting";
/// The paper's thresholds, in percent.
pub(super) const THRESHOLDS: [u8; 5] = [5, 10, 15, 20, 25];
/// Where the traces are from.
pub(super) const SOURCES: [Source; 2] = [Source::Recorded, Source::Simulated];
/// No limit of active zones, and the one of a ZN540.
pub(super) const LIMITS: [Option<u32>; 2] = [None, Some(14)];

pub(super) const COPIED: &str = "copied GB";
pub(super) const AMPLIFICATION: &str = "amplification";
pub(super) const WITHOUT_COPY: &str = "without copy %";
pub(super) const ZONES: &str = "zones of inputs";
pub(super) const INVALIDATED: &str = "invalidated MB per zone";

/// Where traces come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Stock `db_bench` through the plugin at 1/32, lengths multiplied.
    Recorded,
    /// The LSM-tree of [`lsm`], at full size.
    Simulated,
}

impl Source {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Simulated => "simulated",
        }
    }
}

/// What is replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) source: Source,
    pub(super) policy: &'static str,
    pub(super) active: Option<u32>,
    pub(super) threshold: u8,
}

impl Setting {
    /// Its place on the x axis.
    pub(super) fn x(&self) -> String {
        let active = self.active.map_or(String::new(), |zones| format!(", {zones} active"));
        format!("{}{active}, {} %", self.source.name(), self.threshold)
    }

    /// The point of this setting; `rows` makes rows of its replays.
    pub(super) fn point(self, scale: Scale, rows: fn(&Setting, &[ReplayReport]) -> Vec<DriveRow>) -> Point {
        let run = move |seed| {
            let reports = self.replays(scale, seed)?;
            let seeds = reports.len() as u64;
            Ok(rows(&self, &reports).into_iter().map(|row| row.option("seeds", seeds)).collect())
        };
        Point::new(format!("{} {}", self.policy, self.x()), Maker::Replay, run)
    }

    fn replays(&self, scale: Scale, seed: u64) -> Result<Vec<ReplayReport>> {
        let count = match self.source {
            Source::Recorded => traces::RECORDED_COUNT as u64,
            Source::Simulated => 3,
        };
        (0..scale.pick(1, count, count)).map(|nth| self.replay(scale, seed, nth)).collect()
    }

    fn replay(&self, scale: Scale, seed: u64, nth: u64) -> Result<ReplayReport> {
        let (trace, by) = self.trace(scale, seed, nth)?;
        let policy = by_name(if self.policy == ORACLE { LIZA } else { self.policy })?;
        let options = ReplayOptions {
            zone_bytes: traces::ZONE_BYTES / scale.pick(TINY, 1, 1),
            threshold_percent: self.threshold,
            active_max: self.active,
            scale: by,
            measure_from: Some(LOADED.to_owned()),
            ..ReplayOptions::of_the_paper(policy)
        };
        let report = if self.policy == ORACLE { replay_oracle(&trace, &options) } else { replay(&trace, &options) };
        Ok(report?)
    }

    /// The trace, and what its lengths are multiplied by. A recorded one is the same for every seed.
    fn trace(&self, scale: Scale, seed: u64, nth: u64) -> Result<(Vec<TraceRecord>, u64)> {
        if scale == Scale::Tiny {
            return Ok((lsm::trace(tiny(seed)), 1));
        }
        match self.source {
            Source::Recorded => Ok((traces::read(&format!("caza:{}", nth + 1))?, traces::RECORDED_SCALE)),
            Source::Simulated => Ok((lsm::trace(LsmWorkload::of_the_caza_paper(1, seed + nth)), 1)),
        }
    }
}

/// The tiny scale has zones of a sixteenth, so much less data, and fewer tables.
const TINY: u64 = 16;

fn tiny(seed: u64) -> LsmWorkload {
    let full = LsmWorkload::of_the_caza_paper(1, seed);
    LsmWorkload {
        keys: full.keys / TINY,
        overwrites: full.overwrites / TINY,
        table_bytes: full.table_bytes / 4,
        level_bytes: full.level_bytes / TINY,
        ..full
    }
}

/// All settings of these policies, sources, limits and thresholds.
pub(super) fn settings(policies: &[&'static str], limits: &[Option<u32>], thresholds: &[u8]) -> Vec<Setting> {
    let mut all = Vec::new();
    for source in SOURCES {
        for &active in limits {
            for &threshold in thresholds {
                all.extend(policies.iter().map(|&policy| Setting { source, policy, active, threshold }));
            }
        }
    }
    all
}

/// Points of settings; at the tiny scale, where both sources are the same, of half of them.
pub(super) fn points(
    scale: Scale,
    settings: Vec<Setting>,
    rows: fn(&Setting, &[ReplayReport]) -> Vec<DriveRow>,
) -> Vec<Point> {
    let is_wanted = |setting: &Setting| scale != Scale::Tiny || setting.source == Source::Simulated;
    settings.into_iter().filter(is_wanted).map(|setting| setting.point(scale, rows)).collect()
}

/// A row with the mean of a figure over all replays, and its extremes.
pub(super) fn with_mean(
    row: DriveRow,
    name: &str,
    reports: &[ReplayReport],
    of: impl Fn(&ReplayReport) -> f64,
) -> DriveRow {
    let values: Vec<f64> = reports.iter().map(of).collect();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.number(name, mean).number(&format!("{name}, least"), low).number(&format!("{name}, most"), high)
}

/// The invalid shares of zones as labels: parts of twenty.
pub(super) fn share_labels() -> Vec<String> {
    (0..SHARES).map(|part| format!("{}", part as f64 / 20.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{DriveResults, caza_fig3, caza_fig4, caza_fig5, caza_fig6};
    use super::*;

    /// What a policy costs on a drive with few active zones is asked of every figure.
    #[test]
    fn every_figure_is_run_and_judged_without_a_limit_of_active_zones_and_with_one() {
        for figure in [&caza_fig3::EXPERIMENT, &caza_fig4::EXPERIMENT, &caza_fig5::EXPERIMENT, &caza_fig6::EXPERIMENT] {
            let points = (figure.points)(Scale::Laptop).unwrap();
            let verdicts = (figure.judge)(&DriveResults::new(figure.name, Scale::Laptop));
            for place in settings(&POLICIES, &LIMITS, &[15]) {
                let (name, x) = (figure.name, place.x());
                assert!(points.iter().any(|point| point.id == format!("{} {x}", place.policy)), "{name}: {place:?}");
                assert!(verdicts.iter().any(|verdict| verdict.target.starts_with(&x)), "{name}: target of {x}");
            }
        }
    }
}
