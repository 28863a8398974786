//! The power switch before either kind of device, and the device as a maker gets it.

use std::{collections::BTreeMap, sync::Arc};

use zonda_device::{
    BlockDevice, CutAt, CutReport, DeviceError, Geometry, MemBlockDevice, PowerCut, PowerCutBlock, ZonedDevice,
};
use zonda_rt::Rng;

/// A device with a power switch. Clones are handles to the same.
#[derive(Clone, Debug)]
pub enum Power {
    /// Of zones.
    Zones(PowerCut),
    /// Of blocks that can be overwritten.
    Blocks(PowerCutBlock),
}

/// What subjects are made on.
#[derive(Clone, Debug)]
pub enum Ground {
    /// Zones.
    Zones(Arc<dyn ZonedDevice>),
    /// Blocks that can be overwritten.
    Blocks(Arc<dyn BlockDevice>),
}

impl Power {
    /// An empty zoned device.
    ///
    /// # Errors
    /// `Geometry`.
    pub fn over_zones(geometry: Geometry) -> Result<Self, DeviceError> {
        Ok(Self::Zones(PowerCut::new(geometry)?))
    }

    /// An empty block device with the capacity of all zones of `geometry`.
    ///
    /// # Errors
    /// `Geometry`.
    pub fn over_blocks(block_bytes: u32, geometry: &Geometry) -> Result<Self, DeviceError> {
        let bytes = geometry.device_blocks() * u64::from(geometry.block_bytes);
        let device = MemBlockDevice::new(block_bytes, bytes / u64::from(block_bytes))?;
        Ok(Self::Blocks(PowerCutBlock::over(device)))
    }

    /// What the power cut hit; `None` while the power is on.
    #[must_use]
    pub fn cut_report(&self) -> Option<CutReport> {
        match self {
            Self::Zones(power) => power.cut_report(),
            Self::Blocks(power) => power.cut_report(),
        }
    }

    /// Operations so far, reads included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        match self {
            Self::Zones(power) => power.operations(),
            Self::Blocks(power) => power.operations(),
        }
    }

    /// Operations so far by label.
    #[must_use]
    pub fn operations_by_label(&self) -> BTreeMap<&'static str, u64> {
        match self {
            Self::Zones(power) => power.operations_by_label(),
            Self::Blocks(power) => power.operations_by_label(),
        }
    }

    /// Says when the power goes.
    pub fn arm(&self, at: impl Into<Option<CutAt>>) {
        match self {
            Self::Zones(power) => power.arm(at),
            Self::Blocks(power) => power.arm(at),
        }
    }

    /// Cuts the power, unless it is cut, and returns the device with a legal part of what was not flushed, powered.
    #[must_use]
    pub fn restarted(&self, rng: &mut Rng) -> Self {
        match self {
            Self::Zones(power) => Self::Zones(PowerCut::over(power.reopen(rng))),
            Self::Blocks(power) => Self::Blocks(PowerCutBlock::over(power.reopen(rng))),
        }
    }

    /// The device.
    #[must_use]
    pub fn ground(&self) -> Ground {
        match self {
            Self::Zones(power) => Ground::Zones(Arc::new(power.clone())),
            Self::Blocks(power) => Ground::Blocks(Arc::new(power.clone())),
        }
    }
}

impl Ground {
    /// The zoned device, for makers that know nothing else.
    ///
    /// # Errors
    /// `Failed` for blocks.
    pub fn zones(self) -> crate::Answer<Arc<dyn ZonedDevice>> {
        match self {
            Self::Zones(device) => Ok(device),
            Self::Blocks(_) => Err(crate::Refusal::Failed("this subject is made on zones".to_owned())),
        }
    }
}
