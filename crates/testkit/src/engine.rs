//! The real subject: a `zonda_tree::Engine` on either page store, with options so small that everything happens soon.

use std::{ops::Bound, sync::Arc};

use zonda_device::{Geometry, cut_label};
use zonda_pages::{
    BLOCK_BYTES, CachePolicy, InPlaceOptions, InPlaceStore, PageError, PageStore, StoreId, StoreOptions, VictimPolicy,
    ZonedStore,
};
use zonda_rt::{Rng, Seed};
use zonda_tree::{
    BatchOp, BufferClasses, Cursor, Design, Durability, Engine, Eviction, FilterEviction, INNER_CHILDREN_MIN,
    LOG_RING_BYTES_MAX, LOG_RING_BYTES_MIN, MiniPages, Snapshot, Step, TreeError, TreeOptions, Update,
};

use crate::subject::INLINE_BYTES_MIN;
use crate::{
    Answer, Bug, Change, Ground, Maker, Pair, Refusal, Subject, Tally, View, Walk, Work,
    bug::{HalfBatch, ResetEarly, Sound, StaleCache, WriteAhead},
    memory::{Mover, Shares},
    profile::pick,
};

/// Steps of merging buffers in a round of the background's work where it tends them, as in the facade.
const TENDED_STEPS_MAX: usize = 64;

/// A ring of a segment.
const RING_BYTES: u64 = 32 << 10;

/// Makes engines.
#[derive(Clone, Debug)]
pub struct EngineMaker {
    /// Options of the tree.
    pub tree: TreeOptions,
    /// Options of the page store.
    pub store: StoreOptions,
    /// Blocks of a segment, in place.
    pub segment_blocks: u64,
    /// What of memory goes to what, and whether it moves.
    pub shares: Shares,
    /// Whether the background merges buffers before writers have to, as in the facade.
    pub tends_buffers: bool,
    /// What is wrong with it.
    pub bug: Option<Bug>,
}

impl EngineMaker {
    /// Draws options for a device of this geometry.
    #[must_use]
    pub fn draw(rng: &mut Rng, design: Design, geometry: &Geometry, bug: Option<Bug>) -> Self {
        let mut tree = draw_tree(rng, design, geometry);
        let mut store = draw_store(rng, &tree, geometry);
        // Seeded bugs are found by what a log promises.
        tree.log = bug.is_some() || !Seed(tree.seed).derive("no log").rng().chance(0.1);
        let fixed = divide_as_the_paper(&mut tree, &mut store);
        let segment_blocks = geometry.zone_size_blocks * u64::from(geometry.block_bytes) / BLOCK_BYTES as u64;
        let shares = Shares {
            buffer_bytes: tree.buffer_bytes,
            record_cache_bytes: tree.record_cache_bytes_max,
            page_cache_bytes: store.read_cache_bytes,
            moves: !fixed && Seed(tree.seed).derive("memory").rng().chance(0.5),
        };
        let tends_buffers = Seed(tree.seed).derive("tended buffers").rng().chance(0.5);
        Self { tree, store, segment_blocks, shares, tends_buffers, bug }
    }

    /// The same with a ring of mini-pages so short that changes fill it, which the background turns for all that is read.
    #[must_use]
    pub fn turning(mut self) -> Self {
        let ring_bytes = RING_BYTES.max(2 * u64::from(self.tree.leaf_bytes));
        self.tree.buffer_bytes = self.tree.buffer_bytes.min(ring_bytes);
        self.tree.filter_bytes = 0;
        let (promotion_percent, bytes_max) = (100, 2048);
        self.tree.mini_pages = MiniPages { promotion_percent, bytes_max, turns: true, ..self.tree.mini_pages };
        self.shares.buffer_bytes = self.tree.buffer_bytes;
        self.tends_buffers = true;
        self
    }

    fn in_place(&self) -> InPlaceOptions {
        // From a seed of its own, so that everything else a seed means is the same on zones.
        let mut rng = Rng::seeded(self.tree.seed);
        let cache = *pick(&mut rng, &[CachePolicy::Sieve, CachePolicy::Lru]);
        let (common, trim) = (self.store.clone(), rng.chance(0.5));
        InPlaceOptions { common, segment_blocks: self.segment_blocks, cache, trim }
    }

    /// The page store, through the seeded bug.
    fn faulty(&self, store: Arc<dyn PageStore>) -> Arc<dyn PageStore> {
        match self.bug {
            Some(Bug::ResetEarly) => Arc::new(ResetEarly::over(store)),
            Some(Bug::WriteAhead) => Arc::new(WriteAhead::over(store)),
            Some(Bug::StaleCache) => Arc::new(StaleCache::over(store)),
            Some(Bug::None) => Arc::new(Sound::over(store)),
            _ => store,
        }
    }

