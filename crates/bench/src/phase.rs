//! One measured phase: threads run the operations of one workload against a subject.

mod data;
mod scanned;
mod updated;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use zonda_rt::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use zonda_rt::{now, sleep, spawn};

pub use data::DataSet;
use worker::Worker;

use crate::choose::{Chooser, Distribution};
use crate::measure::{LastCompletion, Recorder};
use crate::measured::{Measured, Used};
use crate::population::Population;
use crate::process::{self, StorageBytes};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::report::PhaseReport;
use crate::subject::{Counters, Durability, Subject};
use crate::workload::Workload;
use crate::{BenchError, Result};

/// How often the progress bar is redrawn, and how late the end of a phase may be noticed (it is not measured).
const POLL: Duration = Duration::from_millis(10);

/// What one phase does.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The operations.
    pub workload: Workload,
    /// Which records they go to.
    pub distribution: Distribution,
    /// How many operations, over all threads.
    pub operations: u64,
    /// Threads that run them.
    pub threads: usize,
    /// When a write counts as done.
    pub durability: Durability,
    /// Whether every value read is compared with what it should be.
    pub verify: bool,
    /// Ends the phase early.
    pub time_max: Option<Duration>,
    /// Number of this slice of a longer phase: each draws other records and kinds.
    pub slice: u32,
}

impl Phase {
    /// `operations` operations of `workload` over its own distribution, buffered, verified.
    #[must_use]
    pub fn new(workload: Workload, operations: u64, threads: usize) -> Self {
        let distribution = workload.distribution;
        let durability = Durability::Buffered;
        Self { workload, distribution, operations, threads, durability, verify: true, time_max: None, slice: 0 }
    }

    /// Runs the phase and reports it; `data` then counts the records that it inserted.
    ///
    /// # Errors
    /// `Usage` when there are no records to read; `Wrong` for a wrong answer; the subject's errors. The first error
    /// stops all threads.
    pub fn run(
        &self,
        subject: &Arc<dyn Subject>,
        data: &mut DataSet,
        design: &str,
        progress: &Progress,
    ) -> Result<PhaseReport> {
        let measured = self.measure(subject, data, progress)?;
        Ok(measured.report(self, design, data.seed().0))
    }

