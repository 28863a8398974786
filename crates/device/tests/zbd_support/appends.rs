//! Many appends in flight, whose places must be disjoint and hold their data.
use std::collections::BTreeSet;

use zonda_device::{AlignedBuf, Io, IoQueue, Lba, ZbdDevice, ZoneId, ZonedDevice};

/// Appends blocks with their number in them to two zones, `depth` in flight, and reads each where the drive said it is.
pub(crate) fn many_in_flight(device: &ZbdDevice, depth: u32, count: u64) {
    let mut queue = device.queue(depth).unwrap();
    let (mut places, mut submitted, mut deepest) = (Vec::new(), 0, 0);
    while (places.len() as u64) < count {
        while submitted < count && queue.in_flight() < queue.depth() {
            let zone = ZoneId(u32::try_from(submitted % 2).unwrap());
            queue.submit(submitted, Io::Append { zone, from: numbered(submitted) }).unwrap();
            submitted += 1;
        }
        deepest = deepest.max(queue.in_flight());
        take(&mut *queue, &mut places);
    }
    println!("{deepest} appends in flight on {}", device.describe());
    assert_eq!(deepest, depth as usize);
    let distinct: BTreeSet<Lba> = places.iter().map(|&(_, at)| at).collect();
    assert_eq!(distinct.len() as u64, count);
    for (number, at) in places {
        let mut found = AlignedBuf::with_len(4096);
        device.read(at, &mut found).unwrap();
        assert_eq!(found[..8], number.to_le_bytes(), "{at}");
    }
}

fn numbered(number: u64) -> AlignedBuf {
    let mut block = AlignedBuf::with_len(4096);
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

fn take(queue: &mut dyn IoQueue, places: &mut Vec<(u64, Lba)>) {
    let mut done = Vec::new();
    queue.complete(1, &mut done).unwrap();
    places.extend(done.into_iter().map(|completion| (completion.token, completion.result.unwrap())));
}
