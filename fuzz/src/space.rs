//! Decoders of `zonda-space`: the header block of each zone, and opening a store that has damaged ones.

use std::sync::Arc;

use zonda_device::{AlignedBuf, Geometry, Lba, MemDevice, ZoneId, ZonedDevice};
use zonda_space::{NewStore, Space, SpaceOptions, StoreId, StreamId, StreamSpec, Urgency, ZoneHeader};

/// Bytes of a zone header.
const HEADER_BYTES: usize = 4096;

/// Where the checksum of a header is; it covers all other bytes.
const CRC_OFFSET: usize = 124;

/// The stream of the journal.
pub(crate) const JOURNAL: StreamId = StreamId(2);

/// Zones of the device that stores are opened on.
const ZONES: u32 = 6;

/// One zone header: what decodes encodes to a header that says the same.
pub fn space_header(input: &[u8]) {
    let Ok(header) = ZoneHeader::decode(input) else { return };
    let mut block = vec![0; HEADER_BYTES];
    header.encode(&mut block);
    assert_eq!(ZoneHeader::decode(&block).expect("an encoded header decodes"), header);
}

/// A store whose first zones begin with the input, a block each: it is refused, or it opens and accounts for its zones.
pub fn space_open(input: &[u8]) {
    let device = device();
    for (zone, block) in (0..).map(ZoneId).zip(input.chunks_exact(HEADER_BYTES)).take(ZONES as usize) {
        device.append(zone, &AlignedBuf::from_slice(block)).expect("an empty zone takes a block");
    }
    let Ok((space, recovered)) = Space::open(device, &options()) else { return };
    assert_eq!(space.view().len(), ZONES as usize);
    assert!(recovered.zones.len() + recovered.damaged.len() <= ZONES as usize);
    let _ = space.usage();
}

/// The header blocks of a fresh store with two zones in use.
pub(crate) fn space_valid() -> Vec<Vec<u8>> {
    let device = device();
    write_store(Arc::clone(&device)).expect("an empty device takes a store");
    let reports = device.report(ZoneId(0), device.geometry().zone_count).expect("a memory device reports");
    let headers = reports.iter().filter(|report| report.written_blocks() > 0);
    let headers: Vec<_> = headers.map(|report| read_block(device.as_ref(), report.start)).collect();
    headers.iter().cloned().chain([headers.concat()]).collect()
}

fn write_store(device: Arc<dyn ZonedDevice>) -> zonda_space::Result<()> {
    let new = NewStore { id: StoreId(7), features: 0, superblock: b"options".to_vec(), overwrite: false };
    let space = Space::format(device, new, &options())?;
    for stream in [StreamId(0), StreamId(1)] {
        let _ = space.open_zone(stream, Urgency::Foreground)?;
    }
    space.flush()
}

pub(crate) fn space_seal(input: &mut [u8]) {
    for block in input.chunks_exact_mut(HEADER_BYTES) {
        let crc = crc32c::crc32c_append(crc32c::crc32c(&block[..CRC_OFFSET]), &block[CRC_OFFSET + 4..]);
        block[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A block of a memory device.
pub(crate) fn read_block(device: &dyn ZonedDevice, at: Lba) -> Vec<u8> {
    let mut block = AlignedBuf::with_len(HEADER_BYTES);
    device.read(at, &mut block).expect("a memory device can be read");
    block.to_vec()
}

/// An empty device.
pub(crate) fn device() -> Arc<dyn ZonedDevice> {
    Arc::new(MemDevice::new(Geometry::new(64 << 10, ZONES)).expect("a legal geometry"))
}

/// The options of every store here: two streams and a journal.
pub(crate) fn options() -> SpaceOptions {
    let pages = StreamSpec::new(StreamId(1), "pages", 1);
    let streams = vec![StreamSpec::new(StreamId(0), "log", 0), pages, StreamSpec::new(JOURNAL, "journal", 2).alone()];
    SpaceOptions { client: *b"fuzz\0\0\0\0", streams, known_features: 0, reserve_zones: 1, active_limit: None }
}
