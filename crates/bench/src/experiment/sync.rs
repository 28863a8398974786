//! `bench sync`: what a durable put costs, against the cheapest durable writes there are.
//!
//! Two yardsticks, each a loop of one write of 4 KiB and one fdatasync on a file in the same directory, past the page cache where the
//! store's file is written so:
//!
//! - *appending*: behind the end of a new file, as a plain log is written. The file grows, so each fdatasync has to commit the file
//!   system's journal, too.
//! - *overwriting*: over blocks of a file that were written and synced before. Nothing but the data and the drive's own flush: a log
//!   can make one put durable with less in no way.
//!
//! This store's log is between both: it overwrites blanks, which it writes ahead of itself, 64 blocks at a time (decision 0027). So it
//! may be faster than the one, which alone says little of its own work; one put at a time it cannot be faster than the other. Both are
//! judged. Rounds of the yardsticks, 1 thread and 16 threads alternate, so that a disk that speeds up or slows down does so for all; the
//! median round counts.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use zonda_device::AlignedBuf;
use zonda_rt::now;

use super::Setting;
use crate::keys::Order;
use crate::measure::median;
use crate::output::Output;
use crate::phase::{DataSet, Phase};
use crate::place::Place;
use crate::raw::DIRECT_FLAG;
use crate::report::Table;
use crate::subject::Durability;
use crate::verdict::Verdict;
use crate::workload::Workload;
use crate::{BenchError, Result};

/// Bytes of one write of the yardsticks: the block in which a log is flushed.
const YARDSTICK_WRITE_BYTES: usize = 4_096;

/// Durable operations of a round that the targets are for.
const OPERATIONS: u64 = 2_000;

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
    /// Durable operations of each of the four in a round; 16 threads do four times as many.
    pub operations: u64,
}

/// Durable operations per second in one round.
#[derive(Clone, Copy, Debug)]
struct Round {
    appending: f64,
    overwriting: f64,
    one: f64,
    many: f64,
}

impl Sync {
    /// The experiment at the setting's scale.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        let (rounds, operations) = setting.scale.pick((7, OPERATIONS), (1, 20));
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
        let stands_for = Setting::stands_for(self.operations, OPERATIONS, "durable operations in a round");
        verdicts(&rounds)
            .into_iter()
            .try_for_each(|verdict| output.verdict(&verdict.unless_too_small(stands_for.as_deref())))
    }

    fn measure(&self, output: &Output) -> Result<Vec<Round>> {
        let place = Place::temporary(&self.setting.directory)?;
        let puts = self.rounds as u64 * self.operations * 5;
        let mut data = DataSet::new(8, 8, puts, Order::Random, self.setting.seed)?;
        let subject = self.setting.plan(place.uri(), 8 << 20).create()?;
        let progress = output.progress("sync", self.rounds as u64);
        let mut rounds = Vec::new();
        for nth in 0..self.rounds {
            let (appending, overwriting) = (self.appending()?, self.overwriting()?);
            let mut puts = |operations, threads| -> Result<f64> {
                let mut phase = Phase::new(Workload::load(), operations, threads);
                phase.durability = Durability::Synced;
                let report =
                    phase.run(&subject, &mut data, &self.setting.design, &crate::progress::Progress::hidden())?;
                Ok(report.operations_per_second)
            };
            rounds.push(Round {
                appending,
                overwriting,
                one: puts(self.operations, 1)?,
                many: puts(self.operations * 4, MANY_THREADS)?,
            });
            progress.set(nth as u64 + 1);
        }
        subject.close()?;
        Ok(rounds)
    }

    /// Durable writes per second behind the end of a new file.
    fn appending(&self) -> Result<f64> {
        self.yardstick(|_| Ok(()))
    }

    /// Durable writes per second over blocks that are there.
    fn overwriting(&self) -> Result<f64> {
        self.yardstick(|file| self.write_before(file))
    }

    /// Makes a file one whose blocks are there.
    fn write_before(&self, file: &File) -> std::io::Result<()> {
        (0..self.operations).try_for_each(|nth| write(file, nth))?;
        file.sync_all()
    }

    /// Durable writes per second of a loop on a new file, which `prepare` makes ready before its time begins.
    fn yardstick(&self, prepare: impl FnOnce(&File) -> std::io::Result<()>) -> Result<f64> {
        let directory = Place::temporary(&self.setting.directory)?;
        let path = directory.path().expect("a temporary place is a file").with_file_name("yardstick");
        let failed = |source| BenchError::io(format!("write {}", path.display()), source);
        let file = new_file(&path).map_err(failed)?;
        prepare(&file).map_err(failed)?;
        let start = now();
        let mut writes = 0..self.operations;
        writes.try_for_each(|nth| write(&file, nth).and_then(|()| file.sync_data())).map_err(failed)?;
        Ok(self.operations as f64 / now().since(start).as_secs_f64())
    }
}

