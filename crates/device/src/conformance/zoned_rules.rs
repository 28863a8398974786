//! The rules of [`ZonedDevice`].
use std::sync::Arc;

use super::{BLOCK, Failure, Maker, Outcome, ZonedRule, capacity_of, pattern, refused, same};
use crate::{AlignedBuf, ErrorKind, Geometry, Lba, ZoneId, ZoneState, ZonedDevice};

pub(super) const RULES: &[ZonedRule] = &[
    ("a new device reports empty zones", new_device),
    ("written blocks read back", write_read),
    ("the last block makes the zone full", fill),
    ("writes away from the write pointer are refused", invalid_write),
    ("appends say where they went", append),
    ("appends have a limit", append_limit),
    ("writes past the capacity are refused", capacity),
    ("blocks above the write pointer read as zeros", read_beyond),
    ("reads and writes stay in one zone and on the device", boundaries),
    ("unaligned buffers are refused", unaligned),
    ("open and close", open_close),
    ("a closed zone can be written on", write_closed),
    ("finish from every state", finish),
    ("reset empties", reset),
    ("a full zone refuses everything but finish and reset", full_zone),
    ("the active limit holds and is never exceeded implicitly", active_limit),
    ("the open limit closes the oldest implicitly open zone", open_limit),
    ("the open limit refuses when all are explicitly open", open_limit_explicit),
    ("finish and reset give resources back", resources_return),
    ("reports cover ranges and end at the device's end", reports),
    ("counters count what was done", counters),
    ("many zones are written side by side", parallel_zones),
    ("a zone can be filled and reset again and again", rewrite),
];

/// Six zones of 16 blocks of which 12 can be written, or all 16: the [`Maker`] decides.
fn shape() -> Geometry {
    Geometry::new(16 * BLOCK as u64, 6).with_capacity_blocks(12)
}

const Z0: ZoneId = ZoneId(0);
const Z1: ZoneId = ZoneId(1);
const Z2: ZoneId = ZoneId(2);
const Z3: ZoneId = ZoneId(3);

fn state(device: &dyn ZonedDevice, zone: ZoneId, wanted: ZoneState) -> Outcome {
    same(&format!("state of {zone}"), one_report(device, zone)?.state, wanted)
}

fn one_report(device: &dyn ZonedDevice, zone: ZoneId) -> Result<crate::ZoneReport, Failure> {
    device.report(zone, 1)?.first().copied().ok_or_else(|| Failure(format!("no report of {zone}")))
}

fn pointer(device: &dyn ZonedDevice, zone: ZoneId, wanted: Option<u64>) -> Outcome {
    let start = device.geometry().zone_start(zone);
    let wanted = wanted.map(|blocks| start.plus(blocks));
    same(&format!("write pointer of {zone}"), one_report(device, zone)?.write_pointer, wanted)
}

fn content(device: &dyn ZonedDevice, at: Lba, wanted: &[u8]) -> Outcome {
    let mut found = AlignedBuf::with_len(wanted.len());
    found.fill(0xEE);
    device.read(at, &mut found)?;
    let differs = found.iter().zip(wanted).position(|(a, b)| a != b);
    same(&format!("first wrong byte of {} at {at}", wanted.len()), differs, None)
}

fn zeros(blocks: usize) -> AlignedBuf {
    AlignedBuf::with_len(blocks * BLOCK)
}

fn new_device(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let geometry = device.geometry();
    same("zone count", geometry.zone_count, 6)?;
    same("capacity", geometry.zone_capacity_blocks, make.geometry(shape()).zone_capacity_blocks)?;
    same("device capacity", geometry.capacity_bytes(), 6 * (capacity_of(&*device) * BLOCK) as u64)?;
    for report in device.report(Z0, 6)? {
        same("state", report.state, ZoneState::Empty)?;
        same("start", report.start, geometry.zone_start(report.zone))?;
        same("write pointer", report.write_pointer, Some(report.start))?;
    }
    content(&*device, Lba(0), &zeros(16))
}

fn write_read(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let start = device.geometry().zone_start(Z2);
    device.write(start, &pattern(3, 1))?;
    device.write(start.plus(3), &pattern(1, 9))?;
    state(&*device, Z2, ZoneState::ImplicitOpen)?;
    pointer(&*device, Z2, Some(4))?;
    content(&*device, start, &pattern(3, 1))?;
    content(&*device, start.plus(2), &pattern(1, 3))?;
    content(&*device, start.plus(3), &pattern(1, 9))?;
    device.flush()?;
    content(&*device, start, &pattern(3, 1))
}

