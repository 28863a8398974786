//! The memory backend: a zoned and a block device whose data lives in memory. Nothing survives the process; a flush has
//! nothing to do.
use std::{fmt, ptr::NonNull, sync::Arc};

use zonda_rt::{DeviceCall, RwLock, device_call, prefer_huge_pages};

use crate::{
    BUFFER_ALIGNMENT, DeviceCounters, DeviceError, Geometry, IoQueue, Lba, Result, ZoneId, ZoneReport, ZoneState,
    ZonedDevice,
    counters::Counting,
    queue::{SyncQueue, Zoned},
    zone_machine::{WriteGrant, ZoneMachine},
};

/// Address space that a zone takes with its first write; longer ones grow.
const RESERVED_BYTES_MAX: usize = 64 << 20;

/// A zoned device in memory. Clones are handles to the same device.
///
/// A zone takes memory for the most that was ever written to it, and keeps it when it is reset; a [populated](Self::populated) device has
/// all of it from the beginning. Calls run side by side, but for writes to one zone: they
/// exclude each other and the zone's reads while they copy.
#[derive(Clone)]
pub struct MemDevice {
    shared: Arc<Shared>,
}

struct Shared {
    geometry: Geometry,
    zones: RwLock<MemZones>,
    counting: Counting,
}

/// The zones of a memory device: states and bytes.
pub(crate) struct MemZones {
    pub(crate) machine: ZoneMachine,
    pub(crate) bytes: Vec<ZoneBytes>,
    is_populated: bool,
}

/// The content of a zone up to the last byte that was ever written; what counts of it the zone's state says. Clones are handles to the same
/// content, so that nobody holds up other zones while he copies.
#[derive(Clone, Default)]
pub(crate) struct ZoneBytes(Arc<RwLock<Vec<u8>>>);

impl ZoneBytes {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(RwLock::new(bytes)))
    }

    /// An empty zone whose memory is there already, on huge pages where the system has them: no write waits for a page.
    fn populated(capacity_bytes: usize) -> Result<Self> {
        let mut bytes = reserve(capacity_bytes as u64)?;
        prefer_huge_pages_for(&mut bytes);
        // Not zeros: memory that is asked for with zeros in it would come untouched.
        bytes.resize(capacity_bytes, u8::MAX);
        bytes.clear();
        Ok(Self::of(bytes))
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.0.read().clone()
    }

    /// Copies what stands from `at` on, zeros where nothing does.
    fn read(&self, at: usize, into: &mut [u8]) {
        let bytes = self.0.read();
        let there = bytes.get(at..).unwrap_or_default();
        let (data, beyond) = into.split_at_mut(there.len().min(into.len()));
        data.copy_from_slice(&there[..data.len()]);
        beyond.fill(0);
    }

    /// Puts `from` to `at`, in a zone of at most `capacity_bytes`. Writes that are in flight together may come in any order.
    fn write(&self, at: usize, from: &[u8], capacity_bytes: usize) {
        let mut bytes = self.0.write();
        if bytes.capacity() == 0 {
            // Nothing of it is held before it is written; growing would copy.
            bytes.reserve_exact(capacity_bytes.min(RESERVED_BYTES_MAX));
        }
        if bytes.len() < at {
            bytes.resize(at, 0);
        }
        let (over, beyond) = from.split_at(from.len().min(bytes.len() - at));
        bytes[at..][..over.len()].copy_from_slice(over);
        bytes.extend_from_slice(beyond);
    }
}

/// Room for so many bytes, none of which is touched.
fn reserve(bytes: u64) -> Result<Vec<u8>> {
    let mut reserved = Vec::new();
    match usize::try_from(bytes).map(|bytes| reserved.try_reserve_exact(bytes)) {
        Ok(Ok(())) => Ok(reserved),
        _ => Err(DeviceError::NoMemory { bytes }),
    }
}

/// Advice for the whole pages that `bytes` has reserved.
fn prefer_huge_pages_for(bytes: &mut Vec<u8>) {
    let reserved = bytes.spare_capacity_mut();
    let before_pages = reserved.as_ptr().align_offset(BUFFER_ALIGNMENT);
    if let Some(pages) = reserved.get_mut(before_pages..) {
        let bytes = pages.len();
        prefer_huge_pages(NonNull::from(pages).cast(), bytes);
    }
}

