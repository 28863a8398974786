//! How much an experiment does.

use serde::{Deserialize, Serialize};

/// Three sizes of every experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Seconds, to see that it works; its figures mean nothing.
    Tiny,
    /// Minutes on a machine with two cores; more where several engines are raced.
    #[default]
    Laptop,
    /// The paper's own size, for ZKV 200 million pairs, 400 MB, 56 threads; races of engines take the pairs and memory, not the threads.
    Paper,
}

impl Scale {
    /// All of them, smallest first.
    pub const ALL: [Self; 3] = [Self::Tiny, Self::Laptop, Self::Paper];

    /// The value for this scale.
    pub fn pick<T>(self, tiny: T, laptop: T, paper: T) -> T {
        match self {
            Self::Tiny => tiny,
            Self::Laptop => laptop,
            Self::Paper => paper,
        }
    }

    /// Name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.pick("tiny", "laptop", "paper")
    }

    /// Records loaded before most experiments of the ZKV paper: 200 million there.
    pub(super) fn records(self) -> u64 {
        self.pick(30_000, 4_000_000, 200_000_000)
    }

    /// Operations of a workload that mostly writes.
    pub(super) fn writes(self) -> u64 {
        self.pick(10_000, 2_000_000, 200_000_000)
    }

    /// Operations of a workload that mostly reads: each costs a device read.
    pub(super) fn reads(self) -> u64 {
        self.pick(2_000, 200_000, 200_000_000)
    }

    /// Scans.
    pub(super) fn scans(self) -> u64 {
        self.pick(500, 50_000, 200_000_000)
    }

    /// Threads: 56 in the paper.
    pub(super) fn threads(self) -> usize {
        self.pick(2, 2, 56)
    }

    /// Memory as in the paper: 12.5 % of the bytes of `records` pairs of 16 B, and never too little to work.
    pub(super) fn memory_for(records: u64) -> u64 {
        (records * 16 / 8).max(zonda::limits::MEMORY_BYTES_MIN)
    }

    /// [`memory_for`](Self::memory_for) this scale's records.
    pub(super) fn memory(self) -> u64 {
        Self::memory_for(self.records())
    }
}
