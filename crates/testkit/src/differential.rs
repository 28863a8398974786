//! A long life of one database beside a [`BTreeMap`]: every answer of millions of operations is compared.
//!
//! No power cuts; the simulator has those. Here the store lives on a device in memory and on the threads of the system, at full speed, with
//! a budget of a small part of its data, which is there from the beginning, so that buffers are evicted and merged all the time. It is
//! closed and opened again now and then, and there are stretches without writes, in which the ring of mini-pages is turned.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use zonda::limits::MEMORY_BYTES_MIN;
use zonda::{Batch, BufferClasses, Db, Design, Eviction, FlusherOptions, MemoryShares, Options, StoreKind};
use zonda_device::{Geometry, MemBlockDevice, MemDevice};
use zonda_rt::{Rng, Seed};

use crate::Trouble;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Step<T> = Result<T, String>;

const ZONE_BYTES: u64 = 4 << 20;
const BLOCK_BYTES: u32 = 4096;
/// Operations in which what is rare, such as closing, comes about as often as its share of a million says; shorter runs have as much of it.
const RARE_OPERATIONS: u64 = 2_000_000;
const RARE_TIMES_MAX: u64 = 100;
/// Pairs of a scan at the most.
const SCAN_PAIRS_MAX: usize = 60;
/// Snapshots that may be given up for one that is compared: with the least memory and the largest leaves five are.
const GIVEN_UP_MAX: u64 = 12;
/// Of so many stretches of operations one has no writes.
const QUIET_ONE_IN: u64 = 8;
/// The longest stretch: the background looks a few dozen times meanwhile.
const STRETCH_OPERATIONS_MAX: u64 = 50_000;
/// Of a million operations, how many put or delete a key.
const WRITES: u64 = 430_000;
/// And how many write several.
const BATCHES: u64 = 40_000;
/// So many times fewer keys where each value takes a block: as many bytes as with short ones in leaves.
const BLOCKS_SHARE: u64 = 64;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Differential {
    /// Of everything random.
    pub seed: u64,
    /// Operations to compare.
    pub operations: u64,
    /// What leaves keep in memory.
    pub design: Design,
    /// Where leaves lie.
    pub store: StoreKind,
    /// Different keys.
    pub keys: u64,
    /// Memory budget of the store.
    pub memory_bytes: u64,
}

/// The device of a run, which outlives the database.
enum Device {
    Zones(Arc<MemDevice>),
    Blocks(Arc<MemBlockDevice>),
}

struct Run {
    options: Options,
    device: Device,
    db: Db,
    model: Model,
    rng: Rng,
    keys: u64,
    memory_bytes: u64,
    /// What is rare comes so many times as often.
    rare_times: u64,
    snapshot: Option<(zonda::Snapshot, Model)>,
    /// Snapshots compared, and given up before they were.
    compared: u64,
    /// See `compared`.
    given_up: u64,
    /// Mini-pages that were merged in turns of their ring, before the store was last opened.
    merged_in_turns: u64,
}

impl Differential {
    /// Runs to the end or to the first difference. `progress` hears of operations done. Returns how many mini-pages were merged in turns
    /// of their ring.
    ///
    /// # Errors
    /// The first difference, or refusal of the store.
    pub fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<u64, Trouble> {
        let mut run = self.begin().map_err(|what| Trouble { step: 0, what })?;
        (0..self.keys / 2).try_for_each(|_| run.put()).map_err(|what| Trouble { step: 0, what })?;
        for step in 0..self.operations {
            run.step(self.is_quiet(step)).map_err(|what| Trouble { step, what })?;
            if step.is_multiple_of(1 << 16) {
                progress(step);
            }
        }
        run.finish().map_err(|what| Trouble { step: self.operations, what })
    }

    fn is_quiet(&self, step: u64) -> bool {
        let stretch = (self.operations / (2 * QUIET_ONE_IN)).clamp(1, STRETCH_OPERATIONS_MAX);
        step / stretch % QUIET_ONE_IN == QUIET_ONE_IN - 1
    }

    fn begin(&self) -> Step<Run> {
        // Ten times what the pairs take, so that reclaim has something to do but space is no question.
        let zones = u32::try_from(self.keys * 80 * 10 / ZONE_BYTES).unwrap_or(u32::MAX).max(32);
        let device = match self.store {
            StoreKind::InPlace => {
                let blocks = u64::from(zones) * ZONE_BYTES / u64::from(BLOCK_BYTES);
                Device::Blocks(Arc::new(MemBlockDevice::new(BLOCK_BYTES, blocks).map_err(text)?))
            }
            _ => Device::Zones(Arc::new(MemDevice::new(Geometry::new(ZONE_BYTES, zones)).map_err(text)?)),
        };
        let options = Options::new()
            .design(self.design)
            .memory(self.memory_bytes)
            .seed(self.seed)
            .store(self.store)
            .zone_bytes(ZONE_BYTES)
            .promotion(30)
            .scan_promotion(30);
        let options = with_drawn(options, self.seed);
        let db = open(&device, &options)?;
        let (model, rng) = (Model::new(), Rng::seeded(self.seed));
        let rare_times = (RARE_OPERATIONS / self.operations.max(1)).clamp(1, RARE_TIMES_MAX);
        Ok(Run {
            options,
            device,
            db,
            model,
            rng,
            keys: if separates_all(self.seed) { self.keys.div_ceil(BLOCKS_SHARE) } else { self.keys },
            memory_bytes: self.memory_bytes,
            rare_times,
            snapshot: None,
            compared: 0,
            given_up: 0,
            merged_in_turns: 0,
        })
    }
}

