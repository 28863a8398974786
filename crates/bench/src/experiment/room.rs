//! Whether there can be room for so many records: asked before anything is made, so that a number that was mistyped is refused at
//! once, in a line, instead of when a device, a disk or memory has run out.
//!
//! What is asked is generous: leaves leave out what keys share, so half of the bytes of the pairs must fit. What does not fit by less
//! is the store's to refuse.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use zonda::limits::CAPACITY_BYTES_MAX;
use zonda_device::{DeviceUri, Place as DevicePlace};
use zonda_flash::drive::Spec;

use crate::subject::StorePlan;
use crate::{BenchError, Result, process, show_bytes, show_count};

/// What a new file or memory store may grow to, if nobody says otherwise.
const CAPACITY_BYTES: u64 = 64 << 30;
/// Zones of such a store, if only their number is said.
const ZONE_BYTES: u64 = 16 << 20;

/// Records of one run, and what they are of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The option that says how many, and what it says.
    pub(super) option: (&'static str, u64),
    /// How many there are in the end.
    pub(super) records: u64,
    /// Bytes of a key and a value.
    pub(super) pair_bytes: u64,
}

/// Refuses records for which there cannot be room on the device of `plan`; one that is made in a file is made in `directory`, unless it
/// says where.
///
/// # Errors
/// `Usage`.
pub(super) fn check(wanted: Wanted, plan: &StorePlan, directory: &Path) -> Result<()> {
    let Wanted { option: (option, given), records, pair_bytes } = wanted;
    let refused = |expected| Err(BenchError::Usage { option, given: given.to_string(), expected });
    if records == 0 {
        return refused("at least 1".to_owned());
    }
    let half_pair_bytes = pair_bytes.div_ceil(2).max(1);
    for (whose, bytes) in rooms(plan, directory) {
        let most = bytes / half_pair_bytes;
        if records > most {
            let (most, bytes) = (show_count(most), show_bytes(bytes));
            return refused(format!("at most {most} pairs of {pair_bytes} B in all: {whose} has {bytes}"));
        }
    }
    Ok(())
}

/// What records have to fit in: whose it is, and how many bytes.
fn rooms(plan: &StorePlan, directory: &Path) -> Vec<(&'static str, u64)> {
    let memory = || process::machine_memory_bytes().map(|bytes| ("this machine's memory", bytes));
    if plan.is_map() {
        return memory().into_iter().collect();
    }
    let device = device_of(plan, directory);
    let mut rooms = vec![("the device", capacity_bytes(plan, device.as_ref()))];
    match device.map(|device| device.place) {
        Some(DevicePlace::Memory) => rooms.extend(memory()),
        Some(DevicePlace::File(path)) => rooms.extend(free_bytes(&path).map(|bytes| ("the file system", bytes))),
        _ => {}
    }
    rooms
}

/// The device of a plan: one without a name is to be a new file in the directory. `None` for a name that a store will refuse.
fn device_of(plan: &StorePlan, directory: &Path) -> Option<DeviceUri> {
    let name = if plan.uri.is_empty() { format!("file:{}", directory.join("new").display()) } else { plan.uri.clone() };
    name.parse().ok()
}

/// The most that the device of a plan can hold; where it is not known, the most that any can.
fn capacity_bytes(plan: &StorePlan, device: Option<&DeviceUri>) -> u64 {
    if let Some(zone_bytes) = plan.zone_bytes {
        return plan.zones.map_or(StorePlan::ZONES_DEFAULT, u64::from).saturating_mul(zone_bytes);
    }
    let Some(device) = device else { return CAPACITY_BYTES_MAX };
    let of_zones = |zones: u64| zones.saturating_mul(device.shape.zone_size_bytes.unwrap_or(ZONE_BYTES));
    match &device.place {
        DevicePlace::File(path) if path.exists() => CAPACITY_BYTES_MAX,
        DevicePlace::File(_) | DevicePlace::Memory => device.shape.zones.map_or(CAPACITY_BYTES, of_zones),
        DevicePlace::Flash(name) => {
            name.parse::<Spec>().map_or(CAPACITY_BYTES_MAX, |spec| spec.profile().capacity_bytes())
        }
        _ => CAPACITY_BYTES_MAX,
    }
}

/// What may still be written to the file system that a path is in, or would be.
fn free_bytes(path: &Path) -> Option<u64> {
    let there = std::path::absolute(path).ok()?.ancestors().find(|path| path.exists())?.to_owned();
    let name = CString::new(there.as_os_str().as_bytes()).ok()?;
    let mut usage = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `name` is a C string that outlives the call, and `usage` a writable statvfs: the call fills it, or leaves the zeroes,
    // which are one as well (integers only).
    let (outcome, usage) = unsafe { (libc::statvfs(name.as_ptr(), usage.as_mut_ptr()), usage.assume_init()) };
    (outcome == 0).then(|| usage.f_bavail.saturating_mul(usage.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str, records: u64, change: impl FnOnce(&mut StorePlan)) -> Option<String> {
        let mut plan = StorePlan::new(uri.to_owned(), 8 << 20, 1);
        change(&mut plan);
        let wanted = Wanted { option: ("--records", records), records, pair_bytes: 16 };
        check(wanted, &plan, Path::new(".")).err().map(|error| error.to_string())
    }

    #[test]
    fn what_cannot_fit_is_refused_in_a_line() {
        for uri in
            ["", "mem:", "file:new.zonda", "zbd:/dev/none", "flash:zn540?scale=1/64", "mem:?zones=40&zone_size=1MiB"]
        {
            for records in [0, u64::MAX] {
                let said = refused(uri, records, |_| {}).unwrap_or_else(|| panic!("{records} on {uri}"));
                assert!(said.starts_with("--records: ") && !said.contains('\n'), "{said}");
            }
            assert_eq!(refused(uri, 1_000, |_| {}), None, "{uri}");
        }
        let said = refused("mem:?zones=40&zone_size=1MiB", 6_000_000, |_| {}).unwrap();
        assert!(said.contains("at most 5,242,880 pairs of 16 B in all: the device has 40.0 MiB"), "{said}");
        let said = refused("", 3_000_000_000, |plan| plan.zone_bytes = Some(2 << 20)).unwrap();
        assert!(said.contains("the device has 8.0 GiB") || said.contains("the file system"), "{said}");
        let said = refused("mem:", 1 << 60, |plan| "map".clone_into(&mut plan.design)).unwrap();
        assert!(said.contains("memory"), "{said}");
    }

    /// What is said here of a store is what a store says of itself, but for the headers of its zones.
    #[test]
    fn a_new_store_is_as_large_as_is_said() {
        for uri in ["mem:", "mem:?zones=64"] {
            let plan = StorePlan::new(uri.to_owned(), 8 << 20, 1);
            let here = capacity_bytes(&plan, device_of(&plan, Path::new(".")).as_ref());
            let stats = zonda::Options::new().memory(8 << 20).open(uri).unwrap().stats().unwrap();
            let there = stats.space.capacity_bytes;
            assert!(there <= here && there > here / 100 * 99, "{uri}: {here} and {there}");
        }
    }
}
