//! Disks that the kernel's scsi_debug makes in memory: zoned as SMR disks are, host-managed or host-aware.
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use zonda_rt::sleep;

/// The options are the module's own, so it is loaded anew for each disk.
const MODULE: &str = "/lib/modules/scsi_debug.ko";
/// The system looks for disks in the background: as often as it is asked whether it has found this one.
const LOOKS: u32 = 1000;

/// Makes the only disk, with blocks of 4 KiB and these options of the module.
pub(crate) fn make(options: &str) -> PathBuf {
    remove();
    let words = [MODULE, "sector_size=4096"].into_iter().chain(options.split(' '));
    assert!(Command::new("insmod").args(words).status().unwrap().success(), "insmod scsi_debug {options}");
    for _ in 0..LOOKS {
        if let Some(disk) = disk() {
            return disk;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("scsi_debug {options} shows no disk");
}

/// Removes the disk and the module.
pub(crate) fn remove() {
    if Path::new("/sys/module/scsi_debug").exists() {
        assert!(Command::new("rmmod").arg("scsi_debug").status().unwrap().success(), "rmmod scsi_debug");
    }
}

/// The disk, once it is there and its zones are known.
fn disk() -> Option<PathBuf> {
    let names = fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let disk = names.into_iter().find(|name| name.starts_with("sd"))?;
    let zones = fs::read_to_string(format!("/sys/block/{disk}/queue/nr_zones")).ok()?;
    let node = PathBuf::from("/dev").join(disk);
    (zones.trim() != "0" && node.exists()).then_some(node)
}