    /// Runs the phase, or a slice of it; what it measured adds up with other slices.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn measure(&self, subject: &Arc<dyn Subject>, data: &mut DataSet, progress: &Progress) -> Result<Measured> {
        self.check(data)?;
        process::reset_rss_peak();
        let shared = Arc::new(self.shared(subject, data));
        let (before, chooser) = self.begin(subject, data)?;
        let recorded = self.work(&shared, data, &chooser, progress);
        data.set_records(shared.population.existing());
        let recorded = recorded?;
        let after = Usage::of(subject)?;
        Ok(Measured {
            operations: recorded.latencies().operations(),
            seconds: recorded.elapsed().as_secs_f64(),
            latencies: recorded.latencies().clone(),
            whole_seconds: recorded.whole_seconds().to_vec(),
            gap_longest_ms: recorded.gap_longest().as_secs_f64() * 1e3,
            used: after.since(&before),
            memory_peak_bytes: after.counters.memory_peak_bytes,
            memory_by: after.counters.memory_by,
            rss_peak_bytes: process::rss_peak_bytes().unwrap_or(0),
            records: shared.records_before,
            device: subject.device(),
            profile: Profile::default(),
        })
    }

    /// The usage at the beginning, and the chooser. A zipfian one takes time to make, if none is kept, that is no operation's; what the
    /// store does in the background meanwhile is the phase's.
    fn begin(&self, subject: &Arc<dyn Subject>, data: &mut DataSet) -> Result<(Usage, Chooser)> {
        let mut before = Usage::of(subject)?;
        let began = process::thread_cpu_time();
        let chooser = data.chooser(self.distribution, self.room(data));
        before.cpu += process::thread_cpu_time().saturating_sub(began);
        Ok((before, chooser))
    }

    fn check(&self, data: &DataSet) -> Result<()> {
        let refused = |option, given: String, expected: &str| {
            Err(BenchError::Usage { option, given, expected: expected.to_owned() })
        };
        if self.threads == 0 || self.threads > THREADS_MAX {
            return refused("--threads", self.threads.to_string(), "1 to 1024 threads");
        }
        if self.workload.mix.needs_records() && data.records() == 0 {
            return refused("--records", "0".into(), "this workload needs records to read or update");
        }
        if self.workload.gets > data.records().max(1) {
            return refused("--workload", self.workload.name.clone(), "no more keys at once than there are records");
        }
        if self.workload.mix.inserts() && data.room() < self.operations {
            return refused("--operations", self.operations.to_string(), "more inserts than the data set has keys for");
        }
        Ok(())
    }

    /// Records that may be added while others are chosen: all that the data set has room for, so that slices and phases choose alike.
    fn room(&self, data: &DataSet) -> u64 {
        let mix = self.workload.mix;
        if mix.inserts() && mix.needs_records() { data.room() } else { 0 }
    }

    fn shared(&self, subject: &Arc<dyn Subject>, data: &DataSet) -> Shared {
        Shared {
            phase: self.clone(),
            subject: Arc::clone(subject),
            population: Population::new(data.records(), self.threads),
            records_before: data.records(),
            done: AtomicU64::new(0),
            running: AtomicUsize::new(self.threads),
            stop: AtomicBool::new(false),
            last: LastCompletion::new(now()),
        }
    }

    /// Runs all threads to their end; their records merged, or the first error.
    fn work(&self, shared: &Arc<Shared>, data: &DataSet, chooser: &Chooser, progress: &Progress) -> Result<Recorder> {
        let start = now();
        let deadline = self.time_max.map(|time| start + time);
        shared.last.gap_until(start);
        let threads: Vec<_> = (0..self.threads)
            .map(|nth| {
                let worker = Worker::new(nth, shared, data, chooser.clone(), start).until(deadline);
                let operations = share_of(self.operations, self.threads, nth);
                spawn(format!("bench-{nth}"), move || worker.run(operations))
            })
            .collect();
        while shared.running.load(Ordering::Acquire) > 0 {
            sleep(POLL);
            progress.set(shared.done.load(Ordering::Relaxed));
        }
        let mut merged = Recorder::new(start);
        let ends: Vec<Result<Recorder>> = threads.into_iter().map(|thread| thread.join()?).collect();
        for recorded in ends {
            merged.merge(&recorded?);
        }
        Ok(merged)
    }
}

/// More threads than this are a typing error.
const THREADS_MAX: usize = 1_024;

/// What the threads of one phase share.
struct Shared {
    phase: Phase,
    subject: Arc<dyn Subject>,
    population: Population,
    records_before: u64,
    done: AtomicU64,
    running: AtomicUsize,
    stop: AtomicBool,
    last: LastCompletion,
}

/// Everything counted, at one moment.
struct Usage {
    counters: Counters,
    cpu: Duration,
    process: Option<StorageBytes>,
}

impl Usage {
    fn of(subject: &Arc<dyn Subject>) -> Result<Self> {
        Ok(Self { counters: subject.counters()?, cpu: process::cpu_time(), process: process::storage_bytes() })
    }

    fn since(&self, before: &Self) -> Used {
        let (now, then) = (&self.counters, &before.counters);
        Used {
            device_written_bytes: now.device_written_bytes - then.device_written_bytes,
            device_read_bytes: now.device_read_bytes - then.device_read_bytes,
            written: now.written.since(&then.written),
            zones_reset: now.zones_reset - then.zones_reset,
            gets: now.gets - then.gets,
            leaf_reads: now.leaf_reads - then.leaf_reads,
            page_hits: now.page_hits.saturating_sub(then.page_hits),
            cpu: self.cpu.saturating_sub(before.cpu),
            process: self.process.zip(before.process).map(|(now, then)| StorageBytes {
                read: now.read.saturating_sub(then.read),
                written: now.written.saturating_sub(then.written),
            }),
        }
    }
}

