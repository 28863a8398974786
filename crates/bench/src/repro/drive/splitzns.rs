//! The `SplitZNS` paper: what its figures have in common.
//!
//! Figures 3 (migration), 4, 11 and 12 are replays of the files of a simulated LSM-tree on zones of the paper's full size: bytes, no
//! time. The tree is loaded by uniform draws, twice as many as keys, so that its size is the paper's (section 5.3) and stays.

mod controls;
mod driven;
mod fig10;
mod fig11;
mod fig12;
mod fig13;
mod fig14;
mod fig15;
mod fig16;
mod fig17;
mod fig3;
mod fig4;
mod fig9;
mod live;
mod pointer;
mod robust;
mod setup;
mod steps;
mod sustained;
mod told;

use zonda_files::FileError;
use zonda_files::policy::by_name;
use zonda_files::replay::{FreeSpace, ReplayOptions, ReplayReport, replay};
use zonda_files::trace::TraceRecord;

pub(super) use controls::EXPERIMENT as CONTROLS;
pub(super) use driven::printable;
pub(super) use fig3::EXPERIMENT as FIG3;
pub(super) use fig4::EXPERIMENT as FIG4;
pub(super) use fig9::EXPERIMENT as FIG9;
pub(super) use fig10::EXPERIMENT as FIG10;
pub(super) use fig11::EXPERIMENT as FIG11;
pub(super) use fig12::EXPERIMENT as FIG12;
pub(super) use fig13::EXPERIMENT as FIG13;
pub(super) use fig14::EXPERIMENT as FIG14;
pub(super) use fig15::EXPERIMENT as FIG15;
pub(super) use fig16::EXPERIMENT as FIG16;
pub(super) use fig17::EXPERIMENT as FIG17;
pub(super) use live::tables;
pub(super) use pointer::EXPERIMENT as POINTER;
pub(super) use robust::EXPERIMENT as ROBUST;
pub(super) use setup::EXPERIMENT as SETUP;
pub(super) use sustained::EXPERIMENT as SUSTAINED;
pub(super) use told::rocksdb_options;

use super::DriveRow;
use crate::lsm::{LOADED, Load, LsmWorkload};
use crate::repro::Scale;
use crate::{BenchError, Result};

/// Profiles of the live figures: the drive that splits zones, and the conventional one of the same flash.
const PROFILE: &str = "splitzns";
const CONVENTIONAL_PROFILE: &str = "splitzns-conv-20op";
const MIB: u64 = 1 << 20;
const GIB: f64 = (1_u64 << 30) as f64;
/// Sizes of the paper (table 1, sections 3.1 and 5.1), or smaller ones.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Bytes of the drive: 80 GiB.
    capacity: u64,
    /// Bytes of a table, and of a subzone: 32 MiB.
    table: u64,
    /// Distinct keys.
    keys: u64,
    /// Limit of level 1.
    base: u64,
    /// Runs of each point, with seeds one after the other.
    seeds: u64,
}

/// Key and value of the paper.
const PAIR_BYTES: u64 = 16 + 1024;
/// Zones that may be active.
const ACTIVE_MAX: u32 = 24;
/// Cleaning keeps this share free, in percent.
const THRESHOLD: u8 = 20;

impl Setting {
    /// Of section 5: a tree of some 42 GiB. Level 1 has 51 MiB, so that level 4 has five sixths of it: with `RocksDB`'s default of
    /// 256 MiB the levels above it would hold most, and a tenth of what is written would go to subzones.
    fn of(scale: Scale) -> Self {
        Self::with(scale, 41, 1600)
    }

    /// Of section 3: 50 GiB loaded, and nothing said of options, so `RocksDB`'s default for level 1.
    fn of_section_3(scale: Scale) -> Self {
        Self::with(scale, 44, 320)
    }

    fn with(scale: Scale, keys_gib: u64, bases: u64) -> Self {
        let (bytes, tables) = scale.pick((64, 16), (1, 1), (1, 1));
        let gib = 1024 * MIB;
        let capacity = 80 * gib / bytes;
        Self {
            capacity,
            table: 32 * MIB / tables,
            keys: keys_gib * gib / PAIR_BYTES / bytes,
            base: capacity / bases,
            seeds: scale.pick(1, 3, 3),
        }
    }

    /// A zone of so many MiB of the paper's.
    fn zone_bytes(&self, mib: u64) -> u64 {
        mib * self.table / 32
    }

    /// Overwrites, for so many of the paper's million.
    fn writes(&self, millions: u64) -> u64 {
        let of_the_paper = 80 * 1024 * MIB / self.capacity;
        millions * 1_000_000 / of_the_paper
    }

    fn workload(&self, overwrites: u64, skew: f64, seed: u64) -> LsmWorkload {
        LsmWorkload {
            keys: self.keys,
            load: Load::Draws(2 * self.keys),
            pair_bytes: PAIR_BYTES,
            overwrites,
            skew,
            table_bytes: self.table,
            level_bytes: self.base,
            level0_files: 4,
            seed,
        }
    }

    fn options(&self, policy: &str, zone_mib: u64) -> Result<ReplayOptions> {
        let zone_bytes = self.zone_bytes(zone_mib);
        let zones = u32::try_from(self.capacity / zone_bytes).expect("at most 640 zones");
        let policy = by_name(policy).map_err(refused)?;
        Ok(ReplayOptions {
            zone_bytes,
            zones,
            active_max: Some(ACTIVE_MAX.min(zones)),
            reserve_zones: 1,
            threshold_percent: THRESHOLD,
            subzones: u32::try_from(zone_bytes / self.table).expect("at most 32 subzones"),
            free: FreeSpace::EmptyZones,
            measure_from: Some(LOADED.to_owned()),
            ..ReplayOptions::of_the_paper(policy)
        })
    }
}

/// Whether what a live experiment of this paper runs is here; false for all others.
#[cfg(test)]
pub(super) fn has_tools(experiment: &super::DriveExperiment) -> bool {
    match experiment.name.strip_prefix("splitzns-") {
        Some("setup" | "fig13" | "fig14" | "fig15") => live::db_bench::has_tools(),
        Some("fig9" | "fig10" | "fig16" | "fig17" | "controls" | "robust" | "pointer") => driven::has_tools(),
        _ => false,
    }
}

fn refused(error: FileError) -> BenchError {
    BenchError::Model { reason: error.to_string() }
}

/// Replays a trace of this setting.
fn run(trace: &[TraceRecord], options: &ReplayOptions) -> Result<ReplayReport> {
    replay(trace, options).map_err(refused)
}

/// Resets for which something was copied: the paper's collections.
fn collections(report: &ReplayReport) -> f64 {
    (report.resets - report.resets_without_copy) as f64
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / (whole.max(1)) as f64
}

/// The mean of a number over the runs.
fn mean(runs: &[ReplayReport], number: impl Fn(&ReplayReport) -> f64) -> f64 {
    runs.iter().map(number).sum::<f64>() / runs.len().max(1) as f64
}

/// The least and the most of a number over the runs.
fn spread(runs: &[ReplayReport], number: impl Fn(&ReplayReport) -> f64) -> (f64, f64) {
    runs.iter().map(number).fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

/// A row of a replay: no drive.
fn row(series: &str, x: &str) -> DriveRow {
    DriveRow { series: series.to_owned(), x: x.to_owned(), profile: super::REPLAY.to_owned(), ..DriveRow::default() }
}
