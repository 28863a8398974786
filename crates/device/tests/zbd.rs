//! Zoned block devices keep every rule, and do what the model of zones does. Runs in the virtual machine
//! (`cargo xtask vm-suite`), which brings the devices; each test uses those of the shape that it is about and says which.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod zbd_support;

use std::sync::Arc;

use zbd_support::{coarse::Coarse, devices, model, null_blk, scsi_debug};
use zonda_device::{
    AlignedBuf, ErrorKind, Geometry, Io, Lba, QueueKind, ZbdOptions, ZoneId, ZoneState, ZonedDevice, conformance,
};

/// Device blocks in one of the suite's, so that its zones come to whole MiB, which null_blk wants.
const COARSE_BLOCKS: u32 = 64;

fn nvme_conforms(options: &ZbdOptions) {
    conformance::zoned(&mut |geometry| Arc::new(devices::blank_nvme(&geometry, options))).assert_passed();
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn nvme_conforms_with_uring_and_commands() {
    nvme_conforms(&ZbdOptions { queue: QueueKind::Uring, ..Default::default() });
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn nvme_conforms_without_commands() {
    nvme_conforms(&ZbdOptions { queue: QueueKind::Uring, no_commands: true, ..Default::default() });
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn nvme_conforms_with_plain_calls() {
    nvme_conforms(&ZbdOptions { queue: QueueKind::Sync, ..Default::default() });
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn null_blk_conforms() {
    for queue in [QueueKind::Uring, QueueKind::Sync] {
        let options = ZbdOptions { queue, ..Default::default() };
        let make = &mut |geometry: Geometry| -> Arc<dyn ZonedDevice> {
            let inner = null_blk::fresh("conform", &Coarse::below(&geometry, COARSE_BLOCKS), 0, &options);
            Arc::new(Coarse::new(inner, COARSE_BLOCKS))
        };
        conformance::zoned(make).assert_passed();
    }
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn random_operations_do_what_the_model_does() {
    for device in devices::large_nvme() {
        model::run(&device, &ZbdOptions::default(), 1, 200);
        model::run(&device, &ZbdOptions { queue: QueueKind::Sync, no_commands: true, ..Default::default() }, 2, 100);
    }
    for capacity_mib in [3, 4] {
        let shape = Geometry::new(4 << 20, 12).with_capacity_blocks(capacity_mib * 256).with_limits(4, 6);
        let path = null_blk::make("model", &shape, 0);
        model::run(&path, &ZbdOptions::default(), 3, 200);
        null_blk::remove("model");
    }
    for disk in ["zbc=managed zone_max_open=4", "zbc=aware"] {
        let path = scsi_debug::make(&format!("{disk} zone_size_mb=4 dev_size_mb=48 zone_nr_conv=0"));
        model::run(&path, &ZbdOptions::default(), 4, 200);
        model::run(&path, &ZbdOptions { queue: QueueKind::Sync, ..Default::default() }, 5, 100);
    }
    scsi_debug::remove();
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn disks_are_what_they_say() {
    for (model, kind) in [("managed", 2), ("aware", 3)] {
        let path = scsi_debug::make(&format!("zbc={model} zone_size_mb=4 dev_size_mb=48 zone_nr_conv=2"));
        let device = zonda_device::ZbdDevice::open(&path, &ZbdOptions::default()).unwrap();
        assert!(device.describe().contains(&format!("host-{model}")), "{}", device.describe());
        let described = device.describe_zones().unwrap();
        assert_eq!((described[1].kind.number(), described[2].kind.number()), (1, kind));
        let Geometry { max_open, max_active, volatile_cache, .. } = *device.geometry();
        assert_eq!((max_open.is_some(), max_active, volatile_cache), (model == "managed", None, true));
        only_zones_in_order_work(&device, 2);
    }
    scsi_debug::remove();
}

/// The first `conventional` zones are offline, the others can be used.
fn only_zones_in_order_work(device: &zonda_device::ZbdDevice, conventional: u32) {
    let reports = device.report(ZoneId(0), u32::MAX).unwrap();
    let (offline, empty) = reports.split_at(conventional as usize);
    assert!(offline.iter().all(|zone| zone.state == ZoneState::Offline));
    assert!(empty.iter().all(|zone| zone.state == ZoneState::Empty));
    let block = AlignedBuf::with_len(4096);
    assert_eq!(device.write(Lba(0), &block).unwrap_err().kind(), ErrorKind::Offline);
    device.write(device.geometry().zone_start(ZoneId(conventional)), &block).unwrap();
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn conventional_zones_are_offline_and_the_others_work() {
    let shape = Geometry::new(4 << 20, 12).with_limits(4, 6);
    let device = null_blk::fresh("smr", &shape, 3, &ZbdOptions::default());
    only_zones_in_order_work(&device, 3);
    let described = device.describe_zones().unwrap();
    assert_eq!((described[0].kind.number(), described[3].kind.number()), (1, 2));
    drop(device);
    null_blk::remove("smr");
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn a_device_in_use_is_refused_and_readers_share() {
    let shape = Geometry::new(4 << 20, 8);
    let path = null_blk::make("busy", &shape, 0);
    let options = ZbdOptions::default();
    let read_only = ZbdOptions { read_only: true, ..options };
    let open = |options: &ZbdOptions| zonda_device::ZbdDevice::open(&path, options);
    let writer = open(&options).unwrap();
    let refused = open(&options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(refused.to_string().contains("another process has it open"), "{refused}");
    assert_eq!(open(&read_only).unwrap_err().kind(), ErrorKind::Locked);
    sees_what_the_writer_does(&open(&ZbdOptions { beside: true, ..options }).unwrap(), &writer);
    drop(writer);
    let (one, other) = (open(&read_only).unwrap(), open(&read_only).unwrap());
    assert_eq!(one.write(Lba(0), &AlignedBuf::with_len(4096)).unwrap_err().kind(), ErrorKind::WriteProtected);
    assert_eq!(open(&options).unwrap_err().kind(), ErrorKind::Locked);
    drop((one, other));
    open(&options).unwrap();
    null_blk::remove("busy");
}

/// A reader beside a writer is told how zones are now, and reads what was written since it opened the device.
fn sees_what_the_writer_does(beside: &zonda_device::ZbdDevice, writer: &zonda_device::ZbdDevice) {
    let (block, mut read) = (AlignedBuf::from_slice(&[5; 4096]), AlignedBuf::with_len(4096));
    assert_eq!(beside.write(Lba(0), &block).unwrap_err().kind(), ErrorKind::WriteProtected);
    writer.write(Lba(0), &block).unwrap();
    beside.read(Lba(0), &mut read).unwrap();
    assert_eq!((read[0], beside.report(ZoneId(0), 1).unwrap()[0].written_blocks()), (5, 1));
    writer.reset(ZoneId(0)).unwrap();
    assert_eq!(beside.report(ZoneId(0), 1).unwrap()[0].state, ZoneState::Empty);
    beside.read(Lba(0), &mut read).unwrap();
    assert_eq!(read[0], 0, "what is known is what was reported last");
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn a_device_without_zones_is_refused() {
    let path = null_blk::make_plain("plain");
    let refused = zonda_device::ZbdDevice::open(&path, &ZbdOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("it has no zones"), "{refused}");
    null_blk::remove("plain");
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn what_an_earlier_life_left_open_is_closed_or_emptied() {
    for path in devices::large_nvme() {
        devices::reset_all(&path);
        let zone = |number: u32| u64::from(number) * devices::zone_sectors(&path);
        devices::blkzone(&path, "open", zone(0));
        devices::blkzone(&path, "open", zone(1));
        devices::blkzone(&path, "open", zone(2));
        devices::blkzone(&path, "close", zone(2));
        devices::write_raw(&path, zone(1), 4096 * 3);
        devices::write_raw(&path, zone(3), 4096);
        let device = zonda_device::ZbdDevice::open(&path, &ZbdOptions::default()).unwrap();
        let states: Vec<ZoneState> = device.report(ZoneId(0), 4).unwrap().iter().map(|zone| zone.state).collect();
        assert_eq!(states, [ZoneState::Empty, ZoneState::Closed, ZoneState::Empty, ZoneState::Closed]);
        assert_eq!(device.report(ZoneId(1), 1).unwrap()[0].written_blocks(), 3);
    }
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn what_others_do_to_a_zone_is_found_out_at_the_first_error() {
    for path in devices::large_nvme() {
        devices::reset_all(&path);
        let device = zonda_device::ZbdDevice::open(&path, &ZbdOptions::default()).unwrap();
        let (block, start) = (AlignedBuf::with_len(4096), device.geometry().zone_start(ZoneId(2)));
        device.write(start, &block).unwrap();
        // Another program writes behind our back: our next write is not at the write pointer any more.
        devices::write_raw(&path, 2 * devices::zone_sectors(&path) + 8, 4096 * 2);
        let refused = device.write(start.plus(1), &block).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("zone 2: write at {} is not at the write pointer, {}", start.plus(1), start.plus(3))
        );
        device.write(start.plus(3), &block).unwrap();
        devices::blkzone(&path, "finish", 2 * devices::zone_sectors(&path));
        assert_eq!(device.write(start.plus(4), &block).unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(device.report(ZoneId(2), 1).unwrap()[0].state, ZoneState::Full);
        device.reset(ZoneId(2)).unwrap();
        device.write(start, &block).unwrap();
    }
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn limits_of_the_device_itself_come_with_numbers() {
    for path in devices::large_nvme() {
        devices::reset_all(&path);
        let device = zonda_device::ZbdDevice::open(&path, &ZbdOptions::default()).unwrap();
        let (open, active) = (device.geometry().max_open.unwrap(), device.geometry().max_active.unwrap());
        // Others hold all active resources: we do not know of it before the device says so.
        for number in 0..active {
            devices::write_raw(&path, u64::from(number) * devices::zone_sectors(&path), 4096);
        }
        let last = ZoneId(device.geometry().zone_count - 1);
        let refused = device.append(last, &AlignedBuf::with_len(4096)).unwrap_err();
        assert_eq!((refused.kind(), refused.to_errno()), (ErrorKind::TooManyActive, 75));
        let refused = device.open(last).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooManyActive);
        for number in 0..active {
            device.reset(ZoneId(number)).unwrap();
        }
        for number in 0..open {
            devices::blkzone(&path, "open", u64::from(number) * devices::zone_sectors(&path));
        }
        let refused = device.append(last, &AlignedBuf::with_len(4096)).unwrap_err();
        let limit = if open < active { (ErrorKind::TooManyOpen, 109) } else { (ErrorKind::TooManyActive, 75) };
        assert_eq!((refused.kind(), refused.to_errno()), limit);
        devices::blkzone(&path, if open < active { "close" } else { "finish" }, 0);
        device.append(last, &AlignedBuf::with_len(4096)).unwrap();
    }
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn appends_in_flight_complete_out_of_order_and_all_land() {
    for path in devices::large_nvme() {
        devices::reset_all(&path);
        let device = zonda_device::ZbdDevice::open(&path, &ZbdOptions::default()).unwrap();
        assert!(device.describe().contains("NVMe append"), "{}", device.describe());
        zbd_support::appends::many_in_flight(&device, 64, 600);
    }
}

#[test]
#[ignore = "needs the virtual machine: cargo xtask vm-suite"]
fn every_flush_reaches_the_drive() {
    for path in devices::large_nvme() {
        devices::reset_all(&path);
        let device = zonda_device::ZbdDevice::open(&path, &ZbdOptions::default()).unwrap();
        assert!(device.geometry().volatile_cache, "the emulated drive says that it has a cache");
        let before = devices::flushes(&path);
        for number in 0..10 {
            device.write(Lba(number), &AlignedBuf::with_len(4096)).unwrap();
            device.flush().unwrap();
        }
        let mut queue = device.queue(4).unwrap();
        for token in 0..5 {
            queue.submit(token, Io::Flush).unwrap();
            let mut done = Vec::new();
            queue.complete(1, &mut done).unwrap();
            done.remove(0).result.unwrap();
        }
        assert_eq!(devices::flushes(&path) - before, 15);
    }
}
