//! One store in a race: made from a description, told to run steps, asked what they cost.
//!
//! A contest lives in this process ([`LocalContest`]) or in a child of its own ([`ChildContest`]), where CPU time, memory
//! and `/proc/self/io` are its alone. Both are told the same, so a race does not know the difference.

mod child;
mod local;
mod memory_group;
mod pause;
mod writeback;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use child::{ChildContest, serve};
pub use local::LocalContest;
pub(crate) use memory_group::MemoryGroup;

use crate::keys::{KeySpace, Order};
use crate::measured::Measured;
use crate::phase::{DataSet, Phase};
use crate::subject::{Durability, StorePlan, Subject};
use crate::workload::Workload;
use crate::{Distribution, Result, Spread};

/// What can be made and measured: this project's stores, and whatever a program adds.
#[derive(Clone, Copy, Debug)]
pub struct Engines {
    /// Makes a new store.
    pub create: fn(&StorePlan) -> Result<Arc<dyn Subject>>,
    /// Why such a store cannot be made here; `None` if it can.
    pub unavailable: fn(&StorePlan) -> Option<String>,
    /// Whether such a store reads or writes through the system's page cache, so that its budget bounds only a part of what it
    /// holds.
    pub page_cached: fn(&StorePlan) -> bool,
    /// What the memory group of such a store may hold beyond what its budget allows, because it does not run in less; the report says so.
    pub held_more_bytes: fn(&StorePlan) -> u64,
}

impl Engines {
    /// This project's stores only.
    pub const OWN: Self = Self {
        create: StorePlan::create,
        unavailable: StorePlan::unavailable,
        page_cached: |_| false,
        held_more_bytes: |_| 0,
    };
}

/// The records of a contest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataShape {
    /// Length of keys.
    pub key_bytes: usize,
    /// Length of values.
    pub value_bytes: usize,
    /// Records that there is room for: those loaded and those inserted later.
    pub capacity: u64,
    /// Whether new records have ascending keys.
    pub sorted: bool,
    /// What keys of 8 bytes are taken from instead of lying evenly.
    pub keys_from: Option<KeysFrom>,
}

/// See [`DataShape::keys_from`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeysFrom {
    /// This file of the SOSD benchmark.
    File(PathBuf),
    /// A generator.
    Spread(Spread),
}

impl DataShape {
    /// Pairs of 8 B + 8 B in random order, room for `capacity`.
    #[must_use]
    pub fn small(capacity: u64) -> Self {
        Self { key_bytes: 8, value_bytes: 8, capacity, sorted: false, keys_from: None }
    }

    /// The data set, with no records yet.
    ///
    /// # Errors
    /// As [`DataSet::new`], [`KeySpace::given`] and [`KeySpace::spread`].
    pub fn data(&self, seed: u64) -> Result<DataSet> {
        let (capacity, seed) = (self.capacity, zonda_rt::Seed(seed));
        let order = if self.sorted { Order::Sorted } else { Order::Random };
        let keys = match &self.keys_from {
            None => KeySpace::new(self.key_bytes, capacity, order, seed)?,
            Some(KeysFrom::File(path)) => KeySpace::given(path, capacity, order, seed)?,
            Some(KeysFrom::Spread(spread)) => KeySpace::spread(*spread, capacity, order, seed)?,
        };
        Ok(DataSet::of(keys, self.value_bytes, capacity, seed))
    }
}

/// One thing that a contest does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name in results; unique in a race.
    pub phase: String,
    /// Workload by name; `load` inserts.
    pub workload: String,
    /// Distribution by name, instead of the workload's own.
    pub distribution: Option<String>,
    /// Operations of all slices together.
    pub operations: u64,
    /// Threads.
    pub threads: usize,
    /// Ends each slice after so many seconds.
    pub seconds_max: Option<f64>,
    /// Whether writes wait for the device.
    pub synced: bool,
    /// Whether the process is sampled meanwhile, to say where its time goes.
    #[serde(default)]
    pub profiled: bool,
}

