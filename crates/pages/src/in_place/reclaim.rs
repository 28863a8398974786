//! Reclaim: gets slots and segments back (I3).
//!
//! - **Slots** of superseded pages become free in batches ([`limbo`](super::limbo)); nothing is moved for that. This alone keeps a store
//!   going whose pages are all there is.
//! - **Segments** are needed as a whole by log, MetaLog and values. Those that the log or the MetaLog released are reset at once: only
//!   recovery would read them, and whoever released them says that it will not. When spare segments are few, the segment with the least
//!   that is live is emptied: the tree moves its pages into the holes of others, or its values to the end of the value log.
//!
//! A reset writes a header that says so, and tells the device that the rest is not needed.

use std::collections::HashMap;

use zonda_device::ErrorKind;
use zonda_rt::Mutex;
use zonda_rt::atomic::Ordering;

use super::core::Core;
use super::format::{SegmentHeader, SegmentKind};
use super::layout::SegmentIndex;
use super::limbo::Batch;
use super::table::{Content, Table};
use super::victim::{Look, Victim};
use crate::reclaim::Idle;
use crate::reserve::RELOCATION_FLOOR;
use crate::survey::Survey;
use crate::toil::{Sight, Toil};
use crate::walk::Walk;
use crate::{BLOCK_BYTES, GARBAGE_ZONES_MIN, PageAddress, PageError, Reclaimed, Relocate, Stamp};

/// Blocks in limbo that are worth a flush while there is room: 16 MiB.
const COMMIT_BLOCKS_MAX: u64 = 4096;
/// And the share of the room that they may make up, while there is less.
const COMMIT_SHARE_OF_ROOM: u64 = 4;
/// Condemned segments that are worth a commit while spare ones are plenty.
const CONDEMNED_BATCH: usize = 8;

/// What is under way.
#[derive(Default)]
pub(crate) struct Work {
    victim: Option<Victim>,
    /// Segments that hold something live which cannot be read, or that nobody has released yet, each as it was left. One in which anything
    /// changed since, or that holds something else by now, is a segment like any other.
    stuck: HashMap<SegmentIndex, Left>,
    /// A segment that is looked at while the victim finds no room.
    surveyed: Option<Surveyed>,
    /// Segments of which a survey could not tell all, each as it was then.
    unsure: HashMap<SegmentIndex, Left>,
    idle: Idle,
    toil: Toil,
}

/// A segment that was walked and still held something live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    generation: u64,
    live_blocks: u64,
}

impl Left {
    fn of(table: &Table, segment: SegmentIndex) -> Self {
        let live_blocks = match table.content(segment) {
            Content::Pages(slots) => slots.live_blocks(),
            Content::Area(run) => run.live_bytes() / crate::BLOCK_BYTES as u64,
            Content::Free | Content::Lost => 0,
        };
        Self { generation: table.generation(segment), live_blocks }
    }
}

/// A segment with an estimate, and the look at it that moves nothing.
struct Surveyed {
    segment: SegmentIndex,
    /// As it was when the look began.
    left: Left,
    survey: Survey,
}

/// One step's surroundings.
pub(crate) struct Scene<'a> {
    pub(crate) core: &'a Core,
    pub(crate) relocate: &'a dyn Relocate,
    /// When it began.
    pub(crate) live_bytes: u64,
}

impl Core {
    /// One step: frees what may be freed, else empties a segment, else commits.
    ///
    /// # Errors
    /// Those of the tree and of the device. The step can be repeated.
    pub(crate) fn reclaim_step(&self, turn: &Mutex<Work>, relocate: &dyn Relocate) -> Result<Reclaimed, PageError> {
        let Some(mut work) = turn.try_lock() else {
            return Ok(if self.is_reclaimer() { Reclaimed::Inside } else { Reclaimed::Busy });
        };
        let _reclaimer = self.as_reclaimer();
        let live_bytes = self.counters.live_bytes();
        let stepped = Scene { core: self, relocate, live_bytes }.step(&mut work);
        if stepped.is_err() {
            // Perhaps nobody will try again: whoever waits for space must not wait for ever.
            self.give_up_hope(live_bytes);
        }
        stepped
    }
}

