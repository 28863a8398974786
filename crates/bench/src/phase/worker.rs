//! One thread of a phase.

use std::sync::Arc;

use zonda_rt::atomic::Ordering;
use zonda_rt::{Rng, Time, now};

use super::scanned::{Records, ScanBuffers, Scanned};
use super::updated::Updated;
use super::{DataSet, Shared};
use crate::choose::Chooser;
use crate::keys::KeySpace;
use crate::measure::Recorder;
use crate::values::Values;
use crate::workload::Kind;
use crate::{BenchError, Result};

/// Operations between two updates of the shared progress counter.
const PROGRESS_EVERY: u64 = 256;

/// How often a scan begins again whose snapshot was given up.
const SCAN_TRIES: u32 = 10;

/// A thread's own part of a phase: generator, chooser, buffers, recorder. Reused buffers: no allocation per operation.
pub(super) struct Worker {
    nth: usize,
    shared: Arc<Shared>,
    keys: Arc<KeySpace>,
    values: Values,
    updated: Arc<Updated>,
    rng: Rng,
    chooser: Chooser,
    recorder: Recorder,
    deadline: Option<Time>,
    key: Vec<u8>,
    value: Vec<u8>,
    scratch: Vec<u8>,
    scanned: ScanBuffers,
}

impl Worker {
    pub(super) fn new(nth: usize, shared: &Arc<Shared>, data: &DataSet, chooser: Chooser, start: Time) -> Self {
        let phase = &shared.phase;
        let mut label = format!("{} from {} thread {nth}", phase.workload.name, shared.records_before);
        if phase.slice > 0 {
            label = format!("{label} slice {}", phase.slice);
        }
        Self {
            nth,
            shared: Arc::clone(shared),
            keys: Arc::clone(data.keys()),
            values: data.values(),
            updated: Arc::clone(data.updated()),
            rng: data.seed().derive(&label).rng(),
            chooser,
            recorder: Recorder::new(start),
            deadline: None,
            key: Vec::new(),
            value: Vec::new(),
            scratch: Vec::new(),
            scanned: ScanBuffers::default(),
        }
    }

