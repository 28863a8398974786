//! `bench sync`: what a durable put costs, against the cheapest durable write there is.
//!
//! The yardstick is a loop of one 4 KiB write and one fdatasync on a file in the same directory: a log cannot make one put
//! durable with less. Rounds of yardstick, 1 thread and 16 threads alternate, so that a disk that speeds up or slows
//! down does so for all three; the median round counts.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use zonda_rt::now;

use super::Setting;
use crate::keys::Order;
use crate::output::Output;
use crate::phase::{DataSet, Phase};
use crate::place::Place;
use crate::report::Table;
use crate::subject::Durability;
use crate::verdict::Verdict;
use crate::workload::Workload;
use crate::{BenchError, Result};

/// Bytes of one write of the yardstick: the block in which a log is flushed.
const YARDSTICK_WRITE_BYTES: usize = 4_096;

/// One thread should reach this share of the yardstick.
const ONE_THREAD_SHARE: f64 = 0.9;

/// Sixteen threads should reach this multiple of it.
const MANY_THREADS_SHARE: f64 = 4.0;

/// Threads of the second measurement.
const MANY_THREADS: usize = 16;

/// Synced puts with 1 and 16 threads against write + fdatasync.
#[derive(Clone, Debug)]
pub struct Sync {
    setting: Setting,
    /// Rounds; the median counts.
    pub rounds: usize,
    /// Durable operations of each of the three in a round; 16 threads do four times as many.
    pub operations: u64,
}

/// Durable operations per second in one round.
#[derive(Clone, Copy, Debug)]
struct Round {
    yardstick: f64,
    one: f64,
    many: f64,
}

impl Sync {
    /// The experiment at the setting's scale.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let (rounds, operations) = setting.scale.pick((7, 2_000), (1, 20));
        Self { setting, rounds, operations }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of store and file system.
    pub fn run(&self, output: &mut Output) -> Result<()> {
        output.command(self.setting.seed.0)?;
        let rounds = self.measure(output)?;
        output.line(table(&rounds))?;
        let one = median(rounds.iter().map(|round| round.one / round.yardstick));
        let many = median(rounds.iter().map(|round| round.many / round.yardstick));
        output.verdict(&Verdict::at_least("synced puts, 1 thread / write + fdatasync", one, ONE_THREAD_SHARE, "x"))?;
        output.verdict(&Verdict::at_least("synced puts, 16 threads / write + fdatasync", many, MANY_THREADS_SHARE, "x"))
    }

    fn measure(&self, output: &Output) -> Result<Vec<Round>> {
        let place = Place::temporary(&self.setting.directory)?;
        let puts = self.rounds as u64 * self.operations * 5;
        let mut data = DataSet::new(8, 8, puts, Order::Random, self.setting.seed)?;
        let subject = self.setting.plan(place.uri(), 8 << 20).create()?;
        let progress = output.progress("sync", self.rounds as u64);
        let mut rounds = Vec::new();
        for nth in 0..self.rounds {
            let yardstick = self.yardstick()?;
            let mut puts = |operations, threads| -> Result<f64> {
                let mut phase = Phase::new(Workload::load(), operations, threads);
                phase.durability = Durability::Synced;
                let report =
                    phase.run(&subject, &mut data, &self.setting.design, &crate::progress::Progress::hidden())?;
                Ok(report.operations_per_second)
            };
            rounds.push(Round {
                yardstick,
                one: puts(self.operations, 1)?,
                many: puts(self.operations * 4, MANY_THREADS)?,
            });
            progress.set(nth as u64 + 1);
        }
        subject.close()?;
        Ok(rounds)
    }

    /// Durable writes per second of the plain loop, on a new file each time.
    fn yardstick(&self) -> Result<f64> {
        let directory = Place::temporary(&self.setting.directory)?;
        let path = directory.path().expect("a temporary place is a file").with_file_name("yardstick");
        let start = now();
        write_and_sync(&path, self.operations)
            .map_err(|source| BenchError::io(format!("write {}", path.display()), source))?;
        Ok(self.operations as f64 / now().since(start).as_secs_f64())
    }
}

fn write_and_sync(path: &Path, operations: u64) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    for operation in 0..operations {
        file.write_all(&[operation.to_le_bytes()[0]; YARDSTICK_WRITE_BYTES])?;
        file.sync_data()?;
    }
    Ok(())
}

fn table(rounds: &[Round]) -> String {
    let mut table =
        Table::new(&["round", "write + fdatasync /s", "1 thread puts/s", "16 threads puts/s", "ratio 1", "ratio 16"]);
    for (nth, round) in rounds.iter().enumerate() {
        let rates = [round.yardstick, round.one, round.many].map(|rate| format!("{rate:.0}"));
        let ratios = [round.one, round.many].map(|rate| format!("{:.2}", rate / round.yardstick));
        table.row([(nth + 1).to_string()].into_iter().chain(rates).chain(ratios));
    }
    table.render()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn the_yardstick_measures_something() {
        let directory = tempfile::tempdir().unwrap();
        let mut setting = Setting::new(1, crate::experiment::Scale::Tiny);
        setting.directory = directory.path().to_owned();
        assert!(Sync::new(setting).yardstick().unwrap() > 0.0);
    }
}
