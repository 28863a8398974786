//! Chunks read by address, in flight together: what many large values, or one of many segments, cost is the device's bandwidth, not a wait
//! for each.

use zonda_device::Completion;

use crate::counters::Counters;
use crate::format::CHUNK_HEADER_BYTES;
use crate::frame::{CHUNK_PAYLOAD_BYTES_MAX, Fault, Place, chunk_blocks};
use crate::read_queue::ReadQueue;
use crate::source::Source;
use crate::walk::Eyes;
use crate::{AreaKind, ChunkAddress, PageError, number};

/// Most bytes in flight of one caller, but always one chunk: a few of the longest chunks of values.
const IN_FLIGHT_BYTES_MAX: u64 = 4 << 20;
/// Of the reads in flight one in so many is waited for at a time.
const WAIT_SHARE: usize = 4;

/// Where a chunk is, and how many blocks of it to read.
#[derive(Clone, Copy, Debug)]
struct ChunkRead {
    place: Place,
    blocks: u64,
}

impl ChunkRead {
    fn bytes(&self) -> u64 {
        number::bytes(self.blocks) as u64
    }
}

/// What follows an address in its segment: the generation, and the blocks from the address on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    pub(crate) generation: u64,
    pub(crate) blocks: u64,
}

/// Reads the chunks of an area by address. Those that are longer than whoever asks supposes are read again, alone.
pub(crate) struct ChunkReader<'a, S, B> {
    pub(crate) kind: AreaKind,
    pub(crate) source: &'a S,
    pub(crate) eyes: Eyes<'a>,
    pub(crate) counters: &'a Counters,
    /// What follows a block; `None` where no segment is.
    pub(crate) behind: B,
}

impl<S: Source, B: Fn(u64) -> Option<Behind>> ChunkReader<'_, S, B> {
    /// As [`Area::read_chunk`](crate::Area::read_chunk).
    pub(crate) fn one(&self, at: ChunkAddress, payload_bytes: usize) -> Result<Vec<u8>, PageError> {
        let (ChunkRead { place, blocks }, left) = self.whereabouts(at, payload_bytes)?;
        let read = match self.read(place, blocks)? {
            Err(Fault::CutOff { needed_bytes }) if chunk_blocks(needed_bytes - CHUNK_HEADER_BYTES) <= left => {
                self.read(place, chunk_blocks(needed_bytes - CHUNK_HEADER_BYTES))?
            }
            read => read,
        };
        read.map_err(|fault| fault.at("chunk", at.0))
    }

    /// As [`Area::read_chunks`](crate::Area::read_chunks).
    pub(crate) fn many(
        &self,
        chunks: &[(ChunkAddress, usize)],
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PageError> {
        if let [(at, payload_bytes)] = *chunks {
            visit(0, &self.one(at, payload_bytes)?);
            return Ok(());
        }
        let reads: Vec<ChunkRead> =
            chunks.iter().map(|&(at, bytes)| Ok(self.whereabouts(at, bytes)?.0)).collect::<Result<_, PageError>>()?;
        let mut again = Vec::new();
        read_chunks(self.source, &reads, &mut |index, bytes| {
            self.counters.read(bytes.len());
            let place = reads[index].place;
            match self.eyes.framing.chunk(bytes, self.kind, place) {
                Ok(chunk) => visit(index, chunk.payload),
                Err(Fault::CutOff { needed_bytes }) => {
                    again.push((index, needed_bytes.saturating_sub(CHUNK_HEADER_BYTES)))
                }
                Err(fault) => return Err(fault.at("chunk", place.block)),
            }
            Ok(())
        })?;
        for (index, payload_bytes) in again {
            visit(index, &self.one(chunks[index].0, payload_bytes)?);
        }
        Ok(())
    }

    /// Where to read the chunk at `at`, as long as the hint says, and the blocks that are left in its segment.
    fn whereabouts(&self, at: ChunkAddress, payload_bytes: usize) -> Result<(ChunkRead, u64), PageError> {
        let behind = (self.behind)(at.0).ok_or_else(|| Fault::NoFrame.at("chunk", at.0))?;
        let place = Place { generation: behind.generation, block: at.0 };
        let blocks = chunk_blocks(payload_bytes.min(CHUNK_PAYLOAD_BYTES_MAX)).min(behind.blocks);
        Ok((ChunkRead { place, blocks }, behind.blocks))
    }

    /// Reads the chunk at a block; `CutOff` if it is longer than `blocks`.
    fn read(&self, place: Place, blocks: u64) -> Result<Result<Vec<u8>, Fault>, PageError> {
        let mut buffer = self.eyes.pool.take(blocks);
        let bytes = &mut buffer[..number::bytes(blocks)];
        self.eyes.blocks.read(place.block, bytes).map_err(|error| error.of_read("chunk", place.block))?;
        self.counters.read(bytes.len());
        Ok(self.eyes.framing.chunk(bytes, self.kind, place).map(|chunk| chunk.payload.to_vec()))
    }
}

/// Takes the bytes of a read, by its index.
type Accept<'a> = dyn FnMut(usize, &[u8]) -> Result<(), PageError> + 'a;

/// Reads all of `reads`; `accept` hears of the bytes of each, by its index, in the order in which they come.
///
/// # Errors
/// Those of the device and of `accept`, after which no more is read.
fn read_chunks<S: Source>(source: &S, reads: &[ChunkRead], accept: &mut Accept<'_>) -> Result<(), PageError> {
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
            let index = number::index(completion.token);
            let of_chunk = |error| PageError::from(error).of_read("chunk", reads[index].place.block);
            completion.result.map_err(of_chunk)?;
            in_flight_bytes -= reads[index].bytes();
            let buffer = completion.buffer.expect("a read brings its buffer back");
            accept(index, &buffer)?;
            queue.give_back(buffer);
        }
    }
    Ok(())
}
