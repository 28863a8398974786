//! Write sequencer: the one writer of an open zone (ZKV 3.4).
//!
//! Frames enter complete and get their addresses at once; they leave first in, first out, a group at a time (the ring merger).
//! Reads are served from here until the group's write has completed, and never wait for it.
//!
//! Two locks: `queue` guards memory only and is the last in the lock order (leaf latch, then `queue`); `writer` is held over a device
//! write, so that at most one is in flight per zone (I1), and never taken under a latch. `writer` is taken before `queue`.
//!
//! Life cycle: 1 accepting -> 2 closing (accepts nothing, still writes) -> 3 sealed (the writer is gone). A failed zone goes
//! from 1 or 2 to *failed*: it keeps its unwritten groups for readers until their pages are placed again.

use std::collections::VecDeque;
use std::sync::Arc;

use zonda_device::ZoneId;
use zonda_rt::{Mutex, MutexGuard};
use zonda_space::{Space, SpaceError, ZoneWriter};

use crate::frame::{ChunkFrame, Framing, Place, chunk_blocks, page_blocks};
use crate::group::{Content, Group, Outcome};
use crate::pool::{BufferPool, PooledBuf};
use crate::stream::Claim;
use crate::{AreaKind, BLOCK_BYTES, Heat, NewPage, PageAddress};

/// What sequencers need to build groups.
#[derive(Clone)]
pub(crate) struct Press {
    pub(crate) framing: Framing,
    pub(crate) pool: Arc<BufferPool>,
    /// Blocks after which a group is complete.
    pub(crate) group_blocks: u64,
    /// Complete groups that may wait in one sequencer.
    pub(crate) groups_max: usize,
}

/// Whether a sequencer took what it was offered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Offer<T> {
    Taken(T),
    /// Too many groups wait: write some.
    Crowded,
    /// The rest of the zone is too short, or the zone is closing.
    Short,
}

/// A page that waits to be written: in a shared group, or copied from the group that is being filled.
pub(crate) enum Pending {
    Shared(Arc<Group>, PageAddress),
    Copied(PooledBuf),
}

/// What became of the write of the oldest group.
pub(crate) enum Written {
    /// It is on the device.
    Group(Arc<Group>),
    /// The zone failed.
    Failed {
        /// Nothing at or behind this block is written.
        up_to: u64,
        source: SpaceError,
    },
}

/// Where it is in its life cycle (see the module). Sealed is no phase: the writer is gone then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Accepting,
    Closing,
    Failed,
}

/// The sequencer of one open zone.
pub(crate) struct Sequencer {
    zone: ZoneId,
    /// For whom the zone was opened.
    claim: Claim,
    generation: u64,
    space: Space,
    press: Press,
    queue: Mutex<Queue>,
    writer: Mutex<Option<ZoneWriter>>,
}

struct Queue {
    complete: VecDeque<Arc<Group>>,
    filling: Option<Group>,
    next_block: u64,
    end_block: u64,
    /// Grows from chunk to chunk. In a zone that is continued it begins with the blocks that are there: each earlier chunk took one.
    next_chunk: u32,
    phase: Phase,
}

impl Sequencer {
    /// The sequencer of the zone that `writer` has.
    pub(crate) fn new(writer: ZoneWriter, claim: Claim, space: Space, press: Press) -> Self {
        let behind_header = writer.next_block() - space.first_block(writer.zone()) - 1;
        let queue = Queue {
            complete: VecDeque::new(),
            filling: None,
            next_block: writer.next_block(),
            end_block: writer.next_block() + writer.remaining_blocks(),
            next_chunk: u32::try_from(behind_header).expect("blocks of a zone"),
            phase: Phase::Accepting,
        };
        let (zone, generation) = (writer.zone(), writer.generation());
        Self { zone, claim, generation, space, press, queue: Mutex::new(queue), writer: Mutex::new(Some(writer)) }
    }

    pub(crate) fn zone(&self) -> ZoneId {
        self.zone
    }

    /// For whom the zone was opened; one of an earlier life counts as the foreground's.
    pub(crate) fn claim(&self) -> Claim {
        self.claim
    }

