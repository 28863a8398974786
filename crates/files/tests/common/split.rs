//! Drives that split zones, small enough to fill.

use std::sync::Arc;

use zonda_device::{Geometry, MemDevice, PowerCut, ZonedDevice};
use zonda_files::FileStoreOptions;
use zonda_flash::drive::{FlashZoned, SplitData, TimeMode, geometry_below};
use zonda_flash::profile::Profile;

use super::options_with;

pub(crate) const SUBZONES: u16 = 4;
/// Bytes of a table that fills a subzone.
pub(crate) const SUBZONE_BYTES: usize = 15 * 4096;
/// Policies of the model test.
const POLICIES: [&str; 4] =
    ["splitzns", "splitzns+", "splitzns,from=1,share=90,wait=doomed", "splitzns+,from-bottom=2"];

/// 20 zones of 256 KiB in four subzones; 8 may be active, of which tables have 3.
pub(crate) fn geometry() -> Geometry {
    Geometry::new(256 << 10, 20).with_limits(8, 8)
}

/// What keeps the data of such a drive.
pub(crate) fn memory() -> MemDevice {
    MemDevice::new(geometry_below(&geometry(), SUBZONES).unwrap()).unwrap()
}

/// Small buffers, a policy of subzones.
pub(crate) fn options(which: u64) -> FileStoreOptions {
    options_with(POLICIES[usize::try_from(which).unwrap() % POLICIES.len()])
}

/// The paper's drive with four chips.
fn profile() -> Profile {
    let text = Profile::text("splitzns").unwrap();
    let text = text.replace("channels = 8", "channels = 2").replace("dies = 16", "dies = 4");
    Profile::parse(&text.replace("dies_per_zone = 16", "dies_per_zone = 4")).unwrap()
}

/// The drive over anything; `None` if it cannot be looked at.
pub(crate) fn over(below: Arc<dyn ZonedDevice>, mode: TimeMode, seed: u64) -> Option<Arc<dyn ZonedDevice>> {
    let data = SplitData::over(below, geometry(), SUBZONES).ok()?;
    Some(Arc::new(FlashZoned::over_split(Arc::new(data), &profile(), mode, seed).ok()?))
}

/// The drive over memory whose power can go; `None` if it goes now.
pub(crate) fn over_switch(switch: &PowerCut, seed: u64) -> Option<Arc<dyn ZonedDevice>> {
    let drive = over(Arc::new(switch.clone()), TimeMode::Untimed, seed);
    assert!(drive.is_some() || switch.cut_report().is_some(), "what a cut left is no drive, seed {seed}");
    drive
}