    fn subject(&self, engine: Engine, store: Arc<dyn PageStore>) -> Arc<dyn Subject> {
        let memory = Mover::begin(self.shares, &engine, self.tree.seed);
        engine.tend_buffers(self.tends_buffers);
        let buffer_steps_max = if self.tends_buffers { TENDED_STEPS_MAX } else { usize::from(memory.moves()) };
        let inline_bytes = INLINE_BYTES_MIN.min(self.tree.value_inline_bytes_max as usize);
        let subject = EngineSubject { engine, store, memory, buffer_steps_max, inline_bytes };
        match self.bug {
            Some(Bug::HalfBatch) => Arc::new(HalfBatch::over(subject)),
            _ => Arc::new(subject),
        }
    }
}

/// Now and then the fixed shares of the ZKV paper: filter, buffers and flusher like 1:3:4, and no records. Answers whether.
fn divide_as_the_paper(tree: &mut TreeOptions, store: &mut StoreOptions) -> bool {
    let fixed = Seed(tree.seed).derive("fixed shares").rng().chance(0.15);
    if fixed {
        tree.filter_bytes = tree.buffer_bytes / 3;
        tree.record_cache_bytes_max = 0;
        store.read_cache_bytes = tree.buffer_bytes * 4 / 3;
    }
    fixed
}

fn draw_tree(rng: &mut Rng, design: Design, geometry: &Geometry) -> TreeOptions {
    let buffer_bytes = 1024 * (16 + rng.below(33));
    let mut tree = draw_base(rng, design, buffer_bytes);
    // From a stream of its own, so that everything else a seed means is the same with a filter and without.
    let mut rng = Rng::seeded(tree.seed);
    tree.filter_bytes = 1024 * *pick(&mut rng, &[0, 0, 4, 16, 64]);
    tree.batch_runs = rng.chance(0.9);
    tree.filter_eviction = *pick(&mut rng, &[FilterEviction::Nodes, FilterEviction::Pairs]);
    tree.classes = *pick(&mut rng, &[BufferClasses::Large, BufferClasses::Large, BufferClasses::Paper]);
    tree.eviction = *pick(&mut rng, &[Eviction::Fullest, Eviction::Fullest, Eviction::Oldest]);
    tree.delta_records_max = *pick(&mut rng, &[1, 10, 32]);
    tree.log_ring_bytes = *pick(&mut rng, &[LOG_RING_BYTES_MIN, LOG_RING_BYTES_MAX]);
    tree.merged_relocation = rng.chance(0.8);
    tree.mini_pages = MiniPages {
        copy_on_access_percent: *pick(&mut rng, &[0, 10, 10, 50, 100]),
        promotion_percent: *pick(&mut rng, &[0, 20, 50, 100]),
        scan_promotion_percent: *pick(&mut rng, &[0, 20, 100]),
        bytes_max: *pick(&mut rng, &[256, 1024, 2048, 2048]),
        turns: Seed(tree.seed).derive("turns").rng().chance(0.8),
    };
    // What is drawn from here on came later: older seeds mean the same but for these.
    let mut rng = Seed(tree.seed).derive("record cache").rng();
    tree.record_cache_bytes_max = 1024 * *pick(&mut rng, &[0, 16, 64, 256]);
    if tree.classes == BufferClasses::Paper {
        let mut rng = Seed(tree.seed).derive("larger classes").rng();
        tree.classes = *pick(&mut rng, &[BufferClasses::Paper, BufferClasses::To512, BufferClasses::To1024]);
        if tree.classes == BufferClasses::Paper && Seed(tree.seed).derive("whole keys").rng().chance(0.5) {
            tree.classes = BufferClasses::PaperWhole;
        }
    }
    // A tree of a few hundred leaves has three levels of inner nodes then.
    if Seed(tree.seed).derive("inner nodes").rng().chance(0.5) {
        tree.inner_children_max = INNER_CHILDREN_MIN;
    }
    if Seed(tree.seed).derive("separated values").rng().chance(0.1) {
        tree.value_inline_bytes_max = 0;
    }
    draw_large_leaves(&mut tree, geometry);
    tree
}

/// Now and then leaves of 16 or 32 KiB; buffers and log are larger then. A merge that splits a leaf may be longer than a zone.
fn draw_large_leaves(tree: &mut TreeOptions, geometry: &Geometry) {
    let mut rng = Seed(tree.seed).derive("large leaves").rng();
    let leaf_bytes: u32 = *pick(&mut rng, &[0, 0, 0, 0, 0, 16 << 10, 32 << 10]);
    if leaf_bytes == 0 || geometry.zone_capacity_bytes() < 2 * u64::from(leaf_bytes) {
        return;
    }
    tree.leaf_bytes = leaf_bytes;
    tree.buffer_bytes = tree.buffer_bytes.max(2 * u64::from(leaf_bytes));
    tree.log_limit_bytes = tree.log_limit_bytes.max(4 * tree.buffer_bytes);
}