fn fill(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let last = capacity_of(&*device) - 1;
    device.write(Lba(0), &pattern(last, 1))?;
    state(&*device, Z0, ZoneState::ImplicitOpen)?;
    device.write(Lba(last as u64), &pattern(1, 50))?;
    state(&*device, Z0, ZoneState::Full)?;
    pointer(&*device, Z0, None)?;
    content(&*device, Lba(last as u64), &pattern(1, 50))
}

fn invalid_write(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    refused("above, empty zone", device.write(Lba(1), &pattern(1, 1)), ErrorKind::InvalidWrite)?;
    state(&*device, Z0, ZoneState::Empty)?;
    device.write(Lba(0), &pattern(2, 1))?;
    refused("below", device.write(Lba(0), &pattern(1, 7)), ErrorKind::InvalidWrite)?;
    refused("above", device.write(Lba(3), &pattern(1, 7)), ErrorKind::InvalidWrite)?;
    pointer(&*device, Z0, Some(2))?;
    content(&*device, Lba(0), &pattern(2, 1))
}

fn append(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let start = device.geometry().zone_start(Z1);
    same("first", device.append(Z1, &pattern(2, 1))?, start)?;
    same("second", device.append(Z1, &pattern(3, 5))?, start.plus(2))?;
    device.write(start.plus(5), &pattern(1, 9))?;
    same("after a write", device.append(Z1, &pattern(1, 11))?, start.plus(6))?;
    content(&*device, start.plus(2), &pattern(3, 5))?;
    refused("no such zone", device.append(ZoneId(6), &pattern(1, 1)), ErrorKind::Invalid)
}

fn append_limit(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(Geometry { append_blocks_max: Some(4), ..shape() });
    same("at the limit", device.append(Z0, &pattern(4, 1))?, Lba(0))?;
    refused("above the limit", device.append(Z0, &pattern(5, 1)), ErrorKind::Invalid)?;
    device.write(Lba(4), &pattern(5, 1))?;
    pointer(&*device, Z0, Some(9))
}

fn capacity(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let most = capacity_of(&*device);
    let (two_left, at) = (most - 2, Lba(most as u64 - 2));
    refused("a block too many", device.write(Lba(0), &pattern(most + 1, 1)), ErrorKind::Boundary)?;
    device.write(Lba(0), &pattern(two_left, 1))?;
    refused("write", device.write(at, &pattern(3, 1)), ErrorKind::Boundary)?;
    refused("append", device.append(Z0, &pattern(3, 1)), ErrorKind::Boundary)?;
    pointer(&*device, Z0, Some(at.0))?;
    device.append(Z0, &pattern(2, 1))?;
    state(&*device, Z0, ZoneState::Full)
}

fn read_beyond(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    device.write(Lba(0), &pattern(2, 1))?;
    content(&*device, Lba(2), &zeros(2))?;
    let mut both = zeros(4);
    both[..2 * BLOCK].copy_from_slice(&pattern(2, 1));
    content(&*device, Lba(0), &both)?;
    content(&*device, Lba(12), &zeros(4))?;
    device.finish(Z0)?;
    content(&*device, Lba(0), &both)?;
    content(&*device, Lba(2), &zeros(14))
}

fn boundaries(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let mut two = zeros(2);
    refused("read across zones", device.read(Lba(15), &mut two), ErrorKind::Boundary)?;
    refused("read past the device", device.read(Lba(96), &mut two), ErrorKind::Invalid)?;
    refused("read at the far end", device.read(Lba(u64::MAX), &mut two), ErrorKind::Invalid)?;
    refused("write past the device", device.write(Lba(96), &two), ErrorKind::Invalid)?;
    refused("read over the device's end", device.read(Lba(95), &mut two), ErrorKind::Boundary)?;
    for (what, result) in [
        ("open", device.open(ZoneId(6))),
        ("close", device.close(ZoneId(6))),
        ("finish", device.finish(ZoneId(6))),
        ("reset", device.reset(ZoneId(u32::MAX))),
    ] {
        refused(what, result, ErrorKind::Invalid)?;
    }
    content(&*device, Lba(15), &zeros(1))
}

