//! Chunks read by address, in flight together: what many large values, or one of many segments, cost is the device's bandwidth, not a wait
//! for each.

use zonda_device::Completion;

use crate::frame::Place;
use crate::read_queue::ReadQueue;
use crate::source::Source;
use crate::{PageError, number};

/// Most bytes in flight of one caller, but always one chunk: a few of the longest chunks of values.
const IN_FLIGHT_BYTES_MAX: u64 = 4 << 20;
/// Of the reads in flight one in so many is waited for at a time.
const WAIT_SHARE: usize = 4;

/// Where a chunk is, and how many blocks of it to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkRead {
    pub(crate) place: Place,
    pub(crate) blocks: u64,
}

impl ChunkRead {
    fn bytes(&self) -> u64 {
        number::bytes(self.blocks) as u64
    }
}

/// Takes the bytes of a read, by its index.
pub(crate) type Accept<'a> = dyn FnMut(usize, &[u8]) -> Result<(), PageError> + 'a;

/// Reads all of `reads`; `accept` hears of the bytes of each, by its index, in the order in which they come.
///
/// # Errors
/// Those of the device and of `accept`, after which no more is read.
pub(crate) fn read_chunks<S: Source>(
    source: &S,
    reads: &[ChunkRead],
    accept: &mut Accept<'_>,
) -> Result<(), PageError> {
    let mut queue = ReadQueue::take(source)?;
    let (mut begun, mut in_flight_bytes) = (0, 0);
    let mut done: Vec<Completion> = Vec::with_capacity(reads.len().min(queue.depth()));
    while begun < reads.len() || queue.in_flight() > 0 {
        while let Some(read) = reads.get(begun) {
            let is_full = in_flight_bytes > 0 && in_flight_bytes + read.bytes() > IN_FLIGHT_BYTES_MAX;
            if is_full || queue.in_flight() == queue.depth() {
                break;
            }
            queue.read(begun, read.place.block, read.blocks)?;
            in_flight_bytes += read.bytes();
            begun += 1;
        }
        queue.complete(WAIT_SHARE, &mut done)?;
        for completion in done.drain(..) {
            completion.result?;
            let index = number::index(completion.token);
            in_flight_bytes -= reads[index].bytes();
            let buffer = completion.buffer.expect("a read brings its buffer back");
            accept(index, &buffer)?;
            queue.give_back(buffer);
        }
    }
    Ok(())
}