/// Whether all values are in the value log, each in a block of its own.
fn separates_all(seed: u64) -> bool {
    Seed(seed).derive("separated values").rng().chance(0.2)
}

/// Classes of buffers that end at so many bytes.
fn paper_classes(seed: u64) -> BufferClasses {
    let classes = [BufferClasses::Paper, BufferClasses::PaperWhole, BufferClasses::To512, BufferClasses::To1024];
    classes[Seed(seed).derive("classes").rng().index(classes.len())]
}

/// Options that change where things are and never what is answered.
fn with_drawn(options: Options, seed: u64) -> Options {
    let mut rng = Seed(seed).derive("options").rng();
    let mut pick = |among: usize| rng.index(among);
    let shares = [None, None, Some(MemoryShares::ZKV), Some(MemoryShares { filter: 0, buffers: 6, flusher: 2 })];
    options
        .memory_shares(shares[pick(shares.len())])
        .merged_relocation(pick(3) > 0)
        .value_inline([[1024, 1024, 64], [0; 3]][usize::from(separates_all(seed))][pick(3)])
        .filter([0.0, 0.0, 0.05, 0.25][pick(4)])
        .filter_by_node(pick(2) == 0)
        .batch_insertion(pick(4) > 0)
        .classes([BufferClasses::Large, BufferClasses::Large, paper_classes(seed)][pick(3)])
        .eviction([Eviction::Fullest, Eviction::Fullest, Eviction::Oldest][pick(3)])
        .record_cache(pick(4) > 0)
        .leaf_bytes([4096, 4096, 8192, 16 << 10, 32 << 10][pick(5)])
        .mini_page_bytes([2048, 2048, 512, 4096][pick(4)])
        .copy_on_access([10, 10, 0, 100][pick(4)])
        .delta_records([32, 10, 1][pick(3)])
        .log_ring([64 << 10, 64 << 10, 4 << 10][pick(3)])
        .flusher(FlusherOptions {
            group_pages: [1, 4, 4, 16][pick(4)],
            cache_threshold_reads: [0, 1, 1][pick(3)],
            flushers_max: [1, 2, 16][pick(3)],
            sieve: pick(3) > 0,
        })
        .log(pick(6) > 0)
        .ring_turns(pick(4) > 0)
}

