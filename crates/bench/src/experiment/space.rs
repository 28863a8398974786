//! `bench space`: device bytes per user byte after a random load, a sorted load, and deleting most of it; and how long a scan of
//! everything takes when most of what it passes is deleted.
//!
//! Judged are the bytes that the store holds live on the device after a checkpoint: leaves, large values, the checkpoint
//! itself (which holds what buffers have not yet merged into leaves) and the log that recovery would read. The log is
//! bounded by the memory budget, not by the data, so without the checkpoint the figure would say more about the size of the
//! experiment. What lies dead in zones until reclaim needs them is printed beside it, as the file system sees it.

use std::sync::Arc;

use zonda_rt::now;

use super::Setting;
use crate::keys::Order;
use crate::output::Output;
use crate::phase::{DataSet, Phase};
use crate::place::Place;
use crate::subject::Subject;
use crate::verdict::Verdict;
use crate::workload::Workload;
use crate::{BenchError, Result, show_bytes};

/// After a random load, and again after deletes and `compact`.
const RANDOM_MAX: f64 = 1.7;

/// After a sorted load.
const SORTED_MAX: f64 = 1.15;

/// One record of this many survives the deletes.
const KEPT_ONE_IN: u64 = 10;

/// A scan of everything after the deletes, in times of one before them.
const SCAN_MAX: f64 = 1.5;

/// Records that the targets are for.
const RECORDS: u64 = 4_000_000;

/// Space amplification in three situations.
#[derive(Clone, Debug)]
pub struct Space {
    setting: Setting,
    /// Records loaded.
    pub records: u64,
    /// Memory budget.
    pub memory_bytes: u64,
}

impl Space {
    /// The experiment at the setting's scale.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let records = setting.scale.pick(RECORDS, 50_000);
        Self { setting, records, memory_bytes: 8 << 20 }
    }

    /// Refuses a number of records for which there cannot be room, before anything is made.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check(&self) -> Result<()> {
        self.setting.check_room(&self.setting.plan("", self.memory_bytes), self.records)
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn run(&self, output: &mut Output) -> Result<()> {
        output.command(self.setting.seed.0)?;
        self.random_and_deleted(output)?;
        self.sorted(output)
    }

    /// A target, unless there are fewer records than it is for.
    fn judge(&self, output: &mut Output, verdict: Verdict) -> Result<()> {
        let stands_for = Setting::stands_for(self.records, RECORDS, "records");
        output.verdict(&verdict.unless_too_small(stands_for.as_deref()))
    }

    fn random_and_deleted(&self, output: &mut Output) -> Result<()> {
        let place = Place::temporary(&self.setting.directory)?;
        let (subject, data) = self.load(&place, Order::Random, output)?;
        let loaded = measure(&subject, &place, data.user_bytes(), "after random load", output)?;
        self.judge(output, Verdict::at_most("device bytes / user bytes after random load", loaded, RANDOM_MAX, "x"))?;
        let before = scan_all(&subject, data.records(), "loaded", output)?;
        let kept = self.delete(&subject, &data, |index| !index.is_multiple_of(KEPT_ONE_IN))?;
        let after = scan_all(&subject, kept, "90 % deleted", output)?;
        let ratio = after / before.max(f64::EPSILON);
        self.judge(output, Verdict::at_most("scan of everything, 90 % deleted / before", ratio, SCAN_MAX, "x"))?;
        subject.compact()?;
        scan_all(&subject, kept, "90 % deleted and compact", output)?;
        let user_bytes = data.user_bytes() / data.records() * kept;
        let ratio = measure(&subject, &place, user_bytes, "after deleting 90 % and compact", output)?;
        self.judge(
            output,
            Verdict::at_most("device bytes / user bytes after deletes and compact", ratio, RANDOM_MAX, "x"),
        )?;
        self.delete(&subject, &data, |index| index.is_multiple_of(KEPT_ONE_IN))?;
        let after = scan_all(&subject, 0, "all deleted", output)?;
        let ratio = after / before.max(f64::EPSILON);
        self.judge(output, Verdict::at_most("scan of everything, all deleted / before", ratio, SCAN_MAX, "x"))?;
        subject.close()
    }

    fn sorted(&self, output: &mut Output) -> Result<()> {
        let place = Place::temporary(&self.setting.directory)?;
        let (subject, data) = self.load(&place, Order::Sorted, output)?;
        let ratio = measure(&subject, &place, data.user_bytes(), "after sorted load", output)?;
        self.judge(output, Verdict::at_most("device bytes / user bytes after sorted load", ratio, SORTED_MAX, "x"))?;
        subject.close()
    }

    fn load(&self, place: &Place, order: Order, output: &Output) -> Result<(Arc<dyn Subject>, DataSet)> {
        let mut data = DataSet::new(8, 8, self.records, order, self.setting.seed)?;
        let subject = self.setting.plan(place.uri(), self.memory_bytes).create()?;
        let progress = output.progress("load", self.records);
        Phase::new(Workload::load(), self.records, 1).run(&subject, &mut data, &self.setting.design, &progress)?;
        subject.sync()?;
        Ok((subject, data))
    }

    /// Deletes records of these numbers, which are scattered among the keys; returns how many are not deleted.
    fn delete(&self, subject: &Arc<dyn Subject>, data: &DataSet, which: impl Fn(u64) -> bool) -> Result<u64> {
        let (mut key, mut left) = (Vec::new(), data.records());
        for index in (0..data.records()).filter(|&index| which(index)) {
            data.keys().key(index, &mut key);
            subject.delete(&key)?;
            left -= 1;
        }
        Ok(left)
    }
}

/// Reads the whole store, counts, and says how long it took, in seconds.
fn scan_all(subject: &Arc<dyn Subject>, expected: u64, when: &str, output: &mut Output) -> Result<f64> {
    let start = now();
    let pairs = subject.scan(&[], u64::MAX, &mut |_, _| Ok(()))?;
    let seconds = now().since(start).as_secs_f64();
    if pairs != expected {
        return Err(BenchError::Wrong {
            index: pairs,
            what: format!("is the first missing: {expected} pairs should be left"),
        });
    }
    output.line(format!("{when}: a scan of everything finds {pairs} pairs in {seconds:.2} s"))?;
    Ok(seconds)
}

/// Live device bytes over `user_bytes`.
fn measure(subject: &Arc<dyn Subject>, place: &Place, user_bytes: u64, when: &str, output: &mut Output) -> Result<f64> {
    let written_before = subject.counters()?.written.checkpoint();
    subject.checkpoint()?;
    let counters = subject.counters()?;
    let checkpoint_bytes = counters.written.checkpoint() - written_before;
    let device = counters.leaf_bytes + counters.value_bytes + checkpoint_bytes + counters.log_bytes;
    let per_user = |bytes: u64| bytes as f64 / user_bytes.max(1) as f64;
    let [leaves, checkpoint, log] = [counters.leaf_bytes, checkpoint_bytes, counters.log_bytes].map(per_user);
    let (user, file) = (show_bytes(user_bytes), place.allocated_bytes().unwrap_or(0));
    output.line(format!("{when}: user {user}, leaves {leaves:.3} x, checkpoint {checkpoint:.3} x, log {log:.3} x"))?;
    output.line(format!("  file on disk {} ({:.2} x, with what awaits reclaim)", show_bytes(file), per_user(file)))?;
    Ok(per_user(device))
}
