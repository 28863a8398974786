//! The power switch before either kind of device, and the device as a maker gets it.

use std::{collections::BTreeMap, sync::Arc};

use zonda_device::{
    BlockDevice, CrashModel, CutAt, CutReport, DeviceError, Geometry, MemBlockDevice, MemDevice, PowerCut,
    PowerCutBlock, ZonedDevice,
};
use zonda_rt::Rng;

/// A device with a power switch. Clones are handles to the same.
#[derive(Clone, Debug)]
pub enum Power {
    /// Of zones.
    Zones(PowerCut),
    /// Two of zones on one power supply, one for pages and one for the log.
    Split {
        /// Everything but the log.
        pages: PowerCut,
        /// The log.
        log: PowerCut,
    },
    /// Of blocks that can be overwritten.
    Blocks(PowerCutBlock),
    /// Of blocks that can be overwritten for pages, and of zones for the log, on one power supply.
    SplitBlocks {
        /// Everything but the log.
        pages: PowerCutBlock,
        /// The log.
        log: PowerCut,
    },
}

/// What subjects are made on.
#[derive(Clone, Debug)]
pub enum Ground {
    /// Zones.
    Zones(Arc<dyn ZonedDevice>),
    /// Zones, and others for the log.
    Split {
        /// Everything but the log.
        pages: Arc<dyn ZonedDevice>,
        /// The log.
        log: Arc<dyn ZonedDevice>,
    },
    /// Blocks that can be overwritten.
    Blocks(Arc<dyn BlockDevice>),
    /// Blocks that can be overwritten, and zones for the log.
    SplitBlocks {
        /// Everything but the log.
        pages: Arc<dyn BlockDevice>,
        /// The log.
        log: Arc<dyn ZonedDevice>,
    },
}

impl Power {
    /// An empty zoned device.
    ///
    /// # Errors
    /// `Geometry`.
    pub fn over_zones(geometry: Geometry) -> Result<Self, DeviceError> {
        Ok(Self::Zones(PowerCut::new(geometry)?))
    }

    /// An empty zoned device, and beside it an empty one for the log.
    ///
    /// # Errors
    /// `Geometry`.
    pub fn over_split(geometry: Geometry, log: Geometry) -> Result<Self, DeviceError> {
        let pages = PowerCut::new(geometry)?;
        let log = pages.beside(MemDevice::new(log)?);
        Ok(Self::Split { pages, log })
    }

    /// An empty block device with the capacity of all zones of `geometry`.
    ///
    /// # Errors
    /// `Geometry`.
    pub fn over_blocks(block_bytes: u32, geometry: &Geometry) -> Result<Self, DeviceError> {
        Ok(Self::Blocks(blocks(block_bytes, geometry)?))
    }

    /// As [`over_blocks`](Self::over_blocks), and beside it an empty zoned device for the log.
    ///
    /// # Errors
    /// `Geometry`.
    pub fn over_split_blocks(block_bytes: u32, geometry: &Geometry, log: Geometry) -> Result<Self, DeviceError> {
        let pages = blocks(block_bytes, geometry)?;
        let log = pages.beside(MemDevice::new(log)?);
        Ok(Self::SplitBlocks { pages, log })
    }

    /// What the power cut hit; `None` while the power is on.
    #[must_use]
    pub fn cut_report(&self) -> Option<CutReport> {
        match self {
            Self::Zones(power) | Self::Split { pages: power, .. } => power.cut_report(),
            Self::Blocks(power) | Self::SplitBlocks { pages: power, .. } => power.cut_report(),
        }
    }

    /// Operations so far, reads included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        match self {
            Self::Zones(power) | Self::Split { pages: power, .. } => power.operations(),
            Self::Blocks(power) | Self::SplitBlocks { pages: power, .. } => power.operations(),
        }
    }

    /// Operations so far by label.
    #[must_use]
    pub fn operations_by_label(&self) -> BTreeMap<&'static str, u64> {
        match self {
            Self::Zones(power) | Self::Split { pages: power, .. } => power.operations_by_label(),
            Self::Blocks(power) | Self::SplitBlocks { pages: power, .. } => power.operations_by_label(),
        }
    }

    /// Says when the power goes.
    pub fn arm(&self, at: impl Into<Option<CutAt>>) {
        match self {
            Self::Zones(power) | Self::Split { pages: power, .. } => power.arm(at),
            Self::Blocks(power) | Self::SplitBlocks { pages: power, .. } => power.arm(at),
        }
    }

    /// Cuts the power, unless it is cut, and returns the device with a legal part of what was not flushed, powered; zones are left as
    /// `model` says.
    #[must_use]
    pub fn restarted(&self, rng: &mut Rng, model: CrashModel) -> Self {
        match self {
            Self::Zones(power) => Self::Zones(PowerCut::over(power.reopen_as(rng, model))),
            Self::Split { pages, log } => {
                let survivor = PowerCut::over(pages.reopen_as(rng, model));
                let log = survivor.beside(log.reopen_as(rng, model));
                Self::Split { pages: survivor, log }
            }
            Self::Blocks(power) => Self::Blocks(PowerCutBlock::over(power.reopen(rng))),
            Self::SplitBlocks { pages, log } => {
                let survivor = PowerCutBlock::over(pages.reopen(rng));
                let log = survivor.beside(log.reopen_as(rng, model));
                Self::SplitBlocks { pages: survivor, log }
            }
        }
    }

    /// The device.
    #[must_use]
    pub fn ground(&self) -> Ground {
        match self {
            Self::Zones(power) => Ground::Zones(Arc::new(power.clone())),
            Self::Split { pages, log } => Ground::Split { pages: Arc::new(pages.clone()), log: Arc::new(log.clone()) },
            Self::Blocks(power) => Ground::Blocks(Arc::new(power.clone())),
            Self::SplitBlocks { pages, log } => {
                Ground::SplitBlocks { pages: Arc::new(pages.clone()), log: Arc::new(log.clone()) }
            }
        }
    }
}

/// An empty block device with the capacity of all zones of `geometry`.
fn blocks(block_bytes: u32, geometry: &Geometry) -> Result<PowerCutBlock, DeviceError> {
    let bytes = geometry.device_blocks() * u64::from(geometry.block_bytes);
    Ok(PowerCutBlock::over(MemBlockDevice::new(block_bytes, bytes / u64::from(block_bytes))?))
}

impl Ground {
    /// The zoned device, for makers that know nothing else.
    ///
    /// # Errors
    /// `Failed` for blocks and for two devices.
    pub fn zones(self) -> crate::Answer<Arc<dyn ZonedDevice>> {
        match self {
            Self::Zones(device) => Ok(device),
            Self::Split { .. } | Self::Blocks(_) | Self::SplitBlocks { .. } => {
                Err(crate::Refusal::Failed("this subject is made on one device of zones".to_owned()))
            }
        }
    }
}
