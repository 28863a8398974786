//! The rules of [`IoQueue`], on zoned and on block devices.
use super::{BLOCK, BlockRule, Failure, MakeBlock, Maker, Outcome, ZonedRule, capacity_of, pattern, refused, same};
use crate::{AlignedBuf, Completion, ErrorKind, Geometry, Io, IoQueue, Lba, QUEUE_DEPTH_MAX, ZoneId, ZoneState};

pub(super) const ZONED_RULES: &[ZonedRule] = &[
    ("queue: depth has limits and is respected", zoned_depth),
    ("queue: writes, appends, flush and reads complete with their tokens", zoned_mix),
    ("queue: writes in flight in one zone keep their order", zoned_order),
    ("queue: reads above the write pointer are zeros", zoned_read_beyond),
    ("queue: what was started is taken later", zoned_start),
    ("queue: errors come with their completion and buffer", zoned_errors),
    ("queue: dropping one with requests in flight is harmless", zoned_drop),
];

pub(super) const BLOCK_RULES: &[BlockRule] = &[
    ("queue: depth has limits and is respected", block_depth),
    ("queue: many writes and reads in flight", block_mix),
    ("queue: appends are not supported", block_append),
];

/// Four zones of 32 blocks of which 24 can be written, or all 32.
fn shape() -> Geometry {
    Geometry::new(32 * BLOCK as u64, 4).with_capacity_blocks(24)
}

fn buffer(blocks: usize) -> AlignedBuf {
    AlignedBuf::with_len(blocks * BLOCK)
}

fn submit(queue: &mut dyn IoQueue, token: u64, io: Io) -> Outcome {
    queue.submit(token, io).map_err(|rejected| Failure(format!("request {token} rejected: {}", rejected.error)))
}

/// Takes all completions, by token.
fn take_all(queue: &mut dyn IoQueue) -> Result<Vec<Completion>, Failure> {
    let (mut all, wanted) = (Vec::new(), queue.in_flight());
    same("number completed", queue.complete(wanted, &mut all)?, wanted)?;
    same("left in flight", queue.in_flight(), 0)?;
    all.sort_by_key(|c| c.token);
    Ok(all)
}

fn check_depth(queue: &mut dyn IoQueue) -> Outcome {
    same("depth", queue.depth(), 2)?;
    submit(queue, 1, Io::Read { at: Lba(0), into: buffer(1) })?;
    submit(queue, 2, Io::Read { at: Lba(1), into: buffer(1) })?;
    same("in flight", queue.in_flight(), 2)?;
    let rejected = queue.submit(3, Io::Read { at: Lba(0), into: buffer(3) });
    let Err(rejected) = rejected else {
        return Err(Failure("a full queue took a request".to_owned()));
    };
    same("why", rejected.error.kind(), ErrorKind::Busy)?;
    same("buffer given back", matches!(&rejected.io, Io::Read { into, .. } if into.len() == 3 * BLOCK), true)?;
    same("tokens", take_all(queue)?.iter().map(|c| c.token).collect(), vec![1, 2])?;
    same("empty queue", queue.complete(5, &mut Vec::new())?, 0)
}

fn zoned_depth(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    refused("depth 0", device.queue(0), ErrorKind::Invalid)?;
    refused("depth above the most", device.queue(QUEUE_DEPTH_MAX + 1), ErrorKind::Invalid)?;
    check_depth(&mut *device.queue(2)?)
}

fn zoned_mix(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let mut queue = device.queue(8)?;
    submit(&mut *queue, 10, Io::Write { at: Lba(0), from: pattern(2, 1) })?;
    submit(&mut *queue, 11, Io::Append { zone: ZoneId(1), from: pattern(3, 20) })?;
    for (completion, wanted) in take_all(&mut *queue)?.iter().zip([Lba(0), Lba(32)]) {
        same("address", completion.result.clone()?, wanted)?;
        same("buffer", completion.buffer.is_some(), true)?;
    }
    submit(&mut *queue, 12, Io::Flush)?;
    submit(&mut *queue, 13, Io::Read { at: Lba(32), into: buffer(3) })?;
    let done = take_all(&mut *queue)?;
    same("flush has no buffer", done[0].result.is_ok() && done[0].buffer.is_none(), true)?;
    same("data", done[1].buffer.as_deref() == Some(&*pattern(3, 20)), true)?;
    let counters = device.counters();
    same("counters", (counters.writes, counters.reads, counters.flushes), (2, 1, 1))
}

