//! Modelled drives as devices: data below, timing from the model, waiting in between.
mod block;
mod clock;
mod null;
mod open;
mod queue;
mod timing;
mod zoned;

use zonda_device::DeviceError;

pub use block::FlashBlock;
pub use clock::TimeMode;
pub use null::NullZones;
pub use open::{Spec, open_block, open_zoned};
pub use zoned::FlashZoned;

use crate::core::CoreStats;
use crate::model::FlashWrites;
use crate::profile::Profile;

/// What a drive's flash did.
#[derive(Clone, Debug)]
pub struct FlashReport {
    /// Sums of the core, per die and channel.
    pub core: CoreStats,
    /// Bytes programmed, by cause.
    pub writes: FlashWrites,
    /// Real time for each unit of simulated time; 1 in a simulation.
    pub dilation: u64,
}

fn bad_profile(profile: &Profile, why: &str) -> DeviceError {
    DeviceError::BadName { reason: format!("the profile `{}` {why}", profile.name) }
}

fn describe(name: &str, mode: TimeMode, data: &str) -> String {
    match mode {
        TimeMode::Untimed => format!("modelled SSD {name}, untimed, on {data}"),
        TimeMode::Timed { k } => format!("modelled SSD {name}, time times {k}, on {data}"),
    }
}