/// How many of `operations` thread (or slice) `nth` of `threads` runs: they differ by one at most.
pub(crate) fn share_of(operations: u64, threads: usize, nth: usize) -> u64 {
    let (threads, nth) = (threads as u64, nth as u64);
    operations / threads + u64::from(nth < operations % threads)
}

#[cfg(test)]
mod tests {
    use zonda_rt::Seed;

    use super::*;
    use crate::keys::Order;
    use crate::subject::{MapSubject, Visit};

    fn map() -> Arc<dyn Subject> {
        Arc::new(MapSubject::default())
    }

    fn run(subject: &Arc<dyn Subject>, data: &mut DataSet, workload: &str, operations: u64) -> Result<PhaseReport> {
        let workload = workload.parse().unwrap();
        Phase::new(workload, operations, 2).run(subject, data, "map", &Progress::hidden())
    }

    /// Where records are added popularity is spread over the same ones in every slice and phase.
    #[test]
    fn room_and_records_are_what_the_data_set_can_hold() {
        let mut data = DataSet::new(8, 8, 1_000, Order::Random, Seed(1)).unwrap();
        let room = |data: &DataSet, name: &str| Phase::new(name.parse().unwrap(), 10, 1).room(data);
        for records in [100, 600] {
            data.set_records(records);
            assert_eq!(["ycsb-e", "get", "zkv-a"].map(|name| room(&data, name)), [1_000 - records, 0, 0]);
        }
    }

    #[test]
    fn phases_follow_each_other_on_one_store() {
        let (subject, mut data) = (map(), DataSet::new(8, 8, 20_000, Order::Random, Seed(1)).unwrap());
        let load = Phase::new(Workload::load(), 3_001, 2);
        let loaded = load.run(&subject, &mut data, "map", &Progress::hidden()).unwrap();
        assert_eq!((loaded.records, loaded.operations, data.records()), (0, 3_001, 3_001));
        for workload in Workload::zkv() {
            let report = run(&subject, &mut data, &workload.name, 1_000).unwrap();
            assert_eq!((report.operations, report.threads), (1_000, 2));
            assert!(report.operations_per_second > 0.0 && report.seconds > 0.0);
        }
        let report = run(&subject, &mut data, "ycsb-f", 500).unwrap();
        assert_eq!(report.latency_us.keys().collect::<Vec<_>>(), ["modify", "read"]);
        assert_eq!(data.verify_all(&subject).unwrap(), data.records());
    }

    /// A power for each record takes longer than many an operation.
    #[test]
    fn making_a_chooser_is_no_operations_cpu_time() {
        let (subject, mut data) = (map(), DataSet::new(8, 8, 2_000_000, Order::Random, Seed(1)).unwrap());
        data.set_records(2_000_000);
        let mut phase = Phase::new("get".parse().unwrap(), 10, 1);
        phase.distribution = Distribution::Zipf(0.9);
        let (began, process) = (process::thread_cpu_time(), process::cpu_time());
        let (before, _) = phase.begin(&subject, &mut data).unwrap();
        let (took, left_out) = (process::thread_cpu_time() - began, before.cpu - process);
        assert!(left_out > took / 10, "of {took:?} that this thread took {left_out:?} are no operation's");
    }

    #[test]
    fn a_wrong_answer_is_an_error() {
        let (subject, mut data) = (map(), DataSet::new(8, 8, 1_000, Order::Random, Seed(1)).unwrap());
        data.set_records(10);
        let missing = run(&subject, &mut data, "get", 10).unwrap_err().to_string();
        assert!(missing.contains("wrong answer"), "{missing}");
        let mut key = Vec::new();
        for index in 0..10 {
            data.keys().key(index, &mut key);
            subject.put(&key, &[9; 8], Durability::Buffered).unwrap();
        }
        assert!(run(&subject, &mut data, "get", 10).is_err());
        assert!(data.verify_all(&subject).is_err());
    }