fn draw_base(rng: &mut Rng, design: Design, buffer_bytes: u64) -> TreeOptions {
    TreeOptions {
        design,
        buffer_bytes,
        leaf_bytes: *pick(rng, &[4096, 4096, 8192]),
        value_inline_bytes_max: *pick(rng, &[64, 256, 1024]),
        log_instances: *pick(rng, &[1, 2, 3]),
        log_interval_ms: 1,
        log_limit_bytes: buffer_bytes * (4 + rng.below(4)),
        snapshot_bytes_max: 1024 * *pick(rng, &[16, 64, 1024]),
        seed: rng.next_u64(),
        ..TreeOptions::default()
    }
}

fn draw_store(rng: &mut Rng, tree: &TreeOptions, geometry: &Geometry) -> StoreOptions {
    let store = StoreOptions {
        store_id: StoreId(u128::from(rng.next_u64())),
        superblock: b"testkit".to_vec(),
        group_pages: *pick(rng, &[1, 2, 4, 8]),
        sequencer_groups_max: *pick(rng, &[1, 2, 4]),
        cache_threshold_reads: *pick(rng, &[0, 1, 2]),
        read_cache_bytes: *pick(rng, &[0, 64 << 10]),
        hot_writers_max: *pick(rng, &[1, 2]),
        victim_policy: *pick(rng, &[VictimPolicy::Greedy, VictimPolicy::CostBenefit]),
        log_limit_bytes: tree.log_limit_bytes,
        active_limit: geometry.max_active,
        ..StoreOptions::default()
    };
    let mut rng = Seed(tree.seed).derive("flushers").rng();
    let hot_writers_max = *pick(&mut rng, &[store.hot_writers_max, store.hot_writers_max, 4, 16]);
    let cache_policy = *pick(&mut rng, &[CachePolicy::Sieve, CachePolicy::Sieve, CachePolicy::Lru]);
    let mut rng = Seed(tree.seed).derive("garbage").rng();
    let garbage_percent_max = *pick(&mut rng, &[None, None, Some(0), Some(100)]);
    let mut rng = Seed(tree.seed).derive("longest groups").rng();
    let group_pages = if rng.chance(0.1) { 16 } else { store.group_pages };
    StoreOptions { hot_writers_max, cache_policy, garbage_percent_max, group_pages, ..store }
}

impl Maker for EngineMaker {
    fn create(&self, ground: Ground) -> Answer<Arc<dyn Subject>> {
        let store: Arc<dyn PageStore> = match ground {
            Ground::Zones(device) => ZonedStore::create(device, &self.store)?,
            Ground::Split { pages, log } => ZonedStore::create_with_log(pages, log, &self.store)?,
            Ground::Blocks(device) => InPlaceStore::create(device, &self.in_place())?,
            Ground::SplitBlocks { pages, log } => InPlaceStore::create_with_log(pages, log, &self.in_place())?,
        };
        let engine = Engine::create(self.faulty(Arc::clone(&store)), self.tree.clone())?;
        Ok(self.subject(engine, store))
    }

    fn open(&self, ground: Ground) -> Answer<Arc<dyn Subject>> {
        let store: Arc<dyn PageStore> = match ground {
            Ground::Zones(device) => ZonedStore::open(device, &self.store)?.0,
            Ground::Split { pages, log } => ZonedStore::open_with_log(pages, log, &self.store)?.0,
            Ground::Blocks(device) => InPlaceStore::open(device, &self.in_place())?.0,
            Ground::SplitBlocks { pages, log } => InPlaceStore::open_with_log(pages, log, &self.in_place())?.0,
        };
        let engine = Engine::open(self.faulty(Arc::clone(&store)), self.tree.clone(), &mut |_| {})?;
        Ok(self.subject(engine, store))
    }
}

/// An engine as a subject.
pub struct EngineSubject {
    engine: Engine,
    store: Arc<dyn PageStore>,
    memory: Mover,
    /// Steps of merging buffers in a round of the background's work; 0: writers do it all.
    buffer_steps_max: usize,
    inline_bytes: usize,
}

impl EngineSubject {
    /// As the facade's background does.
    fn merge_buffers(&self) -> Answer<Step> {
        for nth in 0..self.buffer_steps_max {
            if self.engine.buffer_step()? == Step::Idle {
                return Ok(if nth > 0 { Step::Progress } else { Step::Idle });
            }
        }
        Ok(if self.buffer_steps_max > 0 { Step::Progress } else { Step::Idle })
    }
}