fn open(device: &Device, options: &Options) -> Step<Db> {
    let db = match device {
        Device::Zones(device) => Db::open_device(Arc::clone(device) as _, options),
        Device::Blocks(device) => Db::open_block_devices(Arc::clone(device) as _, None, options),
    };
    db.map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Run {
    /// A key: some often, most lengths alike, some that were never written.
    fn key(&mut self) -> Vec<u8> {
        let number = if self.rng.chance(0.5) { self.rng.below(self.keys / 20 + 1) } else { self.rng.below(self.keys) };
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        match number % 16 {
            0 => [b"a longer key, with a prefix that many share/".as_slice(), &mixed].concat(),
            1 => mixed[..3].to_vec(),
            _ => mixed.to_vec(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(1000) {
            0 => self.rng.index(3000),
            1..100 => self.rng.index(100),
            _ => 8,
        };
        let mut value = vec![0; len];
        self.rng.fill(&mut value);
        value
    }

    fn step(&mut self, is_quiet: bool) -> Step<()> {
        match self.rng.below(1_000_000) / self.rare_times {
            0..80 => return self.compare_snapshot(),
            80..97 => return self.db.checkpoint().map_err(text),
            97..98 => return self.db.compact(&mut |_, _| {}).map_err(text),
            98..100 => return self.reopen(),
            100..120 => return self.set_memory(),
            _ => {}
        }
        let drawn = match is_quiet {
            true => WRITES + self.rng.below(1_000_000 - WRITES - BATCHES),
            false => self.rng.below(1_000_000),
        };
        match drawn {
            0..350_000 => self.put(),
            350_000..WRITES => {
                let key = self.key();
                self.model.remove(&key);
                self.db.delete(&key).map_err(text)
            }
            WRITES..880_000 => self.get(),
            880_000..900_000 => self.multi_get(),
            900_000..960_000 => self.scan(),
            _ => self.batch(),
        }
    }

    fn put(&mut self) -> Step<()> {
        let (key, value) = (self.key(), self.value());
        self.db.put(&key, &value).map_err(text)?;
        self.model.insert(key, value);
        Ok(())
    }

    fn get(&mut self) -> Step<()> {
        let key = self.key();
        let (seen, wanted) = (self.db.get(&key).map_err(text)?, self.model.get(&key));
        same(seen.as_ref() == wanted, || format!("get of {key:?} gave {seen:?}, not {wanted:?}"))
    }

    fn multi_get(&mut self) -> Step<()> {
        let keys: Vec<_> = (0..=self.rng.index(20)).map(|_| self.key()).collect();
        let seen = self.db.multi_get(&keys).map_err(text)?;
        let wanted: Vec<_> = keys.iter().map(|key| self.model.get(key).cloned()).collect();
        same(seen == wanted, || format!("multi-get of {keys:?} gave {seen:?}, not {wanted:?}"))
    }

    /// A scan from a key on, or backwards to it, or from both ends by turns.
    fn scan(&mut self) -> Step<()> {
        let (key, pairs) = (self.key(), 1 + self.rng.index(SCAN_PAIRS_MAX));
        let way = self.rng.below(3);
        let bounds = match way {
            0 => (Bound::Included(key.clone()), Bound::Unbounded),
            _ => (Bound::Unbounded, Bound::Excluded(key.clone())),
        };
        let mut seen = self.db.range(bounds.clone()).map_err(text)?;
        let mut wanted = self.model.range(bounds);
        for nth in 0..pairs {
            let forwards = way == 0 || way == 2 && nth % 2 == 0;
            let (seen, wanted) =
                if forwards { (seen.next(), wanted.next()) } else { (seen.next_back(), wanted.next_back()) };
            let seen = seen.transpose().map_err(text)?;
            let alike = seen.as_ref().map(|(key, value)| (key, value)) == wanted;
            same(alike, || format!("pair {nth} of a scan from {key:?} is {seen:?}, not {wanted:?}"))?;
            if wanted.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn batch(&mut self) -> Step<()> {
        let mut batch = Batch::new();
        for _ in 0..=self.rng.index(12) {
            let key = self.key();
            if self.rng.chance(0.3) {
                batch.delete(&key);
                self.model.remove(&key);
            } else {
                let value = self.value();
                batch.put(&key, &value);
                self.model.insert(key, value);
            }
        }
        self.db.write(batch).map_err(text)
    }

    /// Compares what the open snapshot shows with what was there then, or opens one.
    fn compare_snapshot(&mut self) -> Step<()> {
        let Some((snapshot, then)) = self.snapshot.take() else {
            self.snapshot = Some((self.db.snapshot().map_err(text)?, self.model.clone()));
            return Ok(());
        };
        for _ in 0..200 {
            let key = self.key();
            let seen = match snapshot.get(&key) {
                // It held more than its share of the memory.
                Err(zonda::Error::SnapshotTooOld { .. }) => {
                    self.given_up += 1;
                    return Ok(());
                }
                seen => seen.map_err(text)?,
            };
            let wanted = then.get(&key);
            same(seen.as_ref() == wanted, || format!("a snapshot has {seen:?} for {key:?}, not {wanted:?}"))?;
        }
        self.compared += 1;
        Ok(())
    }

    /// Another budget, from the least that there is to the one that the store was opened with; an index that is too large for it is a
    /// reason to refuse.
    fn set_memory(&mut self) -> Step<()> {
        let (least, most) = (MEMORY_BYTES_MIN, self.memory_bytes);
        let bytes = if self.rng.chance(0.3) { most } else { least + self.rng.below(most - least + 1) };
        match self.db.set_memory(bytes) {
            Err(zonda::Error::TooLittleMemory { .. }) if bytes < most => Ok(()),
            answer => answer.map_err(text),
        }
    }

    fn reopen(&mut self) -> Step<()> {
        self.snapshot = None;
        self.merged_in_turns += self.db.stats().map_err(text)?.tree.mini_pages.merged_in_turns;
        self.db.clone().close().map_err(text)?;
        self.db = open(&self.device, &self.options)?;
        Ok(())
    }

    /// Everything is there, nothing else, and the store finds nothing wrong with itself; also after it was opened again.
    fn finish(mut self) -> Step<u64> {
        same(self.given_up <= GIVEN_UP_MAX * self.compared, || {
            format!("{} snapshots were given up, and only {} compared", self.given_up, self.compared)
        })?;
        for _ in 0..2 {
            let mut seen = self.db.iter().map_err(text)?;
            for wanted in &self.model {
                let pair = seen.next().transpose().map_err(text)?;
                let alike = pair.as_ref().map(|(key, value)| (key, value)) == Some(wanted);
                same(alike, || format!("in the end there is {pair:?}, not {wanted:?}"))?;
            }
            same(seen.next().is_none(), || "in the end there is more than was put".to_owned())?;
            let mut findings = Vec::new();
            self.db.check(&mut |_, _| {}, &mut |finding| findings.push(finding.to_string())).map_err(text)?;
            same(findings.is_empty(), || findings.join("; "))?;
            self.reopen()?;
        }
        Ok(self.merged_in_turns)
    }
}

fn same(alike: bool, difference: impl FnOnce() -> String) -> Step<()> {
    if alike { Ok(()) } else { Err(difference()) }
}