impl Scene<'_> {
    fn step(&self, work: &mut Work) -> Result<Reclaimed, PageError> {
        if self.reset_released()? || self.free_drained()? {
            work.idle = Idle::default();
            // There may be room for it now.
            work.victim.iter_mut().for_each(Victim::try_anew);
            return Ok(Reclaimed::Progress);
        }
        // Segments are scarce: get those back that need no more room before moving anything.
        if self.core.is_short() && self.commit()? {
            return Ok(Reclaimed::Progress);
        }
        let is_crowded = work.victim.as_ref().is_some_and(Victim::is_crowded);
        if is_crowded && self.relocate.knows_values() && self.survey(work)? {
            return Ok(Reclaimed::Progress);
        }
        if work.victim.is_none() {
            work.victim = self.choose(work);
        }
        let emptied = match work.victim.take() {
            Some(victim) => self.empty(work, victim)?,
            None => Reclaimed::Idle,
        };
        if work.victim.is_some() {
            self.judge_hope(work);
        }
        if emptied == Reclaimed::Progress || self.commit()? {
            return Ok(Reclaimed::Progress);
        }
        let idle = work.victim.is_none() && self.core.limbo.lock().is_empty();
        Ok(if idle { Reclaimed::Idle } else { Reclaimed::Waiting })
    }

    /// Whether a victim still lets writers hope: one that has found no room for long, with nothing on its way back, does not.
    fn judge_hope(&self, work: &mut Work) {
        let nothing_comes = self.core.limbo.lock().is_empty();
        let is_hopeless = nothing_comes && work.victim.as_ref().is_some_and(Victim::is_crowded);
        if work.idle.is_for_long(is_hopeless && self.core.is_short()) {
            self.core.give_up_hope(self.live_bytes);
        } else if !is_hopeless {
            self.core.hope.renew();
        }
    }

    /// Resets segments of log and MetaLog that nobody needs. One that cannot be reset now is tried again by the next step.
    fn reset_released(&self) -> Result<bool, PageError> {
        let released = self.segments(|content| matches!(content, Content::Area(run) if run.is_released()));
        self.reset_all(&released).1?;
        Ok(!released.is_empty())
    }

    /// Resets all that can be; returns the others, and the first error.
    fn reset_all(&self, segments: &[SegmentIndex]) -> (Vec<SegmentIndex>, Result<(), PageError>) {
        let (mut left, mut outcome) = (Vec::new(), Ok(()));
        for &segment in segments {
            if let Err(error) = self.reset(segment) {
                left.push(segment);
                outcome = outcome.and(Err(error));
            }
        }
        (left, outcome)
    }

    fn segments(&self, which: impl Fn(&Content) -> bool) -> Vec<SegmentIndex> {
        let layout = self.core.layout;
        self.core.with_table(|table| layout.all().filter(|&segment| which(table.content(segment))).collect())
    }

    fn reset(&self, segment: SegmentIndex) -> Result<(), PageError> {
        let _label = zonda_device::cut_label("reset");
        let (core, layout) = (self.core, self.core.layout);
        let generation = core.with_table(|table| table.generation(segment));
        let header = SegmentHeader { kind: SegmentKind::Free, generation, written_blocks: 0 };
        match core.write_header(segment, &header) {
            Err(error) if error.kind() == ErrorKind::Media => {
                core.with_table(|table| table.lose(segment));
                core.note_lost();
                return Ok(());
            }
            written => written?,
        }
        if core.trim {
            core.disk.trim(layout.first(segment), layout.data_blocks(segment))?;
        }
        core.with_table(|table| table.reset(segment));
        core.segments_reset.fetch_add(1, Ordering::Relaxed);
        core.note_room();
        Ok(())
    }

    /// Frees what was superseded before records that are durable and has no readers any more.
    fn free_drained(&self) -> Result<bool, PageError> {
        let committed = self.core.limbo.lock().committed();
        let drained: Vec<_> = committed.into_iter().filter(|&stamp| self.relocate.drained(stamp)).collect();
        for &stamp in &drained {
            let Some(batch) = self.core.limbo.lock().take(stamp) else { continue };
            if let Err(error) = self.write_what_waits_of(&batch) {
                self.core.limbo.lock().put_back(batch);
                return Err(error);
            }
            self.free(batch)?;
        }
        Ok(!drained.is_empty())
    }

    /// A page that was given up before any record named it may wait to be written still, and would be written over whatever has its blocks
    /// by then (I3): no commit settles pages for its sake. Usually none does.
    fn write_what_waits_of(&self, batch: &Batch) -> Result<(), PageError> {
        if self.core.with_pending(|pending| pending.hold_any(&batch.pages)) {
            self.core.write_waiting(self.core.writer.lock())?;
        }
        Ok(())
    }

    fn free(&self, batch: Batch) -> Result<(), PageError> {
        for &at in &batch.pages {
            self.free_page(at);
        }
        let emptied = self.core.with_table(Table::take_emptied);
        // All of them, whatever fails: nobody else knows of them.
        let given = emptied.into_iter().map(|segment| self.give(segment)).fold(Ok(()), Result::and);
        if !batch.pages.is_empty() {
            self.core.note_room();
        }
        let (left, reset) = self.reset_all(&batch.segments);
        if !left.is_empty() {
            self.core.limbo.lock().put_back(batch.without_pages(left));
        }
        given.and(reset)
    }

    /// Gives a segment back that held pages; where there are plenty, whoever shares the device gets its space.
    fn give(&self, segment: SegmentIndex) -> Result<(), PageError> {
        let (core, layout) = (self.core, self.core.layout);
        let is_needed = !core.trim || !core.with_table(|table| table.has_plenty());
        let trimmed =
            if is_needed { Ok(()) } else { core.disk.trim(layout.first(segment), layout.data_blocks(segment)) };
        core.with_table(|table| table.give(segment));
        Ok(trimmed?)
    }

    fn free_page(&self, at: PageAddress) {
        let core = self.core;
        // Before the blocks are free: no reader of the page is left that could put it back.
        core.cache.remove(at, core.generation_at(at.block()));
        let failed = core.any_failed.load(Ordering::Acquire) && !core.with_pending(|pending| pending.forget(at));
        // Blocks that cannot be written stay in limbo for this life.
        if !failed {
            core.with_table(|table| table.free(at));
        }
    }

    /// Gives a segment of values up: whatever was counted in it is dead.
    fn condemn(&self, segment: SegmentIndex) {
        let (estimated, bytes) = self
            .core
            .with_table(|table| table.run_mut(segment).map_or((false, 0), |run| (run.is_estimated(), run.condemn())));
        self.core.counters.sub_live_values(bytes);
        self.core.estimated.fetch_sub(u32::from(estimated), Ordering::Relaxed);
        self.core.limbo.lock().condemn(segment);
    }

    /// Looks on at values of an earlier life where nothing can be moved; `false` if all were looked at.
    fn survey(&self, work: &mut Work) -> Result<bool, PageError> {
        let core = self.core;
        let is_there = |surveyed: &Surveyed| {
            core.with_table(|table| Left::of(table, surveyed.segment).generation == surveyed.left.generation)
        };
        let under_way = work.surveyed.take().filter(is_there);
        let Some(mut surveyed) = under_way.or_else(|| self.begin_survey(work)) else { return Ok(false) };
        if surveyed.survey.step(core.eyes(), self.relocate, &|bytes| core.counters.read(bytes))? {
            work.surveyed = Some(surveyed);
        } else {
            self.settle(work, &surveyed);
        }
        Ok(true)
    }

    /// The newest first: copies that a cut left are younger than what they are copies of.
    fn begin_survey(&self, work: &Work) -> Option<Surveyed> {
        let layout = self.core.layout;
        self.core.with_table(|table| {
            let is_new = |segment: &SegmentIndex| {
                let left = Some(Left::of(table, *segment));
                work.stuck.get(segment).copied() != left && work.unsure.get(segment).copied() != left
            };
            let segment = self.estimated(table, &is_new).max_by_key(|&segment| table.generation(segment))?;
            let Content::Area(run) = table.content(segment) else { return None };
            let first = layout.first(segment);
            let walk = Walk::new(table.generation(segment), first, first + run.written_blocks());
            Some(Surveyed { segment, left: Left::of(table, segment), survey: Survey::new(walk) })
        })
    }

    /// Counts what a survey found dead. If nothing is live, the segment needs no further look; else the victim that finds no room gives way
    /// to whatever is to be chosen now.
    fn settle(&self, work: &mut Work, surveyed: &Surveyed) {
        let (core, segment, survey) = (self.core, surveyed.segment, &surveyed.survey);
        let dead_bytes = core.with_table(|table| {
            let counted = table.run_mut(segment)?;
            // What dies beside the look is counted by whoever deletes it, and here perhaps as live still.
            let died_meanwhile = counted.live_bytes() < surveyed.left.live_blocks * BLOCK_BYTES as u64;
            let dead_bytes = counted.sub_live(counted.live_bytes().saturating_sub(survey.live_bytes()));
            if survey.is_sure() && !died_meanwhile && counted.is_estimated() {
                counted.set_known();
                core.estimated.fetch_sub(1, Ordering::Relaxed);
            } else {
                work.unsure.insert(segment, Left::of(table, segment));
            }
            Some(dead_bytes)
        });
        let dead_bytes = dead_bytes.unwrap_or(0);
        core.counters.sub_live_values(dead_bytes);
        if survey.is_sure() && survey.live_bytes() == 0 {
            self.give_way(work);
            self.condemn(segment);
        } else if dead_bytes > 0 {
            self.give_way(work);
        }
    }

    /// The victim is a segment like any other again.
    fn give_way(&self, work: &mut Work) {
        if let Some(victim) = work.victim.take() {
            self.core.with_table(|table| table.reopen(victim.segment()));
        }
    }

    /// The next segment to empty, if spare ones are few or the live bytes must be known.
    fn choose(&self, work: &mut Work) -> Option<Victim> {
        let core = self.core;
        let (spare, coming) = (core.spare_segments(), core.limbo.lock().coming_segments());
        let short = core.is_low(spare.saturating_add(coming));
        let asked = core.must_look.swap(false, Ordering::Relaxed);
        let knows_values = self.relocate.knows_values();
        let must_know = (asked || core.would_be_full(0)) && core.has_estimates() && knows_values;
        if !short {
            work.idle = Idle::default();
            core.hope.renew();
        }
        let garbage = (coming as usize) < CONDEMNED_BATCH && (core.bears_none() || self.holds_garbage());
        if !(short || must_know || garbage) {
            return None;
        }
        let urgent = spare.saturating_add(coming) <= core.reserve.low_water;
        let is_in_vain = self.is_in_vain(work, spare.saturating_add(coming));
        let victim = core.with_table(|table| {
            let candidate = |segment: &SegmentIndex| {
                (knows_values || !matches!(table.content(*segment), Content::Area(_)))
                    && work.stuck.get(segment) != Some(&Left::of(table, *segment))
            };
            // For a writer that needs many segments only what gives an eighth of one back: else the same few would be moved for ever.
            let live_max = if urgent { 1_000 } else { 875 };
            let chosen = match (short, garbage) {
                (true, _) => self.emptiest(table, (spare, live_max), &candidate),
                (false, true) => self.emptiest(table, (spare, 500), &|segment| {
                    candidate(segment) && matches!(table.content(*segment), Content::Area(_))
                }),
                (false, false) => None,
            };
            let oldest_estimated =
                || self.estimated(table, &candidate).min_by_key(|&segment| table.generation(segment));
            let estimated = || if short || must_know { oldest_estimated() } else { None };
            // What is not known may be dead, and is looked at once.
            let segment = if is_in_vain { estimated() } else { chosen.or_else(estimated) }?;
            let victim = Victim::new(table, core.layout, segment);
            let live_bytes = Left::of(table, segment).live_blocks * BLOCK_BYTES as u64;
            work.toil.moves(live_bytes);
            table.close(victim.segment());
            Some(victim)
        });
        // Before recovery is over there may be much to do in segments of values.
        let is_idle = urgent && victim.is_none() && coming == 0 && core.limbo.lock().is_empty() && knows_values;
        if work.idle.is_for_long(is_idle && core.is_short()) || is_idle && (is_in_vain || self.is_packed()) {
            core.give_up_hope(self.live_bytes);
        } else {
            core.hope.renew();
        }
        victim
    }

    /// Whether all that is moved for writers that wait is moved in vain.
    fn is_in_vain(&self, work: &mut Work, spare_zones: u32) -> bool {
        let core = self.core;
        if !core.is_short() {
            work.toil = Toil::default();
            return false;
        }
        let sight = Sight { spare_zones, live_bytes: core.counters.live_bytes(), writes: self.relocate.writes() };
        work.toil.is_in_vain(sight, core.layout.segment_blocks() * BLOCK_BYTES as u64)
    }

    /// Whether more is dead in segments of values than the client wants to bear, their unwritten ends included. Slots of dead pages take
    /// new ones, so they are no garbage. Cost: one pass over the segments.
    fn holds_garbage(&self) -> bool {
        let core = self.core;
        let Some(percent) = core.garbage_percent_max else { return false };
        let (_, values) = core.counters.live();
        let held_bytes: u64 = core.with_table(|table| {
            let is_sealed = |segment: &SegmentIndex| match table.content(*segment) {
                Content::Area(run) => run.is_sealed_values(),
                _ => false,
            };
            let sealed = core.layout.all().filter(is_sealed).skip(GARBAGE_ZONES_MIN as usize);
            sealed.map(|segment| core.layout.data_blocks(segment) * BLOCK_BYTES as u64).sum()
        });
        held_bytes > values.saturating_mul(100 + u64::from(percent)) / 100
    }

    /// The segment with the smallest live share, in thousandths below `live_max`, of which something can be gained. One of pages needs
    /// holes elsewhere or a segment that relocation may take; one of values such a segment.
    fn emptiest(
        &self,
        table: &Table,
        (spare, live_max): (u32, u64),
        candidate: &dyn Fn(&SegmentIndex) -> bool,
    ) -> Option<SegmentIndex> {
        let may_open = spare > RELOCATION_FLOOR;
        let room = table.hole_blocks();
        let share = |segment: SegmentIndex| {
            let data = self.core.layout.data_blocks(segment);
            let (live, possible, least) = match table.content(segment) {
                // A closed one is emptied already.
                Content::Pages(slots) if !table.is_filling(segment) && !table.is_closed(segment) => {
                    let holes_elsewhere = room - slots.free_blocks();
                    // Without live blocks it is free as soon as its batches are: nothing is to be moved.
                    (slots.live_blocks(), may_open || holes_elsewhere >= slots.live_blocks(), 1)
                }
                Content::Area(run) if run.is_sealed_values() => {
                    // What is counted as live is not sure: even one that holds nothing is walked, and that needs no room.
                    (run.live_bytes() / crate::BLOCK_BYTES as u64, may_open || run.live_bytes() == 0, 0)
                }
                _ => return None,
            };
            // In thousandths.
            (possible && live >= least && live < data && live * 1_000 < data * live_max)
                .then(|| (live * 1_000 / data, segment))
        };
        self.core.layout.all().filter(candidate).filter_map(share).min().map(|(_, segment)| segment)
    }

    /// The segments whose value bytes are an estimate.
    fn estimated(
        &self,
        table: &Table,
        candidate: &dyn Fn(&SegmentIndex) -> bool,
    ) -> impl Iterator<Item = SegmentIndex> {
        let estimated = |segment: &SegmentIndex| match table.content(*segment) {
            Content::Area(run) => run.is_estimated() && candidate(segment),
            _ => false,
        };
        self.core.layout.all().filter(estimated)
    }

    /// Whether live bytes and the unused ends of segments of values fill the usable space.
    fn is_packed(&self) -> bool {
        let core = self.core;
        let unused: u64 = core.with_table(|table| {
            let end = |segment| match table.content(segment) {
                Content::Area(run) if run.is_sealed_values() => core.layout.data_blocks(segment) - run.written_blocks(),
                _ => 0,
            };
            core.layout.all().map(end).sum()
        });
        core.would_be_full(unused * crate::BLOCK_BYTES as u64)
    }

    /// Looks at the next blocks of the victim; at its end, settles what becomes of it.
    fn empty(&self, work: &mut Work, mut victim: Victim) -> Result<Reclaimed, PageError> {
        if victim.begins() {
            // The walk reads the device: what waits to be written there must be there.
            self.core.write_waiting(self.core.writer.lock())?;
        }
        let looked = match victim.look(self) {
            // The tree found no room for what it moves.
            Err(PageError::Busy | PageError::NoSpace { .. }) => {
                self.core.write_waiting(self.core.writer.lock())?;
                victim.crowded()
            }
            looked => looked?,
        };
        let answer = match looked {
            Look::More => Reclaimed::Progress,
            Look::Wait => Reclaimed::Waiting,
            Look::Done => {
                self.conclude(work, &victim);
                return Ok(Reclaimed::Progress);
            }
        };
        work.victim = Some(victim);
        Ok(answer)
    }

    /// The victim was walked: its slots become free with their batches, or the segment is left alone.
    fn conclude(&self, work: &mut Work, victim: &Victim) {
        let segment = victim.segment();
        let (left, is_live) = self.core.with_table(|table| {
            let holds_pages = matches!(table.content(segment), Content::Pages(_));
            let left = Left::of(table, segment);
            (left, holds_pages && left.live_blocks > 0)
        });
        if victim.is_stuck() || is_live {
            work.stuck.insert(segment, left);
            self.core.with_table(|table| table.reopen(segment));
        } else if victim.holds_values() {
            self.condemn(segment);
        }
    }

    /// Makes the records of what was released durable, once it is worth it.
    fn commit(&self) -> Result<bool, PageError> {
        if !self.is_worth_a_commit() {
            return Ok(false);
        }
        let stamp = self.stamp_released();
        match self.relocate.commit_moves() {
            Err(PageError::Busy) => return Ok(false),
            outcome => outcome?,
        }
        self.core.limbo.lock().commit(stamp);
        Ok(true)
    }

    /// Makes a batch of what was released up to now. Where nothing was, an attempt before this one failed, and its stamp serves again: a
    /// store that fails for long is not to gather empty batches.
    fn stamp_released(&self) -> Stamp {
        let (released, before) = {
            let mut limbo = self.core.limbo.lock();
            (limbo.take_released(), limbo.newest_uncommitted())
        };
        match before.filter(|_| released.is_empty()) {
            Some(stamp) => stamp,
            None => {
                let stamp = self.relocate.stamp();
                self.core.limbo.lock().put(released, stamp);
                stamp
            }
        }
    }

    fn is_worth_a_commit(&self) -> bool {
        let (core, limbo) = (self.core, self.core.limbo.lock());
        let (released, condemned) = (limbo.released_blocks(), limbo.condemned());
        if limbo.has_uncommitted() {
            // An earlier attempt failed.
            return true;
        }
        drop(limbo);
        if released == 0 && condemned == 0 {
            return false;
        }
        let short = core.is_low(core.spare_segments());
        let room = core.room_blocks();
        let many = released >= COMMIT_BLOCKS_MAX.min(room / COMMIT_SHARE_OF_ROOM);
        many || condemned >= CONDEMNED_BATCH
            || (core.bears_none() && condemned > 0)
            || (short && (condemned > 0 || released >= room / COMMIT_SHARE_OF_ROOM))
            || core.is_short()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heat;
    use crate::in_place::layout::Layout;
    use crate::records::Thresholds;
    use crate::reserve::Reserve;
    use crate::stream::Claim;

    #[test]
    fn a_segment_that_was_left_is_like_any_other_once_something_changed_in_it() {
        let thresholds = Thresholds::of(1 << 20, 1 << 20, 1 << 16);
        let reserve = Reserve { zones: 4, low_water: 2, log_zones: 1, meta_zones: 1, bytes: 4 << 16, thresholds };
        let mut table = Table::new(Layout::new(256, 16).unwrap(), reserve);
        let take = |table: &mut Table| table.take(Heat::Hot, &[1, 1], Claim::Foreground).unwrap();
        let pages = take(&mut table);
        let segment = SegmentIndex(0);
        let left = Left::of(&table, segment);
        assert_eq!((left, left.live_blocks), (Left::of(&table, segment), 2));
        // Whoever was moving the pages releases one, and then the other; the segment is filled anew.
        assert!(table.release(pages[0]));
        assert_ne!(Left::of(&table, segment), left);
        assert!(table.release(pages[1]));
        pages.iter().for_each(|&at| table.free(at));
        assert_eq!(table.take_emptied(), [segment]);
        table.give(segment);
        assert_ne!(Left::of(&table, segment), left);
        assert_eq!(take(&mut table), pages);
        assert_ne!(Left::of(&table, segment), left, "as many pages, but not the same");
    }
}
