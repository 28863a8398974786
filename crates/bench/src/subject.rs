//! What is measured: a store, seen as the few calls that workloads make.

mod map;
mod switches;
mod zonda;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use map::MapSubject;
pub use switches::{SWITCHES, Switch, parse_switch, switches_help};
pub use zonda::ZondaSubject;

use crate::{BenchError, Result};

/// When a write of a workload counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Handed to the store; lost at a power cut unless synced since.
    Buffered,
    /// On the device.
    Synced,
}

impl std::str::FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "buffered" => Ok(Self::Buffered),
            "synced" => Ok(Self::Synced),
            _ => Err(format!("`{text}` is neither buffered nor synced")),
        }
    }
}

/// Name of the baseline in memory.
const MAP_DESIGN: &str = "map";

/// Engines of others, as designs; the crate `compare` runs them. Nothing else may be missing from a run.
pub const PEERS: [&str; 6] = ["rocksdb", "wiredtiger", "lmdb", "redb", "fjall", "bf-tree"];

/// What store to make or open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StorePlan {
    /// Where: `file:PATH`, `mem:`, ...
    pub uri: String,
    /// Preset by name; `map` is the bench's own baseline in memory.
    pub design: String,
    /// Memory budget in bytes.
    pub memory_bytes: u64,
    /// Whether there is a write-ahead log.
    pub log: bool,
    /// Seed of whatever is random in the store.
    pub seed: u64,
    /// Number of zones of a new device, where the default does not do.
    pub zones: Option<u32>,
    /// Bytes of a zone of a new device, where the default does not do.
    pub zone_bytes: Option<u64>,
    /// Bytes of a leaf of a new store, where the default does not do.
    #[serde(default)]
    pub leaf_bytes: Option<u32>,
    /// Techniques switched on, off or elsewhere, by name ([`SWITCHES`]).
    #[serde(default)]
    pub switches: BTreeMap<String, String>,
}

impl StorePlan {
    /// A store of the default design at `uri`.
    #[must_use]
    pub fn new(uri: String, memory_bytes: u64, seed: u64) -> Self {
        Self {
            uri,
            design: "zonda".to_owned(),
            memory_bytes,
            log: true,
            seed,
            zones: None,
            zone_bytes: None,
            leaf_bytes: None,
            switches: BTreeMap::new(),
        }
    }

    /// Zones of a device whose plan says how large a zone is but not how many: enough for anything that is measured.
    pub(crate) const ZONES_DEFAULT: u64 = 4_096;

    /// Whether it is the bench's own baseline in memory.
    pub(crate) fn is_map(&self) -> bool {
        self.design == MAP_DESIGN
    }

    /// The same store with `switch` at `value`.
    #[must_use]
    pub fn with(mut self, switch: &str, value: &str) -> Self {
        self.switches.insert(switch.to_owned(), value.to_owned());
        self
    }

    /// Why this build cannot make such a store: a design or a switch that it does not know. `None` if it can.
    #[must_use]
    pub fn unavailable(&self) -> Option<String> {
        match self.design.as_str() {
            MAP_DESIGN => None,
            design if PEERS.contains(&design) => Some("another engine: zonda-compare runs it".to_owned()),
            _ => ZondaSubject::unavailable(self),
        }
    }

    /// Makes a new store; one that exists is refused.
    ///
    /// # Errors
    /// `Store` with the store's own words.
    pub fn create(&self) -> Result<Arc<dyn Subject>> {
        match self.design.as_str() {
            MAP_DESIGN => Ok(Arc::new(MapSubject::default())),
            _ => Ok(Arc::new(ZondaSubject::create(self)?)),
        }
    }

    /// Opens a store that exists.
    ///
    /// # Errors
    /// `Store` with the store's own words; `Usage` for the map.
    pub fn open(&self) -> Result<Arc<dyn Subject>> {
        if self.design == MAP_DESIGN {
            let expected = "a design that keeps what it is given: the map is gone with its process".to_owned();
            return Err(BenchError::Usage { option: "--design", given: self.design.clone(), expected });
        }
        Ok(Arc::new(ZondaSubject::open(self)?))
    }
}

/// Bytes written to the device, by cause; all together are what the device layer wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenBytes {
    /// Leaves written because their buffers were merged, or evicted dirty.
    pub flush: u64,
    /// Leaves moved by reclaim.
    pub relocation: u64,
    /// Write-ahead log.
    pub log: u64,
    /// Address records and other structure.
    pub journal: u64,
    /// Buffer images of checkpoints.
    pub image: u64,
    /// Large values.
    pub values: u64,
    /// Zone headers.
    pub headers: u64,
}

