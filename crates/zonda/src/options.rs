//! What a store is told at creation and opening.

use zonda_device::ZONE_COUNT_MAX;
use zonda_tree::MiniPages;

#[cfg(doc)]
use crate::Db;
use crate::choices::{BufferClasses, Design, Durability, Eviction, MemoryShares, StoreKind, bad, multiple, within};
use crate::{FlusherOptions, Result, device, limits};

/// How to create and open a store. Kind, leaf size, geometry and whether there is a [log device](Self::log_device) are fixed at creation;
/// everything else may differ at every opening. A number out of its range is refused by the opening (`BadOption`).
///
/// # Examples
/// ```
/// use zonda::{Durability, Options};
///
/// let db = Options::new().memory(8 << 20).durability(Durability::Synced).open("mem:")?;
/// db.put("key", "value")?;
/// # Ok::<(), zonda::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) memory_bytes: u64,
    /// Whether `memory_bytes` was set: else a copy of a store has at least what its index needs.
    pub(crate) memory_is_set: bool,
    pub(crate) memory_shares: Option<MemoryShares>,
    pub(crate) classes: BufferClasses,
    pub(crate) eviction: Eviction,
    pub(crate) delta_records: u32,
    pub(crate) mini_pages: MiniPages,
    pub(crate) design: Design,
    pub(crate) filter_share: f64,
    /// Whether `filter_share` was set, by whoever has the options, and not by a preset.
    pub(crate) filter_is_set: bool,
    pub(crate) filter_by_node: bool,
    pub(crate) batch_insertion: bool,
    pub(crate) record_cache: bool,
    pub(crate) merged_relocation: bool,
    pub(crate) durability: Durability,
    pub(crate) store: Option<StoreKind>,
    /// What the preset makes of a new store if neither its name nor the user says.
    pub(crate) store_of_preset: StoreKind,
    pub(crate) leaf_bytes: Option<u32>,
    pub(crate) value_inline_bytes: Option<u32>,
    pub(crate) zone_bytes: Option<u64>,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) garbage: Garbage,
    pub(crate) create_if_missing: bool,
    pub(crate) create_new: bool,
    pub(crate) log: bool,
    pub(crate) log_up_to_damage: bool,
    pub(crate) log_instances: u32,
    pub(crate) log_ring_bytes: u32,
    pub(crate) log_interval_ms: u64,
    pub(crate) log_limit_bytes: u64,
    pub(crate) background: bool,
    pub(crate) seed: Option<u64>,
    pub(crate) direct_io: Option<bool>,
    pub(crate) flusher: FlusherOptions,
    pub(crate) log_device: Option<String>,
}

/// See [`Options::garbage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// [`GARBAGE_PERCENT`] on a file, no limit elsewhere.
    ByDevice,
    Limit(Option<u32>),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            memory_is_set: false,
            memory_shares: None,
            classes: BufferClasses::default(),
            eviction: Eviction::default(),
            delta_records: 32,
            mini_pages: MiniPages::default(),
            design: Design::default(),
            filter_share: 0.0,
            filter_is_set: false,
            filter_by_node: false,
            batch_insertion: true,
            record_cache: true,
            merged_relocation: true,
            durability: Durability::default(),
            store: None,
            store_of_preset: StoreKind::default(),
            leaf_bytes: None,
            value_inline_bytes: None,
            zone_bytes: None,
            capacity_bytes: None,
            garbage: Garbage::ByDevice,
            create_if_missing: true,
            create_new: false,
            log: true,
            log_up_to_damage: false,
            log_instances: 0,
            log_ring_bytes: limits::LOG_RING_BYTES_MAX,
            log_interval_ms: 1,
            log_limit_bytes: 0,
            background: true,
            seed: None,
            direct_io: None,
            flusher: FlusherOptions::default(),
            log_device: None,
        }
    }
}

