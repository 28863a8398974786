//! Many runs, one seed each.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use zonda_device::{CrashModel, DeviceError, Geometry};
use zonda_flash::drive::TimeMode;
use zonda_rt::{Rng, Seed, sim};
use zonda_tree::Design;

use crate::{Bug, Crowd, Outcome, Power, Profile, Single, Trouble, World, engine::EngineMaker, profile::pick, world};

/// Where the leaves of a run lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroundKind {
    /// On zones, the log among them.
    Zones,
    /// On zones, and the log on a device of its own.
    Split,
    /// In place, on blocks.
    Blocks,
    /// In place, and the log on a device of its own.
    SplitBlocks,
}

/// What a run is told; with the seed it says everything that happens. By default all but its length is drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Client operations.
    pub steps: u64,
    /// The leaf buffer; drawn if not given.
    pub design: Option<Design>,
    /// Where leaves lie; drawn if not given, but on zones for a seeded bug and on flash.
    pub ground: Option<GroundKind>,
    /// Clients; drawn if not given. One has an exact model, several have histories.
    pub clients: Option<u64>,
    /// Every value lies in the value log, whatever its length; a tenth of the runs draws that else.
    pub separated: bool,
    /// The longest values take several chunks of the value log; none does else.
    pub long_values: bool,
    /// No store has a log, and each run one client; a tenth of the runs draws that else.
    pub no_log: bool,
    /// A bug to seed.
    pub bug: Option<Bug>,
    /// Give the device the timing of a modelled SSD, in this mode.
    pub flash: Option<TimeMode>,
    /// Print every operation to standard error.
    pub verbose: bool,
}

/// One run in virtual time: device, options, data, operations, interleaving and cuts all come from the seed.
///
/// # Errors
/// What was wrong, a panic anywhere in the engine included.
pub fn simulate(seed: u64, settings: &Settings) -> Result<Outcome, Trouble> {
    let mut scheduler = Seed(seed).derive("scheduler").rng();
    let schedule_probability = [0.02, 0.125, 0.5][scheduler.index(3)];
    let time_limit = Duration::from_secs(900);
    let options = sim::Options { schedule_probability, time_limit, ..sim::Options::seeded(seed) };
    catching(|| sim::run_with(&options, || run(seed, settings)))
}

/// As [`simulate`], for a seeded bug: what was wrong, if it is the bug's. What the same seed finds without the bug is not.
#[must_use]
pub fn found(seed: u64, settings: &Settings) -> Option<Trouble> {
    let trouble = simulate(seed, settings).err()?;
    let without = Settings { bug: Some(Bug::None), ..*settings };
    let is_the_bugs = settings.bug == Some(Bug::None) || simulate(seed, &without).is_ok();
    is_the_bugs.then_some(trouble)
}

/// One run on threads of the operating system: the same draws, but another interleaving every time.
///
/// # Errors
/// As [`simulate`].
pub fn on_real_threads(seed: u64, settings: &Settings) -> Result<Outcome, Trouble> {
    catching(|| run(seed, settings))
}

/// The share of runs in place.
const BLOCKS: f64 = 0.35;
/// Of the runs with times without writes, the share whose ring of mini-pages is likely to be turned.
const TURNING: f64 = 0.9;
/// The share of runs whose keys come and go as in a queue.
const PASSES: f64 = 0.25;
/// Of the runs on either, the share with their log on a device of its own.
const SPLIT: f64 = 0.2;
/// Of the runs on zones, the share in which a cut leaves what the page cache of a host leaves of a file.
const PAGE_CACHE: f64 = 0.2;
/// Of the runs on one device of zones that is not to be filled, the share in which writes fail now and then.
const FAULTS: f64 = 0.2;
/// Of all other runs, the share in which a flush, a reset or a finish of a zone fails now and then.
const FAILURES: f64 = 0.2;
/// The share of runs on a device that they fill.
const FILLING: f64 = 0.35;

fn catching(run: impl FnOnce() -> Result<Outcome, Trouble>) -> Result<Outcome, Trouble> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(Trouble { step: 0, what: format!("panic: {}", message(&*panic)) }))
}

