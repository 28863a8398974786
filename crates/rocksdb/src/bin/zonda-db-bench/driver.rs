//! Compactions chosen outside `RocksDB`: one thread looks at the tree after every flush and compaction and says what is due, others call
//! `CompactFiles`. As many run at once as `RocksDB` itself would: one while nothing presses, then its share of the background jobs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use zonda_rt::{Condvar, JoinHandle, Mutex, sleep, spawn};

use super::arguments::Rules;
use super::choose::Turns;
use super::database::Database;
use super::levels::Levels;
use super::pick::{Job, pick};
use super::stalls::Gate;

/// How often the tree's counters are looked at.
const PAUSE: Duration = Duration::from_millis(1);
/// A job that `RocksDB` refuses so often, one time after the other while no other runs, it will never take.
const REFUSALS_MAX: u32 = 1000;

/// What compactions did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) jobs: u64,
    pub(crate) input_bytes: u64,
    /// Tables that were written to be moved.
    pub(crate) written_moves: u64,
    /// Jobs over more than two levels.
    pub(crate) geared: u64,
    /// Jobs that `RocksDB` would not have.
    pub(crate) refused: u64,
    /// The most at a time.
    pub(crate) at_once_max: usize,
}

/// Threads that compact; stopped by [`Driver::stop`].
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    database: Arc<Database>,
    rules: Rules,
    gate: Arc<Gate>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    /// In the queue, or in `CompactFiles`.
    running: Vec<Job>,
    turns: Turns,
    counts: Counts,
    /// Something ended since the tree was looked at.
    is_stale: bool,
    /// Flushes that had ended when it was.
    looked_at: u64,
    /// Nothing was due then, and nothing runs.
    is_idle: bool,
    is_stopping: bool,
    failed: Option<String>,
    /// The tables of the job that was refused last, and how often.
    refused: (Vec<u64>, u32),
}

impl State {
    /// Whether nothing is due and nothing runs, when so many flushes have ended and none runs.
    fn is_settled(&self, flushes: u64) -> bool {
        self.is_idle && !self.is_stale && self.looked_at == flushes
    }

    /// Whether the tree is to be looked at again, now that so many flushes have ended. Until that is done nobody knows what is due.
    fn begins_to_look(&mut self, flushes: u64) -> bool {
        let is_stale = std::mem::take(&mut self.is_stale) || self.looked_at != flushes;
        self.is_idle &= !is_stale;
        self.looked_at = flushes;
        is_stale
    }

    /// Notes a refusal; tells why nothing will come of the job, if that is so.
    fn refuse(&mut self, job: &Job) -> Option<String> {
        self.counts.refused += 1;
        if self.refused.0 != job.inputs || !self.running.is_empty() {
            self.refused = (job.inputs.clone(), 0);
        }
        self.refused.1 += 1;
        let (tables, times) = &self.refused;
        let why = || format!("RocksDB refused {times} times to merge tables {tables:?} into level {}", job.output);
        (*times >= REFUSALS_MAX).then(why)
    }
}

impl Driver {
    /// Begins to compact.
    pub(crate) fn start(database: Arc<Database>, gate: Arc<Gate>, rules: Rules) -> Self {
        let state = Mutex::new(State { is_stale: true, ..State::default() });
        let shared = Arc::new(Shared { database, rules, gate, state, changed: Condvar::new() });
        let of = |name: &str, run: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            spawn(name, move || run(&shared))
        };
        let mut threads = vec![of("choose", Shared::choose)];
        threads.extend((0..rules.jobs).map(|_| of("compact", Shared::work)));
        Self { shared, threads }
    }

    /// Waits until nothing is due and nothing runs.
    pub(crate) fn wait(&self) -> Result<(), String> {
        loop {
            let flushing = ["rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes"];
            let is_flushing = flushing.iter().any(|property| self.shared.database.number(property) > 0);
            // Behind that: one that ended since is among them.
            let flushes = self.shared.database.flushes();
            {
                let mut state = self.shared.state.lock();
                if let Some(failed) = &state.failed {
                    return Err(failed.clone());
                }
                if !is_flushing && state.is_settled(flushes) {
                    return Ok(());
                }
                state.is_stale |= state.is_idle;
            }
            sleep(PAUSE);
        }
    }

    /// Ends when what runs has ended.
    pub(crate) fn stop(self) -> Result<Counts, String> {
        self.shared.state.lock().is_stopping = true;
        self.shared.changed.notify_all();
        self.shared.gate.open();
        for thread in self.threads {
            thread.join().map_err(|panicked| panicked.to_string())?;
        }
        let state = self.shared.state.lock();
        state.failed.clone().map_or(Ok(state.counts), Err)
    }
}