fn unaligned(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let mut buffer = pattern(2, 1);
    refused("no bytes", device.write(Lba(0), &buffer[..0]), ErrorKind::Invalid)?;
    refused("half a block", device.write(Lba(0), &buffer[..BLOCK / 2]), ErrorKind::Invalid)?;
    refused("odd address", device.write(Lba(0), &buffer[512..512 + BLOCK]), ErrorKind::Invalid)?;
    refused("odd append", device.append(Z0, &buffer[1..1 + BLOCK]), ErrorKind::Invalid)?;
    refused("odd read", device.read(Lba(0), &mut buffer[8..8 + BLOCK]), ErrorKind::Invalid)?;
    refused("short read", device.read(Lba(0), &mut buffer[..BLOCK + 1]), ErrorKind::Invalid)?;
    state(&*device, Z0, ZoneState::Empty)
}

fn open_close(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    refused("close an empty zone", device.close(Z0), ErrorKind::InvalidTransition)?;
    device.open(Z0)?;
    device.open(Z0)?;
    state(&*device, Z0, ZoneState::ExplicitOpen)?;
    device.write(Lba(0), &pattern(1, 1))?;
    state(&*device, Z0, ZoneState::ExplicitOpen)?;
    device.close(Z0)?;
    device.close(Z0)?;
    state(&*device, Z0, ZoneState::Closed)?;
    pointer(&*device, Z0, Some(1))?;
    device.open(Z1)?;
    device.close(Z1)?;
    state(&*device, Z1, ZoneState::Closed)?;
    device.append(Z2, &pattern(1, 1))?;
    device.open(Z2)?;
    state(&*device, Z2, ZoneState::ExplicitOpen)
}

fn write_closed(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    device.write(Lba(0), &pattern(1, 1))?;
    device.close(Z0)?;
    device.write(Lba(1), &pattern(1, 2))?;
    state(&*device, Z0, ZoneState::ImplicitOpen)?;
    device.close(Z0)?;
    device.open(Z0)?;
    state(&*device, Z0, ZoneState::ExplicitOpen)?;
    content(&*device, Lba(0), &pattern(2, 1))
}

fn finish(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    device.write(device.geometry().zone_start(Z1), &pattern(1, 1))?;
    device.open(Z2)?;
    device.append(Z3, &pattern(1, 1))?;
    device.close(Z3)?;
    for zone in [Z0, Z1, Z2, Z3] {
        device.finish(zone)?;
        device.finish(zone)?;
        state(&*device, zone, ZoneState::Full)?;
        pointer(&*device, zone, None)?;
    }
    content(&*device, device.geometry().zone_start(Z1), &pattern(1, 1))?;
    content(&*device, Lba(0), &zeros(12))
}

fn reset(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    device.reset(Z0)?;
    state(&*device, Z0, ZoneState::Empty)?;
    device.write(Lba(0), &pattern(capacity_of(&*device), 1))?;
    device.open(Z1)?;
    device.append(Z2, &pattern(2, 1))?;
    for zone in [Z0, Z1, Z2] {
        device.reset(zone)?;
        state(&*device, zone, ZoneState::Empty)?;
        pointer(&*device, zone, Some(0))?;
        content(&*device, device.geometry().zone_start(zone), &zeros(16))?;
    }
    device.write(Lba(0), &pattern(1, 77))?;
    content(&*device, Lba(0), &pattern(1, 77))?;
    content(&*device, Lba(1), &zeros(11))
}

fn full_zone(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let whole = pattern(capacity_of(&*device), 1);
    device.write(Lba(0), &whole)?;
    refused("write", device.write(Lba(0), &pattern(1, 1)), ErrorKind::Full)?;
    refused("append", device.append(Z0, &pattern(1, 1)), ErrorKind::Full)?;
    refused("open", device.open(Z0), ErrorKind::InvalidTransition)?;
    refused("close", device.close(Z0), ErrorKind::InvalidTransition)?;
    device.finish(Z0)?;
    content(&*device, Lba(0), &whole)?;
    device.reset(Z0)?;
    state(&*device, Z0, ZoneState::Empty)
}

fn active_limit(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape().with_limits(2, 3));
    for zone in [Z0, Z1, Z2] {
        device.append(zone, &pattern(1, 1))?;
    }
    refused("append", device.append(Z3, &pattern(1, 1)), ErrorKind::TooManyActive)?;
    refused("open", device.open(Z3), ErrorKind::TooManyActive)?;
    state(&*device, Z3, ZoneState::Empty)?;
    device.close(Z2)?;
    refused("closing frees nothing", device.open(Z3), ErrorKind::TooManyActive)?;
    device.finish(Z2)?;
    device.append(Z3, &pattern(1, 1)).map(|_| ()).map_err(Failure::from)
}