impl Options {
    /// The defaults that each setter names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The memory budget in bytes, all of it: index, leaf buffers, caches, write buffers, log, snapshots.
    /// [`MEMORY_BYTES_MIN`](limits::MEMORY_BYTES_MIN), 2 MiB, to [`MEMORY_BYTES_MAX`](limits::MEMORY_BYTES_MAX), 16 TiB; with
    /// [`Design::BfTree`] to [`BF_TREE_MEMORY_BYTES_MAX`](limits::BF_TREE_MEMORY_BYTES_MAX), 16 GiB. Default 64 MiB. The code itself and
    /// what callers hold come on top. A larger budget has a longer log ([`log_limit`](Self::log_limit)), which small devices feel: there
    /// less of it is usable. Leaf buffers have at most 1/22 of the device, as what is changed in them must fit the log and a checkpoint;
    /// what that leaves of a budget caches what is read, but with [fixed shares](Self::memory_shares). [`Db::set_memory`] gives an open
    /// store less, and back to this.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        (self.memory_bytes, self.memory_is_set) = (bytes, true);
        self
    }

    /// Fixed shares of the budget for merged filter, leaf buffers and flusher. Default `None`: memory follows the work, between leaf
    /// buffers and read cache. So while there are only gets and scans, which write nothing themselves, the background merges changes that
    /// wait in buffers and gives their memory to the cache: each once, as the next write would, and then nothing is written any more.
    ///
    /// A [filter](Self::filter) that is set as well has that part instead of its share, and the other two divide what is left as their
    /// shares say.
    #[must_use]
    pub fn memory_shares(mut self, shares: Option<MemoryShares>) -> Self {
        self.memory_shares = shares;
        self
    }

    /// Sizes of the delta buffers of [`Design::Adb`] and of the mini-pages of [`Design::BfTree`]. Default [`BufferClasses::Large`].
    #[must_use]
    pub fn classes(mut self, classes: BufferClasses) -> Self {
        self.classes = classes;
        self
    }

    /// Which delta buffer of [`Design::Adb`], or which of the mini-pages at the head of the ring of [`Design::BfTree`], is merged first.
    /// Default [`Eviction::Fullest`].
    #[must_use]
    pub fn eviction(mut self, eviction: Eviction) -> Self {
        self.eviction = eviction;
        self
    }

    /// The most changes that [`Design::BdTree`] chains to a leaf, at least 1. Default 32.
    #[must_use]
    pub fn delta_records(mut self, records: u32) -> Self {
        self.delta_records = records;
        self
    }

    /// The share of [`Design::BfTree`]'s circular buffer, in percent to 100, in which a mini-page that is used moves to the tail, away
    /// from eviction (Bf-Tree, section 4.1). With [`Eviction::Oldest`] 0 makes it a queue and 100 strict LRU. Default 10.
    #[must_use]
    pub fn copy_on_access(mut self, percent: u32) -> Self {
        self.mini_pages.copy_on_access_percent = percent;
        self
    }

    /// The chance, in percent to 100, that [`Design::BfTree`] caches what a point read found in a page, or that it found nothing (Bf-Tree,
    /// section 5.1). Default 100: with the paper's 20 a cache follows new favourites a fifth as fast.
    #[must_use]
    pub fn promotion(mut self, percent: u32) -> Self {
        self.mini_pages.promotion_percent = percent;
        self
    }

    /// The chance, in percent to 100, that [`Design::BfTree`] keeps a page whole that a scan read (Bf-Tree, section 5.3). Default 50.
    #[must_use]
    pub fn scan_promotion(mut self, percent: u32) -> Self {
        self.mini_pages.scan_promotion_percent = percent;
        self
    }

    /// The largest mini-page of [`Design::BfTree`] in bytes, 64 to 4096: one that would outgrow it is merged, or becomes a mirror of its
    /// page (Bf-Tree, section 5.5). Default 2048.
    #[must_use]
    pub fn mini_page_bytes(mut self, bytes: u32) -> Self {
        self.mini_pages.bytes_max = bytes;
        self
    }

    /// Whether the background of [`Design::BfTree`] turns its circular buffer once where there are only reads: changes that nobody reads are
    /// merged, and give their room to what is read. Default `true`; `false`, as in the paper, is for measurements.
    #[must_use]
    pub fn ring_turns(mut self, turns: bool) -> Self {
        self.mini_pages.turns = turns;
        self
    }

    /// What leaves keep in memory. Default [`Design::Adb`].
    #[must_use]
    pub fn design(mut self, design: Design) -> Self {
        self.design = design;
        self
    }

    /// The names of all presets.
    pub const PRESETS: [&str; 7] = ["zonda", "zkv", "zkv-block", "adb", "btree", "bdtree", "bftree"];

    /// The options that a preset stands for: `zonda` (the defaults), `zkv` (the ZKV paper's: delta buffers of its sizes, of which the
    /// oldest of the largest go first, behind a merged filter that evicts its coldest nodes, memory in its shares 1:3:4), `zkv-block` (the
    /// same in place, with a pool that forgets what was used longest ago in place of ZFlusher: Exp#11 of the paper), `bftree` (mini-pages;
    /// a new store lies in place, as in the Bf-Tree paper, where its device and its name leave the choice), or the name of another
    /// [`Design`]. Each part may be set otherwise afterwards.
    ///
    /// # Errors
    /// `BadOption` for another name.
    ///
    /// # Examples
    /// ```
    /// let db = zonda::Options::preset("zkv")?.memory(8 << 20).open("mem:")?;
    /// # db.put("key", "value")?;
    /// assert!(zonda::Options::preset("lsm").is_err());
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn preset(name: &str) -> Result<Self> {
        let unknown = |_| bad("preset", format!("{name:?} is not one of {}", Self::PRESETS.join(", ")));
        match name {
            "zonda" => Ok(Self::new()),
            "zkv" => {
                let filtered =
                    Self { filter_share: ZKV_FILTER_SHARE, ..Self::new().design(Design::Adb).filter_by_node(true) };
                let sized = filtered.classes(BufferClasses::Paper).eviction(Eviction::Oldest);
                Ok(sized.memory_shares(Some(MemoryShares::ZKV)).log_ring(limits::LOG_RING_BYTES_MIN))
            }
            "zkv-block" => Ok(Self::preset("zkv")?.store(StoreKind::InPlace).flusher(FlusherOptions::base())),
            "bftree" => Ok(Self { store_of_preset: StoreKind::InPlace, ..Self::new().design(Design::BfTree) }),
            _ => Ok(Self::new().design(name.parse().map_err(unknown)?)),
        }
    }

    /// The part of the memory budget for the merged filter, a small ordered tree in front of the leaves that keeps hot pairs and hands
    /// cold ones over in sorted batches (the ZKV paper, section 3.2): 0, no filter, to [`FILTER_SHARE_MAX`](limits::FILTER_SHARE_MAX), 0.5.
    /// Less where a small budget has no more to spare. Default 0. Beside [fixed shares](Self::memory_shares) it counts instead of theirs
    /// for the filter, whichever is set first: with the preset `zkv`, 0 is ZKV without its filter.
    #[must_use]
    pub fn filter(mut self, share: f64) -> Self {
        self.filter_share = share;
        self.filter_is_set = true;
        self
    }

    /// Whether the filter's coldest nodes leave it, as in the paper, or, the default, those pairs that were not written again. Hot pairs
    /// that are scattered among cold ones stay only if pairs leave.
    #[must_use]
    pub fn filter_by_node(mut self, by_node: bool) -> Self {
        self.filter_by_node = by_node;
        self
    }

    /// Whether what leaves the filter reaches each leaf in one go (the ZKV paper, section 3.3) or pair by pair: for measurements.
    /// Default `true`.
    #[must_use]
    pub fn batch_insertion(mut self, batch_insertion: bool) -> Self {
        self.batch_insertion = batch_insertion;
        self
    }

    /// Whether [`Design::Adb`] keeps records that gets had to read a leaf for, beside whole leaves and changes: memory then follows the
    /// work between the three. Not with [fixed shares](Self::memory_shares). Default `true`; `false` is for measurements.
    #[must_use]
    pub fn record_cache(mut self, record_cache: bool) -> Self {
        self.record_cache = record_cache;
        self
    }

    /// Whether reclaim merges the leaves that it moves with the changes that wait for them, so that cleaning does useful flushing, or
    /// moves them as they are: for measurements. Default `true`.
    #[must_use]
    pub fn merged_relocation(mut self, merged_relocation: bool) -> Self {
        self.merged_relocation = merged_relocation;
        self
    }

    /// When a write counts as done, unless the call says otherwise. Default [`Durability::Buffered`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How a new store lies on its device. Default: as the URI says (`?layout=zones`, `?layout=blocks`), else as the
    /// [preset](Self::preset), else [`StoreKind::Zoned`]. An existing store is opened as what it is; if that is not what was asked for,
    /// opening is refused.
    #[must_use]
    pub fn store(mut self, kind: StoreKind) -> Self {
        self.store = Some(kind);
        self
    }

    /// How the store called `uri` lies on its device, or would if these options made it. Only a file is looked at.
    ///
    /// # Errors
    /// `BadUri`; `BadOption` if a store of the other kind was asked for; `Locked`, `NotAStore`, `Damaged`, `NewerVersion`, `Io` for the
    /// file.
    ///
    /// # Examples
    /// ```
    /// use zonda::{Options, StoreKind};
    ///
    /// assert_eq!(Options::new().store_kind("mem:")?, StoreKind::Zoned);
    /// assert_eq!(Options::new().store_kind("mem:?layout=blocks")?, StoreKind::InPlace);
    /// assert_eq!(Options::preset("bftree")?.store_kind("mem:")?, StoreKind::InPlace);
    /// # Ok::<(), zonda::Error>(())
    /// ```
    pub fn store_kind(&self, uri: &str) -> Result<StoreKind> {
        device::kind_at(uri, self)
    }

    /// Leaf size in bytes for a new store: 4096 (the default) to 32768, a multiple of 4096. For an existing one it must be what it has. A
    /// store has at most 134,217,728 leaves, which is 512 GiB of the smallest and 4 TiB of the largest.
    #[must_use]
    pub fn leaf_bytes(mut self, bytes: u32) -> Self {
        self.leaf_bytes = Some(bytes);
        self
    }

    /// Zone size in bytes for a new file or memory store, unless the URI says it; in place, that of a segment. A multiple of 4096 from
    /// [`ZONE_BYTES_MIN`](limits::ZONE_BYTES_MIN), 64 KiB, to [`ZONE_BYTES_MAX`](limits::ZONE_BYTES_MAX), 64 GiB; in place to
    /// [`SEGMENT_BYTES_MAX`](limits::SEGMENT_BYTES_MAX), 4 GiB. Default 16 MiB; for a [capacity](Self::capacity) below 16 GiB the
    /// power of two that gives 1,024 zones or more, 1 MiB at the least: the reserve is of whole zones, and of large ones takes most of a
    /// small store. Above 16 TiB the least power of two that gives 1,048,576 zones at the most, which is what a device may have.
    #[must_use]
    pub fn zone_bytes(mut self, bytes: u64) -> Self {
        self.zone_bytes = Some(bytes);
        self
    }

    /// How large a new file or memory store may grow in bytes, unless the URI says it; rounded up to whole zones, fixed at creation, and
    /// less the reserve (`usable_bytes` of [`SpaceStats`](crate::SpaceStats)). A file takes only what is written; a store in place in
    /// memory takes all of it at once, and 1 GiB of it at most. To [`CAPACITY_BYTES_MAX`](limits::CAPACITY_BYTES_MAX), 4 PiB; what leaves
    /// less than a zone beside the reserve is refused with the number of zones that it takes. Default 64 GiB.
    #[must_use]
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity_bytes = Some(bytes);
        self
    }

    /// How much may be dead on the device beside what is live, in percent of that, before reclaim begins although zones are free; `None`:
    /// reclaim waits until zones are few, which copies least and lets a file grow to its [capacity](Self::capacity). Only zones of which
    /// half is dead or more are emptied, so that less than 100 asks for more than it gets; eight zones (128 MiB, if they are not of another
    /// size), those that are being written, log and MetaLog come on top, and what snapshots keep. In place, where new pages take the room
    /// of dead ones, this is about the value log. Default 100 on an ordinary file, none elsewhere. Up to 10,000.
    #[must_use]
    pub fn garbage(mut self, percent: Option<u32>) -> Self {
        self.garbage = Garbage::Limit(percent);
        self
    }

    /// What is to be borne by a store that is on an ordinary file or not.
    pub(crate) fn garbage_percent_max(&self, is_on_file: bool) -> Option<u32> {
        match self.garbage {
            Garbage::ByDevice => is_on_file.then_some(GARBAGE_PERCENT),
            Garbage::Limit(percent) => percent,
        }
    }

    /// Whether opening makes a store where there is none. Default `true`.
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }

    /// Whether to refuse what exists already: the store must be a new one, and is made whatever
    /// [`create_if_missing`](Self::create_if_missing) says. Default `false`.
    #[must_use]
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Whether there is a write-ahead log. Without one a crash loses what was written since the last checkpoint, except where leaves were
    /// merged since: keys have their value of then or a later one, batches may be torn, and [`Db::sync`] and synced writes make nothing
    /// durable, only [`Db::checkpoint`] and [`Db::close`] do: for measurements. Where a life before left a log, opening replays it and
    /// takes a checkpoint; in a store too full for that it answers `NoSpace`, and opens with the log. Default `true`.
    #[must_use]
    pub fn log(mut self, log: bool) -> Self {
        self.log = log;
        self
    }

    /// Whether [`open_read_only`](Self::open_read_only) bears a damaged log: what comes before the damage counts, but in leaves that were
    /// merged since, and [`Db::log_left_out`] says what does not. Default `false`: opening answers `Damaged`.
    #[must_use]
    pub fn log_up_to_damage(mut self, bears: bool) -> Self {
        self.log_up_to_damage = bears;
        self
    }

    /// Instances of the write-ahead log (the ZKV paper's WALA, section 3.5): as many writers can log at a time. 0 to
    /// [`LOG_INSTANCES_MAX`](limits::LOG_INSTANCES_MAX), 64; fewer where the budget has no memory for their rings. Default 0: one for each
    /// core, at most 8.
    #[must_use]
    pub fn log_instances(mut self, instances: u32) -> Self {
        self.log_instances = instances;
        self
    }

    /// Values of more bytes stand in the value log, each in blocks of 4 KiB of its own; shorter ones in leaves (ZKV section 3.5). 0 to a
    /// quarter of the leaf. Default 1024 (measured in `docs/measurements.md`). May differ at every opening: what is written stays where it
    /// is.
    #[must_use]
    pub fn value_inline(mut self, bytes: u32) -> Self {
        self.value_inline_bytes = Some(bytes);
        self
    }

    /// Bytes of the ring of each log instance: [`LOG_RING_BYTES_MIN`](limits::LOG_RING_BYTES_MIN), 4 KiB as in the ZKV paper, to
    /// [`LOG_RING_BYTES_MAX`](limits::LOG_RING_BYTES_MAX), 64 KiB, the default. A ring that is full is written out at once, with what the
    /// others hold.
    #[must_use]
    pub fn log_ring(mut self, bytes: u32) -> Self {
        self.log_ring_bytes = bytes;
        self
    }

    /// How long a buffered write waits in memory before the background hands it to the device, in milliseconds; more if the device or the
    /// processor is busy. 0, which is 1, to [`LOG_INTERVAL_MS_MAX`](limits::LOG_INTERVAL_MS_MAX), a minute. Default 1.
    #[must_use]
    pub fn log_interval_ms(mut self, milliseconds: u64) -> Self {
        self.log_interval_ms = milliseconds;
        self
    }

    /// Log bytes after which a checkpoint starts, to [`CAPACITY_BYTES_MAX`](limits::CAPACITY_BYTES_MAX): bounds the time of recovery. Leaf
    /// buffers and filter together hold at most a quarter of it; it is raised to four times the least that they hold, 2 MiB without a
    /// filter. Default 0: five times the leaf buffers, at most a fifth of the device.
    #[must_use]
    pub fn log_limit(mut self, bytes: u64) -> Self {
        self.log_limit_bytes = bytes;
        self
    }

    /// Whether threads of the store do the work in the background. Without them a caller must call [`Db::step`] often. Default `true`.
    /// A store that is opened for reading only has one, which gives the caches their memory.
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    /// Seed of everything random, for runs that are to be repeated: the choices of the tree, and the id of a store that is made. Stores
    /// made with the same seed have the same id, by which pages and logs of another store are told. Default: from the operating system.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The write-ahead log of the store is on a device of its own (ZKV, section 3.5), so that its small writes and flushes are not in the
    /// way of the pages. Named as a store is, and on zones whatever the store is on; made with the store, and given at every opening from
    /// then on: neither device is a store without the other. All that recovery needs beside the log (MetaLog, values, pages) stays on the
    /// store's own device. When it is made it must have room for the [log limit](Self::log_limit); opened with more memory, the log is no
    /// longer than its device lets it be, and buffers and filter hold no more than goes with that. In memory (`mem:`) it may be below a
    /// store in memory alone. Default: none.
    ///
    /// After the power failed on either device or on both the store is as after any power cut. A log device that is lost for good
    /// takes with it what was written since the last checkpoint, and the store cannot be opened without it; a backup has its log
    /// beside its pages unless its options say otherwise.
    ///
    /// ```no_run
    /// let db = zonda::Options::new().log_device("file:/fast/app.log").open("file:/large/app.zonda")?;
    /// # db.put("key", "value")?;
    /// # Ok::<(), zonda::Error>(())
    /// ```
    #[must_use]
    pub fn log_device(mut self, uri: impl Into<String>) -> Self {
        self.log_device = Some(uri.into());
        self
    }

    /// How leaves reach the device and are cached there. Default: ZFlusher as in the ZKV paper.
    #[must_use]
    pub fn flusher(mut self, flusher: FlusherOptions) -> Self {
        self.flusher = flusher;
        self
    }

    /// What [`flusher`](Self::flusher) was told last, or the default.
    #[must_use]
    pub fn flusher_options(&self) -> FlusherOptions {
        self.flusher
    }

    /// Whether to go around the operating system's page cache, where the file system can. Default: as the URI says, else the device's
    /// default.
    #[must_use]
    pub fn direct_io(mut self, direct: bool) -> Self {
        self.direct_io = Some(direct);
        self
    }

    /// Zone size of a new file or memory store.
    pub(crate) fn zone_size_bytes(&self) -> u64 {
        let capacity_bytes = self.largest_bytes().min(limits::CAPACITY_BYTES_MAX);
        let of_capacity = || 1_u64 << (capacity_bytes / ZONES).max(1).ilog2();
        let least_bytes = || capacity_bytes.div_ceil(ZONE_COUNT_MAX.into()).next_power_of_two();
        self.zone_bytes.unwrap_or_else(|| of_capacity().clamp(SMALL_ZONE_BYTES, ZONE_BYTES).max(least_bytes()))
    }

    /// What a new file or memory store may grow to.
    pub(crate) fn largest_bytes(&self) -> u64 {
        self.capacity_bytes.unwrap_or(CAPACITY_BYTES)
    }

    /// The longest value that stands in a leaf.
    pub(crate) fn inline_bytes_max(&self) -> u32 {
        self.value_inline_bytes.unwrap_or(VALUE_INLINE_BYTES)
    }

    /// # Errors
    /// `BadOption` for the first number out of its range, before anything is touched.
    pub(crate) fn validate(&self) -> Result<()> {
        let memory_max = match self.design {
            Design::BfTree => limits::BF_TREE_MEMORY_BYTES_MAX,
            Design::Adb | Design::BTree | Design::BdTree => limits::MEMORY_BYTES_MAX,
        };
        within("memory", self.memory_bytes, limits::MEMORY_BYTES_MIN, memory_max)?;
        within("zone_bytes", self.zone_size_bytes(), limits::ZONE_BYTES_MIN, limits::ZONE_BYTES_MAX)?;
        within("capacity", self.largest_bytes(), self.zone_size_bytes(), limits::CAPACITY_BYTES_MAX)?;
        within("garbage", self.garbage_percent_max(false).unwrap_or(0).into(), 0, GARBAGE_PERCENT_MAX)?;
        within("log_instances", self.log_instances.into(), 0, limits::LOG_INSTANCES_MAX.into())?;
        let (ring_min, ring_max) = (limits::LOG_RING_BYTES_MIN, limits::LOG_RING_BYTES_MAX);
        within("log_ring", self.log_ring_bytes.into(), ring_min.into(), ring_max.into())?;
        within("log_interval_ms", self.log_interval_ms, 0, limits::LOG_INTERVAL_MS_MAX)?;
        within("log_limit", self.log_limit_bytes, 0, limits::CAPACITY_BYTES_MAX)?;
        let mini = &self.mini_pages;
        within("copy_on_access", mini.copy_on_access_percent.into(), 0, 100)?;
        within("promotion", mini.promotion_percent.into(), 0, 100)?;
        within("scan_promotion", mini.scan_promotion_percent.into(), 0, 100)?;
        within("mini_page_bytes", mini.bytes_max.into(), 64, 4096)?;
        within("delta_records", self.delta_records.into(), 1, u32::MAX.into())?;
        if !(0.0..=limits::FILTER_SHARE_MAX).contains(&self.filter_share) {
            return Err(bad(
                "filter",
                format!("{} is not between 0 and {}", self.filter_share, limits::FILTER_SHARE_MAX),
            ));
        }
        multiple("zone_bytes", self.zone_size_bytes(), 4096)?;
        let leaf_bytes = u64::from(self.leaf_bytes.unwrap_or(4096));
        within("leaf_bytes", leaf_bytes, 4096, limits::LEAF_BYTES_MAX.into())?;
        multiple("leaf_bytes", leaf_bytes, 4096)?;
        // How large the leaves of an existing store are shows when it is opened.
        let leaf_bytes = u64::from(self.leaf_bytes.unwrap_or(limits::LEAF_BYTES_MAX));
        within("value_inline", self.inline_bytes_max().into(), 0, leaf_bytes / 4)?;
        self.flusher.fault().map_or(Ok(()), |(name, why)| Err(bad(name, why)))
    }
}

