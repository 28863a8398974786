//! Areas of the zoned store: streams of zones, one segment per zone (the segment's id is the zone's generation).
//!
//! Log and MetaLog have zones of their own, one open at a time, so their chunks are in order. Values may share zones with pages
//! and with each other. A chunk that fits one block costs exactly one device write.

use std::sync::Arc;

use zonda_device::ZoneId;
use zonda_rt::Mutex;

use crate::chunk_reads::{Behind, ChunkReader};
use crate::flusher::Flusher;
use crate::format::CHUNK_HEADER_BYTES;
use crate::frame::{CHUNK_PAYLOAD_BYTES_MAX, ChunkFrame, Fault, Frame};
use crate::stream::Claim;
use crate::walk::{Eyes, Walk};
use crate::zone_table::{Holds, Zone};
use crate::{Area, AreaKind, Chunk, ChunkAddress, PageError, Segment, SegmentId, number};

/// A value chunk is at most this share of a zone, so that little is left unused at a zone's end.
const VALUE_SHARE_OF_ZONE: u64 = 4;

/// Blocks without a whole frame that reading a segment passes over, twice the longest chunk: behind them nothing is looked for, so
/// that the unwritten rest of a long zone is not read.
pub(crate) const HOLE_BLOCKS_MAX: u64 = 1024;

/// Waits of 20 ms after which a foreground value that finds no zone is refused, if nothing changes.
const WAITS_MAX: u32 = 100;

/// One area of a zoned store.
pub(crate) struct ZonedArea {
    kind: AreaKind,
    flusher: Arc<Flusher>,
    /// Serialises appends.
    turn: Mutex<()>,
}

impl ZonedArea {
    pub(crate) fn new(kind: AreaKind, flusher: Arc<Flusher>) -> Self {
        Self { kind, flusher, turn: Mutex::new(()) }
    }

    fn append_now(&self, payload: &[u8], claim: Claim) -> Result<(ChunkAddress, SegmentId), PageError> {
        let _turn = self.turn.lock();
        let group = self.flusher.write_chunk(self.kind, payload, claim)?;
        Ok((ChunkAddress(group.first_block()), SegmentId(group.generation())))
    }

    fn claim(&self) -> Claim {
        match self.kind {
            AreaKind::Log | AreaKind::Meta => Claim::Record,
            AreaKind::Values if self.flusher.is_reclaimer() => Claim::Relocation,
            AreaKind::Values => Claim::Foreground,
        }
    }

    /// Whether a zone has a segment of this area.
    fn is_here(&self, zone: &Zone) -> bool {
        let kept = self.kind == AreaKind::Values || zone.is_kept();
        zone.generation() != 0 && !zone.is_condemned() && kept && zone.holds().any_of(Holds::area(self.kind))
    }

    fn zone_of(&self, segment: SegmentId) -> Option<(ZoneId, &Zone)> {
        self.flusher.zones.find(segment.0).filter(|(_, zone)| self.is_here(zone))
    }

    /// A walk over what is written of a zone.
    fn walk(&self, id: ZoneId, zone: &Zone) -> Walk {
        let first = self.flusher.space.first_block(id);
        Walk::new(zone.generation(), first + 1, first + self.flusher.written_blocks(id))
    }

    /// What chunks are read with.
    fn chunks(&self) -> ChunkReader<'_, Flusher, impl Fn(u64) -> Option<Behind>> {
        let Flusher { zones, space, counters, .. } = self.flusher.as_ref();
        let behind = |block: u64| {
            let (id, zone) = zones.at(block)?;
            let end = space.first_block(id) + space.zone_blocks();
            let blocks = end.checked_sub(block).filter(|&left| left > 0)?;
            Some(Behind { generation: zone.generation(), blocks })
        };
        ChunkReader { kind: self.kind, source: self.flusher.as_ref(), eyes: self.flusher.eyes(), counters, behind }
    }
}

impl Area for ZonedArea {
    fn append(&self, payload: &[u8]) -> Result<(ChunkAddress, SegmentId), PageError> {
        let (bytes, bytes_max) = (payload.len(), self.chunk_bytes_max());
        if bytes > bytes_max {
            return Err(PageError::ChunkTooLong { bytes, bytes_max });
        }
        let claim = self.claim();
        loop {
            match self.append_now(payload, claim) {
                // With the turn given up: reclaim appends here too.
                Err(PageError::NoSpace { .. }) if claim == Claim::Foreground && self.flusher.is_short() => {
                    self.flusher.wait_for_spare_zones(WAITS_MAX)?;
                }
                // Released zones wait for the next reclaim step.
                Err(PageError::NoSpace { .. }) if self.flusher.reset_released()? => {}
                appended => return appended,
            }
        }
    }

    fn flush(&self) -> Result<(), PageError> {
        Ok(self.flusher.space.flush()?)
    }

    fn chunk_bytes_max(&self) -> usize {
        let zone = self.flusher.space.zone_blocks() - 1;
        let blocks = if self.kind == AreaKind::Values { (zone / VALUE_SHARE_OF_ZONE).max(1) } else { zone };
        (number::bytes(blocks) - CHUNK_HEADER_BYTES).min(CHUNK_PAYLOAD_BYTES_MAX)
    }

    fn segments(&self) -> Vec<Segment> {
        let here =
            |view: &zonda_space::ZoneView| view.generation != 0 && self.is_here(self.flusher.zones.of(view.zone));
        let views = self.flusher.space.view();
        let segment =
            |view: &zonda_space::ZoneView| Segment { id: SegmentId(view.generation), bytes: view.written_bytes };
        let mut segments: Vec<_> = views.iter().filter(|view| here(view)).map(segment).collect();
        segments.sort_by_key(|segment| segment.id);
        segments
    }

    fn read_segment(
        &self,
        segment: SegmentId,
        visit: &mut dyn FnMut(Chunk<'_>) -> Result<bool, PageError>,
    ) -> Result<(), PageError> {
        let (id, zone) = self.zone_of(segment).ok_or(PageError::NoSuchSegment(segment.0))?;
        let mut walk = self.walk(id, zone);
        let (mut index, mut hole_blocks) = (0, 0);
        while let Some(step) = walk.look(self.flusher.eyes(), |bytes| self.flusher.counters.read(bytes))? {
            let frame = match step.frame {
                Ok(frame) => frame,
                // What was synced may be there.
                Err(fault @ Fault::Unreadable) => return Err(fault.at("chunk", step.block)),
                Err(_) => {
                    hole_blocks += 1;
                    if hole_blocks == HOLE_BLOCKS_MAX {
                        return Ok(());
                    }
                    walk.advance(1);
                    continue;
                }
            };
            let blocks = frame.blocks();
            hole_blocks = 0;
            if let Frame::Chunk(ChunkFrame { kind, index: found, payload }) = frame
                && kind == self.kind
            {
                let chunk = Chunk { address: ChunkAddress(step.block), payload };
                if found < index || !visit(chunk)? {
                    return Ok(());
                }
                index = found.saturating_add(1);
            }
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
        let Some((_, zone)) = self.zone_of(segment) else {
            return Ok(());
        };
        if let Some(sequencer) = zone.sequencer() {
            self.flusher.close_zone(&sequencer)?;
        }
        zone.release_segment();
        self.flusher.note_space();
        Ok(())
    }
}

impl Flusher {
    /// What walks read with.
    pub(crate) fn eyes(&self) -> Eyes<'_> {
        Eyes { blocks: &self.space, framing: self.press.framing, pool: &self.press.pool }
    }
}