    /// Places pages, all or none. Memory only: one lock, a copy and a CRC per page.
    pub(crate) fn place(&self, heat: Heat, pages: &[NewPage<'_>]) -> Offer<Vec<PageAddress>> {
        let blocks = pages.iter().map(|page| page_blocks(page.body.len())).sum();
        let mut queue = self.queue.lock();
        match queue.offer(blocks, &self.press) {
            Offer::Taken(()) => {}
            Offer::Crowded => return Offer::Crowded,
            Offer::Short => return Offer::Short,
        }
        // Under the lock: a zone is never sealed with pages that are not counted as live yet.
        self.space.add_live(self.zone, blocks * BLOCK_BYTES as u64);
        Offer::Taken(pages.iter().map(|page| queue.put_page(&self.press, self.generation, heat, page)).collect())
    }

    /// Enters a chunk as a group of its own; the caller then writes up to it.
    pub(crate) fn enter_chunk(&self, kind: AreaKind, payload: &[u8]) -> Offer<Arc<Group>> {
        let blocks = chunk_blocks(payload.len());
        let mut queue = self.queue.lock();
        if queue.phase != Phase::Accepting || blocks > queue.room_blocks() {
            return Offer::Short;
        }
        queue.complete_filling();
        let chunk = ChunkFrame { kind, index: queue.next_chunk, payload };
        let place = Place { generation: self.generation, block: queue.next_block };
        if kind == AreaKind::Values {
            self.space.add_live(self.zone, blocks * BLOCK_BYTES as u64);
        }
        let group = Arc::new(Group::of_chunk(&self.press.pool, self.press.framing, &chunk, place));
        queue.complete.push_back(Arc::clone(&group));
        queue.next_block += blocks;
        queue.next_chunk += 1;
        Offer::Taken(group)
    }

    /// The page at `at`, if it waits here; counts a read.
    pub(crate) fn find(&self, at: PageAddress) -> Option<Pending> {
        let queue = self.queue.lock();
        if let Some(group) = queue.complete.iter().find(|group| group.read(at)) {
            return Some(Pending::Shared(Arc::clone(group), at));
        }
        let group = queue.filling.as_ref().filter(|group| group.read(at))?;
        let mut copy = self.press.pool.take(at.blocks());
        let bytes = group.page_bytes(at);
        copy[..bytes.len()].copy_from_slice(bytes);
        Some(Pending::Copied(copy))
    }

    /// Remembers that a page is superseded, if it waits here; `false` if the zone has failed: then its pages are moving.
    pub(crate) fn release(&self, at: PageAddress) -> bool {
        let queue = self.queue.lock();
        if queue.phase != Phase::Failed {
            queue.release(at);
        }
        queue.phase != Phase::Failed
    }

    /// Remembers that a page of a failed zone is superseded, which has no new place yet.
    pub(crate) fn release_failed(&self, at: PageAddress) {
        self.queue.lock().release(at);
    }

    /// Accepts nothing any more, so that the zone can be sealed.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        if queue.phase == Phase::Accepting {
            queue.phase = Phase::Closing;
        }
        queue.complete_filling();
    }

    /// Completes the group that is being filled and returns how many groups wait.
    pub(crate) fn complete_filling(&self) -> usize {
        let mut queue = self.queue.lock();
        queue.complete_filling();
        queue.complete.len()
    }

    /// Whether a group is complete, or the zone can be sealed.
    pub(crate) fn has_work(&self) -> bool {
        let queue = self.queue.lock();
        !queue.complete.is_empty() || queue.is_drained()
    }

    /// Groups that are complete and wait.
    pub(crate) fn complete_groups(&self) -> usize {
        self.queue.lock().complete.len()
    }

    /// Blocks that the zone still takes; 0 when it is closing.
    pub(crate) fn room_blocks(&self) -> u64 {
        let queue = self.queue.lock();
        if queue.phase == Phase::Accepting { queue.room_blocks() } else { 0 }
    }

    /// Whether the zone is full or closing and everything is written, so that it can be sealed.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.lock().is_drained()
    }

    /// The right to write; `None` inside once the zone is sealed.
    pub(crate) fn writer(&self) -> MutexGuard<'_, Option<ZoneWriter>> {
        self.writer.lock()
    }

    /// The right to write, unless another thread has it.
    pub(crate) fn try_writer(&self) -> Option<MutexGuard<'_, Option<ZoneWriter>>> {
        self.writer.try_lock()
    }

    /// Writes the oldest complete group. The group stays readable here until [`retire`](Self::retire).
    ///
    /// # Errors
    /// Those of the device other than a failed zone.
    pub(crate) fn write_oldest(&self, writer: &mut ZoneWriter) -> Result<Option<Written>, SpaceError> {
        let Some(group) = self.queue.lock().complete.front().cloned() else {
            return Ok(None);
        };
        let _label = zonda_device::cut_label_unless_named(cut_label(group.content()));
        match writer.write(group.bytes()) {
            Ok(block) => {
                assert!(block == group.first_block(), "I1 group for block {} written at {block}", group.first_block());
                group.set_outcome(Outcome::Written);
                Ok(Some(Written::Group(group)))
            }
            Err(SpaceError::ZoneFailed { zone, written_up_to, source }) => {
                let source = SpaceError::ZoneFailed { zone, written_up_to, source };
                Ok(Some(Written::Failed { up_to: written_up_to, source }))
            }
            Err(error) => Err(error),
        }
    }

    /// Forgets the oldest group, which is written. Called by the holder of the writer.
    pub(crate) fn retire(&self) {
        let retired = self.queue.lock().complete.pop_front();
        drop(retired);
    }

    /// Declares the zone failed behind block `up_to` and returns the groups that hold unwritten frames, and those that are written. They
    /// stay readable here.
    pub(crate) fn fail(&self, up_to: u64) -> (Vec<Arc<Group>>, Vec<Arc<Group>>) {
        let mut queue = self.queue.lock();
        queue.complete_filling();
        queue.phase = Phase::Failed;
        let (unwritten, written): (Vec<_>, Vec<_>) =
            queue.complete.iter().cloned().partition(|group| group.end_block() > up_to);
        unwritten.iter().for_each(|group| group.set_outcome(Outcome::Failed));
        // The drive reported an error of what it had written: placed again it would be there twice.
        written.iter().for_each(|group| group.set_outcome(Outcome::Written));
        (unwritten, written)
    }
}