impl Step {
    /// `operations` operations of `workload` by `threads` threads.
    #[must_use]
    pub fn new(workload: &str, operations: u64, threads: usize) -> Self {
        let (phase, workload) = (workload.to_owned(), workload.to_owned());
        let (distribution, seconds_max) = (None, None);
        Self { phase, workload, distribution, operations, threads, seconds_max, synced: false, profiled: false }
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, phase: &str) -> Self {
        phase.clone_into(&mut self.phase);
        self
    }

    /// The same over another distribution.
    #[must_use]
    pub fn over(mut self, distribution: &str) -> Self {
        self.distribution = Some(distribution.to_owned());
        self
    }

    /// The same, each slice at most so many seconds.
    #[must_use]
    pub fn within(mut self, seconds: f64) -> Self {
        self.seconds_max = Some(seconds);
        self
    }

    /// The same, with the process sampled meanwhile.
    #[must_use]
    pub fn profiled(mut self) -> Self {
        self.profiled = true;
        self
    }

    /// Whether it makes records; a step that does not exist makes none.
    #[must_use]
    pub fn inserts(&self) -> bool {
        self.slice(0, 1).is_ok_and(|phase| phase.workload.mix.inserts())
    }

    /// The phase that slice `nth` of `slices` is.
    ///
    /// # Errors
    /// `Usage` for a workload or distribution that does not exist.
    pub fn slice(&self, nth: u32, slices: u32) -> Result<Phase> {
        let mut workload = if self.workload == "load" { Workload::load() } else { Workload::named(&self.workload)? };
        self.phase.clone_into(&mut workload.name);
        if let Some(distribution) = &self.distribution {
            workload.distribution = distribution_named(distribution)?;
        }
        let operations = crate::phase::share_of(self.operations, slices as usize, nth as usize);
        let mut phase = Phase::new(workload, operations, self.threads);
        phase.slice = nth;
        phase.time_max = self.seconds_max.map(std::time::Duration::from_secs_f64);
        phase.durability = if self.synced { Durability::Synced } else { Durability::Buffered };
        Ok(phase)
    }
}

fn distribution_named(name: &str) -> Result<Distribution> {
    let refused = |expected| crate::BenchError::Usage { option: "distribution", given: name.to_owned(), expected };
    name.parse().map_err(refused)
}

/// Everything that one contest is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContestPlan {
    /// The store.
    pub store: StorePlan,
    /// Its records.
    pub data: DataShape,
    /// Sizes the device so that the loaded leaves are this share of its usable bytes, in percent.
    pub live_percent: Option<u32>,
    /// Refuses such a device with fewer zones.
    pub zones_min: Option<u32>,
    /// Loaded to find that size; otherwise unused.
    pub records: u64,
}

/// A store that runs what it is told.
pub trait Contest {
    /// Runs slice `nth` of `slices` of `step`.
    ///
    /// # Errors
    /// The store's; `Wrong` for a wrong answer; `Child` when the process is gone.
    fn run(&mut self, step: &Step, nth: u32, slices: u32) -> Result<Measured>;

    /// Reads everything, checks it and closes the store; returns the pairs found.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn finish(&mut self) -> Result<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_make_up_the_step() {
        let step = Step::new("update", 10, 2).over("zipf:0.5").named("hot updates").within(1.5);
        let slices: Vec<_> = (0..3).map(|nth| step.slice(nth, 3).unwrap()).collect();
        assert_eq!(slices.iter().map(|phase| phase.operations).collect::<Vec<_>>(), [4, 3, 3]);
        assert_eq!((slices[2].slice, slices[2].workload.name.as_str()), (2, "hot updates"));
        assert_eq!(slices[0].workload.distribution, Distribution::Zipf(0.5));
        assert!(Step::new("no such", 1, 1).slice(0, 1).is_err());
        assert!(Step::new("update", 1, 1).over("lumpy").slice(0, 1).is_err());
    }
}
