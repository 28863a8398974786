//! One device call that fails though the power is on: a flush, or a change of a zone's state. The store must tell, and nothing that it had
//! acknowledged may be lost by it.

use std::{fmt, sync::Arc};

use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, PowerCut, PowerCutBlock};
use zonda_rt::{DeviceCall, Rng, Seed};

use crate::{Ground, Power, profile::pick};

/// The share of lives, and of openings, in which a call fails.
const FAILS: f64 = 0.5;
/// Calls of the kind that fails before the one that does, at the most.
const CALLS: u64 = 24;

/// A device of which calls can be told to fail.
#[derive(Clone)]
enum Device {
    Zones(Faulty<PowerCut>),
    Blocks(Faulty<PowerCutBlock>),
}

/// What fails on the devices of one life. Clones are handles to the same.
#[derive(Clone, Default)]
pub(crate) struct Failures {
    devices: Vec<Device>,
}

/// Why a call of a subject may fail: the power went, or a call of a device failed while it was on.
#[derive(Clone)]
pub struct Excuse {
    power: Power,
    failures: Failures,
}

impl Device {
    /// Lets one call fail of those that a store cannot do again elsewhere.
    fn inject(&self, rng: &mut Rng) {
        let calls: &[DeviceCall] = match self {
            Self::Zones(_) => &[DeviceCall::Flush, DeviceCall::Flush, DeviceCall::Reset, DeviceCall::Finish],
            Self::Blocks(_) => &[DeviceCall::Flush],
        };
        let (call, nth) = (*pick(rng, calls), 1 + rng.below(CALLS).min(rng.below(CALLS)));
        let (when, effect) = (FaultWhen::Nth(nth), FaultEffect::Error(ErrorKind::Io));
        let fault = Fault { call: Some(call), zone: None, when, effect };
        match self {
            Self::Zones(device) => device.inject(fault),
            Self::Blocks(device) => device.inject(fault),
        }
    }

    fn heal(&self) {
        match self {
            Self::Zones(device) => device.heal(),
            Self::Blocks(device) => device.heal(),
        }
    }

    fn injected(&self) -> u64 {
        match self {
            Self::Zones(device) => device.injected(),
            Self::Blocks(device) => device.injected(),
        }
    }
}

impl Failures {
    /// The devices of a power switch, and what makes their calls fail.
    pub(crate) fn before(power: &Power) -> (Ground, Self) {
        let zones = |power: &PowerCut| Faulty::new(power.clone(), 0);
        let blocks = |power: &PowerCutBlock| Faulty::new(power.clone(), 0);
        let (ground, devices) = match power {
            Power::Zones(pages) => {
                let pages = zones(pages);
                (Ground::Zones(Arc::new(pages.clone())), vec![Device::Zones(pages)])
            }
            Power::Split { pages, log } => {
                let (pages, log) = (zones(pages), zones(log));
                let ground = Ground::Split { pages: Arc::new(pages.clone()), log: Arc::new(log.clone()) };
                (ground, vec![Device::Zones(pages), Device::Zones(log)])
            }
            Power::Blocks(pages) => {
                let pages = blocks(pages);
                (Ground::Blocks(Arc::new(pages.clone())), vec![Device::Blocks(pages)])
            }
            Power::SplitBlocks { pages, log } => {
                let (pages, log) = (blocks(pages), zones(log));
                let ground = Ground::SplitBlocks { pages: Arc::new(pages.clone()), log: Arc::new(log.clone()) };
                (ground, vec![Device::Blocks(pages), Device::Zones(log)])
            }
        };
        (ground, Self { devices })
    }

    /// Lets a call of one device fail from now on, or none, as the seed says.
    pub(crate) fn arm(&self, seed: Seed) {
        let mut rng = seed.rng();
        if !self.devices.is_empty() && rng.chance(FAILS) {
            pick(&mut rng, &self.devices).inject(&mut rng);
        }
    }

    /// No call fails any more.
    pub(crate) fn heal(&self) {
        self.devices.iter().for_each(Device::heal);
    }

    /// Calls that failed.
    pub(crate) fn injected(&self) -> u64 {
        self.devices.iter().map(Device::injected).sum()
    }
}

impl Excuse {
    pub(crate) fn new(power: Power, failures: Failures) -> Self {
        Self { power, failures }
    }

    /// Whether the power went.
    pub(crate) fn is_cut(&self) -> bool {
        self.power.cut_report().is_some()
    }

    /// Whether there is one.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.is_cut() || self.failures.injected() > 0
    }
}

impl fmt::Debug for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Excuse").field("holds", &self.holds()).finish_non_exhaustive()
    }
}
