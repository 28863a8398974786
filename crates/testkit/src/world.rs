//! A small device with a power switch, and a subject on it.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use zonda_device::{
    CrashModel, CutAt, CutReport, DeviceError, Fault, FaultEffect, FaultWhen, Faulty, Geometry, cut_label,
};
use zonda_flash::drive::{FlashZoned, TimeMode};
use zonda_flash::profile::Profile as FlashProfile;
use zonda_rt::{DeviceCall, Rng, Seed};

use crate::{
    Answer, Bug, Excuse, Ground, Maker, Power, Refusal, Subject, bug::DroppedFlush, failures::Failures, profile::pick,
};

/// Where the cuts of a campaign can fall, as the engine labels its work. `recovery` is everything while a store is opened, `close` while
/// one is closed.
pub const CUT_POINTS: [&str; 15] = [
    "log",
    "page group",
    "address record",
    "buffer image",
    "journal switch",
    "values",
    "value reclaim",
    "open",
    "finish",
    "reset",
    "split",
    "merge",
    "turn",
    "recovery",
    "close",
];

/// The share of writes that fail in each of two ways, in a world with faults: some in each life.
const WRITES_THAT_FAIL: f64 = 0.002;

/// Device operations under each label in the latest life that had any.
pub type Labels = BTreeMap<&'static str, u64>;

/// A device that can lose its power, and what makes subjects on it.
///
/// Life cycle: 1 [`create`](Self::create) -> 2 work on the subject -> 3 [`restart`](Self::restart), with every handle to the subject gone
/// -> 4 [`open`](Self::open) -> 2.
pub struct World {
    power: Power,
    maker: Box<dyn Maker>,
    bug: Option<Bug>,
    labels: Labels,
    /// The timing of a modelled SSD, and its seed.
    flash: Option<(TimeMode, u64)>,
    /// What a cut may leave in zones.
    crash: CrashModel,
    /// Now and then a write to a zone fails, by chance from this seed.
    faults: Option<u64>,
    /// Now and then a flush, a reset or a finish fails, by chance from this seed, whatever the subject lies on.
    failing: Option<Seed>,
    /// What fails on the devices of this life.
    failures: RefCell<Failures>,
    /// Restarts so far: other writes fail in each life, where operations are counted anew.
    restarts: u64,
}

impl World {
    /// An empty device of this shape, powered.
    ///
    /// # Errors
    /// `Geometry`.
    pub fn new(geometry: Geometry, maker: Box<dyn Maker>, bug: Option<Bug>) -> Result<Self, DeviceError> {
        Ok(Self::on(Power::over_zones(geometry)?, maker, bug))
    }

    /// An empty device, powered.
    #[must_use]
    pub fn on(power: Power, maker: Box<dyn Maker>, bug: Option<Bug>) -> Self {
        let (labels, crash) = (Labels::new(), CrashModel::Prefix);
        Self {
            power,
            maker,
            bug,
            labels,
            flash: None,
            crash,
            faults: None,
            failing: None,
            failures: RefCell::default(),
            restarts: 0,
        }
    }

    /// Says what a cut may leave in zones.
    #[must_use]
    pub fn crashing_as(mut self, model: CrashModel) -> Self {
        self.crash = model;
        self
    }

    /// Lets a write fail now and then, torn, where the subject lies on one device of zones. Nothing that is acknowledged may be lost by it.
    #[must_use]
    pub fn with_faults(mut self, seed: u64) -> Self {
        self.faults = Some(seed);
        self
    }

    /// Lets a flush, a reset or a finish fail in some lives and openings. The life ends with it, or goes on.
    #[must_use]
    pub fn with_failures(mut self, seed: u64) -> Self {
        self.failing = Some(Seed(seed));
        self
    }

    /// Draws whether a call fails from now on, in what is called `stage`; nothing is drawn in a world without failures.
    pub(crate) fn arm_failure(&self, stage: &str) {
        if let Some(seed) = self.failing {
            self.failures.borrow().arm(seed.derive(&format!("{stage} {}", self.restarts)));
        }
    }

