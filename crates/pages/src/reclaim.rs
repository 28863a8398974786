//! Reclaim: gets zones back (I3). ZKV leaves this to future work.
//!
//! Life of a victim: 1 chosen by live share (or age) among sealed data zones -> 2 walked with large reads; the tree moves what is
//! live -> 3 *condemned*: nothing in it is live, [`Relocate::stamp`] taken -> 4 committed: one [`Relocate::commit_moves`] for the
//! whole batch -> 5 [`Relocate::drained`] -> 6 reset. Zones whose pages all died are condemned without being read.
//!
//! Zones of log and MetaLog are reset as soon as their segment is released (`released.rs`). Only recovery reads them, and `release` says
//! that it does not need them any more, so they wait for no stamp and no commit: a snapshot that stays open does not hold up the log.
//!
//! Value bytes of an earlier life are an estimate, so zones with values are always walked; while a victim finds no room for what it would
//! move, others are looked at without moving anything (`survey.rs`). A zone in which a page cannot be verified,
//! and which is still live when everything else has moved, is left alone: reads of that page go on failing, the rest is safe. So is one
//! with values of which the device does not read something: nobody knows whether that is live.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use zonda_device::ZoneId;
use zonda_rt::atomic::Ordering;
use zonda_rt::{Mutex, Time, now};
use zonda_space::{VictimPolicy, ZoneUse, ZoneView};

use crate::flusher::Flusher;
use crate::frame::{Fault, Frame};
use crate::reserve::RELOCATION_FLOOR;
use crate::survey::Survey;
use crate::toil::{Sight, Toil};
use crate::walk::Walk;
use crate::zone_table::{Holds, Zone};
use crate::{AreaKind, ChunkAddress, PageAddress, PageError, Reclaimed, Relocate, Relocated, Stamp};

/// Blocks that one step looks at: 256 KiB.
const STEP_BLOCKS: u64 = 64;
/// Condemned zones that are worth a commit while free zones are plenty.
const BATCH: usize = 8;
/// Steps that a fully walked zone waits for releases that are under way before its rest is taken for dead.
const PATIENCE_STEPS: u32 = 16;

/// How long writers wait while nothing is found to do for them, before they are refused although not all usable space is live: what is not
/// may lie in zones that the log holds until the next checkpoint has ended.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Steps without room after which a step says `Waiting`.
const CROWDED_STEPS_MAX: u32 = 8;

/// What is under way.
#[derive(Default)]
struct Work {
    victim: Option<Victim>,
    condemned: Vec<Condemned>,
    /// Zones that the device did not reset: one of them is tried again before anything is moved.
    unreset: VecDeque<ZoneId>,
    /// Zones that hold something live which cannot be read, each as it was left. One in which anything changed since, or that holds
    /// something else by now, is a zone like any other.
    stuck: HashMap<ZoneId, Left>,
    /// A zone that is looked at while the victim finds no room.
    surveyed: Option<Surveyed>,
    /// Zones of which a survey could not tell all, each as it was then.
    unsure: HashMap<ZoneId, Left>,
    idle: Idle,
    toil: Toil,
}

impl Work {
    fn is_stuck(&self, view: &ZoneView) -> bool {
        self.stuck.get(&view.zone) == Some(&Left::of(view))
    }
}

/// A zone that was walked and still held something live.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    generation: u64,
    live_bytes: u64,
}

impl Left {
    fn of(view: &ZoneView) -> Self {
        Self { generation: view.generation, live_bytes: view.live_bytes }
    }
}

/// A zone with an estimate, and the look at it that moves nothing.
struct Surveyed {
    zone: ZoneId,
    generation: u64,
    /// What was counted as live when it began.
    value_bytes: u64,
    survey: Survey,
}

/// Since when nothing is found to do for writers that wait, and nothing has come back.
#[derive(Default)]
pub(crate) struct Idle(Option<Time>);

