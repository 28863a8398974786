//! `bench overwrite`: overwriting ten times the data on a device with little room, where every write needs reclaim.

use super::Setting;
use super::fit::{settle, zones_for};
use crate::keys::Order;
use crate::output::Output;
use crate::phase::{DataSet, Phase};
use crate::place::Place;
use crate::progress::Progress;
use crate::report::PhaseReport;
use crate::subject::{Counters, StorePlan};
use crate::verdict::Verdict;
use crate::workload::Workload;
use crate::{Result, show_bytes, show_count};

/// No second may complete fewer operations than this share of the median second.
const SLOWEST_SECOND_SHARE_MIN: f64 = 0.5;

/// No gap without a completion may be longer.
const GAP_MS_MAX: f64 = 1_000.0;

/// Records that the targets are for, and how often these are overwritten.
const RECORDS: u64 = 4_000_000;
const TIMES: u64 = 10;

/// Overwrites on a small device.
#[derive(Clone, Debug)]
pub struct Overwrite {
    setting: Setting,
    /// Records loaded.
    pub records: u64,
    /// How often they are overwritten.
    pub times: u64,
    /// Threads that overwrite.
    pub threads: usize,
    /// Memory budget.
    pub memory_bytes: u64,
    /// Bytes of a zone.
    pub zone_bytes: u64,
}

impl Overwrite {
    /// The experiment at the setting's scale.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let (records, zone_bytes) = setting.scale.pick((RECORDS, 2 << 20), (200_000, 256 << 10));
        let (times, memory_bytes) = setting.scale.pick((TIMES, 8 << 20), (1, 3 << 20));
        Self { setting, records, times, threads: 2, memory_bytes, zone_bytes }
    }

    /// Refuses a number of records for which there cannot be room, before anything is made.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check(&self) -> Result<()> {
        self.setting.check_room(&self.plan("", None), self.records)
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of the store; `Usage` when the data would take more zones than a device has.
    pub fn run(&self, output: &mut Output) -> Result<()> {
        output.command(self.setting.seed.0)?;
        let live_bytes = self.live_bytes_after_load()?;
        let zones = zones_for(&self.plan("mem:", None), live_bytes / 4 * 5)?;
        let (before, report) = self.overwrite(zones, output)?;
        let share = before.usable_bytes as f64 / live_bytes as f64;
        output.line(format!(
            "{zones} zones of {}: usable {} = {share:.3} x live leaves {}",
            show_bytes(self.zone_bytes),
            show_bytes(before.usable_bytes),
            show_bytes(live_bytes),
        ))?;
        output.phases(std::slice::from_ref(&report))?;
        output.line(amplification(&report))?;
        let operations = format!("updates of {} records", show_count(RECORDS));
        let stands_for = Setting::stands_for(report.operations, RECORDS * TIMES, &operations);
        match report.slowest_second_share {
            None => output.line("slowest second: the run was too short to tell")?,
            Some(share) => {
                let verdict = Verdict::at_least("slowest second / median second", share, SLOWEST_SECOND_SHARE_MIN, "x");
                output.verdict(&verdict.unless_too_small(stands_for.as_deref()))?;
            }
        }
        let gap = Verdict::at_most("longest gap without an operation", report.longest_gap_ms, GAP_MS_MAX, "ms");
        output.verdict(&gap.unless_too_small(stands_for.as_deref()))
    }

    fn plan(&self, uri: &str, zones: Option<u32>) -> StorePlan {
        let mut plan = self.setting.plan(uri, self.memory_bytes);
        plan.zones = zones;
        plan.zone_bytes = Some(self.zone_bytes);
        plan
    }

    /// Loads a store with plenty of room, to learn how large the live leaves are. Half the data is overwritten once, so
    /// that what the load left in buffers has reached its leaves: they split no more.
    fn live_bytes_after_load(&self) -> Result<u64> {
        let place = Place::temporary(&self.setting.directory)?;
        let mut data = DataSet::new(8, 8, self.records, Order::Random, self.setting.seed)?;
        let subject = self.plan(place.uri(), None).create()?;
        settle(&subject, &mut data, self.records)?;
        let live_bytes = subject.counters()?.leaf_bytes;
        subject.close()?;
        Ok(live_bytes)
    }

    fn loaded(&self, plan: &StorePlan, progress: &Progress) -> Result<(std::sync::Arc<dyn crate::Subject>, DataSet)> {
        let mut data = DataSet::new(8, 8, self.records, Order::Random, self.setting.seed)?;
        let subject = plan.create()?;
        let load = Phase::new(Workload::load(), self.records, self.threads);
        load.run(&subject, &mut data, &self.setting.design, progress)?;
        Ok((subject, data))
    }

    fn overwrite(&self, zones: u32, output: &Output) -> Result<(Counters, PhaseReport)> {
        let place = Place::temporary(&self.setting.directory)?;
        let plan = self.plan(place.uri(), Some(zones));
        let (subject, mut data) = self.loaded(&plan, &output.progress("load", self.records))?;
        let before = subject.counters()?;
        let phase = Phase::new(Workload::named("update")?, self.records * self.times, self.threads);
        let report =
            phase.run(&subject, &mut data, &self.setting.design, &output.progress("overwrite", phase.operations))?;
        data.verify_all(&subject)?;
        subject.close()?;
        Ok((before, report))
    }
}

/// Device bytes per user byte, by cause.
fn amplification(report: &PhaseReport) -> String {
    let user_bytes = (report.operations * 16).max(1) as f64;
    let by = report.written_by;
    let causes = [
        ("flush", by.flush),
        ("relocation", by.relocation),
        ("log", by.log),
        ("journal", by.journal),
        ("image", by.image),
        ("headers", by.headers),
    ];
    let parts: Vec<_> =
        causes.iter().map(|(name, bytes)| format!("{name} {:.2}", *bytes as f64 / user_bytes)).collect();
    let total = report.written_bytes_per_operation / 16.0;
    format!("write amplification {total:.2} x: {}", parts.join(", "))
}