impl MemZones {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let bytes = (0..geometry.zone_count).map(|_| ZoneBytes::default()).collect();
        Self { machine: ZoneMachine::new(geometry), bytes, is_populated: false }
    }

    fn populated(geometry: Geometry) -> Result<Self> {
        // Zone by zone the system would give more than it has, and end the process that touches it.
        drop(reserve(geometry.capacity_bytes())?);
        let capacity_bytes = index(geometry.zone_capacity_bytes());
        let bytes = (0..geometry.zone_count).map(|_| ZoneBytes::populated(capacity_bytes)).collect::<Result<_>>()?;
        Ok(Self { machine: ZoneMachine::new(geometry), bytes, is_populated: true })
    }

    pub(crate) fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let (bytes, from, readable) = self.begin_read(at, into)?;
        let (data, beyond) = into.split_at_mut(readable);
        bytes.read(from, data);
        beyond.fill(0);
        Ok(())
    }

    /// The zone's content, where in it reading begins, and how many bytes from there are written.
    fn begin_read(&self, at: Lba, into: &[u8]) -> Result<(&ZoneBytes, usize, usize)> {
        let geometry = self.machine.geometry();
        let readable = self.machine.readable_blocks(at, geometry.check_buffer(into)?)?;
        let bytes = |blocks: u64| index(blocks * u64::from(geometry.block_bytes));
        let content = &self.bytes[geometry.zone_of(at).0 as usize];
        Ok((content, bytes(geometry.offset_in_zone(at)), bytes(readable)))
    }

    pub(crate) fn write(&mut self, at: Lba, from: &[u8]) -> Result<()> {
        let blocks = self.machine.geometry().check_buffer(from)?;
        let grant = self.machine.begin_write(at, blocks)?;
        self.put(&grant, from);
        self.machine.end_write(grant, true)
    }

    pub(crate) fn append(&mut self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let blocks = self.machine.geometry().check_buffer(from)?;
        let grant = self.machine.begin_append(zone, blocks)?;
        let at = self.machine.geometry().zone_start(zone).plus(grant.offset());
        self.put(&grant, from);
        self.machine.end_write(grant, true)?;
        Ok(at)
    }

    fn put(&self, grant: &WriteGrant, from: &[u8]) {
        let place = self.place_of(grant);
        place.content.write(place.at, from, place.capacity_bytes);
    }

    fn place_of(&self, grant: &WriteGrant) -> Place {
        let geometry = self.machine.geometry();
        let bytes = |blocks: u64| index(blocks * u64::from(geometry.block_bytes));
        let content = self.bytes[grant.zone().0 as usize].clone();
        Place { content, at: bytes(grant.offset()), capacity_bytes: bytes(geometry.zone_capacity_blocks) }
    }
}

/// Where a write goes.
struct Place {
    content: ZoneBytes,
    at: usize,
    capacity_bytes: usize,
}

/// A byte count of something held in memory as an index.
pub(crate) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is held in memory is addressable")
}

impl MemDevice {
    /// A new, empty device.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned` for absurd numbers.
    pub fn new(geometry: Geometry) -> Result<Self> {
        geometry.validate()?;
        Ok(Self::from_zones(MemZones::new(Self::backend_geometry(geometry))))
    }

    /// The same with all memory there from the beginning, for measuring: a drive has no page faults, and writing new memory is little else.
    /// The process holds the whole capacity at once, and the call takes a quarter of a second to two seconds for each GiB.
    ///
    /// # Errors
    /// As [`new`](Self::new); `NoMemory`.
    pub fn populated(geometry: Geometry) -> Result<Self> {
        geometry.validate()?;
        Ok(Self::from_zones(MemZones::populated(Self::backend_geometry(geometry))?))
    }

    fn backend_geometry(geometry: Geometry) -> Geometry {
        Geometry { ordered_queue: true, volatile_cache: true, ..geometry }
    }