impl Shared {
    /// The thread that chooses.
    fn choose(&self) {
        loop {
            let flushes = self.database.flushes();
            let is_stale = {
                let mut state = self.state.lock();
                if state.is_stopping || state.failed.is_some() {
                    return self.gate.open();
                }
                state.begins_to_look(flushes)
            };
            if is_stale {
                self.look();
            } else {
                sleep(PAUSE);
            }
        }
    }

    /// Looks at the tree, tells writers, and puts what is due into the queue.
    fn look(&self) {
        let mut levels = self.database.levels();
        let bytes = self.database.number("rocksdb.estimate-pending-compaction-bytes");
        let level0 = levels.at(0).len();
        self.gate.update(&self.rules.stalls, level0, bytes);
        let jobs = if self.rules.stalls.is_pressed(level0, bytes) { self.rules.jobs } else { 1 };
        let mut state = self.state.lock();
        let State { running, queue, turns, counts, .. } = &mut *state;
        running.iter().for_each(|job| mark(&mut levels, job));
        while running.len() < jobs
            && let Some(job) = pick(self.rules.policy, &levels, &self.rules.limits, turns, running)
        {
            mark(&mut levels, &job);
            queue.push_back(job.clone());
            running.push(job);
            counts.at_once_max = counts.at_once_max.max(running.len());
        }
        state.is_idle = state.running.is_empty();
        drop(state);
        self.changed.notify_all();
    }

    /// A thread that compacts.
    fn work(&self) {
        loop {
            let job = {
                let is_nothing =
                    |state: &mut State| state.queue.is_empty() && !state.is_stopping && state.failed.is_none();
                let mut state = self.changed.wait_while(self.state.lock(), is_nothing);
                if state.is_stopping || state.failed.is_some() {
                    return;
                }
                state.queue.pop_front()
            };
            if let Some(job) = job {
                let done = self.database.compact(&job.inputs, job.output, self.rules.limits.table_bytes);
                self.ended(&job, done);
            }
        }
    }

    fn ended(&self, job: &Job, done: Result<bool, String>) {
        if done == Ok(false) {
            // What is in the way needs time to go.
            sleep(PAUSE);
        }
        let mut state = self.state.lock();
        state.running.retain(|other| other.inputs != job.inputs);
        state.is_stale = true;
        let failed = match done {
            Ok(true) => {
                let counts = &mut state.counts;
                counts.jobs += 1;
                counts.input_bytes += job.bytes;
                counts.written_moves += u64::from(job.is_written_move());
                counts.geared += u64::from(job.output > job.level + 1);
                state.refused.0.clear();
                None
            }
            Ok(false) => state.refuse(job),
            Err(error) => Some(error),
        };
        if failed.is_some() {
            state.failed = failed;
            drop(state);
            self.gate.open();
            self.changed.notify_all();
        }
    }
}

/// Marks a job's tables as busy.
fn mark(levels: &mut Levels, job: &Job) {
    for table in levels.0.iter_mut().flatten().filter(|table| job.inputs.contains(&table.number)) {
        table.is_busy = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::levels::Span;
    use super::*;

    #[test]
    fn nothing_is_settled_before_the_tree_was_looked_at() {
        let mut state = State { is_stale: true, ..State::default() };
        assert!(state.begins_to_look(0) && !state.is_settled(0), "it looks");
        state.is_idle = true;
        assert!(state.is_settled(0));
        assert!(!state.is_settled(1), "a flush has ended since");
        assert!(state.begins_to_look(1) && !state.is_settled(1), "it looks");
        state.is_idle = true;
        assert!(state.is_settled(1) && !state.begins_to_look(1) && state.is_settled(1));
        state.is_stale = true;
        assert!(!state.is_settled(1), "a job has ended since");
    }

    #[test]
    fn a_job_that_is_always_refused_fails_in_the_end() {
        let span = Span { smallest: b"a".to_vec(), largest: b"b".to_vec() };
        let job = |number: u64| Job { inputs: vec![number], bytes: 1, level: 2, output: 3, span: span.clone() };
        let mut state = State::default();
        assert!((0..2 * REFUSALS_MAX).all(|turn| state.refuse(&job((turn % 2).into())).is_none()), "in turns");
        state.running.push(job(9));
        assert!((0..2 * REFUSALS_MAX).all(|_| state.refuse(&job(1)).is_none()), "another runs");
        state.running.clear();
        let last = (0..REFUSALS_MAX).find_map(|_| state.refuse(&job(1)));
        assert!(last.is_some_and(|why| why.contains("[1] into level 3")));
        assert_eq!(state.counts.refused, u64::from(5 * REFUSALS_MAX - 1));
    }
}