impl Idle {
    /// Whether that goes on for long, now that it `is_idle`, with somebody waiting, or not.
    pub(crate) fn is_for_long(&mut self, is_idle: bool) -> bool {
        if !is_idle {
            self.0 = None;
            return false;
        }
        let now = now();
        now.since(*self.0.get_or_insert(now)) > IDLE_MAX
    }
}

/// A zone being walked.
struct Victim {
    zone: ZoneId,
    walk: Walk,
    /// Frames whose leaf was latched: (block, blocks).
    busy: Vec<(u64, u64)>,
    damaged: bool,
    /// The tree could not tell of something whether it is live.
    unjudged: bool,
    patience_steps: u32,
    /// Steps in a row that found no room for what they moved.
    crowded_steps: u32,
}

impl Victim {
    /// Whether it has found no room for long.
    fn is_crowded(&self) -> bool {
        self.crowded_steps >= CROWDED_STEPS_MAX
    }
}

/// A zone that waits for its reset.
struct Condemned {
    zone: ZoneId,
    stamp: Stamp,
    committed: bool,
}

/// Reclaims zones; one thread at a time.
pub(crate) struct Reclaimer {
    policy: VictimPolicy,
    turn: Mutex<Work>,
}

/// One step's surroundings.
struct Scene<'a> {
    flusher: &'a Flusher,
    relocate: &'a dyn Relocate,
    policy: VictimPolicy,
    /// When it began.
    live_bytes: u64,
}

impl Reclaimer {
    pub(crate) fn new(policy: VictimPolicy) -> Self {
        Self { policy, turn: Mutex::new(Work::default()) }
    }

    /// One step: resets what may be reset, else cleans, else commits.
    ///
    /// # Errors
    /// Those of the tree and of the device. The step can be repeated.
    pub(crate) fn step(&self, flusher: &Flusher, relocate: &dyn Relocate) -> Result<Reclaimed, PageError> {
        let Some(mut work) = self.turn.try_lock() else {
            return Ok(if flusher.is_reclaimer() { Reclaimed::Inside } else { Reclaimed::Busy });
        };
        let _reclaimer = flusher.as_reclaimer();
        let live_bytes = flusher.counters.live_bytes();
        let stepped = Scene { flusher, relocate, policy: self.policy, live_bytes }.step(&mut work);
        if stepped.is_err() {
            // Perhaps nobody will try again: whoever waits for space must not wait for ever.
            flusher.give_up_hope(live_bytes);
        }
        stepped
    }
}

