//! Zones that failed under a write: their unwritten pages are placed again elsewhere.
//!
//! The failed sequencer keeps its groups readable until each unwritten page has a new place. Whoever still has an old
//! address (a reader, a record in the MetaLog's buffer, a snapshot) is sent on to the new one, until the failed zone is reset.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use zonda_device::ZoneId;
use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_space::SpaceError;

use crate::flusher::{Extent, Flusher, Moved};
use crate::group::{Content, Group, PendingPage};
use crate::sequencer::{Offer, Sequencer};
use crate::stream::{self, Claim, Stream};
use crate::{AreaKind, NewPage, PageAddress, PageError};

/// Zones that may fail one after the other before a write is given up.
pub(crate) const ATTEMPTS_MAX: u32 = 8;

/// A failed zone with groups that wait for a new place.
struct FailedZone {
    sequencer: Arc<Sequencer>,
    groups: Vec<Arc<Group>>,
    up_to: u64,
}

/// What failed, and where its pages are now.
#[derive(Default)]
pub(crate) struct FailedZones {
    waiting: Mutex<VecDeque<FailedZone>>,
    /// Held while pages are placed again and the tree hears of it, so that `settle` waits for both.
    replacing: Mutex<()>,
    forwards: Mutex<HashMap<PageAddress, PageAddress>>,
    /// Whether anything ever failed: saves readers the locks.
    any: AtomicBool,
    cause: Mutex<Option<SpaceError>>,
}

impl FailedZones {
    /// Where the page of a failed zone is now. One load while no zone has failed.
    pub(crate) fn forward(&self, at: PageAddress) -> Option<PageAddress> {
        if self.any.load(Ordering::Acquire) { self.forwards.lock().get(&at).copied() } else { None }
    }

    /// Forgets the pages of a zone that is reset.
    pub(crate) fn forget(&self, lies_there: impl Fn(PageAddress) -> bool) {
        if self.any.load(Ordering::Acquire) {
            self.forwards.lock().retain(|at, _| !lies_there(*at));
        }
    }

    /// Why the last zone failed, as the error of a write that was tried too often.
    pub(crate) fn last_cause(&self) -> PageError {
        self.cause.lock().take().map_or(PageError::Busy, PageError::Space)
    }

    fn next(&self) -> Option<FailedZone> {
        self.waiting.lock().pop_front()
    }
}

impl Flusher {
    /// Takes a failed zone out of service; its pages wait for [`replace_failed`](Self::replace_failed). Called with its
    /// writer held.
    pub(crate) fn give_up(&self, stream: &Stream, sequencer: &Arc<Sequencer>, up_to: u64, cause: SpaceError) {
        self.failed.any.store(true, Ordering::Release);
        let (groups, written) = sequencer.fail(up_to);
        written.iter().for_each(|group| self.counters.written(group));
        let is_written = |page: &&PendingPage| page.at.block() + page.at.blocks() <= up_to;
        for page in groups.iter().flat_map(|group| group.pages()).filter(is_written) {
            self.counters.page_written(page.heat, page.at.len_bytes());
        }
        groups.iter().for_each(|group| self.forget_chunk(sequencer.zone(), group));
        *self.failed.cause.lock() = Some(cause);
        // Before the stream forgets it: `settle` finds the sequencer there, and waits for its writer, or the entry here.
        self.failed.waiting.lock().push_back(FailedZone { sequencer: Arc::clone(sequencer), groups, up_to });
        stream.remove(sequencer);
    }

    /// The appender of a chunk writes it again by itself.
    fn forget_chunk(&self, zone: ZoneId, group: &Group) {
        if let Content::Chunk(AreaKind::Values) = group.content() {
            self.sub_live_value(zone, group.bytes().len() as u64);
        }
    }

    /// Places the pages of failed zones again, writes them and tells `moved`; waits for another thread that does.
    ///
    /// # Errors
    /// `Space` with the last cause when one zone after the other fails; `NoSpace`.
    pub(crate) fn replace_failed(&self, moved: Moved<'_>) -> Result<(), PageError> {
        if !self.failed.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let _replacing = self.failed.replacing.lock();
        // All that have failed, and some that fail while these are replaced.
        let zones_max = self.failed.waiting.lock().len() + ATTEMPTS_MAX as usize;
        for _ in 0..zones_max {
            let Some(zone) = self.failed.next() else {
                return Ok(());
            };
            if let Err(error) = self.replace_zone(&zone, moved) {
                self.failed.waiting.lock().push_front(zone);
                return Err(error);
            }
        }
        Err(self.failed.last_cause())
    }

    fn replace_zone(&self, zone: &FailedZone, moved: Moved<'_>) -> Result<(), PageError> {
        let unwritten = |page: &&PendingPage| page.at.block() + page.at.blocks() > zone.up_to;
        for group in &zone.groups {
            for page in group.pages().iter().filter(unwritten) {
                if self.failed.forward(page.at).is_none() {
                    let at = self.replace_page(group, page)?;
                    moved(page.id, page.at, at);
                }
            }
        }
        for stream in &self.streams {
            self.write_stream(stream, Extent::Everything)?;
        }
        self.zones.of(zone.sequencer.zone()).detach();
        Ok(())
    }

    fn replace_page(&self, group: &Group, page: &PendingPage) -> Result<PageAddress, PageError> {
        let place = crate::frame::Place { generation: group.generation(), block: page.at.block() };
        let frame = self.press.framing.page(group.page_bytes(page.at), page.id, place);
        let frame = frame.map_err(|fault| fault.at("page in memory", page.at.block()))?;
        let copy = NewPage { id: page.id, sequence: frame.sequence, body: frame.body };
        let stream = self.stream(stream::of_heat(page.heat));
        for _ in 0..ATTEMPTS_MAX {
            if let Offer::Taken(addresses) = self.offer_pages(stream, page.heat, &[copy]) {
                self.forward_page(page, addresses[0]);
                return Ok(addresses[0]);
            }
            if !self.make_room(stream, page.at.blocks(), Claim::Rescue)? {
                return Err(self.no_space());
            }
        }
        Err(self.failed.last_cause())
    }

    /// Sends readers on to a page's new place and moves its live bytes there, unless it was released: then so is its copy, which has to
    /// know that in case its zone fails as well.
    fn forward_page(&self, page: &PendingPage, to: PageAddress) {
        let was_released = {
            let mut forwards = self.failed.forwards.lock();
            forwards.insert(page.at, to);
            page.is_released()
        };
        if was_released {
            self.release(to);
        } else {
            self.sub_live_page(self.space.zone_of(page.at.block()), page.at);
        }
    }

    /// Releases a page of a failed zone whose sequencer is still there, or says where it lies now.
    pub(crate) fn release_in_failed_zone(&self, sequencer: &Sequencer, at: PageAddress) -> Option<PageAddress> {
        let forwards = self.failed.forwards.lock();
        if let Some(next) = forwards.get(&at) {
            return Some(*next);
        }
        sequencer.release_failed(at);
        self.sub_live_page(sequencer.zone(), at);
        None
    }
}