    #[test]
    fn lost_updates_are_found_out() {
        for (value_bytes, carries_versions) in [(8, true), (3, false)] {
            let mut data = DataSet::new(8, value_bytes, 1_000, Order::Random, Seed(1)).unwrap();
            let subject = map();
            let load = Phase::new(Workload::load(), 320, 2);
            load.run(&subject, &mut data, "map", &Progress::hidden()).unwrap();
            run(&subject, &mut data, "update", 4_000).unwrap();
            assert_eq!(data.verify_all(&subject).unwrap(), 320);
            let (mut key, mut value) = (Vec::new(), Vec::new());
            for index in 0..320 {
                data.keys().key(index, &mut key);
                data.values().fill(index, 0, &mut value);
                subject.put(&key, &value, Durability::Buffered).unwrap();
            }
            for workload in ["get", "multi-get:32", "ycsb-f", "scan:32", "skew-e"] {
                let found = run(&subject, &mut data.clone(), workload, 2_000);
                assert_eq!(
                    found.is_err_and(|error| error.to_string().contains("loaded")),
                    carries_versions,
                    "{workload}"
                );
            }
            assert_eq!(data.verify_all(&subject).is_err(), carries_versions);
        }
    }

    /// Forgets the last value of a multi-get, and scans a pair too many.
    #[derive(Default)]
    struct Miscounting(MapSubject);

    impl Subject for Miscounting {
        fn device(&self) -> String {
            self.0.device()
        }

        fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
            self.0.put(key, value, durability)
        }

        fn delete(&self, key: &[u8]) -> Result<()> {
            self.0.delete(key)
        }

        fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
            self.0.get(key, into)
        }

        fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
            self.0.multi_get(&keys[..keys.len() - 1])
        }

        fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
            self.0.scan(from, pairs + 1, visit)
        }

        fn sync(&self) -> Result<()> {
            self.0.sync()
        }

        fn checkpoint(&self) -> Result<()> {
            self.0.checkpoint()
        }

        fn compact(&self) -> Result<()> {
            self.0.compact()
        }

        fn check(&self) -> Result<Vec<String>> {
            self.0.check()
        }

        fn counters(&self) -> Result<Counters> {
            self.0.counters()
        }

        fn close(&self) -> Result<()> {
            self.0.close()
        }
    }

    #[test]
    fn too_few_values_and_too_many_pairs_are_wrong_answers() {
        let mut data = DataSet::new(8, 8, 1_000, Order::Random, Seed(1)).unwrap();
        let subject: Arc<dyn Subject> = Arc::new(Miscounting::default());
        Phase::new(Workload::load(), 500, 2).run(&subject, &mut data, "map", &Progress::hidden()).unwrap();
        assert!(run(&subject, &mut data, "get", 10).is_ok());
        for (workload, told) in [("multi-get:8", "gives 7 values"), ("scan:5", "6 pairs of 5")] {
            let said = run(&subject, &mut data, workload, 50).unwrap_err().to_string();
            assert!(said.contains(told), "{said}");
        }
    }

    #[test]
    fn senseless_phases_are_refused() {
        let (subject, mut data) = (map(), DataSet::new(8, 8, 100, Order::Random, Seed(1)).unwrap());
        assert!(matches!(run(&subject, &mut data, "get", 10), Err(BenchError::Usage { .. })));
        assert!(matches!(run(&subject, &mut data, "zkv-a", 101), Err(BenchError::Usage { .. })));
        let mut idle = Phase::new(Workload::load(), 1, 1);
        idle.threads = 0;
        assert!(idle.run(&subject, &mut data, "map", &Progress::hidden()).is_err());
    }

    #[test]
    fn shares_add_up() {
        let shares: Vec<_> = (0..3).map(|nth| share_of(11, 3, nth)).collect();
        assert_eq!(shares, [4, 4, 3]);
    }
}
