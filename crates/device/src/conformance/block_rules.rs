//! The rules of [`BlockDevice`](crate::BlockDevice).
use super::{BLOCK, BlockRule, MakeBlock, Outcome, pattern, refused, same};
use crate::{AlignedBuf, BlockDevice, ErrorKind, Lba};

pub(super) const RULES: &[BlockRule] = &[
    ("a new device reads as zeros", new_device),
    ("blocks can be overwritten in any order", overwrite),
    ("trimmed blocks read as zeros", trim),
    ("nothing past the end", range),
    ("unaligned buffers are refused", unaligned),
    ("counters count what was done", counters),
];

fn content(device: &dyn BlockDevice, at: u64, wanted: &[u8]) -> Outcome {
    let mut found = AlignedBuf::with_len(wanted.len());
    found.fill(0xEE);
    device.read(Lba(at), &mut found)?;
    same(&format!("content at block {at}"), *found == *wanted, true)
}

fn zeros(blocks: usize) -> AlignedBuf {
    AlignedBuf::with_len(blocks * BLOCK)
}

fn new_device(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 32);
    same("shape", (device.block_bytes(), device.capacity_blocks()), (4096, 32))?;
    same("capacity", device.capacity_bytes(), 32 * 4096)?;
    content(&*device, 0, &zeros(32))
}

fn overwrite(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 32);
    device.write(Lba(30), &pattern(2, 1))?;
    device.write(Lba(0), &pattern(4, 10))?;
    device.write(Lba(1), &pattern(2, 90))?;
    device.flush()?;
    content(&*device, 0, &pattern(1, 10))?;
    content(&*device, 1, &pattern(2, 90))?;
    content(&*device, 3, &pattern(1, 13))?;
    content(&*device, 30, &pattern(2, 1))
}

fn trim(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 32);
    device.write(Lba(0), &pattern(8, 1))?;
    device.trim(Lba(2), 3)?;
    device.trim(Lba(2), 0)?;
    content(&*device, 0, &pattern(2, 1))?;
    content(&*device, 2, &zeros(3))?;
    content(&*device, 5, &pattern(3, 6))?;
    device.write(Lba(3), &pattern(1, 60))?;
    content(&*device, 3, &pattern(1, 60))
}

fn range(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 32);
    device.write(Lba(31), &pattern(1, 1))?;
    refused("write", device.write(Lba(31), &pattern(2, 1)), ErrorKind::Invalid)?;
    refused("read", device.read(Lba(32), &mut zeros(1)), ErrorKind::Invalid)?;
    refused("far read", device.read(Lba(u64::MAX), &mut zeros(1)), ErrorKind::Invalid)?;
    refused("trim", device.trim(Lba(30), 3), ErrorKind::Invalid)?;
    refused("huge trim", device.trim(Lba(1), u64::MAX), ErrorKind::Invalid)?;
    content(&*device, 31, &pattern(1, 1))
}

fn unaligned(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 32);
    let mut buffer = pattern(2, 1);
    refused("no bytes", device.write(Lba(0), &buffer[..0]), ErrorKind::Invalid)?;
    refused("odd address", device.write(Lba(0), &buffer[512..512 + BLOCK]), ErrorKind::Invalid)?;
    refused("short read", device.read(Lba(0), &mut buffer[..100]), ErrorKind::Invalid)?;
    content(&*device, 0, &zeros(1))
}

fn counters(make: &mut MakeBlock<'_>) -> Outcome {
    let device = make(4096, 32);
    let before = device.counters();
    device.write(Lba(4), &pattern(3, 1))?;
    device.read(Lba(4), &mut zeros(2))?;
    device.flush()?;
    device.trim(Lba(4), 1)?;
    let did = device.counters().since(&before);
    same("writes", (did.writes, did.written_bytes), (1, 3 * BLOCK as u64))?;
    same("reads", (did.reads, did.read_bytes), (1, 2 * BLOCK as u64))?;
    same("flushes, trims", (did.flushes, did.trims), (1, 1))
}