/// What the paper gives its filter, of filter, delta buffers and caches together: 1 of 1 + 3 + 4.
const ZKV_FILTER_SHARE: f64 = 0.125;
const VALUE_INLINE_BYTES: u32 = 1024;
/// What is dead of a file beside what is live, in percent of that: a file shares its disk with others.
const GARBAGE_PERCENT: u32 = 100;
const GARBAGE_PERCENT_MAX: u64 = 10_000;
const ZONE_BYTES: u64 = 16 << 20;
/// Smaller stores have smaller zones, down to this, as long as these are fewer than so many.
const SMALL_ZONE_BYTES: u64 = 1 << 20;
const ZONES: u64 = 1024;
pub(crate) const CAPACITY_BYTES: u64 = 64 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn absurd_numbers_are_refused_with_their_range() {
        let refused = [
            Options::new().memory(0),
            Options::new().memory(limits::MEMORY_BYTES_MIN - 1),
            Options::new().memory(limits::MEMORY_BYTES_MAX + 1),
            Options::new().design(Design::BfTree).memory(limits::BF_TREE_MEMORY_BYTES_MAX + 1),
            Options::new().zone_bytes(limits::ZONE_BYTES_MIN - 4096),
            Options::new().zone_bytes(limits::ZONE_BYTES_MAX + 4096).capacity(1 << 40),
            Options::new().zone_bytes((64 << 10) + 1),
            Options::new().capacity(1),
            Options::new().capacity(limits::CAPACITY_BYTES_MAX + 1),
            Options::new().garbage(Some(10_001)),
            Options::new().leaf_bytes(0),
            Options::new().leaf_bytes(4097),
            Options::new().leaf_bytes(u32::MAX),
            Options::new().value_inline(limits::LEAF_BYTES_MAX / 4 + 1),
            Options::new().leaf_bytes(8192).value_inline(2049),
            Options::new().log_instances(limits::LOG_INSTANCES_MAX + 1),
            Options::new().log_ring(limits::LOG_RING_BYTES_MIN - 1),
            Options::new().log_ring(limits::LOG_RING_BYTES_MAX + 1),
            Options::new().copy_on_access(101),
            Options::new().promotion(101),
            Options::new().scan_promotion(u32::MAX),
            Options::new().mini_page_bytes(63),
            Options::new().mini_page_bytes(4097),
            Options::new().delta_records(0),
            Options::new().log_interval_ms(limits::LOG_INTERVAL_MS_MAX + 1),
            Options::new().log_limit(limits::CAPACITY_BYTES_MAX + 1),
            Options::new().log_limit(u64::MAX),
            Options::new().filter(-0.1),
            Options::new().filter(limits::FILTER_SHARE_MAX + 0.01),
            Options::new().filter(f64::NAN),
            Options::new().flusher(FlusherOptions { group_pages: 17, ..FlusherOptions::default() }),
        ];
        for options in refused {
            assert!(matches!(options.validate(), Err(Error::BadOption { .. })), "{options:?}");
        }
        Options::new().leaf_bytes(8192).value_inline(2048).validate().unwrap();
        Options::new().zone_bytes(limits::ZONE_BYTES_MIN).capacity(limits::CAPACITY_BYTES_MAX).validate().unwrap();
        Options::new()
            .zone_bytes(limits::ZONE_BYTES_MAX)
            .log_interval_ms(limits::LOG_INTERVAL_MS_MAX)
            .validate()
            .unwrap();
        Options::new().memory(limits::MEMORY_BYTES_MAX).filter(limits::FILTER_SHARE_MAX).validate().unwrap();
        Options::new()
            .log_instances(limits::LOG_INSTANCES_MAX)
            .log_ring(limits::LOG_RING_BYTES_MIN)
            .validate()
            .unwrap();
        Options::new().design(Design::BfTree).memory(limits::BF_TREE_MEMORY_BYTES_MAX).validate().unwrap();
        Options::new().memory(limits::MEMORY_BYTES_MIN).leaf_bytes(32 << 10).filter(0.5).validate().unwrap();
    }

    #[test]
    fn presets_are_valid_and_unknown_ones_refused() {
        let said = Options::preset("lsm").unwrap_err().to_string();
        for preset in Options::PRESETS {
            Options::preset(preset).unwrap().validate().unwrap();
            assert!(said.contains(preset), "{said}");
        }
        let zkv = Options::preset("zkv").unwrap();
        assert_eq!((zkv.classes, zkv.eviction), (BufferClasses::Paper, Eviction::Oldest));
        assert_eq!((zkv.memory_shares, zkv.filter_by_node), (Some(MemoryShares::ZKV), true));
        assert_eq!(zkv.log_ring_bytes, 4 << 10, "ZKV 3.5");
    }
}
