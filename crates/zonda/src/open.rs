//! From a device to an open store: memory plan, page store, engine, catalogue, workers.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{Overlay, ZonedDevice};
use zonda_pages::{StoreOptions, log_limit_bytes_max};
use zonda_rt::Seed;
use zonda_space::StoreId;
use zonda_tree::{Engine, FilterEviction, TreeOptions};

use crate::background::Workers;
use crate::backing::{Device, Pages};
use crate::catalogue::{self, Catalogue};
use crate::device::{self, Made};
use crate::format::Superblock;
use crate::governor::Governor;
use crate::memory::{MemoryPlan, Wanted};
use crate::shape::Shape;
use crate::store::{Parts, Store};
use crate::{Error, Options, RecoveryProgress, Result};

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    ReadOnly,
}

const LEAF_BYTES_DEFAULT: u32 = 4096;
const LOG_INSTANCES_MAX: u32 = 8;
/// What all scans together may hold ahead at the most.
const READ_AHEAD_BYTES_MAX: u64 = 1 << 20;

/// Opens the store on `device`, or makes one there if the options allow it. `uri` is for messages.
///
/// # Errors
/// `NotFound`, `AlreadyExists`, `CopyUnfinished`, `TooLittleMemory`, `BadOption`; those of the page store and of recovery.
pub(crate) fn store(
    devices: &Devices,
    uri: &str,
    options: &Options,
    access: Access,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<Store> {
    let (pages, log) = (devices.pages.clone(), devices.log.clone());
    let (device, log) = match access {
        Access::ReadWrite => (pages, log),
        Access::ReadOnly => (pages.overlaid()?, log.map(overlaid).transpose()?),
    };
    let wanted = Wanted {
        budget_bytes: options.memory_bytes,
        design: options.design,
        filter_share: options.filter_share,
        filter_is_set: options.filter_is_set,
        shares: options.memory_shares,
        record_cache: options.record_cache,
        log_limit_bytes: options.log_limit_bytes,
    };
    let is_new = device.is_blank()?;
    let plan = MemoryPlan::of(wanted, device.capacity_bytes());
    let plan = match &log {
        // What a store was made with does not keep it from being opened with more memory.
        Some(log) if !is_new => plan.with_log_room(log_limit_bytes_max(log.as_ref())),
        _ => plan,
    };
    let opening = Opening { wanted, plan, options, access, device, log, is_on_file: devices.is_on_file };
    let opened = if is_new { opening.create(uri)? } else { opening.recover(uri, progress)? };
    opening.assemble(opened)
}

/// Where a store is.
pub(crate) struct Devices {
    /// The first to be dropped.
    pub(crate) made: Made,
    pub(crate) pages: Device,
    /// The log's own device, if it has one.
    pub(crate) log: Option<Arc<dyn ZonedDevice>>,
    /// Whether the pages share the disk of an ordinary file with others.
    pub(crate) is_on_file: bool,
}

impl Devices {
    /// Devices of the caller's.
    pub(crate) fn of(pages: Device, log: Option<Arc<dyn ZonedDevice>>) -> Self {
        Self { made: Made::default(), pages, log, is_on_file: false }
    }

    /// Opens the devices called `uri` and [`Options::log_device`], or makes them if the options allow it.
    ///
    /// # Errors
    /// As [`device::open`] and [`device::check_log_lasts`].
    pub(crate) fn open(uri: &str, options: &Options, access: Access) -> Result<Self> {
        let mut made = Made::default();
        if let Some(log) = &options.log_device {
            device::check_log_lasts(log, uri)?;
        }
        let pages = device::open(uri, options, access, &mut made)?;
        let is_on_file = device::is_file(uri)?;
        let mut devices = Self { made, pages, log: None, is_on_file };
        let is_new = devices.pages.is_blank()?;
        let makes_it = access == Access::ReadWrite && (options.create_if_missing || options.create_new);
        // Where there is no store, there is no log to look for.
        if let Some(log) = options.log_device.as_deref().filter(|_| !is_new || makes_it) {
            devices.log = Some(device::open_log(log, options, access, is_new, &mut devices.made)?);
        }
        Ok(devices)
    }
}

fn overlaid(device: Arc<dyn ZonedDevice>) -> Result<Arc<dyn ZonedDevice>> {
    Ok(Arc::new(Overlay::new(device)?))
}

struct Opening<'a> {
    device: Device,
    log: Option<Arc<dyn ZonedDevice>>,
    options: &'a Options,
    access: Access,
    wanted: Wanted,
    plan: MemoryPlan,
    is_on_file: bool,
}

struct Opened {
    pages: Pages,
    engine: Engine,
    superblock: Superblock,
}

