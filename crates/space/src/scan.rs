//! Reads the header of every zone that is not empty, many at a time.

use zonda_device::{
    AlignedBuf, Completion, ErrorKind, Io, IoQueue, SubzoneReport, ZoneId, ZoneReport, ZoneState, ZonedDevice,
};

use crate::format::{HeaderFault, ZoneHeader};
use crate::units::Units;
use crate::{BLOCK_BYTES, Result, SpaceError};

/// Header reads in flight at a time: 256 KiB of buffers.
const READS_IN_FLIGHT_MAX: u32 = 64;

/// One zone as the device and its own first block describe it.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) report: ZoneReport,
    /// Whole blocks written, the header included.
    pub(crate) written_blocks: u64,
    /// What the first block says; `None` for zones that are empty or offline.
    pub(crate) header: Option<std::result::Result<ZoneHeader, HeaderFault>>,
    /// No header, and the first data block is zeros too: of what was written, nothing became durable.
    pub(crate) blank: bool,
    /// A zone that is split: what is in it is in its subzones.
    pub(crate) is_split: bool,
    /// A subzone; its report has its number here for the zone.
    pub(crate) is_subzone: bool,
}

impl Scanned {
    /// Whether there is something in the zone (torn blocks count), as far as can be known.
    pub(crate) fn is_written(&self) -> bool {
        self.is_split || self.report.state != ZoneState::Offline && self.report.written_blocks() > 0
    }

    /// Whether it has a header of its own, or should have.
    fn has_header(&self) -> bool {
        self.is_written() && !self.is_split
    }

    /// The header, if it is intact.
    pub(crate) fn intact(&self) -> Option<&ZoneHeader> {
        self.header.as_ref()?.as_ref().ok()
    }
}

/// All zones by number, then the subzones of those that are split. Reads one block of each that is written, and writes
/// nothing.
pub(crate) fn scan(device: &dyn ZonedDevice, units: &Units) -> Result<Vec<Scanned>> {
    let reports = device.report(ZoneId(0), units.zone_count)?;
    let (mut zones, mut subzones) = (Vec::new(), Vec::new());
    for report in reports {
        // Of one that is lost as a whole nothing counts that the device says of its subzones, and it need not say anything.
        let of_zone = match report.state {
            ZoneState::Offline => None,
            state => match subzones_of(device, units, report.zone) {
                Err(SpaceError::Device(error))
                    if error.kind() == ErrorKind::Offline && state == ZoneState::ReadOnly =>
                {
                    None
                }
                of_zone => of_zone?,
            },
        };
        zones.push(Scanned { is_split: of_zone.is_some(), ..scanned(units, report, false) });
        subzones.extend(of_zone.unwrap_or_default().into_iter().map(|report| scanned(units, report, true)));
    }
    zones.append(&mut subzones);
    let written: Vec<usize> = (0..zones.len()).filter(|&index| zones[index].has_header()).collect();
    if !written.is_empty() {
        read_headers(device, units, &written, &mut zones)?;
    }
    for zone in zones.iter_mut().filter(|zone| matches!(zone.header, Some(Err(HeaderFault::NoMagic)))) {
        zone.blank = is_blank(device, units, zone.report.zone)?;
    }
    Ok(zones)
}

fn scanned(units: &Units, report: ZoneReport, is_subzone: bool) -> Scanned {
    let written_blocks = units.written(&report);
    Scanned { report, written_blocks, header: None, blank: false, is_split: false, is_subzone }
}

/// What the device says of the subzones of a zone, as if they were zones, under their numbers here; `None` if it is not split.
pub(crate) fn subzones_of(device: &dyn ZonedDevice, units: &Units, zone: ZoneId) -> Result<Option<Vec<ZoneReport>>> {
    let (Some(split), Some(parts)) = (device.split_zones(), units.parts) else { return Ok(None) };
    let reports = match split.report_subzones(zone) {
        Ok(reports) => reports,
        Err(error) if error.kind() == ErrorKind::InvalidTransition => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let of = |(id, report): (u32, SubzoneReport)| {
        let SubzoneReport { state, start, write_pointer, .. } = report;
        ZoneReport { zone: ZoneId(id), state, start, capacity_blocks: parts.blocks * units.lbas, write_pointer }
    };
    Ok(Some(units.subzones_of(zone).zip(reports).map(of).collect()))
}

/// `written` are places in `zones`.
fn read_headers(device: &dyn ZonedDevice, units: &Units, written: &[usize], zones: &mut [Scanned]) -> Result<()> {
    let mut queue = device.queue(READS_IN_FLIGHT_MAX)?;
    let mut waiting = written.iter();
    let mut done = Vec::new();
    loop {
        while queue.in_flight() < queue.depth() {
            let Some(&place) = waiting.next() else { break };
            submit(queue.as_mut(), units, (place, zones[place].report.zone))?;
        }
        if queue.in_flight() == 0 {
            return Ok(());
        }
        queue.complete(1, &mut done)?;
        for completion in done.drain(..) {
            take(units, completion, zones)?;
        }
    }
}

fn submit(queue: &mut dyn IoQueue, units: &Units, (place, zone): (usize, ZoneId)) -> Result<()> {
    let read = Io::Read { at: units.lba(units.first_block(zone)), into: AlignedBuf::with_len(BLOCK_BYTES) };
    queue.submit(place as u64, read).map_err(|rejected| rejected.error.into())
}

fn take(units: &Units, completion: Completion, zones: &mut [Scanned]) -> Result<()> {
    let zone = usize::try_from(completion.token).expect("the token is a place in the list");
    let header = match completion.result {
        Ok(_) => decode(zones[zone].report.zone, completion.buffer.as_deref().unwrap_or_default(), units),
        Err(error) if error.kind() == ErrorKind::Media => Err(HeaderFault::Unreadable),
        Err(error) => return Err(error.into()),
    };
    zones[zone].header = Some(header);
    Ok(())
}

/// Whether the first two blocks of a zone are zeros. Zones keep a prefix of what was written, so what lies behind a lost
/// header is lost too; a header that was damaged later has data behind it.
fn is_blank(device: &dyn ZonedDevice, units: &Units, zone: ZoneId) -> Result<bool> {
    let mut start = AlignedBuf::with_len(2 * BLOCK_BYTES);
    match device.read(units.lba(units.first_block(zone)), &mut start) {
        Ok(()) => Ok(start.iter().all(|&byte| byte == 0)),
        // Something was there.
        Err(error) if error.kind() == ErrorKind::Media => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A header counts only in the zone that it was written to.
pub(crate) fn decode(zone: ZoneId, block: &[u8], units: &Units) -> std::result::Result<ZoneHeader, HeaderFault> {
    let header = ZoneHeader::decode(block)?;
    if header.zone != zone.0 && header.identity.zone_size_blocks == units.zone_size {
        return Err(HeaderFault::BadField("zone number"));
    }
    Ok(header)
}
