//! Areas: append-only sequences of chunks in segments.

use crate::PageError;

/// What an area holds; also which stream of zones it fills and which column of the write report it counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AreaKind {
    /// Write-ahead log.
    Log,
    /// MetaLog: the address journal and the buffer images.
    Meta,
    /// Large values.
    Values,
}

/// One segment of an area: a zone in the zoned store. Ids of one area grow in the order of creation, over reopening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u64);

/// Where a chunk begins, in blocks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkAddress(pub u64);

/// A segment as [`Area::segments`] lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its id.
    pub id: SegmentId,
    /// Bytes written into it.
    pub bytes: u64,
}

/// What is live of the values in a segment, for all that its store knows. Bytes of chunks, whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveValues {
    /// The segment.
    pub segment: SegmentId,
    /// Live bytes.
    pub bytes: u64,
    /// Bytes that were written in it, if it was still being appended to: what came later is live on top.
    pub written: Option<u64>,
}

impl LiveValues {
    /// The most that can be live when `found` bytes are written in the segment.
    pub(crate) fn most(&self, found: u64) -> u64 {
        self.bytes.saturating_add(self.written.map_or(0, |written| found.saturating_sub(written)))
    }

    /// Whether an eighth or more of `bytes` is dead, so that it is worth to be told.
    pub(crate) fn is_worth_telling(&self, bytes: u64) -> bool {
        8 * self.bytes <= 7 * self.written.unwrap_or(bytes)
    }
}

/// One chunk as recovery reads it back.
#[derive(Debug)]
pub struct Chunk<'a> {
    /// Where it begins.
    pub address: ChunkAddress,
    /// The payload that `append` was given.
    pub payload: &'a [u8],
}

/// An append-only sequence of chunks, kept in segments that are released as a whole.
///
/// Contract.
/// - *Order*: chunks are found again in the order of the `append` calls. Appends to one area are serialised inside;
///   any thread may call.
/// - *Framing*: the store frames a chunk (magic, length, segment identity, CRC-32C) and pads it to blocks; a chunk is
///   whole or absent. Reading a segment passes over what is not whole: the torn tail of a crash, or damage. Only the chunks
///   themselves can tell which, so the owner numbers them, or says in them what was durable before.
/// - *Durability*: an appended chunk is on the device when `append` returns and durable when a later
///   [`flush`](Area::flush) returns.
/// - *Limits*: a payload is at most [`chunk_bytes_max`](Area::chunk_bytes_max) bytes; a chunk never spans segments.
/// - *After an error* of `append` or `flush` the caller must assume the tail to be lost and stop (poison); the area
///   itself places nothing behind a failed chunk in the same segment.
/// - *Reopening*: chunks of earlier lives of the store stay in their segments; new ones go to fresh segments, or, of the MetaLog, behind
///   what is in the newest one.
pub trait Area: Send + Sync {
    /// Appends one chunk and returns where it begins and the segment that holds it.
    ///
    /// # Errors
    /// `NoSpace` before anything is written; `ChunkTooLong`; `Device`.
    fn append(&self, payload: &[u8]) -> Result<(ChunkAddress, SegmentId), PageError>;

    /// Makes everything appended before this call durable (a device flush).
    ///
    /// # Errors
    /// `Device`: nothing since the last good flush may be taken as durable.
    fn flush(&self) -> Result<(), PageError>;

    /// The longest payload in bytes.
    fn chunk_bytes_max(&self) -> usize;

    /// All segments that are not released, oldest first.
    fn segments(&self) -> Vec<Segment>;

    /// Visits the whole chunks of a segment in order; `visit` returns `false` to stop early. Reads a block range at a
    /// time; memory is bounded by the longest chunk. Passes over at most 4 MiB that hold no whole chunk.
    ///
    /// # Errors
    /// `Device`; `NoSuchSegment`; what `visit` returns.
    fn read_segment(
        &self,
        segment: SegmentId,
        visit: &mut dyn FnMut(Chunk<'_>) -> Result<bool, PageError>,
    ) -> Result<(), PageError>;

    /// Reads one chunk by address and returns its payload. `payload_bytes` is a hint: one device read if it covers the payload, else two.
    ///
    /// # Errors
    /// `Device`; `Damaged` when there is no whole chunk at that address.
    fn read_chunk(&self, at: ChunkAddress, payload_bytes: usize) -> Result<Vec<u8>, PageError>;

    /// Reads several chunks, each an address and a hint as [`read_chunk`](Area::read_chunk) has it, with the device reads in flight
    /// together: 4 MiB at the most, but always one chunk. `visit` gets the index into `chunks` and the payload, in any order.
    ///
    /// # Errors
    /// As `read_chunk`; some may have been visited.
    fn read_chunks(
        &self,
        chunks: &[(ChunkAddress, usize)],
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PageError> {
        for (index, &(at, payload_bytes)) in chunks.iter().enumerate() {
            visit(index, &self.read_chunk(at, payload_bytes)?);
        }
        Ok(())
    }

    /// Declares a segment dead. It is reset by the store's next reclaim step under the rules of
    /// [`Relocate`](crate::Relocate) (the caller must have made durable whatever allows to forget it). Releasing the
    /// segment that is being written seals it first. Idempotent.
    ///
    /// # Errors
    /// `Device` while sealing.
    fn release(&self, segment: SegmentId) -> Result<(), PageError>;
}