impl Opening<'_> {
    fn create(&self, uri: &str) -> Result<Opened> {
        let may_create = self.options.create_if_missing || self.options.create_new;
        if self.access == Access::ReadOnly || !may_create {
            return Err(Error::NotFound { uri: uri.to_owned() });
        }
        let superblock = Superblock { leaf_bytes: self.options.leaf_bytes.unwrap_or(LEAF_BYTES_DEFAULT) };
        self.check_value_inline(superblock)?;
        let store_options = self.store_options(superblock.encode());
        // Log and buffers grow with the capacity, and what is kept back of it with them.
        let options_of = |capacity_bytes| {
            let log_limit_bytes = MemoryPlan::of(self.wanted, capacity_bytes).log_limit_bytes;
            StoreOptions { log_limit_bytes, ..store_options.clone() }
        };
        Pages::check_room(&self.device, self.log.is_some(), &options_of)?;
        let pages = Pages::create(&self.device, self.log.as_ref(), store_options)?;
        let engine = Engine::create(pages.store(), self.tree_options(superblock))?;
        Ok(Opened { pages, engine, superblock })
    }

    fn recover(&self, uri: &str, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Opened> {
        if self.options.create_new {
            return Err(Error::AlreadyExists { uri: uri.to_owned() });
        }
        let (pages, superblock) = Pages::open(&self.device, self.log.as_ref(), self.store_options(Vec::new()))?;
        let superblock = Superblock::decode(&superblock)?;
        self.check_leaf_bytes(superblock)?;
        self.check_value_inline(superblock)?;
        let mut report = |step: zonda_tree::RecoveryProgress| progress(step.into());
        let engine = Engine::open(pages.store(), self.tree_options(superblock), &mut report)?;
        catalogue::check_copied(&engine, uri)?;
        Ok(Opened { pages, engine, superblock })
    }

    fn check_leaf_bytes(&self, superblock: Superblock) -> Result<()> {
        match self.options.leaf_bytes {
            Some(asked) if asked != superblock.leaf_bytes => {
                let why = format!("{asked} asked for, but the store was made with {}", superblock.leaf_bytes);
                Err(Error::BadOption { name: "leaf_bytes", why })
            }
            _ => Ok(()),
        }
    }

    /// Before anything is written.
    fn check_value_inline(&self, superblock: Superblock) -> Result<()> {
        let (asked, most) = (self.options.inline_bytes_max(), superblock.leaf_bytes / 4);
        if asked <= most {
            return Ok(());
        }
        let why = format!("{asked} is more than {most}, a quarter of the leaf");
        Err(Error::BadOption { name: "value_inline", why })
    }

    fn assemble(self, opened: Opened) -> Result<Store> {
        let Opened { pages, engine, superblock } = opened;
        let plan = self.plan.with_leaves_of(superblock.leaf_bytes);
        let governor = Governor::new(plan, engine.clone(), pages.clone())?;
        let read_only = self.access == Access::ReadOnly;
        if !read_only {
            Catalogue::finish_drops(&engine)?;
        }
        let catalogue = Catalogue::load(&engine)?;
        let interval = Duration::from_millis(self.options.log_interval_ms.max(1));
        let workers = match (self.options.background, read_only) {
            (true, false) => Some(Workers::start(&engine, governor.clone(), interval)?),
            (true, true) => Some(Workers::start_for_readers(&engine, governor.clone())?),
            (false, _) => None,
        };
        let shape = Shape::of(&self.device, superblock.leaf_bytes, self.options);
        let parts = Parts { engine, pages, device: self.device, workers, governor, shape };
        Ok(Store::new(parts, catalogue, self.options.durability, read_only))
    }

    fn store_options(&self, superblock: Vec<u8>) -> StoreOptions {
        let mut options = StoreOptions {
            store_id: self.store_id(),
            superblock,
            read_cache_bytes: self.plan.read_cache_bytes,
            // Lives for as long as a scan does: what is left free is there for that.
            read_ahead_bytes: self.plan.margin_bytes.min(READ_AHEAD_BYTES_MAX),
            log_limit_bytes: self.plan.log_limit_bytes,
            garbage_percent_max: self.options.garbage_percent_max(self.is_on_file),
            ..StoreOptions::default()
        };
        self.options.flusher.apply(self.plan.sequencer_bytes, &mut options);
        options
    }

    fn tree_options(&self, superblock: Superblock) -> TreeOptions {
        TreeOptions {
            design: self.options.design.into(),
            classes: self.options.classes.into(),
            eviction: self.options.eviction.into(),
            delta_records_max: self.options.delta_records,
            mini_pages: self.options.mini_pages,
            buffer_bytes: self.plan.buffer_bytes,
            filter_bytes: self.plan.filter_bytes,
            record_cache_bytes_max: self.plan.record_cache_bytes_max,
            filter_eviction: match self.options.filter_by_node {
                true => FilterEviction::Nodes,
                false => FilterEviction::Pairs,
            },
            batch_runs: self.options.batch_insertion,
            merged_relocation: self.options.merged_relocation,
            leaf_bytes: superblock.leaf_bytes,
            value_inline_bytes_max: self.options.inline_bytes_max(),
            log_instances: self.log_instances(),
            log_ring_bytes: self.options.log_ring_bytes,
            log_interval_ms: self.options.log_interval_ms,
            log_limit_bytes: self.plan.log_limit_bytes,
            snapshot_bytes_max: self.plan.snapshot_bytes,
            inner_children_max: zonda_tree::INNER_CHILDREN_MAX,
            seed: self.seed().derive("tree").0,
            log: self.options.log,
            read_only: self.access == Access::ReadOnly,
            log_up_to_damage: self.options.log_up_to_damage,
        }
    }

    fn log_instances(&self) -> u32 {
        let wanted = match self.options.log_instances {
            0 => {
                let cores = std::thread::available_parallelism();
                cores.map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)).min(LOG_INSTANCES_MAX)
            }
            instances => instances,
        };
        wanted.min(self.plan.log_instances_max(self.options.log_ring_bytes.max(1)))
    }

    fn seed(&self) -> Seed {
        Seed(self.options.seed.unwrap_or_else(random))
    }

    fn store_id(&self) -> StoreId {
        let mut rng = self.seed().derive("store id").rng();
        StoreId(u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()))
    }
}

/// Something that differs between processes and calls: std seeds its hash maps from the operating system.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