fn zoned_order(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let mut queue = device.queue(16)?;
    let in_flight_max = if device.geometry().ordered_queue { 12 } else { 1 };
    let most = capacity_of(&*device);
    for i in (0..).take(most) {
        if queue.in_flight() >= in_flight_max {
            for completion in take_all(&mut *queue)? {
                completion.result?;
            }
        }
        submit(&mut *queue, u64::from(i), Io::Write { at: Lba(u64::from(i)), from: pattern(1, i) })?;
    }
    for completion in take_all(&mut *queue)? {
        completion.result?;
    }
    same("state", device.report(ZoneId(0), 1)?[0].state, ZoneState::Full)?;
    let mut found = buffer(most);
    device.read(Lba(0), &mut found)?;
    same("data", *found == *pattern(most, 0), true)
}

fn zoned_read_beyond(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    device.write(Lba(0), &pattern(1, 5))?;
    let mut queue = device.queue(4)?;
    for (token, at) in [(0, 0), (1, 1), (2, 24)] {
        let mut into = buffer(2);
        into.fill(0xEE);
        submit(&mut *queue, token, Io::Read { at: Lba(at), into })?;
    }
    let mut half = buffer(2);
    half[..BLOCK].fill(5);
    for (completion, wanted) in take_all(&mut *queue)?.iter().zip([half, buffer(2), buffer(2)]) {
        completion.result.clone()?;
        same("data", completion.buffer.as_deref() == Some(&*wanted), true)?;
    }
    Ok(())
}

fn zoned_start(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let mut queue = device.queue(4)?;
    queue.start();
    for i in 0..2u8 {
        submit(&mut *queue, i.into(), Io::Append { zone: ZoneId(i.into()), from: pattern(1, i) })?;
    }
    queue.start();
    queue.start();
    same("in flight", queue.in_flight(), 2)?;
    submit(&mut *queue, 2, Io::Append { zone: ZoneId(2), from: pattern(1, 2) })?;
    for (completion, zone) in take_all(&mut *queue)?.iter().zip(0u32..) {
        same("address", completion.result.clone()?, device.geometry().zone_start(ZoneId(zone)))?;
    }
    Ok(())
}

fn zoned_errors(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    // A whole zone can be appended at once, but not behind what is there.
    device.append(ZoneId(1), &pattern(1, 1))?;
    let mut queue = device.queue(8)?;
    submit(&mut *queue, 0, Io::Write { at: Lba(7), from: pattern(1, 1) })?;
    submit(&mut *queue, 1, Io::Read { at: Lba(31), into: buffer(2) })?;
    submit(&mut *queue, 2, Io::Append { zone: ZoneId(4), from: pattern(1, 1) })?;
    submit(&mut *queue, 3, Io::Append { zone: ZoneId(1), from: pattern(capacity_of(&*device), 1) })?;
    let wanted = [ErrorKind::InvalidWrite, ErrorKind::Boundary, ErrorKind::Invalid, ErrorKind::Boundary];
    for (completion, wanted) in take_all(&mut *queue)?.into_iter().zip(wanted) {
        same("buffer came back", completion.buffer.is_some(), true)?;
        refused("request", completion.result, wanted)?;
    }
    same("blocks written", device.report(ZoneId(1), 1)?[0].written_blocks(), 1)
}

fn zoned_drop(make: &mut Maker<'_, '_>) -> Outcome {
    let device = make.device(shape());
    let mut queue = device.queue(8)?;
    for i in 0..4u8 {
        let zone = ZoneId(i.into());
        submit(&mut *queue, i.into(), Io::Append { zone, from: pattern(4, i) })?;
    }
    drop(queue);
    for i in 0..4u8 {
        let zone = ZoneId(i.into());
        let mut found = buffer(4);
        device.read(device.geometry().zone_start(zone), &mut found)?;
        same("data", *found == *pattern(4, i), true)?;
        device.reset(zone)?;
    }
    Ok(())
}

fn block_depth(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 64);
    refused("depth 0", device.queue(0), ErrorKind::Invalid)?;
    check_depth(&mut *device.queue(2)?)
}

fn block_mix(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 64);
    let mut queue = device.queue(32)?;
    for i in 0..32u8 {
        submit(&mut *queue, i.into(), Io::Write { at: Lba(63 - u64::from(i)), from: pattern(1, i) })?;
    }
    for completion in take_all(&mut *queue)? {
        completion.result?;
    }
    submit(&mut *queue, 0, Io::Flush)?;
    take_all(&mut *queue)?.remove(0).result?;
    for i in 0..32u8 {
        submit(&mut *queue, i.into(), Io::Read { at: Lba(63 - u64::from(i)), into: buffer(1) })?;
    }
    for (completion, i) in take_all(&mut *queue)?.iter().zip(0u8..) {
        completion.result.clone()?;
        same("data", completion.buffer.as_deref() == Some(&*pattern(1, i)), true)?;
    }
    Ok(())
}

fn block_append(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 8);
    let mut queue = device.queue(1)?;
    submit(&mut *queue, 1, Io::Append { zone: ZoneId(0), from: pattern(1, 1) })?;
    refused("append", take_all(&mut *queue)?.remove(0).result, ErrorKind::NotSupported)
}