    pub(crate) fn from_zones(zones: MemZones) -> Self {
        let geometry = zones.machine.geometry().clone();
        let shared = Shared { geometry, zones: RwLock::new(zones), counting: Counting::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Works on the zones directly, as the power cut decorator does.
    pub(crate) fn apply<R>(&self, work: impl FnOnce(&mut MemZones) -> R) -> R {
        work(&mut self.shared.zones.write())
    }

    /// Makes a zone read-only or offline, as a worn medium would. Its resources come free.
    ///
    /// # Errors
    /// `NoSuchZone`; `NotSupported` for another state.
    pub fn retire(&self, zone: ZoneId, to: ZoneState) -> Result<()> {
        self.shared.geometry.check_zone(zone)?;
        if !matches!(to, ZoneState::ReadOnly | ZoneState::Offline) {
            return Err(DeviceError::NotSupported {
                what: "retiring a zone to another state than read-only or offline",
            });
        }
        self.shared.zones.write().machine.retire(zone, to);
        Ok(())
    }

    /// What a power cycle of a drive with a durable cache does: open zones come back closed, or empty if unwritten.
    pub fn power_cycle(&self) {
        self.shared.zones.write().machine.power_cycle(|_| false);
    }
}

impl Shared {
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let (content, from, readable) = {
            let zones = self.zones.read();
            let (content, from, readable) = zones.begin_read(at, into)?;
            (content.clone(), from, readable)
        };
        let (data, beyond) = into.split_at_mut(readable);
        content.read(from, data);
        beyond.fill(0);
        Ok(())
    }

    /// Writes where `begin` is granted it, and returns where that is. Other zones' users wait for the beginning and the end only.
    fn write(&self, from: &[u8], begin: impl FnOnce(&mut ZoneMachine, u64) -> Result<WriteGrant>) -> Result<Lba> {
        let blocks = self.geometry.check_buffer(from)?;
        let (grant, place) = {
            let mut zones = self.zones.write();
            let grant = begin(&mut zones.machine, blocks)?;
            let place = zones.place_of(&grant);
            (grant, place)
        };
        let at = self.geometry.zone_start(grant.zone()).plus(grant.offset());
        place.content.write(place.at, from, place.capacity_bytes);
        self.zones.write().machine.end_write(grant, true)?;
        Ok(at)
    }
}

impl fmt::Debug for MemDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemDevice").field("geometry", &self.shared.geometry).finish_non_exhaustive()
    }
}

impl ZonedDevice for MemDevice {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        device_call(DeviceCall::Report, || self.shared.zones.read().machine.report(first, count))
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        device_call(DeviceCall::Read, || self.shared.read(at, into))?;
        self.shared.counting.read(into.len());
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        device_call(DeviceCall::Write, || self.shared.write(from, |machine, blocks| machine.begin_write(at, blocks)))?;
        self.shared.counting.written(from.len());
        Ok(())
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let begin = |machine: &mut ZoneMachine, blocks| machine.begin_append(zone, blocks);
        let at = device_call(DeviceCall::Append, || self.shared.write(from, begin))?;
        self.shared.counting.written(from.len());
        Ok(at)
    }

    fn flush(&self) -> Result<()> {
        device_call(DeviceCall::Flush, || ());
        self.shared.counting.flushed();
        Ok(())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Open, || self.shared.zones.write().machine.open(zone))
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Close, || self.shared.zones.write().machine.close(zone))
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Finish, || self.shared.zones.write().machine.finish(zone))?;
        self.shared.counting.finished();
        Ok(())
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Reset, || self.shared.zones.write().machine.reset(zone))?;
        self.shared.counting.reset();
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(SyncQueue::new(Zoned(self.clone()), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counting.now()
    }

    fn describe(&self) -> String {
        if self.shared.zones.read().is_populated { "memory, populated" } else { "memory" }.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::ZoneBytes;

    #[test]
    fn writes_of_a_zone_come_in_any_order_and_over_what_stood_there_before_a_reset() {
        let bytes = ZoneBytes::default();
        bytes.write(4, b"ef", 8);
        bytes.write(0, b"abcd", 8);
        assert_eq!(bytes.to_vec(), b"abcdef");
        bytes.write(0, b"x", 8);
        bytes.write(5, b"yz", 8);
        assert_eq!(bytes.to_vec(), b"xbcdeyz");
        let mut into = *b"????";
        bytes.read(6, &mut into);
        assert_eq!(&into, b"z\0\0\0");
    }

    #[test]
    fn a_populated_zone_reads_as_an_empty_one_and_holds_what_is_written() {
        let bytes = ZoneBytes::populated(8).unwrap();
        let mut into = *b"????";
        bytes.read(2, &mut into);
        assert_eq!(into, [0; 4]);
        bytes.write(4, b"ef", 8);
        assert_eq!(bytes.to_vec(), b"\0\0\0\0ef");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn writing_a_populated_zone_takes_no_new_memory() {
        const ZONE_BYTES: usize = 4 << 20;
        let data = vec![1; ZONE_BYTES];
        let faults_of_writing = |zone: ZoneBytes| {
            let before = page_faults();
            zone.write(0, &data, ZONE_BYTES);
            page_faults() - before
        };
        assert!(faults_of_writing(ZoneBytes::default()) > 100, "1,024 pages");
        let populated = faults_of_writing(ZoneBytes::populated(ZONE_BYTES).unwrap());
        assert!(populated < 50, "{populated} page faults");
    }

    /// Page faults of this thread so far, those that read no disk.
    #[cfg(target_os = "linux")]
    fn page_faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a file of every thread");
        let (_, behind_the_name) = stat.rsplit_once(") ").expect("a name in brackets");
        behind_the_name.split(' ').nth(7).expect("52 fields").parse().expect("a number")
    }
}
