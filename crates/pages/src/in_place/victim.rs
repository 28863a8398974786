//! A segment that is being emptied: walked block by block, the tree moves what is live.
//!
//! Of a segment of pages only the live blocks are read. One of values is read whole: what of it is live, only the tree can tell.

use super::layout::{Layout, SegmentIndex};
use super::reclaim::Scene;
use super::table::{Content, Table};
use crate::frame::{Fault, Frame};
use crate::walk::{Step, Walk};
use crate::{AreaKind, ChunkAddress, PageAddress, PageError, Relocated};

/// Blocks that one step looks at: 256 KiB.
const STEP_BLOCKS: u64 = 64;
/// Steps without room after which a step waits.
const CROWDED_STEPS_MAX: u32 = 8;
/// Steps that a walked segment waits for releases that are under way.
const PATIENCE_STEPS: u32 = 16;

/// What a look found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// There is more to look at.
    More,
    /// What is left is latched, or finds no room: later.
    Wait,
    /// Everything was looked at.
    Done,
}

/// The segment, and how far the walk has come.
pub(crate) struct Victim {
    segment: SegmentIndex,
    generation: u64,
    first: u64,
    next: u64,
    end: u64,
    holds_values: bool,
    began: bool,
    /// Frames whose leaf was latched: (block, blocks).
    busy: Vec<(u64, u64)>,
    /// Something live cannot be read, or the tree cannot tell whether it is live.
    damaged: bool,
    crowded_steps: u32,
    patience_steps: u32,
}

impl Victim {
    /// Begins with a segment of pages or of sealed values.
    pub(crate) fn new(table: &Table, layout: Layout, segment: SegmentIndex) -> Self {
        let (first, data) = (layout.first(segment), layout.data_blocks(segment));
        let (holds_values, blocks) = match table.content(segment) {
            Content::Area(run) => (true, run.written_blocks()),
            _ => (false, data),
        };
        Self {
            segment,
            generation: table.generation(segment),
            first,
            next: first,
            end: first + blocks,
            holds_values,
            began: false,
            busy: Vec::new(),
            damaged: false,
            crowded_steps: 0,
            patience_steps: PATIENCE_STEPS,
        }
    }

    pub(crate) fn segment(&self) -> SegmentIndex {
        self.segment
    }

    pub(crate) fn holds_values(&self) -> bool {
        self.holds_values
    }

    /// Whether something stays that must not be given up.
    pub(crate) fn is_stuck(&self) -> bool {
        self.damaged
    }

