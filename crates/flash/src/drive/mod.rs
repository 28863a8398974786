//! Modelled drives as devices: data below, timing from the model, waiting in between.
mod block;
mod clock;
mod faults;
mod null;
mod null_block;
mod open;
mod queue;
mod split_data;
mod split_parts;
mod timing;
mod waits;
mod window;
mod zoned;
mod zoned_split;
mod zoned_window;

use zonda_device::DeviceError;

pub use block::FlashBlock;
use clock::Clock;
pub use clock::TimeMode;
pub use null::NullZones;
pub use null_block::NullBlocks;
pub use open::{Spec, open_block, open_zoned};
pub use split_data::SplitData;
pub use split_parts::geometry_below;
pub use waits::{Wait, Waits};
pub use window::{Committed, WindowData};
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
    /// What callers waited for.
    pub waits: Waits,
    /// Real time for each unit of simulated time; 1 in a simulation.
    pub dilation: u64,
    /// Nobody waits for the drive: its times have nothing to do with anybody's.
    pub is_untimed: bool,
}

fn bad_profile(profile: &Profile, why: &str) -> DeviceError {
    DeviceError::BadName { reason: format!("the profile `{}` {why}", profile.name) }
}

fn describe(name: &str, clock: &Clock, data: &str) -> String {
    match clock.mode() {
        TimeMode::Untimed => format!("modelled SSD {name}, untimed, on {data}"),
        TimeMode::Timed { k } if clock.is_real() => format!("modelled SSD {name}, time times {k}, on {data}"),
        TimeMode::Timed { .. } => format!("modelled SSD {name}, virtual time, on {data}"),
    }
}