impl Scene<'_> {
    fn step(&self, work: &mut Work) -> Result<Reclaimed, PageError> {
        // A victim that finds no room must not keep zones from coming back that need none.
        let looks = work.victim.as_ref().is_none_or(|victim| victim.crowded_steps > 0);
        if self.flusher.reset_released()? || self.reset_drained(work)? || (looks && self.condemn_dead(work)) {
            work.idle = Idle::default();
            // There may be room for it now.
            work.victim.iter_mut().for_each(|victim| victim.crowded_steps = 0);
            return Ok(Reclaimed::Progress);
        }
        // Zones are scarce: get those back that need no more room before moving anything.
        if self.flusher.is_short() && self.commit(work)? {
            return Ok(Reclaimed::Progress);
        }
        self.give_way(work);
        let is_crowded = work.victim.as_ref().is_some_and(Victim::is_crowded);
        if is_crowded && self.relocate.knows_values() && self.survey(work)? {
            return Ok(Reclaimed::Progress);
        }
        if work.victim.is_none() {
            if self.flusher.is_low(self.flusher.spare_zones()) && self.reset_again(work)? {
                return Ok(Reclaimed::Progress);
            }
            work.victim = self.choose(work);
        }
        let cleaned = match work.victim.take() {
            Some(victim) => self.clean(work, victim)?,
            None => Reclaimed::Idle,
        };
        if work.victim.is_some() {
            self.judge_hope(work);
        }
        if cleaned == Reclaimed::Progress || self.commit(work)? {
            return Ok(Reclaimed::Progress);
        }
        Ok(if work.victim.is_none() && work.condemned.is_empty() { Reclaimed::Idle } else { Reclaimed::Waiting })
    }

    /// Whether a victim still lets writers hope: one that has found no room for long, with nothing on its way back, does not.
    fn judge_hope(&self, work: &mut Work) {
        let is_hopeless = work.condemned.is_empty() && work.victim.as_ref().is_some_and(Victim::is_crowded);
        if work.idle.is_for_long(is_hopeless && self.flusher.is_short()) {
            self.flusher.give_up_hope(self.live_bytes);
        } else if !is_hopeless {
            self.flusher.hope.renew();
        }
    }

    /// Resets condemned zones whose moves are committed and whose readers are gone. One that is not reset is nobody's error, as nobody
    /// needs what is in it.
    fn reset_drained(&self, work: &mut Work) -> Result<bool, PageError> {
        let drained = |zone: &Condemned| zone.committed && self.relocate.drained(zone.stamp);
        let mut any = false;
        while let Some(index) = work.condemned.iter().position(drained) {
            let zone = work.condemned[index].zone;
            let was_reset = self.reset(zone)?;
            work.condemned.swap_remove(index);
            any |= was_reset;
            if !was_reset {
                work.unreset.push_back(zone);
            }
        }
        Ok(any)
    }

    /// Tries again to reset a zone that was not.
    fn reset_again(&self, work: &mut Work) -> Result<bool, PageError> {
        let Some(&zone) = work.unreset.front() else { return Ok(false) };
        let was_reset = self.reset(zone)?;
        work.unreset.pop_front();
        if !was_reset {
            work.unreset.push_back(zone);
        }
        Ok(was_reset)
    }

    fn reset(&self, id: ZoneId) -> Result<bool, PageError> {
        let flusher = self.flusher;
        flusher.failed.forget(|at| flusher.space.zone_of(at.block()) == id);
        if !flusher.reset_zone(id)? {
            return Ok(false);
        }
        flusher.note_space();
        flusher.gate.wake();
        flusher.hope.renew();
        Ok(true)
    }

    /// Condemns the zones in which nothing is live, but for the victim, without reading them. Cost: one pass over the zones.
    fn condemn_dead(&self, work: &mut Work) -> bool {
        let dead = |id: ZoneId, zone: &Zone| {
            let holds_pages = zone.sealed_data().is_some_and(|(_, holds)| holds == Holds::PAGES);
            holds_pages && self.flusher.space.live_bytes(id) == 0
        };
        let before = work.condemned.len();
        let victim = work.victim.as_ref().map(|victim| victim.zone);
        for (id, zone) in self.flusher.zones.iter() {
            if Some(id) != victim && dead(id, zone) {
                self.condemn(work, id);
            }
        }
        work.condemned.len() > before
    }

    /// Gives a zone up: whatever was counted in it is dead.
    fn condemn(&self, work: &mut Work, id: ZoneId) {
        let (flusher, zone) = (self.flusher, self.flusher.zones.of(id));
        zone.condemn();
        flusher.forget_estimate(zone);
        let values = zone.value_bytes();
        let pages = flusher.space.live_bytes(id).saturating_sub(values);
        flusher.counters.sub_live_pages(pages);
        flusher.counters.sub_live_values(values);
        flusher.space.sub_live(id, pages + values);
        work.condemned.push(Condemned { zone: id, stamp: self.relocate.stamp(), committed: false });
    }

    /// The next victim, if zones are short or the live bytes must be known.
    fn choose(&self, work: &mut Work) -> Option<Victim> {
        let flusher = self.flusher;
        let spare = flusher.spare_zones();
        let coming = u32::try_from(work.condemned.len()).unwrap_or(u32::MAX);
        let short = flusher.is_low(spare.saturating_add(coming));
        let asked = flusher.must_look.swap(false, Ordering::Relaxed);
        let must_know = (asked || flusher.is_over_full()) && flusher.has_estimates() && self.relocate.knows_values();
        // A victim is begun only when its relocation cannot get stuck half way: with a zone for it.
        let has_room = spare > RELOCATION_FLOOR || coming == 0;
        if !short {
            work.idle = Idle::default();
            flusher.hope.renew();
        }
        // What is moved while snapshots or readers keep what was moved before gives nothing back yet.
        let garbage = (coming as usize) < BATCH && (flusher.bears_none() || flusher.holds_garbage(coming));
        if !has_room || !(short || must_know || garbage) {
            return None;
        }
        if short {
            // One that is not finished now either is nobody's error: there are others, or there is no victim.
            let _still_unfinished = flusher.space.finish_unfinished();
        }
        let is_in_vain = self.is_in_vain(work, spare.saturating_add(coming));
        let eligible = |view: &ZoneView| self.may_be_emptied(view) && !work.is_stuck(view);
        let wanted = |view: &ZoneView| eligible(view) && (short || is_worth_it(view));
        let chosen = if short || garbage { flusher.space.victim(self.policy, &wanted) } else { None };
        let oldest_estimated = || self.estimated_zones(&eligible).into_iter().min_by_key(|view| view.generation);
        let estimated = || if short || must_know { oldest_estimated() } else { None };
        // What is not known may be dead, and is looked at once.
        let chosen = if is_in_vain { estimated() } else { chosen.filter(is_worth_it).or_else(estimated).or(chosen) };
        // For a writer that needs many zones only what gives some back: else the same few would be moved for ever. What a read-only zone
        // holds is moved once.
        let urgent = spare.saturating_add(coming) <= flusher.reserve.low_water;
        let gains = |view: &ZoneView| gains_an_eighth(view) || view.state == ZoneUse::ReadOnly;
        let is_wanted = |view: &ZoneView| urgent || gains(view) || flusher.zones.of(view.zone).is_estimated();
        let chosen = chosen.filter(is_wanted);
        // Before recovery is over there may be much to do in zones with values.
        let is_idle = urgent && chosen.is_none() && coming == 0 && self.relocate.knows_values();
        if work.idle.is_for_long(is_idle && flusher.is_short()) || is_idle && (is_in_vain || self.is_packed()) {
            flusher.give_up_hope(self.live_bytes)
        } else {
            flusher.hope.renew()
        }
        let chosen = chosen?;
        work.toil.moves(chosen.live_bytes);
        Some(self.victim_of(&chosen))
    }

    /// Whether all that is moved for writers that wait is moved in vain.
    fn is_in_vain(&self, work: &mut Work, spare_zones: u32) -> bool {
        let flusher = self.flusher;
        if !flusher.is_short() {
            work.toil = Toil::default();
            return false;
        }
        let sight = Sight { spare_zones, live_bytes: flusher.counters.live_bytes(), writes: self.relocate.writes() };
        work.toil.is_in_vain(sight, flusher.space.zone_blocks() * crate::BLOCK_BYTES as u64)
    }

    /// A victim that has found no room for long gives way to one with less to move: of what has died meanwhile that may be enough. It may
    /// find room yet, so nobody is refused for it.
    fn give_way(&self, work: &mut Work) {
        let Some(crowded) = work.victim.as_ref().filter(|victim| victim.is_crowded()) else { return };
        let live_bytes = self.flusher.space.live_bytes(crowded.zone);
        let eligible = |view: &ZoneView| {
            self.may_be_emptied(view)
                && view.zone != crowded.zone
                && view.live_bytes < live_bytes
                && !work.is_stuck(view)
        };
        if let Some(lighter) = self.flusher.space.victim(VictimPolicy::Greedy, &eligible) {
            work.victim = Some(self.victim_of(&lighter));
        }
    }

    /// Looks on at values of an earlier life where nothing can be moved; `false` if all were looked at.
    fn survey(&self, work: &mut Work) -> Result<bool, PageError> {
        let is_there = |surveyed: &Surveyed| {
            let zone = self.flusher.zones.of(surveyed.zone);
            is_sealed(zone) && zone.generation() == surveyed.generation
        };
        let under_way = work.surveyed.take().filter(is_there);
        let Some(mut surveyed) = under_way.or_else(|| self.begin_survey(work)) else { return Ok(false) };
        let read = |bytes| self.flusher.counters.read(bytes);
        if surveyed.survey.step(self.flusher.eyes(), self.relocate, &read)? {
            work.surveyed = Some(surveyed);
        } else {
            self.settle(work, &surveyed);
        }
        Ok(true)
    }

    /// The newest first: copies that a cut left are younger than what they are copies of.
    fn begin_survey(&self, work: &Work) -> Option<Surveyed> {
        let eligible = |view: &ZoneView| {
            is_candidate(self.flusher.zones.of(view.zone), view)
                && !work.is_stuck(view)
                && work.unsure.get(&view.zone) != Some(&Left::of(view))
        };
        let view = self.estimated_zones(&eligible).into_iter().max_by_key(|view| view.generation)?;
        let value_bytes = self.flusher.zones.of(view.zone).value_bytes();
        let survey = Survey::new(self.walk_of(&view));
        Some(Surveyed { zone: view.zone, generation: view.generation, value_bytes, survey })
    }

    /// Counts what a survey found dead. If nothing is live, the zone needs no further look.
    fn settle(&self, work: &mut Work, surveyed: &Surveyed) {
        let (flusher, id, survey) = (self.flusher, surveyed.zone, &surveyed.survey);
        let zone = flusher.zones.of(id);
        // What dies beside the look is counted by whoever deletes it, and here perhaps as live still.
        let died_meanwhile = zone.value_bytes() < surveyed.value_bytes;
        flusher.sub_live_value(id, zone.value_bytes().saturating_sub(survey.live_bytes()));
        if survey.is_sure() && survey.live_bytes() == 0 && self.live_page_bytes(id) == 0 {
            work.victim.take_if(|victim| victim.zone == id);
            self.condemn(work, id);
        } else if survey.is_sure() && !died_meanwhile {
            flusher.forget_estimate(zone);
        } else {
            let live_bytes = flusher.space.live_bytes(id);
            work.unsure.insert(id, Left { generation: surveyed.generation, live_bytes });
        }
    }

    /// Whether a zone may be a victim now.
    fn may_be_emptied(&self, view: &ZoneView) -> bool {
        is_candidate(self.flusher.zones.of(view.zone), view)
            && (self.relocate.knows_values() || !self.holds_values(view.zone))
    }

    /// The zones whose value bytes are an estimate.
    fn estimated_zones(&self, eligible: &dyn Fn(&ZoneView) -> bool) -> Vec<ZoneView> {
        let mut views = self.flusher.space.view();
        views.retain(|view| eligible(view) && self.flusher.zones.of(view.zone).is_estimated());
        views
    }

    /// Whether live bytes and the unused ends of sealed zones fill the usable space.
    fn is_packed(&self) -> bool {
        let unused = |view: &ZoneView| view.capacity_bytes - view.written_bytes.min(view.capacity_bytes);
        let sealed = |view: &&ZoneView| is_candidate(self.flusher.zones.of(view.zone), view);
        let views = self.flusher.space.view();
        let unused_bytes: u64 = views.iter().filter(sealed).map(unused).sum();
        self.flusher.counters.live_bytes() + unused_bytes > self.flusher.usable_bytes()
    }

    fn walk_of(&self, view: &ZoneView) -> Walk {
        let first = self.flusher.space.first_block(view.zone);
        let end = first + 1 + view.written_bytes / crate::BLOCK_BYTES as u64;
        Walk::new(view.generation, first + 1, end)
    }

    fn victim_of(&self, view: &ZoneView) -> Victim {
        Victim {
            zone: view.zone,
            walk: self.walk_of(view),
            busy: Vec::new(),
            damaged: false,
            unjudged: false,
            patience_steps: PATIENCE_STEPS,
            crowded_steps: 0,
        }
    }

    /// Looks at the next blocks of the victim; at its end, settles what becomes of it.
    fn clean(&self, work: &mut Work, mut victim: Victim) -> Result<Reclaimed, PageError> {
        let stop = victim.walk.position() + STEP_BLOCKS;
        let mut more = true;
        while more && victim.walk.position() < stop && !self.is_done_early(victim.zone) {
            match self.look(&mut victim) {
                Ok(found) => {
                    more = found;
                    victim.crowded_steps = if found { 0 } else { victim.crowded_steps };
                }
                Err(error) => {
                    let outcome = self.make_way(work, &mut victim, error);
                    work.victim = Some(victim);
                    return outcome;
                }
            }
        }
        if more && !self.is_done_early(victim.zone) {
            work.victim = Some(victim);
            return Ok(Reclaimed::Progress);
        }
        self.conclude(work, victim)
    }

    /// The tree found no room for what it moves: writes what waits, so that the next step can go on. Where that does not help and no
    /// zone is on its way back, the next step may draw on what log and MetaLog do not need yet. Other errors pass.
    fn make_way(&self, work: &Work, victim: &mut Victim, error: PageError) -> Result<Reclaimed, PageError> {
        if !matches!(error, PageError::Busy | PageError::NoSpace { .. }) {
            return Err(error);
        }
        self.flusher.make_way()?;
        victim.crowded_steps += 1;
        self.flusher.last_resort.store(work.condemned.is_empty() && victim.crowded_steps > 1, Ordering::Relaxed);
        Ok(if victim.is_crowded() { Reclaimed::Waiting } else { Reclaimed::Progress })
    }

    /// A zone of pages alone in which nothing is live any more needs no further look.
    fn is_done_early(&self, id: ZoneId) -> bool {
        self.flusher.zones.of(id).holds() == Holds::PAGES && self.flusher.space.live_bytes(id) == 0
    }

    /// Handles the frame at the walk's position; `false` at the end.
    fn look(&self, victim: &mut Victim) -> Result<bool, PageError> {
        let Some(step) = victim.walk.look(self.flusher.eyes(), |bytes| self.flusher.counters.read(bytes))? else {
            return Ok(false);
        };
        let frame = match step.frame {
            Ok(frame) => frame,
            // A torn tail, an unwritten rest of a finished zone, or damage: the next frame begins at some later block.
            Err(fault) => {
                victim.damaged = true;
                victim.unjudged |= fault == Fault::Unreadable && self.holds_values(victim.zone);
                victim.walk.advance(1);
                return Ok(true);
            }
        };
        let (block, blocks) = (step.block, frame.blocks());
        match self.relocate_frame(block, &frame) {
            Ok(Relocated::Busy) => victim.busy.push((block, blocks)),
            Ok(_) => {}
            // What cannot be understood keeps its zone; it must not stop the others.
            Err(PageError::Damaged { .. }) => victim.unjudged = true,
            Err(error) => return Err(error),
        }
        victim.walk.advance(blocks);
        Ok(true)
    }

    fn relocate_frame(&self, block: u64, frame: &Frame<'_>) -> Result<Relocated, PageError> {
        match frame {
            Frame::Page(page) => self.relocate.relocate_page(page.id, PageAddress::new(block, page.blocks), page.body),
            Frame::Chunk(chunk) if chunk.kind == AreaKind::Values => {
                let _label = zonda_device::cut_label("value reclaim");
                self.relocate.relocate_value(ChunkAddress(block), chunk.payload)
            }
            Frame::Chunk(_) => Ok(Relocated::Dead),
        }
    }

    /// The walk is over: asks again for what was busy, then condemns the zone or leaves it alone.
    fn conclude(&self, work: &mut Work, mut victim: Victim) -> Result<Reclaimed, PageError> {
        if !self.is_done_early(victim.zone) {
            if let Err(error) = self.ask_again(&mut victim) {
                let outcome = self.make_way(work, &mut victim, error);
                work.victim = Some(victim);
                return outcome;
            }
            let live = self.live_page_bytes(victim.zone) > 0;
            let waits = !victim.busy.is_empty() || (live && victim.patience_steps > 0);
            self.flusher.last_resort.store(false, Ordering::Relaxed);
            victim.crowded_steps = 0;
            if waits {
                victim.patience_steps = victim.patience_steps.saturating_sub(1);
                work.victim = Some(victim);
                return Ok(Reclaimed::Waiting);
            }
            if victim.unjudged || (live && victim.damaged) {
                let zone = self.flusher.zones.of(victim.zone);
                let live_bytes = self.flusher.space.live_bytes(victim.zone);
                work.stuck.insert(victim.zone, Left { generation: zone.generation(), live_bytes });
                return Ok(Reclaimed::Progress);
            }
        }
        self.condemn(work, victim.zone);
        Ok(Reclaimed::Progress)
    }

    /// Of pages it is known where the live ones are, of values only their bytes.
    fn holds_values(&self, id: ZoneId) -> bool {
        self.flusher.zones.of(id).holds().any_of(Holds::area(AreaKind::Values))
    }

    fn live_page_bytes(&self, id: ZoneId) -> u64 {
        self.flusher.space.live_bytes(id).saturating_sub(self.flusher.zones.of(id).value_bytes())
    }

    fn ask_again(&self, victim: &mut Victim) -> Result<(), PageError> {
        let generation = self.flusher.zones.of(victim.zone).generation();
        for index in (0..victim.busy.len()).rev() {
            let (block, blocks) = victim.busy[index];
            let mut walk = Walk::new(generation, block, block + blocks);
            let step = walk.look(self.flusher.eyes(), |bytes| self.flusher.counters.read(bytes))?;
            let answer = match step.map(|step| step.frame) {
                Some(Ok(frame)) => match self.relocate_frame(block, &frame) {
                    Err(PageError::Damaged { .. }) => {
                        victim.unjudged = true;
                        Relocated::Dead
                    }
                    answer => answer?,
                },
                // It was whole when it was looked at first.
                Some(Err(_)) => {
                    victim.damaged = true;
                    victim.unjudged |= self.holds_values(victim.zone);
                    Relocated::Dead
                }
                None => Relocated::Dead,
            };
            if answer != Relocated::Busy {
                victim.busy.swap_remove(index);
            }
        }
        Ok(())
    }

    /// Commits the moves of all condemned zones, once it is worth it.
    fn commit(&self, work: &mut Work) -> Result<bool, PageError> {
        let waiting = work.condemned.iter().filter(|zone| !zone.committed).count();
        let short = self.flusher.is_low(self.flusher.spare_zones()) || self.flusher.bears_none();
        if waiting == 0 || (waiting < BATCH && !short) {
            return Ok(false);
        }
        match self.relocate.commit_moves() {
            Err(PageError::Busy) => return Ok(false),
            outcome => outcome?,
        }
        work.condemned.iter_mut().for_each(|zone| zone.committed = true);
        Ok(true)
    }
}

/// Whether a zone holds something of this store and nobody writes it.
pub(crate) fn is_sealed(zone: &Zone) -> bool {
    zone.generation() != 0 && !zone.is_open() && !zone.is_kept() && !zone.is_condemned()
}

/// Whether a victim gives at least half a zone back. While less is to be had of all that is known, a zone whose live bytes are an
/// estimate is the better choice: moving the same few zones for ever would gain nothing.
fn is_worth_it(view: &ZoneView) -> bool {
    2 * view.live_bytes <= view.capacity_bytes
}

/// Whether a victim gives at least an eighth of a zone back.
fn gains_an_eighth(view: &ZoneView) -> bool {
    8 * view.live_bytes <= 7 * view.capacity_bytes
}

/// Whether a zone may be a victim.
fn is_candidate(zone: &Zone, view: &ZoneView) -> bool {
    zone.sealed_data().is_some_and(|(generation, _)| generation == view.generation)
}
