//! Areas of a store in place: each segment is filled chunk by chunk and freed as a whole; its id is its generation.
//!
//! A chunk is written when `append` returns, behind the one before; the first one of a segment behind the segment's header. When a
//! segment is full its header is written again with its length, so that opening need not look for its end.

use std::sync::Arc;

use zonda_device::{DeviceError, ErrorKind};
use zonda_rt::Mutex;

use super::core::{ATTEMPTS_MAX, Core};
use super::format::{SegmentHeader, SegmentKind};
use super::layout::SegmentIndex;
use super::run::Run;
use super::table::Content;
use crate::areas::HOLE_BLOCKS_MAX;
use crate::chunk_reads::{Behind, ChunkReader};
use crate::format::CHUNK_HEADER_BYTES;
use crate::frame::{CHUNK_PAYLOAD_BYTES_MAX, ChunkFrame, Fault, Frame, Place, chunk_blocks};
use crate::stream::Claim;
use crate::walk::Walk;
use crate::{Area, AreaKind, Chunk, ChunkAddress, PageError, Segment, SegmentId, number};

/// A value chunk is at most this share of a segment, so that little is left unused at its end.
const VALUE_SHARE_OF_SEGMENT: u64 = 4;
/// Waits of 20 ms after which a foreground value that finds no segment is refused, if nothing changes.
const WAITS_MAX: u32 = 100;

/// One area.
pub(crate) struct InPlaceArea {
    kind: AreaKind,
    core: Arc<Core>,
    /// Serialises appends.
    turn: Mutex<()>,
}

/// Where the next chunk goes.
struct Spot {
    segment: SegmentIndex,
    block: u64,
    index: u32,
}

impl InPlaceArea {
    pub(crate) fn new(kind: AreaKind, core: Arc<Core>) -> Self {
        Self { kind, core, turn: Mutex::new(()) }
    }

    fn claim(&self) -> Claim {
        match self.kind {
            AreaKind::Log | AreaKind::Meta => Claim::Record,
            AreaKind::Values if self.core.is_reclaimer() => Claim::Relocation,
            AreaKind::Values => Claim::Foreground,
        }
    }

