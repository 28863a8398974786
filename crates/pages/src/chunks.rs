//! Writing chunks: each is a group of its own behind what already waits in its zone.

use std::sync::Arc;

use crate::failed::ATTEMPTS_MAX;
use crate::flusher::Flusher;
use crate::frame::chunk_blocks;
use crate::group::{Content, Group, Outcome};
use crate::sequencer::{Offer, Sequencer};
use crate::stream::{self, Claim, Stream};
use crate::{AreaKind, PageError};

/// Attempts in which a value looks for a zone of its kind, new or moved: after the first there is one, if one can be opened.
const PICKY_ATTEMPTS: u32 = 2;

impl Flusher {
    /// Writes a chunk: enters it into the stream of its area and writes up to it. Placed again if its zone fails.
    pub(crate) fn write_chunk(&self, kind: AreaKind, payload: &[u8], claim: Claim) -> Result<Arc<Group>, PageError> {
        let stream = self.stream(stream::of_area(kind));
        for _ in 0..ATTEMPTS_MAX {
            let (sequencer, group) = self.enter_chunk(stream, kind, payload, claim)?;
            if self.write_through(stream, &sequencer, &group)? == Outcome::Written {
                return Ok(group);
            }
            // What was written before may be lost with its zone.
            self.note_space();
        }
        Err(self.failed.last_cause())
    }

    fn enter_chunk(
        &self,
        stream: &Stream,
        kind: AreaKind,
        payload: &[u8],
        claim: Claim,
    ) -> Result<(Arc<Sequencer>, Arc<Group>), PageError> {
        let blocks = chunk_blocks(payload.len());
        for attempt in 0..ATTEMPTS_MAX {
            // A preference: it keeps nobody from the room that there is, and takes no zone while they are short.
            let prefers = stream.separates_values();
            let picks = attempt < PICKY_ATTEMPTS && prefers && !self.is_short();
            let enter = |suits: &dyn Fn(&Sequencer) -> bool| {
                stream.offer(|sequencer| match suits(sequencer).then(|| sequencer.enter_chunk(kind, payload)) {
                    Some(Offer::Taken(group)) => Some((Arc::clone(sequencer), group)),
                    Some(Offer::Crowded | Offer::Short) | None => None,
                })
            };
            let of_its_kind = enter(&|sequencer| !prefers || sequencer.claim() == claim);
            let entered = of_its_kind.or_else(|| if picks { None } else { enter(&|_| true) });
            if let Some((sequencer, group)) = entered {
                self.count_value(&sequencer, &group);
                return Ok((sequencer, group));
            }
            if !self.make_room(stream, blocks, claim)? && !picks {
                return Err(self.no_space());
            }
        }
        Err(PageError::Busy)
    }

    fn count_value(&self, sequencer: &Sequencer, group: &Group) {
        if let Content::Chunk(AreaKind::Values) = group.content() {
            let bytes = group.bytes().len() as u64;
            self.zones.of(sequencer.zone()).add_values(bytes);
            self.counters.add_live_values(bytes);
        }
    }

    fn write_through(&self, stream: &Stream, sequencer: &Arc<Sequencer>, group: &Group) -> Result<Outcome, PageError> {
        let mut writer = sequencer.writer();
        while group.outcome() == Outcome::Pending && self.write_group(stream, sequencer, &mut writer)? {}
        let outcome = group.outcome();
        assert!(outcome != Outcome::Pending, "a group stays in its queue until it is written or its zone fails");
        if sequencer.is_drained() {
            self.seal(stream, sequencer, &mut writer);
        }
        Ok(outcome)
    }

    /// Closes a zone that is open and writes and seals it.
    pub(crate) fn close_zone(&self, sequencer: &Arc<Sequencer>) -> Result<(), PageError> {
        let holds_it = |stream: &&Stream| stream.sequencers().iter().any(|other| Arc::ptr_eq(other, sequencer));
        let Some(stream) = self.streams.iter().find(holds_it) else {
            return Ok(());
        };
        sequencer.close();
        let groups = sequencer.complete_filling();
        self.write_groups(stream, sequencer, sequencer.writer(), groups)
    }
}