    /// True the first time.
    pub(crate) fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.began, true)
    }

    /// A step found no room for what it was to move.
    pub(crate) fn crowded(&mut self) -> Look {
        self.crowded_steps += 1;
        if self.is_crowded() { Look::Wait } else { Look::More }
    }

    /// There may be room now.
    pub(crate) fn try_anew(&mut self) {
        self.crowded_steps = 0;
    }

    /// Whether it has found no room for long.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded_steps >= CROWDED_STEPS_MAX
    }

    /// Looks at the next blocks, or again at what was busy.
    ///
    /// # Errors
    /// Those of the tree and of the device; `Busy`: no room.
    pub(crate) fn look(&mut self, scene: &Scene<'_>) -> Result<Look, PageError> {
        let stop = self.next + STEP_BLOCKS;
        while self.next < stop {
            let Some((block, blocks)) = self.next_blocks(scene) else { return self.finish(scene) };
            self.next = block;
            let blocks = blocks.min(self.end - block);
            self.look_at(scene, block + blocks)?;
            self.crowded_steps = 0;
        }
        Ok(Look::More)
    }

    /// The next blocks in which something may be live.
    fn next_blocks(&self, scene: &Scene<'_>) -> Option<(u64, u64)> {
        if self.holds_values {
            return (self.next < self.end).then(|| (self.next, self.end - self.next));
        }
        scene.core.with_table(|table| match table.content(self.segment) {
            Content::Pages(slots) if table.generation(self.segment) == self.generation => {
                let (at, blocks) = slots.next_live(self.next - self.first)?;
                Some((self.first + at, blocks))
            }
            _ => None,
        })
    }

    /// Handles the frames from the next block to `end`, or one step of them.
    fn look_at(&mut self, scene: &Scene<'_>, end: u64) -> Result<(), PageError> {
        let mut walk = Walk::new(self.generation, self.next, end);
        let stop = end.min(self.next + STEP_BLOCKS);
        while self.next < stop {
            let step = walk.look(scene.core.eyes(), |bytes| scene.core.counters.read(bytes))?;
            let Some(step) = step else { return Ok(()) };
            let blocks = match &step.frame {
                Ok(frame) => {
                    let answer = relocate(scene, step.block, frame);
                    self.note(answer, step.block, frame.blocks())?;
                    frame.blocks()
                }
                // A torn tail, or damage: the next frame begins at some later block. Of values that are not read nobody knows whether
                // they are live.
                Err(fault) => {
                    self.damaged |= !self.holds_values || *fault == Fault::Unreadable;
                    1
                }
            };
            walk.advance(blocks);
            self.next += blocks;
        }
        Ok(())
    }

    fn note(&mut self, answer: Result<Relocated, PageError>, block: u64, blocks: u64) -> Result<(), PageError> {
        match answer {
            Ok(Relocated::Busy) => self.busy.push((block, blocks)),
            Ok(_) => {}
            // What cannot be understood keeps its segment; it must not stop the others.
            Err(PageError::Damaged { .. }) => self.damaged = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The walk is over: asks again for what was busy.
    fn finish(&mut self, scene: &Scene<'_>) -> Result<Look, PageError> {
        let mut busy = std::mem::take(&mut self.busy);
        while let Some((block, blocks)) = busy.pop() {
            let mut walk = Walk::new(self.generation, block, block + blocks);
            let step = walk.look(scene.core.eyes(), |bytes| scene.core.counters.read(bytes));
            let answer = match step {
                Ok(Some(Step { frame: Ok(frame), .. })) => relocate(scene, block, &frame),
                // It was whole when it was looked at first.
                Ok(Some(Step { frame: Err(_), .. })) => {
                    self.damaged = true;
                    Ok(Relocated::Dead)
                }
                Ok(None) => Ok(Relocated::Dead),
                Err(error) => Err(error),
            };
            if let Err(error) = self.note(answer, block, blocks) {
                self.busy.push((block, blocks));
                // Nobody has asked for these yet: without them a segment whose values are live would be given up.
                self.busy.append(&mut busy);
                return Err(error);
            }
        }
        let left = !self.busy.is_empty() || (self.is_live(scene) && self.patience_steps > 0 && !self.damaged);
        self.patience_steps = self.patience_steps.saturating_sub(1);
        Ok(if left { Look::Wait } else { Look::Done })
    }

    /// Whether a page is still counted as live: somebody has just moved it and not released it yet.
    fn is_live(&self, scene: &Scene<'_>) -> bool {
        scene.core.with_table(|table| match table.content(self.segment) {
            Content::Pages(slots) => table.generation(self.segment) == self.generation && slots.live_blocks() > 0,
            _ => false,
        })
    }
}

fn relocate(scene: &Scene<'_>, block: u64, frame: &Frame<'_>) -> Result<Relocated, PageError> {
    match frame {
        Frame::Page(page) => scene.relocate.relocate_page(page.id, PageAddress::new(block, page.blocks), page.body),
        Frame::Chunk(chunk) if chunk.kind == AreaKind::Values => {
            let _label = zonda_device::cut_label("value reclaim");
            scene.relocate.relocate_value(ChunkAddress(block), chunk.payload)
        }
        Frame::Chunk(_) => Ok(Relocated::Dead),
    }
}