fn open_limit(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape().with_limits(2, 5));
    for zone in [Z0, Z1, Z2] {
        device.append(zone, &pattern(1, 1))?;
    }
    state(&*device, Z0, ZoneState::Closed)?;
    state(&*device, Z1, ZoneState::ImplicitOpen)?;
    device.open(Z3)?;
    state(&*device, Z1, ZoneState::Closed)?;
    device.append(Z0, &pattern(1, 2))?;
    state(&*device, Z2, ZoneState::Closed)?;
    state(&*device, Z0, ZoneState::ImplicitOpen)?;
    state(&*device, Z3, ZoneState::ExplicitOpen)?;
    content(&*device, Lba(0), &pattern(2, 1))
}

fn open_limit_explicit(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape().with_limits(2, 5));
    device.open(Z0)?;
    device.open(Z1)?;
    refused("open", device.open(Z2), ErrorKind::TooManyOpen)?;
    refused("append", device.append(Z2, &pattern(1, 1)), ErrorKind::TooManyOpen)?;
    state(&*device, Z2, ZoneState::Empty)?;
    device.close(Z0)?;
    device.append(Z2, &pattern(1, 1))?;
    state(&*device, Z1, ZoneState::ExplicitOpen)?;
    device.open(Z3)?;
    state(&*device, Z2, ZoneState::Closed)
}

fn resources_return(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape().with_limits(1, 1));
    for round in 0..3 {
        device.open(Z0)?;
        refused("second", device.open(Z1), ErrorKind::TooManyActive)?;
        if round == 1 {
            device.finish(Z0)?
        } else {
            device.reset(Z0)?
        }
        device.append(Z1, &pattern(capacity_of(&*device), 1))?;
        device.open(Z2)?;
        for zone in [Z0, Z1, Z2] {
            device.reset(zone)?;
        }
    }
    Ok(())
}

fn reports(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    same("all", device.report(Z0, 6)?.len(), 6)?;
    same("past the end", device.report(ZoneId(4), u32::MAX)?.len(), 2)?;
    same("none", device.report(Z0, 0)?.len(), 0)?;
    same("first", device.report(Z3, 2)?.first().map(|r| r.zone), Some(Z3))?;
    refused("no such zone", device.report(ZoneId(6), 1), ErrorKind::Invalid)
}

fn counters(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let before = device.counters();
    device.append(Z0, &pattern(3, 1))?;
    device.write(Lba(3), &pattern(1, 1))?;
    device.read(Lba(0), &mut zeros(2))?;
    device.flush()?;
    device.finish(Z0)?;
    device.reset(Z0)?;
    refused("failed write", device.write(Lba(5), &pattern(1, 1)), ErrorKind::InvalidWrite)?;
    let did = device.counters().since(&before);
    same("writes", (did.writes, did.written_bytes), (2, 4 * BLOCK as u64))?;
    same("reads", (did.reads, did.read_bytes), (1, 2 * BLOCK as u64))?;
    same("flushes, finishes, resets", (did.flushes, did.finishes, did.resets), (1, 1, 1))
}

fn parallel_zones(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let writers = (0..4u8).map(|z| {
        let device = Arc::clone(&device);
        zonda_rt::spawn(format!("writer-{z}"), move || write_zone(&*device, z))
    });
    let writers: Vec<_> = writers.collect();
    for writer in writers {
        writer.join().map_err(|_| Failure("a writer panicked".to_owned()))??;
    }
    for z in 0..4u8 {
        let start = device.geometry().zone_start(ZoneId(z.into()));
        content(&*device, start, &pattern(capacity_of(&*device), z * 20))?;
        state(&*device, ZoneId(z.into()), ZoneState::Full)?;
    }
    Ok(())
}

fn write_zone(device: &dyn ZonedDevice, number: u8) -> crate::Result<()> {
    let start = device.geometry().zone_start(ZoneId(number.into()));
    let places = (0..device.geometry().zone_capacity_blocks).zip(number * 20..);
    places.into_iter().try_for_each(|(block, value)| device.write(start.plus(block), &pattern(1, value)))
}

fn rewrite(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape().with_limits(2, 2));
    for round in 0..6u8 {
        device.append(Z1, &pattern(5 + usize::from(round), round))?;
        content(&*device, device.geometry().zone_start(Z1), &pattern(5 + usize::from(round), round))?;
        content(&*device, device.geometry().zone_start(Z1).plus(11), &zeros(1))?;
        device.reset(Z1)?;
        device.flush()?;
    }
    Ok(())
}