fn run(seed: u64, settings: &Settings) -> Result<Outcome, Trouble> {
    let mut rng = Seed(seed).derive("world").rng();
    let fills = rng.chance(FILLING);
    let geometry = if fills { world::smallest_geometry(&mut rng) } else { world::small_geometry(&mut rng) };
    let design = draw_design(seed, &mut rng, settings);
    let mut maker = EngineMaker::draw(&mut rng, design, &geometry, settings.bug);
    if settings.separated {
        maker.tree.value_inline_bytes_max = 0;
    }
    maker.tree.log &= !settings.no_log;
    let logged = maker.tree.log;
    // What survives without a log is a matter of single keys: one client's model says which values.
    let clients = if logged { settings.clients.unwrap_or([1, 1, 2, 4][rng.index(4)]) } else { 1 };
    let mut profile = draw_profile(&mut rng, &geometry, fills);
    if Seed(seed).derive("passing keys").rng().chance(PASSES) {
        profile = profile.passing(geometry.capacity_bytes() / 4);
    }
    profile.quiet_steps = *pick(&mut Seed(seed).derive("quiet").rng(), &[0, 60, 200]);
    if design == Design::BfTree && profile.quiet_steps > 0 && Seed(seed).derive("turning").rng().chance(TURNING) {
        maker = maker.turning();
        profile = profile.turning(geometry.capacity_bytes() / 4);
    }
    if settings.long_values {
        let longest = usize::try_from(geometry.zone_capacity_bytes() * 5 / 2).expect("a small zone");
        profile = profile.with_long_values(longest, geometry.capacity_bytes() / 4);
    }
    let log = world::log_geometry(&mut Seed(seed).derive("log device").rng(), maker.store.log_limit_bytes);
    let (ground, block_bytes) = draw_ground(seed, settings);
    if matches!(ground, GroundKind::Split | GroundKind::SplitBlocks) {
        // A batch is one chunk of the log, hence of one of its zones.
        profile.batch_bytes_max = profile.batch_bytes_max.min(log.zone_capacity_bytes());
    }
    let value_bytes_max = profile.value_bytes_max;
    if settings.verbose {
        eprintln!("{geometry:?}\n{maker:?}\n{clients} clients, {profile:?}");
    }
    let power = match ground {
        GroundKind::Zones => Power::over_zones(geometry),
        GroundKind::Split => Power::over_split(geometry, log),
        GroundKind::Blocks => Power::over_blocks(block_bytes, &geometry),
        GroundKind::SplitBlocks => Power::over_split_blocks(block_bytes, &geometry, log),
    };
    let power = power.map_err(|error: DeviceError| Trouble { step: 0, what: error.to_string() })?;
    let mut world = World::on(power, Box::new(maker), settings.bug);
    if let Some(mode) = settings.flash {
        world = world.on_flash(mode, Seed(seed).derive("flash").0);
    }
    // From streams of their own, too.
    if Seed(seed).derive("page cache").rng().chance(PAGE_CACHE) {
        world = world.crashing_as(CrashModel::PageCache);
    }
    // Of a device that is to be filled the ends of zones that failed are a part that nothing was reckoned with.
    if !fills && Seed(seed).derive("write faults").rng().chance(FAULTS) {
        world = world.with_faults(Seed(seed).derive("faults").0);
    } else if settings.bug.is_none() && Seed(seed).derive("failing calls").rng().chance(FAILURES) {
        world = world.with_failures(Seed(seed).derive("what fails").0);
    }
    let rng = Seed(seed).derive("client").rng();
    if clients > 1 {
        return Crowd::new(world, rng, clients, settings.steps, value_bytes_max).run();
    }
    Single::new(world, profile, rng, settings.steps).logged(logged).verbose(settings.verbose).run()
}

/// The design of a run, if the settings do not say it.
fn draw_design(seed: u64, rng: &mut Rng, settings: &Settings) -> Design {
    let drawn = if rng.chance(0.5) { Design::Adb } else { Design::BTree };
    // From a stream of its own, so that older seeds mean what they did but for the design.
    let chains = Seed(seed).derive("chains").rng().chance(0.2);
    let mini_pages = Seed(seed).derive("mini-pages").rng().chance(0.3);
    let drawn = match (mini_pages, chains) {
        (true, _) => Design::BfTree,
        (false, true) => Design::Deltas,
        (false, false) => drawn,
    };
    settings.design.unwrap_or(drawn)
}

/// Where the leaves of a run lie, and the length of a block there; drawn from streams of their own, so that older seeds mean what they did
/// but for this.
fn draw_ground(seed: u64, settings: &Settings) -> (GroundKind, u32) {
    let mut rng = Seed(seed).derive("ground").rng();
    let zones_only = settings.bug.is_some() || settings.flash.is_some();
    let drawn = if zones_only || !rng.chance(BLOCKS) { GroundKind::Zones } else { GroundKind::Blocks };
    let splits = !zones_only && Seed(seed).derive("log elsewhere").rng().chance(SPLIT);
    let drawn = match drawn {
        GroundKind::Zones if splits => GroundKind::Split,
        GroundKind::Blocks if splits => GroundKind::SplitBlocks,
        drawn => drawn,
    };
    (settings.ground.unwrap_or(drawn), *pick(&mut rng, &[512, 4096, 4096]))
}

/// The data of a run. Of a device that is to be filled, about a half is usable: from a third to a little more than that is asked for.
fn draw_profile(rng: &mut Rng, geometry: &Geometry, fills: bool) -> Profile {
    let (capacity, batch_bytes_max) = (geometry.capacity_bytes(), geometry.zone_capacity_bytes());
    let value_bytes_max = usize::try_from(geometry.zone_capacity_bytes() / 4).expect("a small zone");
    let profile = if fills {
        let room_bytes = capacity / 100 * (30 + rng.below(30));
        Profile::draw_filling(rng, room_bytes, value_bytes_max)
    } else {
        let room_bytes = capacity / [16, 4, 2, 1][rng.index(4)];
        Profile::draw(rng, room_bytes, value_bytes_max)
    };
    Profile { batch_bytes_max, ..profile }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(a panic without a message)").to_owned()
}