    /// No call fails any more, until it is drawn again.
    pub(crate) fn heal(&self) {
        self.failures.borrow().heal();
    }

    /// Calls that failed in this life though the power was on.
    pub(crate) fn failed(&self) -> u64 {
        self.failures.borrow().injected()
    }

    /// What excuses errors of this life.
    #[must_use]
    pub fn excuse(&self) -> Excuse {
        Excuse::new(self.power(), self.failures.borrow().clone())
    }

    /// Gives the device the timing of a modelled SSD.
    #[must_use]
    pub fn on_flash(mut self, mode: TimeMode, seed: u64) -> Self {
        self.flash = Some((mode, seed));
        self
    }

    /// The device's power switch: another handle.
    #[must_use]
    pub fn power(&self) -> Power {
        self.power.clone()
    }

    /// What the power cut hit, if it happened.
    #[must_use]
    pub fn cut(&self) -> Option<CutReport> {
        self.power.cut_report()
    }

    /// The labels under which the device was used before the last restart: where a cut can be aimed.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Says when the power goes.
    pub fn arm(&self, at: impl Into<Option<CutAt>>) {
        self.power.arm(at);
    }

    /// Makes a subject on the empty device.
    ///
    /// # Errors
    /// The maker's.
    pub fn create(&self) -> Answer<Arc<dyn Subject>> {
        self.maker.create(self.device(None, false)?)
    }

    /// Opens what the device holds. In a world with failures a call may fail meanwhile, if it `may_fail`.
    ///
    /// # Errors
    /// The maker's.
    pub fn open(&self, may_fail: bool) -> Answer<Arc<dyn Subject>> {
        let _label = cut_label("recovery");
        self.maker.open(self.device(self.faults, may_fail)?)
    }

    /// Cuts the power, unless it is cut, and turns it on again: a legal part of what was not flushed is gone.
    pub fn restart(&mut self, rng: &mut Rng) {
        self.labels.extend(self.power.operations_by_label());
        self.power = self.power.restarted(rng, self.crash);
        self.restarts += 1;
    }

    fn device(&self, faults: Option<u64>, may_fail: bool) -> Answer<Ground> {
        let ground = match (self.bug, &self.power) {
            (Some(Bug::FlushDropped), Power::Zones(power)) => {
                Ground::Zones(Arc::new(DroppedFlush::over(power.clone())))
            }
            (None, Power::Zones(power)) if let Some(seed) = faults => {
                let of_life = Seed(seed).derive(&format!("life {}", self.restarts));
                let faulty = Faulty::new(power.clone(), of_life.0 ^ power.operations());
                for blocks in [0, 1] {
                    let (call, effect) = (Some(DeviceCall::Write), FaultEffect::Torn { blocks });
                    faulty.inject(Fault { call, zone: None, when: FaultWhen::Chance(WRITES_THAT_FAIL), effect });
                }
                Ground::Zones(Arc::new(faulty))
            }
            _ if self.failing.is_some() => {
                let (ground, failures) = Failures::before(&self.power);
                self.failures.replace(failures);
                if may_fail {
                    self.arm_failure("opening");
                }
                ground
            }
            _ => self.power.ground(),
        };
        let Some((mode, seed)) = self.flash else { return Ok(ground) };
        let profile = FlashProfile::named("test").expect("a built-in profile");
        // The model asks the device for its zones; the power may go just then.
        let modelled = |device| FlashZoned::over(device, &profile, mode, seed);
        Ok(match ground {
            Ground::Zones(device) => Ground::Zones(Arc::new(modelled(device)?)),
            Ground::Split { pages, log } => Ground::Split { pages: Arc::new(modelled(pages)?), log },
            blocks @ (Ground::Blocks(_) | Ground::SplitBlocks { .. }) => blocks,
        })
    }
}