impl WrittenBytes {
    /// What was written after `before`. Saturates: the counts of a store are of nearly one moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            flush: self.flush.saturating_sub(before.flush),
            relocation: self.relocation.saturating_sub(before.relocation),
            log: self.log.saturating_sub(before.log),
            journal: self.journal.saturating_sub(before.journal),
            image: self.image.saturating_sub(before.image),
            values: self.values.saturating_sub(before.values),
            headers: self.headers.saturating_sub(before.headers),
        }
    }

    /// What both were written for.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            flush: self.flush + other.flush,
            relocation: self.relocation + other.relocation,
            log: self.log + other.log,
            journal: self.journal + other.journal,
            image: self.image + other.image,
            values: self.values + other.values,
            headers: self.headers + other.headers,
        }
    }

    /// Bytes of checkpoints: structure and images.
    #[must_use]
    pub fn checkpoint(&self) -> u64 {
        self.journal + self.image
    }
}

/// Where a store's memory is at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBy {
    /// The budget.
    pub budget: u64,
    /// Buffers of leaves: delta buffers, delta records or mini-pages.
    pub buffers: u64,
    /// The merged filter with its batch array.
    pub filter: u64,
    /// Records that were read and are kept.
    pub record_cache: u64,
    /// Pages that were read and are kept, and those on their way to the device.
    pub page_cache: u64,
    /// Inner nodes and leaf table.
    pub index: u64,
    /// Rings of the log.
    pub log: u64,
    /// Kept for snapshots.
    pub snapshots: u64,
}

impl MemoryBy {
    /// Names of the parts, in the order of [`percents`](Self::percents).
    pub const PARTS: [&'static str; 7] =
        ["leaf buffers", "filter", "record cache", "page cache", "index", "log", "snapshots"];

    /// Each part in percent of the budget.
    #[must_use]
    pub fn percents(&self) -> [f64; 7] {
        let parts =
            [self.buffers, self.filter, self.record_cache, self.page_cache, self.index, self.log, self.snapshots];
        parts.map(|bytes| 100.0 * bytes as f64 / self.budget.max(1) as f64)
    }

    /// What both caches have.
    #[must_use]
    pub fn caches(&self) -> u64 {
        self.record_cache + self.page_cache
    }
}

/// Everything that a store counts. The first group only grows and is reported as differences; the second is of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes that the device layer wrote.
    pub device_written_bytes: u64,
    /// Bytes that the device layer read.
    pub device_read_bytes: u64,
    /// What they were written for.
    pub written: WrittenBytes,
    /// Zones reset.
    pub zones_reset: u64,
    /// Point reads.
    pub gets: u64,
    /// Leaf pages that point reads asked for, those in the read cache included.
    pub leaf_reads: u64,
    /// Pages that the read cache had.
    pub page_hits: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,

    /// Memory in use under the budget.
    pub memory_bytes: u64,
    /// The most memory that was in use since opening.
    pub memory_peak_bytes: u64,
    /// Where it is; `None` for engines that do not say.
    pub memory_by: Option<MemoryBy>,
    /// Memory of inner nodes.
    pub inner_bytes: u64,
    /// Memory of the leaf table.
    pub leaf_table_bytes: u64,
    /// Live leaves on the device.
    pub leaf_bytes: u64,
    /// Live large values on the device.
    pub value_bytes: u64,
    /// Log that recovery would read.
    pub log_bytes: u64,
    /// What live data may fill.
    pub usable_bytes: u64,
}

/// A visitor of scanned pairs: key and value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// A store under test. Any thread may call anything.
pub trait Subject: Send + Sync {
    /// What the device column of reports says, `page cache` included.
    fn device(&self) -> String;

    /// Maps `key` to `value`.
    ///
    /// # Errors
    /// `Store`.
    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()>;

    /// Removes `key`.
    ///
    /// # Errors
    /// `Store`.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Puts the value of `key` into `into` and says whether there is one.
    ///
    /// # Errors
    /// `Store`.
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool>;

    /// The values of several keys, in their order: one get after the other, of engines that have no call for it.
    ///
    /// # Errors
    /// `Store`.
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let get = |key: &Vec<u8>| {
            let mut value = Vec::new();
            Ok(self.get(key, &mut value)?.then_some(value))
        };
        keys.iter().map(get).collect()
    }

    /// Visits up to `pairs` pairs in key order, from `from` on; returns how many there were.
    ///
    /// # Errors
    /// `Store`, and what `visit` returns.
    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// `Store`.
    fn sync(&self) -> Result<()>;

    /// Takes a checkpoint, so that recovery would read little or no log.
    ///
    /// # Errors
    /// `Store`.
    fn checkpoint(&self) -> Result<()>;

    /// Merges all buffers and underfull leaves.
    ///
    /// # Errors
    /// `Store`.
    fn compact(&self) -> Result<()>;

    /// Walks everything; returns what is wrong.
    ///
    /// # Errors
    /// `Store` when the walk itself fails.
    fn check(&self) -> Result<Vec<String>>;

    /// Everything that is counted.
    ///
    /// # Errors
    /// `Store`.
    fn counters(&self) -> Result<Counters>;

    /// Closes cleanly; the subject answers errors from then on.
    ///
    /// # Errors
    /// `Store`.
    fn close(&self) -> Result<()>;
}
