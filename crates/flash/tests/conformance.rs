//! Both device contracts on modelled drives: untimed, and in virtual time.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]
use std::sync::Arc;

use zonda_device::{BlockDevice, Geometry, MemBlockDevice, MemDevice, ZonedDevice, conformance};
use zonda_flash::drive::{FlashBlock, FlashZoned, NullZones, Spec, TimeMode};
use zonda_flash::profile::Profile;

const TIMED: TimeMode = TimeMode::Timed { k: 1 };

fn zoned(geometry: Geometry, profile: &str, mode: TimeMode) -> Arc<dyn ZonedDevice> {
    let data = Arc::new(MemDevice::new(geometry).unwrap());
    Arc::new(FlashZoned::over(data, &Profile::named(profile).unwrap(), mode, 1).unwrap())
}

fn block(block_bytes: u32, blocks: u64, mode: TimeMode) -> Arc<dyn BlockDevice> {
    let data = Arc::new(MemBlockDevice::new(block_bytes, blocks).unwrap());
    let profile = Profile::named("test-conv").unwrap();
    Arc::new(FlashBlock::over(data, &profile, mode, 1).unwrap())
}

#[test]
fn zoned_untimed() {
    for profile in ["test", "zn540", "splitzns"] {
        conformance::zoned(&mut |geometry| zoned(geometry, profile, TimeMode::Untimed)).assert_passed();
    }
}

#[test]
fn zoned_in_virtual_time() {
    for profile in ["test", "zn540"] {
        let run = || conformance::zoned(&mut |geometry| zoned(geometry, profile, TIMED));
        zonda_rt::sim::run(3, run).assert_passed();
    }
}

#[test]
fn zoned_in_real_time() {
    conformance::zoned(&mut |geometry| zoned(geometry, "test", TimeMode::Timed { k: 2 })).assert_passed();
}

#[test]
fn block_untimed() {
    conformance::block(&mut |bytes, blocks| block(bytes, blocks, TimeMode::Untimed)).assert_passed();
}

#[test]
fn block_in_virtual_time() {
    zonda_rt::sim::run(3, || conformance::block(&mut |bytes, blocks| block(bytes, blocks, TIMED))).assert_passed();
}

#[test]
fn the_last_block_is_written_where_mapping_units_are_larger_than_blocks() {
    let drive = "atc21-7op?time=untimed&capacity=20480".parse::<Spec>().unwrap().open_block().unwrap();
    let mut block = zonda_device::AlignedBuf::with_len(4096);
    block.fill(7);
    drive.write(zonda_device::Lba(4), &block).unwrap();
    drive.flush().unwrap();
    block.fill(0);
    drive.read(zonda_device::Lba(4), &mut block).unwrap();
    assert_eq!(block[0], 7);
}

#[test]
fn zones_without_data_keep_their_states() {
    let geometry = Geometry::new(64 << 10, 4).with_limits(2, 3);
    let data = Arc::new(NullZones::new(geometry).unwrap());
    let drive = FlashZoned::over(data, &Profile::named("test").unwrap(), TimeMode::Untimed, 1).unwrap();
    let mut block = zonda_device::AlignedBuf::with_len(4096);
    block.fill(7);
    drive.write(zonda_device::Lba(0), &block).unwrap();
    assert!(drive.write(zonda_device::Lba(0), &block).is_err(), "I1");
    drive.read(zonda_device::Lba(0), &mut block).unwrap();
    assert_eq!(block[0], 0);
    assert_eq!(drive.counters().written_bytes, 4096);
}