impl From<TreeError> for Refusal {
    fn from(error: TreeError) -> Self {
        match &error {
            TreeError::SnapshotTooOld { .. } => Self::TooOld(error.to_string()),
            TreeError::Store(cause) if matches!(**cause, PageError::NoSpace { .. }) => Self::NoSpace(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<PageError> for Refusal {
    fn from(error: PageError) -> Self {
        Self::from(TreeError::from(error))
    }
}

fn durability(synced: bool) -> Durability {
    if synced { Durability::Synced } else { Durability::Buffered }
}

fn batch_op(change: &Change) -> BatchOp<'_> {
    match change {
        Change::Put { key, value } => BatchOp::Put { key, value },
        Change::Delete { key } => BatchOp::Delete { key },
    }
}

impl Subject for EngineSubject {
    fn write(&self, changes: &[Change], synced: bool) -> Answer<()> {
        let durability = durability(synced);
        match changes {
            [Change::Put { key, value }] => self.engine.put(key, value, durability)?,
            [Change::Delete { key }] => self.engine.delete(key, durability)?,
            several => self.engine.write(&several.iter().map(batch_op).collect::<Vec<_>>(), durability)?,
        }
        Ok(())
    }

    fn replace(&self, key: &[u8], expected: Option<&[u8]>, value: &[u8], synced: bool) -> Answer<Option<Vec<u8>>> {
        let mut decide =
            |current: Option<&[u8]>| if current == expected { Update::Put(value.to_vec()) } else { Update::Keep };
        Ok(self.engine.update(key, durability(synced), &mut decide)?)
    }

    fn get(&self, key: &[u8]) -> Answer<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.engine.get_into(key, &mut value)?.then_some(value))
    }

    fn get_many(&self, keys: &[&[u8]]) -> Answer<Vec<Option<Vec<u8>>>> {
        Ok(self.engine.multi_get(keys)?)
    }

    fn snapshot(&self) -> Answer<Box<dyn View>> {
        Ok(Box::new(EngineView { engine: self.engine.clone(), snapshot: self.engine.snapshot()? }))
    }

    fn sync(&self) -> Answer<()> {
        Ok(self.engine.sync()?)
    }

    fn checkpoint(&self) -> Answer<()> {
        let _label = cut_label("buffer image");
        Ok(self.engine.checkpoint()?)
    }

    fn compact(&self) -> Answer<()> {
        Ok(self.engine.compact(&mut |_, _| {})?)
    }

    fn step(&self, work: Work) -> Answer<bool> {
        let step = match work {
            Work::Log => self.engine.log_step()?,
            Work::Checkpoint => {
                let _label = cut_label("buffer image");
                self.engine.checkpoint_step()?
            }
            Work::Reclaim => self.engine.reclaim_step()?,
            Work::Memory => {
                self.memory.step(&self.engine, &self.store);
                Step::Idle
            }
            Work::Buffers => self.merge_buffers()?,
            Work::Join => self.engine.join_step()?,
        };
        Ok(step == Step::Progress)
    }

    fn check(&self) -> Answer<()> {
        let mut findings = Vec::new();
        self.engine.check(&mut |_, _| {}, &mut |finding| findings.push(finding.to_string()))?;
        if findings.is_empty() { Ok(()) } else { Err(Refusal::Failed(findings.join("; "))) }
    }

    fn close(&self) -> Answer<()> {
        Ok(self.engine.close()?)
    }

    fn usable_bytes(&self) -> u64 {
        self.store.usage().usable_bytes
    }

    fn inline_bytes(&self) -> usize {
        self.inline_bytes
    }

    fn tally(&self) -> Tally {
        let (stats, usage, written) = (self.engine.stats(), self.store.usage(), self.store.written_by());
        Tally {
            splits: stats.splits,
            leaf_merges: stats.leaf_merges,
            merges: stats.merges,
            merged_in_turns: stats.mini_pages.merged_in_turns,
            checkpoints: stats.checkpoints,
            zones_reset: usage.zones_reset,
            meta_bytes: written.meta,
            relocated_bytes: written.relocation,
            kept_bytes: stats.snapshot_bytes,
        }
    }
}

struct EngineView {
    engine: Engine,
    snapshot: Snapshot,
}

impl View for EngineView {
    fn walk(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Answer<Box<dyn Walk + '_>> {
        Ok(Box::new(EngineWalk { cursor: self.engine.scan(&self.snapshot, low, high)? }))
    }

    fn get_many(&self, keys: &[&[u8]]) -> Answer<Vec<Option<Vec<u8>>>> {
        Ok(self.engine.multi_get_as_of(&self.snapshot, keys)?)
    }
}

struct EngineWalk {
    cursor: Cursor,
}

impl Walk for EngineWalk {
    fn next(&mut self) -> Answer<Option<Pair>> {
        Ok(self.cursor.next()?.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    fn prev(&mut self) -> Answer<Option<Pair>> {
        Ok(self.cursor.prev()?.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}
