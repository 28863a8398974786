//! Decoders of `zonda-device`: the records of a device file, and the file as a whole.

use std::{fs, path::Path};

use tempfile::TempDir;
use zonda_device::{
    AlignedBuf, DeviceUri, Direct, FileDevice, FileOptions, Geometry, QueueKind, ZoneId, ZoneState, ZonedDevice,
    format::{self, DeviceKind, ENTRY_BYTES, Entry, Header, MARK_OFFSET, PAGE_BYTES},
    host_ftl::format::{GROUP_HEADER_BYTES, GroupHeader},
};

use crate::seal_last_4;

/// Zones and capacity in blocks that the table entries are decoded for.
const ENTRY_ZONE: ZoneId = ZoneId(3);
const ENTRY_CAPACITY_BLOCKS: u64 = 16;

/// Zones of the valid image: 16 KiB each, so that an image stays small.
const IMAGE_ZONES: u32 = 4;
const IMAGE_ZONE_BYTES: u64 = 16 << 10;

/// A device's name: what parses prints a name of the same place, and its shape is legal or refused.
pub fn device_uri(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(uri) = text.parse::<DeviceUri>() else { return };
    let again: DeviceUri = uri.to_string().parse().expect("a printed name parses");
    assert_eq!(again.place, uri.place);
    if let Ok(geometry) = uri.shape.geometry() {
        geometry.validate().expect("a shape that is not refused is legal");
    }
}

pub(crate) fn device_uri_valid() -> Vec<Vec<u8>> {
    let names = [
        "a/b.zonda",
        "hftl:mem:?op=20&zones=9",
        "file:x?direct=on&queue=sync",
        "mem:?zones=8&zone_size=1MiB&max_open=3&max_active=4",
    ];
    names.map(|name| name.as_bytes().to_vec()).into()
}

/// The header page: what decodes is a legal shape, and encodes to a header that says the same.
pub fn device_header(input: &[u8]) {
    let _ = format::has_magic(input);
    let Ok(header) = Header::decode(input) else { return };
    header.geometry.validate().expect("a decoded geometry is a legal one");
    assert_eq!(Header::decode(&header.encode()).expect("an encoded header decodes"), header);
}

pub(crate) fn device_header_valid() -> Vec<Vec<u8>> {
    let zoned = Geometry::new(64 << 10, 9).with_limits(3, 5).with_capacity_blocks(11);
    let headers = [(DeviceKind::Zoned, 3, zoned), (DeviceKind::Block, 0, Geometry::new(64 << 10, 1))];
    headers.map(|(kind, features, geometry)| Header { kind, features, blank: 7 << 100 | 9, geometry }.encode()).into()
}

/// A zone table entry: what decodes fits the zone.
pub fn device_entry(input: &[u8]) {
    let _ = format::mark_is_clean(input);
    let Ok(entry) = Entry::decode(input, ENTRY_ZONE, ENTRY_CAPACITY_BLOCKS) else { return };
    assert!(entry.written_blocks <= ENTRY_CAPACITY_BLOCKS, "{entry:?} in {ENTRY_CAPACITY_BLOCKS} blocks");
    Entry::decode(&entry.encode(ENTRY_ZONE), ENTRY_ZONE, ENTRY_CAPACITY_BLOCKS).expect("an encoded entry decodes");
}

pub(crate) fn device_entry_valid() -> Vec<Vec<u8>> {
    let entry = |state, written_blocks| Entry { state, written_blocks }.encode(ENTRY_ZONE).to_vec();
    let mark = format::encode_mark(true).to_vec();
    vec![entry(ZoneState::Closed, 7), entry(ZoneState::Full, ENTRY_CAPACITY_BLOCKS), entry(ZoneState::Offline, 0), mark]
}

/// A device file: it is refused, or every zone can be reported and read.
pub fn device_image(input: &[u8]) {
    let directory = scratch_directory();
    let path = directory.path().join("image");
    fs::write(&path, input).expect("the scratch directory can be written");
    if let Ok(device) = FileDevice::open_read_only(&path, &options()) {
        read_every_zone(&device);
    }
}

fn read_every_zone(device: &FileDevice) {
    let geometry = device.geometry().clone();
    let reports = device.report(ZoneId(0), geometry.zone_count).expect("an open device reports its zones");
    assert_eq!(reports.len(), geometry.zone_count as usize);
    let mut block = AlignedBuf::with_len(geometry.block_bytes as usize);
    for report in reports.iter().take(64) {
        assert!(report.written_blocks() <= geometry.zone_capacity_blocks, "{report:?}");
        let _ = device.read(report.start, &mut block); // an offline zone or a short file: an error, but no panic
    }
}

pub(crate) fn device_image_valid() -> Vec<Vec<u8>> {
    let directory = scratch_directory();
    let path = directory.path().join("image");
    write_image(&path).expect("the scratch directory can hold a device");
    vec![fs::read(&path).expect("the image was written above")]
}

fn write_image(path: &Path) -> zonda_device::Result<()> {
    let geometry = Geometry::new(IMAGE_ZONE_BYTES, IMAGE_ZONES).with_limits(2, 3);
    let device = FileDevice::create(path, geometry.clone(), &options())?;
    let block = AlignedBuf::from_slice(&vec![7; geometry.block_bytes as usize]);
    device.append(ZoneId(0), &block)?;
    device.finish(ZoneId(0))?;
    device.append(ZoneId(1), &block)?;
    device.close()
}

/// Makes the checksums of header, mark and table entries right.
pub(crate) fn device_image_seal(image: &mut [u8]) {
    let mark = usize::try_from(MARK_OFFSET).expect("the mark is in the second page");
    let entries = (0..IMAGE_ZONES).map(|zone| usize::try_from(format::entry_offset(ZoneId(zone))).expect("small"));
    let entries = entries.map(|start| start..start + ENTRY_BYTES);
    for record in [0..PAGE_BYTES, mark..mark + 64].into_iter().chain(entries) {
        if let Some(record) = image.get_mut(record) {
            seal_last_4(record);
        }
    }
}

fn options() -> FileOptions {
    FileOptions { direct: Direct::Off, queue: QueueKind::Sync, ..FileOptions::default() }
}

/// In memory where the system has a place for that: an image is written for every input.
fn scratch_directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory can be made")
}

/// The header of a host FTL's group: what decodes lies in its volume, and encodes to a header that says the same.
pub fn device_ftl_group(input: &[u8]) {
    let Ok(header) = GroupHeader::decode(input, 0) else { return };
    assert!(header.data.iter().all(|&(block, _)| block.is_none_or(|block| block < header.capacity_blocks)));
    let mut again = vec![0; GROUP_HEADER_BYTES];
    header.encode_into(&mut again);
    assert_eq!(GroupHeader::decode(&again, 0).expect("an encoded header decodes"), header);
}

pub(crate) fn device_ftl_group_valid() -> Vec<Vec<u8>> {
    let data = GroupHeader {
        capacity_blocks: 1000,
        sequence: 9,
        durable_before: 7,
        moved_from: Some((4, 2)),
        trims: vec![(0, 1000)],
        data: vec![(Some(3), 4), (None, 5)],
    };
    let trims = GroupHeader { trims: (0..203).map(|first| (first, 1)).collect(), data: Vec::new(), ..data.clone() };
    [data, trims]
        .map(|header| {
            let mut block = vec![0; GROUP_HEADER_BYTES];
            header.encode_into(&mut block);
            block
        })
        .into()
}