impl From<DeviceError> for Refusal {
    fn from(error: DeviceError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A small device: zones so few and so short that everything happens within a thousand operations.
#[must_use]
pub fn small_geometry(rng: &mut Rng) -> Geometry {
    let zone_blocks = *pick(rng, &[16, 16, 24, 32, 64]);
    let zones = 40 + rng.below(81).min(rng.below(81));
    limited(rng, zone_blocks, zones)
}

/// A device for the log alone: from just as many zones as a log of `log_limit_bytes` may need to some to spare, with one active zone or
/// more.
#[must_use]
pub fn log_geometry(rng: &mut Rng, log_limit_bytes: u64) -> Geometry {
    let zone_blocks = *pick(rng, &[16, 24, 64]);
    // One block of each zone is its header. One zone more than the log fills, and two that short lives may leave.
    let zones = log_limit_bytes.div_ceil((zone_blocks - 1) * 4096) + 3 + *pick(rng, &[0, 1, 4, 16]);
    let active = narrow(1 + rng.below(4));
    Geometry::new(zone_blocks * 4096, narrow(zones)).with_limits(active, active)
}

/// The smallest device: a thousand operations fill it several times over, so that reclaim moves what lives.
#[must_use]
pub fn smallest_geometry(rng: &mut Rng) -> Geometry {
    let zones = 40 + rng.below(6);
    limited(rng, 16, zones)
}

fn limited(rng: &mut Rng, zone_blocks: u64, zones: u64) -> Geometry {
    let active = 4 + rng.below(11);
    let open = active - rng.below(active.min(3));
    let (zones, open, active) = (narrow(zones), narrow(open.max(4)), narrow(active));
    let geometry = Geometry::new(zone_blocks * 4096, zones).with_limits(open, active);
    if rng.chance(0.5) { geometry.with_capacity_blocks(zone_blocks - 1 - rng.below(zone_blocks / 4)) } else { geometry }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("drawn far below 2^32")
}

/// Draws when the power goes in a life of about `life_steps` operations: anywhere, at a change, or inside one of the labelled stretches of
/// work, which random cuts would rarely hit: all labels alike, at an operation that a life like the last ones reaches.
pub fn draw_cut(rng: &mut Rng, labels: &Labels, life_steps: u64) -> CutAt {
    match rng.below(8) {
        0..3 => CutAt::Change(1 + rng.below(2 * life_steps)),
        3 => CutAt::Operation(1 + rng.below(8 * life_steps)),
        _ if labels.is_empty() => CutAt::Change(1 + rng.below(30)),
        _ => {
            let (&label, &operations) = labels.iter().nth(rng.index(labels.len())).expect("an index below the length");
            CutAt::Label { label, nth: 1 + rng.below(operations).min(rng.below(operations)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use zonda_device::{AlignedBuf, Lba, ZoneId};

    use super::*;

    /// Makes no subjects.
    struct NoMaker;

    impl Maker for NoMaker {
        fn create(&self, _: Ground) -> Answer<Arc<dyn Subject>> {
            unreachable!("nobody asks")
        }

        fn open(&self, _: Ground) -> Answer<Arc<dyn Subject>> {
            unreachable!("nobody asks")
        }
    }

    /// Which of many writes to a zone fail.
    fn failing(world: &World) -> Vec<u64> {
        let Ground::Zones(device) = world.device(world.faults, false).unwrap() else { panic!("zones") };
        let write = |zone| {
            device.reset(ZoneId(0)).unwrap();
            device.write(Lba(0), &AlignedBuf::with_len(4096)).is_err().then_some(zone)
        };
        (0..5_000).filter_map(write).collect()
    }

    #[test]
    fn other_writes_fail_in_each_life_and_the_same_again_by_the_same_seed() {
        let lives = || {
            let maker = Box::new(NoMaker);
            let mut world = World::new(Geometry::new(1 << 16, 4), maker, None).unwrap().with_faults(7);
            let life = |_| {
                let failing = failing(&world);
                world.restart(&mut Seed(1).rng());
                failing
            };
            (0..3).map(life).collect::<Vec<_>>()
        };
        let failed = lives();
        assert!(failed.iter().all(|life| life.len() > 4), "{failed:?}");
        assert!(failed[0] != failed[1] && failed[1] != failed[2], "{failed:?}");
        assert_eq!(lives(), failed);
    }
}