impl Queue {
    fn is_drained(&self) -> bool {
        let done = self.phase == Phase::Closing || self.room_blocks() == 0;
        done && self.phase != Phase::Failed && self.complete.is_empty() && self.filling.is_none()
    }

    fn room_blocks(&self) -> u64 {
        self.end_block - self.next_block
    }

    fn offer(&self, blocks: u64, press: &Press) -> Offer<()> {
        if self.phase != Phase::Accepting || blocks > self.room_blocks() {
            Offer::Short
        } else if self.complete.len() >= press.groups_max {
            Offer::Crowded
        } else {
            Offer::Taken(())
        }
    }

    fn release(&self, at: PageAddress) {
        let filling = self.filling.as_ref().into_iter();
        let _waits = self.complete.iter().map(|group| &**group).chain(filling).any(|group| group.release(at));
    }

    /// Adds one page, for which there is room, to the filling group; a page that does not fit there begins a new one.
    fn put_page(&mut self, press: &Press, generation: u64, heat: Heat, page: &NewPage<'_>) -> PageAddress {
        let blocks = page_blocks(page.body.len());
        if self.filling.as_ref().is_some_and(|group| group.room_blocks() < blocks) {
            self.complete_filling();
        }
        let place = Place { generation, block: self.next_block };
        let new = || Group::for_pages(&press.pool, place, press.group_blocks.max(blocks));
        let group = self.filling.get_or_insert_with(new);
        let at = group.push_page(press.framing, heat, page);
        let complete = group.end_block() - group.first_block() >= press.group_blocks;
        self.next_block += blocks;
        if complete || self.room_blocks() == 0 {
            self.complete_filling();
        }
        at
    }

    fn complete_filling(&mut self) {
        self.complete.extend(self.filling.take().map(Arc::new));
    }
}

/// The power-cut harness counts its hits under these names.
fn cut_label(content: &Content) -> &'static str {
    match content {
        Content::Pages(_) => "page group",
        Content::Chunk(AreaKind::Log) => "log",
        Content::Chunk(AreaKind::Meta) => "address record",
        Content::Chunk(AreaKind::Values) => "values",
    }
}
