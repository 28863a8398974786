//! Zones whose header is damaged are recognised by the frames behind it, each of which names the store, its place and the zone's
//! allocation: one block that a device loses costs nothing.

use zonda_device::AlignedBuf;
use zonda_space::{DamagedZone, Recognised, Recovered, RecoveredZone, StreamId, StreamSet};

use crate::flusher::Flusher;
use crate::frame::{Frame, generation_in};
use crate::stream::{self, COLD, HOT, RELOCATED, VALUES};
use crate::walk::{Eyes, Walk};
use crate::{AreaKind, BLOCK_BYTES, PageError};

/// Blocks that cannot be read, after which a zone or segment is given up: failed reads are slow.
pub(crate) const UNREADABLE_MAX: u32 = 256;

impl Flusher {
    /// What opening found, with the damaged zones among the others, by generation. A zone without any frame is nobody's, if it could be
    /// read. Writes nothing. Cost: nothing if no zone is damaged; else reads these as far as their first frame.
    ///
    /// # Errors
    /// `Damaged` for a zone in which too little can be read to tell what it was: it may hold the end of log or MetaLog. Those of the
    /// device.
    pub(crate) fn with_recognised(&self, recovered: Recovered) -> Result<Vec<RecoveredZone>, PageError> {
        let Recovered { mut zones, damaged, .. } = recovered;
        for zone in &damaged {
            if let Some(found) = self.by_frames(zone)? {
                zones.extend(self.space.recognise(zone.zone, found)?);
            }
        }
        zones.sort_by_key(|zone| zone.generation);
        Ok(zones)
    }

    /// What the first frame in a zone says of it.
    fn by_frames(&self, zone: &DamagedZone) -> Result<Option<Recognised>, PageError> {
        let first = self.space.first_block(zone.zone);
        let mut unreadable = 0;
        for block in first + 1..first + zone.written_blocks {
            match self.frame_at(block, first + zone.written_blocks) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(PageError::Space(lost)) if lost.is_medium() => unreadable += 1,
                Err(error) => return Err(error),
            }
            if unreadable == UNREADABLE_MAX {
                break;
            }
        }
        if unreadable == 0 {
            return Ok(None);
        }
        let why = format!(
            "{}; {unreadable} blocks behind it cannot be read either, and nothing tells whether the end of the log was there",
            zone.why
        );
        Err(PageError::Damaged { what: "zone header", block: first, why })
    }

    /// The frame at a block, if one begins there, of whatever generation it says.
    fn frame_at(&self, block: u64, end: u64) -> Result<Option<Recognised>, PageError> {
        let mut start = AlignedBuf::with_len(BLOCK_BYTES);
        self.space.read(block, &mut start)?;
        let Some(generation) = generation_in(&start) else { return Ok(None) };
        let eyes = Eyes { blocks: &self.space, framing: self.press.framing, pool: &self.press.pool };
        let step =
            Walk::new(generation, block, end).look(eyes, |_| {})?.map(|step| step.frame.map(|frame| kind(&frame)));
        Ok(step.and_then(Result::ok).map(|(stream, holds)| Recognised { stream, holds, generation }))
    }
}

/// The stream of a zone with this frame, and all that may be there with it.
fn kind(frame: &Frame<'_>) -> (StreamId, StreamSet) {
    match frame {
        Frame::Chunk(chunk) if chunk.kind != AreaKind::Values => {
            let stream = stream::of_area(chunk.kind);
            (stream, StreamSet::of(stream))
        }
        _ => (
            HOT,
            [HOT, VALUES, COLD, RELOCATED].map(StreamSet::of).into_iter().fold(StreamSet::of(HOT), StreamSet::union),
        ),
    }
}
