//! A device of any kind, opened by name, and what a modelled one can say of itself.

use std::ops::Range;
use std::sync::Arc;

use zonda_device::format::DeviceKind;
use zonda_device::{BlockDevice, DeviceUri, HostFtl, HostFtlStats, IoQueue, OpenMode, Place, ZonedDevice};
use zonda_flash::drive::{FlashBlock, FlashReport, FlashZoned, Spec};
use zonda_flash::timeline::Timeline;

use crate::{BenchError, Result};

/// Either contract.
pub(super) enum Kind {
    Zoned(Arc<dyn ZonedDevice>),
    Block(Arc<dyn BlockDevice>),
}

/// A modelled drive.
enum Model {
    Zoned(FlashZoned),
    Block(FlashBlock),
}

/// A device that is measured.
pub(super) struct Target {
    pub(super) kind: Kind,
    model: Option<Model>,
    host_ftl: Option<HostFtl>,
}

/// True for names of modelled drives, and of host FTLs on them.
pub(super) fn is_modelled(uri: &str) -> bool {
    uri.strip_prefix("hftl:").unwrap_or(uri).starts_with("flash:")
}

pub(super) fn failed(error: zonda_device::DeviceError) -> BenchError {
    BenchError::Device { source: error }
}

impl Target {
    pub(super) fn open(text: &str) -> Result<Self> {
        let uri: DeviceUri = text.parse().map_err(failed)?;
        match &uri.place {
            Place::Flash(name) => Self::modelled(name),
            Place::HostFtl(over) => {
                let below = Self::open(&over.zones)?;
                let Kind::Zoned(zones) = below.kind else {
                    return Err(super::usage("device", text, "zones below hftl:"));
                };
                let volume = over.over(zones, OpenMode::Open).map_err(failed)?;
                let kind = Kind::Block(Arc::new(volume.clone()));
                Ok(Self { kind, model: below.model, host_ftl: Some(volume) })
            }
            place => {
                if let Place::File(path) = place
                    && !path.exists()
                {
                    return Err(super::usage("device", text, "a file that is there; `zonda device create` makes one"));
                }
                let mode = if *place == Place::Memory { OpenMode::Create } else { OpenMode::Open };
                let kind = match uri.kind().map_err(failed)?.or(uri.layout) {
                    Some(DeviceKind::Block) => Kind::Block(uri.open_block(mode).map_err(failed)?),
                    _ => Kind::Zoned(uri.open_zoned(mode).map_err(failed)?),
                };
                Ok(Self { kind, model: None, host_ftl: None })
            }
        }
    }

    fn modelled(name: &str) -> Result<Self> {
        let spec: Spec = name.parse().map_err(failed)?;
        let (kind, model) = if spec.is_zoned() {
            let drive = spec.open_zoned().map_err(failed)?;
            (Kind::Zoned(Arc::new(drive.clone())), Model::Zoned(drive))
        } else {
            let drive = spec.open_block().map_err(failed)?;
            (Kind::Block(Arc::new(drive.clone())), Model::Block(drive))
        };
        Ok(Self { kind, model: Some(model), host_ftl: None })
    }

    pub(super) fn is_modelled(&self) -> bool {
        self.model.is_some()
    }

    pub(super) fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        match &self.kind {
            Kind::Zoned(device) => device.queue(depth),
            Kind::Block(device) => device.queue(depth),
        }
        .map_err(failed)
    }

    pub(super) fn describe(&self) -> String {
        match &self.kind {
            Kind::Zoned(device) => device.describe(),
            Kind::Block(device) => device.describe(),
        }
    }

    /// What the modelled flash did so far.
    pub(super) fn flash(&self) -> Option<FlashReport> {
        self.model.as_ref().map(|model| match model {
            Model::Zoned(drive) => drive.flash_report(),
            Model::Block(drive) => drive.flash_report(),
        })
    }

    pub(super) fn host_ftl(&self) -> Option<HostFtlStats> {
        self.host_ftl.as_ref().map(HostFtl::stats)
    }

    /// Takes commands down from now on.
    pub(super) fn watch(&self, window: Range<u64>) {
        match &self.model {
            Some(Model::Zoned(drive)) => drive.watch(window),
            Some(Model::Block(drive)) => drive.watch(window),
            None => {}
        }
    }

    pub(super) fn seen(&self) -> Option<Timeline> {
        self.model.as_ref().map(|model| match model {
            Model::Zoned(drive) => drive.seen(),
            Model::Block(drive) => drive.seen(),
        })
    }
}