    /// Ends early, after the first operation that completes at `deadline` or later.
    pub(super) fn until(mut self, deadline: Option<Time>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs `operations` operations, or fewer when another thread failed or time is up.
    pub(super) fn run(mut self, operations: u64) -> Result<Recorder> {
        // Counted down even when this thread panics, or the phase would wait for ever.
        let _running = Running(Arc::clone(&self.shared));
        let result = self.operations(operations);
        if result.is_err() {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        result.map(|()| self.recorder)
    }

    fn operations(&mut self, operations: u64) -> Result<()> {
        for done in 1..=operations {
            if self.shared.stop.load(Ordering::Relaxed) || self.is_late() {
                break;
            }
            self.operation()?;
            if done % PROGRESS_EVERY == 0 {
                self.shared.done.fetch_add(PROGRESS_EVERY, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.recorder.end() >= deadline)
    }

    fn operation(&mut self) -> Result<()> {
        let kind = self.shared.phase.workload.mix.kind(&mut self.rng);
        let begin = match kind {
            Kind::Insert => self.insert(),
            Kind::Update => self.update(),
            Kind::Read => self.read(),
            Kind::Scan => self.scan(),
            Kind::Modify => self.modify(),
        }?;
        self.recorder.record(kind, begin, now(), &self.shared.last);
        Ok(())
    }

    // Each operation prepares key and value first and returns when its own time began.

    fn insert(&mut self) -> Result<Time> {
        let index = self.shared.population.begin_insert(self.nth);
        self.keys.key(index, &mut self.key);
        self.values.fill(index, 0, &mut self.value);
        let begin = now();
        let put = self.put();
        if put.is_ok() {
            // A failed insert stays announced for ever, so that nobody takes its record for existing.
            self.shared.population.inserted(self.nth);
        }
        put.map(|()| begin)
    }

    fn update(&mut self) -> Result<Time> {
        let index = self.existing();
        self.new_version(index);
        let begin = now();
        self.put()?;
        self.updated.acknowledged(index);
        Ok(begin)
    }

    fn read(&mut self) -> Result<Time> {
        if self.shared.phase.workload.gets > 1 {
            return self.read_several();
        }
        let index = self.existing();
        let begin = now();
        self.get(index)?;
        Ok(begin)
    }

    /// Gets distinct keys at once.
    fn read_several(&mut self) -> Result<Time> {
        let gets = usize::try_from(self.shared.phase.workload.gets).expect("a multi-get has at most 65,536 keys");
        let mut indexes = Vec::with_capacity(gets);
        let mut keys = Vec::with_capacity(gets);
        while keys.len() < gets {
            let index = self.existing();
            if !indexes.iter().any(|&(other, _)| other == index) {
                indexes.push((index, self.updated.before_reading(index)));
                keys.push(self.key.clone());
            }
        }
        let begin = now();
        let values = self.shared.subject.multi_get(&keys)?;
        if values.len() != keys.len() {
            let what = format!("is the first key of a multi-get of {} that gives {} values", keys.len(), values.len());
            return Err(BenchError::Wrong { index: indexes[0].0, what });
        }
        for ((index, freshness), value) in indexes.into_iter().zip(values) {
            let what = || "exists, but a multi-get does not find it".into();
            let value = value.ok_or_else(|| BenchError::Wrong { index, what: what() })?;
            if self.shared.phase.verify {
                freshness.check(index, self.values.check(index, &value, &mut self.scratch)?)?;
            }
        }
        Ok(begin)
    }

    fn modify(&mut self) -> Result<Time> {
        let index = self.existing();
        let begin = now();
        self.get(index)?;
        self.new_version(index);
        self.put()?;
        self.updated.acknowledged(index);
        Ok(begin)
    }

    fn scan(&mut self) -> Result<Time> {
        let existing = self.shared.population.existing();
        let index = self.existing();
        let pairs = self.shared.phase.workload.scan.pairs(&mut self.rng);
        let beside_updates = self.shared.phase.workload.mix.updates();
        let records = Records { keys: &self.keys, values: self.values, updated: &self.updated, beside_updates };
        self.scanned.begin(records, (index, existing), pairs);
        let (mut tries, is_checked) = (0, self.shared.phase.verify);
        let begin = now();
        loop {
            let mut seen = 0;
            let mut scanned = Scanned::new(records, &mut self.scanned, (index, existing));
            let scan = self.shared.subject.scan(&self.key, pairs, &mut |key, value| {
                seen += 1;
                if is_checked { scanned.pair(key, value) } else { Ok(()) }
            });
            match scan {
                // Writers may outrun a scan where memory is little: it begins again, in its own time.
                Err(BenchError::Store { source, .. })
                    if tries < SCAN_TRIES && matches!(*source, zonda::Error::SnapshotTooOld { .. }) =>
                {
                    tries += 1;
                }
                Err(error) => return Err(error),
                Ok(told) if is_checked => break scanned.end((told, seen), pairs)?,
                Ok(_) => break,
            }
        }
        Ok(begin)
    }

    /// Chooses a record that exists and makes its key.
    fn existing(&mut self) -> u64 {
        let existing = self.shared.population.existing();
        let index = self.chooser.choose(&mut self.rng, existing);
        self.keys.key(index, &mut self.key);
        index
    }

    fn new_version(&mut self, index: u64) {
        let [version, ..] = self.rng.next_u64().to_le_bytes();
        // 0 is what is loaded.
        self.values.fill(index, u32::from(version.max(1)), &mut self.value);
    }

    fn put(&mut self) -> Result<()> {
        self.shared.subject.put(&self.key, &self.value, self.shared.phase.durability)
    }

    fn get(&mut self, index: u64) -> Result<()> {
        let freshness = self.updated.before_reading(index);
        if !self.shared.subject.get(&self.key, &mut self.value)? {
            return Err(BenchError::Wrong { index, what: "exists, but a read does not find it".into() });
        }
        if self.shared.phase.verify {
            freshness.check(index, self.values.check(index, &self.value, &mut self.scratch)?)?;
        }
        Ok(())
    }
}

/// One running thread; ends when dropped.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}