    fn append_now(&self, payload: &[u8], claim: Claim) -> Result<(ChunkAddress, SegmentId), PageError> {
        let _turn = self.turn.lock();
        let blocks = chunk_blocks(payload.len());
        let mut failure = None;
        for _ in 0..ATTEMPTS_MAX {
            let spot = match self.spot(blocks)? {
                Some(spot) => spot,
                None if self.open(claim)? => continue,
                None => return Err(self.core.no_space()),
            };
            match self.write(payload, &spot) {
                Ok(()) => {
                    self.wrote(blocks);
                    let generation = self.core.generation_at(spot.block);
                    return Ok((ChunkAddress(spot.block), SegmentId(generation)));
                }
                Err(error) if error.kind() == ErrorKind::Media => {
                    // Nothing goes behind a chunk that may be torn.
                    self.seal()?;
                    failure = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(failure.map_or_else(|| self.core.no_space(), PageError::from))
    }

    /// The end of the open segment, if the chunk fits there; else there is no open segment any more.
    fn spot(&self, blocks: u64) -> Result<Option<Spot>, PageError> {
        let end = self.core.with_table(|table| {
            let (segment, run) = table.open_run(self.kind)?;
            let (block, index) = run.next();
            Some(Spot { segment, block, index })
        });
        match end {
            Some(spot) if spot.block + blocks > self.core.layout.end(spot.segment) => {
                self.seal()?;
                Ok(None)
            }
            spot => Ok(spot),
        }
    }

    /// Opens a segment; `false` if there is none for this claim.
    fn open(&self, claim: Claim) -> Result<bool, PageError> {
        let name = if self.kind == AreaKind::Meta { "journal switch" } else { "open" };
        let _label = zonda_device::cut_label(name);
        let Some(new) = self.core.with_table(|table| table.open_area(self.kind, claim)) else { return Ok(false) };
        match self.core.write_header(new.segment, &self.header(new.generation, 0)) {
            Err(error) if error.kind() == ErrorKind::Media => self.core.with_table(|table| table.lose(new.segment)),
            Err(error) => {
                // An open segment without a header would be appended to, and be somebody else's after the next opening.
                self.core.with_table(|table| table.reset(new.segment));
                return Err(error.into());
            }
            Ok(()) => {}
        }
        self.core.note_lost();
        Ok(true)
    }

    fn header(&self, generation: u64, written_blocks: u32) -> SegmentHeader {
        SegmentHeader { kind: SegmentKind::Area(self.kind), generation, written_blocks }
    }

    fn write(&self, payload: &[u8], spot: &Spot) -> Result<(), DeviceError> {
        let _label = zonda_device::cut_label_unless_named(cut_label(self.kind));
        let chunk = ChunkFrame { kind: self.kind, index: spot.index, payload };
        let mut buffer = self.core.pool.take(chunk.blocks());
        let bytes = &mut buffer[..number::bytes(chunk.blocks())];
        let place = Place { generation: self.core.generation_at(spot.block), block: spot.block };
        self.core.framing.write_chunk(bytes, &chunk, place);
        self.core.disk.write(spot.block, bytes)?;
        self.core.counters.chunk_written(self.kind, bytes.len());
        Ok(())
    }

    fn wrote(&self, blocks: u64) {
        let bytes = blocks * crate::BLOCK_BYTES as u64;
        let values = self.kind == AreaKind::Values;
        self.core.with_table(|table| {
            let (_, run) = table.open_run(self.kind).expect("it was just written to");
            run.wrote(blocks);
            if values {
                run.add_live(bytes);
            }
        });
        if values {
            self.core.counters.add_live_values(bytes);
        }
    }

    /// Writes the length of the open segment into its header, and closes it. That is a help, not a need: a device that cannot write there
    /// any more is forgiven. In this order: reclaim resets what is closed, and the header would land in a segment that is another one by
    /// then.
    fn seal(&self) -> Result<(), PageError> {
        let _label = zonda_device::cut_label("finish");
        let open = self.core.with_table(|table| {
            let (segment, run) = table.open_run(self.kind)?;
            let written = u32::try_from(run.written_blocks()).unwrap_or(0);
            Some((segment, table.generation(segment), written))
        });
        let Some((segment, generation, written)) = open else { return Ok(()) };
        let wrote = self.core.write_header(segment, &self.header(generation, written));
        self.core.with_table(|table| table.seal(self.kind));
        match wrote {
            Err(error) if error.kind() != ErrorKind::Media => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Calls `with` with each segment that recovery may read.
    fn for_runs(&self, mut with: impl FnMut(SegmentIndex, u64, &Run)) {
        self.core.with_table(|table| {
            for segment in self.core.layout.all() {
                match table.content(segment) {
                    Content::Area(run) if run.kind() == self.kind && run.is_kept() => {
                        with(segment, table.generation(segment), run);
                    }
                    _ => {}
                }
            }
        });
    }

    fn find(&self, wanted: SegmentId) -> Option<(SegmentIndex, u64)> {
        let mut found = None;
        self.for_runs(|segment, generation, run| {
            if generation == wanted.0 {
                found = Some((segment, run.written_blocks()));
            }
        });
        found
    }

    /// What chunks are read with.
    fn chunks(&self) -> ChunkReader<'_, Core, impl Fn(u64) -> Option<Behind>> {
        let core = self.core.as_ref();
        let behind = |block: u64| {
            let segment = core.layout.segment_of(block, 1)?;
            Some(Behind { generation: core.generation_at(block), blocks: core.layout.end(segment) - block })
        };
        ChunkReader { kind: self.kind, source: core, eyes: core.eyes(), counters: &core.counters, behind }
    }
}

impl Area for InPlaceArea {
    fn append(&self, payload: &[u8]) -> Result<(ChunkAddress, SegmentId), PageError> {
        let (bytes, bytes_max) = (payload.len(), self.chunk_bytes_max());
        if bytes > bytes_max {
            return Err(PageError::ChunkTooLong { bytes, bytes_max });
        }
        let claim = self.claim();
        loop {
            match self.append_now(payload, claim) {
                // With the turn given up: reclaim appends here too.
                Err(PageError::NoSpace { .. }) if claim == Claim::Foreground && self.core.is_short() => {
                    self.core.wait_for_spare_segments(WAITS_MAX)?;
                }
                appended => return appended,
            }
        }
    }

    fn flush(&self) -> Result<(), PageError> {
        Ok(self.core.disk.flush()?)
    }

    fn chunk_bytes_max(&self) -> usize {
        let segment = self.core.layout.data_blocks_min();
        let blocks = if self.kind == AreaKind::Values { (segment / VALUE_SHARE_OF_SEGMENT).max(1) } else { segment };
        (number::bytes(blocks) - CHUNK_HEADER_BYTES).min(CHUNK_PAYLOAD_BYTES_MAX)
    }

    fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        self.for_runs(|_, generation, run| {
            segments.push(Segment { id: SegmentId(generation), bytes: run.written_bytes() });
        });
        segments.sort_by_key(|segment| segment.id);
        segments
    }

    fn read_segment(
        &self,
        segment: SegmentId,
        visit: &mut dyn FnMut(Chunk<'_>) -> Result<bool, PageError>,
    ) -> Result<(), PageError> {
        let (index, written) = self.find(segment).ok_or(PageError::NoSuchSegment(segment.0))?;
        let first = self.core.layout.first(index);
        let mut walk = Walk::new(segment.0, first, first + written);
        let (mut expected, mut hole_blocks) = (0, 0);
        while let Some(step) = walk.look(self.core.eyes(), |bytes| self.core.counters.read(bytes))? {
            let (index, payload) = match step.frame {
                Ok(Frame::Chunk(ChunkFrame { kind, index, payload })) if kind == self.kind && index >= expected => {
                    (index, payload)
                }
                // What was synced may be there.
                Err(fault @ Fault::Unreadable) => return Err(fault.at("chunk", step.block)),
                // One of the area with a smaller number is of an earlier session, and was never durable (decision 0053).
                Ok(_) | Err(_) => {
                    hole_blocks += 1;
                    if hole_blocks == HOLE_BLOCKS_MAX {
                        return Ok(());
                    }
                    walk.advance(1);
                    continue;
                }
            };
            hole_blocks = 0;
            let (chunk, blocks) = (Chunk { address: ChunkAddress(step.block), payload }, chunk_blocks(payload.len()));
            if !visit(chunk)? {
                return Ok(());
            }
            expected = index.saturating_add(1);
            walk.advance(blocks);
        }
        Ok(())
    }

    fn read_chunk(&self, at: ChunkAddress, payload_bytes: usize) -> Result<Vec<u8>, PageError> {
        self.chunks().one(at, payload_bytes)
    }

    fn read_chunks(
        &self,
        chunks: &[(ChunkAddress, usize)],
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), PageError> {
        self.chunks().many(chunks, visit)
    }

    fn release(&self, segment: SegmentId) -> Result<(), PageError> {
        let _turn = self.turn.lock();
        let Some((index, _)) = self.find(segment) else { return Ok(()) };
        self.core.with_table(|table| {
            if table.open_run(self.kind).is_some_and(|(open, _)| open == index) {
                // Its length is of no interest any more: the header is not written again.
                table.seal(self.kind);
            }
            table.release_area(index);
        });
        Ok(())
    }
}

/// The power-cut harness counts its hits under these names.
fn cut_label(kind: AreaKind) -> &'static str {
    match kind {
        AreaKind::Log => "log",
        AreaKind::Meta => "address record",
        AreaKind::Values => "values",
    }
}