/// A new file, past the page cache where the file system can, as the store's.
fn new_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    let direct = OpenOptions::new().read(true).write(true).custom_flags(DIRECT_FLAG).open(path);
    let takes_blocks = |file: &File| file.read_at(&mut AlignedBuf::with_len(YARDSTICK_WRITE_BYTES), 0).is_ok();
    Ok(direct.ok().filter(takes_blocks).unwrap_or(file))
}

/// Writes block `nth`.
fn write(file: &File, nth: u64) -> std::io::Result<()> {
    let mut block = AlignedBuf::with_len(YARDSTICK_WRITE_BYTES);
    block.fill(nth.to_le_bytes()[0] | 1);
    file.write_all_at(&block, nth * YARDSTICK_WRITE_BYTES as u64)
}

/// One of the rates of a round.
type Rate = fn(&Round) -> f64;

/// Both measurements over both yardsticks.
fn verdicts(rounds: &[Round]) -> Vec<Verdict> {
    let over = |puts: Rate, yardstick: Rate| median(rounds.iter().map(move |round| puts(round) / yardstick(round)));
    let yardsticks: [(&str, Rate); 2] =
        [("appending", |round| round.appending), ("overwriting", |round| round.overwriting)];
    let judge = |(name, yardstick): (&str, Rate)| {
        let (one, many) = (over(|round| round.one, yardstick), over(|round| round.many, yardstick));
        let target = |threads| format!("synced puts, {threads} / write + fdatasync, {name}");
        [
            Verdict::at_least(target("1 thread"), one, ONE_THREAD_SHARE, "x"),
            Verdict::at_least(target("16 threads"), many, MANY_THREADS_SHARE, "x"),
        ]
    };
    yardsticks.into_iter().flat_map(judge).collect()
}

fn table(rounds: &[Round]) -> String {
    let mut table = Table::new(&[
        "round",
        "appending + fdatasync /s",
        "overwriting + fdatasync /s",
        "1 thread puts/s",
        "16 threads puts/s",
        "over appending, 1",
        "16",
        "over overwriting, 1",
        "16",
    ]);
    for (nth, round) in rounds.iter().enumerate() {
        let rates = [round.appending, round.overwriting, round.one, round.many].map(|rate| format!("{rate:.0}"));
        let over = |yardstick: f64| [round.one, round.many].map(|rate| format!("{:.2}", rate / yardstick));
        let ratios = over(round.appending).into_iter().chain(over(round.overwriting));
        table.row([(nth + 1).to_string()].into_iter().chain(rates).chain(ratios));
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_are_judged_by_both_yardsticks() {
        let round = Round { appending: 100.0, overwriting: 200.0, one: 150.0, many: 900.0 };
        let outcomes: Vec<_> = verdicts(&[round]).iter().map(|verdict| (verdict.measured, verdict.outcome())).collect();
        assert_eq!(outcomes, [(1.5, "reached"), (9.0, "reached"), (0.75, "missed"), (4.5, "reached")]);
    }

    #[test]
    fn the_yardsticks_write_what_they_say() {
        let directory = tempfile::tempdir().unwrap();
        let mut setting = Setting::new(1, crate::experiment::Scale::Tiny);
        setting.directory = directory.path().to_owned();
        let sync = Sync::new(setting);
        let bytes = sync.operations * YARDSTICK_WRITE_BYTES as u64;
        let len_before = |overwrites: bool| {
            let mut len = 0;
            let prepare = |file: &File| {
                if overwrites {
                    sync.write_before(file)?;
                }
                len = file.metadata()?.len();
                Ok(())
            };
            assert!(sync.yardstick(prepare).unwrap() > 0.0);
            len
        };
        assert_eq!((len_before(false), len_before(true)), (0, bytes));
        assert!(sync.appending().unwrap() > 0.0 && sync.overwriting().unwrap() > 0.0);
    }
}
